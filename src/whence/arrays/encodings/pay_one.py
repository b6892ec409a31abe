"""PayOne: an entry for each written output cell with its payload, which map_p turns into input cells when asked.

Forward, the entries are keyed by the input cells that map_p gives, worked out when the run is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from whence.arrays.cells import NONE, Numbers, size_of
from whence.arrays.columns import Column, Columns
from whence.arrays.encodings.base import Source
from whence.arrays.encodings.keyed import Keyed
from whence.arrays.lists import Lists, Members, spread
from whence.arrays.maps import Maps
from whence.arrays.payloads import Payloads, table_columns, table_from


class PayOne:
    def __init__(self, columns: Columns, maps: Maps, direction: str) -> None:
        self._maps = maps
        self._notes = Notes(columns, maps) if direction == "backward" else None
        self.tables: list[Keyed] = []
        if self._notes is None:
            self.tables = [Keyed.read(columns, str(i)) for i in range(len(maps.input_shapes))]

    @staticmethod
    def encode(source: Source, direction: str) -> Columns:
        if direction == "backward":
            return Notes.columns(source.payloads)
        return Columns.of(turned_columns(source.payloads, source.maps))

    @classmethod
    def open(cls, columns: Columns, maps: Maps, direction: str) -> PayOne:
        return cls(columns, maps, direction)

    def backward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        if self._notes is not None:
            return self._notes.backward(cells, i)
        return self.tables[i].scan(Members(cells, size_of(self._maps.output_shape)))

    def forward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        if self._notes is not None:
            return self._notes.forward(cells, i)
        return self.tables[i].lookup(cells)


class Notes:
    """(cell, payload) sorted by cell."""

    def __init__(self, columns: Columns, maps: Maps) -> None:
        self.cells: Column = columns["cells"]
        self._ids = columns["ids"]
        self._distinct = table_from(columns)
        self._maps = maps

    @staticmethod
    def columns(payloads: Payloads) -> Columns:
        cells, ids = payloads.by_cell()
        table, about = table_columns(payloads.table.distinct)
        return Columns.of({"cells": cells, "ids": ids, **table}, about)

    def backward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        first = self.cells.find(cells)
        counts = self.cells.find(cells, "right") - first
        places = spread(first, counts)
        asked, ids = np.repeat(cells, counts), self._ids.take(places)
        for _, found in self._maps.payload_pairs(asked, ids, self._distinct, i):
            yield found

    def forward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        """A payload cannot be indexed: every one is turned into input cells and held against those asked for."""
        everything = self.cells.all()
        wanted = Members(cells, size_of(self._maps.input_shapes[i]))
        for rows, found in self._maps.payload_pairs(everything, self._ids.all(), self._distinct, i):
            yield everything[rows[wanted.among(found)]]


def turned_columns(payloads: Payloads, maps: Maps) -> dict[str, Any]:
    """For each input the table from its cells to the output cells whose payloads lead there."""
    cells, ids = payloads.by_cell()
    made: dict[str, Any] = {}
    for i in range(len(maps.input_shapes)):
        outs, inns = [NONE], [NONE]
        for rows, found in maps.payload_pairs(cells, ids, payloads.table.distinct, i):
            outs.append(cells[rows])
            inns.append(found)
        made |= Keyed.columns(Lists.single(np.concatenate(inns)), Lists.single(np.concatenate(outs)), str(i))
    return made
