"""A set of cells that grows: sorted parts while it is small, one bit a cell when it is not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import NONE, Numbers, unique


class Gathering:
    def __init__(self, size: int) -> None:
        self._size = size
        self._parts: list[Numbers] = []
        self._waiting = 0
        self._bits: NDArray[np.bool_] | None = None

    def add(self, cells: Numbers) -> None:
        if not len(cells):
            return
        if self._bits is not None:
            self._bits[cells] = True
            return
        self._parts.append(cells)
        self._waiting += len(cells)
        if self._waiting * 16 > self._size:
            self._bits = np.zeros(self._size, bool)
            for part in self._parts:
                self._bits[part] = True
            self._parts = []
        elif self._waiting > 1 << 22:  # many, and yet few of the array: keep each once
            self._parts = [unique(np.concatenate(self._parts), self._size)]
            self._waiting = 2 * len(self._parts[0])

    @property
    def is_whole(self) -> bool:
        """No cell can be added: whoever gathers may stop."""
        return self._bits is not None and bool(self._bits.all())

    def result(self) -> Numbers:
        if self._bits is not None:
            return self._bits.nonzero()[0]
        return unique(np.concatenate(self._parts), self._size) if self._parts else NONE


def gathered(parts: Iterator[Numbers], size: int) -> Numbers:
    gathering = Gathering(size)
    for part in parts:
        gathering.add(part)
        if gathering.is_whole:
            break
    return gathering.result()
