from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import whence

ROWS = [(0, 1, 10.0), (1, 1, 40.0), (2, 1, None), (3, 1, 40.0), (4, 2, 7.0), (5, 1, 2.0)]


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[whence.Session]:
    spark.createDataFrame(ROWS, "rid int, k int, v double").createOrReplaceTempView("inf_t")
    with whence.attach(spark, store=tmp_path_factory.mktemp("store")) as w:
        yield w


def value_without(function: str, left_out: int | None) -> float:
    values = [v for rid, k, v in ROWS if k == 1 and rid != left_out and v is not None]
    numbers = {"sum": sum, "count": len, "avg": lambda x: sum(x) / len(x), "min": min, "max": max}
    return float(numbers[function](values))  # type: ignore[operator]


@pytest.mark.parametrize("function", ["sum", "count", "avg", "min", "max"])
def test_closed_form_is_what_leaving_out_gives(session: whence.Session, function: str) -> None:
    report = session.spark.sql(f"select k, {function}(v) x from inf_t group by k")
    found = session.backward(report.where("k = 1")).influence("x").collect()
    expected = [value_without(function, None) - value_without(function, rid) for rid, k, _ in ROWS if k == 1]
    assert sorted(round(row.influence, 9) for row in found) == sorted(round(x, 9) for x in expected)
    assert [abs(row.influence) for row in found] == sorted((abs(r.influence) for r in found), reverse=True)


def test_other_functions_are_run_again_without_each_row(session: whence.Session) -> None:
    report = session.spark.sql("select k, percentile(v, 0.5) x from inf_t group by k")
    found = session.backward(report.where("k = 1")).influence("x").collect()
    # the median of 2, 10, 40, 40 is 25
    assert sorted(row.influence for row in found) == [-15.0, -15.0, 0.0, 15.0, 15.0]


def test_unknown_column_gets_a_sentence(session: whence.Session) -> None:
    report = session.spark.sql("select k, sum(v) x from inf_t group by k")
    with pytest.raises(whence.WhenceError, match="no column 'y'; its columns are k, x"):
        session.backward(report).influence("y")


def test_explain_tells_the_witnesses_from_the_other_rows(session: whence.Session) -> None:
    report = session.spark.sql("select k, sum(v) x from inf_t group by k")
    explanation = session.backward(report.where("k = 2")).explain()
    assert any("k" in cause.sql or "rid" in cause.sql or "v" in cause.sql for cause in explanation.causes)
    assert explanation.covered == 1
