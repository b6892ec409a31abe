package whence;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.WeakHashMap;

import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.rdd.RDD;
import org.apache.spark.scheduler.LiveListenerBus;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.RangeExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.adaptive.ShuffleQueryStageExec;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;

/**
 * The groups that the user's own queries have computed. Spark keeps what a query shuffled for as long as somebody holds
 * the query, and gives it again without computing it; here queries are only known while somebody else holds them.
 *
 * Groups are taken for those of a plan only if Spark would now compute them in the same way from the same files, and the
 * plan is of the same DataFrame, or derived from it: it has the ids of its columns. Janino compiles this: no generics.
 */
public final class Executed extends SparkListener {
    private static final int MOST = 200;
    private static final long WAIT_MILLIS = 500L;

    private final LiveListenerBus bus;
    private final LinkedList recent = new LinkedList();
    // Of a query, what was taken from it: by the plan of the groups, as Spark compares plans.
    private final Map taken = new WeakHashMap();

    public Executed(Object bus) {
        this.bus = (LiveListenerBus) bus;
    }

    public void onOtherEvent(SparkListenerEvent event) {
        if (event instanceof SparkListenerSQLExecutionEnd) {
            QueryExecution query = ((SparkListenerSQLExecutionEnd) event).qe();
            if (query != null) {
                add(query);
            }
        }
    }

    private void add(QueryExecution query) {
        synchronized (recent) {
            recent.addFirst(new WeakReference(query));
            if (recent.size() > MOST) {
                recent.removeLast();
            }
        }
    }

    private List living() {
        List found = new ArrayList();
        synchronized (recent) {
            Iterator all = recent.iterator();
            while (all.hasNext()) {
                Object query = ((WeakReference) all.next()).get();
                if (query == null) {
                    all.remove();
                } else {
                    found.add(query);
                }
            }
        }
        return found;
    }

    /** The plan with the groups of its groupings taken from queries that have computed them; the plan itself if there are none. */
    public Object reused(Object session, Object plan) {
        if (!groups((LogicalPlan) plan)) {
            return plan;
        }
        try {
            bus.waitUntilEmpty(WAIT_MILLIS); // of a query that has just run
        } catch (Exception busy) {
            return plan;
        }
        List groupings = new ArrayList();
        List queries = living();
        for (int i = 0; i < queries.size(); i++) {
            try {
                gather((QueryExecution) queries.get(i), groupings);
            } catch (Exception failed) {
                continue; // a query that was never planned, or whose session is gone
            }
        }
        return groupings.isEmpty() ? plan : visit((SparkSession) session, (LogicalPlan) plan, groupings);
    }

    private static boolean groups(LogicalPlan plan) {
        return plan.containsPattern(TreePattern$.MODULE$.AGGREGATE());
    }

    private LogicalPlan visit(SparkSession session, LogicalPlan plan, List groupings) {
        if (plan instanceof Aggregate) {
            LogicalPlan found = groups(session, (Aggregate) plan, groupings);
            if (found != null) {
                return found;
            }
        }
        List inputs = list(plan.children());
        List changed = new ArrayList();
        boolean same = true;
        for (int i = 0; i < inputs.size(); i++) {
            Object visited = visit(session, (LogicalPlan) inputs.get(i), groupings);
            same = same && visited == inputs.get(i);
            changed.add(visited);
        }
        return same ? plan : (LogicalPlan) ((TreeNode) plan).withNewChildren(PythonUtils.toSeq(changed));
    }

    // --- what queries have computed

    /** A grouping above shuffles that have been done. */
    private static final class Grouping {
        final QueryExecution query;
        final BaseAggregateExec node;
        final boolean compiled;
        final List ids;

        Grouping(QueryExecution query, BaseAggregateExec node, boolean compiled) {
            this.query = query;
            this.node = node;
            this.compiled = compiled;
            this.ids = ids(list(node.resultExpressions()));
        }
    }

    private static void gather(QueryExecution query, List found) {
        SparkPlan plan = query.executedPlan();
        if (plan instanceof AdaptiveSparkPlanExec && ((AdaptiveSparkPlanExec) plan).isFinalPlan()) {
            gather(query, ((AdaptiveSparkPlanExec) plan).executedPlan(), false, found);
        }
    }

    private static void gather(QueryExecution query, SparkPlan plan, boolean compiled, List found) {
        if (plan instanceof BaseAggregateExec && isWhole((BaseAggregateExec) plan)) {
            found.add(new Grouping(query, (BaseAggregateExec) plan, compiled));
        }
        boolean within = plan instanceof WholeStageCodegenExec || (compiled && !(plan instanceof InputAdapter));
        List inputs = below(plan);
        for (int i = 0; i < inputs.size(); i++) {
            gather(query, (SparkPlan) inputs.get(i), within && !(plan instanceof QueryStageExec), found);
        }
    }

    private static List below(SparkPlan plan) {
        if (plan instanceof QueryStageExec) {
            return Arrays.asList(new Object[] {((QueryStageExec) plan).plan()});
        }
        return list(plan.children());
    }

    /** Whether it gives groups that are complete, from rows that are shuffled already. */
    private static boolean isWhole(BaseAggregateExec node) {
        List functions = list(node.aggregateExpressions());
        for (int i = 0; i < functions.size(); i++) {
            String mode = ((AggregateExpression) functions.get(i)).mode().toString();
            if (!mode.equals("Final") && !mode.equals("Complete")) {
                return false;
            }
        }
        boolean[] shuffled = new boolean[1];
        return isDone((SparkPlan) node, shuffled) && shuffled[0];
    }

    /** Whether all that is read stands in shuffles and broadcasts that have been done. */
    private static boolean isDone(SparkPlan plan, boolean[] shuffled) {
        if (plan instanceof QueryStageExec) {
            shuffled[0] = shuffled[0] || plan instanceof ShuffleQueryStageExec;
            return ((QueryStageExec) plan).isMaterialized();
        }
        List inputs = list(plan.children());
        for (int i = 0; i < inputs.size(); i++) {
            if (!isDone((SparkPlan) inputs.get(i), shuffled)) {
                return false;
            }
        }
        return !inputs.isEmpty();
    }

    // --- whether they are those of a plan

    private LogicalPlan groups(SparkSession session, Aggregate asked, List groupings) {
        List wanted = list(asked.aggregateExpressions());
        List ids = ids(wanted);
        List keys = list(asked.groupingExpressions());
        for (int i = 0; i < groupings.size(); i++) {
            Grouping done = (Grouping) groupings.get(i);
            if (done.ids.isEmpty() || !ids.containsAll(done.ids) || list(done.node.groupingExpressions()).size() != keys.size()) {
                continue;
            }
            int[] from = places(wanted, ids, keys, done.ids);
            if (from == null) {
                continue;
            }
            try {
                LogicalPlan rows = rowsOf(session, asked, wanted, ids, done);
                if (rows != null) {
                    return named(wanted, from, keys.size(), rows);
                }
            } catch (Exception failed) {
                continue; // computed as if nobody had before
            }
        }
        return null;
    }

    /** Of each wanted column: the number of a key, or, from the number of keys on, that of a column of the groups; null if one is neither. */
    private static int[] places(List wanted, List ids, List keys, List known) {
        int[] from = new int[wanted.size()];
        for (int i = 0; i < from.length; i++) {
            int at = known.indexOf(ids.get(i));
            from[i] = at < 0 ? -1 : keys.size() + at;
            Expression value = (Expression) wanted.get(i);
            value = value instanceof Alias ? ((Alias) value).child() : value;
            for (int k = 0; at < 0 && k < keys.size() && from[i] < 0; k++) {
                from[i] = value.semanticEquals((Expression) keys.get(k)) ? k : -1;
            }
            if (from[i] < 0) {
                return null;
            }
        }
        return from;
    }

    /** Groups that were taken, and the files that were listed then. */
    private static final class Taken {
        final TreeSet listed;
        final LogicalPlan rows;

        Taken(TreeSet listed, LogicalPlan rows) {
            this.listed = listed;
            this.rows = rows;
        }
    }

    /** The computed groups, the keys in front; null if Spark would not compute them in this way from these files now. */
    private LogicalPlan rowsOf(SparkSession session, Aggregate asked, List wanted, List ids, Grouping done) {
        List columns = new ArrayList();
        for (int i = 0; i < done.ids.size(); i++) {
            columns.add(wanted.get(ids.indexOf(done.ids.get(i))));
        }
        LogicalPlan plan = exchanged(asked, asked.aggregateExpressions(), PythonUtils.toSeq(columns));
        TreeSet listed = new TreeSet();
        if (!listed(plan, listed)) {
            return null;
        }
        synchronized (taken) {
            Map known = (Map) taken.get(done.query);
            if (known == null) {
                known = new HashMap();
                taken.put(done.query, known);
            }
            Object key = plan.canonicalized();
            Taken before = (Taken) known.get(key);
            if (before == null || !before.listed.equals(listed)) {
                if (!isSame(session, plan, done)) {
                    return null;
                }
                before = new Taken(listed, computed(session, done));
                known.put(key, before);
            }
            return before.rows;
        }
    }

    /** Whether Spark would now compute these groups in the same way from the same files. */
    private static boolean isSame(SparkSession session, LogicalPlan plan, Grouping done) {
        QueryExecution now = Dataset.ofRows(session, plan).queryExecution();
        LogicalPlan optimised = now.optimizedPlan();
        LogicalPlan then = groupingWith(done.query.optimizedPlan(), done.ids);
        if (then == null || !optimised.sameResult(then) || !optimised.deterministic()) {
            return false;
        }
        TreeSet before = new TreeSet();
        TreeSet today = new TreeSet();
        return files((SparkPlan) done.node, before) && files(now.sparkPlan(), today) && before.equals(today);
    }

    /** All files that are listed where a plan reads; false where something else is read that may have changed. */
    private static boolean listed(LogicalPlan plan, TreeSet found) {
        if (plan instanceof LogicalRelation) {
            Object relation = ((LogicalRelation) plan).relation();
            if (!(relation instanceof HadoopFsRelation) || !(((HadoopFsRelation) relation).location() instanceof PartitioningAwareFileIndex)) {
                return false;
            }
            List all = list(((PartitioningAwareFileIndex) ((HadoopFsRelation) relation).location()).allFiles());
            for (int i = 0; i < all.size(); i++) {
                FileStatus one = (FileStatus) all.get(i);
                found.add(one.getPath().toString() + " " + one.getLen() + " " + one.getModificationTime());
            }
            return true;
        }
        List inputs = list(plan.children());
        if (inputs.isEmpty()) {
            return plan instanceof LocalRelation || plan instanceof Range || plan instanceof OneRowRelation;
        }
        for (int i = 0; i < inputs.size(); i++) {
            if (!listed((LogicalPlan) inputs.get(i), found)) {
                return false;
            }
        }
        return !plan.containsPattern(TreePattern$.MODULE$.PLAN_EXPRESSION());
    }

    private static LogicalPlan groupingWith(LogicalPlan plan, List ids) {
        if (plan instanceof Aggregate && ids(list(((Aggregate) plan).aggregateExpressions())).equals(ids)) {
            return plan;
        }
        List inputs = list(plan.children());
        for (int i = 0; i < inputs.size(); i++) {
            LogicalPlan found = groupingWith((LogicalPlan) inputs.get(i), ids);
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    /** The files that are read, each with its length and time; false where something else is read that may have changed. */
    private static boolean files(SparkPlan plan, TreeSet found) {
        if (plan instanceof FileSourceScanExec) {
            Object scanned = list(((FileSourceScanExec) plan).inputRDDs()).get(0);
            if (!(scanned instanceof FileScanRDD)) {
                return false;
            }
            List parts = list(((FileScanRDD) scanned).filePartitions());
            for (int i = 0; i < parts.size(); i++) {
                PartitionedFile[] each = ((FilePartition) parts.get(i)).files();
                for (int k = 0; k < each.length; k++) {
                    found.add(each[k].filePath().toString() + " " + each[k].fileSize() + " " + each[k].modificationTime());
                }
            }
            return true;
        }
        if (plan instanceof ReusedExchangeExec) {
            return files(((ReusedExchangeExec) plan).child(), found);
        }
        List inputs = below(plan);
        if (inputs.isEmpty() && !(plan instanceof LocalTableScanExec) && !(plan instanceof RangeExec)) {
            return false;
        }
        for (int i = 0; i < inputs.size(); i++) {
            if (!files((SparkPlan) inputs.get(i), found)) {
                return false;
            }
        }
        return true;
    }

    // --- their rows

    private static LogicalPlan computed(SparkSession session, Grouping done) {
        List columns = new ArrayList();
        List keys = list(done.node.groupingExpressions());
        for (int i = 0; i < keys.size(); i++) {
            Attribute key = ((NamedExpression) keys.get(i)).toAttribute();
            columns.add(alias((Expression) key, "whence_key", NamedExpression$.MODULE$.newExprId()));
        }
        columns.addAll(list(done.node.resultExpressions()));
        SparkPlan node = (SparkPlan) exchanged((TreeNode) done.node, done.node.resultExpressions(), PythonUtils.toSeq(columns));
        RDD rows = (done.compiled ? new WholeStageCodegenExec(node, 1) : node).execute();
        return session.internalCreateDataFrame(rows, node.schema(), false).queryExecution().analyzed();
    }

    private static LogicalPlan named(List wanted, int[] from, int keys, LogicalPlan rows) {
        List there = list(rows.output());
        List columns = new ArrayList();
        for (int i = 0; i < from.length; i++) {
            NamedExpression one = (NamedExpression) wanted.get(i);
            columns.add(alias((Expression) there.get(from[i]), one.name(), one.exprId()));
        }
        return new Project(PythonUtils.toSeq(columns), rows);
    }

    private static Alias alias(Expression value, String name, ExprId id) {
        List none = new ArrayList();
        return new Alias(value, name, id, PythonUtils.toSeq(none), scala.Option.empty(), PythonUtils.toSeq(none));
    }

    /** A node with one of its fields exchanged. */
    private static LogicalPlan exchanged(Aggregate node, Object old, Object changed) {
        return (LogicalPlan) exchanged((TreeNode) node, old, changed);
    }

    private static TreeNode exchanged(TreeNode node, Object old, Object changed) {
        scala.Product known = (scala.Product) node;
        Object[] fields = new Object[known.productArity()];
        for (int i = 0; i < fields.length; i++) {
            fields[i] = known.productElement(i) == old ? changed : known.productElement(i);
        }
        return node.makeCopy(fields);
    }

    private static List ids(List named) {
        List found = new ArrayList();
        for (int i = 0; i < named.size(); i++) {
            found.add(((NamedExpression) named.get(i)).exprId());
        }
        return found;
    }

    private static List list(Object seq) {
        List found = new ArrayList();
        scala.collection.Iterator all = ((scala.collection.Iterable) seq).iterator();
        while (all.hasNext()) {
            found.add(all.next());
        }
        return found;
    }
}
