"""The smallest input that still fails: how long it takes, beside the job whose result shows the fault.

Orders are counted shop by shop; one amount cannot be read. The job is run with SQL alone, with a plain Python function
and with a costly one; another query fails only on two rows together. Each round runs the job and then minimises what
it gave.

python -m bench.minimize [--rows 10000000] [--rounds 3] [--docs]
"""

from __future__ import annotations

import decimal
import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql.functions import udf

import whence
from bench.harness import Bars, Result, arguments, finish, progress, spark_session, write_docs

GOAL = 0.6
BIGSIFT = 0.62


def parse(amount: str) -> float | None:
    return float(amount) if amount[0].isdigit() else None


_NUMBER = re.compile(r"\d+\.\d+")


def checked(amount: str) -> float | None:
    """What parsing is like in earnest: JSON, a pattern, a decimal; some microseconds a row."""
    found = json.loads(f'{{"amount": "{amount}", "currency": "EUR"}}')["amount"]
    return float(decimal.Decimal(found).quantize(decimal.Decimal("0.01"))) if _NUMBER.fullmatch(found) else None


def _lost(value: Column) -> Column:
    return sf.count_if(value.isNull()).alias("lost")


def _report(orders: DataFrame, function: Callable[[str], float | None] | None) -> DataFrame:
    value = sf.expr("try_cast(amount AS double)") if function is None else udf(function, "double")("amount")
    return orders.withColumn("value", value).groupBy("shop").agg(_lost(sf.col("value")))


def _together(orders: DataFrame, bad: tuple[int, int]) -> DataFrame:
    both = [sf.count_if(sf.col("id") == one) for one in bad]
    value = udf(parse, "double")("amount")
    return orders.withColumn("value", value).groupBy("shop").agg(sf.sum("value"), (both[0] * both[1]).alias("lost"))


class _Case:
    """Seconds of the job, seconds to minimise what its result shows, and tests made for it, of every round."""

    def __init__(self, name: str, report: Callable[[], DataFrame], expected: list[int]) -> None:
        self.name, self._report, self._expected = name, report, expected
        self.runs: list[tuple[float, float, int]] = []

    def run(self, w: whence.Session) -> tuple[float, float, int]:
        start = time.perf_counter()
        rows = self._report().collect()
        job = time.perf_counter() - start
        start = time.perf_counter()
        least = w.minimize(self._report(), fails=_any_lost, rows=rows)
        took = time.perf_counter() - start
        assert sorted(row.id for row in least.sources["orders"]) == self._expected, least
        assert not least.stopped
        return job, took, least.tests

    @property
    def ratio(self) -> float:
        return median(took / job for job, took, _ in self.runs)

    def rows(self) -> list[list[str]]:
        jobs, times, tests = ([run[n] for run in self.runs] for n in range(3))
        return [[self.name, f"{median(jobs):.2f}", f"{median(times):.2f}", f"{self.ratio:.2f}", str(max(tests))]]


def _any_lost(rows: list[Row]) -> bool:
    return any(row.lost for row in rows)


def main() -> None:
    parser = arguments(__doc__ or "", rounds=3)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--only", nargs="*", help="jobs, such as 'a plain function'")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="minimize-bench-"))
    spark = spark_session("bench minimize", memory="4g")
    try:
        source = str(home / "orders")
        bad = options.rows * 2 // 3
        pair = (bad, bad - bad // 14 * 7)  # of one shop, far from each other
        amount = sf.when(sf.col("id") == bad, sf.lit("six")).otherwise(sf.concat(sf.col("id") % 1000, sf.lit(".5")))
        orders = spark.range(0, options.rows, 1, 4).withColumn("amount", amount).withColumn("shop", sf.col("id") % 7)
        orders.write.parquet(source)
        orders = spark.read.parquet(source)
        cases = [
            _Case("SQL alone", lambda: _report(orders, None), [bad]),
            _Case("a plain function", lambda: _report(orders, parse), [bad]),
            _Case("a costly function", lambda: _report(orders, checked), [bad]),
            _Case("two rows together", lambda: _together(orders, pair), sorted(pair)),
        ]
        with whence.attach(spark, store=home / "store") as w:
            _measure(options, w, [case for case in cases if not options.only or case.name in options.only])
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)


def _measure(options: Any, w: whence.Session, cases: list[_Case]) -> None:
    with progress("minimize", len(cases) * (options.rounds + options.warmup)) as tick:
        for turn in range(options.warmup + options.rounds):
            for case in cases if turn % 2 == 0 else cases[::-1]:
                tick(case.name)
                found = case.run(w)
                if turn >= options.warmup:
                    case.runs.append(found)
    said = ", ".join(f"{case.ratio:.2f}x the job ({case.name})" for case in cases)
    target = finish(
        Result(
            "minimize",
            f"minimize over {options.rows:,} rows",
            f"minimize {said}; BigSift: {BIGSIFT}x",
            ["job", "job s", "minimize s", "x", "tests"],
            [row for case in cases for row in case.rows()],
            {f"minimize_over_job_with_{case.name}".replace(" ", "_"): case.ratio for case in cases},
            notes=("each round runs the job and then minimises its result; x: the median of the rounds' ratios.",),
            raw={case.name: case.runs for case in cases},
        ),
        Bars([case.name for case in cases], {"x": [case.ratio for case in cases]}, "times the job", limit=GOAL),
    )
    if options.docs:
        write_docs(target)


if __name__ == "__main__":
    main()
