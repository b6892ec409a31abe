/* What stands in the fields of an operator, whatever it is. */
package whence;

import java.util.ArrayDeque;
import org.apache.spark.sql.catalyst.catalog.CatalogDatabase;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

abstract class Values extends Sources {
    private final Watcher watcher;

    Values(QueryExecution qe, Watcher watcher, int maxChars, long maxNanos, int maxLevels, Commits commits) {
        super(qe, maxChars, maxNanos, maxLevels, commits);
        this.watcher = watcher;
    }

    abstract void node(LogicalPlan plan, boolean withOutput);

    abstract void flat(LogicalPlan plan);

    abstract void expression(Expression expression);

    void value(Object value, int depth) {
        check();
        if (value == null || value instanceof scala.None$ || depth > 12) {
            out.append("null");
        } else if (value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            out.append(value.toString());
        } else if (value instanceof String) {
            out.append(quote(cut((String) value, 4000)));
        } else if (value instanceof Expression) {
            expression((Expression) value);
        } else if (value instanceof LogicalPlan) {
            out.append("{\"plan\":");
            if (coarse) {
                flat((LogicalPlan) value);
            } else {
                node((LogicalPlan) value, true);
            }
            out.append('}');
        } else if (value instanceof scala.Some) {
            value(((scala.Some) value).value(), depth);
        } else if (value instanceof StructType) {
            StructField[] fields = ((StructType) value).fields();
            out.append('[');
            for (int i = 0; i < fields.length; i++) {
                out.append(i > 0 ? "," : "").append("[null,").append(quote(fields[i].name())).append(',');
                out.append(quote(cut(fields[i].dataType().catalogString(), 300))).append(']');
            }
            out.append(']');
        } else if (value instanceof StructField) {
            out.append("[null,").append(quote(((StructField) value).name())).append(',');
            out.append(quote(cut(((StructField) value).dataType().catalogString(), 300))).append(']');
        } else if (value instanceof org.apache.spark.rdd.RDD) {
            rdd((org.apache.spark.rdd.RDD) value);
        } else if (value instanceof CatalogTable) {
            table((CatalogTable) value);
        } else if (value instanceof CatalogStorageFormat) {
            out.append("{\"location\":").append(quote(option(((CatalogStorageFormat) value).locationUri()))).append('}');
        } else if (value instanceof CatalogDatabase) {
            CatalogDatabase database = (CatalogDatabase) value;
            out.append("{\"database\":").append(quote(database.name())).append(",\"location\":");
            out.append(quote(String.valueOf(database.locationUri()))).append('}');
        } else if (value instanceof org.apache.spark.sql.catalyst.TableIdentifier) {
            org.apache.spark.sql.catalyst.TableIdentifier id = (org.apache.spark.sql.catalyst.TableIdentifier) value;
            out.append("{\"table\":").append(quote(id.table())).append(",\"database\":").append(quote(option(id.database())));
            out.append(",\"catalog\":").append(quote(option(id.catalog()))).append('}');
        } else if (value instanceof HadoopFsRelation) {
            HadoopFsRelation relation = (HadoopFsRelation) value;
            out.append("{\"c\":\"HadoopFsRelation\",\"format\":").append(quote(relation.fileFormat().getClass().getSimpleName()));
            out.append(",\"paths\":");
            paths(relation.location());
            out.append(",\"base\":").append(quote(option(relation.options().get("basePath")))).append('}');
        } else if (value instanceof FileIndex) {
            out.append("{\"c\":").append(quote(value.getClass().getSimpleName())).append(",\"paths\":");
            paths((FileIndex) value);
            out.append('}');
        } else if (value instanceof BaseRelation) {
            out.append("{\"c\":").append(quote(value.getClass().getSimpleName())).append(",\"class\":").append(quote(value.getClass().getName()));
            options(value);
            out.append('}');
        } else if (value instanceof Table) {
            v2table((Table) value);
        } else if (value instanceof CatalogPlugin) {
            String name = ((CatalogPlugin) value).name();
            out.append("{\"catalog\":").append(quote(name)).append(",\"warehouse\":").append(quote(warehouse(name))).append('}');
        } else if (value instanceof Identifier) {
            Identifier id = (Identifier) value;
            out.append("{\"name\":").append(quote(id.name())).append(",\"namespace\":[");
            String[] parts = id.namespace();
            for (int i = 0; i < parts.length; i++) {
                out.append(i > 0 ? "," : "").append(quote(parts[i]));
            }
            out.append("]}");
        } else if (value instanceof scala.collection.Map) {
            map((scala.collection.Map) value, depth);
        } else if (value instanceof java.util.Map) {
            javaMap((java.util.Map) value);
        } else if (value instanceof scala.collection.Iterable) {
            sequence(((scala.collection.Iterable) value).iterator(), depth);
        } else if (value instanceof Object[]) {
            Object[] items = (Object[]) value;
            out.append('[');
            for (int i = 0; i < items.length && i < 20000; i++) {
                out.append(i > 0 ? "," : "");
                value(items[i], depth + 1);
            }
            out.append(']');
        } else if (value instanceof org.apache.hadoop.fs.Path || value instanceof java.net.URI || value instanceof Enum
            || value instanceof java.util.UUID) {
            out.append(quote(value.toString()));
        } else if (value instanceof scala.Tuple2) {
            out.append('[');
            value(((scala.Tuple2) value)._1(), depth + 1);
            out.append(',');
            value(((scala.Tuple2) value)._2(), depth + 1);
            out.append(']');
        } else if (isSink(value)) {
            out.append("{\"c\":").append(quote(value.getClass().getSimpleName())).append(",\"text\":").append(quote(cut(String.valueOf(value), 1000)));
            options(value);
            out.append('}');
        } else if (value instanceof scala.Product && value.getClass().getName().startsWith("org.apache.spark.sql")) {
            scala.Product product = (scala.Product) value;
            out.append("{\"c\":").append(quote(value.getClass().getSimpleName()));
            for (int i = 0; i < product.productArity(); i++) {
                out.append(',').append(quote(product.productElementName(i))).append(':');
                value(product.productElement(i), depth + 1);
            }
            out.append('}');
        } else {
            out.append("{\"c\":").append(quote(value.getClass().getSimpleName())).append('}');
        }
    }

    /* An RDD and what it is computed from: the id, class and paths of each RDD behind it that has none behind it or is noted. */
    void rdd(org.apache.spark.rdd.RDD rdd) {
        out.append("{\"c\":").append(quote(rdd.getClass().getSimpleName())).append(",\"id\":").append(rdd.id()).append(",\"behind\":[");
        java.util.HashSet seen = new java.util.HashSet();
        ArrayDeque todo = new ArrayDeque();
        todo.add(rdd);
        boolean first = true;
        boolean kept = false;
        while (!todo.isEmpty() && seen.size() < 10000) {
            org.apache.spark.rdd.RDD next = (org.apache.spark.rdd.RDD) todo.poll();
            if (!seen.add(Integer.valueOf(next.id()))) {
                continue;
            }
            kept |= next.getStorageLevel().useMemory() || next.getStorageLevel().useDisk();
            boolean ends = next.dependencies().isEmpty() || watcher.isNoted(next.id());
            if (ends) {
                out.append(first ? "" : ",").append('[').append(next.id()).append(',').append(quote(next.getClass().getSimpleName()));
                out.append(',').append(quote(Watcher.rddPath(next))).append(']');
                first = false;
                continue;
            }
            scala.collection.Iterator dependencies = next.dependencies().iterator();
            while (dependencies.hasNext()) {
                todo.add(((org.apache.spark.Dependency) dependencies.next()).rdd());
            }
        }
        out.append("],\"kept\":").append(kept).append('}');
    }

    static boolean isSink(Object value) {
        return value instanceof org.apache.spark.sql.connector.catalog.SupportsWrite
            || value.getClass().getSimpleName().endsWith("Sink");
    }

    void sequence(scala.collection.Iterator some, int depth) {
        out.append('[');
        boolean first = true;
        while (some.hasNext()) {
            if (!first) {
                out.append(',');
            }
            first = false;
            value(some.next(), depth + 1);
        }
        out.append(']');
    }

    void map(scala.collection.Map map, int depth) {
        out.append('{');
        scala.collection.Iterator some = map.iterator();
        boolean first = true;
        while (some.hasNext()) {
            scala.Tuple2 pair = (scala.Tuple2) some.next();
            if (!first) {
                out.append(',');
            }
            first = false;
            out.append(quote(String.valueOf(pair._1()))).append(':');
            value(pair._2(), depth + 1);
        }
        out.append('}');
    }
}
