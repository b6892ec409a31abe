"""Programs of several stages without Spark's jobs: whence's own stages are run one after the other in this process,
over the very bytes that Spark would carry between them. Thousands of programs take minutes; `rdd_programs.check` runs
some of them on Spark itself. Alone: `PYTHONHASHSEED=0 python -m fuzz.rdd_local --count 1000`, in the tests' folder."""

from __future__ import annotations

import io
import random
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
from pyspark.serializers import BatchedSerializer, CPickleSerializer, NoOpSerializer

from fuzz.rdd_operators import NAMES, Carried
from fuzz.rdd_programs import Ids, Program, records_like, shrunk
from whence.rdd import LineageContext, LineageRDD, physical, regroup
from whence.rdd.stages import Base, Node
from whence.rdd.walk import Place

_LENGTH = struct.Struct("!i")
HERE = tuple(n for n in NAMES if n not in ("zipWithIndex", "sortBy", "sortByKey"))  # these run jobs when they are made


def _framed(frame: bytes) -> bytes:
    return _LENGTH.pack(len(frame)) + frame


def _frames(part: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(part):
        (length,) = _LENGTH.unpack_from(part, at)
        yield part[at + 4 : at + 4 + length]
        at += 4 + length


class Held:
    """Stands for a Java RDD: the bytes of its partitions. `pairs`: (bucket, frame), before a shuffle."""

    def __init__(self, parts: list[bytes], pairs: list[list[tuple[int, bytes]]] | None = None) -> None:
        self.parts, self.pairs = parts, pairs

    def partitions(self) -> Held:
        return self

    def size(self) -> int:
        return len(self.parts)

    def rdd(self) -> Held:
        return self

    def persist(self, _: Any) -> Held:
        return self

    def localCheckpoint(self) -> None:
        pass

    def union(self, other: Held) -> Held:
        return Held(self.parts + other.parts)

    def coalesce(self, n: int, shuffle: bool) -> Held:
        if shuffle:
            frames = [frame for part in self.parts for frame in _frames(part)]
            return Held([b"".join(map(_framed, frames[at::n])) for at in range(n)])
        n = min(n, len(self.parts))
        bounds = [at * len(self.parts) // n for at in range(n + 1)]
        return Held([b"".join(self.parts[a:b]) for a, b in pairwise(bounds)])

    def zip(self, other: Held) -> Held:
        met = zip(self.parts, other.parts, strict=True)
        return Held(
            [b"".join(_framed(f) for ab in zip(_frames(a), _frames(b), strict=True) for f in ab) for a, b in met]
        )

    def cartesian(self, other: Held) -> Held:
        return Held(
            [
                b"".join(_framed(f) for x in _frames(a) for y in _frames(b) for f in (x, y))
                for a in self.parts
                for b in other.parts
            ]
        )


def _run(prev: Held, stage: Any, reader: Any, split: int) -> Any:
    return stage(split, reader.load_stream(io.BytesIO(prev.parts[split])))


def _python_rdd(_: Any, prev: Held, stage: Any, reader: Any, out: Any, *__: Any) -> Held:
    parts: list[bytes] = []
    pairs: list[list[tuple[int, bytes]]] = []
    for split in range(prev.size()):
        left = _run(prev, stage, reader, split)
        if isinstance(out, NoOpSerializer):
            flat = list(left)
            pairs.append([(struct.unpack("!q", k)[0], f) for k, f in zip(flat[::2], flat[1::2], strict=True)])
            parts.append(b"")
        else:
            stream = io.BytesIO()
            out.dump_stream(left, stream)
            parts.append(stream.getvalue())
    return Held(parts, pairs or None)


def _shuffled(_: Any, keyed: list[Held], partitions: int, __: Any) -> Held:
    buckets: list[list[bytes]] = [[] for _ in range(partitions)]
    for held in keyed:
        for pairs in held.pairs or ():
            for bucket, frame in pairs:
                buckets[bucket].append(_framed(frame))
    return Held([b"".join(bucket) for bucket in buckets])


@contextmanager
def without_jobs() -> Iterator[None]:
    with (
        patch.object(physical, "python_rdd", _python_rdd),
        patch.object(regroup, "python_rdd", _python_rdd),
        patch.object(regroup, "shuffled", _shuffled),
    ):
        yield


def source(lc: LineageContext, records: list[Any], parts: int) -> LineageRDD:
    """The records cut into partitions, one of which may be empty."""
    serializer = BatchedSerializer(CPickleSerializer(), 3)
    cut = [records[at * len(records) // parts : (at + 1) * len(records) // parts] for at in range(parts)]
    held = []
    for part in cut:
        stream = io.BytesIO()
        serializer.dump_stream(iter(part), stream)  # type: ignore[no-untyped-call]
        held.append(stream.getvalue())
    node = Node(next(lc.book.ids), "source", (), source=True)
    base = Base(node, lambda: Held(held), serializer, sources=lambda: [(node.id, n) for n in range(parts)], batch=3)
    made = LineageRDD(lc, base, (), lambda: lc.spark.emptyRDD())
    lc.book.source_rdds[node.id] = made
    return made


def _collected(lc: LineageContext, rdd: LineageRDD) -> tuple[list[Any], list[tuple[int, int, int]]]:
    with lc.book.asked():
        info, view = rdd._recording_view()
    prev: Any = view._prev_jrdd
    records = [r for split in range(prev.size()) for r in _run(prev, view.func, view._prev_jrdd_deserializer, split)]
    lc.book.take_commits()
    return records, [(info.id, split, 0) for split in range(prev.size())]


def check_locally(lc: LineageContext, given: Program) -> None:
    """Witnesses of each record, and what each source record touched, are those that the records carry themselves where
    the program is written over carried ones."""
    with without_jobs():
        sides = list(zip(("a", "b"), (given.left, given.right), given.parts, strict=True))
        a, b = (source(lc, list(records), parts) for _, records, parts in sides)
        records, keys = _collected(lc, given.build(a, b))
        names: dict[tuple[int, int, int], tuple[str, int]] = {}
        for rdd, (label, some, parts) in zip((a, b), sides, strict=True):
            for part in range(parts):
                first = part * len(some) // parts
                for n in range(first, (part + 1) * len(some) // parts):
                    names[rdd.node.id, part, n - first] = (label, n)
        x, y = (
            source(lc, [(r, frozenset([(label, n)])) for n, r in enumerate(some)], parts)
            for label, some, parts in sides
        )
        made: Any = x
        for op in given.ops():
            made = op.carried(made, y) if op.two else op.carried(made)
        expected: list[Carried] = _collected(lc, made)[0]
    assert Counter(map(repr, records)) == Counter(repr(r) for r, _ in expected), f"{given}: other records"
    tables = lc.book.tables
    found: list[Ids] = []
    forward: dict[tuple[str, int], set[int]] = {name: set() for name in names.values()}
    for key in keys:
        for position in range(tables[key].n_out):
            state = tables.back_all({Place(*key, tables[key].last): np.array([position])}, lambda _: None)
            ids = frozenset(names[p.stage, p.part, n] for p, ns in state.items() for n in ns.tolist())
            for name in ids:
                forward[name].add(len(found))
            found.append(ids)
    wanted = Counter((repr(r), ids) for r, ids in expected)
    assert Counter(zip(map(repr, records), found, strict=True)) == wanted, f"{given}: other witnesses"
    first_of = dict(zip(keys, np.cumsum([0] + [tables[k].n_out for k in keys]).tolist(), strict=False))
    readers = tables.readers(keys)
    for (node, part, position), name in names.items():
        state = tables.forth_all({Place(node, part, -1, 0): np.array([position])}, readers, set(keys), lambda _: None)
        touched = {first_of[p[:3]] + n for p, ns in state.items() for n in ns.tolist()}
        assert touched == forward[name], f"{given}: {name} touches {touched}, not {forward[name]}"


def local_program(seed: int) -> Program:
    draw = random.Random(seed)
    return Program(
        tuple(draw.choice(HERE) for _ in range(draw.choice((2, 3, 3, 4, 4, 5)))),
        records_like(draw.choice((0, 1, 5, 9, 14, 14, 30)), draw.randrange(20)),
        records_like(draw.choice((0, 3, 7, 11)), draw.randrange(20)),
        (draw.choice((1, 2, 2, 3, 5)), draw.choice((1, 2, 3))),
    )


def main() -> None:
    import argparse
    import sys
    import tempfile
    import traceback

    from fuzz.rdd_programs import session

    parser = argparse.ArgumentParser(description="RDD programs of several stages, without Spark's jobs.")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    asked = parser.parse_args()
    context = session().sparkContext
    lc: Any = None
    failed = 0

    def fails(given: Program) -> bool:
        try:
            check_locally(lc, given)
        except Exception:
            return True
        return False

    for seed in range(asked.first, asked.first + asked.count):
        if (seed - asked.first) % 200 == 0:
            lc = LineageContext(context, tempfile.mkdtemp())
        try:
            check_locally(lc, local_program(seed))
        except Exception:
            failed += 1
            print(f"--- {seed}: {shrunk(local_program(seed), fails)}\n{traceback.format_exc()[-2000:]}", flush=True)
    print(f"{asked.count} programs, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    from fuzz import rdd_local

    rdd_local.main()
