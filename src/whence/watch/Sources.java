/* Where a plan reads and writes: files, tables of every kind, and what sources of any maker say about themselves. */
package whence;

import java.lang.reflect.Field;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.FileIndex;

abstract class Sources extends Sheet {
    Sources(QueryExecution qe, int maxChars, long maxNanos, int maxLevels, Commits commits) {
        super(qe, maxChars, maxNanos, maxLevels, commits);
    }

    abstract void value(Object value, int depth);

    org.apache.hadoop.conf.Configuration configuration() throws Exception {
        return qe.sparkSession().sessionState().newHadoopConf();
    }

    void javaMap(java.util.Map map) {
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

    void paths(FileIndex index) {
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
    void after(Object table) {
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

    static String version(Object found) {
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
    String warehouse(String catalog) {
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

    void table(CatalogTable table) {
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
    Object audited(Object table) throws Exception {
        java.util.Map properties = (java.util.Map) call(table, "properties");
        String branch = option(qe.sparkSession().conf().getOption("spark.wap.branch"));
        boolean there = branch.length() > 0 && "true".equalsIgnoreCase(String.valueOf(properties.get("write.wap.enabled")));
        return there && ((java.util.Map) call(table, "refs")).containsKey(branch) ? branch : null;
    }

    void v2table(Table table) {
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

    /* The snapshot that an Iceberg table is read at because it was named. From 1.12 on Spark 4.1 on a plan also holds the newest one
     * of the moment when it was made. */
    private static Object pinned(Object table) {
        Object number = field(table, "snapshotId", "snapshotId");
        try {
            Field asked = table.getClass().getDeclaredField("timeTravel");
            asked.setAccessible(true);
            return asked.get(table) == null ? null : number;
        } catch (Throwable older) {
            return number;
        }
    }

    /* What a source of any maker says about itself: its maps of options and its paths, found by the fields' names. */
    void options(Object source) {
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
}
