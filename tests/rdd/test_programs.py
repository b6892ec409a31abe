"""Generated programs against plain PySpark and the oracle (tests/fuzz/rdd_programs.py); and what they brought up."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException

from fuzz.rdd_local import HERE, check_locally, local_program
from fuzz.rdd_programs import Program, check, check_stages, program, programs
from whence.rdd import LineageContext


def test_three_filters(lc: LineageContext) -> None:
    made = lc.parallelize(range(100), 2).filter(lambda x: x % 2).filter(lambda x: x % 3).filter(lambda x: x % 5)
    assert made.collect() == [x for x in range(100) if x % 2 and x % 3 and x % 5]
    assert made.getLineage().goBackAll().collect() == made.collect()


def test_flat_map_filter_flat_map(lc: LineageContext) -> None:
    source = lc.parallelize(range(20), 2)
    made = source.flatMap(range).filter(lambda x: x > 2).flatMap(lambda x: (x, x))
    assert made.collect() == [x for n in range(20) for x in range(n) if x > 2 for _ in range(2)]
    assert made.getLineage().goBackAll().collect() == list(range(4, 20))
    assert source.filter(lambda x: x == 5).getLineage().goNextAll().collect() == [3, 3, 4, 4]


def test_a_function_that_stops_reading(lc: LineageContext) -> None:
    source = lc.parallelize(range(8), 1)
    made = source.flatMap(lambda x: [x, -x]).mapPartitions(lambda it: islice(it, 3))
    assert made.collect() == [0, 0, 1]
    assert source.filter(lambda x: x == 1).getLineage().goNextAll().collect() == [1]
    assert source.filter(lambda x: x > 1).getLineage().goNextAll().collect() == []


DEEP: dict[str, Callable[[Any], Any]] = {
    "map": lambda r: r.map(lambda x: x + 1),
    "filter": lambda r: r.filter(lambda x: x >= 0),
    "flatMap": lambda r: r.flatMap(lambda x: (x,)),
    "mapPartitions": lambda r: r.mapPartitions(lambda records: (x for x in records)),
}


@pytest.mark.parametrize("name", DEEP)
def test_four_hundred_steps(lc: LineageContext, name: str) -> None:
    made = lc.parallelize(range(6), 2)
    for _ in range(400):
        made = DEEP[name](made)
    assert made.collect() == [x + 400 if name == "map" else x for x in range(6)]
    assert made.getLineage().goBackAll().collect() == list(range(6))
    lc.capture = False
    assert isinstance(made._plain().getNumPartitions(), int)  # the plain RDD is made without a recursion as well


def test_programs_of_one_stage(lc: LineageContext) -> None:
    check_stages(lc, seed=1, count=400)


@pytest.mark.parametrize("seed", [11, 20, 26, 37, 50, 56])
def test_programs(lc: LineageContext, seed: int) -> None:
    check(lc, program(seed))


def test_programs_of_several_stages(lc: LineageContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # PySpark wants it set where it hashes; every worker has it
    for seed in range(40):
        check_locally(lc, local_program(seed))


@given(programs())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_programs_that_hypothesis_thinks_of(lc: LineageContext, given_program: Program) -> None:
    kept = tuple(name for name in given_program.names if name in HERE)
    with patch.dict(os.environ, PYTHONHASHSEED="0"):
        check_locally(lc, replace(given_program, names=kept))


@pytest.mark.parametrize("key", [[1], {"a": 1}, {2}])
def test_keys_that_cannot_be(lc: LineageContext, key: Any) -> None:
    said = []
    for context in (lc.spark, lc):
        # before 4.0 an RDD's error comes as py4j has it
        with pytest.raises((PythonException, Py4JJavaError), match="unhashable type") as failed:
            context.parallelize([(key, 1)], 1).reduceByKey(lambda a, b: a + b).collect()
        said.append([line for line in str(failed.value).splitlines() if line.startswith("TypeError")])
    assert said[0] == said[1]
