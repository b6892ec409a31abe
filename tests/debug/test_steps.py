"""A replay that goes step by step shows each operator's input and output, on the witnesses alone."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import whence

pytestmark = pytest.mark.usefixtures("tiny")


def test_each_operator_shows_its_input_and_output(w: whence.Session, spark: SparkSession) -> None:
    spark.createDataFrame(
        [(n, n % 3, n * 10) for n in range(9)], "id long, shop long, amount long"
    ).createOrReplaceTempView("sales_steps")
    report = spark.sql("SELECT shop, sum(amount) AS total FROM sales_steps WHERE id > 0 GROUP BY shop")
    trace = w.backward(report.where("shop = 1"))
    steps = list(trace.replay(steps=True))
    first, last = (step for step in steps if step.operator == "Filter")
    assert sorted(row.id for row in first.inputs[0].collect()) == [1, 4, 7]
    aggregate = next(step for step in steps if step.operator == "Aggregate")
    assert sorted(row.id for row in aggregate.inputs[0].collect()) == [1, 4, 7]
    assert [tuple(row) for row in aggregate.output.collect()] == [(1, 120)]
    assert last is steps[-1]
    assert [tuple(row) for row in last.output.collect()] == [(1, 120)]


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ("SELECT shop, sum(amount) AS total FROM sales_counts GROUP BY shop", "shop = 1"),
        ("SELECT shop, sum(amount) AS total FROM sales_counts GROUP BY shop", "shop = 99"),
        ("SELECT shop, sum(amount) AS total FROM sales_counts GROUP BY shop", "shop <=> NULL"),
        ("SELECT shop, id % 2 AS odd, count(*) AS n FROM sales_counts GROUP BY shop, id % 2", "shop = 1"),
        ("SELECT shop, id % 2 AS odd, count(*) AS n FROM sales_counts GROUP BY shop, id % 2", "odd = 1 AND 2 = shop"),
        ("SELECT count(*) AS n FROM sales_counts WHERE id > 100", "true"),
        ("SELECT max(n) AS most FROM (SELECT shop, count(*) AS n FROM sales_counts GROUP BY shop)", "true"),
        ("SELECT a.shop, b.id FROM sales_counts a JOIN sales_counts b ON a.shop = b.shop", "b.id = 4"),
    ],
)
def test_rows_are_counted_as_they_are_shown(w: whence.Session, spark: SparkSession, query: str, condition: str) -> None:
    rows = [(n, n % 3 or None, n * 10) for n in range(9)]
    spark.createDataFrame(rows, "id long, shop long, amount long").createOrReplaceTempView("sales_counts")
    trace = w.backward(spark.sql(query).where(condition))
    counted = trace.step_counts()  # before anything is computed for another reason
    assert counted == tuple(trace.at(step).count() for step in trace.steps)
