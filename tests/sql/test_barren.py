"""Branches of a union that no asked row can be from are passed by, and every answer is the same as with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType
from tests import rows as tables
from tests.releases import since

import whence
from whence.model import NonDeterministic
from whence.sql import Catalyst, barren
from whence.sql.builder import Builder
from whence.sql.tree import tree_of

# As many that no union of these tests has them.
NEVER = 1_000
ROWS = [(n, None if n % 6 == 5 else n % 6, n % 4) for n in range(30)]


@pytest.fixture(scope="module", autouse=True)
def orders(tiny: SparkSession) -> None:
    """Thirty orders of five days, some of no day, and the four shops they are from."""
    tables.view(tiny, "orders", ROWS, "id bigint, day int, shop int")
    tables.view(tiny, "shops", [(shop, f"town {shop}") for shop in range(4)], "shop int, town string")
    tiny.udf.register("same", F.udf(lambda value: value, IntegerType()))


@pytest.fixture(autouse=True)
def of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barren, "MANY", 2)


def of(day: int | None = None, shop: int | None = None) -> list[int]:
    """The orders of a day (5: of none), of a shop."""
    return [n for n in range(30) if day in (None, n % 6) and shop in (None, n % 4)]


def union(branches: Iterable[str], how: str = "UNION ALL") -> str:
    return f" {how} ".join(branches)


def each(text: str, numbers: Sequence[object] = (0, 1, 2, 3, 4)) -> str:
    return union([text.format(n=n) for n in numbers])


DAYS = each("SELECT * FROM orders WHERE day = {n}")
DAYS_AND_NONE = f"{DAYS} UNION ALL SELECT * FROM orders WHERE day IS NULL"
SUMS = each("SELECT day, shop, sum(id) total FROM orders WHERE day = {n} GROUP BY day, shop")
SHOPS = "SELECT shop FROM shops WHERE town > 'town 1'"

# A query, what is asked of it, how many branches are passed by, and the orders behind the answer.
WIDER = f"{DAYS} UNION ALL SELECT id, shop + 100L, shop FROM orders"
TURNED = "SELECT shop day, id, day shop FROM orders WHERE shop = 9"
TWICE = f"SELECT DISTINCT * FROM ({DAYS}) WHERE shop = 1 UNION ALL SELECT * FROM ({DAYS_AND_NONE})"
ENDED = f"SELECT * FROM ({DAYS}) WHERE shop = 1 UNION ALL SELECT * FROM orders WHERE shop = 2"
ALL_DAYS = [n for n in of() if n % 6 != 5]
OF_SHOP = [n for n in of(None, 1) if n % 6 != 5]
CASES: dict[str, tuple[str, str, int, list[int]]] = {
    "filters": (DAYS, "day = 3", 4, of(3)),
    "one of several": (DAYS, "day IN (1, 2)", 3, [*of(1), *of(2)]),
    "sums": (SUMS, "day = 3 AND shop = 1", 4, of(3, 1)),
    "by what they come to": (SUMS, "total = 30", 0, [9, 21]),
    "no day": (DAYS_AND_NONE, "day IS NULL", 5, of(5)),
    "no day, compared": (DAYS_AND_NONE, "day <=> NULL", 5, of(5)),
    "not no day": (DAYS_AND_NONE, "day IS NOT NULL AND id < 3", 1, [0, 1, 2]),
    "NULL asked for": (DAYS_AND_NONE, "day = NULL", 5, []),
    "a day, or a shop": (DAYS, "day = 3 OR shop = 1", 0, sorted({*of(3), *OF_SHOP})),
    "overlapping": (each("SELECT * FROM orders WHERE day >= {n}"), "day = 2", 2, of(2)),
    "ranges": (each("SELECT * FROM orders WHERE id BETWEEN {n} * 6 AND {n} * 6 + 5"), "id = 13", 4, [13]),
    "computed": (each("SELECT * FROM orders WHERE id % 5 = {n}"), "id = 13", 4, [13]),
    "named by a constant": (each("SELECT id, 'run {n}' run FROM orders"), "run = 'run 2'", 4, of()),
    "one row of each": (
        each("SELECT n, {n} number FROM (SELECT count(*) n FROM orders WHERE day = {n})"),
        "number = 3",
        4,
        of(3),
    ),
    "a wider type": (WIDER, "day = 3", 4, of(3)),
    "other columns in the first": (f"{TURNED} UNION ALL SELECT day, id, shop FROM ({DAYS})", "day = 3", 5, of(3)),
    "nothing": (DAYS, "day = 77", 4, []),
    "distinct": (union(DAYS.split(" UNION ALL "), "UNION"), "day = 3", 2, of(3)),
    "unions in a union": (TWICE, "day = 3", 4 + 5, of(3)),
    "a union of which nothing is left": (ENDED, "shop = 2", 1, of(None, 2)),
    "grouped by what is asked": (f"SELECT day, count(*) n FROM ({DAYS}) GROUP BY day", "day = 3", 4, of(3)),
    "grouped by something else": (f"SELECT shop, count(*) n FROM ({DAYS}) GROUP BY shop", "shop = 1", 0, OF_SHOP),
    "grouped, all together": (f"SELECT max(day) day FROM ({DAYS})", "day = 4", 0, ALL_DAYS),
    "a window": (f"SELECT *, count(*) OVER (PARTITION BY day) n FROM ({DAYS})", "day = 3", 4, of(3)),
    "another window": (
        f"SELECT *, sum(id) OVER (PARTITION BY shop) n FROM ({DAYS})",
        "day = 3 AND shop = 1",
        0,
        OF_SHOP,
    ),
    "the first of them": (f"SELECT * FROM ({DAYS}) ORDER BY id LIMIT 7", "day = 1", 0, [1, 7]),
    "joined": (f"SELECT * FROM ({DAYS}) JOIN shops USING (shop)", "day = 3", 4, of(3)),
    "joined on it": (f"SELECT o.id FROM shops s JOIN ({DAYS}) o ON s.shop = o.shop AND o.day = 3", "true", 4, of(3)),
    "the other side of an outer join": (
        f"SELECT id, town FROM shops s LEFT JOIN ({DAYS}) o ON s.shop = o.shop AND o.day = 3",
        "id = 9",
        0,
        [9],
    ),
    "what is not there": (f"SELECT * FROM orders o LEFT ANTI JOIN ({DAYS}) d USING (id)", "day IS NULL", 0, of(5)),
    "a subquery of rows": (
        each(f"SELECT * FROM orders WHERE day = {{n}} AND shop IN ({SHOPS})"),
        "day = 3",
        4,
        [*of(3, 2), *of(3, 3)],
    ),
    "a subquery of one value": (
        each("SELECT * FROM orders WHERE day + {n} = (SELECT min(shop) + 4 FROM shops)"),
        "day = 3",
        0,
        of(3),
    ),
    "a function of the user's": (each("SELECT * FROM orders WHERE same(day) = {n}"), "day = 3", 0, of(3)),
    "such a function beside": (
        each("SELECT * FROM orders WHERE same(shop) = 1 AND day = {n}"),
        "day = 3",
        4,
        of(3, 1),
    ),
    "zero and minus zero": (
        each("SELECT id, -0D AS d FROM orders WHERE id = 7 + {n}", (0, 1)),
        "d = 0D AND id < 8",
        1,
        [7],
    ),
    "a list's elements": (
        each("SELECT * FROM orders LATERAL VIEW explode(array(1, 2)) AS e WHERE day = {n}"),
        "day = 3",
        4,
        of(3),
    ),
}


def asked_in(name: str) -> str:
    query, asked, _, _ = CASES[name]
    return f"SELECT * FROM ({query}) WHERE {asked}"


def passed_by(spark: SparkSession, query: DataFrame) -> int:
    c = Catalyst(spark)
    tree = tree_of(c, c.normalise(c.plan_of(query)))
    barren.mark_barren(c, tree)
    return sum(node.barren for node in tree.walk())


def ids(df: DataFrame) -> list[int]:
    return sorted(row.id for row in df.select("id").collect())


def rows_of(df: DataFrame) -> list[str]:
    return sorted(map(str, df.collect()))


@pytest.mark.parametrize("name", CASES)
def test_branches_that_contradict_the_question_are_passed_by(w: whence.Session, name: str) -> None:
    _, _, expected, witnesses = CASES[name]
    asked = w.spark.sql(asked_in(name))
    assert passed_by(w.spark, asked) == expected
    trace = w.backward(asked)
    assert ids(trace["orders"]) == sorted(witnesses)
    assert trace.witness_counts["orders"] == len(witnesses)
    assert trace.exact
    verdict = trace.verify()
    assert verdict.ok, verdict


def rows_of_each(frames: Sequence[DataFrame]) -> list[list[str]]:
    """One job for all of them."""
    found: list[list[str]] = [[] for _ in frames]
    rows = [
        frame.select(F.lit(number), F.to_json(F.struct("*"), {"ignoreNullFields": "false"}))
        for number, frame in enumerate(frames)
    ]
    for number, row in reduce(DataFrame.unionAll, rows).collect():
        found[number].append(row)
    return [sorted(one) for one in found]


def everything(trace: whence.Trace, report: DataFrame) -> list[object]:
    """What a trace says, in every way that speaks of the branches."""
    return [
        {name: rows_of(frame) for name, frame in trace.sources.items()},
        dict(trace.witness_counts),
        [reading.source for reading in trace.readings],
        rows_of_each([reading.rows for reading in trace.readings]),
        [(step.number, step.operator, step.depth) for step in trace.steps],
        trace.step_counts(),
        rows_of_each([trace.at(step) for step in trace.steps[:12]]),
        rows_of(trace.associations().select("source", "record")),
        rows_of(trace.replay()),
        rows_of(trace.replay(report)),
        rows_of(trace.exclude()),
        rows_of(trace.exclude(report)),
        str(trace),
    ]


@pytest.mark.parametrize(
    "name", ["sums", "no day", "one row of each", "a subquery of rows", "unions in a union", "nothing"]
)
def test_every_answer_is_the_same_as_with_all_branches(
    w: whence.Session, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    asked, report = w.spark.sql(asked_in(name)), w.spark.sql(CASES[name][0])
    passed: list[object] = []
    pass_by = Builder.pass_by
    monkeypatch.setattr(Builder, "pass_by", lambda build, node: (passed.append(node), pass_by(build, node)))
    found = everything(w.backward(asked), report)
    assert passed
    monkeypatch.setattr(barren, "MANY", NEVER)
    passed.clear()
    assert found == everything(w.backward(asked), report)
    assert not passed


def test_a_step_of_a_branch_that_is_passed_by_has_no_rows_on_the_way(w: whence.Session) -> None:
    trace = w.backward(w.spark.sql(asked_in("sums")))
    groups = [step for step in trace.steps if step.operator == "Aggregate"]
    assert [trace.at(step).count() for step in groups] == [0, 0, 0, 1, 0]
    report = w.spark.sql(SUMS)
    without = trace.exclude(report, at=groups[3])
    assert rows_of(without) == rows_of(report.where("day <> 3 OR shop <> 1"))
    assert rows_of(trace.exclude(report, at=groups[0])) == rows_of(report)


def test_influence_is_the_same(w: whence.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (f"SELECT day, sum(id) total FROM ({DAYS})", f"SELECT day, max(total) total FROM ({SUMS})"):
        asked = w.spark.sql(f"{text} WHERE day = 3 GROUP BY day")
        assert passed_by(w.spark, asked) == 4
        monkeypatch.setattr(barren, "MANY", 2)
        found = rows_of(w.backward(asked).influence("total"))
        monkeypatch.setattr(barren, "MANY", NEVER)
        assert found == rows_of(w.backward(asked).influence("total"))
        assert len(found) == len(of(3))
        monkeypatch.setattr(barren, "MANY", 2)


def test_forward_and_why_not_see_all_branches(w: whence.Session) -> None:
    asked = w.spark.sql(asked_in("sums"))
    order = w.spark.table("orders").where("id = 9")
    assert [(row.day, row.shop) for row in w.forward(order, to=asked).rows.collect()] == [(3, 1)]
    assert w.forward(w.spark.table("orders").where("id = 1"), to=asked).rows.collect() == []
    assert len(w.why_not(w.spark.table("orders").where("id = 1"), to=asked)) == 5


@pytest.mark.parametrize(
    "make",
    [
        lambda text: f"SELECT *, monotonically_increasing_id() n FROM ({text})",
        lambda text: f"SELECT * FROM ({text}) WHERE rand() < 2",
        lambda text: f"SELECT * FROM ({text}) WHERE day >= day(current_date()) * 0 AND id < 0 + rand() * 0",
    ],
    ids=["a number of each row", "a draw", "a draw among others"],
)
def test_what_counts_rows_or_draws_sees_all_of_them(w: whence.Session, make: Callable[[str], str]) -> None:
    asked = w.spark.sql(f"SELECT * FROM ({make(DAYS)}) WHERE day = 3")
    assert passed_by(w.spark, asked) == 0
    with pytest.raises(NonDeterministic):
        w.backward(asked)


def test_the_time_of_day_proves_nothing(w: whence.Session) -> None:
    """It will be another one when the query runs."""
    dated = each("SELECT id, day, date '2000-01-0{n}' AS at FROM orders WHERE day = {n}", (1, 2, 3))
    assert passed_by(w.spark, w.spark.sql(f"SELECT * FROM ({dated}) WHERE at = current_date()")) == 0
    assert passed_by(w.spark, w.spark.sql(f"SELECT * FROM ({dated}) WHERE at = date '2000-01-02'")) == 2


def test_a_test_that_fails_proves_nothing(w: whence.Session) -> None:
    """The query itself says what is wrong with it."""
    text = each("SELECT * FROM orders WHERE shop / (day - 3) = {n} AND id > 3")
    asked = w.spark.sql(f"SELECT * FROM ({text}) WHERE day = 3")
    assert passed_by(w.spark, asked) == (0 if w.spark.conf.get("spark.sql.ansi.enabled") == "true" else 5 - 1)


@since("4.0", "collations")
def test_texts_that_are_equal_under_a_collation(w: whence.Session) -> None:
    text = each("SELECT id, {n} AS name FROM orders WHERE id = 7", ("'a' COLLATE UTF8_LCASE", "'b' COLLATE UTF8_LCASE"))
    asked = w.spark.sql(f"SELECT * FROM ({text}) WHERE name = 'A'")
    assert [row.name for row in asked.collect()] == ["a"]
    assert ids(w.backward(asked)["orders"]) == [7]
    named = "CASE WHEN id = 7 THEN 'a' ELSE 'A' END COLLATE UTF8_LCASE AS name"
    grouped = f"SELECT name, count(*) n FROM (SELECT {named} FROM orders WHERE id IN (7, 8)) GROUP BY name"
    both = w.spark.sql(f"SELECT * FROM ({union([grouped, grouped])}) WHERE name = 'a'")
    assert ids(w.backward(both)["orders"]) == [7, 8]


def test_a_captured_result_is_asked_as_before(tiny: SparkSession, tmp_path: Path) -> None:
    """What was written down of a query stands for it, with all of its branches."""
    with whence.attach(tiny, store=tmp_path) as w:
        with w.capture():
            kept = tiny.sql(f"SELECT *, rand() r FROM ({DAYS})").where("r < 2")
            assert len(kept.collect()) == len(ALL_DAYS)
        assert ids(w.backward(kept.where("day = 3"))["orders"]) == of(3)
