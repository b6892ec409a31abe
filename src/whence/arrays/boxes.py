"""Boxes of cells: finding them in sets of cells, listing their cells, and a packed R-tree over them.

The tree is laid out by sorting the boxes along a Z-order curve and taking sixteen neighbours together, level by level.
It is built and asked by whole arrays, a level at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Numbers, Shape, coordinates, distinct, size_of, strides_of
from whence.arrays.columns import Column, Columns
from whence.arrays.lists import SLICE, Lists, spread

Corners = tuple[NDArray[np.int64], NDArray[np.int64]]
"""(lowest, highest) cell of each box, both n x ndim and inclusive."""

GROUP = 16


def boxes_of(numbers: Numbers, shape: Shape, apart: int = 0) -> Corners:
    """Boxes without overlap that hold exactly these cells (a set, sorted); none reaches over the first axes, as many as
    `apart`."""
    ndim = len(shape)
    if ndim == 0 or not len(numbers):
        cells = coordinates(numbers, shape)
        return cells, cells.copy()
    last = numbers % max(shape[-1], 1)
    begins = np.flatnonzero((np.diff(numbers, prepend=numbers[0] - 2) != 1) | (last == 0))
    ends = np.append(begins[1:], len(numbers)) - 1
    low, high = coordinates(numbers[begins], shape), coordinates(numbers[ends], shape)
    for axis in range(ndim - 2, apart - 1, -1):
        low, high = _merged(low, high, axis)
    return low, high


def boxes_of_lists(lists: Lists, shape: Shape) -> tuple[Numbers, NDArray[np.int64], NDArray[np.int64]]:
    """The same of each list of cells: whose each box is, in order, and its corners."""
    size = max(size_of(shape), 1)
    numbers = lists.values.all() + lists.owners() * size
    if len(numbers) > 1 and not (np.diff(numbers) > 0).all():
        numbers = distinct(numbers)
    if not shape:
        none = np.zeros((len(numbers), 0), np.int64)
        return numbers, none, none
    low, high = boxes_of(numbers, (len(lists), *shape), apart=1)
    order = np.argsort(low[:, 0], kind="stable")
    low, high = low[order], high[order]
    return low[:, 0], low[:, 1:], high[:, 1:]


def _merged(low: NDArray[np.int64], high: NDArray[np.int64], axis: int) -> Corners:
    """Boxes that are alike but for this axis and touch there become one."""
    others = [a for a in range(low.shape[1]) if a != axis]
    order = np.lexsort([low[:, axis], *(c[:, a] for a in reversed(others) for c in (high, low))])
    low, high = low[order], high[order]
    touch = low[1:, axis] == high[:-1, axis] + 1
    for a in others:
        touch &= (low[1:, a] == low[:-1, a]) & (high[1:, a] == high[:-1, a])
    begins = np.flatnonzero(np.concatenate([[True], ~touch]))
    merged = high[np.append(begins[1:], len(high)) - 1]
    return low[begins], merged


def cells_of(low: NDArray[np.int64], high: NDArray[np.int64], shape: Shape) -> Iterator[Numbers]:
    """The numbers of all cells in these boxes, some at a time; a cell in two boxes comes twice."""
    ndim = len(shape)
    lengths = high - low + 1
    counts = np.prod(lengths, axis=1, dtype=np.int64) if ndim else np.ones(len(low), np.int64)
    strides = strides_of(shape)
    sums = np.cumsum(counts)
    done = 0
    while done < len(counts):
        before = int(sums[done - 1]) if done else 0
        upto = max(int(np.searchsorted(sums, before + SLICE, "right")), done + 1)
        numbers = np.zeros(upto - done, np.int64)
        boxes = np.arange(done, upto)
        for axis in range(ndim):  # rows of the box, then the cells of each
            many = lengths[boxes, axis]
            places = spread(low[boxes, axis], many)
            numbers = np.repeat(numbers, many) + places * strides[axis]
            boxes = np.repeat(boxes, many)
        yield numbers
        done = upto


def hulls(lists: Lists, shape: Shape) -> Corners:
    """The smallest box around the cells of each list; no list is empty."""
    cells = coordinates(lists.values.all(), shape)
    if lists.are_single or not len(lists):
        return cells, cells
    starts = lists.starts.all()[:-1]
    return np.minimum.reduceat(cells, starts, axis=0), np.maximum.reduceat(cells, starts, axis=0)


def z_order(low: NDArray[np.int64], high: NDArray[np.int64]) -> Numbers:
    """An order in which boxes that are near each other in space are near each other."""
    count, ndim = low.shape
    if not count or not ndim:
        return np.arange(count, dtype=np.int64)
    bits = min(20, 62 // ndim)
    middle = (low + high) >> 1
    middle >>= max(int(middle.max()).bit_length() - bits, 0)
    code = np.zeros(count, np.int64)
    for bit in range(int(middle.max()).bit_length()):
        for axis in range(ndim):
            code |= ((middle[:, axis] >> bit) & 1) << (bit * ndim + ndim - 1 - axis)
    return np.argsort(code, kind="stable")


class BoxTree:
    """Groups of sixteen boxes each, and the boxes around them. Box k of the given order is in group k // 16."""

    def __init__(self, levels: list[Corners], count: int) -> None:
        self._levels = levels  # widest first
        self.count = count

    @classmethod
    def over(cls, low: NDArray[np.int64], high: NDArray[np.int64]) -> BoxTree:
        """Over boxes in their Z-order."""
        levels: list[Corners] = []
        count = len(low)
        while len(low) > 1 or (not levels and len(low)):
            starts = np.arange(0, len(low), GROUP)
            low, high = np.minimum.reduceat(low, starts, axis=0), np.maximum.reduceat(high, starts, axis=0)
            levels.append((low, high))
        return cls(levels[::-1], count)

    def columns(self, name: str) -> Mapping[str, NDArray[np.int64]]:
        made = {f"{name}.count": np.array([self.count], np.int64)}
        for level, (low, high) in enumerate(self._levels):
            for axis in range(low.shape[1]):
                made[f"{name}.{level}.{axis}.low"] = low[:, axis]
                made[f"{name}.{level}.{axis}.more"] = high[:, axis] - low[:, axis]
        return made

    @classmethod
    def read(cls, columns: Columns, name: str, ndim: int) -> BoxTree:
        levels: list[Corners] = []
        while f"{name}.{len(levels)}.0.low" in columns:
            at = f"{name}.{len(levels)}"
            low = _stacked([columns[f"{at}.{axis}.low"] for axis in range(ndim)])
            levels.append((low, low + _stacked([columns[f"{at}.{axis}.more"] for axis in range(ndim)])))
        return cls(levels, int(columns[f"{name}.count"].all()[0]))

    def meeting(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> Numbers:
        """The boxes that may meet one of the asked ones: those of all groups that do."""
        if self.count <= GROUP or not low.shape[1]:
            return np.arange(self.count, dtype=np.int64)
        asked = np.arange(len(low))
        groups = np.zeros(len(low), np.int64)
        for level, (from_, to) in enumerate(self._levels):
            if level:
                groups = (groups[:, None] * GROUP + np.arange(GROUP)).ravel()
                asked = np.repeat(asked, GROUP)
                there = groups < len(from_)
                groups, asked = groups[there], asked[there]
            good = (from_[groups] <= high[asked]).all(axis=1) & (to[groups] >= low[asked]).all(axis=1)
            groups, asked = groups[good], asked[good]
        found = distinct(groups)
        boxes: Numbers = (found[:, None] * GROUP + np.arange(GROUP)).ravel()
        return boxes[boxes < self.count]


def _stacked(columns: list[Column]) -> NDArray[np.int64]:
    return np.stack([column.all() for column in columns], axis=1)
