"""The ways that questions with a path took, and steps of them that are put together.

The second question along a path makes one step of several that follow each other, where each leads a cell to at most
one other (cells that stay or move, a stored table of single cells) and the last to a stored list: a column in memory,
from the cells of the first array straight to the place in the last table. From then on these steps take one look-up
and are not timed one by one, so that the chooser learns from the questions before. Answers are the same.

Making it takes a few looks at arrays that a rerun would make anew, and is only done where it is expected to take less
than that rerun; columns of all ways of a run take at most _MOST_BYTES."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.access import Access
from whence.arrays.cells import Numbers, unique
from whence.arrays.encodings.keyed import Keyed
from whence.arrays.gathering import gathered
from whence.arrays.maps import Renumber
from whence.arrays.workflow import Node

_MOST_WAYS = 100
_MOST_BYTES = 64 << 20
_EACH = 5e-9
"""Seconds for a cell of one array on the way, when steps are put together."""


@dataclass(frozen=True)
class Leg:
    """One step of a path: an operator, the inputs that it goes through, and the array that it leads to."""

    node: Node
    inputs: tuple[int, ...]
    to: Node


@dataclass(frozen=True)
class Jump:
    """Some legs as one. `where`: for each cell of the first array the cell that it leads to, or its place in `table`;
    -1 for none. Sets of `most` cells and more go leg by leg: they might be whole arrays of operators that say what that
    means."""

    legs: tuple[Leg, ...]
    where: NDArray[Any]
    table: Keyed | None
    size: int
    most: int

    def take(self, cells: Numbers) -> Numbers:
        places = self.where[cells]
        places = places[places >= 0].astype(np.int64)
        if self.table is None:
            return unique(places, self.size)
        return gathered(self.table.at(unique(places, len(self.table))), self.size)


class Ways:
    """Those of one run."""

    def __init__(self, access: Callable[[Node], Access], size: Callable[[Node], int]) -> None:
        self._access, self._size = access, size
        self._known: dict[Hashable, tuple[Leg | Jump, ...]] = {}
        self._again: set[Hashable] = set()
        self._bytes = 0

    def get(self, way: Hashable, direction: str) -> tuple[Leg | Jump, ...] | None:
        """The steps of a way that was asked before."""
        known = self._known.get(way)
        if known is not None and way not in self._again:
            self._again.add(way)
            legs = [leg for leg in known if isinstance(leg, Leg)]
            known = self._known[way] = tuple(self._joined(legs, direction))
        return known

    def keep(self, way: Hashable, legs: tuple[Leg, ...]) -> None:
        if len(self._known) < _MOST_WAYS:
            self._known[way] = legs

    def _joined(self, legs: Sequence[Leg], direction: str) -> Iterator[Leg | Jump]:
        waiting: list[tuple[Leg, Renumber | Keyed]] = []
        for leg in legs:
            step = self._access(leg.node).table(direction, leg.inputs[0]) if len(leg.inputs) == 1 else None
            if step is not None:
                waiting.append((leg, step))
            if step is None or (isinstance(step, Keyed) and not step.is_single):
                yield from self._put_together(waiting, direction)
                waiting = []
            if step is None:
                yield leg
        yield from self._put_together(waiting, direction)

    def _put_together(self, steps: Sequence[tuple[Leg, Renumber | Keyed]], direction: str) -> Iterator[Leg | Jump]:
        legs = tuple(leg for leg, _ in steps)
        stored = [self._access(leg.node) for leg, step in steps if isinstance(step, Keyed)]
        sizes = [self._from(leg, direction) for leg in legs]
        worth = len(legs) > 1 and _EACH * sum(sizes) < sum(access.rerun_seconds for access in stored)
        if not worth or self._bytes + 8 * max(sizes) > _MOST_BYTES:  # those on the way are in memory meanwhile
            yield from legs
            return
        where: Numbers | None = None
        table: Keyed | None = None
        for (_, step), size in zip(steps, sizes, strict=True):
            if isinstance(step, Keyed):
                table = None if step.is_single else step
                next_ = step.dense(size)
                where = next_[:-1] if where is None else next_[where]  # the last is for -1
            else:
                moved = step(np.arange(size, dtype=np.int64) if where is None else where)
                where = moved if where is None else np.where(where < 0, -1, moved)
        assert where is not None
        narrow: NDArray[Any] = where.astype(np.int32) if where.max(initial=0) < 1 << 31 else where
        self._bytes += narrow.nbytes
        whole = [n for leg, n in zip(legs, sizes, strict=True) if leg.node.operator and leg.node.operator.entire_array]
        yield Jump(legs, narrow, table, self._size(legs[-1].to), min(whole, default=1 << 62))

    def _from(self, leg: Leg, direction: str) -> int:
        return self._size(leg.node if direction == "backward" else leg.node.inputs[leg.inputs[0]])
