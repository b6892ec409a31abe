"""Guarding: what it costs when nothing fails, and how long the culprit among many rows takes when something does.

python -m bench.guard [--rows 10000000] [--rounds 5] [--docs]
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.functions import udf

import whence
from bench.harness import Bars, Result, arguments, finish, interleaved, progress, spark_session, write_docs


def parse(amount: str) -> float:
    return float(amount)


def main() -> None:
    parser = arguments(__doc__ or "", rounds=5)
    parser.add_argument("--rows", type=int, default=10_000_000)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="guard-bench-"))
    spark = spark_session("bench guard", memory="4g")
    spark.sparkContext.setLogLevel("OFF")  # jobs that fail are what is measured here
    try:
        source = str(home / "orders")
        bad = options.rows * 2 // 3
        amount = sf.when(sf.col("id") == bad, sf.lit("six")).otherwise(sf.concat(sf.col("id") % 1000, sf.lit(".5")))
        spark.range(0, options.rows, 1, 4).withColumn("amount", amount).withColumn(
            "shop", sf.col("id") % 7
        ).write.parquet(source)
        orders = spark.read.parquet(source)
        value = udf(parse, "double")

        def totals(rows: DataFrame) -> DataFrame:
            """Made anew for every run: a query that ran, or failed, keeps the stages it finished."""
            return rows.withColumn("value", value("amount")).groupBy("shop").agg(sf.sum("value"))

        with whence.attach(spark, store=home / "store") as w:
            _measure(options, w, lambda: totals(orders.where(sf.col("id") != bad)), lambda: totals(orders), bad)
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


Made = Callable[[], DataFrame]


def _measure(options: Any, w: whence.Session, good: Made, failing: Made, bad: int) -> None:
    with progress("guard", 2 * (options.rounds + options.warmup) + options.rounds) as tick:
        found = interleaved(
            {"plain": lambda: good().collect(), "guarded": lambda: _guarded(w, good())},
            options.rounds,
            options.warmup,
            tick,
        )
        cost = found["guarded"].over(found["plain"])
        plain, searched = [], []
        for n in range(options.rounds):
            tick(f"failing job {n}")
            plain.append(_failing(failing()))
            frame = failing()
            start = time.perf_counter()
            try:
                with w.guard() as guard:
                    frame.collect()
            except Exception:
                searched.append(time.perf_counter() - start)
            assert guard.culprit is not None
            assert guard.culprit.record == "six"
            assert [row.id for row in guard.culprit.sources[0].rows] == [bad]

    ratio = median(s / p for s, p in zip(searched, plain, strict=True))
    search = median((s - p) / p for s, p in zip(searched, plain, strict=True))
    figures = {"cost_without_failure": cost, "search_over_failing_job": search}
    target = finish(
        Result(
            "guard",
            f"Guarding a UDF over {options.rows:,} rows",
            f"guard without a failure {cost:.3f}x; one bad record in {options.rows / 1e6:g} million rows found, "
            f"with its source row, in {search:.2f}x the failing job's time (together {ratio:.2f}x)",
            ["what", "seconds", "x"],
            [
                ["plain job", f"{found['plain'].median:.2f}", "1"],
                ["guarded job", f"{found['guarded'].median:.2f}", f"{cost:.3f}"],
                ["failing job", f"{median(plain):.2f}", "1"],
                ["failing job and search", f"{median(searched):.2f}", f"{ratio:.2f}"],
            ],
            figures,
            raw={"plain": plain, "searched": searched},
        ),
        Bars(["guard, no failure", "search / failing job"], {"x": [cost, search]}, "times the job", limit=1.5),
    )
    if options.docs:
        write_docs(target)


if __name__ == "__main__":
    main()
