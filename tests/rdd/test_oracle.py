"""The contract: lineage equals the oracle's, for every output record backward and for every source record forward.

The oracle is that of generated programs (tests/fuzz/rdd_operators.py), of which test_programs.py runs some."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from fuzz.rdd_operators import NAMES, Carried
from fuzz.rdd_programs import Program, check
from whence.rdd import LineageContext, LineageRDD

LEFT = tuple((n % 4, n % 7) for n in range(14))
RIGHT = tuple((n % 3 + 1, n % 5) for n in range(9))


@pytest.mark.parametrize("name", NAMES)
def test_operator(lc: LineageContext, name: str) -> None:
    check(lc, Program((name,), LEFT, RIGHT), steps=False)


def parts_of(rdd: LineageRDD) -> list[list[Any]]:
    return rdd.ctx.spark.runJob(rdd._plain(), lambda it: [list(it)])


def named(rdd: LineageRDD, label: str, parts: list[list[Any]]) -> dict[tuple[int, int, int], tuple[str, int]]:
    """Where each record stands -> its name, as the oracle has it."""
    places = [(rdd.node.id, part, at) for part, records in enumerate(parts) for at in range(len(records))]
    return {place: (label, n) for n, place in enumerate(places)}


# Chains with trace points inside: what a forward trace from there touches, exactly.
NARROW = ["map", "filter", "flatMap", "flatMap generator", "mapValues", "flatMapValues", "keyBy"]
LAST = ["map", "reduceByKey", "groupByKey", "distinct", "join", "sortBy", "union", "coalesce", "cache"]


def check_inside(lc: LineageContext, chain: list[str], last: list[str], point: int, records: list[Any]) -> None:
    source, other = lc.parallelize(records, 2), lc.parallelize(records[::2], 2)
    inner = Program(tuple(chain[:point]), (), ()).build(source, other)
    siblings = Program(("flatMap generator",), (), ()).build(source, other)
    rest = Program((*chain[point:], *last), (), ())
    result = rest.build(inner, other)
    parts = parts_of(inner)
    names = named(inner, "inner", parts)
    rows = [record for part in parts for record in part]
    expected = carried_on(lc, rest, parts, records[::2])
    result.collect()
    siblings.count()  # another result of the same source, which the inner records did not lead to
    chosen = sorted({repr(record) for record in rows})[::2]
    ids = {("inner", n) for n, record in enumerate(rows) if repr(record) in chosen}
    wanted = Counter(repr(record) for record, own in expected if own & ids)
    assert len(names) == len(rows)
    asked = inner.filter(lambda x: repr(x) in chosen).getLineage()
    touched = asked.goNextAll()
    assert Counter(map(repr, touched.collect())) == wanted
    assert touched.exact, touched.notes
    back = result.getLineage().goBack(to=inner)
    reached = {name for _, own in expected for name in own} & set(names.values())
    assert Counter(map(repr, back.collect())) == Counter(repr(rows[n]) for _, n in reached)
    assert Counter(map(repr, back.goNextAll().collect())) == Counter(repr(x) for x, own in expected if own & reached)
    step = asked
    for _ in range(20):  # step by step it is the same way
        if step.state.keys() == touched.state.keys():
            break
        step = step.goNext()
    assert {p: x.tolist() for p, x in step.state.items()} == {p: x.tolist() for p, x in touched.state.items()}
    assert step.exact


def carried_on(lc: LineageContext, rest: Program, parts: list[list[Any]], other: list[Any]) -> list[Carried]:
    """What the rest of a program makes of records in the partitions where they stand."""
    numbers = iter(range(sum(map(len, parts))))
    carried = [[(x, frozenset([("inner", next(numbers))])) for x in part] for part in parts]
    a = lc.spark.parallelize(carried, len(parts)).flatMap(lambda part: part)
    b = lc.spark.parallelize([(x, frozenset([("other", n)])) for n, x in enumerate(other)], 2)
    for op in rest.ops():
        a = op.carried(a, b) if op.two else op.carried(a)
    found: list[Carried] = a.collect()
    return found


@settings(
    max_examples=6,
    phases=[Phase.explicit, Phase.generate],  # each example runs a dozen Spark jobs: shrinking takes minutes
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(st.sampled_from(NARROW), min_size=2, max_size=4),
    st.lists(st.sampled_from(LAST), max_size=2),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 10)), min_size=3, max_size=8),
)
def test_forward_from_inside(
    spark: SparkSession, tmp_path: Path, chain: list[str], last: list[str], point: int, records: list[Any]
) -> None:
    # A context for each example, which knows of no other example's results.
    lc = LineageContext(spark.sparkContext, str(tmp_path))
    check_inside(lc, chain, last, min(point, len(chain) - 1), records)
