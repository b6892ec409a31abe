"""A trace over three jobs (a query, a program of RDDs, a query, each reading what the one before wrote) against the
same three questions asked of each job alone: following the way itself must cost nothing.

python -m bench.crossing [--rows 200000] [--rounds 7] [--docs]
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from operator import add
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

import whence
from bench.harness import Result, arguments, finish, interleaved, progress, spark_session, write_docs
from whence.debug.legs import Leg
from whence.sql.flow import SqlFlow

KEYS, GROUPS = 2_000, 20


def jobs(w: whence.Session, home: Path, rows: int) -> Any:
    """source, by key in a query, by group in RDDs, and a report of that: the report."""
    spark, lc = w.spark, w.context
    source, first, second = (str(home / name) for name in ("source", "first", "second"))
    spark.range(0, rows, 1, 4).selectExpr(f"id % {KEYS} AS k", "id AS v").write.csv(source)
    with w.capture():
        spark.read.schema("k int, v long").csv(source).groupBy("k").agg(F.sum("v").alias("v")).write.csv(first)
    pairs = lc.textFile(first, 2).map(lambda line: tuple(map(int, line.split(","))))
    sums = pairs.map(lambda kv: (kv[0] % GROUPS, kv[1])).reduceByKey(add, 2)
    sums.map(lambda kv: f"{kv[0]},{kv[1]}").saveAsTextFile(second)
    return spark.read.schema("g int, total long").csv(second).groupBy("g").agg(F.max("total").alias("total"))


def whole(w: whence.Session, report: Any) -> int:
    return sum(w.backward(report.where("g = 7")).witness_counts.values())


def alone(w: whence.Session, report: Any) -> dict[str, Callable[[], int]]:
    """For each leg of the trace: the same question to its flow, and its answer's identities."""
    found: dict[str, Callable[[], int]] = {}

    def first() -> int:
        flow = SqlFlow(w.lineage(report.where("g = 7")))
        return sum(len(records.ids()) for records in flow.backward(flow.all()).found.values())

    def later(leg: Leg, last: bool) -> int:
        answer = leg.flow.backward(leg.flow.take(leg.asked.site, leg.asked.ids()))
        return sum(records.count() if last else len(records.ids()) for records in answer.found.values())

    legs = list(w.backward(report.where("g = 7"))._leg.walk())
    found[f"1: {legs[0].flow.name}"] = first
    for number, leg in enumerate(legs[1:], 2):
        last = number == len(legs)
        found[f"{number}: {leg.flow.name}"] = lambda leg=leg, last=last: later(leg, last)  # type: ignore[misc]
    return found


def main() -> None:
    parser = arguments(__doc__ or "", rounds=7)
    parser.add_argument("--rows", type=int, default=200_000)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="crossing-bench-"))
    spark = spark_session("bench crossing", memory="2g")
    try:
        with whence.attach(spark, store=home / "store") as w:
            report = jobs(w, home, options.rows)
            expected = options.rows // GROUPS
            if whole(w, report) != expected:
                raise SystemExit(f"the trace does not have the {expected} witnesses that it must have")
            ways = {"three jobs": lambda: whole(w, report), **alone(w, report)}
            with progress("crossing", len(ways) * (options.rounds + 1)) as tick:
                found = interleaved(ways, options.rounds, 1, tick)
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)
    three, *each = found.values()
    sums = [sum(way.seconds[n] for way in each) for n in range(options.rounds)]
    ratios = sorted(took / total for took, total in zip(three.seconds, sums, strict=True))
    ratio = ratios[len(ratios) // 2]
    target = finish(
        Result(
            "crossing",
            f"A trace over three jobs, {options.rows:,} rows",
            f"a trace over three jobs takes {ratio:.2f}x the sum of its flows asked alone (promised: at most 1)",
            ["what", "seconds"],
            [[name, f"{way.median:.2f}"] for name, way in found.items()],
            {"over_the_sum": ratio, "flows": len(each)},
            raw={name: way.seconds for name, way in found.items()},
        )
    )
    if options.docs:
        write_docs(target)


if __name__ == "__main__":
    main()
