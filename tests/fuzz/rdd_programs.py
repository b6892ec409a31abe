"""Generated RDD programs, and what their lineage must be.

The oracle is plain PySpark over records that carry the names of the source records they came from: each operator is
written twice, once as a user writes it and once over such pairs. So partitions, orders and draws are Spark's own.

A seed makes a program (`program(7)`), hypothesis makes and shrinks them (`programs()`), `check` runs one. Alone:
`python -m fuzz.rdd_programs --first 0 --count 1000`, in the folder of the tests.
"""

from __future__ import annotations

import operator
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice, product
from typing import Any

import numpy as np
from hypothesis import strategies as st
from pyspark import cloudpickle
from pyspark.rddsampler import RDDSampler

from whence.rdd import LineageContext, LineageRDD
from whence.rdd.capture import captured
from whence.rdd.stages import segments
from whence.rdd.walk import Place, State
from whence.rdd.worker import Stage

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


@dataclass(frozen=True)
class Program:
    names: tuple[str, ...]
    left: tuple[Any, ...]
    right: tuple[Any, ...]
    parts: tuple[int, int] = (2, 3)

    def ops(self) -> list[Op]:
        """With a step to pairs, or to records that can be keys, where the next operator needs them."""
        found: list[Op] = []
        pairs = hashable = True
        size = len(self.left) + len(self.right)
        for name in self.names:
            op = ALL[name]
            if (op.pairs and not pairs) or (op.hashed and not hashable) or (op.grows and size > 3000):
                found.append(ALL["map"])
                pairs = hashable = True
            if op.grows:
                if size > 3000:
                    found.append(Op(lambda r: r.sample(False, 0.01, 3), lambda r: r.sample(False, 0.01, 3)))
                    size //= 100
                size *= 3 if not op.two else 12
            found.append(op)
            pairs = pairs if op.gives is None else op.gives
            hashable = hashable and name not in ("glom", "groupBy", "groupByKey", "cogroup")
            hashable = hashable or name in ("map", "cache")
        return found

    def build(self, a: Any, b: Any) -> Any:
        """As a user writes it."""
        for op in self.ops():
            a = op.plain(a, b) if op.two else op.plain(a)
        return a

    def oracle(self, spark: Any) -> list[Carried]:
        a, b = (
            spark.parallelize([(x, frozenset([(label, n)])) for n, x in enumerate(records)], parts)
            for label, records, parts in (("a", self.left, self.parts[0]), ("b", self.right, self.parts[1]))
        )
        for op in self.ops():
            a = op.carried(a, b) if op.two else op.carried(a)
        found: list[Carried] = a.collect()
        return found


def _records(size: int, low: int) -> tuple[Any, ...]:
    values: list[Any] = [None, 1.5, "", "ab", -3]
    return tuple(((n * 7 + low) % 6, values[n % 5] if n % 4 == 3 else (n * 13 + low) % 23) for n in range(size))


def program(seed: int) -> Program:
    """The same program for the same seed."""
    draw = random.Random(seed)
    depth = draw.choice((2, 3, 3, 4, 4, 5, 6))
    from_names = NARROW if draw.random() < 0.4 else NAMES
    size = draw.choice((0, 1, 5, 9, 9, 14, 14, 30, 800 if from_names is NARROW else 14))
    return Program(
        tuple(draw.choice(from_names) for _ in range(depth)),
        _records(size, draw.randrange(20)),
        _records(draw.choice((0, 3, 7, 11)), draw.randrange(20)),
        (draw.choice((1, 2, 2, 3, 5)), draw.choice((1, 2, 3))),
    )


def programs() -> st.SearchStrategy[Program]:
    sizes = st.tuples(st.integers(0, 14), st.integers(0, 11))
    return st.builds(
        lambda names, sizes, parts: Program(tuple(names), _records(sizes[0], 1), _records(sizes[1], 2), parts),
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=5),
        sizes,
        st.tuples(st.integers(1, 4), st.integers(1, 3)),
    )


def _names(rdd: LineageRDD, label: str, n: int, parts: int) -> dict[tuple[int, int, int], tuple[str, int]]:
    """Where `parallelize` puts its records: whole batches, slice by slice."""
    size = max(1, min(n // parts, 1024))
    batches = -(-n // size)
    numbers = count()
    return {
        (rdd.node.id, part, position): (label, next(numbers))
        for part in range(parts)
        for position in range(min(n, (part + 1) * batches // parts * size) - part * batches // parts * size)
    }


def _flat(state: State) -> dict[Place, list[int]]:
    return {place: positions.tolist() for place, positions in state.items()}


def check(lc: LineageContext, given: Program, steps: bool = True) -> None:
    """Records as in plain PySpark, witnesses of each of them, and what each source record touched, as the oracle has
    them; and (`steps`) going back step by step comes to the same, over real records."""
    a, b = lc.parallelize(given.left, given.parts[0]), lc.parallelize(given.right, given.parts[1])
    names = {
        **_names(a, "a", len(given.left), given.parts[0]),
        **_names(b, "b", len(given.right), given.parts[1]),
    }
    assert len(names) == len(given.left) + len(given.right)
    result = given.build(a, b)
    records = result.collect()
    expected = given.oracle(lc.spark)
    if repr([x for x, _ in expected]) != repr(records):
        sides = zip((given.left, given.right), given.parts, strict=True)
        plain = given.build(*(lc.spark.parallelize(x, n) for x, n in sides))
        assert repr(records) == repr(plain.collect()), f"{given}: not the records of plain PySpark"
    tables = lc._open
    keys = captured(result)
    found: list[Ids] = []
    forward: dict[tuple[str, int], set[int]] = {name: set() for name in names.values()}
    notes: list[str] = []
    for key in keys:
        last = tables[key].last
        for position in range(tables[key].n_out):
            state = tables.back_all({Place(*key, last): np.array([position])}, notes.append)
            ids = frozenset(names[p.stage, p.part, n] for p, ns in state.items() for n in ns.tolist())
            for name in ids:
                forward[name].add(len(found))
            found.append(ids)
    assert len(found) == len(records), f"{given}: {len(found)} records in the tables, {len(records)} collected"
    wanted = Counter((repr(x), ids) for x, ids in expected)
    assert Counter(zip(map(repr, records), found, strict=True)) == wanted, f"{given}: other witnesses"
    opaque = any("mapPartitions" in name for name in given.names)
    assert opaque or not notes, f"{given}: {notes}"
    first = dict(zip(keys, np.cumsum([0] + [tables[k].n_out for k in keys]).tolist(), strict=False))
    readers = tables.readers(keys)
    for (node, part, position), name in names.items() if len(names) < 100 else ():
        state = tables.forth_all({Place(node, part, -1, 0): np.array([position])}, readers, set(keys), notes.append)
        touched = {first[p[:3]] + n for p, ns in state.items() for n in ns.tolist()}
        assert touched == forward[name], f"{given}: {name} touches {touched}, not {forward[name]}"
    if steps and records:
        _check_steps(result, given)


def _check_steps(result: LineageRDD, given: Program) -> None:
    trace = result.getLineage()
    whole = _flat(trace.goBackAll().state)
    for _ in range(40):
        before = trace
        trace = before.goBack()
        at = trace.collect()
        assert len(at) == trace.count()
        if _flat(trace.state) == _flat(before.state):
            break
    assert _flat(trace.state) == whole, f"{given}: step by step it is another way"
    sources = Counter(map(repr, given.left + given.right))
    assert not Counter(map(repr, at)) - sources, f"{given}: no source records: {at}"


class OnePartition:
    """The carried records of one partition, without Spark: what a stage of narrow operators makes of them."""

    def __init__(self, records: Iterable[Carried]) -> None:
        self.records = list(records)

    def map(self, f: Callable[[Carried], Any]) -> OnePartition:
        return OnePartition(map(f, self.records))

    def filter(self, f: Callable[[Carried], Any]) -> OnePartition:
        return OnePartition(filter(f, self.records))

    def flatMap(self, f: Callable[[Carried], Iterable[Any]]) -> OnePartition:
        return OnePartition(y for x in self.records for y in f(x))

    def mapPartitionsWithIndex(self, f: Callable[[int, Iterable[Carried]], Iterable[Any]]) -> OnePartition:
        return OnePartition(f(0, iter(self.records)))

    def zipWithIndex(self) -> OnePartition:
        return OnePartition((x, n) for n, x in enumerate(self.records))

    def zipWithUniqueId(self) -> OnePartition:
        return self.zipWithIndex()

    def sample(self, replace: bool, fraction: float, seed: int) -> OnePartition:
        return self.mapPartitionsWithIndex(RDDSampler(replace, fraction, seed).func)


IN_A_STAGE = tuple(name for name in NARROW if "with itself" not in name)


def check_stage(lc: LineageContext, given: Program, sizes: Sequence[int]) -> None:
    """A program of narrow operators as one task runs it, here without Spark: thousands of them in a minute. `sizes`: of
    the chunks in which the records arrive."""
    source = lc.parallelize((), 1)
    steps = given.build(source, None)._steps
    written: list[Any] = []

    class Committed:
        add = staticmethod(written.extend)

    stage = Stage(
        next(lc._ids),
        lc._directory,
        [(source.node.id, 0)],
        None,
        segments(steps, source.node),
        "records",
        None,
        Committed,
    )
    waiting = iter(given.left)
    chunks = [(list(islice(waiting, size)), None) for size in sizes] + [(list(waiting), None)]
    records = list(stage(0, chunks))
    carried: Any = OnePartition((x, frozenset([("a", n)])) for n, x in enumerate(given.left))
    for op in given.ops():
        carried = op.carried(carried)
    assert repr(records) == repr([x for x, _ in carried.records]), f"{given}: other records"
    key = (stage.stage, 0, 0)
    table = lc._open[key]
    assert written == [(*key, table.bytes, len(records), None)]
    touched: dict[int, list[int]] = {n: [] for n in range(len(given.left))}
    for position, (_, ids) in enumerate(carried.records):
        state = lc._open.back_all({Place(*key, table.last): np.array([position])}, lambda _: None)
        (found,) = [positions.tolist() for positions in state.values()] or [[]]
        assert found == sorted(n for _, n in ids), f"{given}: record {position} came from {found}, not from {ids}"
        for _, n in ids:
            touched[n].append(position)
    place = Place(source.node.id, 0, -1, 0)
    for n, positions in touched.items():
        state = lc._open.forth_all({place: np.array([n])}, lc._open.readers([key]), {key}, lambda _: None)
        (found,) = [p.tolist() for p in state.values()] or [[]]
        assert found == positions, f"{given}: source record {n} touches {found}, not {positions}"


def check_stages(lc: LineageContext, seed: int, count: int) -> None:
    """So many programs of a stage, three or four operators each; some of records enough to be run in many chunks."""
    draw = random.Random(seed)
    for _ in range(count):
        size = draw.choice((0, 1, 4, 9, 14, 14, 40))
        made = Program(
            tuple(draw.choice(IN_A_STAGE) for _ in range(draw.choice((3, 4, 4, 6)))),
            _records(size, draw.randrange(20)),
            (),
        )
        check_stage(lc, made, [draw.randrange(6) for _ in range(draw.randrange(4))])


def pairs_of_operators() -> Iterator[Program]:
    """Every operator after every other."""
    for names in product(NAMES, NAMES):
        yield Program(names, _records(9, 1), _records(5, 2))


def main() -> None:
    import argparse
    import tempfile
    import time
    import traceback

    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(description="RDD programs against the oracle.")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many seeds")
    parser.add_argument("--stages", action="store_true", help="programs of one stage, without Spark's jobs, instead")
    parser.add_argument("--pairs", action="store_true", help="every operator after every other instead")
    asked = parser.parse_args()
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.default.parallelism", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    if asked.stages:
        for seed in range(asked.first, asked.first + asked.count, 1000):
            check_stages(LineageContext(session.sparkContext, tempfile.mkdtemp()), seed, min(1000, asked.count))
        print(f"{asked.count} programs of a stage, none failed")
        return
    seeds: Iterable[tuple[Any, Program]] = ((n, program(n)) for n in range(asked.first, asked.first + asked.count))
    if asked.pairs:
        seeds = islice(((p.names, p) for p in pairs_of_operators()), asked.first, asked.first + asked.count)
    failed, n, began = 0, 0, time.monotonic()
    lc: Any = None
    for n, (seed, made) in enumerate(seeds, 1):
        if n % 50 == 1:
            lc = LineageContext(session.sparkContext, tempfile.mkdtemp())
        try:
            check(lc, made, steps=n % 5 == 0)
        except Exception:
            failed += 1
            print(f"--- {seed}: {made}\n{traceback.format_exc()[-3000:]}", flush=True)
        if n % 100 == 0:
            print(f"{n} programs, {failed} failed, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{n} programs, {failed} failed, {time.monotonic() - began:.0f} s")
    sys.exit(failed > 0)


if __name__ == "__main__":
    from fuzz import rdd_programs

    rdd_programs.main()
