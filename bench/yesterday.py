"""Questions that are asked again and again about one report: each against the time of the report's own query.

The session has computed the report before, as whoever asks about it has seen it; `unseen` is asked of a session of its
own, which has not. Questions themselves know nothing of each other.

python -m bench.yesterday [--orders 200000] [--rounds 7] [--docs]
"""

from __future__ import annotations

import runpy
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import whence
from bench.harness import Bars, Result, Way, arguments, finish, interleaved, progress, spark_session, write_docs

EXAMPLE = Path(__file__).parents[1] / "examples" / "yesterday" / "orders.py"
PROMISED = 2.0
REPORT = """
    SELECT city, count(*) AS orders, sum(amount) FILTER (WHERE kind = 'sale') AS sales,
           sum(amount) FILTER (WHERE kind = 'refund') AS refunds, sum(amount) / count(DISTINCT customer) AS basket
    FROM orders JOIN customers USING (customer) WHERE amount IS NOT NULL GROUP BY city HAVING count(*) > 10"""


class Asked:
    """The report made anew for each question: nothing is known from the one before."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark, self._home = spark, home

    def report(self) -> tuple[DataFrame, DataFrame]:
        read = self._spark.read
        orders = read.csv(
            str(self._home / "orders.csv"), header=True, schema="id int, customer string, kind string, amount double"
        )
        orders.createOrReplaceTempView("orders")
        customers = read.csv(str(self._home / "customers.csv"), header=True, schema="customer string, city string")
        customers.createOrReplaceTempView("customers")
        return orders, self._spark.sql(REPORT)


def ways(w: whence.Session, asked: Asked) -> dict[str, Callable[[], Any]]:
    """All but `unseen`."""

    def bad() -> DataFrame:
        return asked.report()[1].where("sales < 0")

    return {
        "the query": lambda: asked.report()[1].collect(),
        "print": lambda: str(w.backward(bad())),
        "print, one column": lambda: str(w.backward(bad(), columns=["sales"])),
        "verify": lambda: w.backward(bad()).verify(),
        "why_not, reached": lambda: why_not(w, asked, "true"),
        "why_not, dropped": lambda: why_not(w, asked, "sales < -1e12"),
    }


def why_not(w: whence.Session, asked: Asked, condition: str) -> Any:
    orders, report = asked.report()
    return w.why_not(orders.where("id = 7"), to=report.where(condition))


def unseen(spark: SparkSession, home: Path, asked: Asked) -> Way:
    sessions: list[whence.Session] = []
    return Way(
        lambda: why_not(sessions[-1], asked, "sales < -1e12"),
        lambda: sessions.append(whence.attach(spark, store=home / "unseen")),
        lambda: sessions.pop().close(),
    )


def main() -> None:
    parser = arguments(__doc__ or "", rounds=7)
    parser.add_argument("--orders", type=int, default=200_000)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="yesterday-bench-"))
    runpy.run_path(str(EXAMPLE))["main"](home, options.orders)
    spark = spark_session("bench yesterday", memory="2g")
    try:
        with whence.attach(spark, store=home / "store") as w:
            asked = Asked(spark, home)
            found = ways(w, asked)
            assert found["verify"]().ok
            assert found["why_not, reached"]()[0].operator is None
            assert found["why_not, dropped"]()[0].operator == "Filter"
            every: dict[str, Way | Callable[[], Any]] = {**found}
            every["why_not, dropped, unseen"] = unseen(spark, home, asked)
            with progress("yesterday", len(every) * (options.rounds + options.warmup)) as tick:
                measured = interleaved(every, options.rounds, options.warmup, tick)
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)
    query = measured["the query"]
    ratios = {name: way.over(query) for name, way in measured.items() if way is not query}
    target = finish(
        Result(
            "yesterday",
            f"Questions about a report over {options.orders:,} orders in CSV",
            "; ".join(f"{name} {ratio:.2f}x" for name, ratio in ratios.items()) + f" the query (wanted: {PROMISED:g}x)",
            ["what", "seconds", "x"],
            [[name, f"{way.median:.2f}", f"{way.over(query):.2f}"] for name, way in measured.items()],
            {f"{name}_over_query".replace(", ", "_").replace(" ", "_"): ratio for name, ratio in ratios.items()},
            raw={name: way.seconds for name, way in measured.items()},
        ),
        Bars(list(ratios), {"x": list(ratios.values())}, "times the query", limit=PROMISED),
    )
    if options.docs:
        write_docs(target)


if __name__ == "__main__":
    main()
