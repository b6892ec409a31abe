"""What is gathered for groups is computed once, whatever is asked about it: groups of groups, rows that IN and EXISTS
keep, subqueries that belong to a row, and forward. A plain computation in Python tells the right answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence
from whence.spark.catalyst import Catalyst as Plans
from whence.sql import both_sides, computed_before, evaluation, left_first
from whence.sql.verify import compare, unsorted

pytestmark = pytest.mark.usefixtures("tiny")
ITEMS = [(i, i % 7, None if i % 11 == 0 else i % 5) for i in range(60)] + [(60, 3, 7), (61, 3, 7)]
THINGS = [(k, "abc"[k % 3]) for k in range(9)]


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    home: Path = tmp_path_factory.mktemp("keys_first")
    for name, rows, schema in (("items", ITEMS, "id int, g int, k int"), ("things", THINGS, "k int, name string")):
        spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(home / name))  # type: ignore[type-var]
        spark.read.schema(schema).parquet(str(home / name)).createOrReplaceTempView(name)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What questions compute from files, one entry for each time."""
    made: list[str] = []
    keep = Plans.keep

    def noting(self: Plans, plan: object, *, many: bool = False) -> object:
        text = str(plan.toString())  # type: ignore[attr-defined]
        if "parquet" in text:
            made.append(text)
        return keep(self, plan, many=many)

    def noting_first(self: Plans, plan: object, most: int) -> object:
        before = len(made)
        kept = first(self, plan, most)
        if len(made) == before and "parquet" in str(plan.toString()):  # type: ignore[attr-defined]
            made.append(str(plan.toString()))  # type: ignore[attr-defined]
        return kept

    first = Plans.first
    monkeypatch.setattr(Plans, "keep", noting)
    monkeypatch.setattr(Plans, "first", noting_first)
    return made


def ids(trace: whence.Trace, number: int) -> set[int]:
    """What the reading with this number, in the order of the query's text, has found."""
    return {row[0] for row in trace.readings[number].rows.collect()}


# --- groups of groups

COUNTS = (
    "select n, count(*) as c from (select t.k, count(i.id) as n from things t left join items i on t.k = i.k "
    "group by t.k) group by n"
)


def times() -> dict[int, int]:
    found = Counter(k for _, _, k in ITEMS if k is not None)
    return {k: found[k] for k, _ in THINGS}


@pytest.mark.parametrize("rows", [computed_before.WIDE_ROWS, 3])
def test_a_group_of_groups_is_asked_for_by_what_these_count(
    w: whence.Session, spark: SparkSession, scans: list[str], monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Also where the rows are too many to be kept."""
    monkeypatch.setattr(computed_before, "WIDE_ROWS", rows)
    numbers = []
    for n in (0, 11, 2, 99) if rows > 3 else (0, 11):
        keys = {k for k, count in times().items() if count == n}
        trace = w.backward(spark.sql(COUNTS).where(f"n = {n}"))
        assert {row.k for row in trace["things"].collect()} == keys
        assert {row.id for row in trace["items"].collect()} == {i for i, _, k in ITEMS if k in keys}
        assert trace.exact
        assert trace.verify()
        numbers.append(len(scans))
    if rows > 3:
        assert numbers[:3] == [1, 1, 1]  # the join, for all groups


@pytest.mark.parametrize("most", [both_sides.MOST, 0])
@pytest.mark.parametrize("join", ["things t left join items i", "things t join items i", "items i right join things t"])
def test_many_keys_are_sent_to_both_sides_of_a_join(
    w: whence.Session, spark: SparkSession, scans: list[str], monkeypatch: pytest.MonkeyPatch, join: str, most: int
) -> None:
    monkeypatch.setattr(computed_before, "WIDE_ROWS", 3)
    monkeypatch.setattr(evaluation, "FEW", 1)
    monkeypatch.setattr(both_sides, "MOST", most)
    text = COUNTS.replace("things t left join items i", join)
    keys = {k for k, n in times().items() if n == 11 or (n == 0 and join != "things t join items i")}
    trace = w.backward(spark.sql(text).where("n in (0, 11)"))
    assert {row.k for row in trace["things"].collect()} == keys
    assert {row.id for row in trace["items"].collect()} == {i for i, _, k in ITEMS if k in keys}
    assert trace.exact
    assert trace.verify()
    # The keys are joined with the side that has them in the query, and with the other one.
    assert sum(text.count("Join LeftSemi") for text in scans[-1:]) == (2 if most else 1)


@pytest.mark.parametrize("rows", [computed_before.WIDE_ROWS, 3])
def test_rows_touch_the_group_of_their_group(
    w: whence.Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(computed_before, "WIDE_ROWS", rows)
    together = Counter(times().values())
    for k in (0, 8) if rows > 3 else (7,):
        n = times()[k]
        touched = w.forward(spark.table("things").where(f"k = {k}"), to=spark.sql(COUNTS))
        assert [tuple(row) for row in touched.rows.collect()] == [(n, together[n])]
        assert touched.verify()


# --- forward through joins

REPORT = "select name, i.k, count(*) as n, sum(id) as total from items i join things t on i.k = t.k group by name, i.k"


@pytest.mark.parametrize("rows", [computed_before.WIDE_ROWS, 3])
def test_a_joined_row_touches_its_group(
    w: whence.Session, spark: SparkSession, scans: list[str], monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(computed_before, "WIDE_ROWS", rows)
    names, numbers = dict(THINGS), []
    for i, _, k in (ITEMS[1], ITEMS[2], ITEMS[11], ITEMS[60]) if rows > 3 else (ITEMS[2],):
        touched = w.forward(spark.table("items").where(f"id = {i}"), to=spark.sql(REPORT))
        own = [at for at, _, of in ITEMS if of == k]
        expected = [] if k is None else [(names[k], k, len(own), sum(own))]
        assert [tuple(row) for row in touched.rows.collect()] == expected
        assert touched.verify()
        numbers.append(sum("things" in text or "name#" in text for text in scans))
    if rows > 3:
        assert numbers[:2] == [1, 1]  # the join, for both


def test_many_rows_touch_their_groups(w: whence.Session, spark: SparkSession) -> None:
    touched = w.forward(spark.table("items").where("g = 3"), to=spark.sql(REPORT))
    keys = {k for _, g, k in ITEMS if g == 3 and k is not None}
    assert {row.k for row in touched.rows.collect()} == keys


# --- groups of what IN and EXISTS keep

KEPT = {
    "in": ("id in (select id from items where k > 1)", lambda i, k: k is not None and k > 1, lambda own: own),
    "exists": (
        "exists (select 1 from things t where t.k = l.k and t.name = 'b')",
        lambda i, k: k in (1, 4, 7),
        lambda own: {k for i, _, k in ITEMS if i in own},
    ),
    "another than itself": (
        "exists (select 1 from items o where o.k <=> l.k and o.id <> l.id and o.id < 9)",
        lambda i, k: any(other == k and o != i and o < 9 for o, _, other in ITEMS),
        lambda own: {o for i, _, k in ITEMS if i in own for o, _, at in ITEMS if at == k and o != i and o < 9},
    ),
    "both": (
        "id in (select id from items where k > 1) and "
        "not exists (select 1 from things t where t.k = l.k and t.name = 'b')",
        lambda i, k: k in (2, 3),
        lambda own: own,
    ),
}


@pytest.mark.parametrize("sent", [left_first._SENT, 2])
@pytest.mark.parametrize("kept", KEPT)
def test_groups_of_what_others_keep(
    w: whence.Session, spark: SparkSession, scans: list[str], monkeypatch: pytest.MonkeyPatch, kept: str, sent: int
) -> None:
    """Also where their keys are too many to be sent."""
    monkeypatch.setattr(left_first, "_SENT", sent)
    text, test, found = KEPT[kept]
    query = f"select g, count(*) as n from items l where {text} group by g"
    numbers = []
    for g in (3, 0, 99) if sent > 2 else (5,):
        trace = w.backward(spark.sql(query).where(f"g = {g}"))
        own = {i for i, at, k in ITEMS if at == g and test(i, k)}
        assert ids(trace, 0) == own
        assert ids(trace, 1) == found(own)
        assert trace.exact
        assert trace.verify()
        numbers.append(len(scans))
    if sent > 2:
        assert numbers[0] == numbers[1]  # what the first question has read is enough for all that have rows


@pytest.mark.parametrize("kept", KEPT)
def test_rows_touch_groups_of_what_others_keep(w: whence.Session, spark: SparkSession, kept: str) -> None:
    text, test, _ = KEPT[kept]
    query = f"select g, count(*) as n from items l where {text} group by g"
    back = w.backward(spark.sql(query)).associations().collect()
    for i, g, k in (ITEMS[8], ITEMS[22], ITEMS[60]):
        touched = {
            row.g for row in w.forward(spark.table("items").where(f"id = {i}"), to=spark.sql(query)).rows.collect()
        }
        if "from items" not in text:
            assert touched == ({g} if test(i, k) else set())
        outputs = {row.output for row in back if row.source == "items" and row.record.endswith(f"#{i}")}
        assert len(touched) == len(outputs)


# --- subqueries that belong to a row

LARGE = (
    "select t.k, t.name from things t where t.k in "
    "(select i.k from items i where i.id > (select avg(o.id) from items o where o.g = i.g and o.id < 55))"
)


def test_what_a_subquery_gathers_for_few_rows_is_computed_once(
    w: whence.Session, spark: SparkSession, scans: list[str]
) -> None:
    def mean(g: int) -> float:
        of_group = [i for i, at, _ in ITEMS if at == g and i < 55]
        return sum(of_group) / len(of_group)

    for name in "abc":
        scans.clear()
        keys = {k for k, at in THINGS if at == name}
        matches = {i for i, g, k in ITEMS if k in keys and i > mean(g)}
        groups = {g for i, g, _ in ITEMS if i in matches}
        trace = w.backward(spark.sql(LARGE).where(f"name = '{name}'"))
        assert ids(trace, 0) == {k for i, _, k in ITEMS if i in matches}
        assert ids(trace, 1) == matches
        assert ids(trace, 2) == {i for i, g, _ in ITEMS if g in groups and i < 55}
        assert len(scans) == 3  # each table that is read, once
        assert trace.exact
        assert trace.verify()


# --- proofs


def test_a_proof_sorts_nothing(w: whence.Session, spark: SparkSession) -> None:
    """But where the order decides which rows there are."""
    c = w._plans()
    kept = spark.sql(f"{REPORT} order by total").where("n > 1").select("name", "total")
    rows = unsorted(c, kept)
    assert "Sort" not in c.plan_of(rows).toString()
    assert sorted(rows.collect()) == sorted(kept.collect())
    first = spark.sql(f"{REPORT} order by total limit 2").select("total")
    assert unsorted(c, first) is first


def test_a_proof_tells_the_rows_that_differ(spark: SparkSession) -> None:
    one, other = (
        spark.createDataFrame(rows, "a int, b string") for rows in ([(1, "x"), (2, "y")], [(2, "y"), (3, None)])
    )
    found = compare(one, other)
    assert not found.ok
    assert [tuple(row) for row in found.missing] == [(1, "x")]
    assert [tuple(row) for row in found.extra] == [(3, None)]
    assert compare(one, one).ok
