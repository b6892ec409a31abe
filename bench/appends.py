"""Wide and deep: a table of many captured appends (a day's sums; a day joined with a dimension; a day's totals) and a
union of many branches (one row, a sum over all, forward from a row), and a chain of ten written tables, each beside its
query, in a driver of 1 GB.

python -m bench.appends [--sizes 10 100 300 1000] [--without unions] [--rounds 3] [--processor] [--docs]
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count, zip_longest
from math import lcm
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import whence
from bench.harness import (
    Measured,
    Result,
    arguments,
    finish,
    interleaved,
    processor_time,
    progress,
    spark_session,
    write_docs,
)

ORDERS, SHOPS, CHAIN = 200, 50, 10  # of a day, in all, of tables
Ways = dict[str, Callable[[], object]]


def orders(spark: SparkSession, home: Path, days: int) -> DataFrame:
    path = str(home / "orders")
    rows = spark.range(0, ORDERS * days, 1, 2).selectExpr(
        "id", f"cast(id % {days} as int) as day", f"id % {SHOPS} as shop", "id * 3 % 101 as amount"
    )
    rows.write.mode("overwrite").parquet(path)
    return spark.read.parquet(path)


def together(parts: list[DataFrame]) -> DataFrame:
    """Their union, two by two: one after the other, Spark would analyse the first of a thousand a thousand times."""
    while len(parts) > 1:
        parts = [a if b is None else a.unionAll(b) for a, b in zip_longest(parts[::2], parts[1::2])]
    return parts[0]


def sums(frame: DataFrame) -> DataFrame:
    return frame.groupBy("day", "shop").sum("amount").toDF("day", "shop", "total")


def counted(w: whence.Session, asked: DataFrame, witnesses: int) -> None:
    found = sum(w.backward(asked).witness_counts.values())
    if found != witnesses:
        raise SystemExit(f"{found} witnesses where there are {witnesses}")


def beside(w: whence.Session, make: Callable[[int], DataFrame], witnesses: int) -> Ways:
    """Each asks for another row every time: what was found for the last one is no help."""
    turns = {"query": count(), "trace": count()}
    return {
        "query": lambda: make(next(turns["query"])).collect(),
        "trace": lambda: counted(w, make(next(turns["trace"])), witnesses),
    }


def ahead(w: whence.Session, source: DataFrame, make: Callable[[], DataFrame], size: int) -> Ways:
    """Which row of a result an order touches, beside the result itself."""
    turns = count()

    def touched() -> None:
        order = (7 + next(turns)) % size
        (row,) = w.forward(source.where(f"id = {order}"), to=make()).rows.collect()
        if row.day != order:
            raise SystemExit(f"a row of day {row.day} where day {order} was to be touched")

    return {"query": lambda: make().collect(), "forward": touched}


def a_group(turn: int, size: int) -> str:
    """The group of an order, which is in one of so many days."""
    order = (7 + turn) % size
    return f"day = {order} and shop = {order % SHOPS}"


def in_a_group(days: int) -> int:
    return ORDERS * days // lcm(days, SHOPS)


def appended(
    w: whence.Session, home: Path, source: DataFrame, sizes: list[int], tick: Callable[[str], None]
) -> Iterator[tuple[str, Ways]]:
    """The same table as it grows: a day's sums are appended, and what it has then is asked by another session."""
    target = str(home / "days")
    spark = w.spark

    def over_all(turn: int) -> DataFrame:
        return spark.read.parquet(target).groupBy("shop").sum("total").where(f"shop = {(7 + turn) % 10}")

    for done, size in zip([0, *sizes], sizes, strict=False):
        with w.capture():
            for day in range(done, size):
                tick(f"appending day {day}")
                sums(source.where(f"day = {day}")).coalesce(1).write.mode("append").parquet(target)

        def one(turn: int, size: int = size) -> DataFrame:
            return spark.read.parquet(target).where(a_group(turn, size))

        with whence.attach(spark, store=home / "store") as later:
            yield f"{size:,} appends, a row of one", beside(later, one, in_a_group(sizes[-1]))
            of_shop = source.where(f"shop = 7 and day < {size}").count()
            yield f"{size:,} appends, a sum over all", beside(later, over_all, of_shop)
            yield (
                f"{size:,} appends, forward from one row",
                ahead(later, source, lambda: spark.read.parquet(target), size),
            )


def shops(spark: SparkSession, home: Path) -> DataFrame:
    path = str(home / "shops")
    spark.range(0, SHOPS, 1, 1).selectExpr("id as shop", "id % 7 as region").write.mode("overwrite").parquet(path)
    return spark.read.parquet(path)


def joined(
    w: whence.Session, home: Path, source: DataFrame, sizes: list[int], tick: Callable[[str], None]
) -> Iterator[tuple[str, Ways]]:
    """The same of a day's orders joined with their shops, and of totals: one row for a day."""
    spark = w.spark
    regions, totals = str(home / "regions"), str(home / "totals")
    dimension = shops(spark, home)

    def of_region(turn: int) -> DataFrame:
        return spark.read.parquet(regions).groupBy("region").sum("amount").where(f"region = {turn % 7}")

    for done, size in zip([0, *sizes], sizes, strict=False):
        with w.capture():
            for day in range(done, size):
                tick(f"appending day {day}")
                orders_of = source.where(f"day = {day}")
                parts = orders_of.join(dimension, "shop").select("id", "day", "region", "amount")
                parts.coalesce(1).write.mode("append").parquet(regions)
                total = orders_of.selectExpr(f"{day} as day", "count(*) as orders", "sum(amount) as total")
                total.coalesce(1).write.mode("append").parquet(totals)

        def one(turn: int, size: int = size) -> DataFrame:
            return spark.read.parquet(regions).where(f"id = {(7 + turn) % size}")

        def one_total(turn: int, size: int = size) -> DataFrame:
            return spark.read.parquet(totals).where(f"day = {(7 + turn) % size}")

        with whence.attach(spark, store=home / "store") as later:
            yield f"{size:,} appends of joins, a row of one", beside(later, one, 2)
            in_region = source.where(f"day < {size} and shop % 7 = 0")
            first = in_region.count() + in_region.select("shop").distinct().count()
            yield f"{size:,} appends of joins, a sum over all", beside(later, lambda turn: of_region(0), first)
            yield f"{size:,} appends of totals, a row of one", beside(later, one_total, ORDERS)


def united(w: whence.Session, source: DataFrame, sizes: list[int]) -> Iterator[tuple[str, Ways]]:
    """The unions are made beforehand: Spark takes longer to analyse the branches one by one than to run them."""
    for size in sizes:
        days = [source.where(f"day = {day}") for day in range(size)]
        filters = together(days)
        yield (
            f"{size:,} filters united, a row of one",
            beside(w, lambda turn, all=filters, size=size: all.where(f"id = {(7 + turn) % size}"), 1),  # type: ignore[misc]
        )
        groups = together([sums(day) for day in days])
        yield (
            f"{size:,} sums united, a row of one",
            beside(w, lambda turn, all=groups, size=size: all.where(a_group(turn, size)), in_a_group(sizes[-1])),  # type: ignore[misc]
        )

        def over_all(turn: int, all: DataFrame = groups) -> DataFrame:
            return all.groupBy("shop").sum("total").where(f"shop = {(7 + turn) % 10}")

        of_shop = source.where(f"shop = 7 and day < {size}").count()
        yield f"{size:,} sums united, a sum over all", beside(w, over_all, of_shop)
        yield f"{size:,} sums united, forward from one row", ahead(w, source, lambda all=groups: all, size)  # type: ignore[misc]


def chained(w: whence.Session, home: Path, source: DataFrame) -> dict[str, Callable[[], object]]:
    """Ten tables, each written from the one before: all of the way, and each table's own step alone."""
    spark = w.spark
    paths = [str(home / f"step{n}") for n in range(CHAIN)]
    frame = source
    with w.capture():
        for number, path in enumerate(paths):
            frame.selectExpr("id", "day", "shop", f"amount + {number} as amount").write.parquet(path)
            frame = spark.read.parquet(path)

    def asked(number: int) -> DataFrame:
        return spark.read.parquet(paths[number]).where("id = 7")

    def one_by_one() -> None:
        """Of each table the question that is asked of it alone: as its query over the table before."""
        before = source
        for number in range(CHAIN):
            made = before.selectExpr("id", "day", "shop", f"amount + {number} as amount").where("id = 7")
            if sum(w.backward(made, through=False).witness_counts.values()) != 1:
                raise SystemExit("one witness was to be found")
            before = spark.read.parquet(paths[number])

    return {"sum of its flows": one_by_one, "chain": lambda: counted(w, asked(CHAIN - 1), 1)}


def row_of(name: str, found: dict[str, Measured]) -> list[str]:
    base, other = found.values()
    return [name, f"{base.median:.2f}", f"{other.median:.2f}", f"{other.over(base):.2f}"]


def main() -> None:
    parser = arguments(__doc__ or "", rounds=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 100, 300, 1000])
    parser.add_argument("--without", nargs="*", default=[], choices=["appends", "joins", "unions", "chain"])
    parser.add_argument(
        "--processor", action="store_true", help="processor time of JVM and Python in place of the clock"
    )
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="appends-bench-"))
    spark = spark_session("bench appends", memory="1g")
    rows: list[list[str]] = []
    raw: dict[str, Any] = {}
    sizes = sorted(options.sizes)
    clock = processor_time if options.processor else time.perf_counter

    def measure(name: str, ways: Ways) -> None:
        with progress(name, len(ways) * (options.rounds + options.warmup)) as tick:
            found = interleaved(ways, options.rounds, options.warmup, tick, clock)
        rows.append(row_of(name, found))
        raw[name] = {way: measured.seconds for way, measured in found.items()}
        print(*rows[-1], flush=True)

    try:
        source = orders(spark, home, sizes[-1])
        with whence.attach(spark, store=home / "store") as w:
            if "chain" not in options.without:
                measure("a chain of ten written tables", chained(w, home, source))
            if "appends" not in options.without:
                with progress("appends", sizes[-1]) as tick:
                    for name, ways in appended(w, home, source, sizes, tick):
                        measure(name, ways)
            if "joins" not in options.without:
                with progress("appends of joins", sizes[-1]) as tick:
                    for name, ways in joined(w, home, source, sizes, tick):
                        measure(name, ways)
            if "unions" not in options.without:
                for name, ways in united(w, source, sizes):
                    measure(name, ways)
    finally:
        spark.stop()
        shutil.rmtree(home, ignore_errors=True)
    figures = {name: float(ratio) for name, _, _, ratio in rows}
    worst = max((value, name) for name, value in figures.items())
    target = finish(
        Result(
            "appends",
            "Many appends, many branches, a chain of tables",
            f"wide and deep: at most {worst[0]:.2f}x the query ({worst[1]}); promised: 3x, a chain 1.2x its flows",
            ["what", "query (of the chain: its flows alone) [s]", "trace with counts, or forward [s]", "ratio"],
            rows,
            figures,
            raw=raw,
        )
    )
    if options.docs:
        write_docs(target)


if __name__ == "__main__":
    main()
