"""Sets of cells that were asked about, kept with a run as ranges: a trial asks them again of every strategy.

How many cells a question brings tells little of what it takes: those of a star are neighbours and have most to tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whence.arrays.cells import Numbers
from whence.arrays.columns import Columns
from whence.arrays.lists import spread
from whence.model import StoreError

MOST = 12
"""Sets of one operator in one direction."""
_MOST_RANGES = 50_000
_LOOKED_AT = 20
_FEW = 1000


@dataclass(frozen=True)
class Set:
    """Cells of one side of an operator, asked through input i."""

    i: int
    starts: Numbers
    lengths: Numbers

    @classmethod
    def of(cls, cells: Numbers, i: int) -> Set:
        """`cells`: sorted, each once."""
        if int(cells[-1]) - int(cells[0]) + 1 == len(cells):
            return cls(i, cells[:1].copy(), np.array([len(cells)], np.int64))
        begins = np.flatnonzero(np.diff(cells, prepend=cells[0] - 2) != 1)
        return cls(i, cells[begins], np.diff(np.append(begins, len(cells))))

    @property
    def cells(self) -> Numbers:
        return spread(self.starts, self.lengths)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Set)
            and self.i == other.i
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.lengths, other.lengths)
        )

    def __hash__(self) -> int:
        return hash((self.i, len(self.starts), int(self.lengths.sum())))


class Memory:
    """What one run remembers. It looks at the first questions only, since looking takes time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[int, str], list[Set]] = {}
        self._looked: Counter[tuple[int, str]] = Counter()
        self._marks: set[tuple[tuple[int, str], int, bytes]] = set()
        """Questions about few cells, by which one that is asked again is known soonest."""

    def keep(self, node: int, direction: str, cells: Numbers, i: int) -> None:
        side = (node, direction)
        self._looked[side] += 1
        if self._looked[side] > _LOOKED_AT:
            return
        if len(cells) <= _FEW:
            mark = (side, i, cells.tobytes())
            if mark in self._marks:
                return
            self._marks.add(mark)
        if side not in self._known:
            self._known[side] = read(self._folder, *side)
        known, asked = self._known[side], Set.of(cells, i)
        if len(known) < MOST and len(asked.starts) <= _MOST_RANGES and asked not in known:
            with suppress(OSError):  # a store that may only be read, or another process that was here first
                columns = {"i": np.array([i], np.int64), "starts": asked.starts, "lengths": asked.lengths}
                Columns.of(columns).write(_path(self._folder, *side, len(known)))
            known.append(asked)


def read(folder: Path, node: int, direction: str) -> list[Set]:
    found = []
    for number in range(MOST):
        path = _path(folder, node, direction, number)
        if not path.exists():
            break
        with suppress(OSError, StoreError, KeyError, ValueError):
            columns = Columns.read(path)
            found.append(Set(int(columns["i"].all()[0]), columns["starts"].all(), columns["lengths"].all()))
    return found


def together(each: Sequence[list[Set]]) -> list[Set]:
    """Those of several runs, every set once."""
    return list(dict.fromkeys(one for some in each for one in some))[:MOST]


def _path(folder: Path, node: int, direction: str, number: int) -> Path:
    return folder / f"{node}.asked.{direction}.{number}"
