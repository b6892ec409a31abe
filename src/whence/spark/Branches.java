package whence;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryExpression;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Pmod;
import org.apache.spark.sql.catalyst.expressions.Remainder;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * What must hold for branches of a union to become one query over a table of their constants. Where a constant was, such a
 * query has a column of that table, and a test with it waits for the join with the table: whatever else the query asks for is
 * then asked of more rows, and must not fail on them. Janino compiles this: no generics, no lambdas.
 */
public final class Branches {
    private static final String EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions.";
    /** They fail on no value. */
    private static final Set UNFAILING = new HashSet(Arrays.asList((
            "AttributeReference Literal And Or Not EqualTo EqualNullSafe In InSet IsNull IsNotNull IsNaN LessThan "
            + "LessThanOrEqual GreaterThan GreaterThanOrEqual If CaseWhen Coalesce Upper Lower Length StringTrim StartsWith "
            + "EndsWith Contains Substring Year Quarter Month DayOfMonth DayOfWeek Hour Minute Second "
            + "aggregate.AggregateExpression aggregate.Count aggregate.Min aggregate.Max").split(" ")));
    /** More values than these are not told one by one. */
    private static final int MOST = 10000;

    /** What stands behind each column, by its id. */
    private final Map behind = new HashMap();

    /** Whether every filter and join of the query may be asked of any rows. */
    public boolean mayAsk(Object plan) {
        behind.clear();
        name((LogicalPlan) plan);
        return asksSafely((LogicalPlan) plan);
    }

    private void name(LogicalPlan plan) {
        if (plan instanceof Project) {
            nameAll(((Project) plan).projectList());
        } else if (plan instanceof Aggregate) {
            nameAll(((Aggregate) plan).aggregateExpressions());
        } else if (plan instanceof Union) {
            scala.collection.Seq names = plan.output();
            scala.collection.Iterator branches = plan.children().iterator();
            while (branches.hasNext()) {
                scala.collection.Iterator columns = ((LogicalPlan) branches.next()).output().iterator();
                for (int i = 0; columns.hasNext(); i++) {
                    add((NamedExpression) names.apply(i), (Expression) columns.next());
                }
            }
        }
        scala.collection.Iterator all = plan.children().iterator();
        while (all.hasNext()) {
            name((LogicalPlan) all.next());
        }
    }

    private void nameAll(scala.collection.Seq expressions) {
        scala.collection.Iterator each = expressions.iterator();
        while (each.hasNext()) {
            Object one = each.next();
            if (one instanceof Alias) {
                add((NamedExpression) one, (Expression) ((Alias) one).child());
            }
        }
    }

    private void add(NamedExpression name, Expression one) {
        if (one instanceof AttributeReference && ((AttributeReference) one).exprId().equals(name.exprId())) {
            return;
        }
        List known = (List) behind.get(name.exprId());
        if (known == null) {
            known = new ArrayList();
            behind.put(name.exprId(), known);
        }
        known.add(one);
    }

    private boolean asksSafely(LogicalPlan plan) {
        if (plan instanceof Filter && !isSafe(((Filter) plan).condition(), new HashSet())) {
            return false;
        }
        if (plan instanceof Join && ((Join) plan).condition().isDefined()
                && !isSafe((Expression) ((Join) plan).condition().get(), new HashSet())) {
            return false;
        }
        scala.collection.Iterator all = plan.children().iterator();
        while (all.hasNext()) {
            if (!asksSafely((LogicalPlan) all.next())) {
                return false;
            }
        }
        return true;
    }

    /** Whether all that is computed below the first use of these columns, from the scans on, may be computed of any rows. */
    public boolean mayCompute(Object template, Object columns) {
        Set ids = new HashSet();
        scala.collection.Iterator all = ((scala.collection.Seq) columns).iterator();
        while (all.hasNext()) {
            ids.add(((NamedExpression) all.next()).exprId());
        }
        return computes((LogicalPlan) template, ids) != null;
    }

    /** Whether the columns are used here or below; null where what is below their first use may fail. */
    private Boolean computes(LogicalPlan plan, Set ids) {
        boolean below = false;
        scala.collection.Iterator all = plan.children().iterator();
        while (all.hasNext()) {
            Boolean used = computes((LogicalPlan) all.next(), ids);
            if (used == null) {
                return null;
            }
            below = below || used.booleanValue();
        }
        if (below || uses(plan.references().iterator(), ids)) {
            return Boolean.TRUE;
        }
        scala.collection.Iterator each = plan.expressions().iterator();
        while (each.hasNext()) {
            Expression one = (Expression) each.next();
            if (!isSafe(one instanceof Alias ? (Expression) ((Alias) one).child() : one, null)) {
                return null;
            }
        }
        return Boolean.FALSE;
    }

    private static boolean uses(scala.collection.Iterator references, Set ids) {
        while (references.hasNext()) {
            if (ids.contains(((NamedExpression) references.next()).exprId())) {
                return true;
            }
        }
        return false;
    }

    /** `seen`: columns that were looked behind; null: what stands behind a column is looked at where it is made. */
    private boolean isSafe(Expression one, Set seen) {
        String name = one.getClass().getName();
        if (one instanceof AttributeReference) {
            List known = seen == null ? null : (List) behind.get(((AttributeReference) one).exprId());
            if (known == null || !seen.add(((AttributeReference) one).exprId())) {
                return true;
            }
            for (int i = 0; i < known.size(); i++) {
                if (!isSafe((Expression) known.get(i), seen)) {
                    return false;
                }
            }
            return true;
        }
        if (seen != null && name.equals(EXPRESSIONS + "aggregate.AggregateExpression")) {
            return true; // of a group, whose rows are the same ones
        }
        if (one.foldable()) {
            return isFolded(one);
        }
        boolean known = name.startsWith(EXPRESSIONS) && UNFAILING.contains(name.substring(EXPRESSIONS.length()));
        if (one instanceof Remainder || one instanceof Pmod) {
            known = isNotZero((Expression) ((BinaryExpression) one).right());
        } else if (one instanceof Cast) {
            known = Cast.canUpCast(((Cast) one).child().dataType(), one.dataType());
        }
        if (!known || !one.deterministic()) {
            return false;
        }
        scala.collection.Iterator all = one.children().iterator();
        while (all.hasNext()) {
            if (!isSafe((Expression) all.next(), seen)) {
                return false;
            }
        }
        return true;
    }

    private static boolean isFolded(Expression one) {
        try {
            one.eval(null);
            return true;
        } catch (Exception why) { // the query itself says it
            return false;
        }
    }

    private static boolean isNotZero(Expression one) {
        return one instanceof Literal && ((Literal) one).value() instanceof Number
                && ((Number) ((Literal) one).value()).doubleValue() != 0;
    }

    /**
     * The template with a test of its own for each that compares something with one of these columns: that it is one of
     * their values, or beyond the least or largest of them, which Spark sends to the scans. Null where a test with these
     * columns is none of that kind, and a scan below reads a table in partitions, of which it would no longer leave any out.
     */
    public Object hinted(Object template, Object columns, Object rows) {
        Map at = new HashMap();
        for (int i = 0; i < ((scala.collection.Seq) columns).size(); i++) {
            at.put(((NamedExpression) ((scala.collection.Seq) columns).apply(i)).exprId(), Integer.valueOf(i + 1));
        }
        return hint((LogicalPlan) template, at, (scala.collection.Seq) rows);
    }

    private LogicalPlan hint(LogicalPlan plan, Map at, scala.collection.Seq rows) {
        List below = new ArrayList();
        boolean changed = false;
        scala.collection.Iterator all = plan.children().iterator();
        while (all.hasNext()) {
            LogicalPlan one = (LogicalPlan) all.next();
            LogicalPlan other = hint(one, at, rows);
            if (other == null) {
                return null;
            }
            below.add(other);
            changed = changed || one != other;
        }
        LogicalPlan found = changed ? (LogicalPlan) plan.withNewChildren(PythonUtils.toSeq(below)) : plan;
        if (!(plan instanceof Filter)) {
            return found;
        }
        List tests = new ArrayList();
        split(((Filter) plan).condition(), tests);
        Expression condition = ((Filter) plan).condition();
        boolean whole = true;
        for (int i = 0; i < tests.size(); i++) {
            Expression test = (Expression) tests.get(i);
            if (uses(test.references().iterator(), at.keySet())) {
                Expression hint = one(test, at, rows);
                whole = whole && hint != null;
                condition = hint == null ? condition : new And(condition, hint);
            }
        }
        if (!whole && isPartitioned(plan)) {
            return null;
        }
        return new Filter(condition, (LogicalPlan) found.children().apply(0));
    }

    private static void split(Expression condition, List tests) {
        if (condition instanceof And) {
            split(((And) condition).left(), tests);
            split(((And) condition).right(), tests);
        } else {
            tests.add(condition);
        }
    }

    private static Expression one(Expression test, Map at, scala.collection.Seq rows) {
        boolean equal = test instanceof EqualTo;
        boolean most = test instanceof LessThan || test instanceof LessThanOrEqual;
        boolean least = test instanceof GreaterThan || test instanceof GreaterThanOrEqual;
        if (!equal && !most && !least) {
            return null;
        }
        Expression left = (Expression) ((BinaryExpression) test).left();
        Expression right = (Expression) ((BinaryExpression) test).right();
        boolean turned = at.containsKey(id(left));
        Expression other = turned ? right : left;
        Expression column = turned ? left : right;
        Integer place = (Integer) at.get(id(column));
        if (place == null || uses(other.references().iterator(), at.keySet()) || !isExact(column.dataType())) {
            return null;
        }
        Set values = values(place.intValue(), column.dataType(), rows);
        if (values.isEmpty() || (equal && values.size() > MOST)) {
            return null;
        }
        List told = new ArrayList();
        if (equal) {
            Iterator all = values.iterator();
            while (all.hasNext()) {
                told.add(new Literal(all.next(), column.dataType()));
            }
            return new In(other, PythonUtils.toSeq(told));
        }
        Object last = most == turned ? Collections.min(values) : Collections.max(values);
        Literal limit = new Literal(last, column.dataType());
        told.add(turned ? limit : other);
        told.add(turned ? other : limit);
        return (Expression) test.withNewChildren(PythonUtils.toSeq(told));
    }

    private static Object id(Expression one) {
        return one instanceof AttributeReference ? ((AttributeReference) one).exprId() : null;
    }

    private static Set values(int place, DataType type, scala.collection.Seq rows) {
        Set known = new LinkedHashSet();
        scala.collection.Iterator all = rows.iterator();
        while (all.hasNext()) {
            Object value = ((InternalRow) all.next()).get(place, type);
            if (value != null) {
                known.add(value);
            }
        }
        return known;
    }

    private static boolean isExact(DataType type) {
        return type.equals(DataTypes.StringType)
                || type.equals(DataTypes.BooleanType)
                || type.equals(DataTypes.ByteType)
                || type.equals(DataTypes.ShortType)
                || type.equals(DataTypes.IntegerType)
                || type.equals(DataTypes.LongType)
                || type.equals(DataTypes.DateType)
                || type.equals(DataTypes.TimestampType)
                || type.equals(DataTypes.TimestampNTZType);
    }

    private static boolean isPartitioned(LogicalPlan plan) {
        if (plan instanceof LogicalRelation && ((LogicalRelation) plan).relation() instanceof HadoopFsRelation) {
            return ((HadoopFsRelation) ((LogicalRelation) plan).relation()).partitionSchema().size() > 0;
        }
        scala.collection.Iterator all = plan.children().iterator();
        while (all.hasNext()) {
            if (isPartitioned((LogicalPlan) all.next())) {
                return true;
            }
        }
        return false;
    }
}
