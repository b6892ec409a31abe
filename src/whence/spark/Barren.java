package whence;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BinaryExpression;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;

/**
 * Branches of unions that give no row which is among a query's rows, whatever its sources hold: what the operators above
 * ask for contradicts what the branch itself asks for. Tests go down to the branches as Spark's optimizer sends them, and a
 * contradiction is one that Spark's own expressions show, with constants in the place of columns that a test says to be one.
 * Janino compiles this: no generics, no lambdas.
 */
public final class Barren {
    private static final String EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions.";
    /** What a test may be made of: nothing that calls a function of the user's, draws, asks the time, or runs a query. */
    private static final Set PLAIN = new HashSet(Arrays.asList((
            "AttributeReference Literal Cast And Or Not EqualTo EqualNullSafe In InSet IsNull IsNotNull LessThan "
            + "LessThanOrEqual GreaterThan GreaterThanOrEqual Add Subtract Multiply Divide IntegralDivide "
            + "Remainder Pmod UnaryMinus UnaryPositive Abs If CaseWhen Coalesce Concat Upper Lower Substring Length "
            + "StringTrim StartsWith EndsWith Contains Like Year Quarter Month DayOfMonth DayOfWeek Hour Minute Second "
            + "DateAdd DateSub DateDiff TruncDate TruncTimestamp").split(" ")));
    /** They hand their rows on one by one, or put them in another order or place. */
    private static final Set AS_THEY_ARE = new HashSet(Arrays.asList(
            "SubqueryAlias View ResolvedHint Sort Repartition RepartitionByExpression RebalancePartitions Generate Distinct"
            .split(" ")));
    private static final Set LEFT = new HashSet(Arrays.asList("Inner Cross LeftOuter LeftSemi LeftAnti".split(" ")));
    private static final Set RIGHT = new HashSet(Arrays.asList("Inner Cross RightOuter".split(" ")));

    private final List found = new ArrayList();

    /** Each such branch by the numbers of the inputs on the way to it, from the top; a union of unions counts as one. */
    public String branches(Object plan) {
        found.clear();
        isEmpty((LogicalPlan) plan, new ArrayList(), "");
        StringBuilder told = new StringBuilder();
        for (int i = 0; i < found.size(); i++) {
            told.append(i == 0 ? "" : "\n").append(found.get(i));
        }
        return told.toString();
    }

    /** Whether no row of the plan meets these tests. */
    private boolean isEmpty(LogicalPlan plan, List tests, String at) {
        if (!isSteady(plan)) {
            return false;
        }
        if (plan instanceof Filter) {
            List all = new ArrayList(tests);
            addTests(((Filter) plan).condition(), all);
            LogicalPlan below = ((Filter) plan).child();
            boolean never = contradict(all); // then so are unions below it
            return isEmpty(below, known(all, below), at + "0 ") || never;
        }
        if (plan instanceof Project) {
            List all = exchanged(tests, named(((Project) plan).projectList(), null));
            return contradict(all) || isEmpty(((Project) plan).child(), all, at + "0 ");
        }
        if (plan instanceof Aggregate) {
            Aggregate grouping = (Aggregate) plan;
            if (grouping.groupingExpressions().isEmpty()) { // which gives a row of nothing, too
                return false;
            }
            List all = exchanged(tests, named(grouping.aggregateExpressions(), grouping.groupingExpressions()));
            return contradict(all) || isEmpty(grouping.child(), all, at + "0 ");
        }
        if (plan instanceof Deduplicate) {
            return isEmpty(((Deduplicate) plan).child(), exchanged(tests, named(((Deduplicate) plan).keys(), null)), at + "0 ");
        }
        if (plan instanceof Window) {
            return isEmpty(((Window) plan).child(), exchanged(tests, columns(((Window) plan).partitionSpec())), at + "0 ");
        }
        if (plan instanceof Join) {
            return isJoinEmpty((Join) plan, tests, at);
        }
        if (plan instanceof Union) {
            return isUnionEmpty((Union) plan, tests, at);
        }
        if (AS_THEY_ARE.contains(plan.getClass().getSimpleName()) && plan.children().size() == 1) {
            LogicalPlan below = (LogicalPlan) plan.children().apply(0);
            return isEmpty(below, known(tests, below), at + "0 ");
        }
        return false; // what stands below is asked for by nothing that is known here
    }

    /** Whether it gives the same for a row whatever other rows there are: positions and draws count them. */
    private static boolean isSteady(LogicalPlan plan) {
        scala.collection.Seq all =
                plan instanceof Aggregate ? ((Aggregate) plan).groupingExpressions() : plan.expressions();
        scala.collection.Iterator each = all.iterator();
        while (each.hasNext()) {
            if (!((Expression) each.next()).deterministic()) {
                return false;
            }
        }
        return true;
    }

    private boolean isJoinEmpty(Join join, List tests, String at) {
        String kind = join.joinType().toString();
        List all = new ArrayList(tests);
        if (join.condition().isDefined() && (kind.equals("Inner") || kind.equals("Cross") || kind.equals("LeftSemi"))) {
            addTests((Expression) join.condition().get(), all);
        }
        boolean left = LEFT.contains(kind) && isEmpty(join.left(), known(all, join.left()), at + "0 ");
        boolean right = RIGHT.contains(kind) && isEmpty(join.right(), known(all, join.right()), at + "1 ");
        return left || right;
    }

    private boolean isUnionEmpty(Union union, List tests, String at) {
        List branches = new ArrayList();
        List asked = new ArrayList();
        open(union, tests, branches, asked);
        boolean all = true;
        for (int i = 0; i < branches.size(); i++) {
            int before = found.size();
            List here = (List) asked.get(i);
            if (contradict(here) || isEmpty((LogicalPlan) branches.get(i), here, at + i + " ")) {
                found.subList(before, found.size()).clear(); // those within it say no more
                found.add(at + i);
            } else {
                all = false;
            }
        }
        return all;
    }

    /** The branches of a union of unions of ..., each with the tests on its own columns. */
    private void open(Union union, List tests, List branches, List asked) {
        for (int i = 0; i < union.children().size(); i++) {
            LogicalPlan branch = (LogicalPlan) union.children().apply(i);
            Map own = new HashMap();
            for (int n = 0; n < branch.output().size(); n++) {
                own.put(((NamedExpression) union.output().apply(n)).exprId(), branch.output().apply(n));
            }
            List here = exchanged(tests, own);
            if (branch instanceof Union) {
                open((Union) branch, here, branches, asked);
            } else {
                branches.add(branch);
                asked.add(here);
            }
        }
    }

    // --- tests

    private static void addTests(Expression condition, List tests) {
        if (condition instanceof And) {
            addTests(((And) condition).left(), tests);
            addTests(((And) condition).right(), tests);
        } else if (condition instanceof RuntimeReplaceable) { // BETWEEN, for one
            addTests(((RuntimeReplaceable) condition).replacement(), tests);
        } else if (condition.getClass().getName().equals(EXPRESSIONS + "With")) { // which releases have or have not
            scala.Product with = (scala.Product) condition;
            Map shared = new HashMap();
            scala.collection.Iterator each = ((scala.collection.Seq) with.productElement(1)).iterator();
            while (each.hasNext()) {
                scala.Product one = (scala.Product) each.next();
                shared.put(one.productElement(1), one.productElement(0));
            }
            addTests(unshared((Expression) with.productElement(0), shared), tests);
        } else if (isPlain(condition)) {
            tests.add(condition);
        }
    }

    /** The expression with what it names once and uses twice in all of its places. */
    private static Expression unshared(Expression one, Map shared) {
        if (one.getClass().getSimpleName().equals("CommonExpressionRef")) {
            Object there = shared.get(((scala.Product) one).productElement(0));
            return there == null ? one : (Expression) there;
        }
        if (one.children().isEmpty()) {
            return one;
        }
        List below = new ArrayList();
        scala.collection.Iterator each = one.children().iterator();
        while (each.hasNext()) {
            below.add(unshared((Expression) each.next(), shared));
        }
        return (Expression) one.withNewChildren(PythonUtils.toSeq(below));
    }

    private static boolean isPlain(Expression test) {
        String name = test.getClass().getName();
        if (!name.startsWith(EXPRESSIONS) || !PLAIN.contains(name.substring(EXPRESSIONS.length())) || !test.resolved()) {
            return false;
        }
        if (test instanceof AttributeReference && !isExact(test.dataType())) {
            return false;
        }
        scala.collection.Iterator all = test.children().iterator();
        while (all.hasNext()) {
            if (!isPlain((Expression) all.next())) {
                return false;
            }
        }
        return true;
    }

    /** Whether equal values of this type are the same in all respects: not so 0.0 and -0.0, or texts under a collation. */
    private static boolean isExact(DataType type) {
        return type instanceof DecimalType
                || type.equals(DataTypes.StringType)
                || type.equals(DataTypes.BinaryType)
                || type.equals(DataTypes.BooleanType)
                || type.equals(DataTypes.ByteType)
                || type.equals(DataTypes.ShortType)
                || type.equals(DataTypes.IntegerType)
                || type.equals(DataTypes.LongType)
                || type.equals(DataTypes.DateType)
                || type.equals(DataTypes.TimestampType)
                || type.equals(DataTypes.TimestampNTZType);
    }

    /** Those that speak of nothing but columns of this plan. */
    private static List known(List tests, QueryPlan plan) {
        List all = new ArrayList();
        for (int i = 0; i < tests.size(); i++) {
            if (((Expression) tests.get(i)).references().subsetOf(plan.outputSet())) {
                all.add(tests.get(i));
            }
        }
        return all;
    }

    /** What stands behind each name; `among`: of those alone that name one of these. */
    private static Map named(scala.collection.Seq expressions, scala.collection.Seq among) {
        Map all = new HashMap();
        scala.collection.Iterator each = expressions.iterator();
        while (each.hasNext()) {
            NamedExpression one = (NamedExpression) each.next();
            Expression behind = one instanceof Alias ? ((Alias) one).child() : (Expression) one;
            if (among == null || isAmong(behind, among)) {
                all.put(one.exprId(), behind);
            }
        }
        return all;
    }

    private static boolean isAmong(Expression one, scala.collection.Seq among) {
        scala.collection.Iterator each = among.iterator();
        while (each.hasNext()) {
            if (one.semanticEquals((Expression) each.next())) {
                return true;
            }
        }
        return false;
    }

    /** Columns among these expressions, which stay what they are. */
    private static Map columns(scala.collection.Seq expressions) {
        Map all = new HashMap();
        scala.collection.Iterator each = expressions.iterator();
        while (each.hasNext()) {
            Object one = each.next();
            if (one instanceof AttributeReference) {
                all.put(((AttributeReference) one).exprId(), one);
            }
        }
        return all;
    }

    /** The tests with these in the place of columns; those that speak of another column are no longer known. */
    private static List exchanged(List tests, Map by) {
        List all = new ArrayList();
        for (int i = 0; i < tests.size(); i++) {
            Expression test = exchanged((Expression) tests.get(i), by, true);
            if (test != null && isPlain(test)) {
                all.add(test);
            }
        }
        return all;
    }

    /** `every`: null where a column has nothing in its place. */
    private static Expression exchanged(Expression test, Map by, boolean every) {
        if (test instanceof AttributeReference) {
            Expression other = (Expression) by.get(((AttributeReference) test).exprId());
            return other != null || every ? other : test;
        }
        if (test.children().isEmpty()) {
            return test;
        }
        List below = new ArrayList();
        boolean changed = false;
        scala.collection.Iterator each = test.children().iterator();
        while (each.hasNext()) {
            Expression one = (Expression) each.next();
            Expression other = exchanged(one, by, every);
            if (other == null) {
                return null;
            }
            below.add(other);
            changed = changed || one != other;
        }
        return changed ? (Expression) test.withNewChildren(PythonUtils.toSeq(below)) : test;
    }

    // --- contradictions

    /** Whether no values can meet all of these tests. */
    private static boolean contradict(List tests) {
        Map constants = new HashMap();
        for (int i = 0; i < tests.size(); i++) {
            tell((Expression) tests.get(i), constants);
        }
        for (int i = 0; i < tests.size(); i++) {
            Expression test = exchanged((Expression) tests.get(i), constants, false);
            if (test.references().isEmpty() && isNever(test)) {
                return true;
            }
        }
        return false;
    }

    /** What a test says of a column: that it is this constant. */
    private static void tell(Expression test, Map constants) {
        if (test instanceof IsNull) {
            tell(((IsNull) test).child(), Literal.create(null, ((IsNull) test).child().dataType()), constants);
        } else if (test instanceof EqualTo || test instanceof EqualNullSafe) {
            BinaryExpression both = (BinaryExpression) test;
            Expression left = (Expression) both.left();
            Expression right = (Expression) both.right();
            tell(left, right, constants);
            tell(right, left, constants);
        }
    }

    private static void tell(Expression column, Expression constant, Map constants) {
        if (column instanceof AttributeReference
                && constant.references().isEmpty()
                && column.dataType().equals(constant.dataType())
                && !constants.containsKey(((AttributeReference) column).exprId())) {
            try {
                Literal value = Literal.create(constant.eval(null), constant.dataType());
                constants.put(((AttributeReference) column).exprId(), value);
            } catch (Exception notSo) { // the query itself says what is wrong with it
                return;
            }
        }
    }

    /** Whether a test without columns is not met: false, or NULL. */
    private static boolean isNever(Expression test) {
        try {
            Object value = test.eval(null);
            return value == null || value.equals(Boolean.FALSE);
        } catch (Exception notSo) {
            return false;
        }
    }
}
