/* One plan as JSON: a node is {"c": class, "f": fields, "k": children}, an expression likewise, an attribute its number. */
package whence;

import java.util.ArrayDeque;
import java.util.IdentityHashMap;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.QueryExecution;

abstract class Tree extends Values {
    /* Operators whose columns follow from their own expressions: their output need not be told. */
    private static final String PLAIN = " Project Filter Join Sort SubqueryAlias GlobalLimit LocalLimit Aggregate Window Generate Expand"
        + " Repartition RepartitionByExpression ResolvedHint Sample LateralJoin ";
    private static final String CHAINS = " Add Subtract Multiply And Or Concat BitwiseAnd BitwiseOr ";

    Tree(QueryExecution qe, Watcher watcher, int maxChars, long maxNanos, int maxLevels, Commits commits) {
        super(qe, watcher, maxChars, maxNanos, maxLevels, commits);
    }

    void node(LogicalPlan plan, boolean withOutput) {
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

    /* A plan with all its leaves as children, also those of subqueries. */
    void flat(LogicalPlan plan) {
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

    static void push(ArrayDeque todo, LogicalPlan plan) {
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

    void output(LogicalPlan plan) {
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

    void fields(scala.Product node, scala.collection.Seq children) {
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

    static boolean isChild(Object field, scala.collection.Seq children) {
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

    void expression(Expression expression) {
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
    void operands(Expression expression) {
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

    void struct(Expression expression) {
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

    static String fieldName(GetStructField field) {
        try {
            return field.extractFieldName();
        } catch (Throwable unknown) {
            return String.valueOf(field.ordinal());
        }
    }

    static String function(Expression expression) {
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
}
