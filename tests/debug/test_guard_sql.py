"""Failures of Spark's own SQL: the row, where it stands in its source, and the expression are found; or put aside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

import whence
from releases import since
from whence.debug.guard.culprit import Culprit
from whence.debug.guard.sql import SqlSearch

pytestmark = pytest.mark.usefixtures("tiny")


@pytest.fixture(scope="module")
def orders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    home = tmp_path_factory.mktemp("sql")
    rows = [(n, "5x7" if n == 13 else str(n), n % 5, [n]) for n in range(20)]
    frame = spark.createDataFrame(rows, "id long, amount string, shop long, list array<long>").coalesce(1)
    frame.write.parquet(str(home / "orders"))
    orders = spark.read.parquet(str(home / "orders"))
    orders.createOrReplaceTempView("failing_orders")
    return orders


def guarded(w: whence.Session, action: Callable[[], Any]) -> Culprit:
    with pytest.raises(Exception) as caught, w.guard() as guard:  # noqa: PT011
        action()
    notes = "".join(getattr(caught.value, "__notes__", ()))
    assert guard.culprit is not None, notes
    assert caught.value.culprit is guard.culprit  # type: ignore[attr-defined]
    return guard.culprit


# The query, the ids of the rows that fail, the expression that fails, the name of the error.
QUERIES = {
    "cast": ("SELECT id, CAST(amount AS INT) AS n FROM o", [13], "CAST(amount AS INT)", "CAST_INVALID_INPUT"),
    "division": ("SELECT id, 10 / (id - 4) AS n FROM o", [4], "(10.0D / CAST((id - 4L) AS DOUBLE))", "DIVIDE_BY_ZERO"),
    "overflow": ("SELECT id, CAST(id + 110 AS TINYINT) AS n FROM o WHERE id < 19", [18], "CAST((id + 110L) AS TINYINT)",
                 "CAST_OVERFLOW"),
    "arithmetic": ("SELECT id, id * 1000000000000000000L AS n FROM o WHERE id < 11", [10],
                   "(id * 1000000000000000000L)", "ARITHMETIC_OVERFLOW"),
    "array index": ("SELECT id, list[CAST(id / 16 AS INT)] AS n FROM o WHERE id < 17", [16], None,
                    "INVALID_ARRAY_INDEX"),
    "element_at": ("SELECT id, element_at(list, IF(id = 7, 5, 1)) AS n FROM o", [7], None,
                   "INVALID_ARRAY_INDEX_IN_ELEMENT_AT"),
    "assert_true": ("SELECT id, assert_true(id < 19) AS n FROM o", [19], None, "USER_RAISED_EXCEPTION"),
    "raise_error": ("SELECT id, IF(id = 4, raise_error('no four'), id) AS n FROM o", [4], None,
                    "USER_RAISED_EXCEPTION"),
    "to_date": ("SELECT id, to_date(IF(id = 3, '2024-13-45', '2024-01-01')) AS n FROM o", [3], None,
                "CAST_INVALID_INPUT"),
    "to_timestamp": ("SELECT id, to_timestamp(IF(id = 3, 'noon', '2024-01-01'), 'yyyy-MM-dd') AS n FROM o", [3], None,
                     "CANNOT_PARSE_TIMESTAMP"),
    "to_number": ("SELECT id, to_number(amount, '99') AS n FROM o", [13], None, "INVALID_FORMAT"),
    "decimal": ("SELECT id, CAST(id * 100 AS DECIMAL(3, 0)) AS n FROM o WHERE id < 11", [10], None,
                "NUMERIC_VALUE_OUT_OF_RANGE"),
    "map key": ("SELECT id, map(id, 1, 5L, 2) AS n FROM o", [5], None, "DUPLICATED_MAP_KEY"),
    "map_from_arrays": ("SELECT id, map_from_arrays(array(id, 5L), array(1, 2)) AS n FROM o", [5], None,
                        "DUPLICATED_MAP_KEY"),
    "map_from_entries": (
        "SELECT id, map_from_entries(array(struct(id AS k, 1 AS v), struct(6L AS k, 2 AS v))) AS n FROM o", [6], None,
        "DUPLICATED_MAP_KEY"),
    "map_concat": ("SELECT id, map_concat(map(id, 1), map(7L, 2)) AS n FROM o", [7], None, "DUPLICATED_MAP_KEY"),
    "from_json": ("""SELECT id, from_json(IF(id = 2, '{', '{"a": 1}'), 'a int', map('mode', 'FAILFAST')) AS n FROM o""",
                  [2], None, "MALFORMED_RECORD_IN_PARSING"),
    "filter": ("SELECT id FROM o WHERE shop >= 0 AND CAST(amount AS INT) > 7", [13], "CAST(amount AS INT)",
               "CAST_INVALID_INPUT"),
    "sort": ("SELECT id FROM o ORDER BY CAST(amount AS INT)", [13], "CAST(amount AS INT)", "CAST_INVALID_INPUT"),
    "argument of an aggregate": ("SELECT shop, sum(CAST(amount AS INT)) AS n FROM o GROUP BY shop", [13],
                                 "CAST(amount AS INT)", "CAST_INVALID_INPUT"),
    "key of a join": ("SELECT a.id FROM o a JOIN o b ON a.id = CAST(b.amount AS INT)", [13], "CAST(amount AS INT)",
                      "CAST_INVALID_INPUT"),
    "window": ("SELECT id, sum(CAST(amount AS INT)) OVER (PARTITION BY shop ORDER BY id) AS n FROM o", [13],
               "CAST(amount AS INT)", "CAST_INVALID_INPUT"),
    "generator": ("SELECT explode(array(CAST(amount AS INT))) AS n FROM o", [13], "CAST(amount AS INT)",
                  "CAST_INVALID_INPUT"),
    "subquery": ("SELECT id, (SELECT max(CAST(amount AS INT)) FROM o) AS n FROM o", [13], "CAST(amount AS INT)",
                 "CAST_INVALID_INPUT"),
    "branch not taken": (
        "SELECT id, CASE WHEN amount LIKE '%x%' THEN 0 ELSE CAST(amount AS INT) END + 10 / (id - 3) AS n FROM o", [3],
        "(10.0D / CAST((id - 3L) AS DOUBLE))", "DIVIDE_BY_ZERO"),
}  # fmt: skip


def over(spark: SparkSession, text: str, view: str) -> DataFrame:
    return spark.sql(text.replace("FROM o", f"FROM {view}").replace("JOIN o", f"JOIN {view}"))


def sorted_rows(rows: list[Any]) -> list[str]:
    return sorted(map(str, rows))


@pytest.mark.parametrize("kind", QUERIES)
def test_the_row_its_place_and_the_expression(w: whence.Session, orders: DataFrame, kind: str) -> None:
    text, ids, expression, condition = QUERIES[kind]
    spark = orders.sparkSession
    query = over(spark, text, "failing_orders")
    culprit = guarded(w, query.collect)
    assert culprit.condition.startswith(condition), culprit
    assert expression is None or culprit.function == expression
    assert f"[{condition}" in culprit.error
    (source,) = culprit.sources
    assert [row.id for row in source.rows] == ids
    (place,) = source.records
    assert place.endswith(f".parquet#{ids[0]}")
    if condition != "CAST_INVALID_INPUT" and kind not in ("branch not taken", "map key", "assert_true"):
        return  # put aside as these are; every query costs

    with w.guard(on_error="quarantine") as guard:
        rows = query.collect()
    (aside,) = guard.records
    assert aside.sources == (f"{source.source}: {place}",)
    assert (aside.function, aside.error) == (culprit.function, culprit.error)
    orders.where(~orders.id.isin(ids)).createOrReplaceTempView("good_orders")
    good = over(spark, text, "good_orders").collect()
    if kind == "subquery":  # of which only the row inside fails
        assert [row.id for row in rows] == list(range(20))
        assert {row.n for row in rows} == {row.n for row in good}
    else:
        assert sorted_rows(rows) == sorted_rows(good)


def test_pairs_of_rows_and_groups(w: whence.Session, orders: DataFrame) -> None:
    spark = orders.sparkSession
    pairs = spark.sql(
        "SELECT a.id, b.id AS other FROM failing_orders a JOIN failing_orders b "
        "ON a.shop = b.shop AND a.id < 5 AND a.id < CAST(b.amount AS INT)"
    )
    with w.guard(on_error="quarantine") as guard:
        rows = pairs.collect()
    assert sorted((r.id, r.other) for r in rows) == [(a, b) for a in range(5) for b in range(a + 5, 20, 5) if b != 13]
    (aside,) = guard.records
    assert sorted(place.rsplit("#", 1)[1] for place in aside.sources) == ["13", "3"]

    large = spark.sql(
        "SELECT shop, sum(IF(shop = 2, 9000000000000000000L, id)) AS total FROM failing_orders GROUP BY 1"
    )
    culprit = guarded(w, large.collect)
    assert culprit.record.shop == 2
    assert culprit.condition == "ARITHMETIC_OVERFLOW"
    assert sorted(row.id for row in culprit.sources[0].rows) == [2, 7, 12, 17]
    with w.guard(on_error="quarantine") as guard:
        assert sorted(row.shop for row in large.collect()) == [0, 1, 3, 4]
    assert len(guard.records) == 1

    ratio = spark.sql("SELECT shop, 1 / (max(id) - 17) AS n FROM failing_orders GROUP BY shop")
    culprit = guarded(w, ratio.collect)
    assert sorted(row.id for row in culprit.sources[0].rows) == [2, 7, 12, 17]


def test_a_scalar_subquery_of_more_than_one_row(w: whence.Session, orders: DataFrame) -> None:
    query = orders.sparkSession.sql(
        "SELECT id, (SELECT id FROM failing_orders WHERE shop = 2) AS n FROM failing_orders"
    )
    culprit = guarded(w, query.collect)
    assert sorted(row.id for row in culprit.record) == [2, 7, 12, 17]
    assert sorted(row.id for row in culprit.sources[0].rows) == [2, 7, 12, 17]


@since("4.0", "correlated scalar subqueries without an aggregate")
def test_a_scalar_subquery_of_more_than_one_row_for_a_row(w: whence.Session, orders: DataFrame) -> None:
    query = orders.sparkSession.sql(
        "SELECT id, (SELECT b.id FROM failing_orders b WHERE b.id IN (a.id, a.id - 3) AND b.id IN (4, 9, 12)) AS n "
        "FROM failing_orders a WHERE id > 8"
    )
    culprit = guarded(w, query.collect)
    assert culprit.condition.startswith("SCALAR_SUBQUERY_TOO_MANY_ROWS")
    assert [row[0] for row in culprit.record] == [12, 12]
    found = sorted(row.id for source in culprit.sources for row in source.rows)
    assert set(found) == {9, 12}


def test_a_sum_over_a_frame_that_overflows(w: whence.Session, orders: DataFrame) -> None:
    query = orders.sparkSession.sql(
        "SELECT id, sum(IF(id > 15, 9000000000000000000L, id)) OVER (PARTITION BY shop ORDER BY id "
        "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM failing_orders WHERE shop = 2 OR id >= 16"
    )
    assert len(query.collect()) == 7
    query = orders.sparkSession.sql(
        "SELECT id, sum(IF(id > 11, 9000000000000000000L, id)) OVER (PARTITION BY shop ORDER BY id "
        "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM failing_orders WHERE shop = 2"
    )
    culprit = guarded(w, query.collect)
    assert culprit.condition == "ARITHMETIC_OVERFLOW"
    assert culprit.record.id == 17
    assert sorted(row.id for row in culprit.sources[0].rows) == [12, 17]
    with w.guard(on_error="quarantine") as guard:
        assert sorted(row.id for row in query.collect()) == [2, 7, 12]
    assert len(guard.records) == 1


@pytest.mark.parametrize(
    ("kind", "text"), [("csv", "1,one\n2,two\nx,three\n4,four\n"), ("json", '{"a": 1}\n{"a": 2}\n{"a"\n{"a": 4}\n')]
)
def test_malformed_lines(w: whence.Session, spark: SparkSession, tmp_path: Path, kind: str, text: str) -> None:
    path = tmp_path / f"lines.{kind}"
    path.write_text(text)
    frame = spark.read.schema("a int, b string").option("mode", "FAILFAST").format(kind).load(str(path))
    culprit = guarded(w, frame.collect)
    assert culprit.condition == "MALFORMED_RECORD_IN_PARSING"
    assert culprit.record._corrupt_record == text.split("\n")[2]
    assert culprit.sources[0].records == (f"{path}:3",)
    with w.guard(on_error="quarantine") as guard:
        assert [row.a for row in frame.collect()] == [1, 2, 4]
    assert guard.records[0].sources == (f"lines.{kind}: file:{path}#2",)
    if kind == "csv":  # a column that is not needed is not parsed
        with w.guard(on_error="quarantine") as guard:
            assert [row.b for row in frame.select("b").collect()] == ["one", "two", "three", "four"]
        assert guard.records == ()


def test_what_is_not_evaluated_does_not_fail(w: whence.Session, orders: DataFrame) -> None:
    parsed = orders.select("id", "shop", orders.amount.cast("int").alias("n"))
    with w.guard(on_error="quarantine") as guard:
        assert parsed.count() == 20
        assert len(parsed.select("id").collect()) == 20
        assert len(parsed.where("shop != 3").collect()) == 16
        assert parsed.where("n >= 0").count() == 19
        assert [row.id for row in parsed.orderBy("id").tail(1)] == [19]
    assert [record.record.id for record in guard.records] == [13, 13]
    with pytest.raises(Exception, match="5x7"):
        parsed.collect()  # outside the block it fails as before


def test_writes(w: whence.Session, orders: DataFrame, tmp_path: Path) -> None:
    spark = orders.sparkSession
    parsed = orders.select("id", orders.amount.cast("int").alias("n"))
    spark.sql("CREATE TABLE small_numbers (id BIGINT, n TINYINT) USING parquet")
    try:
        big = orders.selectExpr("id", "id * 10 AS n")
        culprit = guarded(w, lambda: spark.sql("INSERT INTO small_numbers SELECT id, id * 10 FROM failing_orders"))
        assert culprit.condition == "CAST_OVERFLOW_IN_TABLE_INSERT"
        assert len(culprit.sources) == 1
        culprit = guarded(w, lambda: big.write.insertInto("small_numbers"))
        assert culprit.condition == "CAST_OVERFLOW_IN_TABLE_INSERT"
        with w.guard(on_error="quarantine") as guard:
            parsed.write.parquet(str(tmp_path / "out"))
            spark.sql("INSERT INTO small_numbers SELECT id, id * 10 FROM failing_orders")
            big.write.insertInto("small_numbers")
            big.write.mode("append").saveAsTable("small_numbers")
        assert spark.read.parquet(str(tmp_path / "out")).count() == 19
        assert sorted(row.n for row in spark.table("small_numbers").collect()) == sorted(
            [n * 10 for n in range(13)] * 3
        )
        assert sorted(q.record.id for q in guard.records) == sorted([13, *[*range(13, 20)] * 3])
    finally:
        spark.sql("DROP TABLE small_numbers")


def test_python_functions_and_sql_in_one_query(w: whence.Session, orders: DataFrame) -> None:
    def half(n: int) -> int:
        return 4 // (n - 7)

    query = orders.select("id", udf(half, "long")("id").alias("h"), orders.amount.cast("int").alias("n"))
    with w.guard(on_error="quarantine") as guard:
        rows = query.collect()
    assert [row.id for row in rows] == [n for n in range(20) if n != 13]
    assert [row.h for row in rows if row.id == 7] == [None]
    assert sorted(q.function.split(".")[-1] for q in guard.records) == ["CAST(amount AS INT)", "half"]


def test_a_query_that_goes_well_is_left_alone(w: whence.Session, orders: DataFrame) -> None:
    with w.guard() as guard:
        assert len(orders.where("id != 13").select(orders.amount.cast("int")).collect()) == 19
    assert guard.culprit is None


def test_a_row_whose_error_does_not_come_again_is_not_named(
    w: whence.Session, orders: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluated by itself, none of its expressions raises: then it was something else that failed."""
    monkeypatch.setattr(SqlSearch, "_error", lambda *given: None)
    with pytest.raises(Exception, match="5x7"), w.guard() as guard:
        orders.selectExpr("id", "cast(amount as int) n").collect()
    assert guard.culprit is None
