"""Influence, against the plainest way there is: SQLite runs the query on a table without each row in turn."""

from __future__ import annotations

import json
import math
import random
import sqlite3
import statistics
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import whence
from rows import view
from whence.sql.influence import on_witnesses, worlds

RANDOM = random.Random(7)
ROWS = [
    (
        n,
        RANDOM.choice([1, 1, 2]),
        RANDOM.choice(["a", "b", "c"]),
        RANDOM.choice([None, *(x / 2 for x in range(-5, 40))]),
    )
    for n in range(14)
]
SCHEMA = "rid int, k int, g string, v double"
CITIES = [("a", 1.5), ("b", -2.0), ("c", 4.0)]


@pytest.fixture(scope="module")
def session(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[whence.Session]:
    view(tiny, "inf_t", ROWS, SCHEMA)
    view(tiny, "inf_c", CITIES, "g string, f double")
    with whence.attach(tiny, store=tmp_path_factory.mktemp("store")) as w:
        yield w


class Statistic:
    """One of Python's statistics as an aggregate of SQLite."""

    def __init__(self, function: Callable[[list[float]], float], least: int = 1) -> None:
        self.values: list[float] = []
        self.function = function
        self.least = least

    def step(self, *values: float | None) -> None:
        if values[0] is not None:
            self.values.append(values[0])

    def finalize(self) -> float | None:
        return self.function(self.values) if len(self.values) >= self.least else None


def percentile(values: list[float]) -> float:
    at, ordered = 0.3 * (len(values) - 1), sorted(values)
    return ordered[math.floor(at)] + (at - math.floor(at)) * (ordered[math.ceil(at)] - ordered[math.floor(at)])


def naive(query: str) -> dict[int, dict[Any, float | None]]:
    """rid -> key -> value, by SQLite, of the query on the table without that row; -1: on the whole table."""
    found: dict[int, dict[Any, float | None]] = {}
    for left_out in (-1, *[row[0] for row in ROWS]):
        with closing(sqlite3.connect(":memory:")) as base:
            base.row_factory = sqlite3.Row
            for name, function, least in (
                ("median", statistics.median, 1), ("stddev", statistics.stdev, 2), ("var_pop", statistics.pvariance, 1),
                ("percentile", percentile, 1),
            ):  # fmt: skip
                base.create_aggregate(name, -1, partial(Statistic, function, least))  # type: ignore[arg-type]
            base.execute("create table inf_t (rid int, k int, g text, v real)")
            base.execute("create table inf_c (g text, f real)")
            base.executemany("insert into inf_t values (?, ?, ?, ?)", [row for row in ROWS if row[0] != left_out])
            base.executemany("insert into inf_c values (?, ?)", CITIES)
            found[left_out] = {row["k"]: row["x"] for row in base.execute(query)}
    return found


# Several aggregates at once, each with a factor of its own: in Spark's words and in SQLite's.
ONE_LEVEL = {
    "sum(v) + 2 * count(*) + 3 * min(v) + 5 * max(v) + 7 * avg(v)": "",
    "stddev(v) + 2 * var_pop(v) + 3 * median(v) + 5 * percentile(v, 0.3)":
        "stddev(v) + 2 * var_pop(v) + 3 * median(v) + 5 * percentile(v)",
    "count(distinct g) + 2 * sum(v) filter (where g = 'a') / count(v)": "",
    "avg(cast(v as decimal(10,2)))": "round(avg(v), 6)",
    "max_by(rid, rid) + 2 * size(collect_set(g))": "max(rid) + 2 * count(distinct g)",
}  # fmt: skip
NESTED = [
    "select 1 k, avg(m) x from (select g, max(v) m from inf_t group by g having count(*) > 4)",
    "select k, avg(m) x from (select k, g, avg(v) m from inf_t group by k, g) group by k",
    "select n k, count(*) x from (select g, count(*) n from inf_t group by g) group by n",
    "select rid k, lag(v) over (partition by k order by rid) x from inf_t",
    "select rid k, rank() over (order by v, rid) x from inf_t",
    "select c.g k, count(t.v) x from inf_c c left join inf_t t on c.g = t.g group by c.g",
    "select a.g k, sum(a.v * b.v) x from inf_t a join inf_t b on a.g = b.g and a.rid <= b.rid group by a.g",
    "select k, max(r) x from (select k, sum(v) over (partition by g order by rid) r from inf_t) group by k",
    "select 1 k, count(distinct v) x from inf_t",
    # several readings of one table: a row is left out of all of them
    "select k, sum(v) x from (select * from inf_t where rid < 9 union all select * from inf_t where rid>4) group by k",
    "select k, avg(m) x from (select k, max(v) m from inf_t group by k, g union all select k, v from inf_t) group by k",
    "select k, sum(m * v) x from inf_t a join (select g, max(v) m from inf_t group by g) b on a.g = b.g group by k",
]


def check(session: whence.Session, query: str, in_sqlite: str, *, numbered: bool = True) -> None:
    """`numbered`: the asked rows have their numbers before; otherwise influence may compute them its own way."""
    expected = naive(in_sqlite)
    trace = session.backward(session.spark.sql(query))
    before = trace.outputs() if numbered else None
    found = trace.influence("x", source="inf_t").collect()
    keys = {row["output"]: row["k"] for row in (before or trace.outputs()).collect()}
    assert len(found) == trace.associations().where("source = 'inf_t'").count(), "every witness of every output, once"
    assert {keys[row["output"]] for row in found} <= set(expected[-1])
    for row in found:
        key = keys[row["output"]]
        now, then, there = expected[-1][key], expected[row.rid].get(key), key in expected[row.rid]
        said = f"{query}: output {key} without row {row.rid}: {row}, expected {then}"
        assert row.outcome == ("gone" if not there else "null" if then is None else "value"), said
        assert row.without == (None if then is None else pytest.approx(then, rel=1e-9, abs=1e-9)), said
        moved = None if then is None or now is None else pytest.approx(now - then, rel=1e-9, abs=1e-9)
        assert row.influence == moved, said


@pytest.mark.parametrize(
    ("expression", "numbered"), [*((one, False) for one in ONE_LEVEL), *((one, True) for one in [*ONE_LEVEL][1:4:2])]
)
def test_one_aggregate(session: whence.Session, expression: str, numbered: bool) -> None:
    query = "select k, {} x from inf_t group by k"
    in_sqlite = query.format(ONE_LEVEL[expression] or expression)
    check(session, query.format(expression), in_sqlite, numbered=numbered)


@pytest.mark.parametrize(
    "query",
    [
        "select k, sum(v) x from (select k + 1 as k, 2 * v as v from inf_t where rid > 2) where k > 1 group by k",
        "select 1 k, sum(v) x from inf_t where g <> 'b'",
        "select k, avg(m) x from (select k, g, avg(v) m from inf_t group by k, g) where k = 2 group by k",
        "select k, sum(m) x from (select k, g, max(v) m from inf_t group by k, g having max(v) > 3) group by k",
        "select n k, count(*) x from (select g, count(*) n from inf_t group by g) group by n",
    ],
)
def test_rows_of_one_source_asked_about_first(session: whence.Session, query: str) -> None:
    check(session, query, query, numbered=False)


@pytest.fixture(scope="module")
def many(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("many") / "many")
    rows = tiny.range(6000).selectExpr("id", "id % 40 as g", "cast(id % 11 as decimal(9, 2)) as v")
    rows.repartition(3).write.parquet(path)
    return path


@pytest.mark.parametrize(("sent", "small"), [(worlds.SENT, True), (50, True), (worlds.SENT, False), (50, False)])
def test_the_source_is_read_once_where_the_witnesses_are_few(
    session: whence.Session, many: str, monkeypatch: pytest.MonkeyPatch, sent: int, small: bool
) -> None:
    """Some 1,500 of 6,000 rows, in files; where they are too many, the answer is the same. Of a large source they are
    counted first."""
    monkeypatch.setattr(on_witnesses, "SENT", sent)
    if not small:
        monkeypatch.setattr(on_witnesses, "WIDE_BYTES", 10)
    report = session.spark.read.parquet(many).groupBy("g").agg(F.sum("v").alias("x"))
    trace = session.backward(report.where("g < 10"))
    told = trace.influence("x")
    leaves = told._jdf.queryExecution().analyzed().collectLeaves().toString()
    assert ("parquet" in leaves) == (sent == 50)
    found = told.collect()
    assert len(found) == 1500
    outputs = {row["output"]: row for row in trace.outputs().collect()}
    assert {row.g for row in outputs.values()} == set(range(10))
    sums = {g: sum(n % 11 for n in range(g, 6000, 40)) for g in range(10)}
    for row in found:
        own = json.loads(row.row)
        assert outputs[row["output"]].g == own["g"] == own["id"] % 40
        assert (row.influence, row.without) == (own["id"] % 11, sums[own["g"]] - own["id"] % 11)
    assert len({json.loads(row.row)["id"] for row in found}) == 1500
    records = [row.record for row in trace.associations().collect()]
    assert len(records) == 1500
    assert {row.record for row in found} == set(records)


@pytest.mark.parametrize("query", NESTED)
def test_nested_joined_and_windowed(session: whence.Session, query: str) -> None:
    check(session, query, query)


# Each needs a run of its own without each row: a LIMIT or a subquery below the aggregate.
ONE_BY_ONE = {
    "select k, sum(v) x from (select * from inf_t order by rid limit 10) group by k": " order by x desc limit 1",
    "select k, count(*) x from inf_t where v > (select avg(v) from inf_t) group by k": " having count(*) > 2 and k = 1",
    "select 1 k, max(v) x from (select * from inf_t order by v desc, rid limit 3)": "",
}


@pytest.mark.parametrize("query", ONE_BY_ONE)
def test_one_world_after_the_other(session: whence.Session, query: str) -> None:
    """What chooses the asked row at the top may choose another one without a witness: the same row counts."""
    expected = naive(query)
    trace = session.backward(session.spark.sql(query + ONE_BY_ONE[query]))
    ((row),) = trace.rows.collect()
    found = trace.influence("x", source="inf_t").collect()
    assert len(found) == trace.witness_counts["inf_t"]
    assert row.x == expected[-1][row.k]
    for one in found:
        then = expected[one.rid].get(row.k)
        said = f"{query}: without row {one.rid}: {one}, expected {then}"
        assert one.without == (None if then is None else pytest.approx(then, rel=1e-9)), said
        kept = "having" not in ONE_BY_ONE[query] or (then or 0) > 2
        there = row.k in expected[one.rid]
        assert one.outcome == ("gone" if not there else "null" if then is None else "value" if kept else "filtered"), (
            said
        )


def test_one_world_after_the_other_without_the_keys(session: whence.Session) -> None:
    """The asked row is told by the keys of its group, though only a number of it was asked for."""
    query = next(iter(ONE_BY_ONE))
    expected = naive(query)
    report = session.spark.sql(query)
    first, second = (report.where(f"k = {k}") for k in (1, 2))
    for k, trace in (
        (1, session.backward(first, columns=["x"])),
        (2, session.backward(second.selectExpr("x + 0 AS x"))),
    ):
        found = trace.influence("x", source="inf_t").collect()
        assert len(found) == trace.witness_counts["inf_t"] > 0
        for one in found:
            assert one.without == pytest.approx(expected[one.rid][k], rel=1e-9), one


def test_what_was_kept_of_duplicates(session: whence.Session) -> None:
    """Without the row that is kept, the other one is."""
    pairs = [(1, "a", 10.0), (1, "a", 3.0), (2, "a", 5.0)]
    view(session.spark, "inf_pairs", pairs, "id int, g string, v double")
    kept = session.spark.table("inf_pairs").dropDuplicates(["id"])
    report = kept.groupBy("g").agg(F.sum("v").alias("x"))
    with session.capture():
        ((_, x),) = report.collect()
    first = x - 5.0
    found = session.backward(report, columns=["x"]).influence("x", source="inf_pairs").collect()
    other = 13.0 - first
    assert {(row.id, row.v): row.without for row in found} == {(1, first): 5.0 + other, (1, other): x, (2, 5.0): first}


def test_many_witnesses_of_two_sources_with_their_rows(session: whence.Session) -> None:
    """An average of averages, above 200 witnesses; the filter above only chooses the row. Its bound is no value that
    occurs: there the order of a sum would decide."""
    spark = session.spark
    many = [(n, n % 20, float(n % 7)) for n in range(600)]
    view(spark, "inf_many", many, "id int, g int, v double")
    view(spark, "inf_names", [(g, f"city {g}") for g in range(20)], "g int, record string")
    report = spark.sql(
        "select avg(m) x from (select record, avg(v) m from inf_many join inf_names using (g) group by record) "
        "having avg(m) > 2.98997"
    )
    groups = {g: [float(n % 7) for n in range(600) if n % 20 == g] for g in range(20)}
    means = {g: statistics.fmean(values) for g, values in groups.items()}
    now = statistics.fmean(means.values())
    trace = session.backward(report)
    found = trace.influence("x").collect()
    assert [row.source for row in found] == sorted(row.source for row in found), "ranked source by source"
    for row in found:
        own = json.loads(row.row)
        if row.source == "inf_many":
            left = (30 * means[own["g"]] - own["v"]) / 29
            expected = statistics.fmean([*(m for g, m in means.items() if g != own["g"]), left])
        else:
            assert own["record"] == f"city {own['g']}"
            expected = statistics.fmean(m for g, m in means.items() if g != own["g"])
        assert row.without == pytest.approx(expected, rel=1e-9)
        assert row.influence == pytest.approx(now - expected, abs=1e-9)
        assert row.outcome == ("value" if expected > 2.98997 else "filtered")
    assert len(found) == 620
    assert {row.outcome for row in found} == {"value", "filtered"}
    moved = [abs(row.influence) for row in found if row.source == "inf_many"]
    assert moved == sorted(moved, reverse=True)
    columns = trace.influence("x", source="inf_names").columns
    assert columns == ["output", "source", "record", "influence", "without", "outcome", "g", "row_record"]


def test_what_cannot_be_asked_gets_a_sentence(session: whence.Session) -> None:
    report = session.spark.sql("select k, sum(v) x, max(g) g from inf_t group by k")
    with pytest.raises(whence.WhenceError, match="no column 'y'; its columns are k, x, g"):
        session.backward(report).influence("y")
    with pytest.raises(whence.WhenceError, match="told of numbers, and g is of the type string"):
        session.backward(report).influence("g")
    with pytest.raises(KeyError, match="'nowhere' is not a source"):
        session.backward(report).influence("x", source="nowhere")


def test_explain_tells_the_witnesses_from_the_other_rows(session: whence.Session) -> None:
    report = session.spark.sql("select k, sum(v) x from inf_t group by k")
    trace = session.backward(report.where("k = 2"))
    keyed = trace.explain(with_keys=True)
    assert [cause.sql for cause in keyed.causes] in (["k >= 2"], ["k = 2"])
    assert keyed.covered == sum(row[1] == 2 for row in ROWS)
    assert trace.explain().columns == ("rid", "g", "v"), "the group's key is what was asked"
