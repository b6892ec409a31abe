package whence;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InterpretedProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LocalLimitExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;

import scala.runtime.AbstractFunction0;

/**
 * Few rows, which the driver has or is to have: read, chosen and named without Spark's analysis, optimizer and planner, which
 * would take a hundred times as long as these rows do. Janino compiles this: no generics, no lambdas.
 */
public final class AtHand {
    private static final int MOST = 10000;
    // Expressions of which the value is the same however a session is set.
    private static final Set PLAIN = new HashSet(Arrays.asList(new String[] {
        "Alias", "AttributeReference", "Literal", "And", "Or", "IsNull", "IsNotNull", "EqualTo", "EqualNullSafe", "In",
        "InSet",
    }));

    /** The rows of a plan that only chooses and names rows which stand in it; null for others. */
    public Object rows(Object plan) {
        List found = found((LogicalPlan) plan);
        return found == null ? null : PythonUtils.toSeq(found);
    }

    private static List found(LogicalPlan plan) {
        if (plan instanceof LocalRelation) {
            LocalRelation local = (LocalRelation) plan;
            return local.isStreaming() || local.data().size() > MOST ? null : list(local.data());
        }
        boolean names = plan instanceof Project;
        if (!names && !(plan instanceof Filter) || !plan.resolved()) {
            return null;
        }
        List wanted = names ? list(((Project) plan).projectList()) : new ArrayList();
        if (!names) {
            wanted.add(((Filter) plan).condition());
        }
        for (int i = 0; i < wanted.size(); i++) {
            if (!isPlain((Expression) wanted.get(i))) {
                return null;
            }
        }
        LogicalPlan below = (LogicalPlan) plan.children().head();
        List rows = found(below);
        if (rows == null) {
            return null;
        }
        InterpretedProjection make = new InterpretedProjection(PythonUtils.toSeq(wanted), below.output());
        List made = new ArrayList();
        for (int i = 0; i < rows.size(); i++) {
            InternalRow row = make.apply((InternalRow) rows.get(i));
            if (names) {
                made.add(row);
            } else if (!row.isNullAt(0) && row.getBoolean(0)) {
                made.add(rows.get(i));
            }
        }
        return made;
    }

    private static boolean isPlain(Expression expression) {
        if (!PLAIN.contains(expression.getClass().getSimpleName())) {
            return false;
        }
        List below = list(expression.children());
        for (int i = 0; i < below.size(); i++) {
            if (!isPlain((Expression) below.get(i))) {
                return false;
            }
        }
        return true;
    }

    private static List list(scala.collection.Iterable all) {
        List found = new ArrayList();
        scala.collection.Iterator each = all.iterator();
        while (each.hasNext()) {
            found.add(each.next());
        }
        return found;
    }

    /**
     * The same as Python is told them, value by value: n is NULL, i an integer, t and f are truth values, d is a decimal, s a
     * text with its length in front. First of all stands the number of columns. Null where there are values of other types.
     */
    public String told(Object plan) {
        List rows = found((LogicalPlan) plan);
        if (rows == null) {
            return null;
        }
        List columns = list(((LogicalPlan) plan).output());
        if (columns.isEmpty()) { // how many rows there are could not be told
            return null;
        }
        StringBuilder told = new StringBuilder().append(columns.size()).append(';');
        DataType[] types = new DataType[columns.size()];
        for (int i = 0; i < types.length; i++) {
            types[i] = ((Attribute) columns.get(i)).dataType();
            String name = types[i].catalogString();
            if (!(types[i] instanceof DecimalType) && !NAMES.contains(name)) {
                return null;
            }
        }
        for (int i = 0; i < rows.size(); i++) {
            InternalRow row = (InternalRow) rows.get(i);
            for (int k = 0; k < types.length; k++) {
                tell(row.isNullAt(k) ? null : row.get(k, types[k]), told);
            }
        }
        return told.toString();
    }

    private static final Set NAMES =
        new HashSet(Arrays.asList(new String[] {"boolean", "tinyint", "smallint", "int", "bigint", "string"}));

    private static void tell(Object value, StringBuilder told) {
        if (value == null) {
            told.append("n;");
        } else if (value instanceof Boolean) {
            told.append(((Boolean) value).booleanValue() ? "t;" : "f;");
        } else if (value instanceof UTF8String) {
            String text = value.toString();
            told.append('s').append(text.codePointCount(0, text.length())).append(';').append(text);
        } else if (value instanceof Number && !(value instanceof BigDecimal)) {
            told.append('i').append(value.toString()).append(';');
        } else {
            told.append('d').append(value.toString()).append(';');
        }
    }

    /**
     * The rows that this query reads, if they are so few and take so few bytes: all of them are computed and stay where they
     * are, and in the same job the first ones of each partition come to the driver. Null where there are more. `query` reads
     * what is kept of another one, and nothing else.
     */
    public Object few(Object query, int most, long bytes) {
        Object[] rows = first(((QueryExecution) query).sparkPlan(), ((QueryExecution) query).sparkSession(), most + 1);
        long size = 0;
        for (int i = 0; i < rows.length; i++) {
            size += ((UnsafeRow) rows[i]).getSizeInBytes();
        }
        return rows.length > most || size > bytes ? null : PythonUtils.toSeq(Arrays.asList(rows));
    }

    /** The rows of a query, if they are so few: of each partition no more than one more is computed. Null otherwise. */
    public Object first(Object query, int most) {
        QueryExecution known = (QueryExecution) query;
        Object[] rows = first(known.executedPlan(), known.sparkSession(), most + 1);
        return rows.length > most ? null : PythonUtils.toSeq(Arrays.asList(rows));
    }

    /**
     * The first rows of each partition of a plan. The limit stands above what Spark compiles, since its counter has another
     * name in every query: with it, code that was compiled before would be compiled anew.
     */
    private static Object[] first(final SparkPlan plan, final SparkSession session, final int rows) {
        return (Object[]) session.withActive(new AbstractFunction0() {
            public Object apply() {
                return SQLExecution.withSQLConfPropagated(session, new AbstractFunction0() {
                    public Object apply() {
                        return new LocalLimitExec(rows, plan).executeCollect();
                    }
                });
            }
        });
    }
}
