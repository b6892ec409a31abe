"""One step of a query: from a set of cells on one side of an operator to the set on the other.

The ways, best first: the whole array of an operator that says so; map functions; what is stored; running the operator
again in tracing mode. With `optimise` the clock decides between the last two: when reading what is stored has taken
most of what a rerun is known to take, the rerun takes over, so that no step takes longer than two of them (VII-A)."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from whence.arrays.cells import NONE, Numbers, size_of
from whence.arrays.encodings import BACKWARD, FORWARD, MAP, Encoding, Strategy
from whence.arrays.encodings.full_one import FullOne
from whence.arrays.encodings.keyed import Keyed
from whence.arrays.encodings.pay_one import PayOne
from whence.arrays.encodings.rerun import Again, Reruns
from whence.arrays.gathering import Gathering, gathered
from whence.arrays.maps import Maps, Renumber
from whence.arrays.operator import Mode, label, modes_of
from whence.arrays.workflow import Node
from whence.model import NonDeterministic
from whence.strategy.costs import Answered

_SHORT = 0.005  # seconds that are not worth running a user's code again for
_PART = 0.7  # of what a rerun takes, after which it takes over: together they are then less than two
_NOTICED = 0.001  # seconds above which a look-up that takes longer than a rerun is noticed
_HICCUP = 0.2  # seconds that a thread may have to wait for a processor that others use
ENTIRE = "entire"
"""How a step is told that needed no lineage: whole arrays of an operator that says so."""


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


@dataclass(frozen=True)
class _Slow:
    """What is stored took longer than a rerun: for so many cells, so often (once may be the machine's fault), and at
    least so many seconds."""

    cells: int
    times: int
    seconds: float

    def is_over(self, rerun: float) -> bool:
        """Whether a rerun, which may have turned out longer since, is still worth it."""
        return self.seconds >= _PART * rerun


class _Watch:
    """What reading takes by the clock, without short waits for the processor: on a busy machine they would turn
    look-ups into reruns. What waits longer waits for a disk."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.thread_time()

    @property
    def seconds(self) -> float:
        worked = time.thread_time() - self._start[1]
        took = time.perf_counter() - self._start[0]
        return worked if took - worked < _HICCUP else took

    def is_over(self, seconds: float) -> bool:
        return time.perf_counter() - self._start[0] > seconds and self.seconds > seconds


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
        self._slow: dict[tuple[Strategy, str], _Slow] = {}
        self._lock = threading.Lock()

    @property
    def is_known(self) -> bool:
        """Whether the operator tells anything about its lineage."""
        return self._modes != {Mode.BLACKBOX}

    @property
    def rerun_seconds(self) -> float:
        """What running the operator with tracing took when it was last done."""
        return self._rerun_seconds

    def table(self, direction: str, i: int) -> Renumber | Keyed | None:
        """This step as a function of single cells, or as a stored table that is made for the direction; None where it
        is neither, or has something to note."""
        if MAP in self._strategies:
            return self.maps.renumber(direction, i)
        best = next(iter(self._ranked(direction)), None)
        if best is None or not _is_table(best, direction) or best.needs in self._silent:
            return None
        opened = self._open(best)
        return opened.tables[i] if isinstance(opened, (FullOne, PayOne)) else None

    def step(self, direction: str, cells: Numbers, i: int, asking: Asking) -> Found:
        """`cells`: a set; input i is asked about."""
        from_size, to_size = self._sizes(direction, i)
        if not len(cells) or not to_size:
            return Found(NONE)
        start = time.perf_counter()
        if self._operator.entire_array and len(cells) == from_size:
            everything = np.arange(to_size, dtype=np.int64)
            self._tell(ENTIRE, direction, cells, i, everything, start, asking)
            return Found(everything)
        if not self.is_known:
            return Found(
                np.arange(to_size, dtype=np.int64),
                f"{self.node.name} ({label(self._operator)}) says nothing about its lineage, so that every cell of its "
                "output is taken to depend on every cell of its inputs.",
            )
        strategy, found = self._answered(direction, cells, i, asking, to_size)
        self._tell(str(strategy), direction, cells, i, found, start, asking)
        return Found(found, ended=self._unsaid(strategy, asking))

    def _tell(
        self, strategy: str, direction: str, cells: Numbers, i: int, found: Numbers, start: float, asking: Asking
    ) -> None:
        took = time.perf_counter() - start
        asking.told.append((self.node, Answered(strategy, direction, len(cells), len(found), took)))
        asking.cells.append((i, cells))

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
            return MAP, gathered(_ask(self.maps, direction, cells, i), size)
        stored = self._ranked(direction)
        if not stored or self.node in asking.again:
            return "Blackbox", gathered(_ask(self._traced(asking), direction, cells, i), size)
        best = stored[0]
        if not asking.optimise:
            return best, gathered(_ask(self._open(best), direction, cells, i), size)
        slow = self._slow.get((best, direction))
        if slow is not None and slow.times > 1 and len(cells) >= slow.cells and slow.is_over(self._rerun_seconds):
            try:
                return "Blackbox", gathered(_ask(self._traced(asking), direction, cells, i), size)
            except NonDeterministic:  # what was stored when it ran is right, and now the only way
                return best, gathered(_ask(self._open(best), direction, cells, i), size)
        return self._within(best, direction, cells, i, asking, size)

    def _within(
        self, strategy: Strategy, direction: str, cells: Numbers, i: int, asking: Asking, size: int
    ) -> tuple[Strategy | str, Numbers]:
        """From what is stored, unless that takes longer than a rerun."""
        gathering = Gathering(size)
        encoding = self._open(strategy)
        watch, most = _Watch(), max(_PART * self._rerun_seconds, _SHORT)
        for part in _ask(encoding, direction, cells, i):
            gathering.add(part)
            if gathering.is_whole:
                break
            if watch.is_over(most):
                self._noticed(strategy, direction, len(cells), watch.seconds, given_up=True)
                try:
                    return "Blackbox", gathered(_ask(self._traced(asking), direction, cells, i), size)
                except NonDeterministic:
                    most = math.inf
        found = gathering.result()
        self._noticed(strategy, direction, len(cells), watch.seconds)
        return strategy, found

    def _noticed(self, strategy: Strategy, direction: str, cells: int, took: float, given_up: bool = False) -> None:
        """Remember what a rerun would have answered sooner, and forget it when it was the machine."""
        with self._lock:
            known = self._slow.get((strategy, direction))
            if given_up or took > max(self._rerun_seconds, _NOTICED):
                many, times = (known.cells, known.times) if known is not None else (cells, 0)
                self._slow[strategy, direction] = _Slow(min(many, cells), times + 1, took)
            elif known is not None and cells >= known.cells and took < self._rerun_seconds / 2:
                del self._slow[strategy, direction]

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


def _unfit(strategy: Strategy, direction: str) -> tuple[bool, bool, int]:
    order = ("FullOne", "Interval", "PayOne", "Comp", "PayMany", "FullMany")
    either = strategy.encoding == "Interval"  # its rows are few, or asked through either side
    unfit = strategy.direction != direction and not either
    return unfit, not _is_table(strategy, direction), order.index(strategy.encoding)


def _is_table(strategy: Strategy, direction: str) -> bool:
    """Whether the cells asked about are looked up in a table of cells; backward, payloads have yet to be mapped."""
    made_for = strategy.direction == direction
    return made_for and (strategy.encoding == "FullOne" or (strategy.encoding == "PayOne" and direction == FORWARD))


def _ask(encoding: Encoding, direction: str, cells: Numbers, i: int) -> Iterator[Numbers]:
    return encoding.forward(cells, i) if direction == FORWARD else encoding.backward(cells, i)
