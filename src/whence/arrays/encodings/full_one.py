"""FullOne: an entry for each cell, which refers to the cells on the other side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whence.arrays.cells import Numbers, size_of
from whence.arrays.columns import Columns
from whence.arrays.encodings.base import Source
from whence.arrays.encodings.keyed import Keyed
from whence.arrays.lists import Members
from whence.arrays.maps import Maps


class FullOne:
    def __init__(self, columns: Columns, maps: Maps, direction: str) -> None:
        self.tables = [Keyed.read(columns, str(i)) for i in range(len(maps.input_shapes))]
        self._maps = maps
        self._is_backward = direction == "backward"

    @staticmethod
    def encode(source: Source, direction: str) -> Columns:
        made: dict[str, Any] = {}
        for i in range(source.inputs):
            regions = source.regions(i) if direction == "backward" else source.regions(i).turned()
            made |= Keyed.columns(regions.out, regions.inn, str(i))
        return Columns.of(made)

    @classmethod
    def open(cls, columns: Columns, maps: Maps, direction: str) -> FullOne:
        return cls(columns, maps, direction)

    def backward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        if self._is_backward:
            return self.tables[i].lookup(cells)
        return self.tables[i].scan(Members(cells, size_of(self._maps.output_shape)))

    def forward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        if not self._is_backward:
            return self.tables[i].lookup(cells)
        return self.tables[i].scan(Members(cells, size_of(self._maps.input_shapes[i])))
