package whence;

import java.lang.reflect.Field;
import java.math.BigDecimal;
import java.net.SocketException;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

import py4j.DefaultGatewayServerListener;
import py4j.Gateway;
import py4j.GatewayServer;
import py4j.Py4JServerConnection;
import scala.runtime.AbstractFunction0;

/**
 * Many nodes of plans in one round trip, each with what is mostly asked about it next. Of a sequence Python gets a line
 * for each node (its handle in the gateway, its class, id, type, name and marks, tabs between), or null if one of them is
 * no node. Janino compiles this: no generics, no lambdas.
 */
public final class Handles {
    private final Gateway gateway;

    public Handles(Object server) {
        gateway = ((GatewayServer) server).getGateway();
        answerAtOnce((GatewayServer) server);
    }

    /**
     * An answer of more than some 8,000 characters goes out in pieces, and the operating system would hold the last one back
     * until Python's side has said that it got the ones before, which that says after 40 ms. From now on all go out at once,
     * in connections that threads open later too.
     */
    private static void answerAtOnce(GatewayServer server) {
        server.addListener(new DefaultGatewayServerListener() {
            public void connectionStarted(Py4JServerConnection connection) {
                atOnce(connection);
            }
        });
        try {
            Field known = GatewayServer.class.getDeclaredField("connections");
            known.setAccessible(true);
            Object[] all = ((List) known.get(server)).toArray();
            for (int i = 0; i < all.length; i++) {
                atOnce((Py4JServerConnection) all[i]);
            }
        } catch (Exception unknown) {
            return; // another py4j: long answers take longer
        }
    }

    private static void atOnce(Py4JServerConnection connection) {
        try {
            connection.getSocket().setTcpNoDelay(true);
        } catch (SocketException closed) {
            return; // it answers nothing any more
        }
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
        return lines(nodes);
    }

    private String lines(List nodes) {
        StringBuilder told = new StringBuilder();
        for (int i = 0; i < nodes.size(); i++) {
            told.append(i == 0 ? "" : "\n").append(line(nodes.get(i)));
        }
        return told.toString();
    }

    private String line(Object node) {
        return gateway.putNewObject(node) + '\t' + node.getClass().getSimpleName() + '\t' + id(node) + '\t'
                + type(node) + '\t' + text(node) + '\t' + marks(node);
    }

    /** A plan with all below it, each node once however often it stands there. In front of its line stand the numbers of its
     * inputs among the lines before it, and of what reads files a number that others have too which read the same. */
    public String tree(Object plan) {
        StringBuilder told = new StringBuilder();
        open((TreeNode) plan, new IdentityHashMap(), new IdentityHashMap(), told);
        return told.toString();
    }

    private int open(TreeNode node, Map known, Map read, StringBuilder told) {
        Integer number = (Integer) known.get(node);
        if (number != null) {
            return number.intValue();
        }
        StringBuilder below = new StringBuilder();
        scala.collection.Iterator all = node.children().iterator();
        while (all.hasNext()) {
            below.append(open((TreeNode) all.next(), known, read, told)).append(' ');
        }
        told.append(known.isEmpty() ? "" : "\n").append(below).append('\t').append(read(node, read)).append('\t');
        told.append(line(node));
        number = Integer.valueOf(known.size());
        known.put(node, number);
        return number.intValue();
    }

    /** The copies of a node that read one relation, by one name or by none, under other ids. */
    private static String read(Object node, Map read) {
        if (!(node instanceof LogicalRelation)) {
            return "";
        }
        LogicalRelation one = (LogicalRelation) node;
        List alike = (List) read.get(one.relation());
        if (alike == null) {
            alike = new ArrayList();
            read.put(one.relation(), alike);
        }
        for (int i = 0; i < alike.size(); i++) {
            LogicalRelation other = (LogicalRelation) ((Object[]) alike.get(i))[0];
            if (one.catalogTable().equals(other.catalogTable()) && one.isStreaming() == other.isStreaming()) {
                return (String) ((Object[]) alike.get(i))[1];
            }
        }
        String number = read.size() + "." + alike.size();
        alike.add(new Object[] {one, number});
        return number;
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

    /** The subquery expressions in an expression, or in those of a plan's own node; not those within another one's query. */
    public String subqueries(Object node) {
        List found = new ArrayList();
        if (node instanceof Expression) {
            subqueries((Expression) node, found);
        } else {
            scala.collection.Iterator all = ((QueryPlan) node).expressions().iterator();
            while (all.hasNext()) {
                subqueries((Expression) all.next(), found);
            }
        }
        return lines(found);
    }

    private static void subqueries(Expression expression, List found) {
        if (!expression.containsPattern(TreePattern$.MODULE$.PLAN_EXPRESSION())) {
            return;
        }
        if (expression instanceof PlanExpression) {
            found.add(expression);
            return;
        }
        scala.collection.Iterator all = expression.children().iterator();
        while (all.hasNext()) {
            subqueries((Expression) all.next(), found);
        }
    }

    /** The hidden column in which a scan tells file and row; nothing where it has none. */
    public String metadata(Object scan) {
        List found = new ArrayList();
        scala.collection.Iterator all = ((QueryPlan) scan).output().iterator();
        while (all.hasNext()) {
            Attribute one = (Attribute) all.next();
            if (hasField(one, "file_path") && !one.metadata().json().equals("{}")) {
                found.clear();
                found.add(one);
            }
        }
        return lines(found);
    }

    public boolean hasField(Object expression, String name) {
        DataType type = ((Expression) expression).dataType();
        return type instanceof StructType && ((StructType) type).getFieldIndex(name).isDefined();
    }

    /** `expression IN (...)`: the values have its type, and stand here as texts, each with its length in front of it. */
    public Object oneOf(Object expression, String values) {
        DataType type = ((Expression) expression).dataType();
        List found = new ArrayList();
        int at = 0;
        while (at < values.length()) {
            int end = values.indexOf(':', at);
            int next = end + 1 + Integer.parseInt(values.substring(at, end));
            found.add(constant(values.substring(end + 1, next), type));
            at = next;
        }
        return new In((Expression) expression, PythonUtils.toSeq(found));
    }

    /** A constant of the type of an expression. */
    public Object constant(Object like, String text) {
        return constant(text, ((Expression) like).dataType());
    }

    private static Literal constant(String text, DataType type) {
        Object value;
        if (type instanceof LongType) {
            value = Long.valueOf(text);
        } else if (type instanceof IntegerType) {
            value = Integer.valueOf(text);
        } else if (type instanceof ShortType) {
            value = Short.valueOf(text);
        } else if (type instanceof ByteType) {
            value = Byte.valueOf(text);
        } else if (type instanceof DecimalType) {
            DecimalType kind = (DecimalType) type;
            value = Decimal.apply(new BigDecimal(text), kind.precision(), kind.scale());
        } else {
            value = UTF8String.fromString(text);
        }
        return new Literal(value, type);
    }

    /** The rows of a physical plan, all of which come to the driver. What runs there goes by its session's settings. */
    public Object collected(Object plan) {
        final SparkPlan physical = (SparkPlan) plan;
        return SQLExecution.withSQLConfPropagated(physical.session(), new AbstractFunction0() {
            public Object apply() {
                return PythonUtils.toSeq(Arrays.asList(physical.executeCollect()));
            }
        });
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

    /** The files of a listing as rows tell them, one to a line. */
    public String files(Object listing) throws Exception {
        String[] all = ((FileIndex) listing).inputFiles();
        StringBuilder told = new StringBuilder();
        for (int i = 0; i < all.length; i++) {
            Path path = new Path(new Path(new URI(all[i])).toString());
            told.append(i == 0 ? "" : "\n").append(path.toUri().toString());
        }
        return told.toString();
    }

    /**
     * The files that a plan reads, as they are listed at the moment, in its subqueries too: of each scan, from left to right, its
     * number of files, and then a line for each (length, time, path). Null where something is read that is not listed
     * beforehand, or that is neither a file nor stands in the plan; empty where only rows are read that stand in it.
     */
    public String listed(Object plan) {
        LogicalPlan query = (LogicalPlan) plan;
        StringBuilder told = new StringBuilder();
        boolean all = listed(query, told);
        if (all && query.containsPattern(TreePattern$.MODULE$.PLAN_EXPRESSION())) {
            scala.collection.Iterator subqueries = query.subqueriesAll().iterator();
            while (all && subqueries.hasNext()) {
                all = listed((LogicalPlan) subqueries.next(), told);
            }
        }
        return all ? told.toString() : null;
    }

    private static boolean listed(LogicalPlan plan, StringBuilder told) {
        scala.collection.Iterator leaves = plan.collectLeaves().iterator();
        while (leaves.hasNext()) {
            Object leaf = leaves.next();
            if (leaf instanceof LocalRelation || leaf instanceof Range || leaf instanceof OneRowRelation) {
                continue;
            }
            Object relation = leaf instanceof LogicalRelation ? ((LogicalRelation) leaf).relation() : null;
            FileIndex index = relation instanceof HadoopFsRelation ? ((HadoopFsRelation) relation).location() : null;
            if (index == null || index.getClass() != InMemoryFileIndex.class) { // formats with a log have others
                return false;
            }
            List files = new ArrayList();
            scala.collection.Iterator all = ((InMemoryFileIndex) index).allFiles().iterator();
            while (all.hasNext()) {
                FileStatus one = (FileStatus) all.next();
                String path = one.getPath().toString();
                if (path.indexOf('\n') >= 0) {
                    return false;
                }
                files.add("\n" + one.getLen() + '\t' + one.getModificationTime() + '\t' + path);
            }
            told.append(told.length() == 0 ? "" : "\n").append(files.size());
            for (int i = 0; i < files.size(); i++) {
                told.append(files.get(i));
            }
        }
        return true;
    }

    /** What a file system says of all that is in a directory. */
    public Object statuses(Object system, Object folder) throws Exception {
        return PythonUtils.toSeq(Arrays.asList(((FileSystem) system).listStatus((Path) folder)));
    }

    /** A node with some of its fields exchanged: the number of each, and the handle of what it is to be. */
    public Object copied(Object node, String changes) {
        scala.Product known = (scala.Product) node;
        Object[] fields = new Object[known.productArity()];
        for (int i = 0; i < fields.length; i++) {
            fields[i] = known.productElement(i);
        }
        String[] each = changes.split(" ");
        for (int i = 0; i < each.length; i += 2) {
            fields[Integer.parseInt(each[i])] = gateway.getObject(each[i + 1]);
        }
        return ((TreeNode) node).makeCopy(fields);
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

    /** Of a plan: whether it holds subqueries, functions of the user's, or what may change from run to run; also below. */
    private static String marks(Object node) {
        if (!(node instanceof LogicalPlan)) {
            return "";
        }
        try {
            LogicalPlan plan = (LogicalPlan) node;
            TreePattern$ kinds = TreePattern$.MODULE$;
            boolean functions = plan.containsPattern(kinds.PYTHON_UDF()) || plan.containsPattern(kinds.SCALA_UDF());
            return "."
                    + (plan.containsPattern(kinds.PLAN_EXPRESSION()) ? "s" : "")
                    + (functions ? "f" : "")
                    + (plan.deterministic() ? "" : "n");
        } catch (Exception unresolved) {
            return "";
        }
    }

    /** The name of a column, between quotes; nothing where it would not stay in its line. */
    private static String text(Object node) {
        if (!(node instanceof NamedExpression)) {
            return "";
        }
        try {
            String name = ((NamedExpression) node).name();
            return name.indexOf('\t') >= 0 || name.indexOf('\n') >= 0 ? "" : "'" + name + "'";
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
