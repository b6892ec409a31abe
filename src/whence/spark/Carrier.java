package whence;

import java.io.File;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.Function2;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.storage.BlockManager;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.SerializableConfiguration;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Stands before a stage that Python runs. When the task ends well, the file that its Python worker left in Spark's local
 * directory is copied to the store, with Spark's own file system. Janino compiles this: no generics, no lambdas.
 */
public class Carrier implements Function2 {
    private final String scratch;
    private final String folder;
    private final String rights;
    private final Broadcast settings;
    private final CollectionAccumulator failed;

    public Carrier(String scratch, String folder, String rights, Broadcast settings, CollectionAccumulator failed) {
        this.scratch = scratch;
        this.folder = folder;
        this.rights = rights;
        this.settings = settings;
        this.failed = failed;
    }

    public Object call(Object split, Object records) {
        TaskContext context = TaskContext.get();
        if (context != null) {
            context.addTaskCompletionListener((TaskCompletionListener) new Carry(this, split.toString()));
        }
        return records;
    }

    void carry(TaskContext context, String split) {
        String name = split + "-" + context.taskAttemptId();
        File local = null;
        try {
            local = new File(new File(localDirectory(), scratch), name);
            if (!local.isFile() || context.isFailed() || context.isInterrupted()) {
                return;
            }
            Configuration conf = ((SerializableConfiguration) settings.value()).value();
            Path target = new Path(folder, name);
            FileSystem system = target.getFileSystem(conf);
            FileUtil.copy(FileSystem.getLocal(conf).getRaw(), new Path(local.toURI()), system, target, false, true, conf);
            if (rights != null) {
                system.setPermission(target, new FsPermission(rights));
            }
        } catch (Throwable problem) {
            // The user's task goes on; what is missing is told to the driver.
            failed.add(folder.substring(folder.lastIndexOf('/') + 1) + "\t" + name + "\t" + problem);
        } finally {
            if (local != null) {
                local.delete();
            }
        }
    }

    /** SparkEnv is asked by handles: to compile a call, or to look for a method, needs classes that Spark lacks. */
    private static File localDirectory() throws Throwable {
        ClassLoader loader = TaskContext.class.getClassLoader();
        Class kind = Class.forName("org.apache.spark.SparkEnv", true, loader);
        Class manager = Class.forName("org.apache.spark.storage.BlockManager", true, loader);
        MethodHandles.Lookup lookup = MethodHandles.publicLookup();
        MethodHandle get = lookup.findStatic(kind, "get", MethodType.methodType(kind));
        MethodHandle blocks = lookup.findVirtual(kind, "blockManager", MethodType.methodType(manager));
        Object env = get.invokeWithArguments(new Object[0]);
        BlockManager found = (BlockManager) blocks.invokeWithArguments(new Object[] {env});
        return found.diskBlockManager().localDirs()[0];
    }

    public static class Carry implements TaskCompletionListener {
        private final Carrier carrier;
        private final String split;

        public Carry(Carrier carrier, String split) {
            this.carrier = carrier;
            this.split = split;
        }

        public void onTaskCompletion(TaskContext context) {
            carrier.carry(context, split);
        }
    }
}
