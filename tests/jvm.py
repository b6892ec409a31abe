"""How the tests start their JVMs: the suite's own and, by the environment, those of programs that tests start.

Half of a JVM's time went into compiling, loading classes and collecting garbage:
- Spark's sorters, hash tables and broadcasts take memory in pages of megabytes, filled with zeros. Tests have few rows.
- The first compiler alone has 48 MB for its code by default. What did not fit was thrown out, and compiled again.
- Spark's classes are parsed and verified at every start. An archive has them ready (`python tests/jvm.py` makes it).
- py4j looks for `jvm.functions` as a class of every package that PySpark imports, in every jar, each time it is named.
- Of all that Python tells the JVM a third is that it dropped an object, each by a message of its own.
- Before it runs a function of Scala's, Spark parses the class around it, to cut off what a Scala shell left in it. No
  such shell is here, and a sixth of the JVM's time went into that. A class that leaves functions alone stands in for
  Spark's (`quick_jar`); what cannot be sent to a task still fails, when the task is made.
- Every scan of files sends all of Hadoop's thousand settings to its tasks, in many queries several times. The class
  that stands in for Spark's sends those that are not Hadoop's own defaults.
- Without its native library Hadoop starts `chmod`, by way of a program of Java's, for every file that it makes, for the
  file's checksums and for every folder. A file system that asks the kernel itself stands in for it.
- For messages of errors, PySpark and Spark note at each operation of a DataFrame where the program is: some calls to
  the JVM, and walks up the stacks of both. Nobody reads them here.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyspark
from py4j.clientserver import DEFAULT_WORKER_SLEEP_TIME, SHUTDOWN_FINALIZER_WORKER, FinalizerWorker
from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView
from py4j.protocol import MEMORY_COMMAND_NAME, MEMORY_DEL_SUBCOMMAND_NAME
from pyspark import traceback_utils

# Tests run each piece of code a few times: the second compiler would cost more than it gives.
SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
OPTIONS = f"{SHORT} -XX:ReservedCodeCacheSize=256m -XX:MetaspaceSize=256m"
# The suite's own JVM lives for minutes: what is called often is compiled after a fifth of the calls. A program that
# ends after a few questions would compile more than it runs.
LONG = "-XX:CompileThresholdScaling=0.2"
# Most objects die within a question: with room for some thousands of them, few are looked at twice.
YOUNG = "-Xms1g -Xmn512m"
SETTINGS = {
    "spark.driver.memory": "2g",
    # Buffers are made for every operator, task and broadcast.
    "spark.buffer.pageSize": "64k",
    "spark.broadcast.blockSize": "16k",
    "spark.broadcast.compress": "false",
    "spark.broadcast.checksum": "false",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.shuffle.sort.initialBufferSize": "64",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    # Of the classes that Spark compiles for its queries it keeps a hundred; the same come again in other tests.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # What the page of Spark would show; nobody looks.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
}
TOGETHER = 200  # objects in one message; the answers must fit a socket's buffer
_CLEANER = "org/apache/spark/util/SparkClosureCleaner$"
_SETTINGS = "org/apache/spark/util/SerializableConfiguration"
_LEAVE_ALONE = """
package org.apache.spark.util;
public final class SparkClosureCleaner$ {
  public static final SparkClosureCleaner$ MODULE$ = new SparkClosureCleaner$();
  public Object clean(Object function, boolean check, boolean transitively) { return function; }
  public boolean clean$default$2() { return true; }
  public boolean clean$default$3() { return true; }
}
"""
_SEND_FEW = """
package org.apache.spark.util;

import java.io.Externalizable;
import java.io.IOException;
import java.io.ObjectInput;
import java.io.ObjectOutput;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;

// Externalizable, since Janino makes no private methods, which those of a Serializable must be.
public class SerializableConfiguration implements Externalizable {
  private static final long serialVersionUID = 1L;
  // By their files, not what this process takes for its defaults: executors may have loaded others.
  private static final Configuration USUAL = usual();
  private static final HashMap SETTINGS = new HashMap();

  static {
    for (Iterator all = USUAL.iterator(); all.hasNext();) {
      Map.Entry one = (Map.Entry) all.next();
      SETTINGS.put(one.getKey(), one.getValue());
    }
  }

  private Configuration value;

  public SerializableConfiguration() {}
  public SerializableConfiguration(Configuration value) { this.value = value; }
  public Configuration value() { return value; }
  public void value_$eq(Configuration other) { value = other; }

  private static Configuration usual() {
    Configuration made = new Configuration(false);
    String[] files = {"core-default.xml", "hdfs-default.xml", "mapred-default.xml", "yarn-default.xml"};
    for (int i = 0; i < files.length; i++) { made.addResource(files[i]); }
    return made;
  }

  public void writeExternal(ObjectOutput out) throws IOException {
    ArrayList other = new ArrayList();
    int same = 0;
    for (Iterator all = value.iterator(); all.hasNext();) {
      Map.Entry one = (Map.Entry) all.next();
      if (one.getValue().equals(SETTINGS.get(one.getKey()))) {
        same++;
      } else {
        other.add(one.getKey());
        other.add(one.getValue());
      }
    }
    ArrayList gone = new ArrayList();
    if (same < SETTINGS.size()) {
      for (Iterator names = SETTINGS.keySet().iterator(); names.hasNext();) {
        String name = (String) names.next();
        if (value.getRaw(name) == null) { gone.add(name); }
      }
    }
    write(out, other);
    write(out, gone);
  }

  private static void write(ObjectOutput out, ArrayList texts) throws IOException {
    out.writeInt(texts.size());
    for (int i = 0; i < texts.size(); i++) {
      byte[] text = ((String) texts.get(i)).getBytes("UTF-8");
      out.writeInt(text.length);
      out.write(text);
    }
  }

  public void readExternal(ObjectInput in) throws IOException {
    value = new Configuration(USUAL);
    String[] other = read(in);
    for (int i = 0; i < other.length; i += 2) { value.set(other[i], other[i + 1]); }
    String[] gone = read(in);
    for (int i = 0; i < gone.length; i++) { value.unset(gone[i]); }
  }

  private static String[] read(ObjectInput in) throws IOException {
    String[] texts = new String[in.readInt()];
    for (int i = 0; i < texts.length; i++) {
      byte[] text = new byte[in.readInt()];
      in.readFully(text);
      texts[i] = new String(text, "UTF-8");
    }
    return texts;
  }
}
"""
_LOCAL = "org/apache/hadoop/fs/QuickLocalFileSystem"
_SET_MODE = """
package org.apache.hadoop.fs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import org.apache.hadoop.fs.permission.FsPermission;

public class QuickLocalFileSystem extends LocalFileSystem {
  public QuickLocalFileSystem() { super(new Raw()); }

  public static class Raw extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission permission) throws IOException {
      Integer mode = Integer.valueOf(permission.toShort());
      Files.setAttribute(pathToFile(path).toPath(), "unix:mode", mode, new LinkOption[0]);
    }
  }
}
"""
_STANDING_IN = {_CLEANER: _LEAVE_ALONE, _SETTINGS: _SEND_FEW, _LOCAL: _SET_MODE}
_WARM = """
import tempfile
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2").getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
with tempfile.TemporaryDirectory() as home:
    rows = spark.createDataFrame([(n, str(n)) for n in range(9)], "k long, v string")
    for kind in ("parquet", "json", "csv"):
        rows.write.format(kind).save(f"{home}/{kind}")
        spark.read.schema("k long, v string").format(kind).load(f"{home}/{kind}").createOrReplaceTempView(kind)
    spark.sql(
        "select p.k, count(*), max(j.v), sum(p.k) over (order by p.k) from parquet p join json j on p.k = j.k "
        "left join csv c on c.k > j.k where p.k not in (select k + 5 from csv) group by p.k order by p.k limit 3"
    ).collect()
    spark.sparkContext.parallelize(range(9), 2).map(lambda n: (n % 2, n)).reduceByKey(lambda a, b: a + b).collect()
java = spark.sparkContext._gateway.proc
spark.stop()
java.stdin.close()
java.wait()  # it writes the archive when it ends
"""


def archive() -> Path:
    """Where the classes of this Spark and this Java stand; an archive fits no other."""
    java = Path(os.environ.get("JAVA_HOME", "")) / "release"
    release = java.read_text() if java.is_file() else ""
    facts = f"{pyspark.__file__} {pyspark.__version__} {release} {[*_STANDING_IN.values()]}"
    key = hashlib.sha256(facts.encode()).hexdigest()[:12]
    return Path(sys.prefix) / f"spark-classes-{key}.jsa"


def quick_jar() -> Path:
    return archive().with_suffix(".jar")


def in_front() -> dict[str, str]:
    """Has Java look into the jar before it looks for Spark's own classes; an archive fits no other JVM than one with
    the same. Java looks into Spark's folder of settings first, and there is none here; a program's own class path stays
    free for what the program needs."""
    return {"SPARK_CONF_DIR": str(quick_jar())} if quick_jar().exists() else {}


def environment() -> dict[str, str]:
    """What PySpark reads before it starts a JVM. A program's own settings go before these."""
    options = f"{OPTIONS} {YOUNG}"
    if archive().exists() and archive().stat().st_size:
        # Also where an archive does not fit, Java starts; it only says so, unless it is asked not to.
        options += f" -XX:SharedArchiveFile={archive()} -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
    java = {"spark.driver.defaultJavaOptions": options, "spark.executor.defaultJavaOptions": OPTIONS}
    settings = {**SETTINGS, **_local(), **java}
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return {
        "PYSPARK_SUBMIT_ARGS": shlex.join([*words, "pyspark-shell"]),
        "SPARK_LAUNCHER_OPTS": SHORT,
        **in_front(),
    }


def _local() -> dict[str, str]:
    return {"spark.hadoop.fs.file.impl": _LOCAL.replace("/", ".")} if quick_jar().exists() else {}


def remember_names() -> None:
    """From now on each package, class and static method is looked up once by whoever holds it. Values (static fields)
    are asked for every time, and so is a class that is not there (yet), which py4j takes for a package. Another JVM has
    another view of its names."""
    for kind in (JVMView, JavaPackage, JavaClass):
        if not hasattr(kind, "looked_up"):
            kind.looked_up = kind.__getattr__
            kind.__getattr__ = _remembered


def _remembered(self: Any, name: str) -> Any:
    found = type(self).looked_up(self, name)
    if isinstance(found, JavaClass | JavaMember) or (isinstance(found, JavaPackage) and name.islower()):
        vars(self)[name] = found
    return found


def forget_together() -> None:
    """From now on the JVM is told of many dropped objects at once. Gateways that are there already stay as they are."""
    FinalizerWorker.run = _forget


def _forget(self: Any) -> None:
    while True:
        gone: dict[Any, list[str]] = defaultdict(list)
        for _ in range(min(len(self.deque), TOGETHER)):
            task = self.deque.pop()  # only this thread takes
            if task == SHUTDOWN_FINALIZER_WORKER:
                return  # with the gateway, all objects go
            client, target = task
            gone[client].append(f"{MEMORY_COMMAND_NAME}{MEMORY_DEL_SUBCOMMAND_NAME}{target}\ne\n")
        for client, commands in gone.items():
            if client.is_connected:
                _told(client, commands)
        if sum(map(len, gone.values())) < TOGETHER:
            time.sleep(DEFAULT_WORKER_SLEEP_TIME)


def _told(client: Any, commands: list[str]) -> None:
    """As py4j does it, but all are sent before the first is answered. What fails is left, as py4j leaves it."""
    try:
        connection = client._get_connection()
        connection.socket.sendall("".join(commands).encode())
        for _ in commands:
            connection.stream.readline()
        client._give_back_connection(connection)
    except Exception:
        return


def tell_places_quickly(context: Any) -> None:
    """Of a job's place in the program only its short form is wanted by anybody (whence's catalogue names RDDs by it);
    the long one is a walk up the JVM's stack for every RDD that a query makes. PySpark finds the short one by reading
    the lines of source of all that is on Python's stack."""
    context.setLocalProperty("callSite.long", "a test")
    traceback_utils.first_spark_call = _first_spark_call


def _first_spark_call() -> traceback_utils.CallSite:
    """What PySpark's own says, without the lines of source."""
    stack: list[Any] = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        stack.append(frame)
        frame = frame.f_back
    stack.reverse()
    spark = str(Path(traceback_utils.__file__).parent)
    first = next((n for n, one in enumerate(stack) if one.f_code.co_filename.startswith(spark)), len(stack) - 1)
    user = stack[max(first - 1, 0)]
    return traceback_utils.CallSite(stack[first].f_code.co_name, user.f_code.co_filename, user.f_lineno)


def make_quick_jar() -> None:
    """With Janino, the compiler that Spark brings. Not where Spark's own class is another one, as it is in 3.5."""
    if quick_jar().exists():  # an archive fits no other than the one that it was made with
        return
    jars = Path(pyspark.__file__).parent / "jars"
    with zipfile.ZipFile(next(jars.glob("spark-core_*.jar"))) as own:
        there = f"{_CLEANER}.class" in own.namelist()
        if not there or b"(Ljava/lang/Object;ZZ)Ljava/lang/Object;" not in own.read(f"{_CLEANER}.class"):
            return
    classpath = os.pathsep.join(map(str, jars.glob("*.jar")))
    java = str(Path(os.environ["JAVA_HOME"], "bin", "java")) if "JAVA_HOME" in os.environ else "java"
    compiler = [java, "-cp", classpath, "org.codehaus.commons.compiler.samples.CompilerDemo", "-classpath", classpath]
    with tempfile.TemporaryDirectory() as home:
        for name, text in _STANDING_IN.items():
            source = Path(home) / f"{Path(name).name}.java"
            source.write_text(text)
            ran = subprocess.run([*compiler, "-d", home, str(source)], capture_output=True, text=True, check=False)
            if not Path(home, f"{name}.class").exists():
                print(f"{source.name} could not be compiled, and the tests do without:\n{ran.stderr[-2000:]}")
                return
        part = quick_jar().with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(part, "w") as jar:
            for made in sorted(Path(home).rglob("*.class")):
                jar.write(made, str(made.relative_to(home)))
        part.replace(quick_jar())


def make_archive() -> None:
    """Once in an environment, in less than half a minute. Where it cannot be made, the tests run without it."""
    made = archive()
    if made.exists():
        return
    print("making an archive of Spark's classes, from which JVMs start in half the time", flush=True)
    make_quick_jar()
    wrong = _archived(made)
    if wrong and quick_jar().exists():
        print(f"Spark does not run with {quick_jar().name}, and the tests do without:\n{wrong}")
        quick_jar().unlink()
        wrong = _archived(made)
    if wrong:
        print(f"it could not be made, and the tests do without:\n{wrong}")
        made.touch()  # not tried again


def _archived(made: Path) -> str:
    """Nothing, or what went wrong."""
    with tempfile.TemporaryDirectory() as home:
        part = Path(home) / "classes.jsa"
        options = f"{OPTIONS} -XX:ArchiveClassesAtExit={part} -Xlog:cds=off -Xlog:cds+dynamic=off"
        chosen = [word for name, value in _local().items() for word in ("--conf", f"{name}={value}")]
        words = shlex.join([*chosen, "--conf", f"spark.driver.defaultJavaOptions={options}", "pyspark-shell"])
        surroundings = {**os.environ, **in_front(), "PYSPARK_SUBMIT_ARGS": words, "PYSPARK_PYTHON": sys.executable}
        command = [sys.executable, "-c", _WARM]
        ran = subprocess.run(command, env=surroundings, cwd=home, capture_output=True, text=True, check=False)
        if ran.returncode or not part.exists():
            return ran.stderr[-2000:] or "no archive was written"
        target = made.with_suffix(f".{os.getpid()}")
        target.write_bytes(part.read_bytes())
        target.replace(made)
    return ""


if __name__ == "__main__":
    make_archive()
