"""Calls an operator's map functions: in bulk where it has the vectorised forms, cell by cell where it has not.

What comes back is checked, made numbers, and freed of cells outside the array. Of map_b and map_f one is enough: the
other is worked out by asking the one about all cells, once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import NONE, Coordinates, Numbers, Shape, coordinates, flat, inside, size_of
from whence.arrays.errors import ArrayError, OperatorFailed
from whence.arrays.lists import SLICE, Members
from whence.arrays.operator import Operator, Place, at_place, has, label
from whence.arrays.payloads import values_of
from whence.arrays.symbolic import vectorised

Pairs = tuple[Numbers, Numbers]
"""(asked, found): for each found number the asked one that it belongs to."""
Renumber = Callable[[Numbers], Numbers]

_KEPT = 1 << 24  # pairs of an inverted map function that stay in memory
_LONG = 0.002  # seconds of a slice that is not to grow


class Maps:
    """The map functions of one operator at one node of one run."""

    def __init__(self, operator: Operator, input_shapes: tuple[Shape, ...], output_shape: Shape) -> None:
        self.operator = operator
        self.input_shapes = input_shapes
        self.output_shape = output_shape
        self.has_b = has(operator, "map_b") or has(operator, "map_b_many")
        self.has_f = has(operator, "map_f") or has(operator, "map_f_many")
        self.has_p = has(operator, "map_p") or has(operator, "map_p_many")
        self._place = Place(input_shapes, output_shape)
        self._inverted: dict[tuple[str, int], Pairs] = {}
        self._kept: dict[int, bool] = {}
        self._moves: dict[int, tuple[Renumber, Renumber] | None] = {}
        self._lock = threading.Lock()

    # --- sets, a slice at a time

    def backward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        if self.keeps(i):
            yield cells
            return
        moved = self._moved(i)
        if moved is not None:
            yield moved[0](cells)
            return
        together, some = self._shared("b", cells, i, self.output_shape, self.input_shapes[i])
        if together is not None:
            yield together
            return
        for _, found in self.backward_pairs(some, i):
            yield found

    def forward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        if self.keeps(i):
            yield cells
            return
        moved = self._moved(i)
        if moved is not None:
            yield moved[1](cells)
            return
        together, some = self._shared("f", cells, i, self.input_shapes[i], self.output_shape)
        if together is not None:
            yield together
            return
        for _, found in self.forward_pairs(some, i):
            yield found

    def keeps(self, i: int) -> bool:
        """Whether cells are related to those at their own place: then a set is its own answer."""
        if i not in self._kept:
            told = getattr(self.operator, "keeps_cells", None)
            self._kept[i] = told is not None and bool(self._call(told, i))
        return self._kept[i]

    def _moved(self, i: int) -> tuple[Renumber, Renumber] | None:
        """Backward and forward by numbers alone, where a built-in operator only moves cells."""
        if i not in self._moves:
            told = getattr(self.operator, "moves_cells", None)
            self._moves[i] = None if told is None else self._call(told, i)
        return self._moves[i]

    def renumber(self, direction: str, i: int) -> Renumber | None:
        """From cells to cells, in the order given, where a built-in operator leaves or moves each."""
        if self.keeps(i):
            return lambda cells: cells
        moved = self._moved(i)
        return None if moved is None else moved[direction == "forward"]

    def _shared(self, way: str, cells: Numbers, i: int, shape: Shape, to: Shape) -> tuple[Numbers | None, Numbers]:
        """Built-in operators know of cells that share lineage: their answer, or the cells that are left to be asked."""
        if len(cells) < 2 or not hasattr(self.operator, f"alike_{way}"):
            return None, cells
        asked = coordinates(cells, shape)
        if len(cells) * 8 > size_of(shape):
            found = self._call(getattr(self.operator, f"together_{way}"), asked, i)
            if found is not None:
                return flat(found, to), cells
        some = self._call(getattr(self.operator, f"alike_{way}"), asked, i)
        return None, cells if some is asked else flat(some, shape)

    # --- pairs, a slice at a time

    def backward_pairs(self, cells: Numbers, i: int) -> Iterator[Pairs]:
        """(output cell, input cell)."""
        if self.has_b:
            return self._asked("map_b", cells, i, self.output_shape, self.input_shapes[i])
        return self._inverse("map_f", cells, i, self.input_shapes[i], self.output_shape)

    def forward_pairs(self, cells: Numbers, i: int) -> Iterator[Pairs]:
        """(input cell, output cell)."""
        if self.has_f:
            return self._asked("map_f", cells, i, self.input_shapes[i], self.output_shape)
        return self._inverse("map_b", cells, i, self.output_shape, self.input_shapes[i])

    def payload_pairs(self, cells: Numbers, ids: Numbers, distinct: tuple[Any, ...], i: int) -> Iterator[Pairs]:
        """(place in `cells`, input cell): what payload number ids[k] says of cells[k]."""
        table = values_of(distinct)
        shape = self.input_shapes[i]
        for start, stop in self._slices(len(cells)):
            asked = coordinates(cells[start:stop], self.output_shape)
            payloads = table[ids[start:stop]]
            if has(self.operator, "map_p_many"):
                rows, found = self._many("map_p_many", shape, asked, payloads, i)
            else:
                rows, found = self._each("map_p", shape, asked, i, [distinct[n] for n in ids[start:stop].tolist()])
            self._told(len(found), stop - start)
            yield rows + start, found

    def all_pairs(self, i: int) -> Iterator[Pairs]:
        """(output cell, input cell), of all cells."""
        if self.has_b:
            yield from self.backward_pairs(np.arange(size_of(self.output_shape), dtype=np.int64), i)
        else:
            everything = np.arange(size_of(self.input_shapes[i]), dtype=np.int64)
            yield from ((out, inn) for inn, out in self.forward_pairs(everything, i))

    # --- one function

    def _asked(self, name: str, cells: Numbers, i: int, shape: Shape, to: Shape) -> Iterator[Pairs]:
        for start, stop in self._slices(len(cells)):
            some = cells[start:stop]
            asked = coordinates(some, shape)
            if has(self.operator, f"{name}_many"):
                rows, found = self._many(f"{name}_many", to, asked, i)
            else:
                rows, found = self._each(name, to, asked, i)
            self._told(len(found), stop - start)
            yield some[rows], found

    def _inverse(self, name: str, cells: Numbers, i: int, shape: Shape, to: Shape) -> Iterator[Pairs]:
        """The other function's question, answered by this one: asked about every cell."""
        wanted = Members(cells, size_of(to))
        kept = self._inverted.get((name, i))
        if kept is not None:
            for start in range(0, len(kept[0]), SLICE):
                theirs, ours = kept[0][start : start + SLICE], kept[1][start : start + SLICE]
                good = wanted.among(ours)
                yield ours[good], theirs[good]
            return
        parts: list[Pairs] | None = []
        count = 0
        for theirs, ours in self._asked(name, np.arange(size_of(shape), dtype=np.int64), i, shape, to):
            count += len(theirs)
            if parts is not None:
                parts.append((theirs, ours))
                if count > _KEPT:
                    parts = None
            good = wanted.among(ours)
            yield ours[good], theirs[good]
        if parts is not None:
            whole = (np.concatenate([p[0] for p in parts] or [NONE]), np.concatenate([p[1] for p in parts] or [NONE]))
            with self._lock:
                self._inverted[name, i] = whole

    # Slices begin small and grow to what one fan-out allows, so that an answer never takes much memory at once; and
    # only while they are short, so that whoever asks can turn to another way in time.
    def _slices(self, count: int) -> Iterator[tuple[int, int]]:
        self._fanout = 0.0
        start, length = 0, 256
        while start < count:
            stop = min(count, start + length)
            began = perf_counter()
            yield start, stop
            took = perf_counter() - began
            start = stop
            grown = length * 8 if took < _LONG / 8 else length * 2 if took < _LONG else length
            length = min(grown, max(1, int(2 * SLICE / max(self._fanout, 1.0))))

    def _told(self, found: int, asked: int) -> None:
        self._fanout = max(found / max(asked, 1), self._fanout / 2)

    def _many(self, name: str, to: Shape, asked: Coordinates, *more: Any) -> Pairs:
        answer = self._call(getattr(self.operator, name), asked, *more)
        try:
            rows, cells = answer
        except (TypeError, ValueError):
            raise ArrayError(f"{self._name(name)} gave no pair (rows, cells).") from None
        rows = np.asarray(rows)
        table = _table(cells, to, self._name(name))
        if rows.ndim != 1 or len(rows) != len(table) or (len(rows) and rows.dtype.kind not in "iu"):
            raise ArrayError(
                f"{self._name(name)} gave rows of shape {rows.shape} for {len(table)} cells: rows[k] says which row of "
                "the argument cells[k] belongs to."
            )
        if not len(rows):
            return NONE, NONE
        rows = rows.astype(np.int64, copy=False)
        if rows.min() < 0 or rows.max() >= len(asked):
            raise ArrayError(f"{self._name(name)} gave rows outside of the {len(asked)} that were asked about.")
        good = inside(table, to)
        if not good.all():
            rows, table = rows[good], table[good]
        return rows, flat(table, to)

    def _each(self, name: str, to: Shape, asked: Coordinates, i: int, payloads: list[Any] | None = None) -> Pairs:
        function: Callable[..., Any] = getattr(self.operator, name)
        if payloads is None and len(asked) > 64:
            with at_place(self.operator, self._place):
                quick = vectorised(function, asked, i, len(to))
            if quick is not None:
                rows, table = quick
                good = inside(table, to)
                return rows[good], flat(table[good], to)
        rows_of: list[int] = []
        answers: list[Any] = []
        cells = asked.tolist()
        with at_place(self.operator, self._place):
            try:
                for place, cell in enumerate(cells):
                    got = function(tuple(cell), i) if payloads is None else function(tuple(cell), payloads[place], i)
                    if got is None:
                        continue
                    if not isinstance(got, (np.ndarray, list, tuple)):
                        got = list(got)
                    if len(got):
                        answers.append(got)
                        rows_of.extend([place] * len(got))
            except Exception as error:
                raise self._failed(name, error) from error
        if not answers:
            return NONE, NONE
        try:
            if any(isinstance(got, np.ndarray) for got in answers):
                table = np.concatenate([_table(got, to, self._name(name)) for got in answers])
            else:
                table = _table(list(chain.from_iterable(answers)), to, self._name(name))
        except ValueError as error:
            if isinstance(error, ArrayError):
                raise
            raise ArrayError(f"{self._name(name)} gave no cells of {len(to)} coordinates: {error}.") from error
        rows = np.array(rows_of, np.int64)
        good = inside(table, to)
        if not good.all():
            rows, table = rows[good], table[good]
        return rows, flat(table, to)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with at_place(self.operator, self._place):
            try:
                return function(*arguments)
            except Exception as error:
                raise self._failed(getattr(function, "__name__", "a map function"), error) from error

    def _failed(self, name: str, error: Exception) -> OperatorFailed:
        return OperatorFailed(f"{self._name(name)} failed: {type(error).__name__}: {error}")

    def _name(self, function: str) -> str:
        return f"{function} of the operator {label(self.operator)}"


def _table(cells: Any, to: Shape, what: str) -> NDArray[np.int64]:
    """m x ndim, whatever was given."""
    ndim = len(to)
    try:
        table = np.asarray(cells)
    except (ValueError, TypeError, OverflowError) as error:
        raise ArrayError(f"{what} gave cells of different numbers of coordinates, or no integers: {error}.") from error
    if ndim == 0 and table.ndim == 2 and table.shape[1] == 0:
        return np.zeros((len(table), 0), np.int64)
    if table.size == 0:
        return np.zeros((0, ndim), np.int64)
    if ndim == 1 and table.ndim == 1:
        table = table[:, None]
    if table.ndim != 2 or table.shape[1] != ndim or table.dtype.kind not in "iu":
        raise ArrayError(
            f"{what} gave cells of shape {table.shape} and type {table.dtype}, where tuples of {ndim} integers belong."
        )
    return table.astype(np.int64, copy=False)
