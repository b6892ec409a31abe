"""TPC-H: `register(spark, sf)` makes its eight tables temporary views, `queries()` gives the 22 queries.

Spark takes DuckDB's texts as they are, but for the semicolon at the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench import duckdata
from bench.duckdata import Query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def data(sf: float = 1) -> Path:
    return duckdata.generate("tpch", "dbgen", sf)


def register(spark: SparkSession, sf: float = 1) -> tuple[str, ...]:
    return duckdata.register(spark, data(sf))


def queries() -> dict[str, Query]:
    return duckdata.queries("tpch")
