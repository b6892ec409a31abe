"""A replay that goes step by step shows each operator's input and output, on the witnesses alone."""

from __future__ import annotations

from pyspark.sql import SparkSession

import whence


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
