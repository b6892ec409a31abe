package whence;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;

import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.scheduler.LiveListenerBus;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CommandResultExec;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.adaptive.ShuffleQueryStageExec;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The groups that the user's own queries have computed, however these were looked at: collected, shown or written. Spark
 * gives what a query shuffled again without computing it, as long as somebody holds the query; of what was shown or written
 * nobody does, so the latest groups are held here, while they take little.
 *
 * A plan's groups are taken only from a query that gathered the same rows by the same keys, as Spark itself compares plans,
 * from the same files under the same settings, and that computed all of the plan's functions of them. What either makes of
 * these values does not matter: show() has casts there. Janino compiles this: no generics.
 */
public final class Executed extends SparkListener {
    private static final int MOST = 200;
    private static final int MOST_HELD = 8;
    // Of what was shuffled, which stands on disks, and of what the driver has in memory: broadcasts, local rows.
    private static final long MOST_SHUFFLED = 1L << 30;
    private static final long MOST_IN_MEMORY = Runtime.getRuntime().maxMemory() / 8;
    private static final int MOST_SAID = 16;
    private static final long WAIT_MILLIS = 500L;

    private final LiveListenerBus bus;
    private final boolean holds;
    private final Map running = new HashMap();
    private final LinkedList recent = new LinkedList();
    private final LinkedList said = new LinkedList();

    /** `holds`: whether shuffles may be kept that nobody else holds. */
    public Executed(Object bus, Object holds) {
        this.bus = (LiveListenerBus) bus;
        this.holds = ((Boolean) holds).booleanValue();
    }

    public void onOtherEvent(SparkListenerEvent event) {
        if (event instanceof SparkListenerSQLExecutionStart) {
            SparkListenerSQLExecutionStart start = (SparkListenerSQLExecutionStart) event;
            if (start.jobTags().toString().indexOf("whence-quiet") < 0) {
                running.put(Long.valueOf(start.executionId()), ofQueries(Grouping.map(start.modifiedConfigs())));
            }
        } else if (event instanceof SparkListenerSQLExecutionEnd) {
            SparkListenerSQLExecutionEnd end = (SparkListenerSQLExecutionEnd) event;
            Map settings = (Map) running.remove(Long.valueOf(end.executionId()));
            if (end.qe() != null && settings != null && !hasFailed(end)) {
                add(new Run(end.qe(), settings));
            }
        }
    }

    /** Such a query is asked nothing: Spark would raise its failure again, with the asker's stack trace in it. */
    private static boolean hasFailed(SparkListenerSQLExecutionEnd end) {
        return end.executionFailure() instanceof scala.Some
            || (end.errorMessage() instanceof scala.Some && ((scala.Some) end.errorMessage()).value().toString().length() > 0);
    }

    private void add(Run run) {
        if (holds) {
            try {
                run.hold();
            } catch (Exception failed) {
                run.held = false; // known while somebody else holds it
            }
        }
        synchronized (recent) {
            recent.addFirst(run);
            if (recent.size() > MOST) {
                recent.removeLast();
            }
            int held = 0;
            long shuffled = 0;
            long inMemory = 0;
            Iterator all = recent.iterator();
            while (all.hasNext()) {
                Run one = (Run) all.next();
                if (one.held && held < MOST_HELD && shuffled + one.shuffled <= MOST_SHUFFLED && inMemory + one.inMemory <= MOST_IN_MEMORY) {
                    held++;
                    shuffled += one.shuffled;
                    inMemory += one.inMemory;
                } else {
                    one.held = false;
                    if (one.query.get() == null) {
                        all.remove();
                    }
                }
            }
        }
    }

    /** Nothing is held any more. */
    public void close() {
        bus.removeListener(this);
        synchronized (recent) {
            recent.clear();
        }
        synchronized (said) {
            said.clear();
        }
    }

    /** That a plan says the same as one of the user's own, whose subqueries it has as joins. Spark's optimizer makes joins of
     * them later, and then knows less of their columns: of what ran, the user's own plan must be compared. */
    public void saysTheSame(Object plan, Object own) {
        synchronized (said) {
            said.addFirst(new Object[] {plan, own});
            if (said.size() > MOST_SAID) {
                said.removeLast();
            }
        }
    }

    /** The user's own grouping that says the same, if that is known. */
    private Aggregate own(Aggregate asked) {
        List ids = Grouping.ids(Grouping.list(asked.aggregateExpressions()));
        List pairs;
        synchronized (said) {
            pairs = new ArrayList(said);
        }
        for (int i = 0; i < pairs.size(); i++) {
            List here = new ArrayList();
            List there = new ArrayList();
            Grouping.groupingsWith((LogicalPlan) ((Object[]) pairs.get(i))[0], ids, here);
            Grouping.groupingsWith((LogicalPlan) ((Object[]) pairs.get(i))[1], ids, there);
            if (here.size() == 1 && there.size() == 1 && ((TreeNode) here.get(0)).fastEquals((TreeNode) asked)) {
                return (Aggregate) there.get(0);
            }
        }
        return null;
    }

    /** The groupings of all queries that are known, the latest first. */
    private List groupings() {
        List found = new ArrayList();
        synchronized (recent) {
            Iterator all = recent.iterator();
            while (all.hasNext()) {
                List some = ((Run) all.next()).groupings();
                if (some == null) {
                    all.remove();
                } else {
                    found.addAll(some);
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
        Map settings = settings((SparkSession) session);
        List groupings = new ArrayList();
        Iterator all = groupings().iterator();
        while (all.hasNext()) {
            Grouping one = (Grouping) all.next();
            if (one.settings.equals(settings)) {
                groupings.add(one);
            }
        }
        return groupings.isEmpty() ? plan : visit((SparkSession) session, (LogicalPlan) plan, groupings);
    }

    private static boolean groups(LogicalPlan plan) {
        return plan.containsPattern(TreePattern$.MODULE$.AGGREGATE());
    }

    /** The settings of a session that are not the application's, as Spark tells them of a query that starts. */
    private static Map settings(SparkSession session) {
        Map general = Grouping.map(session.sharedState().conf().getAll());
        SQLConf conf = session.sessionState().conf();
        Map own = Grouping.map(conf.getAllConfs());
        own.entrySet().removeAll(general.entrySet());
        Map told = Grouping.map(conf.redactOptions(conf.getAllConfs()));
        told.keySet().retainAll(own.keySet());
        return ofQueries(told);
    }

    /** Those that say what a query gives: not how its processes are started. */
    private static Map ofQueries(Map settings) {
        Iterator all = settings.keySet().iterator();
        while (all.hasNext()) {
            String name = (String) all.next();
            if (name.startsWith("spark.") && !name.startsWith("spark.sql.") && !name.startsWith("spark.hadoop.")) {
                all.remove();
            }
        }
        return settings;
    }

    private LogicalPlan visit(SparkSession session, LogicalPlan plan, List groupings) {
        if (plan instanceof Aggregate) {
            LogicalPlan found = Grouping.first(session, (Aggregate) plan, groupings);
            Aggregate own = found == null ? own((Aggregate) plan) : null;
            found = own == null ? found : Grouping.first(session, own, groupings);
            if (found != null) {
                return found;
            }
        }
        List inputs = Grouping.list(plan.children());
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

    /** A query that ran. Its groupings are known as long as somebody holds it, or they are held here. */
    private static final class Run {
        final WeakReference query;
        final Map settings;
        List known;
        boolean held;
        long shuffled;
        long inMemory;

        Run(QueryExecution query, Map settings) {
            this.query = new WeakReference(query);
            this.settings = settings;
        }

        void hold() {
            List found = new ArrayList();
            List all = gathered();
            for (int i = 0; i < all.size(); i++) {
                Grouping one = (Grouping) all.get(i);
                if (Grouping.files((SparkPlan) one.node, null)) { // it would not be taken otherwise
                    found.add(one);
                    weigh((SparkPlan) one.node);
                }
            }
            held = !found.isEmpty();
            known = held ? found : null;
        }

        private void weigh(SparkPlan plan) {
            if (plan instanceof ShuffleQueryStageExec) {
                shuffled += size((QueryStageExec) plan);
            } else if (plan instanceof QueryStageExec) {
                inMemory += size((QueryStageExec) plan);
            } else if (plan instanceof LocalTableScanExec) {
                inMemory += (long) ((LocalTableScanExec) plan).rows().size() * plan.schema().defaultSize();
            }
            List inputs = Grouping.below(plan);
            for (int i = 0; i < inputs.size(); i++) {
                weigh((SparkPlan) inputs.get(i));
            }
        }

        private static long size(QueryStageExec stage) {
            return stage.getRuntimeStatistics().sizeInBytes().toLong();
        }

        /** Null if nobody holds the query any more. */
        List groupings() {
            if (!held && query.get() == null) {
                return null;
            }
            try {
                known = known == null ? gathered() : known;
                return known;
            } catch (Exception failed) {
                return new ArrayList(); // a query that was never planned, or whose session is gone
            }
        }

        private List gathered() {
            List found = new ArrayList();
            QueryExecution living = (QueryExecution) query.get();
            if (living != null) {
                SparkPlan plan = adaptive(living.executedPlan());
                if (plan != null) {
                    Grouping.gather(living.optimizedPlan(), plan, false, settings, found);
                }
            }
            return found;
        }
    }

    /** What was executed in the end; below the command, where the query was written somewhere. */
    private static SparkPlan adaptive(SparkPlan plan) {
        if (plan instanceof AdaptiveSparkPlanExec) {
            return ((AdaptiveSparkPlanExec) plan).isFinalPlan() ? ((AdaptiveSparkPlanExec) plan).executedPlan() : null;
        }
        if (plan instanceof CommandResultExec) {
            return adaptive(((CommandResultExec) plan).commandPhysicalPlan());
        }
        List inputs = Grouping.list(plan.children());
        return inputs.size() == 1 ? adaptive((SparkPlan) inputs.get(0)) : null;
    }
}
