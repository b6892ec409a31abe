/* Versions that were committed to tables while a command ran, as their own logs tell: the plan knows the one before at best. */
package whence;

import java.lang.reflect.Method;

class Commits {
    private static final java.util.regex.Pattern AT = java.util.regex.Pattern.compile("\"timestamp\":(\\d+)");
    private static final java.util.regex.Pattern DID = java.util.regex.Pattern.compile("\"operation\":\"([^\"]*)\"");
    private static final int MOST = 50;
    private final long started;
    private final long ended;

    Commits(long started, long ended) {
        this.started = started;
        this.ended = ended;
    }

    /** The version of a Delta table; null if none was made, or several were, so that it is not known whose is which. */
    String ofDelta(Object log, org.apache.hadoop.conf.Configuration conf) throws Exception {
        org.apache.hadoop.fs.Path folder = (org.apache.hadoop.fs.Path) Reading.call(log, "logPath");
        org.apache.hadoop.fs.FileSystem files = folder.getFileSystem(conf);
        long latest = ((Number) Reading.call(Reading.call(log, "unsafeVolatileSnapshot"), "version")).longValue();
        String made = null;
        for (long version = latest; version >= 0 && version > latest - MOST; version--) {
            String head = head(files, new org.apache.hadoop.fs.Path(folder, String.format("%020d.json", new Object[] {Long.valueOf(version)})));
            java.util.regex.Matcher at = AT.matcher(head);
            java.util.regex.Matcher did = DID.matcher(head);
            if (!at.find() || !did.find()) {
                return null;
            }
            long time = Long.parseLong(at.group(1));
            if (time < started) {
                break;
            }
            if (time <= ended && !did.group(1).equals("OPTIMIZE")) {
                if (made != null) {
                    return null;
                }
                made = String.valueOf(version);
            }
        }
        return made;
    }

    /* Delta writes down first what a commit is. */
    private static String head(org.apache.hadoop.fs.FileSystem files, org.apache.hadoop.fs.Path path) throws Exception {
        org.apache.hadoop.fs.FSDataInputStream in = files.open(path);
        try {
            byte[] found = new byte[65536];
            int length = 0;
            while (length < found.length) {
                int more = in.read(found, length, found.length - length);
                if (more < 0) {
                    break;
                }
                length += more;
            }
            return new String(found, 0, length, "UTF-8");
        } finally {
            in.close();
        }
    }

    static Object deltaLog(ClassLoader loader, Object spark, String path) throws Exception {
        Class type = Class.forName("org.apache.spark.sql.delta.DeltaLog$", true, loader);
        Method[] methods = type.getMethods();
        for (int i = 0; i < methods.length; i++) {
            Class[] takes = methods[i].getParameterTypes();
            if (methods[i].getName().equals("forTable") && takes.length == 2 && takes[1] == String.class) {
                return methods[i].invoke(type.getField("MODULE$").get(null), new Object[] {spark, path});
            }
        }
        throw new NoSuchMethodException("forTable");
    }

    /** The snapshot of an Iceberg table that was read, and the one that was made, or null; `pinned`: one that is named. */
    static String[] ofIceberg(Object table, Object pinned, Object branch, Commits commits) throws Exception {
        if (pinned != null) {
            return new String[] {String.valueOf(pinned), null};
        }
        Object snapshot = branch == null ? Reading.call(table, "currentSnapshot") : Reading.called(table, "snapshot", String.class, branch);
        String made = null;
        boolean several = false;
        while (snapshot != null && commits != null && time(snapshot) > commits.started) {
            if (time(snapshot) <= commits.ended && !"replace".equals(String.valueOf(Reading.call(snapshot, "operation")))) {
                several = several || made != null;
                made = String.valueOf(Reading.call(snapshot, "snapshotId"));
            }
            Object before = Reading.call(snapshot, "parentId");
            snapshot = before == null ? null : Reading.called(table, "snapshot", Long.TYPE, before);
        }
        return new String[] {snapshot == null ? null : String.valueOf(Reading.call(snapshot, "snapshotId")), several ? null : made};
    }

    private static long time(Object snapshot) throws Exception {
        return ((Number) Reading.call(snapshot, "timestampMillis")).longValue();
    }
}
