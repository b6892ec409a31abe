"""Every front end with a store at a URL, on a cluster whose machines share nothing with the driver but that URL and the
data: python stored.py <master> <executors' python> <home> <data> <store> [setting=value ...]

Prints one JSON line with what each gave."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import everything
import numpy as np
from everything import of_actors, of_guard
from pyspark import cloudpickle
from pyspark.sql.functions import udf
from started import started

import files_contract
import whence
from whence.arrays import Workflow, ops
from whence.spark.hadoop_files import HadoopFiles


def deadly(n: int) -> int:
    if n == 2:
        os._exit(7)
    return n


def main() -> None:
    cloudpickle.register_pickle_by_value(everything)  # executors have not this file
    master, python, home, data, store = sys.argv[1:6]
    spark = started(master, python, Path(home), **dict(a.split("=", 1) for a in sys.argv[6:]))
    found: dict[str, Any] = {}
    with whence.attach(spark, store=store) as w:
        files_contract.check(w._store.files.below("contract"))
        orders = spark.read.parquet(f"{data}/orders")
        totals = orders.groupBy("customer").agg({"amount": "sum"}).withColumnRenamed("sum(amount)", "total")
        with w.capture():
            totals.write.parquet(f"{data}/totals")
            orders.limit(3).write.parquet(f"{data}/some")  # which three is a fact, written down
        trace = w.backward(spark.read.parquet(f"{data}/totals").where("customer = 1"))
        found["sql"] = sorted(row["id"] for row in trace["orders"].collect()), trace.exact, trace.verify().ok

        lines = w.context.textFile(f"{data}/lines.txt", 4)
        counts = lines.flatMap(lambda line: line.split()[1:]).map(lambda word: (word, 1)).reduceByKey(int.__add__, 2)
        found["counts"] = dict(sorted(counts.collect()))
        found["witnesses"] = sorted(counts.filter(lambda kv: kv[0] == "c").getLineage().goBackAll().collect())
        w.context.strategy = "propagated"
        found["forward"] = sorted(lines.filter(lambda line: line == "5 a c").getLineage().goNextAll().collect())
        counts.saveAsTextFile(f"{data}/counts")

        found["actors"] = of_actors(spark, w)
        found["guard"] = of_guard(spark, w)
        numbers = spark.range(4).coalesce(1).select(udf(deadly, "long")("id").alias("n"))
        try:
            with w.guard() as guard:
                numbers.collect()
        except Exception:
            found["died on"] = str(guard.culprit.record) if guard.culprit else None

        wf = Workflow()
        image = wf.input("image")
        smooth = wf.add(ops.Convolve(np.ones((3, 3))), image)
        run = w.execute(wf, {"image": np.arange(64.0).reshape(8, 8)})
        found["arrays"] = {"run": run.id, "cells": len(run.backward(smooth, [(3, 4)], to=image))}
        try:
            w.execute(wf, {"image": np.arange(64.0).reshape(8, 8)}, chunks=4)
        except whence.WhenceError as refused:
            found["chunks"] = str(refused)
        files = w._store.files
        if isinstance(files, HadoopFiles) and files.has_rights:
            (run_,) = files.names("rdd")
            table = next((s, n) for s in files.names("rdd", run_) if s.isdigit() for n in files.names("rdd", run_, s))
            places = [
                (),
                ("tables",),
                ("actors", "registry"),
                ("catalog", files.names("catalog")[0]),
                ("rdd", run_, *table),
            ]
            system, path = files._system, spark._jvm.org.apache.hadoop.fs.Path
            found["rights"] = [
                str(system.getFileStatus(path(files.path(*place))).getPermission().toString()) for place in places
            ]
        found["saved"] = trace.save("the first customer")
        found["edges"] = sorted(
            {(e.source.name.rsplit("/", 1)[-1], e.target.name.rsplit("/", 1)[-1]) for e in w.catalog.edges()}
        )
    found["left here"] = sorted(name for name in os.listdir(".") if name not in ("stderr", "warehouse", "artifacts"))
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
