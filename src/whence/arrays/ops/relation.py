"""The lineage of one input of an operator, in index space: which of its cells an output cell depends on, and back.

A relation is asked about many cells at once and answers with (rows, cells): `cells[k]` belongs to row `rows[k]` of the
cells asked, each pair once. It knows shapes and never data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape, coordinates, flat, size_of
from whence.arrays.ops.links import Affine, Ints, Link, Spans, spread

Found = tuple[Ints, Ints]


class Relation(Protocol):
    def backward(self, outcells: Ints) -> Found: ...

    def forward(self, incells: Ints) -> Found: ...


def all_cells(shape: Shape) -> Ints:
    return coordinates(np.arange(size_of(shape)), shape)


def once(rows: Ints, cells: Ints, shape: Shape) -> Found:
    """Each pair once, by row and then in C order."""
    numbered = flat(cells, shape)
    order = np.lexsort((numbered, rows))
    rows, numbered = rows[order], numbered[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (rows[1:] != rows[:-1]) | (numbered[1:] != numbered[:-1])
    return rows[new], cells[order[new]]


def product(asked: int, axes: Sequence[Spans]) -> Found:
    """For each row the product of its spans, in C order."""
    total = np.ones(asked, dtype=np.int64)
    for spans in axes:
        total = total * spans.counts
    rows, place = spread(np.zeros(asked, dtype=np.int64), total)
    cells = np.empty((len(rows), len(axes)), dtype=np.int64)
    for axis in range(len(axes) - 1, -1, -1):
        starts, counts, items = axes[axis]
        each = counts[rows]
        place, step = np.divmod(place, each)
        coordinates = starts[rows] + step
        cells[:, axis] = coordinates if items is None else items[coordinates]
    return rows, cells


@dataclass(frozen=True)
class Span:
    """These coordinates of an input's axis, whatever the output cell."""

    start: int
    stop: int


@dataclass(frozen=True)
class Linked:
    """Coordinates of an input's axis that follow from those of the output's axis number `axis`."""

    axis: int
    link: Link


@dataclass(frozen=True)
class Separable:
    """Each axis of the input follows one axis of the output, or none; output axes left over reach everywhere."""

    output_shape: Shape
    input_shape: Shape
    axes: tuple[Span | Linked, ...]

    def backward(self, outcells: Ints) -> Found:
        asked = len(outcells)
        spans = []
        for axis in self.axes:
            if isinstance(axis, Span):
                spans.append(_same(asked, axis.start, axis.stop))
            else:
                spans.append(axis.link.back(outcells[:, axis.axis]))
        return product(asked, spans)

    def forward(self, incells: Ints) -> Found:
        asked = len(incells)
        spans = [_same(asked, 0, length) for length in self.output_shape]
        reaches = np.ones(asked, dtype=np.int64)
        for number, axis in enumerate(self.axes):
            if isinstance(axis, Span):
                reaches &= (incells[:, number] >= axis.start) & (incells[:, number] < axis.stop)
            else:
                spans[axis.axis] = axis.link.forth(incells[:, number])
        kept = np.flatnonzero(reaches)
        rows, cells = product(len(kept), [_some(each, kept) for each in spans])
        return kept[rows], cells


def _same(asked: int, start: int, stop: int) -> Spans:
    return Spans(np.full(asked, start, dtype=np.int64), np.full(asked, max(stop - start, 0), dtype=np.int64))


def _some(spans: Spans, kept: Ints) -> Spans:
    return Spans(spans.starts[kept], spans.counts[kept], spans.items)


@dataclass(frozen=True)
class Nothing:
    output_shape: Shape
    input_shape: Shape

    def backward(self, outcells: Ints) -> Found:
        return np.empty(0, dtype=np.int64), np.empty((0, len(self.input_shape)), dtype=np.int64)

    def forward(self, incells: Ints) -> Found:
        return np.empty(0, dtype=np.int64), np.empty((0, len(self.output_shape)), dtype=np.int64)


class Pairs:
    """Written out: output cell number `outs[k]` depends on input cell number `ins[k]`.

    They are asked for when the first question comes, since most operators are never asked."""

    def __init__(self, output_shape: Shape, input_shape: Shape, pairs: Callable[[], tuple[Ints, Ints]]) -> None:
        self.output_shape = output_shape
        self.input_shape = input_shape
        self._pairs = pairs

    @cached_property
    def _sides(self) -> tuple[_Side, _Side]:
        outs, ins = self._pairs()
        return _Side.of(outs, ins, size_of(self.output_shape)), _Side.of(ins, outs, size_of(self.input_shape))

    def backward(self, outcells: Ints) -> Found:
        rows, found = self._sides[0].find(flat(outcells, self.output_shape))
        return rows, coordinates(found, self.input_shape)

    def forward(self, incells: Ints) -> Found:
        rows, found = self._sides[1].find(flat(incells, self.input_shape))
        return rows, coordinates(found, self.output_shape)


@dataclass(frozen=True)
class _Side:
    first: Ints
    values: Ints

    @classmethod
    def of(cls, keys: Ints, values: Ints, length: int) -> _Side:
        order = np.lexsort((values, keys))
        first = np.zeros(length + 1, dtype=np.int64)
        np.cumsum(np.bincount(keys, minlength=length), out=first[1:])
        return cls(first, values[order])

    def find(self, asked: Ints) -> tuple[Ints, Ints]:
        starts = self.first[asked]
        rows, places = spread(starts, self.first[asked + 1] - starts)
        return rows, self.values[places]


def moved(output_shape: Shape, input_shape: Shape, origin: Callable[[], NDArray[np.int64]]) -> Pairs:
    """Cells that moved: `origin()` has, in the output's shape, the number of the input cell at each place, or -1."""

    def pairs() -> tuple[Ints, Ints]:
        origins = np.asarray(origin(), dtype=np.int64).reshape(-1)
        outs = np.flatnonzero(origins >= 0)
        return outs, origins[outs]

    return Pairs(output_shape, input_shape, pairs)


@dataclass(frozen=True)
class Reshaped:
    """A relation between the same cells under other shapes, counted in C order."""

    output_shape: Shape
    input_shape: Shape
    inner_output: Shape
    inner_input: Shape
    inner: Relation

    def backward(self, outcells: Ints) -> Found:
        rows, cells = self.inner.backward(coordinates(flat(outcells, self.output_shape), self.inner_output))
        return rows, coordinates(flat(cells, self.inner_input), self.input_shape)

    def forward(self, incells: Ints) -> Found:
        rows, cells = self.inner.forward(coordinates(flat(incells, self.input_shape), self.inner_input))
        return rows, coordinates(flat(cells, self.inner_output), self.output_shape)


@dataclass(frozen=True)
class Chain:
    """Two steps: `last` from the output to an array in between, `first` from there to the input."""

    output_shape: Shape
    input_shape: Shape
    last: Relation
    first: Relation

    def backward(self, outcells: Ints) -> Found:
        rows, between = self.last.backward(outcells)
        places, cells = self.first.backward(between)
        return once(rows[places], cells, self.input_shape)

    def forward(self, incells: Ints) -> Found:
        rows, between = self.first.forward(incells)
        places, cells = self.last.forward(between)
        return once(rows[places], cells, self.output_shape)


@dataclass(frozen=True)
class Union:
    output_shape: Shape
    input_shape: Shape
    parts: tuple[Relation, ...]

    def backward(self, outcells: Ints) -> Found:
        return _together([part.backward(outcells) for part in self.parts], self.input_shape)

    def forward(self, incells: Ints) -> Found:
        return _together([part.forward(incells) for part in self.parts], self.output_shape)


def _together(found: Sequence[Found], shape: Shape) -> Found:
    rows = np.concatenate([rows for rows, _ in found])
    return once(rows, np.concatenate([cells for _, cells in found]), shape)


def in_c_order(output_shape: Shape, input_shape: Shape, link: Link | None = None) -> Reshaped:
    """Along the cells counted in C order; without a link each is where it was."""
    outputs, inputs = size_of(output_shape), size_of(input_shape)
    inner = Separable((outputs,), (inputs,), (Linked(0, link or Affine(inputs, outputs)),))
    return Reshaped(output_shape, input_shape, (outputs,), (inputs,), inner)
