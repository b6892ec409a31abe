"""Statements and writers: which query they write, and where."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from whence.spark.catalyst import Catalyst, to_list


def statement_query(c: Catalyst, text: str) -> JavaObject | None:
    """The query of a statement that writes, as it was analysed to be written; None where the statement has none."""
    return _written(c, parsed(c.spark._jsparkSession, text))


def insert_query(c: Catalyst, table: str, frame: DataFrame, by_name: bool) -> JavaObject | None:
    """What is written when these rows are inserted into a table; None where it takes them as they are."""
    named = " BY NAME" if by_name else ""
    try:
        statement = parsed(c.spark._jsparkSession, f"INSERT INTO {table}{named} SELECT 1")
        return _written(c, c.copy(statement, query=frame._jdf.queryExecution().analyzed()))
    except PySparkException:  # there is no such table, or none that can be inserted into so
        return None


def table_of(writer: Any) -> str:
    """The table that df.writeTo was given."""
    parts = _field(writer._jwriter, "tableName")
    return ".".join(f"`{part}`" for part in to_list(parts))


def appends(writer: Any) -> bool:
    return str(_field(writer._jwrite, "curmode", "mode").toString()) == "Append"  # the second name is that of 3.5


def _field(of: JavaObject, *names: str) -> JavaObject:
    """The field that has one of these names."""
    kind = of.getClass()
    while kind is not None:
        field = next((f for f in kind.getDeclaredFields() if f.getName() in names), None)
        if field is not None:
            field.setAccessible(True)
            return field.get(of)
        kind = kind.getSuperclass()
    raise AttributeError(f"{of.getClass().getName()} has no field {' or '.join(names)}")


def _written(c: Catalyst, statement: JavaObject) -> JavaObject | None:
    command = analysed_command(c, statement)
    return c.fields(command).get("query")


def analysed_command(c: Catalyst, statement: JavaObject) -> JavaObject:
    jvm: Any = c.spark._jvm
    skip = getattr(jvm, "org.apache.spark.sql.execution.CommandExecutionMode").SKIP()
    return c.spark._jsparkSession.sessionState().executePlan(statement, skip).analyzed()


def parsed(session: JavaObject, text: str) -> JavaObject:
    return session.sessionState().sqlParser().parsePlan(text)
