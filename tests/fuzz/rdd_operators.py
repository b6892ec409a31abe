"""The operators of generated RDD programs, each written twice: as a user writes it, and over carried records."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pyspark import cloudpickle

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors do not see the tests' modules

Ids = frozenset[tuple[str, int]]
Carried = tuple[Any, Ids]  # a record and the source records it came from


def number(record: Any) -> int:
    """Of any record, the same on all sides."""
    if record is None:
        return 7
    if isinstance(record, float):
        return 3
    if isinstance(record, str):
        return len(record)
    if isinstance(record, int):
        return record
    return sum((at + 1) * number(part) for at, part in enumerate(record)) % 97


def pair(record: Any) -> tuple[int, int]:
    n = number(record)
    return n % 5, n % 11


def _swapped(kv: Any) -> Any:
    return kv[1], kv[0]


def _some(record: Any) -> Any:
    return [record] * (number(record) % 3)


def _yielded(record: Any) -> Iterator[Any]:
    for n in range(number(record) % 4):
        yield number(record) + n, n


def _odd(record: Any) -> bool:
    return number(record) % 2 == 1


def _third(record: Any) -> int:
    return number(record) % 3


def _mixed(a: Any, b: Any) -> int:
    return (number(a) * 31 + number(b)) % 101  # neither commutes nor associates: orders show


def _pairwise(records: Iterable[Any]) -> Iterator[Any]:
    last = None
    for record in records:
        if last is not None:
            yield number(last), number(record)
        last = record


def _first_three(records: Iterable[Any]) -> Iterator[Any]:
    return islice(iter(records), 3)


def _total(records: Iterable[Any]) -> Iterator[Any]:
    yield 0, sum(map(number, records)) % 97


def _indexed(split: int, records: Iterable[Any]) -> Iterator[Any]:
    return ((split, number(record)) for record in records)


def _together(*ids: Ids) -> Ids:
    return frozenset().union(*ids)


def _reading(f: Callable[[int, Any], Iterable[Any]]) -> Callable[[int, Iterable[Carried]], Iterator[Carried]]:
    """A function over a partition: each output comes from all that it had read by then."""

    def run(split: int, records: Iterable[Carried]) -> Iterator[Carried]:
        seen: set[Any] = set()

        def feed() -> Iterator[Any]:
            for record, ids in records:
                seen.update(ids)
                yield record

        for out in f(split, feed()):
            yield out, frozenset(seen)

    return run


def _lifted(f: Callable[[Any], Any]) -> Callable[[Carried], Carried]:
    return lambda xi: (f(xi[0]), xi[1])


def _keyed(rdd: Any) -> Any:
    """((k, v), ids) to (k, (v, ids)), for operators that look at keys."""
    return rdd.map(lambda xi: (xi[0][0], (xi[0][1], xi[1])))


def _back(rdd: Any) -> Any:
    return rdd.map(lambda kv: ((kv[0], kv[1][0]), kv[1][1]))


def _merged(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: (f(a[0], b[0]), a[1] | b[1])


def _listed(kv: Any) -> Any:
    return kv[0], list(kv[1])


def _lists(kv: Any) -> Any:
    return kv[0], [list(side) for side in kv[1]]


def _group(kv: Any) -> Carried:
    return (kv[0], [v for v, _ in kv[1]]), _together(*(i for _, i in kv[1]))


def _cogroup(kv: Any) -> Carried:
    sides = [list(side) for side in kv[1]]
    return (kv[0], [[v for v, _ in s] for s in sides]), _together(*(i for s in sides for _, i in s))


def _joined(kv: Any) -> Carried:
    (v, i), (w, j) = (side if side is not None else (None, frozenset()) for side in kv[1])
    return (kv[0], (v, w)), i | j


def _met(ab: tuple[Carried, Carried]) -> Carried:
    (x, i), (y, j) = ab
    return (x, y), i | j


def _of(rdd: Any) -> Any:
    return rdd.map(lambda xi: (xi[0], xi[1]))


def _both(kv: Any) -> Carried:
    left, right = kv[1]
    return kv[0], _together(*left, *right)


def _checkpointed(rdd: Any) -> Any:
    made = rdd.map(operator.itemgetter(slice(None)))  # a step of its own, which the checkpoint keeps
    made.localCheckpoint()
    return made


@dataclass(frozen=True)
class Op:
    """One operator: as a user writes it, and over carried records. `pairs`: it needs (key, value) records; `gives`: it
    gives such; `hashed`: its records are keys."""

    plain: Callable[..., Any]
    carried: Callable[..., Any]
    pairs: bool = False
    gives: bool | None = None  # None: what it was given
    hashed: bool = False
    two: bool = False
    grows: bool = False


ONE: dict[str, Op] = {
    "map": Op(lambda r: r.map(pair), lambda r: r.map(_lifted(pair)), gives=True),
    "swap": Op(lambda r: r.map(_swapped), lambda r: r.map(_lifted(_swapped)), pairs=True),
    "filter": Op(lambda r: r.filter(_odd), lambda r: r.filter(lambda xi: _odd(xi[0]))),
    "filter by number": Op(lambda r: r.filter(_third), lambda r: r.filter(lambda xi: _third(xi[0]))),
    "flatMap": Op(
        lambda r: r.flatMap(_some), lambda r: r.flatMap(lambda xi: [(y, xi[1]) for y in _some(xi[0])]), grows=True
    ),
    "flatMap generator": Op(
        lambda r: r.flatMap(_yielded),
        lambda r: r.flatMap(lambda xi: [(y, xi[1]) for y in _yielded(xi[0])]),
        gives=True,
        grows=True,
    ),
    "mapValues": Op(
        lambda r: r.mapValues(number), lambda r: r.map(_lifted(lambda kv: (kv[0], number(kv[1])))), pairs=True
    ),
    "flatMapValues": Op(
        lambda r: r.flatMapValues(_some),
        lambda r: r.flatMap(lambda xi: [((xi[0][0], y), xi[1]) for y in _some(xi[0][1])]),
        pairs=True,
        grows=True,
    ),
    "flatMapValues generator": Op(
        lambda r: r.flatMapValues(_yielded),
        lambda r: r.flatMap(lambda xi: [((xi[0][0], y), xi[1]) for y in _yielded(xi[0][1])]),
        pairs=True,
        grows=True,
    ),
    "keyBy": Op(lambda r: r.keyBy(_third), lambda r: r.map(_lifted(lambda x: (_third(x), x))), gives=True),
    "keys": Op(lambda r: r.keys(), lambda r: r.map(_lifted(operator.itemgetter(0))), pairs=True, gives=False),
    "values": Op(lambda r: r.values(), lambda r: r.map(_lifted(operator.itemgetter(1))), pairs=True, gives=False),
    "mapPartitions": Op(
        lambda r: r.mapPartitions(_pairwise),
        lambda r: r.mapPartitionsWithIndex(_reading(lambda _, it: _pairwise(it))),
        gives=True,
    ),
    "mapPartitions early": Op(
        lambda r: r.mapPartitions(_first_three),
        lambda r: r.mapPartitionsWithIndex(_reading(lambda _, it: _first_three(it))),
    ),
    "mapPartitions total": Op(
        lambda r: r.mapPartitions(_total),
        lambda r: r.mapPartitionsWithIndex(_reading(lambda _, it: _total(it))),
        gives=True,
    ),
    "mapPartitionsWithIndex": Op(
        lambda r: r.mapPartitionsWithIndex(_indexed),
        lambda r: r.mapPartitionsWithIndex(_reading(_indexed)),
        gives=True,
    ),
    "glom": Op(lambda r: r.glom(), lambda r: r.mapPartitionsWithIndex(_reading(lambda _, it: [list(it)])), gives=False),
    "zipWithIndex": Op(
        lambda r: r.zipWithIndex(), lambda r: r.zipWithIndex().map(lambda xn: ((xn[0][0], xn[1]), xn[0][1])), gives=True
    ),
    "zipWithUniqueId": Op(
        lambda r: r.zipWithUniqueId(),
        lambda r: r.zipWithUniqueId().map(lambda xn: ((xn[0][0], xn[1]), xn[0][1])),
        gives=True,
    ),
    "zip with itself": Op(
        lambda r: r.zip(r.map(number)), lambda r: r.zip(r.map(_lifted(number))).map(_met), gives=True
    ),
    "sample": Op(lambda r: r.sample(False, 0.6, 11), lambda r: r.sample(False, 0.6, 11)),
    "sample with replacement": Op(lambda r: r.sample(True, 1.2, 5), lambda r: r.sample(True, 1.2, 5), grows=True),
    "union with itself": Op(lambda r: r.union(r), lambda r: r.union(r), grows=True),
    "coalesce": Op(lambda r: r.coalesce(2), lambda r: r.coalesce(2)),
    "repartition": Op(lambda r: r.repartition(3), lambda r: r.repartition(3)),
    "cache": Op(lambda r: r.map(pair).cache(), lambda r: r.map(_lifted(pair)).cache(), gives=True),
    "checkpoint": Op(lambda r: _checkpointed(r.map(tuple_of)), lambda r: r.map(_lifted(tuple_of)), gives=False),
    "distinct": Op(lambda r: r.distinct(), lambda r: r.reduceByKey(operator.or_), hashed=True),
    "sortBy": Op(lambda r: r.sortBy(number), lambda r: r.sortBy(lambda xi: number(xi[0]))),
    "sortByKey": Op(
        lambda r: r.sortByKey(False, 3, number),
        lambda r: _back(_keyed(r).sortByKey(False, 3, number)),
        pairs=True,
    ),
    "partitionBy": Op(
        lambda r: r.partitionBy(3, number), lambda r: _back(_keyed(r).partitionBy(3, number)), pairs=True
    ),
    "repartitionAndSort": Op(
        lambda r: r.repartitionAndSortWithinPartitions(2, number, True, number),
        lambda r: _back(_keyed(r).repartitionAndSortWithinPartitions(2, number, True, number)),
        pairs=True,
    ),
    "groupBy": Op(
        lambda r: r.groupBy(_third).map(_listed),
        lambda r: r.groupBy(lambda xi: _third(xi[0])).map(_group),
        gives=True,
    ),
    "groupByKey": Op(
        lambda r: r.groupByKey().map(_listed), lambda r: _keyed(r).groupByKey().map(_group), pairs=True, hashed=True
    ),
    "reduceByKey": Op(
        lambda r: r.reduceByKey(_mixed),
        lambda r: _back(_keyed(r).reduceByKey(_merged(_mixed))),
        pairs=True,
        hashed=True,
    ),
    "reduceByKey sum": Op(
        lambda r: r.mapValues(number).reduceByKey(operator.add),
        lambda r: _back(_keyed(r).mapValues(lambda v: (number(v[0]), v[1])).reduceByKey(_merged(operator.add))),
        pairs=True,
        hashed=True,
    ),
    "combineByKey": Op(
        lambda r: r.combineByKey(number, _mixed, _mixed, 3),
        lambda r: _back(_keyed(r).combineByKey(lambda v: (number(v[0]), v[1]), _merged(_mixed), _merged(_mixed), 3)),
        pairs=True,
        hashed=True,
    ),
    "aggregateByKey": Op(
        lambda r: r.aggregateByKey(1, _mixed, _mixed),
        lambda r: _back(_keyed(r).aggregateByKey((1, frozenset()), _merged(_mixed), _merged(_mixed))),
        pairs=True,
        hashed=True,
    ),
    "foldByKey": Op(
        lambda r: r.foldByKey(2, _mixed),
        lambda r: _back(_keyed(r).foldByKey((2, frozenset()), _merged(_mixed))),
        pairs=True,
        hashed=True,
    ),
    "partitioned twice": Op(
        lambda r: r.partitionBy(2).reduceByKey(_mixed, 2),
        lambda r: _back(_keyed(r).partitionBy(2).reduceByKey(_merged(_mixed), 2)),
        pairs=True,
        hashed=True,
    ),
    "join with itself": Op(
        lambda r: r.filter(_odd).join(r.mapValues(number)),
        lambda r: (
            _keyed(r.filter(lambda xi: _odd(xi[0])))
            .join(_keyed(r).mapValues(lambda v: (number(v[0]), v[1])))
            .map(_joined)
        ),
        pairs=True,
        hashed=True,
        grows=True,
    ),
}


def tuple_of(record: Any) -> Any:
    return (number(record), record)


def _join(name: str, *args: Any) -> Op:
    return Op(
        lambda a, b: getattr(a, name)(b, *args),
        lambda a, b: getattr(_keyed(a), name)(_keyed(b), *args).map(_joined),
        pairs=True,
        hashed=True,
        two=True,
        gives=True,
        grows=True,
    )


TWO: dict[str, Op] = {
    "union": Op(lambda a, b: a.union(b), lambda a, b: a.union(b), two=True),
    "join": _join("join"),
    "leftOuterJoin": _join("leftOuterJoin", 3),
    "rightOuterJoin": _join("rightOuterJoin"),
    "fullOuterJoin": _join("fullOuterJoin", 1),
    "partitioned join": Op(
        lambda a, b: a.partitionBy(2).join(b.partitionBy(2), 2),
        lambda a, b: _keyed(a).partitionBy(2).join(_keyed(b).partitionBy(2), 2).map(_joined),
        pairs=True,
        hashed=True,
        two=True,
        grows=True,
    ),
    "cogroup": Op(
        lambda a, b: a.cogroup(b).map(_lists),
        lambda a, b: _keyed(a).cogroup(_keyed(b)).map(_cogroup),
        pairs=True,
        hashed=True,
        two=True,
    ),
    "subtractByKey": Op(
        lambda a, b: a.subtractByKey(b),
        lambda a, b: _back(_keyed(a).subtractByKey(_keyed(b))),
        pairs=True,
        hashed=True,
        two=True,
    ),
    "subtract": Op(lambda a, b: a.subtract(b), lambda a, b: _of(a).subtractByKey(_of(b)), hashed=True, two=True),
    "intersection": Op(
        lambda a, b: a.intersection(b),
        lambda a, b: a.cogroup(b).filter(lambda kv: all(map(len, kv[1]))).map(_both),
        hashed=True,
        two=True,
    ),
    "cartesian": Op(
        lambda a, b: a.filter(_third).cartesian(b.filter(_odd)),
        lambda a, b: a.filter(lambda xi: _third(xi[0])).cartesian(b.filter(lambda xi: _odd(xi[0]))).map(_met),
        two=True,
        gives=True,
        grows=True,
    ),
}
ALL = {**ONE, **TWO}
NAMES = tuple(ALL)
NARROW = tuple(NAMES[: NAMES.index("coalesce")])
