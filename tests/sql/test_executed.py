"""Groups that the user's own query has computed are taken from there by questions about it, and never for others."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

import whence
from whence.model import SourceChanged
from whence.sql import SqlLineage

SALES = [(1, "a", 5), (2, "a", 7), (3, "b", 1), (4, "c", 9), (5, "c", -2), (6, None, 4), (7, None, 4)]


@pytest.fixture(scope="module")
def adaptive(interpreted: SparkSession) -> Iterator[SparkSession]:
    """Spark tells which shuffles are done where it re-plans, which is so by default."""
    spark = interpreted
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    yield spark
    spark.conf.unset("spark.sql.adaptive.enabled")


@pytest.fixture
def compiled(adaptive: SparkSession) -> Iterator[None]:
    """As users' queries are, whose stages are under one node each, then."""
    adaptive.conf.set("spark.sql.codegen.wholeStage", "true")
    yield
    adaptive.conf.set("spark.sql.codegen.wholeStage", "false")


@pytest.fixture(scope="module")
def written(adaptive: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("written")
    sales = adaptive.createDataFrame(SALES, "id int, shop string, amount int").repartition(2, "id")
    sales.write.parquet(str(home / "sales"))
    return home / "sales"


@pytest.fixture
def path(adaptive: SparkSession, written: Path, tmp_path: Path) -> str:
    """Files of its own for each test: some change them."""
    place = str(tmp_path / "sales")
    shutil.copytree(written, place)
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


def is_known(w: whence.Session, df: DataFrame) -> bool:
    """The same of the query as a question has it, without subqueries."""
    nodes = SqlLineage(w._plans(), df).tree.walk()
    return w._plans().is_computed(next(node.plan for node in nodes if node.kind == "Aggregate"))


def taken_rows(w: whence.Session, df: DataFrame) -> set[tuple[object, ...]]:
    c = w._plans()
    return {tuple(row) for row in c.frame(c.taken(grouping(w, df))).collect()}


def ids(trace: whence.Trace) -> set[int]:
    return {row.id for row in trace["sales"].collect()}


TOTALS = "SELECT shop, sum(amount) AS total FROM sales GROUP BY shop"


@pytest.mark.usefixtures("compiled")
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


def test_why_a_report_that_was_looked_at_lacks_a_row_is_told_from_what_it_computed(
    w: whence.Session, adaptive: SparkSession, path: str
) -> None:
    def told() -> tuple[str | None, str]:
        row = adaptive.table("sales").where("id = 3")
        (fate,) = w.why_not(row, to=adaptive.sql(f"{TOTALS} HAVING sum(amount) > 3"))
        return fate.operator, fate.reason

    unseen, fate = jobs_for(adaptive, told), told()
    adaptive.sql(TOTALS).collect()
    assert jobs_for(adaptive, told) < unseen  # the source is read for the row alone
    assert told() == fate == ("Filter", "(total > CAST(3 AS BIGINT)) is not true")


def jobs_for(spark: SparkSession, ask: Callable[[], object]) -> int:
    dag = spark.sparkContext._jsc.sc().dagScheduler()
    before = int(dag.numTotalJobs())
    ask()
    return int(dag.numTotalJobs()) - before


def test_what_is_derived_from_a_report_is_of_it(w: whence.Session, adaptive: SparkSession, path: str) -> None:
    report = adaptive.sql(TOTALS)
    report.toPandas()
    assert is_taken(w, report.where("total > 5").orderBy("total"))
    assert ids(w.backward(report.where("total > 7"))) == {1, 2, 6, 7}
    # What a query counts says nothing of the sums, which Spark leaves out then.
    other = adaptive.sql("SELECT shop, max(amount) AS most FROM sales GROUP BY shop")
    other.count()
    assert not is_taken(w, other)


SEVERAL = (
    "SELECT shop, sum(amount) AS total, avg(amount) / 2 AS half, count(DISTINCT id % 2) AS kinds "
    "FROM sales GROUP BY shop"
)


def _show(report: DataFrame, place: str) -> None:
    report.show()


def _show_sorted(report: DataFrame, place: str) -> None:
    report.orderBy("half").show(2, truncate=False)


def _write(report: DataFrame, place: str) -> None:
    report.write.parquet(place)


def _write_as_partitions(report: DataFrame, place: str) -> None:
    report.selectExpr("concat('shop ', shop) AS name", "total", "half", "kinds").write.partitionBy("kinds").json(place)


def _save(report: DataFrame, place: str) -> None:
    report.write.mode("overwrite").saveAsTable("looked_at")


def _create(report: DataFrame, place: str) -> None:
    report.createOrReplaceTempView("report")
    report.sparkSession.sql("DROP TABLE IF EXISTS looked_at")
    report.sparkSession.sql("CREATE TABLE looked_at USING parquet AS SELECT * FROM report")


OF_TOTALS = {12: {1, 2}, 1: {3}, 7: {4, 5}, 8: {6, 7}}


def test_a_report_that_nobody_looked_at(w: whence.Session, adaptive: SparkSession, path: str) -> None:
    unseen = adaptive.sql(SEVERAL)
    assert not is_taken(w, unseen)
    for total, rows in OF_TOTALS.items():
        assert ids(w.backward(unseen.where(f"total = {total}"))) == rows


@pytest.mark.parametrize("look", [_show, _show_sorted, _write, _write_as_partitions, _save, _create])
def test_however_a_report_was_looked_at(
    w: whence.Session, adaptive: SparkSession, path: str, tmp_path: Path, look: Callable[[DataFrame, str], None]
) -> None:
    """show() computes texts, and nobody holds the query that it ran, nor one that wrote."""
    report = adaptive.sql(SEVERAL)
    assert not is_taken(w, report)
    look(report, str(tmp_path / "looked at"))
    assert is_taken(w, report)
    assert taken_rows(w, report) == {("a", 12, 3.0, 2), ("b", 1, 0.5, 1), ("c", 7, 1.75, 2), (None, 8, 2.0, 2)}
    for total, rows in OF_TOTALS.items():
        trace = w.backward(report.where(f"total = {total}"))
        assert ids(trace) == rows
        assert trace.exact
    trace = w.backward(report.orderBy("half").limit(2))
    assert ids(trace) == {3, 4, 5}
    assert trace.verify().ok
    adaptive.sql("DROP TABLE IF EXISTS looked_at")
    adaptive.catalog.dropTempView("report")


def test_a_report_with_subqueries(w: whence.Session, adaptive: SparkSession, path: str) -> None:
    """A question has IN and EXISTS as joins before Spark's optimizer sees them, and it tells another plan of them."""
    text = (
        "WITH large AS (SELECT shop FROM sales GROUP BY shop HAVING sum(amount) > {}) "
        "SELECT shop, sum(amount) AS total FROM sales s WHERE shop IN (SELECT shop FROM large) "
        "AND EXISTS (SELECT * FROM sales o WHERE o.id = s.id + 1) GROUP BY shop ORDER BY total LIMIT 1"
    )
    report = adaptive.sql(text.format(5))
    assert not is_known(w, report)
    report.show()
    trace = w.backward(report)
    assert ids(trace) == {4, 5, 6}
    assert trace.exact
    assert trace.verify().ok
    assert is_known(w, report)
    assert not is_known(w, adaptive.sql(text.format(10)))
    some = adaptive.sql("SELECT max(amount) AS most FROM sales WHERE amount < (SELECT max(amount) FROM sales)")
    some.show()
    assert ids(w.backward(some)) == {1, 2, 3, 4, 5, 6, 7}
    assert not is_known(w, some)


def test_a_new_query_that_says_the_same_is_of_the_same_groups(
    w: whence.Session, adaptive: SparkSession, path: str
) -> None:
    adaptive.sql(TOTALS).collect()
    same = adaptive.sql("SELECT sum(amount) + 1 AS more, shop AS name FROM sales GROUP BY shop HAVING sum(amount) > 0")
    assert is_taken(w, same)
    assert ids(w.backward(same.where("more = 8"))) == {4, 5}
    adaptive.read.parquet(path).createOrReplaceTempView("sales")  # the same files, listed anew
    assert is_taken(w, adaptive.sql(TOTALS))
    assert not is_taken(w, adaptive.sql("SELECT shop, sum(amount) AS total FROM sales WHERE id > 1 GROUP BY shop"))
    assert not is_taken(w, adaptive.sql("SELECT shop, min(amount) AS total FROM sales GROUP BY shop"))
    assert not is_taken(w, adaptive.sql("SELECT id AS shop, sum(amount) AS total FROM sales GROUP BY id"))


def test_another_query_calls_the_users_functions_anew(
    w: whence.Session, adaptive: SparkSession, path: str, tmp_path: Path
) -> None:
    """They may know something else by now; the report itself was computed with what they said then."""
    told = tmp_path / "added"
    told.write_text("0")
    place = str(told)
    adaptive.udf.register("added", lambda n: n + int(Path(place).read_text()), "int")
    says = "SELECT shop, sum(added(amount)) AS total FROM sales GROUP BY shop"
    report = adaptive.sql(says)
    report.show()
    assert is_taken(w, report)
    told.write_text("100")
    assert not is_taken(w, adaptive.sql(says))
    by_function = "SELECT added(amount) AS amount FROM sales GROUP BY 1"
    adaptive.sql(by_function).show()
    assert not is_taken(w, adaptive.sql(by_function))
    assert ids(w.backward(adaptive.sql(says).where("total = 212"))) == {1, 2}


def test_under_other_settings_it_is_computed_anew(w: whence.Session, adaptive: SparkSession, path: str) -> None:
    report = adaptive.sql(TOTALS)
    report.show()
    assert is_taken(w, report)
    adaptive.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        assert not is_taken(w, report)
    finally:
        adaptive.conf.unset("spark.sql.session.timeZone")
    assert is_taken(w, report)


def test_groups_that_share_their_columns_ids_are_not_taken_for_each_other(
    w: whence.Session, adaptive: SparkSession, path: str
) -> None:
    """Spark's optimizer moves the filters below the groupings, which keep their ids: two groupings that look alike."""
    report = adaptive.sql(TOTALS)
    both = report.where("shop = 'a'").union(report.where("shop = 'c'"))
    assert {tuple(row) for row in both.collect()} == {("a", 12), ("c", 7)}
    assert not is_taken(w, report)
    some = adaptive.sql("SELECT shop, sum(amount) AS total FROM sales WHERE shop = 'c' GROUP BY shop")
    assert not is_taken(w, some) or taken_rows(w, some) == {("c", 7)}
    assert ids(w.backward(both.where("total < 10"))) == {4, 5}
    assert ids(w.backward(some.where("total < 10"))) == {4, 5}


@pytest.mark.usefixtures("compiled")
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
