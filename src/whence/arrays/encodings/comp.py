"""Comp: map functions say what a cell depends on, except for the cells that were written with a payload."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from whence.arrays.cells import Numbers, distinct, size_of
from whence.arrays.columns import Columns
from whence.arrays.encodings.base import Source
from whence.arrays.encodings.keyed import Keyed
from whence.arrays.encodings.pay_one import Notes, turned_columns
from whence.arrays.lists import Members
from whence.arrays.maps import Maps


class Comp:
    def __init__(self, columns: Columns, maps: Maps, direction: str) -> None:
        self._maps = maps
        self._notes = Notes(columns, maps) if direction == "backward" else None
        if self._notes is None:
            self._tables = [Keyed.read(columns, str(i)) for i in range(len(maps.input_shapes))]
        self._written = self._notes.cells if self._notes is not None else columns["written"]

    @staticmethod
    def encode(source: Source, direction: str) -> Columns:
        if direction == "backward":
            return Notes.columns(source.payloads)
        written = distinct(source.payloads.out.values.all())
        return Columns.of({"written": written, **turned_columns(source.payloads, source.maps)})

    @classmethod
    def open(cls, columns: Columns, maps: Maps, direction: str) -> Comp:
        return cls(columns, maps, direction)

    def backward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        special = self.is_written(cells)
        rest = cells[~special]
        cells = cells[special]
        if len(cells):
            if self._notes is not None:
                yield from self._notes.backward(cells, i)
            else:
                yield from self._tables[i].scan(Members(cells, size_of(self._maps.output_shape)))
        if len(rest):
            yield from self._maps.backward(rest, i)

    def forward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        for found in self._maps.forward(cells, i):
            yield found[~self.is_written(found)]
        yield from self.exceptions(cells, i)

    def exceptions(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        """Forward, of the written cells alone."""
        return self._notes.forward(cells, i) if self._notes is not None else self._tables[i].lookup(cells)

    def is_written(self, cells: Numbers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        if not len(self._written):
            return np.zeros(len(cells), bool)
        places = np.minimum(self._written.find(cells), len(self._written) - 1)
        found: np.ndarray[tuple[int], np.dtype[np.bool_]] = self._written.take(places) == cells
        return found
