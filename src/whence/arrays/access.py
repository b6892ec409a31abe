"""One step of a query: from a set of cells on one side of an operator to the set on the other.

The ways, best first: the whole array of an operator that says so; map functions; what is stored; running the operator
again in tracing mode. With `optimise` the clock decides between the last two: when reading what is stored has taken as
long as a rerun is known to take, the rerun takes over, so that no step takes longer than two of them (VII-A)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from whence.arrays.cells import NONE, Numbers, size_of
from whence.arrays.encodings import BACKWARD, FORWARD, MAP, Encoding, Strategy
from whence.arrays.encodings.rerun import Again, Reruns
from whence.arrays.gathering import Gathering
from whence.arrays.maps import Maps
from whence.arrays.operator import Mode, label, modes_of
from whence.arrays.workflow import Node
from whence.model import NonDeterministic
from whence.strategy.costs import Answered

_SHORT = 0.005  # seconds that are not worth running a user's code again for


@dataclass(frozen=True)
class Found:
    cells: Numbers
    widened: str | None = None
    """Why there may be more than needed."""
    ended: str | None = None
    """Why there may be less."""


@dataclass
class Asking:
    """What one query carries along: its wishes, and what was run again for it, at most once for each operator."""

    optimise: bool = True
    again: dict[Node, Again] = field(default_factory=dict)
    told: list[tuple[Node, Answered]] = field(default_factory=list)
    cells: list[tuple[int, Numbers]] = field(default_factory=list)
    """For each of `told` the input, and the cells that were asked about."""


class Access:
    """The lineage of one operator in one run, however it is known."""

    def __init__(
        self,
        node: Node,
        maps: Maps,
        strategies: tuple[Strategy, ...],
        stored: Mapping[Strategy, Callable[[], Encoding]],
        rerun: Reruns,
        seconds: float,
        silent: frozenset[Mode] = frozenset(),
    ) -> None:
        """`stored` opens what the run keeps; `seconds`: what running the operator with tracing took; `silent`: the
        modes in which it wrote nothing then."""
        assert node.operator is not None
        self.node = node
        self.maps = maps
        self._operator = node.operator
        self._modes = modes_of(node.operator)
        self._strategies = strategies
        self._stored = stored
        self._opened: dict[Strategy, Encoding] = {}
        self._rerun = rerun
        self._rerun_seconds = seconds
        self._silent = silent
        # How many cells were too many for what is stored, and how often: once may be the machine's fault.
        self._slow: dict[tuple[Strategy, str], tuple[int, int]] = {}
        self._lock = threading.Lock()

    @property
    def is_known(self) -> bool:
        """Whether the operator tells anything about its lineage."""
        return self._modes != {Mode.BLACKBOX}

    def step(self, direction: str, cells: Numbers, i: int, asking: Asking) -> Found:
        """`cells`: a set; input i is asked about."""
        from_size, to_size = self._sizes(direction, i)
        if not len(cells) or not to_size:
            return Found(NONE)
        if self._operator.entire_array and len(cells) == from_size:
            return Found(np.arange(to_size, dtype=np.int64))
        if not self.is_known:
            return Found(
                np.arange(to_size, dtype=np.int64),
                f"{self.node.name} ({label(self._operator)}) says nothing about its lineage, so that every cell of its "
                "output is taken to depend on every cell of its inputs.",
            )
        start = time.perf_counter()
        strategy, found = self._answered(direction, cells, i, asking, to_size)
        took = time.perf_counter() - start
        asking.told.append((self.node, Answered(str(strategy), direction, len(cells), len(found), took)))
        asking.cells.append((i, cells))
        return Found(found, ended=self._unsaid(strategy, asking))

    def _unsaid(self, strategy: Strategy | str, asking: Asking) -> str | None:
        if isinstance(strategy, Strategy):
            silent = strategy.needs in self._silent
        else:
            silent = asking.again[self.node].is_silent
        if not silent:
            return None
        return (
            f"{self.node.name} ({label(self._operator)}) wrote no lineage at all while it ran, so that none of its "
            "cells depends on anything: the answer is empty for want of writing. If that is meant, let run say so: "
            "self.lwrite_many([], [])."
        )

    def _sizes(self, direction: str, i: int) -> tuple[int, int]:
        out, inn = size_of(self.maps.output_shape), size_of(self.maps.input_shapes[i])
        return (out, inn) if direction == BACKWARD else (inn, out)

    def _answered(
        self, direction: str, cells: Numbers, i: int, asking: Asking, size: int
    ) -> tuple[Strategy | str, Numbers]:
        if MAP in self._strategies:
            if self.maps.keeps(i):
                return MAP, cells
            return MAP, _gathered(_ask(self.maps, direction, cells, i), size)
        stored = self._ranked(direction)
        if not stored or self.node in asking.again:
            return "Blackbox", _gathered(_ask(self._traced(asking), direction, cells, i), size)
        best = stored[0]
        if not asking.optimise:
            return best, _gathered(_ask(self._open(best), direction, cells, i), size)
        many, times = self._slow.get((best, direction), (0, 0))
        if times > 1 and len(cells) >= many:
            try:
                return "Blackbox", _gathered(_ask(self._traced(asking), direction, cells, i), size)
            except NonDeterministic:  # what was stored when it ran is right, and now the only way
                return best, _gathered(_ask(self._open(best), direction, cells, i), size)
        return self._within(best, direction, cells, i, asking, size)

    def _within(
        self, strategy: Strategy, direction: str, cells: Numbers, i: int, asking: Asking, size: int
    ) -> tuple[Strategy | str, Numbers]:
        """From what is stored, unless that takes longer than a rerun."""
        gathering = Gathering(size)
        encoding = self._open(strategy)
        start, most = time.perf_counter(), max(self._rerun_seconds, _SHORT)
        until: float | None = start + most
        for part in _ask(encoding, direction, cells, i):
            gathering.add(part)
            if gathering.is_whole:
                break
            if until is not None and time.perf_counter() > until:
                with self._lock:
                    known, times = self._slow.get((strategy, direction), (len(cells), 0))
                    self._slow[strategy, direction] = min(known, len(cells)), times + 1
                try:
                    return "Blackbox", _gathered(_ask(self._traced(asking), direction, cells, i), size)
                except NonDeterministic:
                    until = None
        with self._lock:
            many, times = self._slow.get((strategy, direction), (0, 0))
            if times and len(cells) >= many and time.perf_counter() - start < most / 2:
                del self._slow[strategy, direction]  # it was the machine
        return strategy, gathering.result()

    def _ranked(self, direction: str) -> list[Strategy]:
        """What is stored, that made for this direction first."""
        return sorted(self._stored, key=lambda strategy: _unfit(strategy, direction))

    def _open(self, strategy: Strategy) -> Encoding:
        with self._lock:
            if strategy not in self._opened:
                self._opened[strategy] = self._stored[strategy]()
            return self._opened[strategy]

    def _traced(self, asking: Asking) -> Again:
        if self.node not in asking.again:
            start = time.perf_counter()
            asking.again[self.node] = self._rerun.trace()
            self._rerun_seconds = time.perf_counter() - start
        return asking.again[self.node]


def _unfit(strategy: Strategy, direction: str) -> tuple[bool, int]:
    order = ("FullOne", "Interval", "PayOne", "Comp", "PayMany", "FullMany")
    either = strategy.encoding == "Interval"  # its rows are few, or asked through either side
    return strategy.direction != direction and not either, order.index(strategy.encoding)


def _ask(encoding: Encoding, direction: str, cells: Numbers, i: int) -> Iterator[Numbers]:
    return encoding.forward(cells, i) if direction == FORWARD else encoding.backward(cells, i)


def _gathered(parts: Iterator[Numbers], size: int) -> Numbers:
    gathering = Gathering(size)
    for part in parts:
        gathering.add(part)
        if gathering.is_whole:
            break
    return gathering.result()
