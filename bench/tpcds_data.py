"""TPC-DS: `register(spark, sf)` makes its 24 tables temporary views, `queries()` gives the 99 queries.

DuckDB's texts are used; `CHANGES` lists what had to be changed in them for Spark, and a Query says which it took.
NULLs sort first in Spark and last in DuckDB: a LIMIT may keep other rows there, which matters to no measurement here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench import duckdata
from bench.duckdata import Change, Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGES = (
    Change(
        pattern=r'"([^"\n]+)"',
        to=r"`\1`",
        why="names in double quotes became names in backticks: Spark reads double quotes as a string",
    ),
)


def data(sf: float = 1) -> Path:
    return duckdata.generate("tpcds", "dsdgen", sf)


def register(spark: SparkSession, sf: float = 1) -> tuple[str, ...]:
    return duckdata.register(spark, data(sf))


def queries() -> dict[str, Query]:
    return duckdata.queries("tpcds", CHANGES)
