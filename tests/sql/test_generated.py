"""A handful of seeds of `make fuzz`; every case that was found wrong once stands in the tests of its room."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from fuzz import sql_making, sql_many

SETS = (4, 23)  # one as Spark runs by itself, one without shuffles
WAYS = 1  # of each query, in turn


def test_generated_queries(spark: SparkSession, tmp_path: Path) -> None:
    asked = {way for number in SETS for case in sql_many.cases(number, WAYS) for way in case.ways}
    assert asked == set(sql_making.WAYS)
    run = sql_many.Run(spark, tmp_path, WAYS, iter(SETS))
    run.work()
    assert not run.wrong
    count = sql_many.QUERIES * len(SETS)
    assert run.tally.exact + run.tally.widened + run.tally.refused == count
    assert run.tally.exact >= count // 2
