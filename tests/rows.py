"""Tables of a few rows for many queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import SparkSession

Value = bool | int | float | str | None


def view(spark: SparkSession, name: str, rows: Iterable[Sequence[Value]], schema: str) -> None:
    """A view of rows that stand in its plan; those of `createDataFrame` come from a Python worker at every reading."""
    columns = [column.split() for column in schema.split(",")]
    casts = ", ".join(f"CAST({column} AS {kind}) AS {column}" for column, kind in columns)
    values = ", ".join("(" + ", ".join(map(_literal, row)) + ")" for row in rows)
    names = ", ".join(column for column, _ in columns)
    spark.sql(f"SELECT {casts} FROM VALUES {values} AS {name}({names})").createOrReplaceTempView(name)


def _literal(value: Value) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        assert not set("'\\") & set(value), "such a text needs createDataFrame"
        return f"'{value}'"
    return f"{value!r}D" if isinstance(value, float) else repr(value)
