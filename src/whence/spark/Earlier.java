package whence;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusCache;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import scala.Option;
import scala.collection.Iterator;

/**
 * Files of a place as an earlier reader of it listed them, when others had not come yet: the same place to Spark, with the same
 * partitions, of which only these files are read. Spark asks a cache what is below a root before it asks the file system, and
 * here the cache always knows, also after a refresh. Janino compiles this: no generics, no lambdas.
 */
public final class Earlier {
    public Earlier() {}

    /** The relation with these files of its own (paths, one to a line) alone; null where Spark lists in another way. */
    public Object reading(Object now, String paths) {
        HadoopFsRelation relation = (HadoopFsRelation) now;
        Object location = relation.location();
        InMemoryFileIndex index = null;
        if (location instanceof CatalogFileIndex) {
            index = ((CatalogFileIndex) location).filterPartitions(scala.collection.immutable.Nil$.MODULE$);
        } else if (location.getClass() == InMemoryFileIndex.class) {
            index = (InMemoryFileIndex) location;
        } else {
            return null;
        }
        Set wanted = new HashSet(Arrays.asList(paths.split("\n")));
        Known known = new Known();
        for (Iterator all = index.leafFiles().valuesIterator(); all.hasNext();) {
            FileStatus file = (FileStatus) all.next();
            if (wanted.contains(file.getPath().toString())) {
                known.files.add(file);
            }
        }
        InMemoryFileIndex earlier = new InMemoryFileIndex(
            relation.sparkSession(),
            relation.location().rootPaths(),
            relation.options(),
            Option.apply(relation.schema()),
            known,
            Option.apply(index.partitionSpec()),
            Option.empty());
        return relation.copy(
            earlier,
            relation.partitionSchema(),
            relation.dataSchema(),
            relation.bucketSpec(),
            relation.fileFormat(),
            relation.options(),
            relation.sparkSession());
    }
}

final class Known extends FileStatusCache {
    final List files = new ArrayList();

    public Option getLeafFiles(Path root) {
        String below = root.toString().endsWith("/") ? root.toString() : root + "/";
        List found = new ArrayList();
        for (int i = 0; i < files.size(); i++) {
            String path = ((FileStatus) files.get(i)).getPath().toString();
            if (path.startsWith(below) || path.equals(root.toString())) {
                found.add(files.get(i));
            }
        }
        return Option.apply(found.toArray(new FileStatus[0]));
    }

    public void putLeafFiles(Path root, FileStatus[] found) {}

    public void invalidateAll() {}
}
