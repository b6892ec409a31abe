/*
 * Runs in the driver's JVM, compiled at attach time by Janino (the compiler inside Spark); see listener.py, which loads it.
 * It turns the plan of every finished execution into one line of JSON and keeps the lines until Python fetches them.
 * Nothing here may throw into Spark, wait for anybody, or grow without bound. Janino knows neither lambdas nor generics, and
 * makes private methods static, so that a private synchronized one would lock the class and not the object.
 */
package whence;

import java.util.ArrayDeque;
import java.util.LinkedHashMap;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;

public class Watcher extends SparkListener {
    private final ArrayDeque lines = new ArrayDeque();
    private final LinkedHashMap started = new LinkedHashMap();
    private final java.util.HashSet noted = new java.util.HashSet();
    private final LinkedHashMap executions = new LinkedHashMap();
    private final LinkedHashMap moved = new LinkedHashMap();
    private final int capacity;
    private final int maxChars;
    private final long maxNanos;
    private final int maxLevels;
    private long waiting = 0;
    private long oldest = 0;
    private long newest = 0;
    private int running = 0;
    private boolean urgent = false;
    private long dropped = 0;
    private long failed = 0;
    private boolean closed = false;

    public Watcher(int capacity, int maxChars, long maxMillis, int maxLevels) {
        this.capacity = capacity;
        this.maxChars = maxChars;
        this.maxNanos = maxMillis * 1000000L;
        this.maxLevels = maxLevels;
    }

    /* ---- Python's side ---- */

    /**
     * The oldest lines, joined by newlines; waits up to so many milliseconds for the first. Python's work on them would take
     * turns with the user's own Python code, so they are given in batches: once no query has run for `settle` milliseconds,
     * when there are many, when the first has waited for `longest`, or at once when somebody asked (mark).
     */
    public synchronized String take(int most, long millis, long settle, long longest) throws InterruptedException {
        if (lines.isEmpty() && !closed && millis > 0) {
            wait(millis);
        }
        while (!lines.isEmpty() && !closed && !urgent && lines.size() < most && waiting < maxChars) {
            long now = System.currentTimeMillis();
            long left = oldest + longest - now;
            long unsettled = running > 0 ? left : Math.min(left, newest + settle - now);
            if (unsettled <= 0) {
                break;
            }
            wait(unsettled);
        }
        StringBuilder all = new StringBuilder();
        int taken = 0;
        while (taken < most && !lines.isEmpty() && all.length() < 16000000) {
            String line = (String) lines.poll();
            waiting -= line.length();
            if (taken++ > 0) {
                all.append('\n');
            }
            all.append(line);
        }
        if (lines.isEmpty()) {
            urgent = false;
        }
        oldest = System.currentTimeMillis();
        return all.toString();
    }

    public synchronized long dropped() {
        return dropped;
    }

    public synchronized long failed() {
        return failed;
    }

    public synchronized int size() {
        return lines.size();
    }

    public synchronized void close() {
        closed = true;
        notifyAll();
    }

    public synchronized void put(String line) {
        if (closed || lines.size() >= capacity || waiting > 20L * maxChars) {
            dropped++;
            return;
        }
        add(line);
    }

    /** A line that Python waits for: it and all before it are given at once, however many there are. */
    public synchronized void mark(String line) {
        urgent = true;
        add(line);
    }

    private void add(String line) {
        newest = System.currentTimeMillis();
        if (lines.isEmpty()) {
            oldest = newest;
        }
        lines.add(line);
        waiting += line.length();
        notifyAll();
    }

    synchronized void running(int now) {
        running = now;
        newest = System.currentTimeMillis();
        notifyAll();
    }

    /** Tell also of jobs that compute this RDD (it came from a DataFrame, so its name says nothing). */
    public synchronized void note(int rdd) {
        if (noted.size() > 10000) {
            noted.clear();
        }
        noted.add(Integer.valueOf(rdd));
    }

    /** The plan of a DataFrame as it stands, for the patches in Python (models, df.rdd). */
    public String plan(QueryExecution qe) {
        return new Snapshot(qe, this, maxChars, maxNanos, maxLevels, null).plan(false);
    }

    /** Ids of the attributes that a plan's leaves give, then "|" and ids of the RDDs they read: by these a leaf is known again. */
    public String leafIds(QueryExecution qe) {
        StringBuilder out = new StringBuilder();
        StringBuilder rdds = new StringBuilder();
        scala.collection.Iterator leaves = qe.analyzed().collectLeaves().iterator();
        while (leaves.hasNext()) {
            LogicalPlan leaf = (LogicalPlan) leaves.next();
            scala.collection.Iterator attributes = leaf.output().iterator();
            while (attributes.hasNext()) {
                Object attribute = attributes.next();
                if (attribute instanceof AttributeReference) {
                    out.append(((AttributeReference) attribute).exprId().id()).append(' ');
                }
            }
            if (leaf instanceof org.apache.spark.sql.execution.LogicalRDD) {
                rdds.append(((org.apache.spark.sql.execution.LogicalRDD) leaf).rdd().id()).append(' ');
            }
        }
        return out.append('|').append(rdds).toString();
    }

    public String outputIds(QueryExecution qe) {
        StringBuilder out = new StringBuilder();
        scala.collection.Iterator attributes = qe.analyzed().output().iterator();
        while (attributes.hasNext()) {
            out.append(((org.apache.spark.sql.catalyst.expressions.Attribute) attributes.next()).exprId().id()).append(' ');
        }
        return out.toString();
    }

    public String qualified(String path, org.apache.spark.SparkContext context) throws Exception {
        org.apache.hadoop.fs.Path given = new org.apache.hadoop.fs.Path(path);
        return given.getFileSystem(context.hadoopConfiguration()).makeQualified(given).toString();
    }

    /** The RDDs behind one, as lines "id<tab>name<tab>class<tab>path"; stops at the ids given (space separated). */
    public String rdds(org.apache.spark.rdd.RDD rdd, String stop) {
        java.util.HashSet seen = new java.util.HashSet();
        String[] ends = stop.split(" ");
        java.util.HashSet endings = new java.util.HashSet();
        for (int i = 0; i < ends.length; i++) {
            endings.add(ends[i]);
        }
        ArrayDeque todo = new ArrayDeque();
        todo.add(rdd);
        StringBuilder out = new StringBuilder();
        while (!todo.isEmpty() && seen.size() < 10000) {
            org.apache.spark.rdd.RDD next = (org.apache.spark.rdd.RDD) todo.poll();
            if (!seen.add(Integer.valueOf(next.id()))) {
                continue;
            }
            out.append(next.id()).append('\t').append(next.name() == null ? "" : next.name().replace('\n', ' ').replace('\t', ' '));
            out.append('\t').append(next.getClass().getSimpleName()).append('\t').append(rddPath(next)).append('\n');
            if (endings.contains(String.valueOf(next.id()))) {
                continue;
            }
            scala.collection.Iterator dependencies = next.dependencies().iterator();
            while (dependencies.hasNext()) {
                todo.add(((org.apache.spark.Dependency) dependencies.next()).rdd());
            }
        }
        return out.toString();
    }

    static String rddPath(org.apache.spark.rdd.RDD rdd) {
        try {
            if (rdd instanceof org.apache.spark.rdd.HadoopRDD) {
                Object conf = Reading.call(rdd, "getJobConf");
                return String.valueOf(Reading.called(conf, "get", String.class, "mapreduce.input.fileinputformat.inputdir"));
            }
            if (rdd instanceof org.apache.spark.rdd.NewHadoopRDD) {
                Object conf = Reading.call(rdd, "getConf");
                return String.valueOf(Reading.called(conf, "get", String.class, "mapreduce.input.fileinputformat.inputdir"));
            }
        } catch (Throwable ignored) {
        }
        return "";
    }

    /* ---- Spark's side ---- */

    public void onOtherEvent(SparkListenerEvent event) {
        try {
            if (event instanceof SparkListenerSQLExecutionStart) {
                SparkListenerSQLExecutionStart start = (SparkListenerSQLExecutionStart) event;
                if (started.size() > 10000) {
                    started.remove(started.keySet().iterator().next());
                }
                started.put(Long.valueOf(start.executionId()), start);
                running(started.size());
            } else if (event instanceof SparkListenerSQLExecutionEnd) {
                SparkListenerSQLExecutionEnd end = (SparkListenerSQLExecutionEnd) event;
                SparkListenerSQLExecutionStart start = (SparkListenerSQLExecutionStart) started.remove(Long.valueOf(end.executionId()));
                running(started.size());
                finished(start, end);
            } else if (event.getClass().getName().startsWith("org.apache.spark.sql.streaming.StreamingQueryListener")) {
                streaming(event);
            }
        } catch (Throwable problem) {
            problem(problem);
        }
    }

    public void onJobStart(SparkListenerJobStart start) {
        try {
            String execution = start.properties() == null ? null : start.properties().getProperty("spark.sql.execution.id");
            if (execution != null) {
                scala.collection.Iterator ids = start.stageIds().iterator();
                while (ids.hasNext()) {
                    keep(executions, ids.next(), Long.valueOf(execution));
                }
                return;
            }
            String tags = start.properties() == null ? null : start.properties().getProperty("spark.job.tags");
            if (tags != null && tags.indexOf("whence-quiet") >= 0) {
                return;
            }
            StringBuilder names = new StringBuilder();
            StringBuilder ids = new StringBuilder();
            scala.collection.Iterator stages = start.stageInfos().iterator();
            while (stages.hasNext()) {
                scala.collection.Iterator rdds = ((org.apache.spark.scheduler.StageInfo) stages.next()).rddInfos().iterator();
                while (rdds.hasNext()) {
                    org.apache.spark.storage.RDDInfo rdd = (org.apache.spark.storage.RDDInfo) rdds.next();
                    if (rdd.name() != null && rdd.name().indexOf('/') >= 0 && rdd.name().indexOf(' ') < 0) {
                        names.append(names.length() > 0 ? "," : "").append(Reading.quote(rdd.name()));
                    }
                    if (isNoted(rdd.id())) {
                        ids.append(ids.length() > 0 ? "," : "").append(rdd.id());
                    }
                }
            }
            if (names.length() + ids.length() > 0) {
                Object site = start.properties() == null ? null : start.properties().getProperty("callSite.short");
                put("{\"what\":\"job\",\"job\":" + start.jobId() + ",\"at\":" + start.time() + ",\"paths\":[" + names + "],\"rdds\":["
                    + ids + "],\"site\":" + Reading.quote(site == null ? "" : site.toString()) + "}");
            }
        } catch (Throwable problem) {
            problem(problem);
        }
    }

    /** What the tasks of an execution read and wrote, stage by stage; only this thread uses these maps. */
    public void onStageCompleted(SparkListenerStageCompleted completed) {
        try {
            org.apache.spark.scheduler.StageInfo stage = completed.stageInfo();
            Object execution = executions.remove(Integer.valueOf(stage.stageId()));
            org.apache.spark.executor.TaskMetrics metrics = stage.taskMetrics();
            if (execution == null || metrics == null) {
                return;
            }
            long[] sums = (long[]) moved.get(execution);
            if (sums == null) {
                sums = new long[4];
                keep(moved, execution, sums);
            }
            sums[0] += metrics.inputMetrics().recordsRead();
            sums[1] += metrics.inputMetrics().bytesRead();
            sums[2] += metrics.outputMetrics().recordsWritten();
            sums[3] += metrics.outputMetrics().bytesWritten();
        } catch (Throwable problem) {
            problem(problem);
        }
    }

    static void keep(LinkedHashMap map, Object key, Object value) {
        if (map.size() > 10000) {
            map.remove(map.keySet().iterator().next());
        }
        map.put(key, value);
    }

    synchronized boolean isNoted(int rdd) {
        return noted.contains(Integer.valueOf(rdd));
    }

    public void onApplicationEnd(SparkListenerApplicationEnd end) {
        put("{\"what\":\"end\",\"at\":" + end.time() + "}");
    }

    private void streaming(SparkListenerEvent event) throws Exception {
        String name = event.getClass().getSimpleName();
        StringBuilder line = new StringBuilder("{\"what\":\"stream\",\"event\":").append(Reading.quote(name));
        if (name.indexOf("Progress") >= 0) {
            line.append(",\"progress\":").append(String.valueOf(Reading.call(Reading.call(event, "progress"), "json")));
        } else {
            line.append(",\"id\":").append(Reading.quote(String.valueOf(Reading.call(event, "id"))));
            line.append(",\"run\":").append(Reading.quote(String.valueOf(Reading.call(event, "runId"))));
            if (name.indexOf("Started") >= 0) {
                line.append(",\"name\":").append(Reading.quote(String.valueOf(Reading.call(event, "name"))));
            }
            if (name.indexOf("Terminated") >= 0) {
                Object exception = Reading.call(event, "exception");
                if (exception instanceof scala.Some) {
                    line.append(",\"error\":").append(Reading.quote(String.valueOf(((scala.Some) exception).value())));
                }
            }
            line.append(",\"at\":").append(System.currentTimeMillis());
        }
        put(line.append('}').toString());
    }

    private void finished(SparkListenerSQLExecutionStart start, SparkListenerSQLExecutionEnd end) {
        long began = System.nanoTime();
        QueryExecution qe = end.qe();
        long[] sums = (long[]) moved.remove(Long.valueOf(end.executionId()));
        if (start != null && start.jobTags().toString().indexOf("whence-quiet") >= 0) {
            return;
        }
        StringBuilder line = new StringBuilder("{\"what\":\"query\",\"id\":").append(end.executionId());
        if (start != null) {
            line.append(",\"started\":").append(start.time()).append(",\"call\":").append(Reading.quote(Reading.cut(start.description(), 500)));
            Object root = start.rootExecutionId();
            if (root instanceof scala.Some) {
                line.append(",\"root\":").append(((scala.Some) root).value());
            }
        } else if (started.size() == 1) {
            // it failed before it began, inside the only one that runs
            line.append(",\"root\":").append(started.keySet().iterator().next());
        }
        line.append(",\"ended\":").append(end.time());
        Object name = end.executionName();
        if (name instanceof scala.Some) {
            line.append(",\"action\":").append(Reading.quote(String.valueOf(((scala.Some) name).value())));
        }
        Object failure = end.executionFailure();
        boolean hasFailed = failure instanceof scala.Some;
        if (hasFailed) {
            Throwable cause = (Throwable) ((scala.Some) failure).value();
            line.append(",\"error\":").append(Reading.quote(Reading.cut(String.valueOf(cause), 4000)));
        } else if (end.errorMessage() instanceof scala.Some && ((scala.Some) end.errorMessage()).value().toString().length() > 0) {
            line.append(",\"error\":").append(Reading.quote(Reading.cut(((scala.Some) end.errorMessage()).value().toString(), 4000)));
            hasFailed = true;
        }
        if (sums != null) {
            line.append(",\"moved\":[").append(sums[0]).append(',').append(sums[1]).append(',').append(sums[2]).append(',').append(sums[3]).append(']');
        }
        if (qe != null) {
            boolean fromText = start != null && (start.description().startsWith("sql at ") || start.details().startsWith("org.apache.spark.sql")
                && Reading.firstLine(start.details()).indexOf("Session.sql(") >= 0);
            Commits commits = start == null ? null : new Commits(start.time(), end.time());
            line.append(new Snapshot(qe, this, maxChars, maxNanos, maxLevels, commits).execution(hasFailed, fromText));
        }
        line.append(",\"micros\":").append((System.nanoTime() - began) / 1000L).append('}');
        put(line.toString());
    }

    synchronized void problem(Throwable problem) {
        failed++;
        if (lines.size() < capacity) {
            add("{\"what\":\"problem\",\"text\":" + Reading.quote(Reading.cut(String.valueOf(problem), 1000)) + "}");
        }
    }
}
