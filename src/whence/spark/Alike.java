package whence;

import java.io.ByteArrayInputStream;
import java.io.ObjectInputFilter;
import java.io.ObjectInputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;

import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LeafNode;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

/**
 * Plans that differ in nothing but constants and the ids of their columns. They become one plan, in which an attribute
 * stands wherever the constants differ, and a table of what each plan has there. Janino compiles this: no generics, no
 * lambdas.
 */
public final class Alike {
    private final List firsts = new ArrayList();
    /** Of each group: the constants of its plans, in the order in which they stand in the first. */
    private final List constants = new ArrayList();
    /** Whether the plans read what this session reads, and so must read the same. */
    private boolean here;

    /** Tells the group of each of these plans of one query, in order. */
    public String group(Object plans, int most) {
        here = true;
        StringBuilder told = new StringBuilder();
        scala.collection.Iterator all = ((scala.collection.Iterable) plans).iterator();
        while (all.hasNext()) {
            told.append(told.length() == 0 ? "" : " ").append(add((LogicalPlan) all.next(), most));
        }
        return told.toString();
    }

    /** Reads plans of these lengths out of one array, and tells the group of each, in order. */
    public String read(byte[] content, String lengths, String classes, int most) throws Exception {
        String[] each = lengths.split(" ");
        int at = 0;
        StringBuilder told = new StringBuilder();
        for (int i = 0; i < each.length; i++) {
            int length = Integer.parseInt(each[i]);
            ObjectInputStream given = new ObjectInputStream(new ByteArrayInputStream(content, at, length));
            given.setObjectInputFilter(ObjectInputFilter.Config.createFilter(classes));
            told.append(i == 0 ? "" : " ").append(add((LogicalPlan) given.readObject(), most));
            at += length;
        }
        return told.toString();
    }

    private int add(LogicalPlan plan, int most) {
        for (int group = 0; group < firsts.size(); group++) {
            Walk walk = new Walk(here);
            if (walk.same(((Walked) firsts.get(group)).plan, plan)) {
                ((List) constants.get(group)).add(walk.values(((Walked) firsts.get(group)).literals));
                return group;
            }
        }
        if (firsts.size() >= most) {
            return -1;
        }
        Walk walk = new Walk(here);
        if (!walk.same(plan, plan)) { // it reads what is not known to be the same twice
            return -1;
        }
        Walked first = new Walked();
        first.plan = plan;
        first.literals = walk.literals();
        List values = new ArrayList();
        values.add(walk.values(first.literals));
        firsts.add(first);
        constants.add(values);
        return firsts.size() - 1;
    }

    /** The places where the plans of a group differ: their constants stand in so many columns. */
    public int columns(int group) {
        Walked first = (Walked) firsts.get(group);
        List rows = (List) constants.get(group);
        Map known = new HashMap();
        first.column = new int[first.literals.size()];
        first.differing = new ArrayList();
        for (int at = 0; at < first.literals.size(); at++) {
            List key = new ArrayList();
            boolean differs = false;
            key.add(((Literal) first.literals.get(at)).dataType());
            for (int i = 0; i < rows.size(); i++) {
                Object value = ((Object[]) rows.get(i))[at];
                key.add(value);
                differs = differs || !java.util.Objects.equals(value, key.get(1));
            }
            first.column[at] = -1;
            if (differs) {
                Integer column = (Integer) known.get(key);
                if (column == null) {
                    column = Integer.valueOf(first.differing.size());
                    known.put(key, column);
                    first.differing.add(Integer.valueOf(at));
                }
                first.column[at] = column.intValue();
            }
        }
        return first.differing.size();
    }

    /** A constant of the first plan of a group that others have otherwise: what is to stand there is of its type. */
    public Object constant(int group, int column) {
        Walked first = (Walked) firsts.get(group);
        return first.literals.get(((Integer) first.differing.get(column)).intValue());
    }

    /** The first plan of a group with these attributes in the place of its constants. */
    public Object template(int group, Object attributes) {
        Walked first = (Walked) firsts.get(group);
        Map instead = new IdentityHashMap();
        for (int at = 0; at < first.literals.size(); at++) {
            if (first.column[at] >= 0) {
                instead.put(first.literals.get(at), ((scala.collection.Seq) attributes).apply(first.column[at]));
            }
        }
        return exchanged(first.plan, instead);
    }

    /** The rows of a group's table: the number of the plan in the group, and what it has in each column. */
    public Object rows(int group) {
        Walked first = (Walked) firsts.get(group);
        List rows = (List) constants.get(group);
        List found = new ArrayList();
        for (int i = 0; i < rows.size(); i++) {
            Object[] values = new Object[1 + first.differing.size()];
            values[0] = Long.valueOf(i);
            for (int column = 0; column < first.differing.size(); column++) {
                int at = ((Integer) first.differing.get(column)).intValue();
                values[1 + column] = ((Object[]) rows.get(i))[at];
            }
            found.add(new GenericInternalRow(values));
        }
        return PythonUtils.toSeq(found);
    }

    private static Object exchanged(Object value, Map instead) {
        if (value instanceof Literal) {
            Object other = instead.get(value);
            return other == null ? value : other;
        }
        if (value instanceof TreeNode) {
            scala.Product node = (scala.Product) value;
            Object[] fields = new Object[node.productArity()];
            boolean changed = false;
            for (int i = 0; i < fields.length; i++) {
                fields[i] = exchanged(node.productElement(i), instead);
                changed = changed || fields[i] != node.productElement(i);
            }
            return changed ? ((TreeNode) value).makeCopy(fields) : value;
        }
        if (value instanceof scala.collection.Seq) {
            scala.collection.Iterator all = ((scala.collection.Seq) value).iterator();
            List found = new ArrayList();
            boolean changed = false;
            while (all.hasNext()) {
                Object one = all.next();
                Object other = exchanged(one, instead);
                found.add(other);
                changed = changed || one != other;
            }
            return changed ? PythonUtils.toSeq(found) : value;
        }
        if (value instanceof scala.Some) {
            Object one = ((scala.Some) value).get();
            Object other = exchanged(one, instead);
            return one == other ? value : scala.Option.apply(other);
        }
        if (value instanceof scala.Tuple2) {
            scala.Tuple2 pair = (scala.Tuple2) value;
            Object left = exchanged(pair._1(), instead);
            Object right = exchanged(pair._2(), instead);
            return left == pair._1() && right == pair._2() ? value : new scala.Tuple2(left, right);
        }
        return value;
    }

    private static final class Walked {
        LogicalPlan plan;
        List literals;
        int[] column;
        List differing;
    }

    /** Two plans side by side. What it does not know how to take apart must be equal. */
    private static final class Walk {
        /** The constants of the first, each once, with the one at the same place of the other. */
        private final Map met = new IdentityHashMap();
        private final List order = new ArrayList();
        private final Map there = new HashMap();
        private final Map back = new HashMap();
        private final boolean here;

        Walk(boolean here) {
            this.here = here;
        }

        List literals() {
            return order;
        }

        Object[] values(List literals) {
            Object[] found = new Object[literals.size()];
            for (int i = 0; i < found.length; i++) {
                found[i] = ((Literal) met.get(literals.get(i))).value();
            }
            return found;
        }

        boolean same(Object one, Object other) {
            if (one instanceof Literal) {
                return other instanceof Literal && constants((Literal) one, (Literal) other);
            }
            if (one instanceof ExprId) {
                return other instanceof ExprId && ids(one, other);
            }
            if (one == null || other == null) {
                return one == other;
            }
            if (one instanceof TreeNode) {
                return one.getClass() == other.getClass()
                        && (!here || !(one instanceof LeafNode) || reads((LeafNode) one, (LeafNode) other))
                        && products((scala.Product) one, (scala.Product) other)
                        && same(((TreeNode) one).otherCopyArgs(), ((TreeNode) other).otherCopyArgs());
            }
            if (one instanceof scala.collection.Seq) {
                return other instanceof scala.collection.Seq
                        && each((scala.collection.Iterable) one, (scala.collection.Iterable) other);
            }
            if (one instanceof scala.Option || one instanceof scala.Tuple2) {
                return one.getClass() == other.getClass() && products((scala.Product) one, (scala.Product) other);
            }
            return one.equals(other);
        }

        /** Whether both read the same rows. To Spark files are the same if they lie at one place. */
        private static boolean reads(LeafNode one, LeafNode other) {
            if (one instanceof LogicalRelation) {
                Object left = ((LogicalRelation) one).relation();
                Object right = ((LogicalRelation) other).relation();
                return left == right || (isListed(left) && isListed(right) && left.equals(right));
            }
            if (one instanceof LocalRelation) {
                return ((LocalRelation) one).data() == ((LocalRelation) other).data();
            }
            return one instanceof Range || one instanceof LogicalRDD;
        }

        /** Files of which another state is marked as such (versions.py). */
        private static boolean isListed(Object relation) {
            return relation instanceof HadoopFsRelation
                    && ((HadoopFsRelation) relation).location() instanceof InMemoryFileIndex;
        }

        private boolean constants(Literal one, Literal other) {
            if (!one.dataType().equals(other.dataType())) {
                return false;
            }
            Object known = met.get(one);
            if (known != null) { // one object at two places
                return java.util.Objects.equals(((Literal) known).value(), other.value());
            }
            met.put(one, other);
            order.add(one);
            return true;
        }

        private boolean ids(Object one, Object other) {
            Object known = there.get(one);
            if (known == null && back.get(other) == null) {
                there.put(one, other);
                back.put(other, one);
                return true;
            }
            return other.equals(known);
        }

        private boolean products(scala.Product one, scala.Product other) {
            if (one.productArity() != other.productArity()) {
                return false;
            }
            for (int i = 0; i < one.productArity(); i++) {
                if (!same(one.productElement(i), other.productElement(i))) {
                    return false;
                }
            }
            return true;
        }

        private boolean each(scala.collection.Iterable one, scala.collection.Iterable other) {
            scala.collection.Iterator left = one.iterator();
            scala.collection.Iterator right = other.iterator();
            while (left.hasNext() && right.hasNext()) {
                if (!same(left.next(), right.next())) {
                    return false;
                }
            }
            return !left.hasNext() && !right.hasNext();
        }
    }
}
