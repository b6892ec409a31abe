"""A second implementation of RDD lineage, too simple to be wrong: lists of (record, set of source records), one
operator at a time. A program is a list of operator names; both sides run it on records (int, int)."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

Row = tuple[Any, frozenset[Any]]
Rows = list[Row]


def pair(record: Any) -> tuple[int, int]:
    """Any record as a small (key, value) again, the same on both sides."""
    flat: list[int] = []

    def walk(x: Any) -> None:
        if x is None:
            flat.append(7)
        elif isinstance(x, int):
            flat.append(x)
        else:
            for y in x:
                walk(y)

    walk(record)
    return (flat[0] if flat else 0) % 5, (sum(flat) * 31 + len(flat)) % 11


def together(*ids: frozenset[Any]) -> frozenset[Any]:
    return frozenset().union(*ids)


def groups(*sides: Rows) -> dict[Any, list[Rows]]:
    found: dict[Any, list[Rows]] = {}
    for number, rows in enumerate(sides):
        for (k, v), ids in rows:
            found.setdefault(k, [[] for _ in sides])[number].append((v, ids))
    return found


def joined(left: bool, right: bool) -> Callable[[Rows, Rows], Rows]:
    nobody: Rows = [(None, frozenset())]

    def run(a: Rows, b: Rows) -> Rows:
        return [
            ((k, (v, w)), together(i, j))
            for k, (vs, ws) in groups(a, b).items()
            for v, i in vs or (nobody if right else [])
            for w, j in ws or (nobody if left else [])
        ]

    return run


def aggregated(rows: Rows) -> Rows:
    return [((k, sum(v for v, _ in vs)), together(*(i for _, i in vs))) for k, (vs,) in groups(rows).items()]


def distinct(rows: Rows) -> Rows:
    found: dict[Any, list[frozenset[Any]]] = {}
    for record, ids in rows:
        found.setdefault(record, []).append(ids)
    return [(record, together(*ids)) for record, ids in found.items()]


def members(group: tuple[Any, Any]) -> tuple[Any, Any]:
    return group[0], sorted(group[1])


def both(group: tuple[Any, Any]) -> tuple[Any, Any]:
    return group[0], [sorted(side) for side in group[1]]


# name -> (on an RDD, on the oracle's rows)
ONE: dict[str, tuple[Callable[[Any], Any], Callable[[Rows], Rows]]] = {
    "map": (lambda r: r.map(lambda x: (x[1], x[0])), lambda rows: [((v, k), i) for (k, v), i in rows]),
    "filter": (lambda r: r.filter(lambda x: x[1] % 3), lambda rows: [x for x in rows if x[0][1] % 3]),
    "flatMap": (
        lambda r: r.flatMap(lambda x: [x] * (x[1] % 3)),
        lambda rows: [x for x in rows for _ in range(x[0][1] % 3)],
    ),
    "flatMap generator": (
        lambda r: r.flatMap(lambda x: ((x[0] + n, x[1]) for n in range(x[1] % 4))),
        lambda rows: [((k + n, v), i) for (k, v), i in rows for n in range(v % 4)],
    ),
    "mapValues": (lambda r: r.mapValues(lambda v: v + 1), lambda rows: [((k, v + 1), i) for (k, v), i in rows]),
    "flatMapValues": (
        lambda r: r.flatMapValues(lambda v: range(v % 3)),
        lambda rows: [((k, n), i) for (k, v), i in rows for n in range(v % 3)],
    ),
    "reduceByKey": (lambda r: r.reduceByKey(lambda a, b: a + b), aggregated),
    "foldByKey": (lambda r: r.foldByKey(0, lambda a, b: a + b, 3), aggregated),
    "aggregateByKey": (lambda r: r.aggregateByKey(0, lambda a, b: a + b, lambda a, b: a + b), aggregated),
    "groupByKey": (
        lambda r: r.groupByKey().map(members),
        lambda rows: [
            ((k, sorted(v for v, _ in vs)), together(*(i for _, i in vs))) for k, (vs,) in groups(rows).items()
        ],
    ),
    "groupBy": (
        lambda r: r.groupBy(lambda x: x[1] % 2).map(members),
        lambda rows: [
            ((k, sorted(v for v, _ in vs)), together(*(i for _, i in vs)))
            for k, (vs,) in groups([((x[1] % 2, x), i) for x, i in rows]).items()
        ],
    ),
    "distinct": (lambda r: r.distinct(), distinct),
    "sortByKey": (lambda r: r.sortByKey(), lambda rows: rows),
    "sortBy": (lambda r: r.sortBy(lambda x: x[1], ascending=False), lambda rows: rows),
    "repartition": (lambda r: r.repartition(3), lambda rows: rows),
    "coalesce": (lambda r: r.coalesce(1), lambda rows: rows),
    "partitionBy": (lambda r: r.partitionBy(3), lambda rows: rows),
    "repartitionAndSort": (lambda r: r.repartitionAndSortWithinPartitions(2), lambda rows: rows),
    "cache": (lambda r: r.cache(), lambda rows: rows),
    "keyBy": (lambda r: r.keyBy(lambda x: x[1]), lambda rows: [((x[1], x), i) for x, i in rows]),
    "values": (lambda r: r.map(lambda x: (x[0], x)).values(), lambda rows: rows),
    "all of a key": (
        lambda r: r.partitionBy(2).reduceByKey(lambda a, b: a + b, 2),
        aggregated,
    ),
}
TWO: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Rows, Rows], Rows]]] = {
    "union": (lambda a, b: a.union(b), lambda a, b: a + b),
    "join": (lambda a, b: a.join(b), joined(False, False)),
    "leftOuterJoin": (lambda a, b: a.leftOuterJoin(b), joined(True, False)),
    "rightOuterJoin": (lambda a, b: a.rightOuterJoin(b), joined(False, True)),
    "fullOuterJoin": (lambda a, b: a.fullOuterJoin(b, 2), joined(True, True)),
    "co-partitioned join": (lambda a, b: a.partitionBy(2).join(b.partitionBy(2), 2), joined(False, False)),
    "cogroup": (
        lambda a, b: a.cogroup(b).map(both),
        lambda a, b: [
            ((k, [sorted(v for v, _ in side) for side in sides]), together(*(i for side in sides for _, i in side)))
            for k, sides in groups(a, b).items()
        ],
    ),
    "subtractByKey": (
        lambda a, b: a.subtractByKey(b),
        lambda a, b: [((k, v), i) for k, (vs, ws) in groups(a, b).items() if not ws for v, i in vs],
    ),
    "subtract": (
        lambda a, b: a.subtract(b),
        lambda a, b: [(x, i) for x, i in a if x not in {y for y, _ in b}],
    ),
    "intersection": (
        lambda a, b: a.intersection(b),
        lambda a, b: [
            (x, together(*(i for y, i in a + b if y == x)))
            for x in dict.fromkeys(y for y, _ in a)
            if any(y == x for y, _ in b)
        ],
    ),
    "cartesian": (
        lambda a, b: a.filter(lambda x: x[1] % 3 == 1).cartesian(b.filter(lambda x: x[1] % 3 == 2)),
        lambda a, b: [((x, y), together(i, j)) for x, i in a if x[1] % 3 == 1 for y, j in b if y[1] % 3 == 2],
    ),
}


def run(program: list[str], rdd: Any, rows: Rows, other: Any, other_rows: Rows) -> tuple[Any, Rows]:
    for name in program:
        if name in ONE:
            on_rdd, on_rows = ONE[name]
            rdd, rows = on_rdd(rdd), on_rows(rows)
        else:
            on_both, on_both_rows = TWO[name]
            rdd, rows = on_both(rdd, other), on_both_rows(rows, other_rows)
        rdd = rdd.map(pair)
        rows = [(pair(x), i) for x, i in rows]
    return rdd, rows


def plainly(program: list[str], rdd: Any, other: Any) -> Any:
    return reduce(lambda r, name: (ONE[name][0](r) if name in ONE else TWO[name][0](r, other)).map(pair), program, rdd)
