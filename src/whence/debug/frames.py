"""Records of any flow as a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whence.model.flow import Framed, Records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, records: Records) -> DataFrame:
    """Spark's own rows where there are such; else the values that are known on the driver, or the identities."""
    if isinstance(records, Framed):
        found: DataFrame = records.frame()
        return found
    columns = list(records.columns)
    rows: list[Any] = [tuple(value) for value in records.values()]
    if not rows and records.count():
        rows = records.ids()
        columns = [f"id{i}" for i in range(len(rows[0]))] if rows else columns
    columns = columns or ["value"]
    if not rows:
        return spark.createDataFrame([], ", ".join(f"`{name}` string" for name in columns))
    try:
        return spark.createDataFrame(rows, columns)
    except Exception:  # values of no type that Spark has: shown as they print
        return spark.createDataFrame([tuple(map(repr, row)) for row in rows], columns)
