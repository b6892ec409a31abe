"""FullMany: an entry for each region pair; a tree of boxes finds the regions that a cell is in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from whence.arrays.cells import NONE, Numbers, size_of
from whence.arrays.columns import Columns
from whence.arrays.encodings.base import Source
from whence.arrays.encodings.regioned import Regioned
from whence.arrays.lists import Lists, Members
from whence.arrays.maps import Maps
from whence.arrays.written import Regions


class FullMany:
    def __init__(self, columns: Columns, maps: Maps, direction: str) -> None:
        self._is_backward = direction == "backward"
        self._maps = maps
        self._keys, self._values = [], []
        for i, shape in enumerate(maps.input_shapes):
            self._keys.append(Regioned.read(columns, f"{i}.keys", maps.output_shape if self._is_backward else shape))
            self._values.append(Lists(columns[f"{i}.starts"], columns[f"{i}.values"]))

    @staticmethod
    def encode(source: Source, direction: str) -> Columns:
        made: dict[str, Any] = {}
        for i in range(source.inputs):
            shape = source.maps.output_shape
            regions = _of_cells(source.regions(i))
            if direction == "forward":
                regions, shape = regions.turned(), source.shape(i)
            order = Regioned.order(regions.out, shape)
            values = regions.inn.chosen(order)
            made |= Regioned.columns(regions.out.chosen(order), shape, f"{i}.keys")
            made |= {f"{i}.starts": values.starts, f"{i}.values": values.values}
        return Columns.of(made)

    @classmethod
    def open(cls, columns: Columns, maps: Maps, direction: str) -> FullMany:
        return cls(columns, maps, direction)

    def backward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        return self._lookup(cells, i) if self._is_backward else self._scan(cells, i, self._maps.output_shape)

    def forward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        return self._scan(cells, i, self._maps.input_shapes[i]) if self._is_backward else self._lookup(cells, i)

    def _lookup(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        hit = np.zeros(len(self._values[i]), bool)
        for found in self._keys[i].holding(cells):
            hit[found] = True
            yield NONE
        yield from self._values[i].gather(np.flatnonzero(hit))

    def _scan(self, cells: Numbers, i: int, shape: tuple[int, ...]) -> Iterator[Numbers]:
        for found in self._values[i].having(Members(cells, size_of(shape))):
            yield from self._keys[i].lists.gather(found)


def _of_cells(regions: Regions) -> Regions:
    """Pairs that were written one by one are put together: one region for each output cell."""
    if not (regions.out.are_single and regions.inn.are_single) or len(regions) < 2:
        return regions
    out, inn = regions.out.values.all(), regions.inn.values.all()
    if (np.diff(out) < 0).any():
        order = np.argsort(out, kind="stable")
        out, inn = out[order], inn[order]
    begins = np.flatnonzero(np.diff(out, prepend=out[0] - 1))
    return Regions(Lists.single(out[begins]), Lists.of(np.diff(np.append(begins, len(out))), inn))
