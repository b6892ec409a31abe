"""Groups that the user's own query has computed are taken from there by questions about it, and never for others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

import whence
from whence.model import SourceChanged

SALES = [(1, "a", 5), (2, "a", 7), (3, "b", 1), (4, "c", 9), (5, "c", -2), (6, None, 4), (7, None, 4)]


@pytest.fixture(scope="module")
def adaptive(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark tells which shuffles are done where it re-plans, which is so by default."""
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    yield spark
    spark.conf.unset("spark.sql.adaptive.enabled")


@pytest.fixture
def path(adaptive: SparkSession, tmp_path: Path) -> str:
    place = str(tmp_path / "sales")
    adaptive.createDataFrame(SALES, "id int, shop string, amount int").repartition(2, "id").write.parquet(place)
    adaptive.read.parquet(place).createOrReplaceTempView("sales")
    return place


def grouping(w: whence.Session, df: DataFrame) -> JavaObject:
    """The topmost grouping of a query."""
    plan = w._plans().plan_of(df)
    while plan.getClass().getSimpleName() != "Aggregate":
        plan = plan.children().apply(0)
    return plan


def is_taken(w: whence.Session, df: DataFrame) -> bool:
    return w._plans().is_computed(grouping(w, df))


def ids(trace: whence.Trace) -> set[int]:
    return {row.id for row in trace["sales"].collect()}


TOTALS = "SELECT shop, sum(amount) AS total FROM sales GROUP BY shop"


def test_a_report_that_was_looked_at_is_asked_about_from_what_it_computed(
    w: whence.Session, adaptive: SparkSession, path: str
) -> None:
    report = adaptive.sql(f"{TOTALS} ORDER BY total DESC LIMIT 2")
    assert not is_taken(w, report)
    seen = report.collect()
    assert is_taken(w, report)
    found = {row.shop: ids(w.backward(report.where(f"shop <=> {row.shop!r}"))) for row in seen if row.shop}
    assert found == {"a": {1, 2}}
    trace = w.backward(report.where("shop IS NULL"))
    assert ids(trace) == {6, 7}
    assert trace.exact
    assert trace.verify().ok


def test_what_is_derived_from_a_report_is_of_it(w: whence.Session, adaptive: SparkSession, path: str) -> None:
    report = adaptive.sql(TOTALS)
    report.toPandas()
    assert is_taken(w, report.where("total > 5").orderBy("total"))
    assert ids(w.backward(report.where("total > 7"))) == {1, 2, 6, 7}
    # What a query counts says nothing of the sums, which Spark leaves out then.
    other = adaptive.sql("SELECT shop, max(amount) AS most FROM sales GROUP BY shop")
    other.count()
    assert not is_taken(w, other)


def test_a_new_query_that_says_the_same_is_computed_anew(w: whence.Session, adaptive: SparkSession, path: str) -> None:
    seen = adaptive.sql(TOTALS)
    seen.collect()
    assert is_taken(w, seen)
    assert not is_taken(w, adaptive.sql(TOTALS))


def test_groups_of_groups(w: whence.Session, adaptive: SparkSession, path: str) -> None:
    shops = adaptive.sql(
        "SELECT n, count(*) AS shops FROM (SELECT shop, count(id) AS n FROM sales GROUP BY shop) GROUP BY n"
    )
    assert {tuple(row) for row in shops.collect()} == {(2, 3), (1, 1)}
    # Of the inner groups Spark has left out the shop, which only their shuffle has.
    inner = grouping(w, shops).children().apply(0)
    while inner.getClass().getSimpleName() != "Aggregate":
        inner = inner.children().apply(0)
    assert w._plans().is_computed(inner)
    assert ids(w.backward(shops.where("n = 1"))) == {3}
    trace = w.backward(shops.where("shops = 3"))
    assert ids(trace) == {1, 2, 4, 5, 6, 7}
    assert trace.verify().ok


def test_keys_that_are_expressions_and_are_not_shown(w: whence.Session, adaptive: SparkSession, path: str) -> None:
    report = adaptive.sql("SELECT sum(amount) AS total FROM sales GROUP BY upper(shop), id % 2 ORDER BY total LIMIT 3")
    assert [row.total for row in report.collect()] == [-2, 1, 4]
    assert is_taken(w, report)
    assert ids(w.backward(report.where("total < 0"))) == {5}
    every = w.backward(report)
    assert ids(every) == {5, 3, 6, 7}  # two groups tie at the cut, and the trace says so
    assert not every.exact


def test_other_rows_grouped_by_the_same_column_are_other_groups(
    w: whence.Session, adaptive: SparkSession, path: str
) -> None:
    asked = adaptive.sql("SELECT shop FROM sales GROUP BY shop")
    adaptive.sql("SELECT shop FROM sales WHERE amount > 4 GROUP BY shop").collect()
    assert not is_taken(w, asked)
    assert ids(w.backward(asked.where("shop = 'b'"))) == {3}


def test_a_source_that_was_written_meanwhile(w: whence.Session, adaptive: SparkSession, path: str) -> None:
    """A view keeps the ids of its columns: to Spark a query over it is the same before and after."""
    before = adaptive.sql("SELECT shop FROM sales GROUP BY shop")
    before.collect()
    assert is_taken(w, before)
    new = adaptive.createDataFrame([(8, "d", 1), (9, "b", 1)], "id int, shop string, amount int")
    new.write.mode("append").parquet(path)
    adaptive.catalog.refreshTable("sales")  # the same listing, with more in it
    after = adaptive.sql("SELECT shop FROM sales GROUP BY shop")
    assert not is_taken(w, after)
    assert ids(w.backward(after.where("shop = 'b'"))) == {3, 9}
    with pytest.raises(SourceChanged):
        ids(w.backward(before))


def test_what_is_said_of_the_present_moment_is_not_taken(w: whence.Session, adaptive: SparkSession, path: str) -> None:
    report = adaptive.sql("SELECT shop, max(current_timestamp()) AS t, sum(amount) AS total FROM sales GROUP BY shop")
    report.collect()
    assert ids(w.backward(report.where("total = 1"))) == {3}


def test_without_adaptive_execution_and_without_a_session_nothing_is_taken(
    w: whence.Session, adaptive: SparkSession, path: str
) -> None:
    report = adaptive.sql(f"{TOTALS} ORDER BY total LIMIT 1")
    adaptive.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        assert report.collect() == [("b", 1)]
    finally:
        adaptive.conf.set("spark.sql.adaptive.enabled", "true")
    assert not is_taken(w, report)
    assert ids(w.backward(report)) == {3}
    assert w._executed is not None
    w._executed.close()
    later = adaptive.sql(TOTALS)
    later.collect()
    assert not is_taken(w, later)


def test_joins_and_havings_above_what_was_computed(w: whence.Session, adaptive: SparkSession, path: str) -> None:
    adaptive.createDataFrame([("a", "Bonn"), ("b", "Kiel"), ("c", "Bonn")], "shop string, city string").write.parquet(
        f"{path}_shops"
    )
    adaptive.read.parquet(f"{path}_shops").createOrReplaceTempView("shops")
    report = adaptive.sql(
        "SELECT city, sum(total) AS total FROM "
        "(SELECT s.shop, city, sum(amount) AS total FROM sales s JOIN shops USING (shop) GROUP BY s.shop, city "
        "HAVING sum(amount) > 1) GROUP BY city ORDER BY total DESC LIMIT 1"
    )
    assert report.collect() == [("Bonn", 19)]
    trace = w.backward(report)
    assert ids(trace) == {1, 2, 4, 5}
    assert {row.shop for row in trace["shops"].collect()} == {"a", "c"}
    assert trace.exact
    assert trace.verify().ok
    (touched,) = w.forward(adaptive.table("sales").where("id = 5"), to=report).rows.collect()
    assert touched == ("Bonn", 19)
