"""Interval: lineage as boxes of output cells, each with a box of input cells that stands still or moves along with it
(what DSLog calls ProvRC). A regular operator is a handful of rows, and they are asked without being unpacked.

A row says: every output cell o of the box [low, high] depends on the input cells whose coordinate a lies between
from[a] and to[a], counted from stride[a] * o[axis[a]] where the row says that a moves with that axis, and from 0 where
not. Strides other than 1 are those of flips (-1) and slices. Where cells follow each other in C order and not by their
coordinates (a reshape), both arrays are taken as flat; where many outputs have one input (a repetition), the rows are
of inputs, and say which outputs depend on them.

Rows are made from pairs by merging neighbours, one axis after the other: first the inputs of one output cell into
boxes, then output cells whose inputs are the same, or the same but for moving along."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.boxes import BoxTree, boxes_of, boxes_of_lists, cells_of, z_order
from whence.arrays.cells import Numbers, Shape, coordinates, size_of
from whence.arrays.columns import Columns
from whence.arrays.encodings.base import Source
from whence.arrays.lists import spread
from whence.arrays.maps import Maps
from whence.arrays.written import Regions

Ints = NDArray[np.int64]
_STILL = -1
_AT_ONCE = 1 << 16  # (asked box, row) that are held against each other at once
_SAMPLE = 1 << 14
_WAYS = 3  # strides that are tried beside none and one
Way = tuple[int, ...]


@dataclass(frozen=True)
class Rows:
    low: Ints
    high: Ints
    from_: Ints
    to: Ints
    axis: Ints
    """For each input coordinate the output axis that it moves with, or _STILL."""
    stride: Ints
    """How far it moves for a step along that axis; 0 where it stands still."""

    def __len__(self) -> int:
        return len(self.low)

    def at(self, places: Any) -> Rows:
        parts = (self.low, self.high, self.from_, self.to, self.axis, self.stride)
        return Rows(*(part[places] for part in parts))

    def hulls(self) -> tuple[Ints, Ints]:
        """The input boxes that the rows reach at all."""
        low, high = self.from_.copy(), self.to.copy()
        for d in range(self.low.shape[1]):
            moved = np.where(self.axis == d, self.stride, 0)
            first, last = moved * self.low[:, d : d + 1], moved * self.high[:, d : d + 1]
            low += np.minimum(first, last)
            high += np.maximum(first, last)
        return low, high


@dataclass(frozen=True)
class View:
    """How a relation is looked at: the shapes that the rows' boxes, and what they say, are counted in."""

    output: Shape
    input: Shape
    is_flat: bool = False
    is_turned: bool = False

    @property
    def _shapes(self) -> tuple[Shape, Shape]:
        flat = (size_of(self.output),), (size_of(self.input),)
        return flat if self.is_flat else (self.output, self.input)

    @property
    def low(self) -> Shape:
        return self._shapes[1 if self.is_turned else 0]

    @property
    def from_(self) -> Shape:
        return self._shapes[0 if self.is_turned else 1]

    def indexed(self, is_backward: bool) -> Shape:
        """Of the side that the tree of boxes is over: outputs for backward questions."""
        return self._shapes[0 if is_backward else 1]

    def of(self, regions: Regions) -> Regions:
        return regions.turned() if self.is_turned else regions

    def columns(self, i: int) -> dict[str, Ints]:
        told = {f"{i}.flat": self.is_flat, f"{i}.turned": self.is_turned}
        return {name: np.array([1], np.int64) for name, is_so in told.items() if is_so}

    @classmethod
    def read(cls, columns: Columns, i: int, output: Shape, inn: Shape) -> View:
        return cls(output, inn, f"{i}.flat" in columns, f"{i}.turned" in columns)


def _best_view(regions: Regions, output: Shape, inn: Shape) -> View:
    """The one in which some of the pairs make the fewest rows, where that is much fewer than as they are."""
    plain = View(output, inn)
    if not (regions.out.are_single and regions.inn.are_single):
        return plain
    some = Regions.pairs(regions.out.values.part(0, _SAMPLE), regions.inn.values.part(0, _SAMPLE))
    best, least = plain, len(compressed(some, output, inn)) / 4
    for is_flat, is_turned in ((False, True), (True, False), (True, True)) if least > 4 else ():
        view = View(output, inn, is_flat, is_turned)
        rows = len(compressed(view.of(some), view.low, view.from_))
        if rows < least:
            best, least = view, rows
    return best


class Interval:
    def __init__(self, columns: Columns, maps: Maps, direction: str) -> None:
        self._maps = maps
        self._is_backward = direction == "backward"
        self._rows, self._trees, self._views = [], [], []
        for i, shape in enumerate(maps.input_shapes):
            view = View.read(columns, i, maps.output_shape, shape)
            self._views.append(view)
            self._rows.append(_read(columns, str(i), len(view.low), len(view.from_)))
            self._trees.append(BoxTree.read(columns, f"{i}.tree", len(view.indexed(self._is_backward))))

    @staticmethod
    def encode(source: Source, direction: str) -> Columns:
        made: dict[str, Any] = {}
        for i in range(source.inputs):
            regions = source.regions(i)
            view = _best_view(regions, source.maps.output_shape, source.shape(i))
            made |= view.columns(i)
            rows = compressed(view.of(regions), view.low, view.from_)
            boxes = (rows.low, rows.high) if (direction == "backward") != view.is_turned else rows.hulls()
            order = z_order(*boxes)
            rows = rows.at(order)
            made |= _columns(rows, str(i))
            made |= BoxTree.over(boxes[0][order], boxes[1][order]).columns(f"{i}.tree")
        return Columns.of(made)

    @classmethod
    def open(cls, columns: Columns, maps: Maps, direction: str) -> Interval:
        return cls(columns, maps, direction)

    def backward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        return self._against(cells, i) if self._views[i].is_turned else self._along(cells, i)

    def forward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        return self._along(cells, i) if self._views[i].is_turned else self._against(cells, i)

    def _along(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        """From the boxes of the rows to what they say."""
        view = self._views[i]
        shape, indexed = view.from_, self._is_backward != view.is_turned
        for asked, rows in self._met(cells, i, view.low, indexed, outputs=True):
            low, high = np.maximum(rows.low, asked[0]), np.minimum(rows.high, asked[1])
            moved = _unfolded(replace(rows, low=low, high=high))
            yield from cells_of(*moved.hulls(), shape)

    def _against(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        view = self._views[i]
        shape, indexed = view.low, self._is_backward == view.is_turned
        for asked, rows in self._met(cells, i, view.from_, indexed, outputs=False):
            if (rows.axis == _STILL).all():  # whatever is met of it, all of a row's box depends on it
                yield from cells_of(rows.low, rows.high, shape)
                continue
            several = _shared(rows) & (asked[0] != asked[1]).any(axis=1)
            if several.any():  # a diagonal: each cell for itself
                asked, rows = _split(asked, rows, several)
            low, high = rows.low.copy(), rows.high.copy()
            for a in range(rows.from_.shape[1]):
                first, last = _meeting(
                    asked[0][:, a], asked[1][:, a], rows.from_[:, a], rows.to[:, a], rows.stride[:, a]
                )
                for d in range(low.shape[1]):
                    moves = rows.axis[:, a] == d
                    low[:, d] = np.where(moves, np.maximum(low[:, d], first), low[:, d])
                    high[:, d] = np.where(moves, np.minimum(high[:, d], last), high[:, d])
            good = (low <= high).all(axis=1)
            yield from cells_of(low[good], high[good], shape)

    def _met(
        self, cells: Numbers, i: int, shape: Shape, indexed: bool, *, outputs: bool
    ) -> Iterator[tuple[tuple[Ints, Ints], Rows]]:
        """Asked boxes, and beside each a row that it meets."""
        rows, tree = self._rows[i], self._trees[i]
        low, high = boxes_of(cells, shape)
        if not len(rows):
            return
        step = 256
        for start in range(0, len(low), step):
            some_low, some_high = low[start : start + step], high[start : start + step]
            near = tree.meeting(some_low, some_high) if indexed else np.arange(len(rows))
            for begin in range(0, len(near), max(1, _AT_ONCE // len(some_low))):
                those = rows.at(near[begin : begin + max(1, _AT_ONCE // len(some_low))])
                box = (those.low, those.high) if outputs else those.hulls()
                meet = np.ones((len(some_low), len(those)), bool)
                for d in range(low.shape[1]):
                    meet &= some_low[:, d : d + 1] <= box[1][:, d]
                    meet &= some_high[:, d : d + 1] >= box[0][:, d]
                ours, theirs = np.nonzero(meet)
                yield (some_low[ours], some_high[ours]), those.at(theirs)


def _meeting(low: Ints, high: Ints, from_: Ints, to: Ints, stride: Ints) -> tuple[Ints, Ints]:
    """The first and the last step at which [from, to], moved by the stride for each step, meets [low, high]."""
    turned = stride < 0
    step = np.where(stride == 0, 1, stride)
    first = -((np.where(turned, from_ - high, to - low)) // step)  # rounded up
    last = np.where(turned, low - to, high - from_) // step
    return first, last


def _shared(rows: Rows) -> NDArray[np.bool_]:
    """Rows where two input coordinates move with the same axis: their cells are a diagonal, not a box."""
    shared = np.zeros(len(rows), bool)
    for d in range(rows.low.shape[1]):
        shared |= (rows.axis == d).sum(axis=1) > 1
    return shared


def _unfolded(rows: Rows) -> Rows:
    """Diagonals, and strides that leave gaps, are cut into single steps, so that the hull of every row is exactly its
    input cells."""
    for d in range(rows.low.shape[1]):
        moves = rows.axis == d
        gaps = (moves & (np.abs(rows.stride) > rows.to - rows.from_ + 1)).any(axis=1)
        cuts = gaps | (moves.sum(axis=1) > 1)
        counts = np.where(cuts, rows.high[:, d] - rows.low[:, d] + 1, 1)
        if (counts > 1).any():
            places = np.repeat(np.arange(len(rows)), counts)
            steps = spread(np.zeros(len(rows), np.int64), counts)
            cut = rows.at(places)
            single = counts[places] > 1
            low, high = cut.low.copy(), cut.high.copy()
            low[:, d] += np.where(single, steps, 0)
            high[:, d] = np.where(single, low[:, d], high[:, d])
            rows = replace(cut, low=low, high=high)
    return rows


def _split(asked: tuple[Ints, Ints], rows: Rows, several: NDArray[np.bool_]) -> tuple[tuple[Ints, Ints], Rows]:
    """The asked boxes of these rows, cell by cell."""
    low, high = asked
    for a in range(low.shape[1]):
        counts = np.where(several, high[:, a] - low[:, a] + 1, 1)
        places = np.repeat(np.arange(len(rows)), counts)
        steps = spread(np.zeros(len(rows), np.int64), counts)
        rows, several = rows.at(places), several[places]
        low, high = low[places].copy(), high[places].copy()
        low[:, a] += np.where(several, steps, 0)
        high[:, a] = np.where(several, low[:, a], high[:, a])
    return (low, high), rows


# --- making rows


def compressed(regions: Regions, output: Shape, inn: Shape) -> Rows:
    rows = _first(regions, output, inn)
    if len(rows) < 2:
        return rows
    for a in range(len(inn) - 1, -1, -1):
        rows = _merge_inputs(rows, a)
    for d in range(len(output) - 1, -1, -1):
        rows = _merge_outputs(rows, d)
    return rows


def _first(regions: Regions, output: Shape, inn: Shape) -> Rows:
    """A row for each pair of cells, each pair once; of regions one for each pair of boxes that they are made of. In the
    order of the outputs."""
    if not (regions.out.are_single and regions.inn.are_single):
        return _of_regions(regions, output, inn)
    outs, inns = regions.out.values.all(), regions.inn.values.all()
    if len(outs) > 1 and not _is_sorted(outs, inns):
        order = np.lexsort((inns, outs))
        outs, inns = outs[order], inns[order]
    if len(outs) > 1:
        new = (np.diff(outs, prepend=outs[0] - 1) != 0) | (np.diff(inns, prepend=0) != 0)
        if not new.all():
            outs, inns = outs[new], inns[new]
    low, from_ = coordinates(outs, output), coordinates(inns, inn)
    return _standing(low, low, from_, from_)


def _of_regions(regions: Regions, output: Shape, inn: Shape) -> Rows:
    owners, low, high = boxes_of_lists(regions.out, output)
    theirs, from_, to = boxes_of_lists(regions.inn, inn)
    starts = np.searchsorted(theirs, owners)
    counts = np.searchsorted(theirs, owners, "right") - starts
    ours, beside = np.repeat(np.arange(len(owners)), counts), spread(starts, counts)
    rows = _standing(low[ours], high[ours], from_[beside], to[beside])
    keys = _columns_of(rows.low, rows.high, rows.from_)
    return rows.at(np.lexsort(keys[::-1])) if keys else rows


def _standing(low: Ints, high: Ints, from_: Ints, to: Ints) -> Rows:
    return Rows(low, high, from_, to, np.full(from_.shape, _STILL, np.int64), np.zeros(from_.shape, np.int64))


def _is_sorted(outs: Numbers, inns: Numbers) -> bool:
    step = np.diff(outs)
    return bool(((step > 0) | ((step == 0) & (np.diff(inns) > 0))).all())


def _merge_inputs(rows: Rows, a: int) -> Rows:
    """Rows of the same outputs whose inputs touch along coordinate a become one."""
    same = _equal(_columns_of(rows.low, rows.high), len(rows))
    crowded = np.zeros(len(rows), bool)
    crowded[1:] |= same
    crowded[:-1] |= same
    if not crowded.any():  # every output has one row: nothing to merge, and the order stays
        return rows
    some = rows.at(crowded)
    others = _columns_of(some.low, some.high, np.delete(some.from_, a, 1), np.delete(some.to, a, 1))
    order = np.lexsort((some.from_[:, a], _mixed(others, len(some))))
    join = _touch(others, some.from_[:, a], some.to[:, a], order)
    if not join.any():
        return rows
    some = some.at(order)
    begins, ends = _ends(join)
    merged = replace(some.at(begins), to=some.to[ends])
    made = _joined([rows.at(~crowded), merged])
    axes = made.low.shape[1]
    return made.at(np.lexsort([made.low[:, d] for d in range(axes - 1, -1, -1)])) if axes else made


def _merge_outputs(rows: Rows, d: int) -> Rows:
    """Rows that touch along output axis d become one where their inputs are the same, or move along with d."""
    ways: list[Way] = list(product((0, 1), repeat=rows.from_.shape[1]))
    if len(ways) > 16:
        ways = [way for way in ways if sum(way) <= 1 or all(way)]
    # Some rows in a row tell which ways merge, and which most.
    sample = rows.at(slice(0, _SAMPLE))
    left = {way: len(_merged_along(sample, d, way, sort=True)) for way in ways}
    strides = [way for way in _strides(sample, d) if way not in left]
    left |= {way: len(_merged_along(sample, d, way, sort=True)) for way in strides}
    # What is near each other by chance has strides, too: others than none and one must tell much more.
    ways += [way for way in strides if 4 * left[way] < min(left[other] for other in ways)]
    ways = sorted(
        (way for way in ways if left[way] < len(sample)), key=lambda way: (left[way], sum(map(abs, way)), way)
    )
    # Neighbours that stand together already (along the innermost axis all do) are merged without sorting.
    for sort in (False, True):
        for way in ways:
            rows = _merged_along(rows, d, way, sort=sort)
    return rows


def _strides(rows: Rows, d: int) -> list[Way]:
    """How far the inputs of neighbours along d are from each other, where that is often the same."""
    beside = _columns_of(np.delete(rows.low, d, 1), np.delete(rows.high, d, 1), rows.axis, rows.stride)
    order = np.lexsort((rows.low[:, d], _mixed(beside, len(rows))))
    near = _touch(beside, rows.low[:, d], rows.high[:, d], order)
    steps = np.diff(rows.from_[order], axis=0)
    near &= (steps == np.diff(rows.to[order], axis=0)).all(axis=1)
    found, counts = np.unique(steps[near], axis=0, return_counts=True)
    often = np.argsort(-counts, kind="stable")[:_WAYS]
    return [tuple(int(n) for n in found[k]) for k in often if counts[k] * 8 > len(rows)]


def _merged_along(rows: Rows, d: int, way: Way, *, sort: bool) -> Rows:
    """What the rows become when the input coordinates move so far for a step along d."""
    if len(rows) < 2:
        return rows
    stride = np.array(way, np.int64)
    moving = stride != 0
    able = np.ones(len(rows), bool)
    if moving.any():  # only what stands still so far, over a single step of d, can be counted from there
        able = (rows.axis[:, moving] == _STILL).all(axis=1) & (rows.low[:, d] == rows.high[:, d])
    shift = stride * rows.low[:, d : d + 1]
    from_, to = rows.from_ - shift, rows.to - shift
    others = _columns_of(np.delete(rows.low, d, 1), np.delete(rows.high, d, 1), from_, to, rows.axis, rows.stride)
    others.append(able)
    order = np.lexsort((rows.low[:, d], _mixed(others, len(rows)))) if sort else np.arange(len(rows))
    join = _touch(others, rows.low[:, d], rows.high[:, d], order)
    join &= able[order[1:]]
    if not join.any():
        return rows
    begins, ends = _ends(join)
    first, last = order[begins], order[ends]
    made = rows.at(first)
    high = made.high.copy()
    high[:, d] = rows.high[last, d]
    keep = (first == last)[:, None] | ~moving
    return Rows(
        made.low,
        high,
        np.where(keep, made.from_, from_[first]),
        np.where(keep, made.to, to[first]),
        np.where(keep, made.axis, d),
        np.where(keep, made.stride, stride),
    )


def _columns_of(*tables: Ints) -> list[NDArray[Any]]:
    return [table[:, k] for table in tables for k in range(table.shape[1])]


def _joined(parts: list[Rows]) -> Rows:
    names = ("low", "high", "from_", "to", "axis", "stride")
    return Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _equal(columns: list[NDArray[Any]], count: int) -> NDArray[np.bool_]:
    """For each row but the first, whether it is the same as the one before."""
    same: NDArray[np.bool_] = np.ones(max(count - 1, 0), bool)
    for column in columns:
        same &= column[1:] == column[:-1]
    return same


def _touch(columns: list[NDArray[Any]], low: Ints, high: Ints, order: Ints) -> NDArray[np.bool_]:
    join: NDArray[np.bool_] = low[order[1:]] == high[order[:-1]] + 1
    for column in columns:
        sorted_ = column[order]
        join &= sorted_[1:] == sorted_[:-1]
    return join


def _mixed(columns: list[NDArray[Any]], count: int) -> Ints:
    """One number for each row that is equal where all columns are; that it differs otherwise is checked after."""
    mixed = np.zeros(count, np.uint64)
    for column in columns:
        mixed = (mixed ^ column.astype(np.int64).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed.view(np.int64)


def _ends(join: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    begins = np.flatnonzero(np.concatenate([[True], ~join]))
    return begins, np.append(begins[1:], len(join) + 1) - 1


# --- as columns


def _columns(rows: Rows, name: str) -> dict[str, Ints]:
    made = {f"{name}.count": np.array([len(rows)], np.int64)}
    for d in range(rows.low.shape[1]):
        made[f"{name}.low.{d}"] = rows.low[:, d]
        made[f"{name}.more.{d}"] = rows.high[:, d] - rows.low[:, d]
    for a in range(rows.from_.shape[1]):
        made[f"{name}.from.{a}"] = rows.from_[:, a]
        made[f"{name}.further.{a}"] = rows.to[:, a] - rows.from_[:, a]
        made[f"{name}.axis.{a}"] = rows.axis[:, a]
    if (rows.stride != (rows.axis != _STILL)).any():
        for a in range(rows.from_.shape[1]):
            made[f"{name}.stride.{a}"] = rows.stride[:, a]
    return made


def _read(columns: Columns, name: str, out: int, inn: int) -> Rows:
    count = int(columns[f"{name}.count"].all()[0])

    def stacked(part: str, width: int) -> Ints:
        parts = [columns[f"{name}.{part}.{k}"].all() for k in range(width)]
        return np.stack(parts, axis=1) if parts else np.empty((count, 0), np.int64)

    low, from_, axis = stacked("low", out), stacked("from", inn), stacked("axis", inn)
    plain = f"{name}.stride.0" not in columns
    stride = (axis != _STILL).astype(np.int64) if plain else stacked("stride", inn)
    return Rows(low, low + stacked("more", out), from_, from_ + stacked("further", inn), axis, stride)
