"""`make fuzz`: generated queries and programs against their oracles, until so many are done or one is wrong.

    make fuzz                                             queries: rows, witnesses both ways, verify, exclude, counts
    make fuzz ARGS="--first 17 --rounds 1"                one round again: its seed makes the same queries
    make fuzz ARGS="many --count 1000"                    10,000 queries, fewer questions about each; goes on when wrong
                                                          (on two cores: two such runs, of other seeds)
    make fuzz ARGS="rdd --count 300"                      RDD programs on Spark; --pairs: each operator after each other
    make fuzz ARGS="rdd --stages --count 20000"           programs of one stage, without Spark's jobs
    make fuzz ARGS="rdd-local --count 5000"               programs of several stages, without Spark's jobs
    make fuzz ARGS="actors --count 3000"                  graphs of actors

A wrong answer is shrunk to the smallest case that shows it, and printed with the seed that makes it again.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from pyspark.sql import SparkSession

import jvm
import whence
from fuzz import actor_graphs, rdd_local, rdd_programs, sql_making, sql_many, sql_queries

PER_ROUND = 50


def session(home: Path) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in jvm.environment().items():
        os.environ.setdefault(name, value)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("whence-fuzz")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        # Buffers are made for every operator and every task: for a few rows they were most of the work.
        .config("spark.buffer.pageSize", "64k")
        .config("spark.broadcast.blockSize", "16k")
        .config("spark.broadcast.compress", "false")
        .config("spark.broadcast.checksum", "false")
        .config("spark.shuffle.compress", "false")
        .config("spark.shuffle.spill.compress", "false")
        .config("spark.shuffle.sort.initialBufferSize", "64")
        .config("spark.ui.retainedJobs", "10")
        .config("spark.ui.retainedStages", "10")
        .config("spark.ui.retainedTasks", "10")
        .config("spark.sql.ui.retainedExecutions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home}")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def one_round(w: whence.Session, home: Path, number: int, count: int, tally: sql_queries.Tally) -> None:
    """`count` queries that this number makes; raises what the smallest wrong one raises."""

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(sql_making.cases())
    def run(case: sql_making.Case) -> None:
        sql_queries.check(w, case, home, tally)

    run()


def queries(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="make fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0, help="the seed of the first round")
    parser.add_argument("--rounds", type=int, default=10, help=f"how many rounds, of {PER_ROUND} queries each")
    options = parser.parse_args(arguments)
    tally = sql_queries.Tally()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        spark = session(home)
        sql_queries.prepared(spark)
        for number in range(options.first, options.first + options.rounds):
            with whence.attach(spark, store=home / f"store{number}") as w, sql_queries.quick(spark):
                try:
                    one_round(w, home, number, PER_ROUND, tally)
                except BaseException:
                    print(f"round {number}: make fuzz ARGS='--first {number} --rounds 1'", flush=True)
                    raise
            print(f"round {number}: {tally}, {time.monotonic() - began:.0f} s", flush=True)
        spark.stop()


def main() -> None:
    kind, *rest = sys.argv[1:] or [""]
    others: dict[str, Callable[[], None]] = {
        "many": lambda: sql_many.main(session),
        "rdd": rdd_programs.main,
        "rdd-local": rdd_local.main,
        "actors": actor_graphs.main,
    }
    if kind in others:
        sys.argv = ["make fuzz", *rest]
        others[kind]()
    else:
        queries(sys.argv[1:])


if __name__ == "__main__":
    main()
