"""The lineage of one input of an operator, in index space: which of its cells an output cell depends on, and back.

A relation is asked about many cells at once and answers with (rows, cells): `cells[k]` belongs to row `rows[k]` of the
cells asked, each pair once. It knows shapes and never data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape, coordinates, flat, size_of, strides_of
from whence.arrays.ops.links import Affine, Ints, Link, Spans, Window, spread

Found = tuple[Ints, Ints]


class Relation(Protocol):
    @property
    def output_shape(self) -> Shape: ...

    @property
    def input_shape(self) -> Shape: ...

    def backward(self, outcells: Ints) -> Found: ...

    def forward(self, incells: Ints) -> Found: ...


@runtime_checkable
class Shares(Protocol):
    """A relation of which many cells have lineage in common: a question about a set of them takes a shorter way."""

    def many_backward(self, outcells: Ints) -> Ints:
        """All that any of these cells depends on; cells may be there twice."""
        ...

    def many_forward(self, incells: Ints) -> Ints: ...


def alike(relation: Relation, cells: Ints, backward: bool) -> Ints:
    """Some of these cells that all together depend on, or reach, what all of them do.

    A thousand cells of one row of a product depend on the same thousand cells: asking about one of them is enough."""
    if isinstance(relation, Separable):
        return relation.alike_back(cells) if backward else relation.alike_forth(cells)
    if isinstance(relation, Chain):
        return alike(relation.last if backward else relation.first, cells, backward)
    if isinstance(relation, Reshaped):
        outer = relation.output_shape if backward else relation.input_shape
        inner = relation.inner_output if backward else relation.inner_input
        some = alike(relation.inner, coordinates(flat(cells, outer), inner), backward)
        return coordinates(flat(some, inner), outer)
    return cells


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
    if all((spans.counts == 1).all() for spans in axes):
        single = np.empty((asked, len(axes)), dtype=np.int64)
        for axis, (starts, _, items) in enumerate(axes):
            single[:, axis] = starts if items is None else items[starts]
        return np.arange(asked), single
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
class Renumbered:
    """The numbers of cells become those of the cells that they are related to, each to one: axes are exchanged or
    mirrored as wholes, so that the other number is a sum over the coordinates."""

    shape: Shape
    factors: tuple[int, ...]
    start: int

    def __call__(self, numbers: Ints) -> Ints:
        rest, made = numbers, np.full(len(numbers), self.start, dtype=np.int64)
        for axis in range(len(self.shape) - 1, 0, -1):
            rest, at = np.divmod(rest, max(self.shape[axis], 1))
            made += at * self.factors[axis]
        return made + rest * self.factors[0] if self.shape else made


@dataclass(frozen=True)
class Separable:
    """Each axis of the input follows one axis of the output, or none; output axes left over reach everywhere."""

    output_shape: Shape
    input_shape: Shape
    axes: tuple[Span | Linked, ...]

    def __post_init__(self) -> None:
        good = len(self.axes) == len(self.input_shape)
        for axis, length in zip(self.axes, self.input_shape, strict=False):
            if isinstance(axis, Linked):
                good &= axis.axis < len(self.output_shape) and axis.link.inputs == length
                good = good and axis.link.outputs == self.output_shape[axis.axis]
            else:
                good &= 0 <= axis.start <= axis.stop <= length
        if not good:
            raise ValueError(
                f"This is no relation between shapes {self.output_shape} and {self.input_shape}: {self.axes}"
            )

    @cached_property
    def is_identity(self) -> bool:
        """Whether every cell is related to the one at its own place."""
        same = (Linked(axis, Affine(length, length)) for axis, length in enumerate(self.output_shape))
        return self.input_shape == self.output_shape and self.axes == tuple(same)

    @cached_property
    def renumbered(self) -> tuple[Renumbered, Renumbered] | None:
        """Backward and forward, where every cell is related to one other and all are reached."""
        links = [axis.link for axis in self.axes if isinstance(axis, Linked) and isinstance(axis.link, Affine)]
        to = [axis.axis for axis in self.axes if isinstance(axis, Linked)]
        if len(links) != len(self.axes) or sorted(to) != list(range(len(self.output_shape))):
            return None
        if any((link.step, link.offset) not in ((1, 0), (-1, link.inputs - 1)) for link in links):
            return None
        if any(link.inputs != link.outputs for link in links):
            return None
        inn, out = strides_of(self.input_shape).tolist(), strides_of(self.output_shape).tolist()
        back, forth = [0] * len(to), [0] * len(to)
        starts = [0, 0]
        for axis, (link, other) in enumerate(zip(links, to, strict=True)):
            back[other], forth[axis] = inn[axis] * link.step, out[other] * link.step
            starts[0] += inn[axis] * link.offset
            starts[1] += out[other] * link.offset  # what is mirrored is mirrored back
        backward = Renumbered(self.output_shape, tuple(back), starts[0])
        return backward, Renumbered(self.input_shape, tuple(forth), starts[1])

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

    def alike_back(self, outcells: Ints) -> Ints:
        followed = {axis.axis: axis.link for axis in self.axes if isinstance(axis, Linked)}
        return _one_of_each(outcells, followed, self.output_shape, last=True)

    def alike_forth(self, incells: Ints) -> Ints:
        reaches = np.ones(len(incells), dtype=bool)
        for number, axis in enumerate(self.axes):
            if isinstance(axis, Span):
                reaches &= (incells[:, number] >= axis.start) & (incells[:, number] < axis.stop)
        following = {number: axis.link for number, axis in enumerate(self.axes) if isinstance(axis, Linked)}
        return _one_of_each(incells if reaches.all() else incells[reaches], following, self.input_shape, last=False)


def _one_of_each(cells: Ints, links: dict[int, Link], shape: Shape, last: bool) -> Ints:
    """One of the cells for each different combination of coordinates along the linked axes.

    Of cells that differ only along an axis of running totals the last depends on all that the others do, and the first
    reaches all that the others reach."""
    totals = [axis for axis, link in links.items() if isinstance(link, Window) and link.is_running]
    if len(links) == len(shape) and not totals:
        return cells
    running = totals[0] if totals else None
    numbers = np.zeros(len(cells), dtype=np.int64)
    for axis in links:
        if axis != running:
            numbers = numbers * shape[axis] + cells[:, axis]
    if running is None:
        return cells[np.unique(numbers, return_index=True)[1]]
    order = np.lexsort((cells[:, running] if not last else -cells[:, running], numbers))
    first = np.ones(len(order), dtype=bool)
    first[1:] = numbers[order][1:] != numbers[order][:-1]
    return cells[order[first]]


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
        self._made = pairs

    @cached_property
    def _pairs(self) -> tuple[Ints, Ints]:
        return self._made()

    @cached_property
    def _back(self) -> _Side:
        outs, ins = self._pairs
        return _Side.of(outs, ins, size_of(self.output_shape))

    @cached_property
    def _forth(self) -> _Side:
        outs, ins = self._pairs
        return _Side.of(ins, outs, size_of(self.input_shape))

    def backward(self, outcells: Ints) -> Found:
        rows, found = self._back.find(flat(outcells, self.output_shape))
        return rows, coordinates(found, self.input_shape)

    def forward(self, incells: Ints) -> Found:
        rows, found = self._forth.find(flat(incells, self.input_shape))
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


class Moved:
    """Cells that moved: `origin()` has, in the output's shape, the number of the input cell at each place, or -1."""

    def __init__(self, output_shape: Shape, input_shape: Shape, origin: Callable[[], NDArray[np.int64]]) -> None:
        self.output_shape = output_shape
        self.input_shape = input_shape
        self._made = origin

    @cached_property
    def _origin(self) -> Ints:
        return np.asarray(self._made(), dtype=np.int64).reshape(-1)

    @cached_property
    def _reached(self) -> _Side:
        outs = np.flatnonzero(self._origin >= 0)
        ins = self._origin[outs]
        first = np.zeros(size_of(self.input_shape) + 1, dtype=np.int64)
        np.cumsum(np.bincount(ins, minlength=len(first) - 1), out=first[1:])
        return _Side(first, outs[np.argsort(ins, kind="stable")])

    def backward(self, outcells: Ints) -> Found:
        found = self._origin[flat(outcells, self.output_shape)]
        rows = np.flatnonzero(found >= 0)
        return rows, coordinates(found[rows], self.input_shape)

    def forward(self, incells: Ints) -> Found:
        rows, found = self._reached.find(flat(incells, self.input_shape))
        return rows, coordinates(found, self.output_shape)


@dataclass(frozen=True)
class Reshaped:
    """A relation between the same cells under other shapes, counted in C order."""

    output_shape: Shape
    input_shape: Shape
    inner_output: Shape
    inner_input: Shape
    inner: Relation

    def __post_init__(self) -> None:
        pairs = (self.output_shape, self.inner_output), (self.input_shape, self.inner_input)
        if any(size_of(outer) != size_of(inner) for outer, inner in pairs):
            raise ValueError(f"These shapes do not have the same cells: {pairs}")

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

    def __post_init__(self) -> None:
        if self.last.input_shape != self.first.output_shape:
            raise ValueError(f"Steps that do not meet: {self.last.input_shape} and {self.first.output_shape}")

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
