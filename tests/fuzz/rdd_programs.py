"""Generated RDD programs, and what their lineage must be.

The oracle is plain PySpark over records that carry the names of the source records they came from: each operator is
written twice, once as a user writes it and once over such pairs. So partitions, orders and draws are Spark's own.

A seed makes a program (`program(7)`), `check` runs one, `shrunk` makes a failing one smaller; hypothesis makes and
shrinks them too (`programs()`). Alone:
`python -m fuzz.rdd_programs --first 0 --count 1000`, in the folder of the tests.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice, product
from typing import Any

import numpy as np
from hypothesis import strategies as st
from pyspark.rddsampler import RDDSampler
from pyspark.sql import SparkSession

from fuzz.rdd_operators import ALL, NAMES, NARROW, Carried, Ids, Op
from whence.rdd import LineageContext, LineageRDD
from whence.rdd.capture import captured
from whence.rdd.flow import RddFlow
from whence.rdd.stages import segments
from whence.rdd.walk import Place, State
from whence.rdd.worker import Stage


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


def records_like(size: int, low: int) -> tuple[Any, ...]:
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
        records_like(size, draw.randrange(20)),
        records_like(draw.choice((0, 3, 7, 11)), draw.randrange(20)),
        (draw.choice((1, 2, 2, 3, 5)), draw.choice((1, 2, 3))),
    )


def programs() -> st.SearchStrategy[Program]:
    sizes = st.tuples(st.integers(0, 14), st.integers(0, 11))
    return st.builds(
        lambda names, sizes, parts: Program(tuple(names), records_like(sizes[0], 1), records_like(sizes[1], 2), parts),
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
    tables = lc.book.tables
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
        flow = RddFlow(lc.book, lc, result)
        asked = flow.all(flow.outputs[0])
        verdict = flow.verify(asked, flow.backward(asked))
        assert not verdict.refuted, f"{given}: {verdict}"


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
        next(lc.book.ids),
        lc.book.directory,
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
    table = lc.book.tables[key]
    assert written == [(*key, table.bytes, len(records), None)]
    touched: dict[int, list[int]] = {n: [] for n in range(len(given.left))}
    for position, (_, ids) in enumerate(carried.records):
        state = lc.book.tables.back_all({Place(*key, table.last): np.array([position])}, lambda _: None)
        (found,) = [positions.tolist() for positions in state.values()] or [[]]
        assert found == sorted(n for _, n in ids), f"{given}: record {position} came from {found}, not from {ids}"
        for _, n in ids:
            touched[n].append(position)
    place = Place(source.node.id, 0, -1, 0)
    for n, positions in touched.items():
        state = lc.book.tables.forth_all({place: np.array([n])}, lc.book.tables.readers([key]), {key}, lambda _: None)
        (found,) = [p.tolist() for p in state.values()] or [[]]
        assert found == positions, f"{given}: source record {n} touches {found}, not {positions}"


def check_stages(lc: LineageContext, seed: int, count: int) -> None:
    """So many programs of a stage, three or four operators each; some of records enough to be run in many chunks."""
    draw = random.Random(seed)
    for _ in range(count):
        size = draw.choice((0, 1, 4, 9, 14, 14, 40))
        made = Program(
            tuple(draw.choice(IN_A_STAGE) for _ in range(draw.choice((3, 4, 4, 6)))),
            records_like(size, draw.randrange(20)),
            (),
        )
        check_stage(lc, made, [draw.randrange(6) for _ in range(draw.randrange(4))])


def pairs_of_operators() -> Iterator[Program]:
    """Every operator after every other."""
    for names in product(NAMES, NAMES):
        yield Program(names, records_like(9, 1), records_like(5, 2))


def smaller(given: Program) -> Iterator[Program]:
    for at in range(len(given.names)):
        yield replace(given, names=given.names[:at] + given.names[at + 1 :])
    for side in ("left", "right"):
        records = getattr(given, side)
        for kept in (records[: len(records) // 2], records[len(records) // 2 :], records[1:]):
            if len(kept) < len(records):
                yield replace(given, **{side: kept})
    if given.parts != (1, 1):
        yield replace(given, parts=(1, 1))


def shrunk(given: Program, fails: Callable[[Program], bool]) -> Program:
    """A program that still fails, of which nothing more can be left out."""
    while (found := next((p for p in smaller(given) if fails(p)), None)) is not None:
        given = found
    return given


def _fails(lc: LineageContext, given: Program) -> bool:
    try:
        check(lc, given)
    except Exception:
        return True
    return False


def session() -> SparkSession:
    made = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.default.parallelism", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    return made


def main() -> None:
    import argparse
    import tempfile
    import time
    import traceback

    parser = argparse.ArgumentParser(description="RDD programs against the oracle.")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many seeds")
    parser.add_argument("--stages", action="store_true", help="programs of one stage, without Spark's jobs, instead")
    parser.add_argument("--pairs", action="store_true", help="every operator after every other instead")
    asked = parser.parse_args()
    context = session().sparkContext
    if asked.stages:
        for seed in range(asked.first, asked.first + asked.count, 1000):
            check_stages(LineageContext(context, tempfile.mkdtemp()), seed, min(1000, asked.count))
        print(f"{asked.count} programs of a stage, none failed")
        return
    seeds: Iterable[tuple[Any, Program]] = ((n, program(n)) for n in range(asked.first, asked.first + asked.count))
    if asked.pairs:
        seeds = islice(((p.names, p) for p in pairs_of_operators()), asked.first, asked.first + asked.count)
    failed, n, began = 0, 0, time.monotonic()
    lc: Any = None
    for n, (seed, made) in enumerate(seeds, 1):
        if n % 50 == 1:
            lc = LineageContext(context, tempfile.mkdtemp())
        try:
            check(lc, made, steps=n % 5 == 0)
        except Exception:
            failed += 1
            print(f"--- {seed}: {made}\n{traceback.format_exc()[-3000:]}", flush=True)
            print(f"--- as small as it gets: {shrunk(made, partial(_fails, lc))}", flush=True)
        if n % 100 == 0:
            print(f"{n} programs, {failed} failed, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{n} programs, {failed} failed, {time.monotonic() - began:.0f} s")
    sys.exit(failed > 0)


if __name__ == "__main__":
    from fuzz import rdd_programs

    rdd_programs.main()
