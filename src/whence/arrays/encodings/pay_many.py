"""PayMany: an entry for each write, with all its output cells and one payload; a tree of boxes finds the entries.

Forward, the tree is over the input cells that map_p gives for an entry; which of its output cells depend on those asked
for is then told by map_p."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from whence.arrays.cells import NONE, Numbers, distinct, size_of
from whence.arrays.columns import Columns
from whence.arrays.encodings.base import Source
from whence.arrays.encodings.regioned import Regioned, together
from whence.arrays.lists import Lists, Members, spread
from whence.arrays.maps import Maps
from whence.arrays.payloads import table_columns, table_from


class PayMany:
    def __init__(self, columns: Columns, maps: Maps, direction: str) -> None:
        self._maps = maps
        self._is_backward = direction == "backward"
        self._distinct = table_from(columns)
        if self._is_backward:
            self._out = Regioned.read(columns, "out", maps.output_shape)
            self._ids = columns["ids"]
        else:
            self._entries = Lists(columns["out.starts"], columns["out.cells"])
            self._ids = columns["ids"]
            self._inn = [Regioned.read(columns, f"{i}.keys", shape) for i, shape in enumerate(maps.input_shapes)]
            self._which = [columns[f"{i}.which"] for i in range(len(maps.input_shapes))]

    @staticmethod
    def encode(source: Source, direction: str) -> Columns:
        payloads, maps = source.payloads, source.maps
        table, about = table_columns(payloads.table.distinct)
        order = Regioned.order(payloads.out, maps.output_shape)
        out, ids = payloads.out.chosen(order), payloads.table.ids[order]
        if direction == "backward":
            return Columns.of({**Regioned.columns(out, maps.output_shape, "out"), "ids": ids, **table}, about)
        made: dict[str, Any] = {"out.starts": out.starts, "out.cells": out.values, "ids": ids, **table}
        owners, cells = out.owners(), out.values.all()
        for i, shape in enumerate(maps.input_shapes):
            size = max(size_of(shape), 1)
            parts = [NONE]
            for rows, found in maps.payload_pairs(cells, ids[owners], payloads.table.distinct, i):
                parts.append(distinct(owners[rows] * size + found))  # (entry, input cell), each once
            both = distinct(np.concatenate(parts))
            entries, begins = np.unique(both // size, return_index=True)
            lists = Lists.of(np.diff(np.append(begins, len(both))), both % size)
            placed = Regioned.order(lists, shape)
            made |= Regioned.columns(lists.chosen(placed), shape, f"{i}.keys")
            made[f"{i}.which"] = entries[placed]
        return Columns.of(made, about)

    @classmethod
    def open(cls, columns: Columns, maps: Maps, direction: str) -> PayMany:
        return cls(columns, maps, direction)

    def backward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        lists = self._out.lists if self._is_backward else self._entries
        wanted = Members(cells, size_of(self._maps.output_shape))
        entries = together(self._out.holding(cells) if self._is_backward else lists.having(wanted))
        owners, asked = _expanded(lists, entries)
        good = wanted.among(asked)
        ids = self._ids.take(owners[good])
        for _, found in self._maps.payload_pairs(asked[good], ids, self._distinct, i):
            yield found

    def forward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        if self._is_backward:
            lists = self._out.lists
            entries = np.arange(len(lists), dtype=np.int64)
        else:
            lists = self._entries
            entries = np.sort(self._which[i].take(together(self._inn[i].holding(cells))))
        wanted = Members(cells, size_of(self._maps.input_shapes[i]))
        owners, outs = _expanded(lists, entries)
        for rows, found in self._maps.payload_pairs(outs, self._ids.take(owners), self._distinct, i):
            yield outs[rows[wanted.among(found)]]


def _expanded(lists: Lists, chosen: Numbers) -> tuple[Numbers, Numbers]:
    """(list, cell) for each cell of the chosen lists."""
    starts = lists.starts.take(chosen)
    lengths = lists.starts.take(chosen + 1) - starts
    return np.repeat(chosen, lengths), lists.values.take(spread(starts, lengths))
