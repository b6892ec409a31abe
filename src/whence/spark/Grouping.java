package whence;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
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
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.RangeExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
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

/**
 * Groups that a query has computed, above shuffles that have been done: how the optimizer left the grouping, and how it was
 * executed.
 */
final class Grouping {
    private static final int MOST_COMPARED = 64;

    final Aggregate plan;
    final BaseAggregateExec node;
    final boolean compiled;
    final Map settings;
    final int leaves;
    // What the optimizer makes of plans of these groups: by the plan, as Spark compares plans.
    final Map taken = new LinkedHashMap();
    LogicalRDD rows;

    Grouping(Aggregate plan, BaseAggregateExec node, boolean compiled, Map settings) {
        this.plan = plan;
        this.node = node;
        this.compiled = compiled;
        this.settings = settings;
        this.leaves = leaves(plan);
    }

    /** The keys, and behind them the values of the functions. */
    List values() {
        List found = new ArrayList(list(node.groupingExpressions()));
        found.addAll(list(node.aggregateAttributes()));
        return found;
    }

    // --- what a query has computed

    static void gather(LogicalPlan optimised, SparkPlan plan, boolean compiled, Map settings, List found) {
        if (plan instanceof BaseAggregateExec && isWhole((BaseAggregateExec) plan)) {
            Aggregate grouping = groupingWith(optimised, ids(list(((BaseAggregateExec) plan).resultExpressions())));
            if (grouping != null) {
                found.add(new Grouping(grouping, (BaseAggregateExec) plan, compiled, settings));
            }
        }
        boolean within = plan instanceof WholeStageCodegenExec || (compiled && !(plan instanceof InputAdapter));
        List inputs = below(plan);
        for (int i = 0; i < inputs.size(); i++) {
            gather(optimised, (SparkPlan) inputs.get(i), within && !(plan instanceof QueryStageExec), settings, found);
        }
    }

    static List below(SparkPlan plan) {
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

    /** The grouping with these columns; null if there are several that differ, as below two filters in a union. */
    private static Aggregate groupingWith(LogicalPlan plan, List ids) {
        List found = new ArrayList();
        groupingsWith(plan, ids, found);
        for (int i = 1; i < found.size(); i++) {
            if (!((Aggregate) found.get(0)).sameResult((LogicalPlan) found.get(i))) {
                return null;
            }
        }
        return found.isEmpty() || ids.isEmpty() ? null : (Aggregate) found.get(0);
    }

    static void groupingsWith(LogicalPlan plan, List ids, List found) {
        if (plan instanceof Aggregate && ids(list(((Aggregate) plan).aggregateExpressions())).equals(ids)) {
            found.add(plan);
        }
        List inputs = list(plan.children());
        for (int i = 0; i < inputs.size(); i++) {
            groupingsWith((LogicalPlan) inputs.get(i), ids, found);
        }
    }

    // --- whether they are those of a plan

    /** The files that were listed when a plan was compared, and its columns as expressions over rows; null if it is of other groups. */
    private static final class Taken {
        final TreeSet listed;
        final List columns;

        Taken(TreeSet listed, List columns) {
            this.listed = listed;
            this.columns = columns;
        }
    }

    static LogicalPlan first(SparkSession session, Aggregate asked, List groupings) {
        TreeSet listed = new TreeSet();
        if (!listed(asked, listed)) {
            return null;
        }
        Set results = callsCode(asked) ? resultsOf(list(asked.aggregateExpressions())) : new HashSet();
        Object key = Arrays.asList(new Object[] {((QueryPlan) asked).canonicalized(), results});
        QueryExecution now = null;
        int leaves = leaves(asked);
        for (int i = 0; i < groupings.size(); i++) {
            Grouping done = (Grouping) groupings.get(i);
            if (done.leaves < leaves || list(done.node.groupingExpressions()).size() > list(asked.groupingExpressions()).size()) {
                continue; // the optimizer may leave out some keys and read a subquery in two places; not the other way
            }
            try {
                synchronized (done) {
                    Taken before = (Taken) done.taken.get(key);
                    if (before == null || !before.listed.equals(listed)) {
                        now = now == null ? Dataset.ofRows(session, asked).queryExecution() : now;
                        before = new Taken(listed, columns(now, asked, done));
                        if (before.columns != null && done.rows == null) {
                            done.rows = computed(session, done);
                        }
                        if (done.taken.size() > MOST_COMPARED) {
                            done.taken.clear();
                        }
                        done.taken.put(key, before);
                    }
                    if (before.columns != null) {
                        return named(asked, before.columns, done);
                    }
                }
            } catch (Exception failed) {
                continue; // computed as if nobody had before
            }
        }
        return null;
    }

    /** The columns of a plan over the values of these groups; null if Spark would now compute other groups, or from other files. */
    private static List columns(QueryExecution now, Aggregate asked, Grouping done) {
        LogicalPlan optimised = now.optimizedPlan();
        if (optimised.containsPattern(TreePattern$.MODULE$.PLAN_EXPRESSION())) {
            return null; // a subquery that stays one may read other files by now
        }
        List above = null;
        if (optimised instanceof Project && ((Project) optimised).child() instanceof Aggregate) {
            above = list(((Project) optimised).projectList());
            optimised = ((Project) optimised).child();
        }
        if (!(optimised instanceof Aggregate) || !optimised.deterministic()) {
            return null;
        }
        List columns = valuesOf((Aggregate) optimised, done);
        if (columns == null) {
            return null;
        }
        if (above != null) {
            Map known = new HashMap();
            List own = ids(list(((Aggregate) optimised).aggregateExpressions()));
            for (int i = 0; i < own.size(); i++) {
                known.put(own.get(i), columns.get(i));
            }
            columns = contents(above);
            for (int i = 0; i < columns.size(); i++) {
                columns.set(i, with((Expression) columns.get(i), known));
            }
        }
        if (!ids(list(now.optimizedPlan().output())).equals(ids(list(asked.output())))) {
            return null;
        }
        TreeSet before = new TreeSet();
        TreeSet today = new TreeSet();
        boolean same = files((SparkPlan) done.node, before) && files(now.sparkPlan(), today) && before.equals(today);
        return same ? columns : null;
    }

    /** The columns of a grouping over the values of these groups; null if it gathers other rows, by other keys, or needs other functions. */
    private static List valuesOf(Aggregate now, Grouping done) {
        List keys = list(done.plan.groupingExpressions());
        List asked = list(now.groupingExpressions());
        List places = list(done.node.groupingExpressions());
        if (asked.size() != keys.size() || places.size() != keys.size() || !now.child().sameResult(done.plan.child())) {
            return null;
        }
        if (callsCode(now)) {
            // Another query calls the user's functions anew, which may know something else by now.
            Set results = resultsOf(list(now.aggregateExpressions()));
            if (results.isEmpty() || !resultsOf(list(done.plan.aggregateExpressions())).containsAll(results)) {
                return null;
            }
        }
        Map attributes = new HashMap(); // of equal plans, columns at the same place are the same
        List here = list(now.child().output());
        List there = list(done.plan.child().output());
        for (int i = 0; i < here.size(); i++) {
            attributes.put(((Attribute) here.get(i)).exprId(), there.get(i));
        }
        Set matched = new HashSet();
        for (int i = 0; i < asked.size(); i++) {
            matched.add(Integer.valueOf(at(with((Expression) asked.get(i), attributes), keys)));
        }
        if (matched.size() != keys.size() || matched.contains(Integer.valueOf(-1))) {
            return null;
        }
        List expressions = new ArrayList(keys);
        List values = new ArrayList(places);
        Map computed = new HashMap();
        List functions = list(done.node.aggregateAttributes());
        for (int i = 0; i < functions.size(); i++) {
            computed.put(((Attribute) functions.get(i)).exprId(), functions.get(i));
        }
        List results = list(done.plan.aggregateExpressions());
        for (int i = 0; i < results.size(); i++) {
            functions((Expression) results.get(i), computed, expressions, values);
        }
        List found = contents(list(now.aggregateExpressions()));
        for (int i = 0; i < found.size(); i++) {
            Expression value = over(with((Expression) found.get(i), attributes), expressions, values);
            if (value == null) {
                return null;
            }
            found.set(i, value);
        }
        return found;
    }

    /** Whether functions of the user's own say what a plan gives. */
    private static boolean callsCode(TreeNode one) {
        if (one instanceof UserDefinedExpression) {
            return true;
        }
        List within = new ArrayList(list(one.children()));
        if (one instanceof QueryPlan) {
            within.addAll(list(((QueryPlan) one).expressions()));
        }
        for (int i = 0; i < within.size(); i++) {
            if (callsCode((TreeNode) within.get(i))) {
                return true;
            }
        }
        return false;
    }

    /** By which ids functions of groups are known: a query keeps them in all that is made of it, and no other has them. */
    private static Set resultsOf(List expressions) {
        Set found = new HashSet();
        for (int i = 0; i < expressions.size(); i++) {
            Expression one = (Expression) expressions.get(i);
            if (one instanceof AggregateExpression) {
                found.add(((AggregateExpression) one).resultId());
            }
            found.addAll(resultsOf(list(one.children())));
        }
        return found;
    }

    /** The functions of groups in an expression whose values are known. */
    private static void functions(Expression one, Map computed, List expressions, List values) {
        if (one instanceof AggregateExpression) {
            Object value = computed.get(((AggregateExpression) one).resultId());
            if (value != null) {
                expressions.add(one);
                values.add(value);
            }
            return;
        }
        List inputs = list(one.children());
        for (int i = 0; i < inputs.size(); i++) {
            functions((Expression) inputs.get(i), computed, expressions, values);
        }
    }

    /** An expression with these values in the place of equal expressions; null if it needs more than them. */
    private static Expression over(Expression one, List expressions, List values) {
        int known = at(one, expressions);
        if (known >= 0) {
            return ((NamedExpression) values.get(known)).toAttribute();
        }
        if (one instanceof Attribute || one instanceof AggregateExpression) {
            return null;
        }
        List inputs = list(one.children());
        for (int i = 0; i < inputs.size(); i++) {
            Expression changed = over((Expression) inputs.get(i), expressions, values);
            if (changed == null) {
                return null;
            }
            inputs.set(i, changed);
        }
        return inputs.isEmpty() ? one : (Expression) ((TreeNode) one).withNewChildren(PythonUtils.toSeq(inputs));
    }

    private static int at(Expression one, List expressions) {
        for (int i = 0; i < expressions.size(); i++) {
            if (one.semanticEquals((Expression) expressions.get(i))) {
                return i;
            }
        }
        return -1;
    }

    /** An expression with attributes exchanged, by their ids. */
    private static Expression with(Expression one, Map attributes) {
        if (one instanceof Attribute) {
            Object other = attributes.get(((Attribute) one).exprId());
            return other == null ? one : (Expression) other;
        }
        List inputs = list(one.children());
        boolean same = true;
        for (int i = 0; i < inputs.size(); i++) {
            Expression changed = with((Expression) inputs.get(i), attributes);
            same = same && changed == inputs.get(i);
            inputs.set(i, changed);
        }
        return same ? one : (Expression) ((TreeNode) one).withNewChildren(PythonUtils.toSeq(inputs));
    }

    private static List contents(List named) {
        List found = new ArrayList();
        for (int i = 0; i < named.size(); i++) {
            Object one = named.get(i);
            found.add(one instanceof Alias ? ((Alias) one).child() : one);
        }
        return found;
    }

    /** How many places a plan reads, in its subqueries too. */
    private static int leaves(LogicalPlan plan) {
        List inputs = list(plan.children());
        int found = inputs.isEmpty() ? 1 : 0;
        inputs.addAll(list(plan.subqueries()));
        for (int i = 0; i < inputs.size(); i++) {
            found += leaves((LogicalPlan) inputs.get(i));
        }
        return found;
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
        List subqueries = list(plan.subqueries());
        for (int i = 0; i < subqueries.size(); i++) {
            if (!listed((LogicalPlan) subqueries.get(i), found)) {
                return false;
            }
        }
        return true;
    }

    /** The files that are read, each with its length and time, where they are asked for; false where something else is read
     * that may have changed. */
    static boolean files(SparkPlan plan, TreeSet found) {
        if (plan instanceof FileSourceScanExec) {
            Object scanned = list(((FileSourceScanExec) plan).inputRDDs()).get(0);
            if (!(scanned instanceof FileScanRDD)) {
                return false;
            }
            List parts = found == null ? new ArrayList() : list(((FileScanRDD) scanned).filePartitions());
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

    private static LogicalRDD computed(SparkSession session, Grouping done) {
        List columns = new ArrayList();
        List values = done.values();
        for (int i = 0; i < values.size(); i++) {
            columns.add(alias((Expression) ((NamedExpression) values.get(i)).toAttribute(), "whence_value", NamedExpression$.MODULE$.newExprId()));
        }
        SparkPlan node = (SparkPlan) exchanged((TreeNode) done.node, done.node.resultExpressions(), PythonUtils.toSeq(columns));
        RDD rows = (done.compiled ? new WholeStageCodegenExec(node, 1) : node).execute();
        return (LogicalRDD) session.internalCreateDataFrame(rows, node.schema(), false).queryExecution().analyzed();
    }

    /** These groups under the ids of a plan's columns. */
    private static LogicalPlan named(Aggregate asked, List columns, Grouping done) {
        LogicalPlan rows = (LogicalPlan) done.rows.newInstance(); // a plan may have the same groups twice
        List values = done.values();
        List there = list(rows.output());
        Map attributes = new HashMap();
        for (int i = 0; i < values.size(); i++) {
            attributes.put(((NamedExpression) values.get(i)).exprId(), there.get(i));
        }
        List wanted = list(asked.output());
        List found = new ArrayList();
        for (int i = 0; i < columns.size(); i++) {
            Attribute one = (Attribute) wanted.get(i);
            found.add(alias(with((Expression) columns.get(i), attributes), one.name(), one.exprId()));
        }
        return new Project(PythonUtils.toSeq(found), rows);
    }

    private static Alias alias(Expression value, String name, ExprId id) {
        List none = new ArrayList();
        return new Alias(value, name, id, PythonUtils.toSeq(none), scala.Option.empty(), PythonUtils.toSeq(none));
    }

    /** A node with one of its fields exchanged. */
    private static TreeNode exchanged(TreeNode node, Object old, Object changed) {
        scala.Product known = (scala.Product) node;
        Object[] fields = new Object[known.productArity()];
        for (int i = 0; i < fields.length; i++) {
            fields[i] = known.productElement(i) == old ? changed : known.productElement(i);
        }
        return node.makeCopy(fields);
    }

    static List ids(List named) {
        List found = new ArrayList();
        for (int i = 0; i < named.size(); i++) {
            found.add(((NamedExpression) named.get(i)).exprId());
        }
        return found;
    }

    static List list(Object seq) {
        List found = new ArrayList();
        scala.collection.Iterator all = ((scala.collection.Iterable) seq).iterator();
        while (all.hasNext()) {
            found.add(all.next());
        }
        return found;
    }

    /** Of a map, or of an array of pairs. */
    static Map map(Object pairs) {
        Map found = new TreeMap();
        List all = pairs instanceof Object[] ? Arrays.asList((Object[]) pairs) : list(pairs);
        for (int i = 0; i < all.size(); i++) {
            scala.Tuple2 pair = (scala.Tuple2) all.get(i);
            found.put(pair._1(), pair._2());
        }
        return found;
    }
}
