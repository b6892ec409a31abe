"""What operators write while they run: region pairs and payloads, taken as they come and put in order afterwards.

An operator may write a million times, and it writes before its output's shape is known. So a write only copies what
it was given; checking and numbering is done once, in bulk, when the operator has returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import NONE, Numbers, Shape, as_array, as_numbers, size_of
from whence.arrays.errors import ArrayError
from whence.arrays.lists import Lists
from whence.arrays.operator import Mode
from whence.arrays.payloads import Payloads, Table


@dataclass(frozen=True)
class Regions:
    """Region k: all of `out` list k depends on all of `inn` list k."""

    out: Lists
    inn: Lists

    @classmethod
    def pairs(cls, out: Numbers, inn: Numbers) -> Regions:
        return cls(Lists.single(out), Lists.single(inn))

    def __len__(self) -> int:
        return len(self.out)

    def turned(self) -> Regions:
        """Inputs and outputs exchanged: what forward lineage is encoded from."""
        return Regions(self.inn, self.out)


@dataclass(frozen=True)
class Written:
    """All that one run of an operator wrote: for each input its region pairs, and the payloads."""

    regions: tuple[Regions, ...]
    payloads: Payloads
    silent: frozenset[Mode] = frozenset()
    """Modes that were asked for and in which nothing was written: FULL and PAY, where that means no lineage at all. Who
    writes no cells (`lwrite_many([], [])`) has spoken."""


class Recorder:
    """The Writer of one run. `modes`: what was asked for; all else that the operator writes is left out."""

    def __init__(self, modes: frozenset[Mode], inputs: int, where: str) -> None:
        self._silent = set(modes & {Mode.FULL, Mode.PAY})
        self._full = Mode.FULL in modes
        self._pay = Mode.PAY in modes or Mode.COMP in modes
        self._inputs = inputs
        self._where = where
        self._regions: list[tuple[Any, ...]] = []
        self._pairs: list[tuple[Any, Any, int]] = []
        self._payloads: list[tuple[Any, Any]] = []
        self._many_payloads: list[tuple[Any, Any]] = []
        self.seconds = 0.0
        """Spent in taking what was written."""

    def region(self, outcells: Any, incells: tuple[Any, ...], payload: Any) -> None:
        start = perf_counter()
        self._silent.discard(Mode.FULL if payload is None else Mode.PAY)
        self._region(outcells, incells, payload)
        self.seconds += perf_counter() - start

    def many(self, outcells: Any, incells: Any, i: int, payload: Any) -> None:
        start = perf_counter()
        self._silent.discard(Mode.FULL if payload is None else Mode.PAY)
        self._many(outcells, incells, i, payload)
        self.seconds += perf_counter() - start

    def _region(self, outcells: Any, incells: tuple[Any, ...], payload: Any) -> None:
        if payload is not None:
            if any(cells is Ellipsis or (cells is not None and len(cells)) for cells in incells):
                raise ArrayError(f"{self._where} wrote input cells and a payload at once: lwrite takes one of them.")
            if self._pay:
                self._payloads.append((self._copy(outcells), payload))
        elif self._full:
            if len(incells) > self._inputs:
                raise ArrayError(
                    f"{self._where} wrote cells of {len(incells)} inputs, but it has {self._inputs}: lwrite takes the "
                    "output cells first, then one argument for each input."
                )
            self._regions.append((self._copy(outcells), *(self._copy(cells) for cells in incells)))

    def _many(self, outcells: Any, incells: Any, i: int, payload: Any) -> None:
        if (incells is None) == (payload is None):
            raise ArrayError(f"{self._where}: lwrite_many takes input cells or payloads, one of them.")
        if payload is not None:
            if self._pay:
                self._many_payloads.append((self._copy(outcells), _copied_payloads(payload)))
        elif self._full:
            if not 0 <= i < self._inputs:
                raise ArrayError(f"{self._where} wrote cells of input {i}, but its inputs are 0 to {self._inputs - 1}.")
            self._pairs.append((self._copy(outcells), self._copy(incells), i))

    def _copy(self, cells: Any) -> Any:
        if cells is None or cells is Ellipsis:
            return cells
        if isinstance(cells, np.ndarray):
            return cells.copy()
        return as_array(cells, self._where)

    # --- when the operator has returned

    def finish(self, input_shapes: tuple[Shape, ...], output_shape: Shape) -> Written:
        out = _Side(output_shape, f"the output of {self._where}")
        inputs = [_Side(shape, f"input {i} of {self._where}") for i, shape in enumerate(input_shapes)]
        some = size_of(output_shape) and any(size_of(shape) for shape in input_shapes)
        return Written(
            tuple(self._regions_of(i, out, side) for i, side in enumerate(inputs)),
            self._finished_payloads(out),
            frozenset(self._silent) if some else frozenset(),
        )

    def _regions_of(self, i: int, out: _Side, inn: _Side) -> Regions:
        parts = []
        calls = [call for call in self._regions if len(call) > i + 1 and _any(call[i + 1], inn) and _any(call[0], out)]
        if calls:
            lists = out.lists([call[0] for call in calls]), inn.lists([call[i + 1] for call in calls])
            parts.append(Regions(*_filled(*lists)))
        for outcells, incells, to in self._pairs:
            if to == i:
                a, b = out.numbers(outcells), inn.numbers(incells)
                if len(a) != len(b):
                    raise ArrayError(
                        f"{self._where} wrote {len(a)} output cells with {len(b)} input cells: lwrite_many takes "
                        "as many of both."
                    )
                parts.append(Regions.pairs(a, b))
        if len(parts) == 1:
            return parts[0]
        if all(part.out.are_single and part.inn.are_single for part in parts):
            return Regions.pairs(
                _joined([part.out.values.all() for part in parts]), _joined([part.inn.values.all() for part in parts])
            )
        return Regions(_together([part.out for part in parts]), _together([part.inn for part in parts]))

    def _finished_payloads(self, out: _Side) -> Payloads:
        lists, tables = [], []
        if self._payloads:
            wrote = [call for call in self._payloads if _any(call[0], out)]
            lists.append(out.lists([cells for cells, _ in wrote]))
            tables.append(Table.of([payload for _, payload in wrote], self._where))
            full = np.flatnonzero(lists[0].lengths())
            if len(full) < len(lists[0]):
                lists[0], tables[0] = lists[0].chosen(full), Table(tables[0].ids[full], tables[0].distinct)
        for cells, payloads in self._many_payloads:
            numbers = out.numbers(cells)
            table = Table.of(payloads, self._where)
            if len(numbers) != len(table):
                raise ArrayError(
                    f"{self._where} wrote {len(numbers)} output cells with {len(table)} payloads: lwrite_many takes as "
                    "many of both."
                )
            lists.append(Lists.single(numbers))
            tables.append(table)
        return Payloads(_together(lists), Table.joined(tables))


class _Side:
    """Cells of one array, as they were written, become numbers."""

    def __init__(self, shape: Shape, what: str) -> None:
        self.shape, self.what = shape, what

    def numbers(self, cells: Any) -> Numbers:
        return as_numbers(cells, self.shape, self.what)

    def lists(self, written: Sequence[Any]) -> Lists:
        """One list for each call. Calls with plain coordinates, the usual case, are numbered together."""
        ndim = len(self.shape)
        plain = ndim > 0 and all(
            cells is not Ellipsis
            and cells.dtype.kind in "iu"
            and ((cells.ndim == 2 and cells.shape[1] == ndim) or (cells.ndim == 1 == ndim))
            for cells in written
        )
        if plain:
            lengths = np.fromiter((len(cells) for cells in written), np.int64, len(written))
            flat = [cells.ravel() for cells in written] if ndim == 1 else written
            return Lists.of(lengths, self.numbers(np.concatenate(flat)))
        whole: Numbers | None = None
        numbered = []
        for cells in written:
            if cells is Ellipsis:
                whole = np.arange(size_of(self.shape), dtype=np.int64) if whole is None else whole
                numbered.append(whole)
            else:
                numbered.append(self.numbers(cells))
        lengths = np.fromiter((len(cells) for cells in numbered), np.int64, len(numbered))
        return Lists.of(lengths, _joined(numbered))


def _any(cells: Any, side: _Side) -> bool:
    if cells is None or cells is Ellipsis:
        return cells is Ellipsis
    return cells.size > 0 or (not side.shape and cells.ndim == 2 and len(cells) > 0)


def _filled(out: Lists, inn: Lists) -> tuple[Lists, Lists]:
    """Without the pairs where one side is empty: a boolean array may choose nothing."""
    full = np.flatnonzero((out.lengths() > 0) & (inn.lengths() > 0))
    return (out, inn) if len(full) == len(out) else (out.chosen(full), inn.chosen(full))


def _joined(parts: list[Numbers]) -> Numbers:
    return np.concatenate(parts) if parts else NONE


def _together(parts: list[Lists]) -> Lists:
    if len(parts) == 1:
        return parts[0]
    lengths = _joined([part.lengths() for part in parts])
    return Lists.of(lengths, _joined([part.values.all() for part in parts]))


def _copied_payloads(payload: Any) -> NDArray[Any] | list[Any]:
    return payload.copy() if isinstance(payload, np.ndarray) else list(payload)
