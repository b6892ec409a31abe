"""Many branches of a union that differ in constants alone are one query to a question, and every answer is what it is
branch by branch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType
from tests import rows as tables

import whence
from whence.sql import alike_branches
from whence.sql.lineage import SqlLineage

ROWS = [(n, None if n % 6 == 5 else n % 6, n % 4, f"t{n % 3}") for n in range(30)]


@pytest.fixture(scope="module", autouse=True)
def orders(tiny: SparkSession) -> None:
    """Thirty orders of five days, some of no day, and the shops they are from."""
    tables.view(tiny, "orders", ROWS, "id bigint, day int, shop int, kind string")
    tables.view(tiny, "shops", [(shop, f"town {shop}") for shop in range(3)], "shop int, town string")
    tiny.udf.register("same", F.udf(lambda value: value, IntegerType()))


@pytest.fixture(autouse=True)
def of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike_branches, "LEAST", 3)


def union(*branches: str, how: str = "UNION ALL") -> str:
    return f" {how} ".join(branches)


def each(text: str, numbers: Sequence[object] = (0, 1, 2, 3, 4)) -> str:
    return union(*[text.format(n=n) for n in numbers])


DAYS = each("SELECT * FROM orders WHERE day = {n}")
SUMS = each("SELECT day, shop, sum(id) total FROM orders WHERE day = {n} GROUP BY day, shop")
NAMED = each("SELECT id, {n} AS part, kind FROM orders WHERE shop = {n} % 4 AND id > 3 * {n}", (1, 2, 3, 4, 5))
OVERLAPPING = each("SELECT id, shop FROM orders WHERE id < {n}", (3, 9, 9, 27))
TEXTS = each("SELECT id, shop FROM orders WHERE kind = '{n}'", ("t0", "t2", "none"))
TOTALS = each("SELECT {n} AS day, count(*) AS n, sum(id) AS total FROM orders WHERE day = {n}", (1, 2, 3, 9))
JOINED = each("SELECT id, town FROM orders JOIN shops USING (shop) WHERE day = {n} AND shops.shop < {n}")
NO_DAY = union(DAYS, "SELECT * FROM orders WHERE day IS NULL")
KINDS = union(DAYS, each("SELECT id, shop, day, kind FROM orders WHERE shop = {n}", (1, 2, 3)))
NULLS = each("SELECT id, {n} AS day FROM orders WHERE day = {n}", ("1", "CAST(NULL AS INT)", "3", "4"))
COUNT = "SELECT shop, count(*) AS n FROM ({}) GROUP BY shop"
FAILING = "SELECT * FROM (SELECT *, 20 / (id - 5) AS x FROM orders) WHERE day = {n}"
SUM = "SELECT shop, sum(total) AS total FROM ({}) GROUP BY shop"

# The query, what is asked of it, and how many places in it read then.
CASES: dict[str, tuple[str, str, int]] = {
    "filters": (DAYS, "shop = 1", 1),
    "filters, all of their rows": (DAYS, "true", 1),
    "sums": (SUMS, "shop = 1", 1),
    "sums, by what they come to": (SUMS, "total > 20", 1),
    "a sum over sums": (SUM.format(SUMS), "shop = 1", 1),
    "a sum over filters": (SUM.format(f"SELECT *, id AS total FROM ({DAYS})"), "shop IN (1, 2)", 1),
    "a sum that is sorted": (f"{SUM.format(SUMS)} ORDER BY total", "total > 1", 1),
    "several constants": (NAMED, "part > 1", 2),  # the first is passed by
    "one row in several branches": (OVERLAPPING, "shop = 1", 1),
    "one row in several branches, counted": (COUNT.format(OVERLAPPING), "shop = 1", 1),
    "texts": (TEXTS, "shop = 2", 1),
    "totals": (TOTALS, "n >= 0", 1),
    "joins": (JOINED, "town = 'town 1'", 2),
    "others beside them": (NO_DAY, "shop = 1", 2),
    "others before them": (union("SELECT id, shop, day, kind FROM orders WHERE day IS NULL", DAYS), "id > 4", 2),
    "two kinds": (KINDS, "id < 20", 2),
    "passed by beside them": (KINDS, "kind = 't1' AND day IN (1, 2, 3)", 4),
    "distinct": (f"SELECT DISTINCT shop, kind FROM ({DAYS})", "shop = 1", 1),
    "joined with others": (f"SELECT t.*, town FROM ({DAYS}) t JOIN shops USING (shop)", "town = 'town 1'", 2),
    "who is not there": (f"SELECT * FROM shops LEFT ANTI JOIN ({SUMS}) t USING (shop)", "true", 2),
    "twice": (f"SELECT id, total FROM ({DAYS}) JOIN ({SUMS}) USING (day, shop)", "id < 9", 2),
    "NULL for a constant": (NULLS, "id < 20", 2),  # which is passed by
    "below an outer join": (f"SELECT shop, id FROM shops LEFT JOIN ({DAYS}) USING (shop)", "shop = 1", 2),
}
# Left as they are: the answer might fail, or be another one.
ALONE: dict[str, tuple[str, str]] = {
    "a test that may fail": (DAYS, "20 / id > 1"),
    "a column that may fail": (f"SELECT *, 20 / id AS x FROM ({DAYS})", "x > 1"),
    "what is tested may fail": (each(FAILING), "shop = 1"),
    "functions of the user's": (each("SELECT * FROM orders WHERE same(day) = {n}"), "shop = 1"),
    "subqueries": (each("SELECT * FROM orders WHERE day = {n} AND id > (SELECT min(shop) FROM shops)"), "shop = 1"),
    "numbers of rows": (f"SELECT *, row_number() OVER (PARTITION BY shop ORDER BY id) AS r FROM ({DAYS})", "shop = 1"),
    "few": (each("SELECT * FROM orders WHERE day = {n}", (1, 2)), "shop = 1"),
}


def told(df: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in df.collect())


# Of these everything is asked, of the others what the rows come from.
EVERYTHING = (
    *("filters", "sums", "a sum over sums", "one row in several branches", "totals", "joins"),
    *("others beside them", "two kinds", "twice"),
)


def answers(w: whence.Session, asked: DataFrame, report: DataFrame, *, everything: bool) -> dict[str, Any]:
    trace = w.backward(asked)
    found: dict[str, Any] = {
        "sources": {name: told(rows) for name, rows in trace.sources.items()},
        "counts": dict(trace.witness_counts),
        "replay": told(trace.replay()),
        "exact": trace.exact,
    }
    if everything:
        by_output: dict[int, set[tuple[str, str]]] = {}
        for output, source, record in trace.associations().collect():
            by_output.setdefault(output, set()).add((source, record))
        found["associations"] = Counter(map(frozenset, by_output.values()))
        found["proven"] = trace.verify().ok
        found["without"] = told(trace.exclude())
        found["report without"] = told(trace.exclude(report))
        found["report alone"] = told(trace.replay(report))
        assert str(trace)
    return found


@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_each_branch(
    w: whence.Session, tiny: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    query, condition, places = CASES[name]
    report = tiny.sql(query)
    asked = report.where(condition)
    lineage = SqlLineage(w._plans(), asked, all_rows=True)
    assert len([place for place in lineage.readings if not place.auxiliary]) == places
    found = answers(w, asked, report, everything=name in EVERYTHING)
    monkeypatch.setattr(alike_branches, "LEAST", 1_000)
    assert found == answers(w, asked, report, everything=name in EVERYTHING)
    assert found.get("proven", True)
    assert found["exact"]
    assert found["replay"] == told(asked)


def test_a_row_that_is_left_out_of_one_branch_stays_in_the_others(w: whence.Session, tiny: SparkSession) -> None:
    report = tiny.sql(each("SELECT id, shop, {n} AS part FROM orders WHERE id < {n}", (3, 9, 27)))
    trace = w.backward(report.where("part <> 9 AND id = 2"))
    assert sorted(tuple(row) for row in trace.exclude(report.where("id = 2")).collect()) == [(2, 2, 9)]
    assert told(trace.replay(report)) == Counter({(2, 2, 3): 1, (2, 2, 27): 1})


def test_rows_at_an_operator_are_left_out_of_another_query(w: whence.Session, tiny: SparkSession) -> None:
    report = tiny.sql(SUM.format(SUMS))
    trace = w.backward(report.where("shop = 1"))
    (step, *_) = [step for step in trace.steps if step.operator == "Aggregate"]
    assert told(trace.exclude(report, at=step)) == told(report.where("shop <> 1"))


def test_influence_is_that_of_each_branch(
    w: whence.Session, tiny: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tiny.sql(SUM.format(SUMS)).where("shop = 1")
    found = told(w.backward(asked).influence("total"))
    monkeypatch.setattr(alike_branches, "LEAST", 1_000)
    assert found == told(w.backward(asked).influence("total"))


def test_partitions_are_left_out_as_each_branch_would(w: whence.Session, tiny: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "days")
    tiny.table("orders").write.partitionBy("day").parquet(place)
    days = tiny.read.parquet(place)

    def read(test: str) -> list[str]:
        report = reduce(DataFrame.unionAll, [days.where(test.format(n)) for n in (1, 2, 3)])
        lineage = SqlLineage(w._plans(), report.where("shop >= 0"), all_rows=True)
        planned = lineage.c.frame(lineage.root.annotated.plan)._jdf.queryExecution().executedPlan()
        return str(planned.toString()).split("\n")

    hints = {"day = {}": "IN (1,2,3)", "day > {}": "> 1)", "{} > day": "(3 > day", "day <= {}": "<= 3)"}
    for test, filters in hints.items():
        (scan,) = [line for line in read(test) if "FileScan" in line]
        assert filters in scan.partition("PartitionFilters: ")[2].partition("PushedFilters")[0]
    assert len([line for line in read("day <> {}") if "FileScan" in line]) == 3


@pytest.mark.parametrize("name", ALONE)
def test_branches_that_stay_apart(w: whence.Session, tiny: SparkSession, name: str) -> None:
    query, condition = ALONE[name]
    asked = tiny.sql(query).where(condition)
    before = len(SqlLineage(w._plans(), asked).readings)
    assert len(SqlLineage(w._plans(), asked, all_rows=True).readings) == before


def test_two_states_of_one_path_stay_apart(w: whence.Session, tiny: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "grown")
    for name, first in (("before", 0), ("after", 3)):
        tiny.range(first, first + 3).coalesce(1).write.mode("append").parquet(place)
        tiny.read.parquet(place).createOrReplaceTempView(name)
    report = tiny.sql(union(*[each(f"SELECT id FROM {name} WHERE id <> {{n}}") for name in ("before", "after")]))
    trace = w.backward(report.where("id = 2"))
    of_each = [reading.rows.count() for reading in trace.readings]
    assert len([count for count in of_each if count]) > 1  # or one of them would stand for both
    assert told(trace.replay()) == Counter({(2,): 4 + 4})
    assert told(w.backward(report.where("id = 5")).replay()) == Counter({(5,): 5})
