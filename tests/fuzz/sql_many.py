"""Many queries in one Spark session: ten over each set of tables, several threads, and each trace asked in few of the
ways, in turn. What is wrong is printed with the number that makes it again, and the run goes on."""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import whence
from fuzz import sql_making, sql_queries
from fuzz import sql_oracle as oracle

T = TypeVar("T")
QUERIES = 10  # over one set of tables
_EMPTY = 1  # so many of them without rows, if there are
# Every fourth set runs as Spark does by itself, and in several partitions: what goes by positions must mind them. The
# others run without shuffles and broadcasts, which is faster.
_PARTITIONS = "spark.sql.shuffle.partitions"
_NARROW = {"spark.sql.leafNodeDefaultParallelism": "1", "spark.sql.autoBroadcastJoinThreshold": "-1"}
_WIDE_EVERY = 4


def drawn(number: int, strategy: st.SearchStrategy[T], count: int) -> list[T]:
    """The same for the same number. Hypothesis begins with the simplest there is: that is left out."""
    found: list[T] = []

    @seed(number)
    @settings(
        max_examples=count + 2,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def keep(value: T) -> None:
        found.append(value)

    keep()
    return found[-count:]


def cases(number: int, ways: int) -> list[sql_making.Case]:
    tables = {f"t{i}": table for i, table in enumerate(drawn(number, sql_making.some_table(), 6)[-3:])}
    tables = sql_making.with_readings(tables)
    made = drawn(number, sql_making.cases(tables=tables), 3 * QUERIES)
    counted = [(case, sql_making.rows_of(case)) for case in made]
    # Of a query without rows there is little to ask.
    some, none = (
        [case for case, count in counted if count is not None and bool(count) is has] for has in (True, False)
    )
    chosen = [*some[: QUERIES - _EMPTY], *none, *some[QUERIES - _EMPTY :]][:QUERIES]
    all_ways = sql_making.WAYS * 2
    first = [(number + n) % len(sql_making.WAYS) for n in range(QUERIES)]
    return [replace(case, ways=all_ways[at : at + ways]) for case, at in zip(chosen, first, strict=False)]


class Run:
    def __init__(
        self, spark: SparkSession, home: Path, ways: int, numbers: Iterator[int], only: int | None = None
    ) -> None:
        """`only`: this query of the set alone."""
        self._spark, self._home, self._ways, self._numbers, self._only = spark, home, ways, numbers, only
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self.tally = sql_queries.Tally()
        self.wrong: list[str] = []

    def work(self) -> None:
        spark = self._spark.newSession()
        sql_queries.prepared(spark)
        with sql_queries.quick(spark):
            while True:
                with self._lock:
                    number = next(self._numbers, None)
                if number is None:
                    return
                spark.conf.set(_PARTITIONS, "1" if number % _WIDE_EVERY else "3")
                for name, value in _NARROW.items():
                    if number % _WIDE_EVERY:
                        spark.conf.set(name, value)
                    else:
                        spark.conf.unset(name)
                with whence.attach(spark, store=self._home / f"store{number}") as w:
                    self._one(w, number)

    def _one(self, w: whence.Session, number: int) -> None:
        made = cases(number, self._ways)
        work = self._home / f"tables{number}"
        sql_queries.load(w.spark, made[0], work)
        for n, case in enumerate(made):
            if self._only is not None and n != self._only:
                continue
            try:
                sql_queries.check_loaded(w, case, work / str(n), self.tally)
            except Exception as error:
                self._tell(f"{number}.{n}", case, error)
        if number % 10 == 0:
            self._say(f"at {number}")

    def _tell(self, name: str, case: sql_making.Case, error: Exception) -> None:
        with self._lock:
            self.wrong.append(name)
            print(f"WRONG {name}: make fuzz ARGS='many --only {name}'\n{type(error).__name__}: {str(error)[:700]}")
            print(f"{case!r}\n{oracle.sql(case.query)}")
            print(
                "".join(traceback.format_exception(error)[-12:])[-4000:] if self._only is not None else "", flush=True
            )

    def _say(self, where: str) -> None:
        seconds = time.monotonic() - self._began
        python, java = time.process_time(), self._java()
        used = f"{seconds:.0f} s, of CPU {python:.0f} in Python and {java:.0f} in Java"
        print(f"{where}: {self.tally}, {len(self.wrong)} wrong, {used}", flush=True)

    def _java(self) -> float:
        """CPU seconds of the JVM."""
        jvm: Any = self._spark._jvm
        array: Any = self._spark.sparkContext._gateway.new_array  # type: ignore[union-attr]
        told = jvm.java.lang.Class.forName("com.sun.management.OperatingSystemMXBean")
        ask = told.getMethod("getProcessCpuTime", array(jvm.java.lang.Class, 0))
        bean = jvm.java.lang.management.ManagementFactory.getOperatingSystemMXBean()
        return float(ask.invoke(bean, array(jvm.java.lang.Object, 0))) / 1e9

    def end(self) -> None:
        self._say("in all")


def main(session: Any) -> None:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first set of tables")
    parser.add_argument("--count", type=int, default=100, help=f"how many sets of tables, of {QUERIES} queries each")
    parser.add_argument(
        "--threads", type=int, default=1, help="two processes, of other seeds, are faster than two threads"
    )
    parser.add_argument("--ways", type=int, default=1, help=f"in how many of {len(sql_making.WAYS)} ways to ask")
    parser.add_argument("--only", help="one query again, as it was printed: seed.number")
    options = parser.parse_args()
    first, count, only = options.first, options.count, None
    if options.only is not None:
        first, only = map(int, options.only.split("."))
        count = 1
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        spark = session(home)
        run = Run(spark, home, options.ways, iter(range(first, first + count)), only)
        with ThreadPoolExecutor(options.threads) as pool:
            for done in [pool.submit(run.work) for _ in range(options.threads)]:
                done.result()
        run.end()
        spark.stop()
    sys.exit(bool(run.wrong))
