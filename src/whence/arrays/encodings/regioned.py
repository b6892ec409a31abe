"""Lists of cells that are looked up as wholes, through a tree over the boxes around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from whence.arrays.boxes import BoxTree, hulls, z_order
from whence.arrays.cells import Numbers, Shape, coordinates, distinct, size_of
from whence.arrays.columns import Columns
from whence.arrays.lists import SLICE, Lists, Members

_FEW = 2048  # cells; beyond, looking through all lists is cheaper than the tree


class Regioned:
    """Which of many lists hold one of some cells."""

    def __init__(self, lists: Lists, tree: BoxTree, shape: Shape) -> None:
        self.lists, self._tree, self._shape = lists, tree, shape

    @staticmethod
    def order(lists: Lists, shape: Shape) -> Numbers:
        """The order in which lists must be written."""
        return z_order(*hulls(lists, shape))

    @staticmethod
    def columns(lists: Lists, shape: Shape, name: str) -> Mapping[str, Any]:
        """`lists` are in their order already."""
        tree = BoxTree.over(*hulls(lists, shape))
        return {f"{name}.starts": lists.starts, f"{name}.cells": lists.values, **tree.columns(f"{name}.tree")}

    @classmethod
    def read(cls, columns: Columns, name: str, shape: Shape) -> Regioned:
        lists = Lists(columns[f"{name}.starts"], columns[f"{name}.cells"])
        return cls(lists, BoxTree.read(columns, f"{name}.tree", len(shape)), shape)

    def holding(self, cells: Numbers) -> Iterator[Numbers]:
        """The lists, some at a time; some may come twice."""
        wanted = Members(cells, size_of(self._shape))
        if len(cells) > _FEW:
            yield from self.lists.having(wanted)
            return
        at = coordinates(cells, self._shape)
        near = self._tree.meeting(at, at)
        for start in range(0, len(near), SLICE // 16):
            some = near[start : start + SLICE // 16]
            for found in self.lists.chosen(some).having(wanted):
                yield some[found]


def together(parts: Iterator[Numbers]) -> Numbers:
    """A set of lists from parts that may repeat."""
    found = [part for part in parts if len(part)]
    return distinct(np.concatenate(found)) if found else np.empty(0, np.int64)
