"""The same results, order, types and exceptions as plain PySpark, where its own unit tests look for trouble.

PySpark's unit tests are not in its package on PyPI. These programs go after the same matters: mutable zero values,
serializers that differ, zips that do not fit, functions that raise StopIteration, empty RDDs, skew, pipes, iterators.
"""

from __future__ import annotations

import operator
import os
import re
from collections import defaultdict, namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.serializers import BatchedSerializer, CPickleSerializer, MarshalSerializer

from rdd import test_like_plain  # type: ignore[attr-defined]
from whence.rdd import LineageContext
from whence.rdd.worker import _hash
from whence.spark.names import portable_hash

cloudpickle.register_pickle_by_value(test_like_plain)

Point = namedtuple("Point", "x y")


def stop(*_: Any) -> Any:
    raise StopIteration


def tally(held: Any, x: int) -> Any:
    held[x % 3] += 1
    return held


def tallied(a: Any, b: Any) -> Any:
    for key, n in b.items():
        a[key] += n
    return a


def extended(a: list[Any], b: Any) -> list[Any]:
    a.extend(b if isinstance(b, list) else [b])
    return a


def keyed(c: Any) -> Any:
    return c.parallelize([(n % 4, n) for n in range(13)], 2)


def numbers(c: Any, n: int = 12, parts: int = 2) -> Any:
    return c.parallelize(range(n), parts)


PROGRAMS: dict[str, Callable[[Any, str], Any]] = {
    "ranges": lambda c, _: [c.range(1, 1).count(), c.range(1, 0, -1).count(), c.range(0, 1 << 40, 1 << 39).collect()],
    "nothing": lambda c, _: [c.emptyRDD().isEmpty(), c.emptyRDD().sum(), c.parallelize([]).sortByKey().collect()],
    "nothing to reduce": lambda c, _: c.emptyRDD().reduce(operator.add),
    "more partitions than records": lambda c, _: sorted(c.parallelize([1, 2]).repartition(7).toLocalIterator()),
    "a mutable zero": lambda c, _: [
        numbers(c).aggregate(defaultdict(int), tally, tallied),
        numbers(c).treeAggregate(defaultdict(int), tally, tallied, 2),
        c.parallelize([defaultdict(int, {1: 2}), defaultdict(int, {1: 3})], 2).fold(defaultdict(int), tallied),
    ],
    "a mutable zero of each key": lambda c, _: [
        keyed(c).aggregateByKey([], extended, extended).collect(),
        keyed(c).mapValues(lambda v: [v]).foldByKey([], extended).collect(),
        keyed(c).aggregateByKey(set(), lambda s, x: s | {x}, operator.or_).collect(),
    ],
    "itemgetter": lambda c, _: c.parallelize([(1, 2, 3)]).map(operator.itemgetter(2, 0)).collect(),
    "named tuples": lambda c, _: [type(p).__name__ + str(p.y) for p in c.parallelize([Point(1, 2)]).collect()],
    "a product of products": lambda c, _: [
        numbers(c, 3, 2).cartesian(numbers(c, 2, 2)).cartesian(numbers(c, 2, 1)).collect(),
        numbers(c, 3, 2).cartesian(numbers(c, 2, 2).zip(numbers(c, 2, 2))).collect(),
    ],
    "zips of zips": lambda c, _: [
        numbers(c).zip(numbers(c)).zip(numbers(c)).collect(),
        numbers(c).zip(numbers(c).zip(numbers(c).map(str))).collect(),
    ],
    "serializers that differ": lambda c, path: [
        numbers(c)
        ._reserialize(BatchedSerializer(CPickleSerializer(), 2))
        .zip(numbers(c)._reserialize(MarshalSerializer()))
        .collect(),
        c.textFile(path).zip(c.textFile(path).map(str)).collect(),
        c.textFile(path).cartesian(c.textFile(path)).count(),
    ],
    "sizes that differ": lambda c, _: (
        numbers(c, 300, 2).map(lambda n: "*" * n).zip(numbers(c, 300, 2).map(lambda n: "+" * (300 - n))).count()
    ),
    "partitions that do not fit": lambda c, _: numbers(c, 4, 2).zip(numbers(c, 4, 3)),
    "records that do not fit": lambda c, _: numbers(c, 5, 2).zip(numbers(c, 6, 2)).count(),
    "spread that does not fit": lambda c, _: (
        c.parallelize([2, 3], 2).flatMap(range).zip(c.parallelize([3, 2], 2).flatMap(range)).count()
    ),
    "histograms": lambda c, _: [
        c.parallelize([-0.01, 0.0, 1, 5, 11.01, 12.0, 200.0, None]).histogram([0.0, 5.0, 12.0, 200.0]),
        c.parallelize([1, 2]).histogram(5),
        c.parallelize(["ab", "ac", "b", "ef"], 2).histogram(["a", "b", "c"]),
    ],
    "a histogram without end": lambda c, _: c.parallelize([1, float("inf")]).histogram(2),
    "sorted within partitions": lambda c, _: [
        keyed(c).repartitionAndSortWithinPartitions(2, lambda k: k % 2, up).glom().collect() for up in (True, False)
    ],
    "nobody left out": lambda c, _: numbers(c, 1000, 2).repartition(6).glom().map(len).collect(),
    "sorted over all partitions": lambda c, _: [
        c.parallelize([(n * 59 % 101, n) for n in range(101)]).sortByKey(up, 5).glom().collect() for up in (True, False)
    ],
    "samples": lambda c, _: [
        numbers(c, 100, 4).sample(False, 0.1, 2).collect(),
        numbers(c, 100, 4).sample(True, 0.4, 11).collect(),
        numbers(c, 100, 4).takeSample(False, 5, 3),
        keyed(c).sampleByKey(False, {0: 0.5, 1: 1.0, 2: 0.2, 3: 0.9}, 7).collect(),
        [part.collect() for part in numbers(c, 50).randomSplit([2, 3], 17)],
    ],
    "through Java and back": lambda c, _: (
        numbers(c).map(lambda n: {"n": n})._to_java_object_rdd().count(),
        numbers(c).map(str)._jrdd.count() > 0,
    ),
    "pipes": lambda c, _: [
        sorted(c.parallelize(["\u6d4b\u8bd5", "1"], 2).pipe("cat").collect()),
        c.parallelize(["1", "2"], 2).pipe("grep 4").collect(),
    ],
    "a pipe that fails": lambda c, _: c.parallelize(["1", "2"], 2).pipe("grep 4", checkCode=True).collect(),
    "map stops": lambda c, _: numbers(c).map(stop).collect(),
    "filter stops": lambda c, _: numbers(c).filter(stop).collect(),
    "flatMap stops": lambda c, _: numbers(c, 3, 1).cartesian(numbers(c, 2, 1)).flatMap(stop).collect(),
    "foreach stops": lambda c, _: numbers(c).foreach(stop),
    "reduce stops": lambda c, _: numbers(c).reduce(stop),
    "fold stops": lambda c, _: numbers(c).fold(0, stop),
    "combining stops": lambda c, _: keyed(c).reduceByKey(stop).collect(),
    "combining here stops": lambda c, _: keyed(c).reduceByKeyLocally(stop),
    "an iterator that fails": lambda c, _: list(numbers(c).map(lambda n: 1 // (n - 5)).toLocalIterator()),
    "the first keys": lambda c, _: [
        keyed(c).lookup(2),
        keyed(c).partitionBy(2).lookup(3),
        keyed(c).countByKey(),
        keyed(c).values().countByValue(),
        keyed(c).top(3),
        keyed(c).takeOrdered(3, key=lambda kv: -kv[1]),
        keyed(c).max(key=lambda kv: kv[1]),
        numbers(c).stats().mergeStats(numbers(c, 5).stats()).mean(),
    ],
    "files": lambda c, path: [
        keyed(c).saveAsPickleFile(path + ".pickled"),
        sorted(c.pickleFile(path + ".pickled").collect()),
        keyed(c).saveAsSequenceFile(path + ".sequence"),
        sorted(c.sequenceFile(path + ".sequence").collect()),
        c.wholeTextFiles(path).values().collect(),
        c.binaryFiles(path).values().collect(),
    ],
}


def outcome(program: Callable[[Any, str], Any], context: Any, path: Path) -> Any:
    path.parent.mkdir(exist_ok=True)
    path.write_text("Hello World!\nand you\n")
    try:
        return repr(program(context, str(path)))
    except Exception as failed:
        last = re.findall(r"^\S*(?:Error|Exception)\b.*$", str(failed), re.MULTILINE)
        return type(failed), re.sub(r"\d+", "", last[-1]).strip() if last else None


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same(lc: LineageContext, tmp_path: Path, name: str) -> None:
    expected = outcome(PROGRAMS[name], lc.spark, tmp_path / "plain" / "text")
    assert outcome(PROGRAMS[name], lc, tmp_path / "lineage" / "text") == expected


PARTS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3), st.binary())


def tuples(inner: Any) -> Any:
    return st.lists(inner, max_size=4).map(tuple) | st.tuples(inner, inner).map(Point._make)


@given(st.recursive(PARTS, tuples))
def test_keys_go_where_plain_sends_them(key: Any) -> None:
    with patch.dict(os.environ, PYTHONHASHSEED="0"):  # PySpark wants it set; every worker has it
        assert _hash(key) == portable_hash(key)
