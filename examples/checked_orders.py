"""From the rows that a pandera schema rejects to the rows they came from.

pandera says which rule a DataFrame breaks, not which rows break it. The rule as a condition finds these, and whence
goes on from there. Needs `pip install "pandera[pyspark]"`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pandera.pyspark as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

import whence

# pandera's names of checks, and what a row has to satisfy for each.
CONDITIONS = {
    "not_nullable": "`{column}` IS NOT NULL",
    "greater_than_or_equal_to": "`{column}` >= {min_value!r}",
    "less_than_or_equal_to": "`{column}` <= {max_value!r}",
}


class Totals(pa.DataFrameModel):
    city: T.StringType = pa.Field(nullable=False)
    total: T.LongType = pa.Field(ge=0)


def condition(column: str, check: str, values: Mapping[str, Any]) -> str:
    if check not in CONDITIONS:
        raise LookupError(f"The check {check} of {column} has no condition yet: add one to CONDITIONS.")
    return CONDITIONS[check].format(column=column, **values)


def rejected(report: DataFrame) -> dict[str, DataFrame]:
    """The rows that break each rule of the schema."""
    errors = Totals.validate(report).pandera.errors
    columns = Totals.to_schema().columns
    found = {}
    for error in (error for scope in errors.values() for kind in scope.values() for error in kind):
        column, check = error["column"], error["check"].partition("(")[0]
        values = next((c.statistics for c in columns[column].checks if c.name == check), {})
        found[f"{column}: {error['check']}"] = report.where(f"NOT ({condition(column, check, values)})")
    return found


def totals(orders: DataFrame, customers: DataFrame) -> DataFrame:
    joined = orders.join(customers, "customer", "left")
    return joined.groupBy("city").sum("amount").withColumnRenamed("sum(amount)", "total")


def read(spark: SparkSession, folder: str) -> tuple[DataFrame, DataFrame]:
    orders = spark.read.csv(f"{folder}/orders.csv", "id int, customer string, amount int", header=True)
    customers = spark.read.csv(f"{folder}/customers.csv", "customer string, city string", header=True)
    return orders, customers


def main(folder: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    report = totals(*read(spark, folder))
    with whence.attach(spark) as w:
        for rule, rows in rejected(report).items():
            print(f"{rule}\n{w.backward(rows)}\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "examples/dbt/data")
