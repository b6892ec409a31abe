"""`make fuzz`: generated programs on a front end, against its oracle, until a number of them is done or one is wrong.

A run is cut into rounds; a round's seed makes its cases again: `make fuzz ARGS="--first 17 --rounds 1"`. A wrong answer
is shrunk by hypothesis to the smallest case that shows it, and printed with the seed of its round.
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

import whence
from fuzz import sql_queries

PER_ROUND = 50


def session(home: Path) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("whence-fuzz")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home} -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rounds_of_sql(spark: SparkSession, home: Path, tally: sql_queries.Tally) -> Callable[[int, int], None]:
    sql_queries.prepared(spark)

    def one(number: int, count: int) -> None:
        with whence.attach(spark, store=home / f"store{number}") as w:

            @seed(number)
            @settings(
                max_examples=count,
                deadline=None,
                database=None,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            )
            @given(sql_queries.cases())
            def run(case: sql_queries.Case) -> None:
                sql_queries.check(w, case, home, tally)

            run()

    return one


def main() -> None:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first round")
    parser.add_argument("--rounds", type=int, default=10, help=f"how many rounds, of {PER_ROUND} queries each")
    options = parser.parse_args()
    tally = sql_queries.Tally()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        spark = session(home)
        one = rounds_of_sql(spark, home, tally)
        for number in range(options.first, options.first + options.rounds):
            try:
                one(number, PER_ROUND)
            except BaseException:
                print(f"round {number}: make fuzz ARGS='--first {number} --rounds 1'", flush=True)
                raise
            done = tally.exact + tally.widened + tally.refused
            spent = time.monotonic() - began
            print(f"round {number}: {done} queries, none wrong ({tally}), {spent:.0f} s", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
