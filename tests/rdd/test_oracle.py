"""The contract: lineage equals the oracle's, for every output record backward and for every source record forward."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from rdd import oracle
from rdd.oracle import ONE, TWO, plainly, run
from whence.rdd import LineageContext, LineageRDD
from whence.rdd.capture import captured
from whence.rdd.walk import Place

cloudpickle.register_pickle_by_value(oracle)  # executors do not see the tests' modules

RECORDS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 10)), max_size=12)


def witnesses(rdd: LineageRDD, names: dict[tuple[int, int, int], Any]) -> list[frozenset[Any]]:
    """Of each record of an RDD, in order."""
    tables = rdd.ctx.book.tables
    found = []
    for key in captured(rdd):
        table = tables[key]
        for position in range(table.n_out):
            state = tables.back_all({Place(*key, table.last): np.array([position])}, lambda _: None)
            found.append(frozenset(names[p.stage, p.part, n] for p, ns in state.items() for n in ns.tolist()))
    return found


def touched(rdd: LineageRDD, names: dict[tuple[int, int, int], Any]) -> dict[Any, set[int]]:
    """Of each source record, the numbers of the result's records."""
    tables = rdd.ctx.book.tables
    results = list(captured(rdd))
    readers = tables.readers(results)
    first = dict(zip(results, np.cumsum([0] + [tables[k].n_out for k in results]).tolist(), strict=False))
    found: dict[Any, set[int]] = {}
    for (node, part, position), name in names.items():
        state = tables.forth_all(
            {Place(node, part, -1, 0): np.array([position])}, readers, set(results), lambda _: None
        )
        found[name] = {first[p[:3]] + n for p, ns in state.items() for n in ns.tolist()}
    return found


def named(rdd: LineageRDD, label: str) -> tuple[dict[tuple[int, int, int], Any], list[Any]]:
    parts = rdd.ctx.spark.runJob(rdd._plain(), lambda it: [list(it)])
    names, rows, n = {}, [], 0
    for part, records in enumerate(parts):
        for position, record in enumerate(records):
            names[rdd.node.id, part, position] = (label, n)
            rows.append((record, frozenset([(label, n)])))
            n += 1
    return names, rows


def check(lc: LineageContext, program: list[str], left: list[Any], right: list[Any]) -> None:
    a, b = lc.parallelize(left, 2), lc.parallelize(right, 3)
    names_a, rows_a = named(a, "a")
    names_b, rows_b = named(b, "b")
    names = {**names_a, **names_b}
    result, expected = run(program, a, rows_a, b, rows_b)
    records = result.collect()
    assert records == plainly(program, lc.spark.parallelize(left, 2), lc.spark.parallelize(right, 3)).collect()
    found = witnesses(result, names)
    assert Counter(zip(records, found, strict=True)) == Counter(expected)
    backward: dict[Any, set[int]] = {name: set() for name in names.values()}
    for number, ids in enumerate(found):
        for name in ids:
            backward[name].add(number)
    assert touched(result, names) == backward


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_operator(lc: LineageContext, name: str) -> None:
    check(lc, [name], [(n % 4, n % 7) for n in range(14)], [(n % 3 + 1, n % 5) for n in range(9)])


@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.sampled_from([*ONE, *TWO]), min_size=2, max_size=4), RECORDS, RECORDS)
def test_programs(lc: LineageContext, program: list[str], left: list[Any], right: list[Any]) -> None:
    check(lc, program, left, right)


# Chains with trace points inside: what a forward trace from there touches, exactly.
NARROW = ["map", "filter", "flatMap", "flatMap generator", "mapValues", "flatMapValues", "keyBy"]
LAST = ["map", "reduceByKey", "groupByKey", "distinct", "join", "sortBy", "union", "coalesce", "cache"]


def check_inside(lc: LineageContext, chain: list[str], last: list[str], point: int, records: list[Any]) -> None:
    source, other = lc.parallelize(records, 2), lc.parallelize(records[::2], 2)
    rows_b = named(other, "b")[1]
    rows_a = named(source, "a")[1]
    inner, _ = run(chain[:point], source, rows_a, other, rows_b)
    siblings, _ = run(["flatMap generator"], source, rows_a, other, rows_b)
    there, rows = named(inner, "inner")
    result, expected = run([*chain[point:], *last], inner, rows, other, rows_b)
    result.collect()
    siblings.count()  # another result of the same source, which the inner records did not lead to
    names = {name for _, ids in rows for name in ids}
    chosen = sorted({record for record, _ in rows})[::2]
    ids = {name for record, own in rows for name in own if record in chosen}
    wanted = Counter(record for record, own in expected if own & ids)
    assert names == set(there.values())
    asked = inner.filter(lambda x: x in chosen).getLineage()
    touched = asked.goNextAll()
    assert Counter(touched.collect()) == wanted
    assert touched.exact, touched.notes
    back = result.getLineage().goBack(to=inner)
    reached = {name for _, own in expected for name in own} & names
    assert Counter(back.collect()) == Counter(r for r, own in rows if own & reached)
    assert Counter(back.goNextAll().collect()) == Counter(r for r, own in expected if own & reached)
    step = asked
    for _ in range(20):  # step by step it is the same way
        if step.state.keys() == touched.state.keys():
            break
        step = step.goNext()
    assert {p: x.tolist() for p, x in step.state.items()} == {p: x.tolist() for p, x in touched.state.items()}
    assert step.exact


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
