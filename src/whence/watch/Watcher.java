/*
 * Runs in the driver's JVM, compiled at attach time by Janino (the compiler inside Spark); see listener.py, which loads it.
 * It turns the plan of every finished execution into one line of JSON and keeps the lines until Python fetches them.
 * Nothing here may throw into Spark, wait for anybody, or grow without bound. Janino knows neither lambdas nor generics, and
 * makes private methods static, so that a private synchronized one would lock the class and not the object.
 */
package whence;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

public class Watcher extends SparkListener {
    private final ArrayDeque lines = new ArrayDeque();
    private final LinkedHashMap started = new LinkedHashMap();
    private final java.util.HashSet noted = new java.util.HashSet();
    private final LinkedHashMap executions = new LinkedHashMap();
    private final LinkedHashMap moved = new LinkedHashMap();
    private final int capacity;
    private final int maxChars;
    private final long maxNanos;
    private final int maxLevels;
    private long waiting = 0;
    private long oldest = 0;
    private long newest = 0;
    private int running = 0;
    private boolean urgent = false;
    private long dropped = 0;
    private long failed = 0;
    private boolean closed = false;

    public Watcher(int capacity, int maxChars, long maxMillis, int maxLevels) {
        this.capacity = capacity;
        this.maxChars = maxChars;
        this.maxNanos = maxMillis * 1000000L;
        this.maxLevels = maxLevels;
    }

    /* ---- Python's side ---- */

    /**
     * The oldest lines, joined by newlines; waits up to so many milliseconds for the first. Python's work on them would take
     * turns with the user's own Python code, so they are given in batches: once no query has run for `settle` milliseconds,
     * when there are many, when the first has waited for `longest`, or at once when somebody asked (mark).
     */
    public synchronized String take(int most, long millis, long settle, long longest) throws InterruptedException {
        if (lines.isEmpty() && !closed && millis > 0) {
            wait(millis);
        }
        while (!lines.isEmpty() && !closed && !urgent && lines.size() < most && waiting < maxChars) {
            long now = System.currentTimeMillis();
            long left = oldest + longest - now;
            long unsettled = running > 0 ? left : Math.min(left, newest + settle - now);
            if (unsettled <= 0) {
                break;
            }
            wait(unsettled);
        }
        StringBuilder all = new StringBuilder();
        int taken = 0;
        while (taken < most && !lines.isEmpty() && all.length() < 16000000) {
            String line = (String) lines.poll();
            waiting -= line.length();
            if (taken++ > 0) {
                all.append('\n');
            }
            all.append(line);
        }
        if (lines.isEmpty()) {
            urgent = false;
        }
        oldest = System.currentTimeMillis();
        return all.toString();
    }

    public synchronized long dropped() {
        return dropped;
    }

    public synchronized long failed() {
        return failed;
    }

    public synchronized int size() {
        return lines.size();
    }

    public synchronized void close() {
        closed = true;
        notifyAll();
    }

    public synchronized void put(String line) {
        if (closed || lines.size() >= capacity || waiting > 20L * maxChars) {
            dropped++;
            return;
        }
        add(line);
    }

    /** A line that Python waits for: it and all before it are given at once, however many there are. */
    public synchronized void mark(String line) {
        urgent = true;
        add(line);
    }

    private void add(String line) {
        newest = System.currentTimeMillis();
        if (lines.isEmpty()) {
            oldest = newest;
        }
        lines.add(line);
        waiting += line.length();
        notifyAll();
    }

    synchronized void running(int now) {
        running = now;
        newest = System.currentTimeMillis();
        notifyAll();
    }

    /** Tell also of jobs that compute this RDD (it came from a DataFrame, so its name says nothing). */
    public synchronized void note(int rdd) {
        if (noted.size() > 10000) {
            noted.clear();
        }
        noted.add(Integer.valueOf(rdd));
    }

    /** The plan of a DataFrame as it stands, for the patches in Python (models, df.rdd). */
    public String plan(QueryExecution qe) {
        return new Snapshot(qe, this, maxChars, maxNanos, maxLevels, null).plan(false);
    }

    /** Ids of the attributes that a plan's leaves give, then "|" and ids of the RDDs they read: by these a leaf is known again. */
    public String leafIds(QueryExecution qe) {
        StringBuilder out = new StringBuilder();
        StringBuilder rdds = new StringBuilder();
        scala.collection.Iterator leaves = qe.analyzed().collectLeaves().iterator();
        while (leaves.hasNext()) {
            LogicalPlan leaf = (LogicalPlan) leaves.next();
            scala.collection.Iterator attributes = leaf.output().iterator();
            while (attributes.hasNext()) {
                Object attribute = attributes.next();
                if (attribute instanceof AttributeReference) {
                    out.append(((AttributeReference) attribute).exprId().id()).append(' ');
                }
            }
            if (leaf instanceof org.apache.spark.sql.execution.LogicalRDD) {
                rdds.append(((org.apache.spark.sql.execution.LogicalRDD) leaf).rdd().id()).append(' ');
            }
        }
        return out.append('|').append(rdds).toString();
    }

    public String outputIds(QueryExecution qe) {
        StringBuilder out = new StringBuilder();
        scala.collection.Iterator attributes = qe.analyzed().output().iterator();
        while (attributes.hasNext()) {
            out.append(((org.apache.spark.sql.catalyst.expressions.Attribute) attributes.next()).exprId().id()).append(' ');
        }
        return out.toString();
    }

    public String qualified(String path, org.apache.spark.SparkContext context) throws Exception {
        org.apache.hadoop.fs.Path given = new org.apache.hadoop.fs.Path(path);
        return given.getFileSystem(context.hadoopConfiguration()).makeQualified(given).toString();
    }

    /** The RDDs behind one, as lines "id<tab>name<tab>class<tab>path"; stops at the ids given (space separated). */
    public String rdds(org.apache.spark.rdd.RDD rdd, String stop) {
        java.util.HashSet seen = new java.util.HashSet();
        String[] ends = stop.split(" ");
        java.util.HashSet endings = new java.util.HashSet();
        for (int i = 0; i < ends.length; i++) {
            endings.add(ends[i]);
        }
        ArrayDeque todo = new ArrayDeque();
        todo.add(rdd);
        StringBuilder out = new StringBuilder();
        while (!todo.isEmpty() && seen.size() < 10000) {
            org.apache.spark.rdd.RDD next = (org.apache.spark.rdd.RDD) todo.poll();
            if (!seen.add(Integer.valueOf(next.id()))) {
                continue;
            }
            out.append(next.id()).append('\t').append(next.name() == null ? "" : next.name().replace('\n', ' ').replace('\t', ' '));
            out.append('\t').append(next.getClass().getSimpleName()).append('\t').append(rddPath(next)).append('\n');
            if (endings.contains(String.valueOf(next.id()))) {
                continue;
            }
            scala.collection.Iterator dependencies = next.dependencies().iterator();
            while (dependencies.hasNext()) {
                todo.add(((org.apache.spark.Dependency) dependencies.next()).rdd());
            }
        }
        return out.toString();
    }

    static String rddPath(org.apache.spark.rdd.RDD rdd) {
        try {
            if (rdd instanceof org.apache.spark.rdd.HadoopRDD) {
                Object conf = call(rdd, "getJobConf");
                return String.valueOf(call(conf, "get", "mapreduce.input.fileinputformat.inputdir"));
            }
            if (rdd instanceof org.apache.spark.rdd.NewHadoopRDD) {
                Object conf = call(rdd, "getConf");
                return String.valueOf(call(conf, "get", "mapreduce.input.fileinputformat.inputdir"));
            }
        } catch (Throwable ignored) {
        }
        return "";
    }

    /* ---- Spark's side ---- */

    public void onOtherEvent(SparkListenerEvent event) {
        try {
            if (event instanceof SparkListenerSQLExecutionStart) {
                SparkListenerSQLExecutionStart start = (SparkListenerSQLExecutionStart) event;
                if (started.size() > 10000) {
                    started.remove(started.keySet().iterator().next());
                }
                started.put(Long.valueOf(start.executionId()), start);
                running(started.size());
            } else if (event instanceof SparkListenerSQLExecutionEnd) {
                SparkListenerSQLExecutionEnd end = (SparkListenerSQLExecutionEnd) event;
                SparkListenerSQLExecutionStart start = (SparkListenerSQLExecutionStart) started.remove(Long.valueOf(end.executionId()));
                running(started.size());
                finished(start, end);
            } else if (event.getClass().getName().startsWith("org.apache.spark.sql.streaming.StreamingQueryListener")) {
                streaming(event);
            }
        } catch (Throwable problem) {
            problem(problem);
        }
    }

    public void onJobStart(SparkListenerJobStart start) {
        try {
            String execution = start.properties() == null ? null : start.properties().getProperty("spark.sql.execution.id");
            if (execution != null) {
                scala.collection.Iterator ids = start.stageIds().iterator();
                while (ids.hasNext()) {
                    keep(executions, ids.next(), Long.valueOf(execution));
                }
                return;
            }
            String tags = start.properties() == null ? null : start.properties().getProperty("spark.job.tags");
            if (tags != null && tags.indexOf("whence-quiet") >= 0) {
                return;
            }
            StringBuilder names = new StringBuilder();
            StringBuilder ids = new StringBuilder();
            scala.collection.Iterator stages = start.stageInfos().iterator();
            while (stages.hasNext()) {
                scala.collection.Iterator rdds = ((org.apache.spark.scheduler.StageInfo) stages.next()).rddInfos().iterator();
                while (rdds.hasNext()) {
                    org.apache.spark.storage.RDDInfo rdd = (org.apache.spark.storage.RDDInfo) rdds.next();
                    if (rdd.name() != null && rdd.name().indexOf('/') >= 0 && rdd.name().indexOf(' ') < 0) {
                        names.append(names.length() > 0 ? "," : "").append(Snapshot.quote(rdd.name()));
                    }
                    if (isNoted(rdd.id())) {
                        ids.append(ids.length() > 0 ? "," : "").append(rdd.id());
                    }
                }
            }
            if (names.length() + ids.length() > 0) {
                Object site = start.properties() == null ? null : start.properties().getProperty("callSite.short");
                put("{\"what\":\"job\",\"job\":" + start.jobId() + ",\"at\":" + start.time() + ",\"paths\":[" + names + "],\"rdds\":["
                    + ids + "],\"site\":" + Snapshot.quote(site == null ? "" : site.toString()) + "}");
            }
        } catch (Throwable problem) {
            problem(problem);
        }
    }

    /** What the tasks of an execution read and wrote, stage by stage; only this thread uses these maps. */
    public void onStageCompleted(SparkListenerStageCompleted completed) {
        try {
            org.apache.spark.scheduler.StageInfo stage = completed.stageInfo();
            Object execution = executions.remove(Integer.valueOf(stage.stageId()));
            org.apache.spark.executor.TaskMetrics metrics = stage.taskMetrics();
            if (execution == null || metrics == null) {
                return;
            }
            long[] sums = (long[]) moved.get(execution);
            if (sums == null) {
                sums = new long[4];
                keep(moved, execution, sums);
            }
            sums[0] += metrics.inputMetrics().recordsRead();
            sums[1] += metrics.inputMetrics().bytesRead();
            sums[2] += metrics.outputMetrics().recordsWritten();
            sums[3] += metrics.outputMetrics().bytesWritten();
        } catch (Throwable problem) {
            problem(problem);
        }
    }

    static void keep(LinkedHashMap map, Object key, Object value) {
        if (map.size() > 10000) {
            map.remove(map.keySet().iterator().next());
        }
        map.put(key, value);
    }

    synchronized boolean isNoted(int rdd) {
        return noted.contains(Integer.valueOf(rdd));
    }

    public void onApplicationEnd(SparkListenerApplicationEnd end) {
        put("{\"what\":\"end\",\"at\":" + end.time() + "}");
    }

    private void streaming(SparkListenerEvent event) throws Exception {
        String name = event.getClass().getSimpleName();
        StringBuilder line = new StringBuilder("{\"what\":\"stream\",\"event\":").append(Snapshot.quote(name));
        if (name.indexOf("Progress") >= 0) {
            line.append(",\"progress\":").append(String.valueOf(call(call(event, "progress"), "json")));
        } else {
            line.append(",\"id\":").append(Snapshot.quote(String.valueOf(call(event, "id"))));
            line.append(",\"run\":").append(Snapshot.quote(String.valueOf(call(event, "runId"))));
            if (name.indexOf("Started") >= 0) {
                line.append(",\"name\":").append(Snapshot.quote(String.valueOf(call(event, "name"))));
            }
            if (name.indexOf("Terminated") >= 0) {
                Object exception = call(event, "exception");
                if (exception instanceof scala.Some) {
                    line.append(",\"error\":").append(Snapshot.quote(String.valueOf(((scala.Some) exception).value())));
                }
            }
            line.append(",\"at\":").append(System.currentTimeMillis());
        }
        put(line.append('}').toString());
    }

    private void finished(SparkListenerSQLExecutionStart start, SparkListenerSQLExecutionEnd end) {
        long began = System.nanoTime();
        QueryExecution qe = end.qe();
        long[] sums = (long[]) moved.remove(Long.valueOf(end.executionId()));
        if (start != null && start.jobTags().toString().indexOf("whence-quiet") >= 0) {
            return;
        }
        StringBuilder line = new StringBuilder("{\"what\":\"query\",\"id\":").append(end.executionId());
        if (start != null) {
            line.append(",\"started\":").append(start.time()).append(",\"call\":").append(Snapshot.quote(Snapshot.cut(start.description(), 500)));
            Object root = start.rootExecutionId();
            if (root instanceof scala.Some) {
                line.append(",\"root\":").append(((scala.Some) root).value());
            }
        } else if (started.size() == 1) {
            // it failed before it began, inside the only one that runs
            line.append(",\"root\":").append(started.keySet().iterator().next());
        }
        line.append(",\"ended\":").append(end.time());
        Object name = end.executionName();
        if (name instanceof scala.Some) {
            line.append(",\"action\":").append(Snapshot.quote(String.valueOf(((scala.Some) name).value())));
        }
        Object failure = end.executionFailure();
        boolean hasFailed = failure instanceof scala.Some;
        if (hasFailed) {
            Throwable cause = (Throwable) ((scala.Some) failure).value();
            line.append(",\"error\":").append(Snapshot.quote(Snapshot.cut(String.valueOf(cause), 4000)));
        } else if (end.errorMessage() instanceof scala.Some && ((scala.Some) end.errorMessage()).value().toString().length() > 0) {
            line.append(",\"error\":").append(Snapshot.quote(Snapshot.cut(((scala.Some) end.errorMessage()).value().toString(), 4000)));
            hasFailed = true;
        }
        if (sums != null) {
            line.append(",\"moved\":[").append(sums[0]).append(',').append(sums[1]).append(',').append(sums[2]).append(',').append(sums[3]).append(']');
        }
        if (qe != null) {
            boolean fromText = start != null && (start.description().startsWith("sql at ") || start.details().startsWith("org.apache.spark.sql")
                && Snapshot.firstLine(start.details()).indexOf("Session.sql(") >= 0);
            Commits commits = start == null ? null : new Commits(start.time(), end.time());
            line.append(new Snapshot(qe, this, maxChars, maxNanos, maxLevels, commits).execution(hasFailed, fromText));
        }
        line.append(",\"micros\":").append((System.nanoTime() - began) / 1000L).append('}');
        put(line.toString());
    }

    synchronized void problem(Throwable problem) {
        failed++;
        if (lines.size() < capacity) {
            add("{\"what\":\"problem\",\"text\":" + Snapshot.quote(Snapshot.cut(String.valueOf(problem), 1000)) + "}");
        }
    }

    static Object call(Object target, String method) throws Exception {
        return Snapshot.call(target, method);
    }

    static Object call(Object target, String method, String argument) throws Exception {
        Method found = target.getClass().getMethod(method, new Class[] {String.class});
        return found.invoke(target, new Object[] {argument});
    }
}

class TooLarge extends RuntimeException {
    TooLarge() {
        super("too large", null, false, false);
    }
}

/* Versions that were committed to tables while a command ran, as their own logs tell: the plan knows the one before at best. */
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
        org.apache.hadoop.fs.Path folder = (org.apache.hadoop.fs.Path) Snapshot.call(log, "logPath");
        org.apache.hadoop.fs.FileSystem files = folder.getFileSystem(conf);
        long latest = ((Number) Snapshot.call(Snapshot.call(log, "unsafeVolatileSnapshot"), "version")).longValue();
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
        Object snapshot = branch == null ? Snapshot.call(table, "currentSnapshot") : called(table, "snapshot", String.class, branch);
        String made = null;
        boolean several = false;
        while (snapshot != null && commits != null && time(snapshot) > commits.started) {
            if (time(snapshot) <= commits.ended && !"replace".equals(String.valueOf(Snapshot.call(snapshot, "operation")))) {
                several = several || made != null;
                made = String.valueOf(Snapshot.call(snapshot, "snapshotId"));
            }
            Object before = Snapshot.call(snapshot, "parentId");
            snapshot = before == null ? null : called(table, "snapshot", Long.TYPE, before);
        }
        return new String[] {snapshot == null ? null : String.valueOf(Snapshot.call(snapshot, "snapshotId")), several ? null : made};
    }

    private static long time(Object snapshot) throws Exception {
        return ((Number) Snapshot.call(snapshot, "timestampMillis")).longValue();
    }

    private static Object called(Object target, String method, Class takes, Object argument) throws Exception {
        Method found = target.getClass().getMethod(method, new Class[] {takes});
        found.setAccessible(true);
        return found.invoke(target, new Object[] {argument});
    }
}

/* One plan as JSON: a node is {"c": class, "f": fields, "k": children}, an expression likewise, an attribute its number. */
class Snapshot {
    /* Operators whose columns follow from their own expressions: their output need not be told. */
    private static final String PLAIN = " Project Filter Join Sort SubqueryAlias GlobalLimit LocalLimit Aggregate Window Generate Expand"
        + " Repartition RepartitionByExpression ResolvedHint Sample LateralJoin ";
    private static final String CHAINS = " Add Subtract Multiply And Or Concat BitwiseAnd BitwiseOr ";
    private final QueryExecution qe;
    private final Watcher watcher;
    private final int maxChars;
    private final int maxLevels;
    private final long deadline;
    /* What was committed to tables while this ran; null for a plan that has not run. */
    private final Commits commits;
    private StringBuilder out = new StringBuilder();
    private boolean coarse = false;
    private int nodes = 0;
    private int depth = 0;

    Snapshot(QueryExecution qe, Watcher watcher, int maxChars, long maxNanos, int maxLevels, Commits commits) {
        this.qe = qe;
        this.commits = commits;
        this.watcher = watcher;
        this.maxLevels = maxLevels;
        this.maxChars = maxChars;
        this.deadline = System.nanoTime() + maxNanos;
    }

    /* Of a failed execution nothing lazy is asked: Spark would raise its cached exception again, with this stack trace in it. */
    String execution(boolean hasFailed, boolean fromText) {
        StringBuilder line = new StringBuilder();
        try {
            String text = sql(qe.logical(), 1);
            if (text == null && fromText) {
                text = sql(isAnalyzed(hasFailed) ? qe.analyzed() : qe.logical(), 1000);
            }
            if (text != null) {
                line.append(",\"sql\":").append(quote(cut(text, 20000)));
            }
            if (qe.getClass().getSimpleName().equals("IncrementalExecution")) {
                line.append(",\"stream\":{\"query\":").append(quote(String.valueOf(call(qe, "queryId"))));
                line.append(",\"run\":").append(quote(String.valueOf(call(qe, "runId"))));
                line.append(",\"batch\":").append(call(qe, "currentBatchId")).append('}');
            }
        } catch (Throwable ignored) {
        }
        try {
            String mode = qe.sparkSession().sessionState().conf().getConfString("spark.sql.sources.partitionOverwriteMode", "STATIC");
            line.append(",\"dynamic\":").append(mode.equalsIgnoreCase("DYNAMIC"));
        } catch (Throwable ignored) {
        }
        String text = plan(hasFailed);
        line.append(",\"plan\":").append(text);
        if (!hasFailed && !text.equals("{\"c\":\"CommandResult\"}")) {
            try {
                altered(line);
                made(line);
                line.append(Counts.of(qe.executedPlan()));
            } catch (Throwable ignored) {
            }
        }
        if (!hasFailed && text.toLowerCase().indexOf("\"subscribepattern\"") >= 0) {
            java.util.TreeSet topics = new java.util.TreeSet();
            try {
                topics(qe.executedPlan(), topics, 0);
            } catch (Throwable ignored) {
            }
            StringBuilder found = new StringBuilder();
            java.util.Iterator some = topics.iterator();
            while (some.hasNext()) {
                found.append(found.length() > 0 ? "," : "").append(quote(String.valueOf(some.next())));
            }
            line.append(",\"topics\":[").append(found).append(']');
        }
        line.append(",\"coarse\":").append(coarse);
        return line.toString();
    }

    /* A pattern says which topics might be read; only the physical scan knows which were. */
    private static void topics(org.apache.spark.sql.execution.SparkPlan plan, java.util.Set found, int depth) throws Exception {
        if (depth > 20) {
            return;
        }
        scala.collection.Iterator leaves = plan.collectLeaves().iterator();
        while (leaves.hasNext()) {
            Object leaf = leaves.next();
            String name = leaf.getClass().getSimpleName();
            if (name.equals("AdaptiveSparkPlanExec")) {
                topics((org.apache.spark.sql.execution.SparkPlan) call(leaf, "executedPlan"), found, depth + 1);
            } else if (name.endsWith("QueryStageExec")) {
                topics((org.apache.spark.sql.execution.SparkPlan) call(leaf, "plan"), found, depth + 1);
            } else if (name.equals("BatchScanExec")) {
                scala.collection.Iterator partitions = ((scala.collection.Seq) call(leaf, "inputPartitions")).iterator();
                while (partitions.hasNext()) {
                    topic(partitions.next(), found);
                }
            } else if (name.equals("RowDataSourceScanExec")) {
                org.apache.spark.rdd.RDD rdd = (org.apache.spark.rdd.RDD) call(leaf, "rdd");
                while (!rdd.getClass().getSimpleName().equals("KafkaSourceRDD") && !rdd.dependencies().isEmpty()) {
                    rdd = ((org.apache.spark.Dependency) rdd.dependencies().head()).rdd();
                }
                org.apache.spark.Partition[] partitions = rdd.partitions();
                for (int i = 0; i < partitions.length; i++) {
                    topic(partitions[i], found);
                }
            }
        }
    }

    private static void topic(Object partition, java.util.Set found) throws Exception {
        Object range = field(partition, "offsetRange", "offsetRange");
        if (range != null) {
            found.add(call(call(range, "topicPartition"), "topic"));
        }
    }

    /* The text that a plan was parsed from; rules that rewrite a command may lose it at the top, but not further down. */
    private static String sql(LogicalPlan plan, int most) {
        ArrayDeque todo = new ArrayDeque();
        todo.add(plan);
        for (int i = 0; i < most && !todo.isEmpty(); i++) {
            LogicalPlan next = (LogicalPlan) todo.poll();
            Object text = next.origin().sqlText();
            if (text instanceof scala.Some && !(next.origin().objectType() instanceof scala.Some)) {
                return String.valueOf(((scala.Some) text).value());
            }
            if (!next.getClass().getSimpleName().equals("View")) {
                push(todo, next);
            }
        }
        return null;
    }

    private boolean isAnalyzed(boolean hasFailed) {
        return !hasFailed || qe.tracker().phases().contains("analysis");
    }

    /* The columns of a table as they are after an ALTER: the command itself tells the change, or not even that. */
    private void altered(StringBuilder line) throws Exception {
        LogicalPlan plan = qe.analyzed();
        String name = plan.getClass().getSimpleName();
        if (!(plan instanceof Command) || !(name.startsWith("AlterTable") || name.indexOf("Column") >= 0)) {
            return;
        }
        StructType schema = null;
        Object first = plan.children().isEmpty() && plan.productArity() > 0 ? plan.productElement(0) : null;
        if (first instanceof org.apache.spark.sql.catalyst.TableIdentifier && name.indexOf("Rename") < 0) {
            schema = ((org.apache.spark.sql.classic.SparkSession) qe.sparkSession()).sessionState().catalog()
                .getTableMetadata((org.apache.spark.sql.catalyst.TableIdentifier) first).schema();
        } else if (!plan.children().isEmpty() && plan.children().head().getClass().getSimpleName().equals("ResolvedTable")) {
            Object resolved = plan.children().head();
            Object catalog = call(resolved, "catalog");
            Table table = ((org.apache.spark.sql.connector.catalog.TableCatalog) catalog).loadTable((Identifier) call(resolved, "identifier"));
            schema = org.apache.spark.sql.connector.catalog.CatalogV2Util.v2ColumnsToStructType(table.columns());
        }
        if (schema != null) {
            StringBuilder kept = out;
            out = new StringBuilder();
            value(schema, 0);
            line.append(",\"now\":").append(out);
            out = kept;
        }
    }

    /* The table that a command has made, which its plan only names. */
    private void made(StringBuilder line) throws Exception {
        LogicalPlan plan = qe.analyzed();
        String name = plan.getClass().getSimpleName();
        if (name.equals("SaveIntoDataSourceCommand")) {
            Object source = call(plan, "dataSource");
            String path = option(((scala.collection.Map) call(plan, "options")).get("path"));
            if (source.getClass().getName().startsWith("org.apache.spark.sql.delta.") && path.length() > 0) {
                Object log = Commits.deltaLog(source.getClass().getClassLoader(), qe.sparkSession(), path);
                line.append(",\"made\":{\"after\":").append(quote(commits.ofDelta(log, configuration()))).append('}');
            }
        }
        if (!name.equals("CreateTableAsSelect") && !name.equals("ReplaceTableAsSelect")) {
            return;
        }
        Object resolved = call(plan, "name");
        Object catalog = call(resolved, "catalog");
        Table table = ((org.apache.spark.sql.connector.catalog.TableCatalog) catalog).loadTable((Identifier) call(resolved, "identifier"));
        StringBuilder kept = out;
        out = new StringBuilder();
        v2table(table);
        line.append(",\"made\":").append(out);
        out = kept;
    }

    private org.apache.hadoop.conf.Configuration configuration() throws Exception {
        return qe.sparkSession().sessionState().newHadoopConf();
    }

    String plan(boolean hasFailed) {
        LogicalPlan analyzed = null;
        try {
            if (!isAnalyzed(hasFailed)) {
                return "null";
            }
            analyzed = qe.analyzed();
            if (!hasFailed && analyzed instanceof Command && qe.commandExecuted().getClass().getSimpleName().equals("CommandResult")) {
                return "{\"c\":\"CommandResult\"}";
            }
        } catch (Throwable notAnalyzed) {
            return "null";
        }
        try {
            node(analyzed, true);
        } catch (TooLarge problem) {
            again(analyzed);
        } catch (StackOverflowError problem) {
            again(analyzed);
        }
        return out.toString();
    }

    /* Too much for the caps: datasets only, without any expression; below the command everything is flat. */
    private void again(LogicalPlan analyzed) {
        coarse = true;
        depth = 0;
        String start = "{\"c\":" + quote(analyzed.getClass().getSimpleName());
        out = new StringBuilder(start);
        if (analyzed instanceof Command) {
            try {
                fields(analyzed, analyzed.children());
            } catch (Throwable problem) {
                out = new StringBuilder(start);
            }
        }
        out.append(",\"k\":[");
        ArrayDeque todo = new ArrayDeque();
        push(todo, analyzed);
        boolean first = true;
        while (!todo.isEmpty()) {
            int before = out.length();
            try {
                if (!first) {
                    out.append(',');
                }
                flat((LogicalPlan) todo.poll());
                first = false;
            } catch (Throwable problem) {
                out.setLength(before);
            }
        }
        out.append("]}");
    }

    /* A plan with all its leaves as children, also those of subqueries. */
    private void flat(LogicalPlan plan) {
        if (plan.children().isEmpty() && plan.innerChildren().isEmpty()) {
            node(plan, false);
            return;
        }
        out.append("{\"c\":").append(quote(plan.getClass().getSimpleName())).append(",\"o\":");
        output(plan);
        out.append(",\"k\":[");
        ArrayDeque todo = new ArrayDeque();
        java.util.IdentityHashMap seen = new java.util.IdentityHashMap();
        push(todo, plan);
        boolean first = true;
        while (!todo.isEmpty()) {
            LogicalPlan next = (LogicalPlan) todo.poll();
            if (seen.put(next, next) != null) {
                continue;
            }
            push(todo, next);
            if (next.children().isEmpty()) {
                int before = out.length();
                int level = depth;
                try {
                    if (!first) {
                        out.append(',');
                    }
                    node(next, false);
                    first = false;
                } catch (Throwable problem) {
                    out.setLength(before);
                    depth = level;
                }
            }
        }
        out.append("]}");
    }

    private static void push(ArrayDeque todo, LogicalPlan plan) {
        scala.collection.Iterator some = plan.children().iterator();
        while (some.hasNext()) {
            todo.add(some.next());
        }
        some = plan.innerChildren().iterator();
        while (some.hasNext()) {
            Object inner = some.next();
            if (inner instanceof LogicalPlan) {
                todo.add(inner);
            }
        }
    }

    private void check() {
        if (!coarse && (out.length() > maxChars || ((++nodes & 255) == 0 && System.nanoTime() > deadline))) {
            throw new TooLarge();
        }
        if (coarse && out.length() > 2 * maxChars + 1000000) {
            throw new TooLarge();
        }
    }

    /* Python cannot read JSON of too many levels; a node or expression is two. */
    private void deeper() {
        check();
        if (++depth > maxLevels) {
            throw new TooLarge();
        }
    }

    private void node(LogicalPlan plan, boolean withOutput) {
        deeper();
        String name = plan.getClass().getSimpleName();
        out.append("{\"c\":").append(quote(name));
        if (!coarse || plan.children().isEmpty()) {
            fields(plan, plan.children());
        }
        boolean plain = PLAIN.indexOf(" " + name + " ") >= 0;
        if (plan.children().isEmpty() && !(plan instanceof Command)) {
            out.append(",\"out\":");
            output(plan);
        } else if (withOutput || !plain) {
            out.append(",\"o\":");
            output(plan);
        }
        if (!plan.children().isEmpty()) {
            out.append(",\"k\":[");
            scala.collection.Iterator some = plan.children().iterator();
            boolean first = true;
            while (some.hasNext()) {
                if (!first) {
                    out.append(',');
                }
                first = false;
                node((LogicalPlan) some.next(), !plain);
            }
            out.append(']');
        }
        out.append('}');
        depth--;
    }

    private void output(LogicalPlan plan) {
        out.append('[');
        try {
            scala.collection.Iterator some = plan.output().iterator();
            boolean first = true;
            while (some.hasNext()) {
                Object next = some.next();
                if (!(next instanceof org.apache.spark.sql.catalyst.expressions.Attribute)) {
                    continue;
                }
                org.apache.spark.sql.catalyst.expressions.Attribute attribute = (org.apache.spark.sql.catalyst.expressions.Attribute) next;
                /* File, position and the like, which a scan tells beside its own columns. */
                if (plan.children().isEmpty() && attribute.metadata().contains("__metadata_col")) {
                    continue;
                }
                if (!first) {
                    out.append(',');
                }
                first = false;
                out.append('[').append(attribute.exprId().id()).append(',').append(quote(attribute.name()));
                out.append(',').append(quote(cut(attribute.dataType().catalogString(), 300))).append(']');
                check();
            }
        } catch (TooLarge problem) {
            throw problem;
        } catch (Throwable unresolved) {
        }
        out.append(']');
    }

    private void fields(scala.Product node, scala.collection.Seq children) {
        out.append(",\"f\":{");
        boolean first = true;
        for (int i = 0; i < node.productArity(); i++) {
            Object field = node.productElement(i);
            if (field == null || isChild(field, children)) {
                continue;
            }
            if (!first) {
                out.append(',');
            }
            first = false;
            out.append(quote(node.productElementName(i))).append(':');
            value(field, 0);
        }
        out.append('}');
    }

    private static boolean isChild(Object field, scala.collection.Seq children) {
        if (field instanceof LogicalPlan) {
            scala.collection.Iterator some = children.iterator();
            while (some.hasNext()) {
                if (some.next() == field) {
                    return true;
                }
            }
        }
        if (field == children && !children.isEmpty()) {
            return true;
        }
        return false;
    }

    private void value(Object value, int depth) {
        check();
        if (value == null || value instanceof scala.None$ || depth > 12) {
            out.append("null");
        } else if (value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            out.append(value.toString());
        } else if (value instanceof String) {
            out.append(quote(cut((String) value, 4000)));
        } else if (value instanceof Expression) {
            expression((Expression) value);
        } else if (value instanceof LogicalPlan) {
            out.append("{\"plan\":");
            if (coarse) {
                flat((LogicalPlan) value);
            } else {
                node((LogicalPlan) value, true);
            }
            out.append('}');
        } else if (value instanceof scala.Some) {
            value(((scala.Some) value).value(), depth);
        } else if (value instanceof StructType) {
            StructField[] fields = ((StructType) value).fields();
            out.append('[');
            for (int i = 0; i < fields.length; i++) {
                out.append(i > 0 ? "," : "").append("[null,").append(quote(fields[i].name())).append(',');
                out.append(quote(cut(fields[i].dataType().catalogString(), 300))).append(']');
            }
            out.append(']');
        } else if (value instanceof StructField) {
            out.append("[null,").append(quote(((StructField) value).name())).append(',');
            out.append(quote(cut(((StructField) value).dataType().catalogString(), 300))).append(']');
        } else if (value instanceof org.apache.spark.rdd.RDD) {
            rdd((org.apache.spark.rdd.RDD) value);
        } else if (value instanceof CatalogTable) {
            table((CatalogTable) value);
        } else if (value instanceof CatalogStorageFormat) {
            out.append("{\"location\":").append(quote(option(((CatalogStorageFormat) value).locationUri()))).append('}');
        } else if (value instanceof CatalogDatabase) {
            CatalogDatabase database = (CatalogDatabase) value;
            out.append("{\"database\":").append(quote(database.name())).append(",\"location\":");
            out.append(quote(String.valueOf(database.locationUri()))).append('}');
        } else if (value instanceof org.apache.spark.sql.catalyst.TableIdentifier) {
            org.apache.spark.sql.catalyst.TableIdentifier id = (org.apache.spark.sql.catalyst.TableIdentifier) value;
            out.append("{\"table\":").append(quote(id.table())).append(",\"database\":").append(quote(option(id.database())));
            out.append(",\"catalog\":").append(quote(option(id.catalog()))).append('}');
        } else if (value instanceof HadoopFsRelation) {
            HadoopFsRelation relation = (HadoopFsRelation) value;
            out.append("{\"c\":\"HadoopFsRelation\",\"format\":").append(quote(relation.fileFormat().getClass().getSimpleName()));
            out.append(",\"paths\":");
            paths(relation.location());
            out.append(",\"base\":").append(quote(option(relation.options().get("basePath")))).append('}');
        } else if (value instanceof FileIndex) {
            out.append("{\"c\":").append(quote(value.getClass().getSimpleName())).append(",\"paths\":");
            paths((FileIndex) value);
            out.append('}');
        } else if (value instanceof BaseRelation) {
            out.append("{\"c\":").append(quote(value.getClass().getSimpleName())).append(",\"class\":").append(quote(value.getClass().getName()));
            options(value);
            out.append('}');
        } else if (value instanceof Table) {
            v2table((Table) value);
        } else if (value instanceof CatalogPlugin) {
            String name = ((CatalogPlugin) value).name();
            out.append("{\"catalog\":").append(quote(name)).append(",\"warehouse\":").append(quote(warehouse(name))).append('}');
        } else if (value instanceof Identifier) {
            Identifier id = (Identifier) value;
            out.append("{\"name\":").append(quote(id.name())).append(",\"namespace\":[");
            String[] parts = id.namespace();
            for (int i = 0; i < parts.length; i++) {
                out.append(i > 0 ? "," : "").append(quote(parts[i]));
            }
            out.append("]}");
        } else if (value instanceof scala.collection.Map) {
            map((scala.collection.Map) value, depth);
        } else if (value instanceof java.util.Map) {
            javaMap((java.util.Map) value);
        } else if (value instanceof scala.collection.Iterable) {
            sequence(((scala.collection.Iterable) value).iterator(), depth);
        } else if (value instanceof Object[]) {
            Object[] items = (Object[]) value;
            out.append('[');
            for (int i = 0; i < items.length && i < 20000; i++) {
                out.append(i > 0 ? "," : "");
                value(items[i], depth + 1);
            }
            out.append(']');
        } else if (value instanceof org.apache.hadoop.fs.Path || value instanceof java.net.URI || value instanceof Enum
            || value instanceof java.util.UUID) {
            out.append(quote(value.toString()));
        } else if (value instanceof scala.Tuple2) {
            out.append('[');
            value(((scala.Tuple2) value)._1(), depth + 1);
            out.append(',');
            value(((scala.Tuple2) value)._2(), depth + 1);
            out.append(']');
        } else if (isSink(value)) {
            out.append("{\"c\":").append(quote(value.getClass().getSimpleName())).append(",\"text\":").append(quote(cut(String.valueOf(value), 1000)));
            options(value);
            out.append('}');
        } else if (value instanceof scala.Product && value.getClass().getName().startsWith("org.apache.spark.sql")) {
            scala.Product product = (scala.Product) value;
            out.append("{\"c\":").append(quote(value.getClass().getSimpleName()));
            for (int i = 0; i < product.productArity(); i++) {
                out.append(',').append(quote(product.productElementName(i))).append(':');
                value(product.productElement(i), depth + 1);
            }
            out.append('}');
        } else {
            out.append("{\"c\":").append(quote(value.getClass().getSimpleName())).append('}');
        }
    }

    /* An RDD and what it is computed from: the id, class and paths of each RDD behind it that has none behind it or is noted. */
    private void rdd(org.apache.spark.rdd.RDD rdd) {
        out.append("{\"c\":").append(quote(rdd.getClass().getSimpleName())).append(",\"id\":").append(rdd.id()).append(",\"behind\":[");
        java.util.HashSet seen = new java.util.HashSet();
        ArrayDeque todo = new ArrayDeque();
        todo.add(rdd);
        boolean first = true;
        boolean kept = false;
        while (!todo.isEmpty() && seen.size() < 10000) {
            org.apache.spark.rdd.RDD next = (org.apache.spark.rdd.RDD) todo.poll();
            if (!seen.add(Integer.valueOf(next.id()))) {
                continue;
            }
            kept |= next.getStorageLevel().useMemory() || next.getStorageLevel().useDisk();
            boolean ends = next.dependencies().isEmpty() || watcher.isNoted(next.id());
            if (ends) {
                out.append(first ? "" : ",").append('[').append(next.id()).append(',').append(quote(next.getClass().getSimpleName()));
                out.append(',').append(quote(Watcher.rddPath(next))).append(']');
                first = false;
                continue;
            }
            scala.collection.Iterator dependencies = next.dependencies().iterator();
            while (dependencies.hasNext()) {
                todo.add(((org.apache.spark.Dependency) dependencies.next()).rdd());
            }
        }
        out.append("],\"kept\":").append(kept).append('}');
    }

    private static boolean isSink(Object value) {
        return value instanceof org.apache.spark.sql.connector.catalog.SupportsWrite
            || value.getClass().getSimpleName().endsWith("Sink");
    }

    private void sequence(scala.collection.Iterator some, int depth) {
        out.append('[');
        boolean first = true;
        while (some.hasNext()) {
            if (!first) {
                out.append(',');
            }
            first = false;
            value(some.next(), depth + 1);
        }
        out.append(']');
    }

    private void map(scala.collection.Map map, int depth) {
        out.append('{');
        scala.collection.Iterator some = map.iterator();
        boolean first = true;
        while (some.hasNext()) {
            scala.Tuple2 pair = (scala.Tuple2) some.next();
            if (!first) {
                out.append(',');
            }
            first = false;
            out.append(quote(String.valueOf(pair._1()))).append(':');
            value(pair._2(), depth + 1);
        }
        out.append('}');
    }

    private void javaMap(java.util.Map map) {
        out.append('{');
        java.util.Iterator some = map.entrySet().iterator();
        boolean first = true;
        while (some.hasNext()) {
            java.util.Map.Entry entry = (java.util.Map.Entry) some.next();
            if (!first) {
                out.append(',');
            }
            first = false;
            out.append(quote(String.valueOf(entry.getKey()))).append(':').append(quote(cut(String.valueOf(entry.getValue()), 4000)));
        }
        out.append('}');
    }

    private void paths(FileIndex index) {
        out.append('[');
        scala.collection.Iterator some = index.rootPaths().iterator();
        for (int i = 0; some.hasNext() && i < 10000; i++) {
            out.append(i > 0 ? "," : "").append(quote(String.valueOf(some.next())));
            check();
        }
        out.append(']');
        Object version = field(index, "versionAtAnalysis", "snapshotAtAnalysis");
        if (version != null) {
            out.append(",\"version\":").append(quote(version(version)));
            after(index);
        }
    }

    /* Of a table of Delta's: the version that the command made. A query makes none, so its tables' logs are not read. */
    private void after(Object table) {
        try {
            if (commits != null && qe.analyzed() instanceof Command) {
                String made = commits.ofDelta(call(table, "deltaLog"), configuration());
                if (made != null) {
                    out.append(",\"after\":").append(quote(made));
                }
            }
        } catch (Throwable unknown) {
        }
    }

    private static String version(Object found) {
        try {
            if (found instanceof scala.Some) {
                return version(((scala.Some) found).value());
            }
            if (found instanceof Number) {
                return found.toString();
            }
            return String.valueOf(call(found, "version"));
        } catch (Throwable unknown) {
            return "";
        }
    }

    /* Where a catalogue of this name keeps its tables, as its settings say; two applications may give one name to two places. */
    private String warehouse(String catalog) {
        String[] keys = new String[] {"warehouse", "uri", "url"};
        for (int i = 0; i < keys.length; i++) {
            try {
                String found = qe.sparkSession().sessionState().conf().getConfString("spark.sql.catalog." + catalog + "." + keys[i], "");
                if (found.length() > 0) {
                    return found;
                }
            } catch (Throwable unset) {
            }
        }
        return "";
    }

    private void table(CatalogTable table) {
        out.append("{\"table\":").append(quote(table.identifier().table())).append(",\"database\":").append(quote(option(table.identifier().database())));
        out.append(",\"catalog\":").append(quote(option(table.identifier().catalog())));
        String location = option(table.storage().locationUri());
        String type = table.tableType().name();
        if (location.length() == 0 && !type.equals("VIEW")) {
            try {
                location = String.valueOf(((org.apache.spark.sql.classic.SparkSession) qe.sparkSession()).sessionState().catalog()
                    .defaultTablePath(table.identifier()));
            } catch (Throwable unknown) {
            }
        }
        out.append(",\"location\":").append(quote(location)).append(",\"type\":").append(quote(type));
        out.append(",\"provider\":").append(quote(option(table.provider()))).append(",\"owner\":").append(quote(String.valueOf(table.owner())));
        out.append(",\"columns\":");
        value(table.schema(), 0);
        if (type.equals("EXTERNAL") || option(table.provider()).equalsIgnoreCase("jdbc")) {
            out.append(",\"options\":");
            value(table.storage().properties(), 0);
        }
        out.append('}');
    }

    /* Where tables are audited before they are published, the session's own branch stands for them, once it is there. */
    private Object audited(Object table) throws Exception {
        java.util.Map properties = (java.util.Map) call(table, "properties");
        String branch = option(qe.sparkSession().conf().getOption("spark.wap.branch"));
        boolean there = branch.length() > 0 && "true".equalsIgnoreCase(String.valueOf(properties.get("write.wap.enabled")));
        return there && ((java.util.Map) call(table, "refs")).containsKey(branch) ? branch : null;
    }

    private void v2table(Table table) {
        out.append("{\"c\":").append(quote(table.getClass().getSimpleName())).append(",\"class\":").append(quote(table.getClass().getName()));
        String name = "";
        try {
            name = table.name();
        } catch (Throwable unknown) {
        }
        out.append(",\"name\":").append(quote(name));
        if (table.getClass().getSimpleName().equals("RowLevelOperationTable")) {
            try {
                out.append(",\"operation\":").append(quote(String.valueOf(call(call(table, "operation"), "command"))));
            } catch (Throwable unknown) {
            }
        }
        int before = out.length();
        try {
            out.append(",\"properties\":");
            javaMap(table.properties());
        } catch (Throwable unknown) {
            out.setLength(before);
        }
        before = out.length();
        try {
            Object catalogTable = field(table, "v1Table", "catalogTable");
            if (catalogTable instanceof scala.Some) {
                catalogTable = ((scala.Some) catalogTable).value();
            }
            if (catalogTable instanceof CatalogTable) {
                out.append(",\"table\":");
                table((CatalogTable) catalogTable);
            }
        } catch (TooLarge problem) {
            throw problem;
        } catch (Throwable unknown) {
            out.setLength(before);
        }
        try {
            Object shown = table;
            Object inner = field(table, "table", "icebergTable");
            if (inner instanceof Table) {
                shown = inner;
                inner = field(inner, "table", "icebergTable");
            }
            if (inner != null && inner.getClass().getName().indexOf("iceberg") >= 0) {
                out.append(",\"location\":").append(quote(String.valueOf(call(inner, "location"))));
                Object pinned = pinned(shown);
                Object branch = field(shown, "branch", "branch");
                if (pinned == null && branch == null) {
                    branch = audited(inner);
                }
                out.append(",\"ref\":").append(pinned != null || branch != null);
                String[] found = Commits.ofIceberg(inner, pinned, branch, commits);
                out.append(",\"version\":").append(quote(found[0])).append(",\"after\":").append(quote(found[1]));
            }
        } catch (Throwable unknown) {
        }
        if (table.getClass().getSimpleName().equals("DeltaTableV2")) {
            try {
                String planned = version(call(table, "initialSnapshot"));
                out.append(",\"version\":").append(quote(planned));
                after(table);
                if (qe.analyzed().getClass().getSimpleName().equals("RestoreTableCommand")) {
                    out.append(",\"columns\":");
                    value(table.schema(), 0);
                }
            } catch (Throwable unknown) {
            }
        }
        options(table);
        out.append('}');
    }

    /* What a source of any maker says about itself: its maps of options and its paths, found by the fields' names. */
    private void options(Object source) {
        StringBuilder kept = out;
        StringBuilder found = new StringBuilder();
        try {
            Class type = source.getClass();
            java.util.HashSet seen = new java.util.HashSet();
            while (type != null && type != Object.class) {
                Field[] fields = type.getDeclaredFields();
                for (int i = 0; i < fields.length; i++) {
                    String name = fields[i].getName();
                    String low = name.toLowerCase();
                    boolean wanted = low.indexOf("options") >= 0 || low.indexOf("parameters") >= 0 || low.indexOf("params") >= 0
                        || low.equals("path") || low.equals("paths") || low.equals("tablename") || low.equals("catalog")
                        || low.equals("topic") || low.equals("servers") || low.equals("executorkafkaparams");
                    if (!wanted || !seen.add(name) || java.lang.reflect.Modifier.isStatic(fields[i].getModifiers())) {
                        continue;
                    }
                    out = new StringBuilder();
                    try {
                        fields[i].setAccessible(true);
                        Object held = fields[i].get(source);
                        if (held == null) {
                            continue;
                        }
                        if (held.getClass().getSimpleName().startsWith("JDBCOptions") || held.getClass().getSimpleName().startsWith("JdbcOptions")) {
                            held = call(held, "parameters");
                        }
                        value(held, 8);
                        if (found.length() > 0) {
                            found.append(',');
                        }
                        found.append(quote(name)).append(':').append(out);
                    } catch (TooLarge problem) {
                        throw problem;
                    } catch (Throwable unreadable) {
                    }
                }
                type = type.getSuperclass();
            }
        } finally {
            out = kept;
        }
        out.append(",\"options\":{").append(found).append('}');
    }

    private void expression(Expression expression) {
        check();
        if (coarse) {
            out.append("null");
            return;
        }
        if (expression instanceof AttributeReference) {
            out.append(((AttributeReference) expression).exprId().id());
            return;
        }
        if (expression instanceof Literal) {
            out.append("{\"c\":\"Literal\"}");
            return;
        }
        if (expression.getClass().getSimpleName().equals("CreateNamedStruct")) {
            struct(expression);
            return;
        }
        String name = expression.getClass().getSimpleName();
        if (name.equals("OuterReference") && ((scala.Product) expression).productElement(0) instanceof Expression) {
            expression((Expression) ((scala.Product) expression).productElement(0));
            return;
        }
        if (name.equals("Cast") || name.equals("UpCast")) {
            Expression inner = (Expression) expression.children().head();
            if (inner.resolved() && inner.dataType().equals(expression.dataType())) {
                expression(inner);
                return;
            }
        }
        deeper();
        out.append("{\"c\":").append(quote(name));
        if (expression instanceof Alias) {
            out.append(",\"id\":").append(((Alias) expression).exprId().id()).append(",\"n\":").append(quote(((Alias) expression).name()));
            Expression aliased = ((Alias) expression).child();
            if (aliased instanceof Literal && ((Alias) expression).name().equals("topic")) {
                out.append(",\"v\":").append(quote(cut(String.valueOf(((Literal) aliased).value()), 300)));
            }
        } else if (expression instanceof GetStructField) {
            out.append(",\"n\":").append(quote(fieldName((GetStructField) expression)));
        } else if (expression instanceof PlanExpression) {
            Object inner = ((PlanExpression) expression).plan();
            if (inner instanceof LogicalPlan) {
                out.append(",\"p\":");
                node((LogicalPlan) inner, true);
            }
        } else if (name.endsWith("UDF") || name.endsWith("UDAF") || name.endsWith("UDTF") || name.endsWith("Invoke") || name.endsWith("Aggregator")) {
            out.append(",\"n\":").append(quote(function(expression)));
        } else if (name.equals("CommonExpressionDef") || name.equals("CommonExpressionRef")) {
            try {
                out.append(",\"ref\":").append(quote(String.valueOf(call(expression, "id"))));
            } catch (Throwable unknown) {
            }
        } else if (name.equals("DeltaMergeAction")) {
            try {
                out.append(",\"n\":").append(quote(String.valueOf(((scala.collection.Seq) call(expression, "targetColNameParts")).head())));
            } catch (Throwable unknown) {
            }
        } else if (expression instanceof org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable) {
            out.append(",\"id\":").append(((org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable) expression).exprId().id());
        }
        if (!expression.children().isEmpty()) {
            out.append(",\"k\":[");
            operands(expression);
            out.append(']');
        }
        if (expression.children().isEmpty() && expression instanceof org.apache.spark.sql.catalyst.expressions.Attribute) {
            try {
                out.append(",\"id\":").append(((org.apache.spark.sql.catalyst.expressions.Attribute) expression).exprId().id());
            } catch (Throwable unresolved) {
            }
        }
        out.append('}');
        depth--;
    }

    /* A long a + b + c ... is one operator with many operands, or it would be as deep as it is long. */
    private void operands(Expression expression) {
        String name = expression.getClass().getSimpleName();
        boolean flat = CHAINS.indexOf(" " + name + " ") >= 0;
        ArrayDeque todo = new ArrayDeque();
        todo.add(expression);
        boolean first = true;
        while (!todo.isEmpty()) {
            Expression next = (Expression) todo.poll();
            if (next == expression || (flat && next.getClass() == expression.getClass())) {
                java.util.ArrayList inner = new java.util.ArrayList();
                scala.collection.Iterator some = next.children().iterator();
                while (some.hasNext()) {
                    inner.add(some.next());
                }
                for (int i = inner.size() - 1; i >= 0; i--) {
                    todo.addFirst(inner.get(i));
                }
                continue;
            }
            if (!first) {
                out.append(',');
            }
            first = false;
            expression(next);
        }
    }

    private void struct(Expression expression) {
        out.append("{\"c\":\"CreateNamedStruct\",\"k\":[");
        scala.collection.Iterator some = expression.children().iterator();
        for (int i = 0; some.hasNext(); i++) {
            Expression next = (Expression) some.next();
            out.append(i > 0 ? "," : "");
            if (i % 2 == 0 && next instanceof Literal) {
                out.append("{\"c\":\"Literal\",\"v\":").append(quote(cut(String.valueOf(((Literal) next).value()), 200))).append('}');
            } else {
                expression(next);
            }
        }
        out.append("]}");
    }

    private static String fieldName(GetStructField field) {
        try {
            return field.extractFieldName();
        } catch (Throwable unknown) {
            return String.valueOf(field.ordinal());
        }
    }

    private static String function(Expression expression) {
        String[] names = new String[] {"name", "udfName", "functionName", "nodeName"};
        for (int i = 0; i < names.length; i++) {
            try {
                Object found = call(expression, names[i]);
                if (found instanceof scala.Some) {
                    found = ((scala.Some) found).value();
                }
                if (found instanceof String && ((String) found).length() > 0) {
                    return (String) found;
                }
            } catch (Throwable next) {
            }
        }
        return "";
    }

    static Object call(Object target, String method) throws Exception {
        Class type = target.getClass();
        Method found = type.getMethod(method, new Class[0]);
        found.setAccessible(true);
        return found.invoke(target, new Object[0]);
    }

    /* The snapshot that an Iceberg table is read at because it was named. From 1.12 on Spark 4.1 on a plan also holds the newest one
     * of the moment when it was made. */
    private static Object pinned(Object table) {
        Object number = field(table, "snapshotId", "snapshotId");
        try {
            java.lang.reflect.Field asked = table.getClass().getDeclaredField("timeTravel");
            asked.setAccessible(true);
            return asked.get(table) == null ? null : number;
        } catch (Throwable older) {
            return number;
        }
    }

    private static Object field(Object target, String first, String second) {
        try {
            return call(target, first);
        } catch (Throwable next) {
        }
        try {
            return call(target, second);
        } catch (Throwable none) {
        }
        return null;
    }

    static String option(Object option) {
        if (option instanceof scala.Some) {
            return String.valueOf(((scala.Some) option).value());
        }
        return "";
    }

    static String firstLine(String text) {
        int end = text.indexOf('\n');
        return end < 0 ? text : text.substring(0, end);
    }

    static String cut(String text, int most) {
        return text == null ? "" : text.length() <= most ? text : text.substring(0, most) + "...";
    }

    static String quote(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder quoted = new StringBuilder(text.length() + 2).append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ' || c == '\u2028' || c == '\u2029' || (c >= '\ud800' && c <= '\udfff')) {
                String hex = Integer.toHexString(c);
                quoted.append("\\u").append("0000".substring(hex.length())).append(hex);
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }
}

/* What Spark itself counted while a physical plan ran: rows and bytes of each scan, known by the ids of its columns, and of the write. */
class Counts {
    private static final String SCANS = " FileSourceScanExec BatchScanExec RowDataSourceScanExec HiveTableScanExec MicroBatchScanExec ";

    static String of(org.apache.spark.sql.execution.SparkPlan plan) {
        StringBuilder scans = new StringBuilder();
        long[] written = new long[] {-1, -1};
        boolean kept = false;
        ArrayDeque todo = new ArrayDeque();
        IdentityHashMap seen = new IdentityHashMap();
        todo.add(plan);
        for (int i = 0; i < 20000 && !todo.isEmpty(); i++) {
            org.apache.spark.sql.execution.SparkPlan next = (org.apache.spark.sql.execution.SparkPlan) todo.poll();
            String name = next.getClass().getSimpleName();
            if (seen.put(next, next) != null || name.startsWith("Reused")) {
                continue;
            }
            kept |= name.equals("InMemoryTableScanExec");
            Object inner = null;
            try {
                if (name.equals("AdaptiveSparkPlanExec")) {
                    inner = Snapshot.call(next, "executedPlan");
                } else if (name.endsWith("QueryStageExec")) {
                    inner = Snapshot.call(next, "plan");
                }
            } catch (Throwable unknown) {
            }
            if (inner instanceof org.apache.spark.sql.execution.SparkPlan) {
                todo.add(inner);
                continue;
            }
            long rows = metric(next, "numOutputRows");
            long bytes = metric(next, "numOutputBytes");
            if (bytes >= 0) {
                written[0] = Math.max(written[0], 0) + Math.max(rows, 0);
                written[1] = Math.max(written[1], 0) + bytes;
            } else if (SCANS.indexOf(" " + name + " ") >= 0 && rows >= 0) {
                scans.append(scans.length() > 0 ? "," : "").append("[[");
                scala.collection.Iterator attributes = next.output().iterator();
                for (boolean first = true; attributes.hasNext(); first = false) {
                    Object attribute = attributes.next();
                    scans.append(first ? "" : ",").append(((org.apache.spark.sql.catalyst.expressions.Attribute) attribute).exprId().id());
                }
                scans.append("],").append(rows).append(',').append(metric(next, "filesSize")).append(']');
            }
            add(todo, next.children().iterator());
            add(todo, next.subqueries().iterator());
        }
        String write = written[1] < 0 ? "" : ",\"written\":[" + written[0] + "," + written[1] + "]";
        return (scans.length() == 0 ? "" : ",\"scans\":[" + scans + "]") + (kept ? ",\"kept\":true" : "") + write;
    }

    private static void add(ArrayDeque todo, scala.collection.Iterator some) {
        while (some.hasNext()) {
            todo.add(some.next());
        }
    }

    private static long metric(org.apache.spark.sql.execution.SparkPlan plan, String name) {
        try {
            Object found = plan.metrics().get(name);
            return found instanceof scala.Some ? ((Number) Snapshot.call(((scala.Some) found).value(), "value")).longValue() : -1;
        } catch (Throwable unknown) {
            return -1;
        }
    }
}
