"""Many nodes of a plan are told in one round trip; what is told is what one question after the other would find."""

from __future__ import annotations

import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import whence
from whence.spark import round_trips
from whence.spark.construct import class_name, id_of, references_of, to_list
from whence.sql.catalyst import Catalyst

QUERY = "select id, id % 3 as k, named_struct('a', id) as s, cast(id as decimal(9, 2)) as d from range(9) where id > 1"


@pytest.fixture
def one_by_one(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = spark._sc._gateway._gateway_client  # type: ignore[union-attr]
    monkeypatch.setattr(client, round_trips._HANDLES, None)


def told(spark: SparkSession, plan: Any) -> list[Any]:
    c = Catalyst(spark)
    columns = [(class_name(a), str(a.name()), id_of(a), c.type_of(a)) for a in c.output(plan)]
    below = [told(spark, child) for child in c.children(plan)]
    return [class_name(plan), columns, sorted(c.references(plan)), len(references_of(plan)), below]


@pytest.fixture
def plan(spark: SparkSession) -> Any:
    return Catalyst(spark).plan_of(spark.sql(QUERY))


@pytest.fixture
def told_at_once(spark: SparkSession, plan: Any) -> list[Any]:
    return told(spark, plan)


def test_a_plan_is_told_as_one_call_after_the_other_tells_it(
    spark: SparkSession, plan: Any, told_at_once: list[Any], one_by_one: None
) -> None:
    for known in [name for name in vars(plan) if name.startswith("whence_")]:
        del vars(plan)[known]
    assert told(spark, plan) == told_at_once
    assert told_at_once[0] == "Project"


def test_what_are_no_nodes_come_as_they_are(spark: SparkSession) -> None:
    c = Catalyst(spark)
    assert to_list(c._to_seq(["a", "b"])) == ["a", "b"]
    assert to_list(c._to_seq([])) == []


def test_a_sequence_and_a_name_are_made_in_one_call(spark: SparkSession, plan: Any) -> None:
    c = Catalyst(spark)
    columns = c.output(plan)
    assert [id_of(a) for a in to_list(c.seq(columns * 5))] == [id_of(a) for a in columns * 5]
    named = c.alias(columns[0], "other")
    assert str(named.name()) == "other"
    assert id_of(named) != id_of(columns[0])
    assert to_list(named.nonInheritableMetadataKeys()) == ["__dataset_id", "__col_position"]


def test_questions_are_answered_where_nothing_can_be_told_at_once(
    w: whence.Session, spark: SparkSession, one_by_one: None
) -> None:
    frame = spark.range(9).selectExpr("id", "id % 3 as k")
    trace = w.backward(frame.groupBy("k").count().where("k = 1"))
    (rows,) = trace.sources.values()
    assert {row.id for row in rows.collect()} == {1, 4, 7}


def test_names_that_nobody_has_resolved_are_told_without_an_id(spark: SparkSession) -> None:
    sum_of_two = Catalyst(spark).parse("a + b")
    assert [class_name(child) for child in to_list(sum_of_two.children())] == ["UnresolvedAttribute"] * 2


def test_a_node_with_another_field_is_made_in_one_call(spark: SparkSession, plan: Any, monkeypatch: Any) -> None:
    c = Catalyst(spark)
    columns = c.items(plan.projectList())[:2]
    at_once = c.copy(plan, projectList=c.seq(columns))
    monkeypatch.setattr(spark._sc._gateway._gateway_client, round_trips._HANDLES, None)  # type: ignore[union-attr]
    one_by_one = c.copy(plan, projectList=c.seq(columns))
    assert at_once.fastEquals(one_by_one)
    assert [str(a.name()) for a in c.output(at_once)] == ["id", "k"]
    assert [str(a.name()) for a in c.output(plan)] == ["id", "k", "s", "d"]
    for known in (at_once, plan):
        with pytest.raises(AttributeError, match="no field other"):
            c.copy(known, other=columns[0])


def test_columns_have_their_names_without_being_asked(spark: SparkSession, plan: Any) -> None:
    odd = Catalyst(spark).output(
        Catalyst(spark).plan_of(spark.range(1).selectExpr("id as `a\tb`", "id as `c\nd`", "id as ``"))
    )
    assert [a.name() for a in odd] == ["a\tb", "c\nd", ""]
    assert [a.name() for a in Catalyst(spark).output(plan)] == ["id", "k", "s", "d"]


def test_the_files_of_a_scan_are_told_as_one_after_the_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names with spaces, percent signs and letters beyond ASCII among them, and a table without a file."""
    c = Catalyst(spark)

    def told(at: Path) -> list[str]:
        (scan,) = c.leaves(c.plan_of(spark.read.schema("id bigint, k string").parquet(str(at))))
        return c.files(scan)

    rows = spark.range(4).selectExpr("id", "concat('a b%20c%ü', id) as k")
    rows.write.partitionBy("k").parquet(str(tmp_path / "t able"))
    (tmp_path / "empty").mkdir()
    at_once = told(tmp_path / "t able"), told(tmp_path / "empty")
    monkeypatch.setattr(spark._sc._gateway._gateway_client, round_trips._HANDLES, None)  # type: ignore[union-attr]
    assert (told(tmp_path / "t able"), told(tmp_path / "empty")) == at_once
    assert len(at_once[0]) == 4
    assert at_once[1] == []
    rows = spark.read.parquet(str(tmp_path / "t able")).selectExpr("_metadata.file_path as path")
    paths = {row.path for row in rows.collect()}
    assert set(at_once[0]) == paths


def test_long_answers_of_the_jvm_go_out_at_once(spark: SparkSession) -> None:
    Catalyst(spark)
    server: Any = spark._sc._gateway.java_gateway_server  # type: ignore[union-attr]
    known = server.getClass().getSuperclass().getDeclaredField("connections")
    known.setAccessible(True)
    held_back: list[list[bool]] = []

    def look() -> None:  # in a connection of its own
        held_back.append([not one.getSocket().getTcpNoDelay() for one in known.get(server)])

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert held_back
    assert not any(held_back[0])


def test_subqueries_are_told_in_one_call(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    c = Catalyst(spark)
    text = """select id from range(9) where id in (select id from range(3) where id > (select min(id) from range(2)))
        and not exists (select 1 from range(1)) or id = (select max(id) from range(4))"""
    plan = c.children(c.plan_of(spark.sql(text)))[0]
    told = [(class_name(sub), id_of(sub)) for sub in c.subqueries(plan)]
    assert sorted(name for name, _ in told) == ["Exists", "ListQuery", "ScalarSubquery"]
    client: Any = spark._sc._gateway._gateway_client  # type: ignore[union-attr]
    monkeypatch.setattr(client, round_trips._HANDLES, None)
    assert [(class_name(sub), id_of(sub)) for sub in c.subqueries(plan)] == told


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bigint", [1, -9007199254740993, None]),
        ("int", [3]),
        ("smallint", [-3, 4]),
        ("tinyint", [5]),
        ("decimal(5, 2)", [Decimal("1.50"), Decimal("-7")]),
        ("string", ["a", "", "12:b", "a\r\n\\b", "ä", "\U0001f600", "it's"]),
        ("date", ["2026-11-19"]),
        ("boolean", [True]),
    ],
)
def test_many_values_are_one_call(
    spark: SparkSession, kind: str, values: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    c = Catalyst(spark)
    rows = spark.createDataFrame([(str(v) if v is not None else None,) for v in [*values, "77"]], "v string")
    frame = rows.selectExpr(f"try_cast(v as {kind}) as v")
    plan = c.plan_of(frame)
    (column,) = c.output(plan)

    def chosen() -> set[Any]:
        test = c.one_of(column, values)
        assert test is not None
        return {row[0] for row in c.frame(c.filter(test, plan)).collect()}

    at_once = chosen()
    like = c.literal(values[0], column)
    client: Any = spark._sc._gateway._gateway_client  # type: ignore[union-attr]
    monkeypatch.setattr(client, round_trips._HANDLES, None)
    assert chosen() == at_once
    both = c.frame(c.project([c.alias(like, "a"), c.alias(c.literal(values[0], column), "b")], plan)).first()
    assert both is not None
    assert both[0] == both[1]
    if kind != "date":
        assert at_once == set(values)
