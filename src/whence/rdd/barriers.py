"""Operators that see many records at once, as executors run them: combiners, groupings, joins, sorts, opaque functions.

`run(stream, link, table, split)` reads lists of records and gives lists of records, and fills its link of the table.
Order and errors are those of PySpark's own operators, and so is going to disk when memory is short.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np
from pyspark.errors import PySparkRuntimeError
from pyspark.resultiterable import ResultIterable
from pyspark.shuffle import Aggregator, ExternalGroupBy, ExternalMerger, ExternalSorter, get_used_memory

from whence.rdd.codec import AnyInts
from whence.rdd.links import BLOCK, ColumnsLink, GroupsLink, Link, ListsLink, OpaqueLink, PrefixLink, Writer
from whence.rdd.narrow import PIECE, mapped
from whence.rdd.told import Hearing

Stream = Generator[list[Any], None, None]


class Barrier:
    """`elements`: what arrives is (key, list of values), and positions count the values."""

    elements = False
    lazy = False  # a user's function pulls the records, so nothing may be computed ahead of it

    def link(self) -> Link:
        raise NotImplementedError

    def run(self, stream: Stream, link: Any, table: Writer, split: int) -> Stream:
        raise NotImplementedError


def _limit(memory: float) -> float:
    return max(memory, get_used_memory() * 1.05)


_ADD = (lambda a, b: a + b).__code__
_SAME = (lambda x: x).__code__


def _runs_like(f: Any, code: Any) -> bool:
    """Whether a function's whole effect is that of a known one-liner: the same instructions over the same arguments."""
    own = getattr(f, "__code__", None)
    if own is None or f.__defaults__ or f.__kwdefaults__:
        return False
    shape = ("co_code", "co_argcount", "co_kwonlyargcount", "co_posonlyargcount")
    return not own.co_flags & 0x0C and all(getattr(own, x) == getattr(code, x) for x in shape)


class _Sums:
    """Whole numbers added up per slot, a block at a time. Addition of ints is exact in any order, so this is what the
    user's `a + b` would give; anything but ints ends it."""

    def __init__(self) -> None:
        self.totals = np.zeros(0, dtype=np.int64)
        self._slots: list[Any] = []
        self._values: list[Any] = []
        self._held = 0

    def take(self, slots: AnyInts, values: list[Any]) -> bool:
        if set(map(type, values)) != {int}:
            return False
        first = values[0]
        if values.count(first) == len(values):
            if not -(1 << 31) < first < 1 << 31:
                return False
            self._values.append(first)
        else:
            if not (min(values) > -(1 << 31) and max(values) < 1 << 31):
                return False
            self._values.append(np.array(values, dtype=np.float64))
        self._slots.append(slots)
        self._held += len(slots)
        if self._held >= BLOCK:
            self.flush()
        return True

    def flush(self) -> None:
        if not self._held:
            return
        slots = np.concatenate(self._slots)
        first = self._values[0]
        if isinstance(first, int) and all(isinstance(v, int) and v == first for v in self._values):
            sums = np.bincount(slots) * first
        else:  # below 2**53, so floats are exact
            weights = [
                np.full(len(s), v, dtype=np.float64) if isinstance(v, int) else v
                for s, v in zip(self._slots, self._values, strict=True)
            ]
            sums = np.bincount(slots, weights=np.concatenate(weights)).astype(np.int64)
        if len(sums) > len(self.totals):
            self.totals = np.concatenate((self.totals, np.zeros(len(sums) - len(self.totals), dtype=np.int64)))
        self.totals[: len(sums)] += sums
        self._slots, self._values, self._held = [], [], 0

    def held(self) -> list[Any]:
        self.flush()
        values: list[Any] = self.totals.tolist()
        return values


class Combine(Barrier):
    """A combiner whose slots are the lineage: a dictionary from key to slot, and the slots' values beside it."""

    def __init__(self, agg: Any, memory: float, merging: bool) -> None:
        self.create, self.value, self.comb = agg
        self.memory = memory
        self.merging = merging  # combiners arrive, not values

    def _adds(self) -> bool:
        merge = self.comb if self.merging else self.value
        return (merge is operator.add or _runs_like(merge, _ADD)) and (self.merging or _runs_like(self.create, _SAME))

    def _fold(self, slots: list[int], values: list[Any], held: list[Any]) -> None:
        merge = self.comb if self.merging else self.value
        create = (lambda x: x) if self.merging else self.create
        n = len(held)
        for slot, value in zip(slots, values, strict=True):
            if slot < n:
                held[slot] = merge(held[slot], value)
            else:
                held.append(create(value))
                n += 1

    def fold(self, slots: list[int], values: list[Any], held: list[Any]) -> None:
        try:
            self._fold(slots, values, held)
        except StopIteration as stopped:
            raise PySparkRuntimeError(None, "STOP_ITERATION_OCCURRED", {"exc": str(stopped)}) from stopped

    def weights(self, records: list[Any], slots: AnyInts) -> AnyInts:
        return slots

    def link(self) -> Link:
        return GroupsLink()

    def run(self, stream: Stream, link: GroupsLink, table: Writer, split: int) -> Stream:
        slot_of: dict[Any, int] = defaultdict(itertools.count().__next__)
        held: list[Any] = []
        first = 0  # slot of held[0]: what was spilled came before
        spilled: _Spilled | None = None
        limit, since = self.memory, 0
        sums = _Sums() if self._adds() else None
        for records in stream:
            if not records:
                continue
            keys = [k for k, _ in records]
            values = [v for _, v in records]
            array = np.fromiter(map(slot_of.__getitem__, keys), dtype=np.uint32, count=len(keys))
            if sums is None or not sums.take(array, values):
                if sums is not None:
                    held, sums = sums.held(), None
                self.fold(array.tolist(), values, held)
            link.add(self.weights(records, array + np.int64(first) if first else array))
            since += len(records)
            if since >= 10000:
                since = 0
                if get_used_memory() >= limit:
                    spilled = spilled or _Spilled(self.pair_merger(), self.memory)
                    if sums is not None:
                        held, sums = sums.held(), _Sums()
                    spilled.take(slot_of, held, first)
                    first += len(held)
                    slot_of = defaultdict(itertools.count().__next__)
                    held = []
                    limit = _limit(self.memory)
        if sums is not None:
            held = sums.held()
        if spilled is None:
            yield from _sliced(slot_of, held, self.finish)
            return
        spilled.take(slot_of, held, first)
        lists = ListsLink()
        table.link_after(link, lists)
        for out in spilled.items():
            for _, (_, slots) in out:
                lists.add(slots)
            yield [(k, self.finish(v)) for k, (v, _) in out]

    def finish(self, value: Any) -> Any:
        return value

    def pair_merger(self) -> Callable[[Any, Any], Any]:
        comb = self.comb
        return lambda a, b: (comb(a[0], b[0]), a[1] + b[1])


def _sliced(slot_of: dict[Any, int], held: list[Any], finish: Callable[[Any], Any]) -> Stream:
    items = zip(slot_of, map(finish, held), strict=True)
    while some := list(itertools.islice(items, PIECE)):
        yield some


class _Spilled:
    """Combiners that were put on disk, each with the slots that went into it."""

    def __init__(self, merge: Callable[[Any, Any], Any], memory: float) -> None:
        self._merger: ExternalMerger[Any, Any, Any] = ExternalMerger(
            Aggregator(lambda x: x, merge, merge), memory * 0.9
        )

    def take(self, slot_of: dict[Any, int], held: list[Any], first: int) -> None:
        pairs = ((k, (v, [s])) for (k, s), v in zip(zip(slot_of, itertools.count(first)), held, strict=False))
        self._merger.mergeCombiners(pairs, 0)
        self._merger._spill()

    def items(self) -> Stream:
        items = iter(self._merger.items())
        while some := list(itertools.islice(items, PIECE)):
            yield some


class Group(Combine):
    """groupByKey before the shuffle: values are collected in lists, in order."""

    def __init__(self, memory: float, final: bool = False) -> None:
        super().__init__((None, None, _extended), memory, merging=False)
        self.final = final  # no shuffle follows

    def finish(self, value: Any) -> Any:
        return ResultIterable(value) if self.final else value

    def _fold(self, slots: list[int], values: list[Any], held: list[Any]) -> None:
        n = len(held)
        for slot, value in zip(slots, values, strict=True):
            if slot < n:
                held[slot].append(value)
            else:
                held.append([value])
                n += 1


def _extended(a: list[Any], b: list[Any]) -> list[Any]:
    a.extend(b)
    return a


class GroupMerge(Combine):
    """groupByKey after the shuffle. Every value keeps its position, so that joins can say which two met."""

    elements = True

    def __init__(self, memory: float) -> None:
        super().__init__((None, None, _extended), memory, merging=True)

    def _fold(self, slots: list[int], values: list[Any], held: list[Any]) -> None:
        n = len(held)
        for slot, value in zip(slots, values, strict=True):
            if slot < n:
                held[slot].extend(value)
            else:
                held.append(value)
                n += 1

    def weights(self, records: list[Any], slots: AnyInts) -> AnyInts:
        return np.repeat(slots, np.fromiter((len(v) for _, v in records), dtype=np.int64, count=len(records)))

    def finish(self, value: Any) -> Any:
        return ResultIterable(value)


class Meet(Barrier):
    """Joins and cogroups over values that carry the number of their side. The values' positions are kept per key."""

    def __init__(self, kind: str, sides: int, memory: float, grouped: bool = True) -> None:
        self.kind, self.sides, self.memory = kind, sides, memory
        self.elements = grouped  # else single values arrive, without a shuffle

    def link(self) -> Link:
        return ListsLink() if self.kind == "cogroup" else ColumnsLink(2)

    def run(self, stream: Stream, link: Any, table: Writer, split: int) -> Stream:
        for key, values, positions in self._groups(stream):
            sides: list[list[Any]] = [[] for _ in range(self.sides)]
            places: list[list[int]] = [[] for _ in range(self.sides)]
            for (side, value), position in zip(values, positions, strict=True):
                sides[side].append(value)
                places[side].append(position)
            if self.kind == "cogroup":
                link.add(list(positions))
                yield [(key, tuple(ResultIterable(s) for s in sides))]
                continue
            yield from self._met(key, sides, places, link)

    def _met(self, key: Any, sides: list[list[Any]], places: list[list[int]], link: ColumnsLink) -> Stream:
        left, right = sides
        at = [np.array(p, dtype=np.int64) for p in places]
        nobody = np.full(1, -1, dtype=np.int64)
        if self.kind == "subtract":
            if left and not right:
                link.add(at[0], np.full(len(left), -1))
                yield [(key, v) for v in left]
            return
        if not left and self.kind in ("right", "full"):
            left, at[0] = [None], nobody
        if not right and self.kind in ("left", "full"):
            right, at[1] = [None], nobody
        if not right:
            return
        rows = max(1, PIECE // len(right))
        for first in range(0, len(left), rows):
            some = left[first : first + rows]
            link.add(np.repeat(at[0][first : first + rows], len(right)), np.tile(at[1], len(some)))
            yield [(key, (v, w)) for v in some for w in right]

    def _groups(self, stream: Stream) -> Iterator[tuple[Any, Iterable[Any], Iterable[int]]]:
        held: dict[Any, tuple[list[Any], list[range]]] = {}
        position, since, limit = 0, 0, self.memory
        if not self.elements:
            stream = ([(k, [v]) for k, v in records] for records in stream)
        for records in stream:
            for key, values in records:
                found = held.get(key)
                if found is None:
                    held[key] = (values, [range(position, position + len(values))])
                else:
                    found[0].extend(values)
                    found[1].append(range(position, position + len(values)))
                position += len(values)
            since += len(records)
            if since >= 10000:
                since = 0
                if get_used_memory() >= limit:
                    yield from self._external(held, stream, position)
                    return
        for key, (values, ranges) in held.items():
            yield key, values, list(itertools.chain.from_iterable(ranges))

    def _external(
        self, held: dict[Any, tuple[list[Any], list[range]]], stream: Stream, position: int
    ) -> Iterator[tuple[Any, Iterable[Any], Iterable[int]]]:
        def numbered() -> Iterator[tuple[Any, list[Any]]]:
            at = position
            while held:
                key = next(iter(held))
                values, ranges = held.pop(key)
                yield key, list(zip(values, itertools.chain.from_iterable(ranges), strict=True))
            for records in stream:
                for key, values in records:
                    yield key, list(zip(values, range(at, at + len(values)), strict=True))
                    at += len(values)

        extend: Any = _extended
        merger: ExternalGroupBy[Any, Any] = ExternalGroupBy(Aggregator(lambda x: [x], extend, extend), self.memory)
        merger.mergeCombiners(numbered())
        for key, pairs in merger.items():
            pairs = sorted(pairs, key=operator.itemgetter(1))  # spilling shuffles them; arrival is the order
            yield key, [v for v, _ in pairs], [p for _, p in pairs]


class Sort(Barrier):
    def __init__(self, key: Callable[[Any], Any], reverse: bool, memory: float) -> None:
        self.key, self.reverse, self.memory = key, reverse, memory

    def link(self) -> Link:
        return ColumnsLink(1)

    def run(self, stream: Stream, link: ColumnsLink, table: Writer, split: int) -> Stream:
        held: list[Any] = []
        limit = _limit(self.memory * 0.9)
        since = 0
        for records in stream:
            held.extend(records)
            since += len(records)
            if since >= 10000:
                since = 0
                if get_used_memory() > limit:
                    yield from self._external(itertools.chain(held, itertools.chain.from_iterable(stream)), link)
                    return
        order = sorted(range(len(held)), key=mapped(self.key, held).__getitem__, reverse=self.reverse)
        link.add(np.array(order, dtype=np.int64))
        for at in range(0, len(order), PIECE):
            yield [held[i] for i in order[at : at + PIECE]]

    def _external(self, records: Iterator[Any], link: ColumnsLink) -> Stream:
        key = self.key
        sorter: ExternalSorter[Any] = ExternalSorter(self.memory * 0.9)
        numbered = zip(records, itertools.count(), strict=False)
        pairs = iter(sorter.sorted(numbered, key=lambda pair: key(pair[0]), reverse=self.reverse))
        while some := list(itertools.islice(pairs, PIECE)):
            link.add(np.array([n for _, n in some], dtype=np.int64))
            yield [record for record, _ in some]


class Opaque(Barrier):
    """A function over a whole partition. An output can come from any input that was read before it (Newt's
    happened-before), and from no other: that is the smallest set one can vouch for. `exact`: glom, which uses all."""

    def __init__(self, f: Callable[[int, Any], Any], exact: bool = False) -> None:
        self.f, self.exact = f, exact
        self.note: str | None = None
        self.lazy = not exact

    def link(self) -> Link:
        return PrefixLink(self.note) if self.exact else OpaqueLink(self.note)

    def run(self, stream: Stream, link: PrefixLink, table: Writer, split: int) -> Stream:
        read = 0
        hearing = Hearing.begin() if isinstance(link, OpaqueLink) else None

        def taken() -> int:
            return read

        arriving: Iterator[list[Any]] = stream if hearing is None else hearing.fed(stream, taken)

        def feed() -> Iterator[Any]:
            nonlocal read
            for records in arriving:
                for record in records:
                    read += 1
                    yield record

        given = iter(self.f(split, feed()))
        for record in given if hearing is None else hearing.given(given, taken):
            link.add(read)
            yield [record]
        if hearing is not None and isinstance(link, OpaqueLink):
            link.told = hearing.lists(self.note or "")
        # The operators before it note what was read of them, also where that was not all. (ValueError: a thread of the
        # function's own, as `pipe` has, is reading just now.)
        with contextlib.suppress(ValueError):
            stream.close()
