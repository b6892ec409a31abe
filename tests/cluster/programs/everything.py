"""Every front end on a real cluster: python everything.py <master> <executors' python> <home> <data> <store>

Prints one JSON line with what each gave."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from allocation import Executors
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from started import kill_this_executor, once, started

import whence
from whence.arrays import Workflow, ops


def has_whence(_: Any) -> bool:
    import importlib.util

    return importlib.util.find_spec("whence") is not None


def of_allocation(w: whence.Session, executors: Executors, data: str) -> dict[str, Any]:
    """A count is captured on executors that come for it and go when nothing is left to do; what it came from is asked
    for when none of them is there any more."""
    lines = w.context.textFile(f"{data}/lines.txt", 2)
    endings = lines.map(lambda line: (line[-1], 1)).reduceByKey(lambda a, b: a + b, 2)
    found: dict[str, Any] = {"counts": dict(sorted(endings.collect()))}
    found["came"] = executors.until(lambda: bool(executors.came))
    found["all gone"] = executors.until(lambda: not executors.here)
    before = set(executors.came)
    lineage = endings.filter(lambda kv: kv[0] == "e").getLineage()
    found["witnesses"] = sorted(lineage.goBackAll().collect())
    found["others came"] = executors.until(lambda: bool(set(executors.came) - before))
    return found


def of_sql(spark: SparkSession, w: whence.Session, home: Path, data: str) -> dict[str, Any]:
    """Traces, and a captured write in the middle of which a machine is lost."""
    orders = spark.read.parquet(f"{data}/orders")
    mark = str(home / "sql-killed")

    def checked(amount: int) -> int:
        if amount == 40 and once(mark):
            kill_this_executor()
            time.sleep(60)  # never reached: the kill takes this process along
        return amount

    amounts = orders.select("id", "customer", udf(checked, "int")("amount").alias("amount"))
    totals = amounts.groupBy("customer").agg({"amount": "sum"}).withColumnRenamed("sum(amount)", "total")
    with w.capture():
        totals.write.parquet(f"{data}/totals")
    report = spark.read.parquet(f"{data}/totals")
    trace = w.backward(report.where("customer = 1"))
    return {
        "killed": Path(mark).exists(),
        "totals": sorted((row["customer"], row["total"]) for row in report.collect()),
        "witnesses": sorted(row["id"] for row in trace["orders"].collect()),
        "exact": trace.exact,
        "notes": [str(note) for note in trace.notes],
        "verified": trace.verify().ok,
        "touched": sorted(r["customer"] for r in w.forward(orders.where("id = 5"), to=report).rows.collect()),
        "without": sorted((r["customer"], r["total"]) for r in w.backward(totals.where("customer = 1")).exclude(totals)
                          .collect()),
    }  # fmt: skip


def of_rdds(w: whence.Session, home: Path, data: str) -> dict[str, Any]:
    """A machine is lost in the middle, and a straggler is overtaken; both are of the map side, whose tables count."""
    mark, slow = str(home / "rdd-killed"), str(home / "rdd-slow")

    def words(line: str) -> list[str]:
        if line.startswith("3 ") and once(mark):
            kill_this_executor()
            time.sleep(60)
        if line.startswith("38 ") and once(slow):
            time.sleep(8)
        return line.split()[1:]

    lines = w.context.textFile(f"{data}/lines.txt", 4)
    counts = lines.flatMap(words).map(lambda word: (word, 1)).reduceByKey(lambda a, b: a + b, 2)
    found: dict[str, Any] = {"counts": dict(sorted(counts.collect()))}
    lineage = counts.filter(lambda kv: kv[0] == "c").getLineage()
    found["witnesses"] = sorted(lineage.goBackAll().collect())
    found["forward"] = sorted(lines.filter(lambda line: line == "5 a c").getLineage().goNextAll().collect())
    counts.saveAsTextFile(f"{data}/counts")
    found |= {"killed": Path(mark).exists(), "overtaken": Path(slow).exists()}
    return found


def of_actors(spark: SparkSession, w: whence.Session) -> dict[str, Any]:
    actor = w.register("half", kind="map")

    def half(n: int) -> float:
        actor.capture(n, n / 2)
        if n == 8:
            actor.fail(n, error="eight")
        return n / 2

    halves = spark.sparkContext.parallelize([2, 4, 6, 8], 2).map(half).collect()
    actor.commit()
    failed = [failure.error for failure in w.actors.failures()]
    return {"halves": halves, "traced": [str(r) for r in w.trace([3.0], root=actor).records], "failed": failed}


def parse(amount: str) -> float:
    return float(amount)


def parse_frames(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield frame.assign(amount=frame["amount"].map(float))


def of_guard(spark: SparkSession, w: whence.Session) -> dict[str, Any]:
    rows = spark.createDataFrame([(1, "1"), (2, "six"), (3, "3")], "id long, amount string").coalesce(1)
    plain = rows.select("id", udf(parse, "double")("amount").alias("value"))
    frames = rows.mapInPandas(parse_frames, "id long, amount double")
    found: dict[str, Any] = {}
    for name, action in (("row", plain.collect), ("batch", frames.collect)):
        try:
            with w.guard():
                action()
        except Exception as error:
            culprit = getattr(error, "culprit", None)
            found[name] = (
                ("six" in str(culprit.record), culprit.script is not None) if culprit else str(error.__notes__)
            )
    with w.guard(on_error="quarantine") as guard:
        found["rows"] = sorted(row.id for row in frames.collect())
    found["aside"] = sorted(str(q.record) for q in guard.records)
    return found


def of_arrays(w: whence.Session) -> dict[str, Any]:
    wf = Workflow()
    image = wf.input("image")
    smooth = wf.add(ops.Convolve(np.ones((3, 3))), image)
    given = np.arange(64.0).reshape(8, 8)
    run = w.execute(wf, {"image": given}, chunks=4)
    cells = run.backward(smooth, [(3, 4)], to=image)
    return {
        "run": run.id,
        "cells": len(cells),
        "exact": cells.exact,
        "as alone": bool((np.asarray(run[smooth]) == np.asarray(w.execute(wf, {"image": given})[smooth])).all()),
    }


def main() -> None:
    master, python, home, data, store = sys.argv[1:6]
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "200ms",
    }
    # An executor without work is given up, though another stage might have read again what it shuffled.
    idle = {"spark.dynamicAllocation.shuffleTracking.timeout": "1s"}
    settings = speculation | idle | dict(a.split("=", 1) for a in sys.argv[6:])
    spark = started(master, python, Path(home), **settings)
    executors = Executors(spark)
    found: dict[str, Any] = {"executors have whence": spark.sparkContext.parallelize([1], 1).map(has_whence).collect()}
    with whence.attach(spark, store=store) as w:
        found["allocation"] = of_allocation(w, executors, data)
        found["rdds"] = of_rdds(w, Path(home), data)
        found["sql"] = of_sql(spark, w, Path(home), data)
        found["actors"] = of_actors(spark, w)
        found["guard"] = of_guard(spark, w)
        found["arrays"] = of_arrays(w)
        found["edges"] = sorted(
            {(e.source.name.rsplit("/", 1)[-1], e.target.name.rsplit("/", 1)[-1]) for e in w.catalog.edges()}
        )
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
