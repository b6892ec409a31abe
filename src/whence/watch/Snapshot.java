/* What is told of one execution: its text, its plan, what it changed and made. */
package whence;

import java.util.ArrayDeque;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.types.StructType;

class Snapshot extends Tree {
    Snapshot(QueryExecution qe, Watcher watcher, int maxChars, long maxNanos, int maxLevels, Commits commits) {
        super(qe, watcher, maxChars, maxNanos, maxLevels, commits);
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
}
