"""Unions of many branches: what rows carry stays as narrow as with two, and every branch keeps its own witnesses."""

from __future__ import annotations

from functools import partial, reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from whence.spark.catalyst import FEW_ROWS
from whence.sql import Catalyst, SqlLineage, branches, evaluation, forward
from whence.sql.blocks import Lookup

BRANCHES = 6  # more than are looked up one by one


@pytest.fixture(scope="module")
def birds(tiny: SparkSession) -> DataFrame:
    tiny.range(24).selectExpr("id", "id % 3 k").createOrReplaceTempView("birds")
    return tiny.table("birds")


@pytest.fixture(scope="module")
def bees(tiny: SparkSession) -> DataFrame:
    # A range and an RDD are told by different numbers of columns of identity. Every branch reads it with a worker of
    # Python's for each partition: one is enough.
    rows = tiny.sparkContext.parallelize([(100 + i, i % 2) for i in range(6)], 1)
    tiny.createDataFrame(rows, "id bigint, k bigint").createOrReplaceTempView("bees")
    return tiny.table("bees")


def in_parts(df: DataFrame) -> list[DataFrame]:
    return [df.where(f"id % {BRANCHES} = {i}") for i in range(BRANCHES)]


def union(parts: list[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, parts)


def ids(df: DataFrame) -> list[int]:
    return sorted(row.id for row in df.select("id").collect())


def ids_of_each(frames: dict[int, DataFrame]) -> dict[int, list[int]]:
    """One job for all of them."""
    found: dict[int, list[int]] = {number: [] for number in frames}
    for number, one in union([frame.select(F.lit(number), "id") for number, frame in frames.items()]).collect():
        found[number].append(one)
    return {number: sorted(rows) for number, rows in found.items()}


def test_rows_of_a_union_carry_as_much_with_many_branches_as_with_two(
    tiny: SparkSession, birds: DataFrame, bees: DataFrame
) -> None:
    c = Catalyst(tiny)
    few = SqlLineage(c, union([birds, bees])).root.annotated
    many = SqlLineage(c, union([*in_parts(birds), *in_parts(bees)])).root.annotated
    assert len(many.links) == 2 * BRANCHES
    assert len(many.attrs) == len(few.attrs)


def test_each_branch_has_its_own_witnesses(w: whence.Session, birds: DataFrame, bees: DataFrame) -> None:
    everything = union([*in_parts(birds), *in_parts(bees), birds.groupBy("k").count().selectExpr("count id", "k")])
    trace = w.backward(everything.where("id in (3, 102)"))
    assert {name: ids(trace[name]) for name in trace.sources} == {"birds": [3], "bees": [102]}
    assert dict(trace.witness_counts) == {"birds": 1, "bees": 1}
    of_each = ids_of_each({reading.number: reading.rows for reading in trace.readings})
    assert of_each == {n: [3] if n == 3 else [102] if n == BRANCHES + 102 % BRANCHES else [] for n in of_each}
    assert trace.verify().ok
    groups = w.backward(everything.where("id = 8 and k = 1"))
    assert ids(groups["birds"]) == list(range(1, 24, 3))
    assert ids(groups["bees"]) == []


def test_the_same_rows_by_two_branches_count_once(w: whence.Session, birds: DataFrame) -> None:
    twice = union([birds, birds.selectExpr("id", "k + 0"), birds]).groupBy("k").count()
    trace = w.backward(twice.where("k = 0"))
    assert dict(trace.witness_counts) == {"birds": 8}
    assert ids(trace["birds"]) == list(range(0, 24, 3))
    assert [row[0] for row in trace.associations().groupBy("output").count().select("count").collect()] == [8]


def test_forward_exclude_and_why_not_know_the_branch(w: whence.Session, birds: DataFrame, bees: DataFrame) -> None:
    everything = union([*in_parts(birds), *in_parts(bees)])
    report = everything.groupBy("k").count()
    # Row 0 of the one and row 0 of the other have the same number.
    assert ids(w.forward(birds.where("id = 0"), to=everything).rows) == [0]
    assert ids(w.forward(bees.where("id = 100"), to=everything).rows) == [100]
    assert [row.k for row in w.forward(birds.where("id = 2"), to=report).rows.collect()] == [2]
    without = w.backward(birds.where("id < 12")).exclude(report)
    assert {row.k: row["count"] for row in without.collect()} == {0: 4 + 3, 1: 4 + 3, 2: 4}
    dropped = w.why_not(birds.where("id = 5"), to=everything.where("id <> 5"))
    assert len(dropped) == BRANCHES  # one for each place that reads it
    assert [d.reason for d in dropped if "<>" in d.reason or "NOT" in d.reason] == [dropped[5].reason]


def test_operators_in_a_branch_show_the_rows_of_that_branch(
    w: whence.Session, birds: DataFrame, bees: DataFrame
) -> None:
    trace = w.backward(union([*in_parts(birds), *in_parts(bees)]).where("id in (3, 4, 102)"))
    filters = [step for step in trace.steps if step.operator == "Filter" and "%" in step.text]
    there = ids_of_each({step.number: trace.at(step) for step in filters})
    assert sorted(rows for rows in there.values() if rows) == [[3], [4], [102]]
    above = next(step for step in trace.steps if step.operator == "Union")
    assert ids(trace.at(above)) == [3, 4, 102]
    counts = dict(zip([step.number for step in trace.steps], trace.step_counts(), strict=True))
    assert {number: counts[number] for number in there} == {number: len(rows) for number, rows in there.items()}


def test_only_branches_that_hold_the_rows_are_followed(
    w: whence.Session, birds: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: list[object] = []
    look_up = evaluation._look_up

    def seen(found: evaluation.Evaluation, link: Lookup, *more: Any) -> None:
        followed.append(link)
        look_up(found, link, *more)

    monkeypatch.setattr(evaluation, "_look_up", seen)
    sums = [part.groupBy("k").agg(F.sum("id").alias("id")) for part in in_parts(birds)]
    trace = w.backward(union(sums).where("id = 48"))  # 3 + 9 + 15 + 21
    assert dict(trace.witness_counts) == {"birds": 4}
    assert ids(trace["birds"]) == [3, 9, 15, 21]
    assert len(followed) == 1
    assert ids_of_each({reading.number: reading.rows for reading in trace.readings}) == {
        n: [3, 9, 15, 21] if n == 3 else [] for n in range(BRANCHES)
    }
    assert trace.verify().ok
    assert trace.associations().count() == 4
    assert ids(trace.exclude(union(sums).where("id < 54"))) == [36, 40, 44, 52]
    groups = [step for step in trace.steps if step.operator == "Aggregate"]
    counts = dict(zip([step.number for step in trace.steps], trace.step_counts(), strict=True))
    assert [counts[step.number] for step in groups] == [1 if n == 3 else 0 for n in range(BRANCHES)]
    there = ids_of_each({n: trace.at(step) for n, step in enumerate(groups)})
    assert [len(there[n]) for n in range(BRANCHES)] == [1 if n == 3 else 0 for n in range(BRANCHES)]
    # A sum over sums, of which some are in the same branch of a union of unions.
    nested = union([union(sums[:4]), union(sums[4:]).distinct()]).groupBy("k").agg(F.sum("id").alias("id"))
    assert ids(w.backward(nested.where("k = 1"))["birds"]) == list(range(1, 24, 3))


# As many that no query of these tests has them.
NEVER = 1_000


@pytest.mark.parametrize("keys", ["k, id % 2", ""], ids=["two keys", "no key"])
def test_groups_of_many_branches_are_looked_up_in_one_query(
    w: whence.Session, birds: DataFrame, bees: DataFrame, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    """And what is found, forward too, is what one look-up after the other finds."""
    one_by_one: list[object] = []
    look_up, hit = evaluation._look_up, forward._hit_by_lookup

    def seen(do: Any, *given: Any) -> Any:
        one_by_one.extend(given[1].when)
        return do(*given)

    monkeypatch.setattr(evaluation, "_look_up", partial(seen, look_up))
    monkeypatch.setattr(forward, "_hit_by_lookup", partial(seen, hit))
    grouped = [F.expr(key) for key in keys.split(", ") if key]
    parts = [*in_parts(birds)[:5], *in_parts(bees)[:4], birds.where("id < 0")]
    sums = [
        part.groupBy(*grouped).agg(F.sum("id").alias("id"), F.count("k").alias("n")).select("id", "n") for part in parts
    ]
    report = union(sums).groupBy("n").agg(F.sum("id").alias("total"))
    some = union(sums).where("id % 4 = 0")
    deep = union([part.groupBy("n").max("id") for part in sums]).where("n > 0")

    def answers() -> list[object]:
        found: list[object] = []
        for asked in (report, report.where("n = 1"), some, deep):
            trace = w.backward(asked)
            found += [dict(trace.witness_counts), {name: ids(trace[name]) for name in trace.sources}]
            found.append(ids_of_each({reading.number: reading.rows for reading in trace.readings}))
        for to in (report, some, deep):
            found.append(sorted(map(str, w.forward(birds.where("id in (2, 6)"), to=to).rows.collect())))
        return found

    together = answers()
    assert not one_by_one
    assert w.backward(report.where("n = 1")).verify().ok
    trace = w.backward(some)
    groups = [step for step in trace.steps if step.operator == "Aggregate"][::4]
    at_groups = [trace.at(step).count() for step in groups]
    monkeypatch.setattr(branches, "MANY", NEVER)
    assert together == answers()
    assert one_by_one
    trace = w.backward(some)
    assert at_groups == [trace.at(step.number).count() for step in groups]


def test_unions_below_other_operators(w: whence.Session, birds: DataFrame, bees: DataFrame) -> None:
    """A union in the branch of a union, in an outer join, in a window, as text that nests one in the other."""
    inner = union([birds.where("k = 0"), bees]).where("id > 5")
    left = union([inner.distinct(), birds.where("id = 1"), inner])
    joined = left.join(union([bees, bees]).withColumnRenamed("id", "bee"), "k", "left")
    trace = w.backward(joined.where("id = 6"))
    assert {name: ids(trace[name]) for name in trace.sources} == {"birds": [6], "bees": [100, 102, 104]}
    assert trace.verify().ok
    text = " UNION ALL ".join(f"SELECT id, k FROM birds WHERE id = {i}" for i in range(60))
    nested = w.backward(w.spark.sql(text).where("id = 7"))
    assert ids(nested["birds"]) == [7]


def test_a_window_over_groups_of_which_none_is_left(w: whence.Session, birds: DataFrame) -> None:
    """What is computed to nothing on the driver keeps the ids of its columns."""
    w.spark.createDataFrame([(None,), (None,)], "a bigint").createOrReplaceTempView("nulls")
    query = """
        SELECT *, count(*) OVER (PARTITION BY a ORDER BY a) FROM (
            SELECT a, count(a) b, count(a) c FROM nulls GROUP BY a HAVING count(*) > 1
        ) WHERE b IS NULL"""
    trace = w.backward(w.spark.sql(query))
    assert trace.witness_counts == {"nulls": 0}
    assert trace.verify().ok


def test_a_semi_join_whose_condition_is_on_the_other_side_alone(w: whence.Session, birds: DataFrame) -> None:
    query = w.spark.sql("SELECT k, count(*) n FROM birds LEFT SEMI JOIN range(5) r ON r.id > 3 GROUP BY k")
    trace = w.backward(query.where("k = 1"))
    assert {name: ids(trace[name]) for name in trace.sources} == {"birds": list(range(1, 24, 3)), "r": [4]}
    assert trace.verify().ok


def test_forward_from_rows_that_only_decide_which_others_are_kept(
    w: whence.Session, birds: DataFrame, bees: DataFrame
) -> None:
    left = birds.join(bees, "k", "left_anti").groupBy("k").count()
    assert left.collect() != []
    assert w.forward(bees.where("id = 100"), to=left).rows.collect() == []


def test_exists_that_speaks_of_nothing_outside(w: whence.Session, birds: DataFrame, bees: DataFrame) -> None:
    text = "SELECT id FROM birds WHERE id = 3 AND"
    there = w.backward(w.spark.sql(f"{text} EXISTS (SELECT * FROM bees WHERE id > 103)"))
    assert {name: ids(there[name]) for name in there.sources} == {"birds": [3], "bees": [104, 105]}
    assert there.verify().ok
    none = w.backward(
        w.spark.sql("SELECT id FROM birds WHERE id = 3 AND NOT EXISTS (SELECT * FROM bees WHERE id > 200)")
    )
    assert {name: ids(none[name]) for name in none.sources} == {"birds": [3], "bees": []}
    assert none.verify().ok


def test_the_next_question_about_many_equal_joins(tiny: SparkSession, tmp_path: Path) -> None:
    """Spark gives the rows of a union of equal queries other columns than the union's own; they were computed for the
    first question, and are found again for the next one."""
    path = str(tmp_path / "orders")
    tiny.range(400).selectExpr("id", "id % 4 as shop").coalesce(1).write.parquet(path)
    orders = tiny.read.parquet(path)
    shops = tiny.range(4).withColumnRenamed("id", "shop")
    joined = orders.join(shops, "shop")
    totals = reduce(DataFrame.unionAll, [joined] * 4).groupBy("shop").count()
    with whence.attach(tiny, store=tmp_path / "store") as w:
        for shop in (1, 2, 3):
            assert w.backward(totals.where(f"shop = {shop}"))["orders"].count() == 100


def test_computed_rows_under_other_names_are_known_to_be_whole(tiny: SparkSession) -> None:
    c = Catalyst(tiny)
    kept = c.keep(c.plan_of(tiny.range(FEW_ROWS + 1)))
    assert not kept.local
    assert c.is_whole(kept.plan)
    assert c.is_whole(c.project([c.alias(a, "other") for a in c.output(kept.plan)], kept.plan))
