"""A program of its own: queries on local-cluster[2,1,1024], and jobs that something happens to, each traced afterwards.

    python cluster_job.py <home> queries speculated killed full

Prints one JSON line: for each, what the job gave, what the trace gave, which tables there are.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import whence
from whence.model import WhenceError
from whence.rdd import LineageContext

PARTS, LINES = 4, 400


def started(home: Path) -> SparkContext:
    conf = (
        SparkConf()
        .set("spark.ui.enabled", "false")
        .set("spark.driver.host", "127.0.0.1")
        .set("spark.driver.bindAddress", "127.0.0.1")
        .set("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
        .set("spark.local.dir", str(home / "local"))
        .set("spark.ui.showConsoleProgress", "false")
        .set("spark.sql.shuffle.partitions", "2")
    )
    conf.set("spark.speculation", "true").set("spark.speculation.interval", "100ms")
    conf.set("spark.speculation.multiplier", "1.1").set("spark.speculation.quantile", "0.5")
    conf.set("spark.speculation.minTaskRuntime", "100ms")
    sc = SparkContext("local-cluster[2,1,1024]", "faults", conf=conf)
    sc.setLogLevel("OFF")
    return sc


def queries(sc: SparkContext, home: Path) -> dict[str, Any]:
    """SQL's questions, whose rows cross between the executors."""
    spark = SparkSession(sc)
    orders = spark.read.parquet(str(home / "orders"))
    totals = orders.groupBy("customer").agg({"amount": "sum"}).withColumnRenamed("sum(amount)", "total")
    with whence.attach(spark, store=home / "queries") as w:
        trace = w.backward(totals.where("customer = 1"))
        return {
            "executors": len(sc._jsc.sc().statusTracker().getExecutorInfos()) - 1,  # the driver is among them
            "witnesses": sorted(row["id"] for row in trace["orders"].collect()),
            "verified": trace.verify().ok,
            "without": sorted((row["customer"], row["total"]) for row in trace.exclude(totals).collect()),
            "touched": sorted(row["customer"] for row in w.forward(orders.where("id = 5"), to=totals).rows.collect()),
        }


def once(path: str) -> bool:
    """True for the first process that asks, whichever it is."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def happens(sc: SparkContext, what: str, home: Path) -> dict[str, Any]:
    home.mkdir()
    lc = LineageContext(sc, str(home / "store"))
    text = home / "lines.txt"
    text.write_text("".join(f"{n % 7} {n % 11}\n" for n in range(LINES)))
    mark = str(home / "happened")

    def words(line: str) -> list[str]:
        if what == "killed" and line.startswith("6 ") and once(mark):
            machine_is_gone()
        if what == "speculated" and line == "6 6" and once(mark):
            time.sleep(8)  # a straggler; a copy of its task overtakes it
        if what == "full":  # as on a full disk, no file can grow
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        return line.split()

    lines = lc.textFile(str(text), PARTS)
    counts = lines.flatMap(words).map(lambda w: (w, 1)).reduceByKey(lambda a, b: a + b, 3)
    result = dict(counts.collect())
    found: dict[str, Any] = {"result": result, "expected": expected()}
    try:
        tens = counts.filter(lambda kv: kv[0] == "10").getLineage()
        found["traced"] = tens.goBackAll().collect()
        found["record"] = tens.goBack().collect()  # run again: it must be found at the position where it was
        lc.large = 0
        found["by jobs"] = counts.filter(lambda kv: kv[0] == "10").getLineage().goBackAll().collect()
    except WhenceError as said:
        found["error"] = str(said)
    found["wanted"] = [f"{n % 7} {n % 11}" for n in range(LINES) if n % 11 == 10]
    lc.sweep()
    lc.book.take_commits()
    files = [(d, f) for d, _, fs in os.walk(lc.book.directory) for f in fs]
    found["left over"] = [f for d, f in files if f.endswith(".tmp")]
    known = {(str(s), f"{p}-{a}") for (s, p), attempts in lc.book.committed.items() for a in attempts}
    found["unknown"] = [f for d, f in files if (os.path.basename(d), f) not in known]
    found["happened"] = os.path.exists(mark)
    return found


def machine_is_gone() -> None:
    """In the middle of a task: its executor, and then this worker."""
    at = executor()
    gone = os.pidfd_open(at)
    os.kill(at, signal.SIGKILL)
    select.select([gone], [], [])
    os._exit(1)


def executor() -> int:
    """The JVM that started this worker's daemon."""
    status = Path(f"/proc/{os.getppid()}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("PPid:")).split()[1])


def expected() -> dict[str, int]:
    found: dict[str, int] = {}
    for n in range(LINES):
        for w in (str(n % 7), str(n % 11)):
            found[w] = found.get(w, 0) + 1
    return found


if __name__ == "__main__":
    home = Path(sys.argv[1])
    context = started(home)
    found = {
        what: queries(context, home) if what == "queries" else happens(context, what, home / what)
        for what in sys.argv[2:]
    }
    print(json.dumps({**found, "application": context.applicationId}))
    context.stop()
