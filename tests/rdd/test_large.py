"""Large traces, with the line drawn low: the same answers by Spark jobs, which touch only what they need."""

from __future__ import annotations

from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whence
from fuzz.rdd_programs import Program, check
from whence.rdd import LineageContext, LineageMissing
from whence.rdd.wire import Origin, Tag
from whence.rdd.worker import in_order
from whence.spark.rdds import pruned


@pytest.mark.parametrize("program", [["flatMap", "groupByKey", "join"], ["cogroup", "reduceByKey"]])
def test_the_same_as_the_driver(lc: LineageContext, program: list[str]) -> None:
    lc.large = 0
    left, right = [(n % 3, n % 5) for n in range(5)], [(n % 3 + 1, n % 4) for n in range(4)]
    check(lc, Program(tuple(program), tuple(left), tuple(right)), steps=False)


def words(lc: LineageContext, path: Path) -> tuple[Any, Any]:
    path.write_text("".join(f"w{n} common w{n + 1}\n" for n in range(40)))
    lines = lc.textFile(str(path), 4)
    return lines, lines.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(add)


def test_records_stay_in_spark(lc: LineageContext, tmp_path: Path) -> None:
    lines, counts = words(lc, tmp_path / "text.txt")
    counts.collect()
    small = counts.filter(lambda kv: kv[0] in ("w3", "common")).getLineage()
    expected = small.goBackAll().collect()
    assert len(expected) == 40
    lc.large = 5
    large = counts.filter(lambda kv: kv[0] in ("w3", "common")).getLineage()
    assert large.goBackAll().collect() == expected
    assert large.goBackAll().map(str.upper).collect() == [line.upper() for line in expected]
    assert large.goBackAll().take(3) == expected[:3]
    assert large.goBack().collect() == small.goBack().collect()
    assert large.goBack().goBack().collect() == small.goBack().goBack().collect()
    assert large.goBackAll().exact
    touched = lines.filter(lambda line: "w3 " in line).getLineage().goNextAll()
    assert sorted(touched.collect()) == [("common", 40), ("w3", 2), ("w4", 2)]


def test_only_the_needed_partitions_are_run(lc: LineageContext) -> None:
    ran = lc.accumulator(0)
    numbers = lc.parallelize(range(100), 10).map(lambda x: (ran.add(1), x)[1])
    some = numbers.filter(lambda x: 20 <= x < 40).getLineage()
    assert some.count() == 20
    lc.large = 5
    before = ran.value
    assert some.collect() == list(range(20, 40))
    assert ran.value == before + 20
    assert pruned(lc.spark, lc.spark.parallelize(range(200), 100), [3, 64, 99]).collect() == [6, 7, 128, 129, 198, 199]


def test_a_job_says_what_is_missing(lc: LineageContext, tmp_path: Path) -> None:
    _, counts = words(lc, tmp_path / "text.txt")
    counts.collect()
    lc.large = 5
    traced = counts.getLineage()
    assert traced.count() == 42
    for file in Path(lc.book.directory).rglob("*-*"):
        file.unlink()
    with pytest.raises(LineageMissing, match="moved or removed"):
        traced.goBackAll().collect()


def test_what_is_run_again_arrives_as_before() -> None:
    """On a cluster shuffled blocks arrive as they come; positions mean something only in the order of the job."""
    rng = np.random.default_rng(3)
    whose = [Origin(7, part, 1, 0) for part in range(3)]
    chunks = [([f"{o.part}.{n}", f"{o.part}.{n + 1}"], Tag(o, n)) for n in range(0, 6, 2) for o in whose]
    order = [
        (Origin(7, 2, 0, 0), 0, 4),
        (Origin(7, 0, 0, 0), 0, 6),
        (Origin(7, 1, 0, 0), 0, 6),
        (Origin(7, 2, 0, 0), 4, 2),
    ]
    wanted = [f"{o.part}.{n}" for o, first, count in order for n in range(first, first + count)]
    for _ in range(5):
        mixed = [chunks[i] for i in rng.permutation(len(chunks))]
        assert [r for records, _ in in_order(mixed, order, False) for r in records] == wanted
    with pytest.raises(whence.WhenceError, match="does not give the same again"):
        list(in_order(chunks[:-1], order, False))
