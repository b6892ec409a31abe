/* What Spark itself counted while a physical plan ran: rows and bytes of each scan, known by the ids of its columns, and of the write. */
package whence;

import java.util.ArrayDeque;
import java.util.IdentityHashMap;

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
                    inner = Reading.call(next, "executedPlan");
                } else if (name.endsWith("QueryStageExec")) {
                    inner = Reading.call(next, "plan");
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
            return found instanceof scala.Some ? ((Number) Reading.call(((scala.Some) found).value(), "value")).longValue() : -1;
        } catch (Throwable unknown) {
            return -1;
        }
    }
}
