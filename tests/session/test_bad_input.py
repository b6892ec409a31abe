"""Bad input gets a sentence, and the user's own work goes on."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import whence


@pytest.mark.parametrize("thing", [None, [1, 2], 7])
def test_what_is_no_dataframe(w: whence.Session, thing: object) -> None:
    with pytest.raises(whence.ForeignDataFrame, match="DataFrame"):
        w.backward(thing)  # type: ignore[arg-type]


def test_rows_that_left_spark_say_what_to_ask_instead(w: whence.Session, spark: SparkSession) -> None:
    frame = spark.sql("SELECT 'O\\'Hara' AS name, 3 AS n, NULL AS nothing")
    with pytest.raises(whence.ForeignDataFrame, match=r"This is a Row.*report\.where\(") as said:
        w.backward(frame.first())  # type: ignore[arg-type]
    condition = eval(str(said.value).partition("where(")[2].rpartition("))")[0])
    assert frame.where(condition).count() == 1
    with pytest.raises(whence.ForeignDataFrame, match=r"pandas DataFrame.*toPandas"):
        w.backward(frame.toPandas())
    with pytest.raises(whence.WhenceError, match=r"of the type string.*length\(name\)"):
        w.backward(frame).influence("name")


def test_what_no_call_takes_is_told_in_a_sentence(w: whence.Session, spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3).selectExpr("id", "id * 2 AS twice")
    t = w.backward(frame)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: w.verify(frame, rows="many"), "rows= says how many rows"),
        (lambda: w.verify(frame, rows=0), "rows= says how many rows"),
        (lambda: w.explain(bad=None, good=frame), "not a DataFrame of the Spark application"),
        (lambda: w.explain(bad=frame, good="range"), "not a DataFrame of the Spark application"),
        (lambda: w.minimize(frame, 5), "fails is a function"),
        (lambda: w.minimize(frame, len, rows=frame), "rows= are the result's rows"),
        (lambda: w.strategy(force=["step"]), "force= is a dict"),
        (lambda: w.capture("parquet").__enter__(), "not 'parquet'"),
        (lambda: w.backward(frame, columns=frame.id), "columns is a list of names"),
        (lambda: w.backward(frame, columns=[1]), "columns is a list of names"),
        (lambda: t.at("filter"), "A step is one of t.steps"),
        (lambda: t.at(None), "A step is one of t.steps"),
        (lambda: t.exclude(at=True), "A step is one of t.steps"),
        (lambda: t.replay("report"), "a DataFrame over the same sources, not 'report'"),
        (lambda: t.exclude(5), "a DataFrame over the same sources, not 5"),
        (lambda: t.first_rows("range", "all"), "a whole number from 0 on"),
        (lambda: t.fixture(None), "not None"),
        (lambda: t.show(height="tall"), "a whole number from 1 on, not 'tall'"),
        (lambda: t.show(height=-3), "a whole number from 1 on, not -3"),
        (lambda: w.show(height=None), "a whole number from 1 on, not None"),
        (lambda: whence.attach(spark, store=5), "A store is a directory"),
    ]
    for call, words in calls:
        with pytest.raises(whence.WhenceError, match=re.escape(words)):
            call()
    assert t.at(np.int64(0)).count() == 3


def test_a_name_that_nobody_knows(w: whence.Session) -> None:
    with pytest.raises(whence.WhenceError, match="no table, view or path 'orders'"):
        w.backward("orders")


def test_a_neighbouring_session_of_the_same_application_may_ask(
    spark: SparkSession, w: whence.Session, orders: Path
) -> None:
    other = spark.newSession()
    other.read.parquet(str(orders)).createOrReplaceTempView("only_there")
    asked = other.sql("SELECT customer, sum(amount) AS total FROM only_there GROUP BY customer HAVING sum(amount) > 85")
    trace = w.backward(asked)
    assert sorted(row["id"] for row in trace["only_there"].collect()) == [1, 3, 5]
    assert trace.verify().ok


def test_an_empty_selection_is_an_empty_trace(spark: SparkSession, w: whence.Session, orders: Path) -> None:
    frame = spark.read.parquet(str(orders))
    totals = frame.groupBy("customer").count()
    trace = w.backward(totals.where("customer = 99"))
    assert trace["orders"].count() == 0
    assert trace["orders"].columns == frame.columns
    assert trace.associations().count() == 0
    assert trace.verify().ok
    assert trace.exclude(totals).count() == 3
    assert "orders" in str(trace)
    assert w.forward(frame.where("id = 99"), to=totals).rows.count() == 0


@pytest.mark.parametrize("change", ["replaced", "gone"])
def test_a_source_that_changed_is_named(
    spark: SparkSession, w: whence.Session, orders: Path, tmp_path: Path, change: str
) -> None:
    copy = tmp_path / "orders"
    shutil.copytree(orders, copy)
    totals = spark.read.parquet(str(copy)).groupBy("customer").count()
    if change == "gone":
        (copy / "part-1.parquet").unlink()
    else:
        shutil.copy(copy / "part-0.parquet", copy / "part-1.parquet")
    with pytest.raises(whence.SourceChanged, match=r"part-1\.parquet") as changed:
        w.backward(totals.where("customer = 1"))["orders"].collect()
    assert changed.value.path.endswith("part-1.parquet")


def test_an_operator_without_a_rule_disturbs_nothing(spark: SparkSession, w: whence.Session, orders: Path) -> None:
    frame = spark.sql(f"SELECT TRANSFORM(id) USING 'cat' AS (line string) FROM parquet.`{orders}`")
    with pytest.raises(whence.UnsupportedOperator, match="ScriptTransformation") as unsupported:
        w.backward(frame)["orders"]
    assert unsupported.value.operator == "ScriptTransformation"
    assert "ScriptTransformation" in unsupported.value.place
    assert sorted(row["line"] for row in frame.collect()) == list("123456")
