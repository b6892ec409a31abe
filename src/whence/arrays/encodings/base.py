"""What every encoding can do, and what it is made from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from whence.arrays.cells import NONE, Numbers, Shape
from whence.arrays.columns import Columns
from whence.arrays.errors import ArrayError
from whence.arrays.maps import Maps
from whence.arrays.operator import label
from whence.arrays.payloads import Payloads
from whence.arrays.written import Regions, Written

_MOST_PAIRS = 1 << 30


class Encoding(Protocol):
    """The stored lineage of one operator. Answers come a slice at a time; a cell may come more than once."""

    def backward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        """The cells of input i behind these output cells (a set)."""
        ...

    def forward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        """The output cells that these cells of input i (a set) reach."""
        ...


class Source:
    """What an encoding is made from: what the operator wrote, or what its map functions say."""

    def __init__(self, maps: Maps, written: Written | None, most: int | None = None) -> None:
        """`written` None: the operator has map functions, which need no writing. `most`: pairs worth collecting."""
        self.maps = maps
        self._written = written
        self._most = _MOST_PAIRS if most is None else min(most, _MOST_PAIRS)
        self._mapped: dict[int, Regions] = {}

    @property
    def inputs(self) -> int:
        return len(self.maps.input_shapes)

    def shape(self, i: int) -> Shape:
        return self.maps.input_shapes[i]

    def regions(self, i: int) -> Regions:
        if self._written is not None:
            return self._written.regions[i]
        if i not in self._mapped:
            outs, inns, count = [NONE], [NONE], 0
            for out, inn in self.maps.all_pairs(i):
                count += len(out)
                if count > self._most:
                    raise TooLarge(
                        f"The full lineage of {label(self.maps.operator)} has more than {self._most} pairs of cells: "
                        "keep Map, which needs none."
                    )
                outs.append(out)
                inns.append(inn)
            self._mapped[i] = Regions.pairs(np.concatenate(outs), np.concatenate(inns))
        return self._mapped[i]

    @property
    def payloads(self) -> Payloads:
        assert self._written is not None
        return self._written.payloads


class TooLarge(ArrayError):
    """More lineage than can be kept."""


class Kind(Protocol):
    """One way to encode, as the table in encodings/__init__.py has it."""

    def encode(self, source: Source, direction: str) -> Columns: ...

    def open(self, columns: Columns, maps: Maps, direction: str) -> Encoding: ...
