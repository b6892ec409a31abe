package whence;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

import py4j.Gateway;
import py4j.GatewayServer;

/**
 * Many nodes of plans in one round trip, each with what is mostly asked about it next. Of a sequence Python gets a line
 * for each node (its handle in the gateway, its class, its id and its type, tabs between), or null if one of them is no
 * node. Janino compiles this: no generics, no lambdas.
 */
public final class Handles {
    private final Gateway gateway;

    public Handles(Object server) {
        gateway = ((GatewayServer) server).getGateway();
    }

    public String list(Object seq) {
        scala.collection.Iterator all = ((scala.collection.Iterable) seq).iterator();
        List nodes = new ArrayList();
        while (all.hasNext()) {
            Object one = all.next();
            if (!(one instanceof TreeNode)) {
                return null;
            }
            nodes.add(one);
        }
        StringBuilder told = new StringBuilder();
        for (int i = 0; i < nodes.size(); i++) {
            Object node = nodes.get(i);
            told.append(i == 0 ? "" : "\n").append(gateway.putNewObject(node)).append('\t');
            told.append(node.getClass().getSimpleName()).append('\t').append(id(node)).append('\t').append(type(node));
        }
        return told.toString();
    }

    public String children(Object node) {
        return list(((TreeNode) node).children());
    }

    public String output(Object plan) {
        return list(((QueryPlan) plan).output());
    }

    public String references(Object node) {
        AttributeSet all = node instanceof Expression ? ((Expression) node).references() : ((QueryPlan) node).references();
        return list(all.toSeq());
    }

    /** The rows of a physical plan, all of which come to the driver. */
    public Object collected(Object plan) {
        return PythonUtils.toSeq(Arrays.asList(((SparkPlan) plan).executeCollect()));
    }

    /** A Scala sequence of objects that Python has handles of. */
    public Object seq(String handles) {
        List found = new ArrayList();
        String[] each = handles.split(" ");
        for (int i = 0; i < each.length; i++) {
            found.add(gateway.getObject(each[i]));
        }
        return PythonUtils.toSeq(found);
    }

    public String name(Object node) {
        return node.getClass().getSimpleName();
    }

    /** A named expression with a fresh id, which hides these of its metadata. */
    public Object alias(Object expression, String name, String hidden) {
        List none = new ArrayList();
        return new Alias(
                (Expression) expression,
                name,
                NamedExpression$.MODULE$.newExprId(),
                PythonUtils.toSeq(none),
                scala.Option.empty(),
                PythonUtils.toSeq(Arrays.asList(hidden.split(" "))));
    }

    public String id(Object node) {
        if (!(node instanceof NamedExpression)) {
            return "";
        }
        try {
            return ((NamedExpression) node).exprId().toString();
        } catch (Exception unresolved) {
            return "";
        }
    }

    private static String type(Object node) {
        if (!(node instanceof NamedExpression) || !(node instanceof Expression)) {
            return "";
        }
        try {
            DataType type = ((Expression) node).dataType();
            boolean nested = type instanceof StructType || type instanceof ArrayType || type instanceof MapType;
            return nested ? "" : type.catalogString();
        } catch (Exception unresolved) {
            return "";
        }
    }
}
