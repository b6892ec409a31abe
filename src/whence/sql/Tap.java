package whence;

import java.io.DataOutputStream;
import java.io.Serializable;
import java.util.Arrays;
import java.util.zip.CRC32;
import java.util.zip.CheckedOutputStream;

import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.SerializableConfiguration;
import org.apache.spark.util.TaskCompletionListener;

import com.github.luben.zstd.Zstd;

/**
 * Passed by every row below an aggregate; remembers under which group (two hashes of its key) which source rows came by,
 * and writes that down, a chunk at a time, in a file of the task's attempt. Janino compiles this: no generics, no lambdas.
 *
 * A chunk: header length, data length of each reading, the header, then each reading's data. The header is compressed:
 * groups, files of each reading, then for each group its hashes and for each reading how many ids and how wide they are.
 * An id is file (12 bits) and row (32 bits); a group's ids are sorted, each once, as differences of a fixed width.
 */
public class Tap implements Serializable, TaskCompletionListener {
    // whence writes here, for each number of readings, the method `pass` that Spark's generated code calls.
    /* PASS */
    private static final int CHUNK = 1 << 20;
    private static final int MOST_FILES = 1 << 12;
    private static final long MOST_ROWS = 1L << 32;

    private final String folder;
    private final int readings;
    private final CollectionAccumulator told;
    // Of the driver: an executor's own has not all of it, and a file system that is opened without stays so for everybody.
    private final Broadcast settings;

    private transient boolean begun;
    private transient String failure;
    private transient Path path;
    private transient DataOutputStream out;
    private transient CRC32 check;
    private transient long total;
    private transient long bytes;

    // the current chunk
    private transient int size;
    private transient int[] slots;
    private transient long[][] ids;
    private transient long[] files;
    private transient int[] fileCounts;
    private transient int[] lastCode;
    private transient long[] row;
    // its groups: an open hash table from the key's hash to its slot
    private transient int groups;
    private transient long[] keys;
    private transient int[] checks;
    private transient int[] table;

    public Tap(String folder, int readings, CollectionAccumulator told, Broadcast settings) {
        this.folder = folder;
        this.readings = readings;
        this.told = told;
        this.settings = settings;
    }

    private void begin() {
        begun = true;
        slots = new int[4096];
        ids = new long[readings][4096];
        files = new long[readings * MOST_FILES];
        fileCounts = new int[readings];
        lastCode = new int[readings];
        row = new long[2 * readings];
        keys = new long[1024];
        checks = new int[1024];
        table = new int[4096];
        TaskContext context = TaskContext.get();
        if (context == null) {
            throw new IllegalStateException("whence's tap works in tasks only");
        }
        String name = "part-" + context.stageId() + "-" + context.partitionId() + "-" + context.taskAttemptId() + ".tap";
        path = new Path(folder, name);
        Path finished = new Path(path.getParent().getParent(), "fact.json");
        try {
            if (finished.getFileSystem(((SerializableConfiguration) settings.value()).value()).exists(finished)) {
                failure = "computed once more, after all was told";
            }
        } catch (Exception problem) {
            failure = problem.toString();
        }
        context.addTaskCompletionListener(this);
    }

    /** One row of the group with these hashes; `row` has file and row number for each reading, negative if missing. */
    private boolean put(long key, int check) {
        if (failure != null) {
            return true;
        }
        if (size == CHUNK) {
            flush();
        } else if (size == slots.length) {
            slots = Arrays.copyOf(slots, 2 * size);
            for (int reading = 0; reading < readings; reading++) {
                ids[reading] = Arrays.copyOf(ids[reading], 2 * size);
            }
        }
        try {
            for (int reading = 0; reading < readings; reading++) {
                long number = row[2 * reading + 1];
                ids[reading][size] = number < 0 ? -1L : pack(reading, row[2 * reading], number);
            }
            slots[size] = slot(key, check);
            size++;
            total++;
        } catch (IllegalArgumentException problem) {
            failure = problem.getMessage();
        }
        return true;
    }

    private long pack(int reading, long file, long row) {
        if (row >= MOST_ROWS) {
            throw new IllegalArgumentException("a row number is too large: " + row);
        }
        int start = reading * MOST_FILES;
        int count = fileCounts[reading];
        int code = lastCode[reading];
        if (code < count && files[start + code] == file) {
            return ((long) code << 32) | row;
        }
        code = count - 1;
        while (code >= 0 && files[start + code] != file) {
            code--;
        }
        if (code < 0) {
            if (count == MOST_FILES) {
                throw new IllegalArgumentException("a task reads too many files");
            }
            code = count;
            files[start + code] = file;
            fileCounts[reading] = count + 1;
        }
        lastCode[reading] = code;
        return ((long) code << 32) | row;
    }

    private int slot(long key, int check) {
        int mask = table.length - 1;
        int at = (int) (key ^ (key >>> 32)) & mask;
        while (true) {
            int found = table[at] - 1;
            if (found < 0) {
                break;
            }
            if (keys[found] == key && checks[found] == check) {
                return found;
            }
            at = (at + 1) & mask;
        }
        if (groups == keys.length) {
            keys = Arrays.copyOf(keys, 2 * groups);
            checks = Arrays.copyOf(checks, 2 * groups);
        }
        keys[groups] = key;
        checks[groups] = check;
        table[at] = ++groups;
        if (2 * groups > table.length) {
            grow();
        }
        return groups - 1;
    }

    private void grow() {
        table = new int[4 * table.length];
        int mask = table.length - 1;
        for (int group = 0; group < groups; group++) {
            int at = (int) (keys[group] ^ (keys[group] >>> 32)) & mask;
            while (table[at] != 0) {
                at = (at + 1) & mask;
            }
            table[at] = group + 1;
        }
    }

    private void flush() {
        try {
            if (out == null) {
                FileSystem system = path.getFileSystem(((SerializableConfiguration) settings.value()).value());
                check = new CRC32();
                out = new DataOutputStream(new CheckedOutputStream(system.create(path, true), check));
            }
            write();
        } catch (Exception problem) {
            failure = problem.toString();
        }
        size = 0;
        groups = 0;
        Arrays.fill(table, 0);
        Arrays.fill(fileCounts, 0);
    }

    private void write() throws Exception {
        int[] starts = new int[groups + 1];
        for (int i = 0; i < size; i++) {
            starts[slots[i] + 1]++;
        }
        for (int group = 0; group < groups; group++) {
            starts[group + 1] += starts[group];
        }
        byte[] header = new byte[8 + 12 * groups + readings * (4 + 5 * groups)];
        for (int reading = 0; reading < readings; reading++) {
            header = Arrays.copyOf(header, header.length + 8 * fileCounts[reading]);
        }
        int at = putInt(header, 0, groups);
        for (int group = 0; group < groups; group++) {
            at = putLong(header, at, keys[group]);
        }
        for (int group = 0; group < groups; group++) {
            at = putInt(header, at, checks[group]);
        }
        byte[][] data = new byte[readings][];
        long[] sorted = new long[size];
        for (int reading = 0; reading < readings; reading++) {
            at = putInt(header, at, fileCounts[reading]);
            for (int code = 0; code < fileCounts[reading]; code++) {
                at = putLong(header, at, files[reading * MOST_FILES + code]);
            }
            int[] next = Arrays.copyOf(starts, groups);
            long[] all = ids[reading];
            for (int i = 0; i < size; i++) {
                sorted[next[slots[i]]++] = all[i];
            }
            int[] counts = new int[groups];
            byte[] widths = new byte[groups];
            byte[] body = new byte[8 * size];
            int end = 0;
            for (int group = 0; group < groups; group++) {
                int from = starts[group];
                int to = distinct(sorted, from, starts[group + 1]);
                counts[group] = to - from;
                if (to == from) {
                    continue;
                }
                widths[group] = width(sorted, from, to);
                long before = 0;
                for (int i = from; i < to; i++) {
                    long difference = sorted[i] - before;
                    before = sorted[i];
                    for (int b = 0; b < widths[group]; b++) {
                        body[end++] = (byte) (difference >>> (8 * b));
                    }
                }
            }
            for (int group = 0; group < groups; group++) {
                at = putInt(header, at, counts[group]);
            }
            System.arraycopy(widths, 0, header, at, groups);
            at += groups;
            data[reading] = Arrays.copyOf(body, end);
        }
        byte[] small = Zstd.compress(Arrays.copyOf(header, at), 1);
        out.writeInt(at);
        out.writeInt(small.length);
        byte[][] packed = new byte[readings][];
        for (int reading = 0; reading < readings; reading++) {
            packed[reading] = Zstd.compress(data[reading], 1);
            out.writeInt(data[reading].length);
            out.writeInt(packed[reading].length);
        }
        out.write(small);
        for (int reading = 0; reading < readings; reading++) {
            out.write(packed[reading]);
        }
    }

    /** The range sorted, each id once and those of missing rows left out, moved to its beginning; gives the new end. */
    private static int distinct(long[] values, int from, int to) {
        boolean ordered = true;
        for (int i = from + 1; i < to; i++) {
            if (values[i - 1] > values[i]) {
                ordered = false;
                break;
            }
        }
        if (!ordered) {
            Arrays.sort(values, from, to);
        }
        int end = from;
        for (int i = from; i < to; i++) {
            if (values[i] >= 0 && (end == from || values[end - 1] != values[i])) {
                values[end++] = values[i];
            }
        }
        return end;
    }

    /** Bytes for the largest difference; the first id counts from zero. */
    private static byte width(long[] values, int from, int to) {
        long most = values[from];
        for (int i = from + 1; i < to; i++) {
            most = Math.max(most, values[i] - values[i - 1]);
        }
        return (byte) (most < 1L << 8 ? 1 : most < 1L << 16 ? 2 : most < 1L << 32 ? 4 : 8);
    }

    private static int putInt(byte[] to, int at, int value) {
        to[at] = (byte) value;
        to[at + 1] = (byte) (value >>> 8);
        to[at + 2] = (byte) (value >>> 16);
        to[at + 3] = (byte) (value >>> 24);
        return at + 4;
    }

    private static int putLong(byte[] to, int at, long value) {
        return putInt(to, putInt(to, at, (int) value), (int) (value >>> 32));
    }

    public void onTaskCompletion(TaskContext context) {
        try {
            boolean good = !context.isFailed() && !context.isInterrupted();
            if (good && failure == null && size > 0) {
                flush();
            }
            if (out != null) {
                bytes = out.size();
                out.close();
            }
            if (good) {
                told.add(failure != null
                    ? "!" + failure
                    : context.stageId() + "\t" + context.partitionId() + "\t" + path.getName() + "\t" + total + "\t" + bytes
                        + "\t" + (check == null ? 0L : check.getValue()));
            }
        } catch (Throwable problem) {
            told.add("!" + problem);
        }
    }
}
