"""Guarding: what it costs when nothing fails, and how long the culprit among many rows takes when something does.

python -m bench.guard [--rows 10000000] [--rounds 5]
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql.functions import udf

import whence
from bench.harness import Bars, Result, arguments, finish, interleaved, progress, spark_session


def parse(amount: str) -> float:
    return float(amount)


def parse_if_possible(amount: str) -> float | None:
    return float(amount) if amount[0].isdigit() else None


def main() -> None:
    parser = arguments(__doc__ or "", rounds=5)
    parser.add_argument("--rows", type=int, default=10_000_000)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="guard-bench-"))
    spark = spark_session("bench guard", memory="4g")
    try:
        source = str(home / "orders")
        bad = options.rows * 2 // 3
        amount = sf.when(sf.col("id") == bad, sf.lit("six")).otherwise(sf.concat(sf.col("id") % 1000, sf.lit(".5")))
        spark.range(0, options.rows, 1, 4).withColumn("amount", amount).withColumn(
            "shop", sf.col("id") % 7
        ).write.parquet(source)
        orders = spark.read.parquet(source)
        value = udf(parse, "double")
        good = (
            orders.where(sf.col("id") != bad).withColumn("value", value("amount")).groupBy("shop").agg(sf.sum("value"))
        )
        failing = orders.withColumn("value", value("amount")).groupBy("shop").agg(sf.sum("value"))
        with whence.attach(spark, store=home / "store") as w:
            _measure(options, w, good, failing, orders, bad)
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)


def _guarded(w: whence.Session, frame: DataFrame) -> None:
    with w.guard():
        frame.collect()


def _failing(frame: DataFrame) -> float:
    start = time.perf_counter()
    try:
        frame.collect()
    except Exception:
        return time.perf_counter() - start
    raise AssertionError("the job was to fail")


def _measure(options: Any, w: whence.Session, good: DataFrame, failing: DataFrame, orders: DataFrame, bad: int) -> None:
    with progress("guard", 2 * (options.rounds + options.warmup) + options.rounds + 1) as tick:
        found = interleaved(
            {"plain": good.collect, "guarded": lambda: _guarded(w, good)}, options.rounds, options.warmup, tick
        )
        cost = found["guarded"].over(found["plain"])
        plain, searched = [], []
        for n in range(options.rounds):
            tick(f"failing job {n}")
            plain.append(_failing(failing))
            start = time.perf_counter()
            try:
                with w.guard() as guard:
                    failing.collect()
            except Exception:
                searched.append(time.perf_counter() - start)
            assert guard.culprit is not None
            assert guard.culprit.record == "six"
            assert [row.id for row in guard.culprit.sources[0].rows] == [bad]
        tick("minimize")
        report = (
            orders.withColumn("value", udf(parse_if_possible, "double")("amount"))
            .groupBy("shop")
            .agg(sf.count_if(sf.col("value").isNull()).alias("lost"))
        )
        start = time.perf_counter()
        report.collect()
        job = time.perf_counter() - start

        def lost(rows: list[Row]) -> bool:
            return any(row.lost for row in rows)

        start = time.perf_counter()
        least = w.minimize(report, fails=lost)
        minimized = time.perf_counter() - start
        assert [row.id for row in least.sources["orders"]] == [bad]
    ratio = sorted(s / p for s, p in zip(searched, plain, strict=True))[len(plain) // 2]
    search = sorted((s - p) / p for s, p in zip(searched, plain, strict=True))[len(plain) // 2]
    finish(
        Result(
            "guard",
            f"Guarding a UDF over {options.rows:,} rows",
            f"guard without a failure {cost:.3f}x; one bad record in {options.rows / 1e6:g} million rows found, "
            f"with its source row, in {search:.2f}x the failing job's time (together {ratio:.2f}x); minimize "
            f"with an oracle {minimized / job:.2f}x the job's time, {least.tests} tests",
            ["what", "seconds", "x"],
            [
                ["plain job", f"{found['plain'].median:.2f}", "1"],
                ["guarded job", f"{found['guarded'].median:.2f}", f"{cost:.3f}"],
                ["failing job", f"{sorted(plain)[len(plain) // 2]:.2f}", "1"],
                ["failing job and search", f"{sorted(searched)[len(searched) // 2]:.2f}", f"{ratio:.2f}"],
                ["query to minimise", f"{job:.2f}", "1"],
                ["minimize", f"{minimized:.2f}", f"{minimized / job:.2f}"],
            ],
            {"cost_without_failure": cost, "search_over_failing_job": search, "minimize_over_job": minimized / job},
        ),
        Bars(["guard, no failure", "search / failing job", "minimize / job"],
             {"x": [cost, search, minimized / job]}, "times the job", limit=1.5),
    )  # fmt: skip


if __name__ == "__main__":
    main()
