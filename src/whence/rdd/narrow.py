"""Narrow operators as executors run them: a chunk of records at a time, with the loops in C.

`run(records)` gives pieces (records, counts): how many records each input became, None where each became one. Order,
laziness of user iterables, and errors are those of PySpark's own operators.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from pyspark.errors import PySparkRuntimeError
from pyspark.util import fail_on_stopiteration

from whence.rdd.codec import AnyInts

Pieces = Iterable[tuple[list[Any], AnyInts | None]]

PIECE = 1 << 14  # records; what an unbounded iterable is cut into
_SIZED = frozenset((list, tuple, str, set, frozenset, dict, range, bytes))


def mapped(f: Callable[[Any], Any], records: list[Any]) -> list[Any]:
    """`[f(r) for r in records]` in C. A StopIteration from f would end the list early, hence the check."""
    out = list(map(f, records))
    if len(out) != len(records):
        checked = fail_on_stopiteration(f)
        for record in records[len(out) :]:
            checked(record)
        raise PySparkRuntimeError(None, "STOP_ITERATION_OCCURRED", {"exc": ""})
    return out


class Narrow:
    f: Callable[[Any], Any]

    def __init__(self, f: Callable[[Any], Any]) -> None:
        self.f = f

    def start(self, split: int) -> None:
        """Called once before a partition is run."""

    def run(self, records: list[Any]) -> Pieces:
        raise NotImplementedError


class Map(Narrow):
    def run(self, records: list[Any]) -> Pieces:
        return ((mapped(self.f, records), None),)


class Filter(Narrow):
    def run(self, records: list[Any]) -> Pieces:
        flags = mapped(self.f, records)
        kept = list(itertools.compress(records, flags))
        counts = np.fromiter(map(operator.truth, flags), dtype=np.uint8, count=len(flags))
        return ((kept, counts),)


class MapValues(Narrow):
    def run(self, records: list[Any]) -> Pieces:
        keys = [r[0] for r in records]
        return ((list(zip(keys, mapped(self.f, [r[1] for r in records]), strict=True)), None),)


class FlatMap(Narrow):
    def run(self, records: list[Any]) -> Pieces:
        made = mapped(self.f, records)
        if _SIZED.issuperset(map(type, made)):
            counts = np.fromiter(map(len, made), dtype=np.int64, count=len(made))
            return ((list(itertools.chain.from_iterable(made)), counts),)
        return self._pieces(made)

    def _pieces(self, made: list[Any]) -> Pieces:
        out: list[Any] = []
        counts = np.zeros(len(made), dtype=np.int64)
        for i, items in enumerate(made):
            iterator = iter(items)
            while True:
                before = len(out)
                out.extend(itertools.islice(iterator, PIECE - before))
                counts[i] += len(out) - before
                if len(out) < PIECE:
                    break
                yield out, counts
                out, counts = [], np.zeros(len(made), dtype=np.int64)
        yield out, counts


class FlatMapValues(FlatMap):
    def run(self, records: list[Any]) -> Pieces:
        keys = [r[0] for r in records]
        made = mapped(self.f, [r[1] for r in records])
        if _SIZED.issuperset(map(type, made)):
            counts = np.fromiter(map(len, made), dtype=np.int64, count=len(made))
            return (([(k, x) for k, xs in zip(keys, made, strict=True) for x in xs], counts),)
        return self._pieces([zip(itertools.repeat(k), xs) for k, xs in zip(keys, made, strict=True)])


class Enumerate(Narrow):
    """zipWithIndex and zipWithUniqueId: the number after `first(split)`, by steps."""

    def __init__(self, starts: list[int], step: int) -> None:
        self.starts, self.step = starts, step

    def start(self, split: int) -> None:
        self.next = self.starts[split]

    def run(self, records: list[Any]) -> Pieces:
        first, self.next = self.next, self.next + self.step * len(records)
        return ((list(zip(records, range(first, self.next, self.step), strict=True)), None),)


class Sample(Narrow):
    """The draws of PySpark's samplers, record after record, with their own generator."""

    def __init__(self, sampler: Any, keyed: bool) -> None:
        self.sampler, self.keyed = sampler, keyed

    def start(self, split: int) -> None:
        self.sampler.initRandomGenerator(split)

    def run(self, records: list[Any]) -> Pieces:
        if self.keyed:
            drawn = [self._draw(key) for key, _ in records]
        else:
            drawn = [self._draw(None) for _ in records]
        counts = np.array(drawn, dtype=np.int64)
        return (([r for r, n in zip(records, drawn, strict=True) for _ in range(n)], counts),)

    def _draw(self, key: Any) -> int:
        s = self.sampler
        if hasattr(s, "_lowerBound"):
            return int(s._lowerBound <= s.getUniformSample() < s._upperBound)
        fraction = s._fractions[key] if self.keyed else s._fraction
        if s._withReplacement:
            drawn: int = s.getPoissonSample(fraction)
            return drawn
        return int(s.getUniformSample() < fraction)
