"""Tries an operator on small arrays and says, in sentences, what about its lineage cannot be right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Coordinates, Shape, coordinates
from whence.arrays.errors import ArrayError
from whence.arrays.operator import Mode, Operator, Place, at_place, has, label
from whence.arrays.written import Recorder, Written

Cell = tuple[int, ...]
Pairs = frozenset[tuple[Cell, Cell]]
"""(output cell, input cell)."""


def check_operator(op: Operator, inputs: Sequence[Any]) -> list[str]:
    """What is wrong with `op`, tried on these arrays; an empty list when nothing was found.

    On every cell it compares map_b with map_f, functions of one cell with those of many, and what the supported modes
    say; it looks for written cells outside of the arrays, holds `entire_array` and `halo` against what is seen, and
    asks the black box: a small change of one float cell may change no output cell beyond its forward lineage."""
    if not isinstance(op, Operator):
        raise TypeError(f"check_operator takes an instance of Operator, not {op!r}.")
    if isinstance(inputs, np.ndarray) or not isinstance(inputs, Sequence):
        raise TypeError("check_operator takes a list of arrays, one for each input of the operator.")
    return _Check(op, [np.array(each) for each in inputs]).all()


class _Failed(Exception):
    """Carries a sentence."""


class _Check:
    def __init__(self, op: Operator, inputs: list[NDArray[Any]]) -> None:
        self.op = op
        self.name = label(op)
        self.inputs = inputs
        self.shapes = tuple(each.shape for each in inputs)
        self.wrong: list[str] = []

    def all(self) -> list[str]:
        try:
            self._all()
        except _Failed as failed:
            self.wrong.append(str(failed))
        return self.wrong

    def _all(self) -> None:
        modes = self._modes()
        self.output = self._run(self.inputs, frozenset({Mode.BLACKBOX}))[0]
        again = self._run(self.inputs, frozenset({Mode.BLACKBOX}))[0]
        steady = _same(self.output, again)
        if not steady:
            self.wrong.append(f"{self.name} gives another result when it is run again: lineage by rerunning is wrong.")
        said = self._lineages(modes)
        self._agree(said)
        self._entire(said)
        if steady:
            self._halo()
        if said and steady:
            self._black_box(modes, said)

    # --- what it says

    def _modes(self) -> frozenset[Mode]:
        given: Iterable[Any] = self._told("supported_modes", self.op.supported_modes) or ()
        modes: set[Mode] = set()
        for mode in given:
            try:
                modes.add(Mode(mode))
            except ValueError:
                known = ", ".join(each.name for each in Mode)
                self.wrong.append(f"{self.name} supports the mode {mode!r}, which there is not: modes are {known}.")
        maps = any(has(self.op, each) for each in ("map_b", "map_f", "map_b_many", "map_f_many"))
        pays = has(self.op, "map_p") or has(self.op, "map_p_many")
        for mode, good, lacks in (
            (Mode.MAP, maps, "map_b and map_f"),
            (Mode.COMP, maps, "map_b and map_f"),
            (Mode.PAY, pays, "map_p"),
            (Mode.COMP, pays, "map_p"),
        ):
            if mode in modes and not good:
                self.wrong.append(f"{self.name} supports {mode.name} and has no {lacks}.")
        if Mode.MAP in modes and not maps:
            modes.discard(Mode.MAP)
        if not (maps and pays):
            modes.discard(Mode.COMP)
        if not pays:
            modes.discard(Mode.PAY)
        return frozenset(modes)

    def _told(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            asked = f" for {', '.join(map(str, arguments))}" if arguments else ""
            raise _Failed(f"{what} of {self.name} failed{asked}: {type(error).__name__}: {error}") from error

    def _run(self, inputs: list[NDArray[Any]], modes: frozenset[Mode]) -> tuple[NDArray[Any], Recorder]:
        given = [each.view() for each in inputs]
        for each in given:
            each.flags.writeable = False
        recorder = Recorder(modes, len(given), self.name)
        how = " and ".join(sorted(mode.name for mode in modes))
        with at_place(self.op, Place(tuple(each.shape for each in given), None, recorder)):
            try:
                made = self.op.run(*given, cur_modes=modes)
            except Exception as error:
                raise _Failed(f"run of {self.name} failed in {how}: {type(error).__name__}: {error}") from error
        if made is None:
            raise _Failed(f"run of {self.name} gave None in {how}: it must return an array.")
        return np.asarray(made), recorder

    def _lineages(self, modes: frozenset[Mode]) -> dict[str, list[Pairs]]:
        """What each way of asking says, for each input."""
        said: dict[str, list[Pairs]] = {}
        if Mode.MAP in modes:
            said.update(self._mapped())
        writing: list[frozenset[Mode]] = [
            frozenset({mode}) for mode in (Mode.FULL, Mode.PAY, Mode.COMP) if mode in modes
        ]
        writing += [frozenset({Mode.FULL, mode}) for mode in (Mode.PAY, Mode.COMP) if {Mode.FULL, mode} <= modes]
        for asked in writing:
            output, recorder = self._run(self.inputs, asked)
            how = " and ".join(sorted(mode.name for mode in asked))
            if not _same(output, self.output):
                self.wrong.append(f"{self.name} gives another result in {how} than in BLACKBOX.")
                continue
            try:
                written = recorder.finish(self.shapes, output.shape)
            except ArrayError as error:
                self.wrong.append(f"In {how}: {error}")
                continue
            if Mode.MAP not in modes and len(asked) == 1 and written.silent:
                self.wrong.append(
                    f"{self.name} supports {how} and wrote nothing when it was asked for it, so that none of its cells "
                    f"depends on anything. If that is meant, let run call lwrite_many without cells."
                )
            for mode in sorted(asked):
                found = self._written(mode, written, Mode.MAP in modes)
                if found is not None:
                    said[mode.name if len(asked) == 1 else f"{mode.name} (asked for with others)"] = found
        return said

    def _written(self, mode: Mode, written: Written, mapped: bool) -> list[Pairs] | None:
        if mode is Mode.FULL:
            found = [self._regions(written, i) for i in range(len(self.inputs))]
            # Operators with map functions need not write.
            return None if mapped and not any(found) else found
        return [self._payloads(written, i, composite=mode is Mode.COMP) for i in range(len(self.inputs))]

    def _regions(self, written: Written, i: int) -> Pairs:
        regions = written.regions[i]
        outs = _split(regions.out.lengths(), coordinates(regions.out.values.all(), self.output.shape))
        ins = _split(regions.inn.lengths(), coordinates(regions.inn.values.all(), self.shapes[i]))
        return frozenset(pair for out, inn in zip(outs, ins, strict=True) for pair in product(out, inn))

    def _payloads(self, written: Written, i: int, composite: bool) -> Pairs:
        numbers, ids = written.payloads.by_cell()
        cells = _listed(coordinates(numbers, self.output.shape))
        payloads = [written.payloads.table.distinct[number] for number in ids.tolist()]
        found = self._explained(cells, payloads, i)
        if composite:
            exceptions = set(cells)
            default = self._mapped(numbered=i)
            base = next(iter(default.values()))[i] if default else frozenset()
            found |= {pair for pair in base if pair[0] not in exceptions}
        return frozenset(found)

    def _explained(self, cells: list[Cell], payloads: list[Any], i: int) -> set[tuple[Cell, Cell]]:
        """What map_p makes of payloads; both of its forms are asked where there are two."""
        shape = self.shapes[i]
        forms: list[set[tuple[Cell, Cell]]] = []
        with self._placed():
            if has(self.op, "map_p"):
                single = set()
                for cell, payload in zip(cells, payloads, strict=True):
                    answer = self._told("map_p", self.op.map_p, cell, payload, i)
                    single |= {(cell, found) for found in self._cells(answer, shape, "map_p")}
                forms.append(single)
            if has(self.op, "map_p_many"):
                from whence.arrays.payloads import Table, values_of

                table = Table.of(payloads, self.name)
                told = values_of(table.distinct)[table.ids]
                answer = self._told("map_p_many", self.op.map_p_many, _array(cells, self.output.ndim), told, i)
                forms.append(set(self._many(answer, cells, shape, "map_p_many")))
        if len(forms) == 2:
            self._differ("map_p", frozenset(forms[0]), "map_p_many", frozenset(forms[1]), i)
        return forms[0]

    def _mapped(self, numbered: int | None = None) -> dict[str, list[Pairs]]:
        """What each map function says; asked about one input alone, the others are left out."""
        asked = range(len(self.inputs)) if numbered is None else [numbered]
        found: dict[str, list[Pairs]] = {}
        for name in ("map_b", "map_b_many", "map_f", "map_f_many"):
            if has(self.op, name):
                found[name] = [self._asked(name, i) if i in asked else frozenset() for i in range(len(self.inputs))]
        return found

    def _asked(self, name: str, i: int) -> Pairs:
        backward = name.startswith("map_b")
        own, other = (self.output.shape, self.shapes[i]) if backward else (self.shapes[i], self.output.shape)
        cells = list(product(*(range(length) for length in own)))
        function = getattr(self.op, name)
        with self._placed():
            if name.endswith("_many"):
                answer = self._told(name, function, _array(cells, len(own)), i)
                pairs: Iterable[tuple[Cell, Cell]] = self._many(answer, cells, other, name)
            else:
                pairs = [
                    (cell, found)
                    for cell in cells
                    for found in self._cells(self._told(name, function, cell, i), other, name)
                ]
        return frozenset(pairs if backward else ((found, cell) for cell, found in pairs))

    def _placed(self) -> Any:
        return at_place(self.op, Place(self.shapes, self.output.shape))

    def _cells(self, answer: Any, shape: Shape, name: str) -> list[Cell]:
        """The cells in a map function's answer; those outside of the array are dropped, as everywhere."""
        if answer is None:
            return []
        try:
            found = np.asarray(answer if isinstance(answer, np.ndarray) else list(answer))
            if found.size == 0 and not (found.ndim == 2 and len(shape) == 0):
                return []
            if found.ndim == 1 and len(shape) == 1:
                found = found[:, None]
            if found.ndim != 2 or found.shape[1] != len(shape) or (found.size and found.dtype.kind not in "iu"):
                raise ValueError(f"shape {found.shape}, type {found.dtype}")
        except (TypeError, ValueError) as error:
            raise _Failed(
                f"{name} of {self.name} gave no cells of {len(shape)} coordinates, for an array of shape {shape}: "
                f"{error}."
            ) from error
        inside = ((found >= 0) & (found < np.array(shape, dtype=np.int64))).all(axis=1)
        return _listed(found[inside])

    def _many(self, answer: Any, cells: list[Cell], shape: Shape, name: str) -> list[tuple[Cell, Cell]]:
        try:
            rows, found = answer
            places = np.asarray(rows).astype(np.int64)
            table = np.asarray(found).reshape(len(places), len(shape))
        except (TypeError, ValueError) as error:
            raise _Failed(
                f"{name} of {self.name} must give (rows, cells), with as many rows as cells of {len(shape)} "
                f"coordinates: {error}."
            ) from error
        if len(places) and not 0 <= places.min() <= places.max() < len(cells):
            raise _Failed(f"{name} of {self.name} gave rows outside of the {len(cells)} it was asked about.")
        pairs = []
        for place, cell in zip(places.tolist(), table.tolist(), strict=True):
            pairs += [(cells[place], inside) for inside in self._cells([cell], shape, name)]
        return pairs

    # --- how it fits together

    def _agree(self, said: dict[str, list[Pairs]]) -> None:
        """Each is held against the first: two that agree with it agree with each other."""
        for (first, those), (second, these) in ((next(iter(said.items())), other) for other in list(said.items())[1:]):
            for i in range(len(self.inputs)):
                self._differ(first, those[i], second, these[i], i)

    def _differ(self, first: str, those: Pairs, second: str, these: Pairs, i: int) -> None:
        for more, most, least in ((first, those, these), (second, these, those)):
            extra = most - least
            if extra:
                out, cell = min(extra)
                others = f" ({len(extra) - 1} more like it)" if len(extra) > 1 else ""
                self.wrong.append(
                    f"{first} and {second} of {self.name} disagree about input {i}: only {more} says that output cell "
                    f"{out} depends on its cell {cell}{others}."
                )
                return

    def _entire(self, said: dict[str, list[Pairs]]) -> None:
        if not self.op.entire_array or not said:
            return
        name, pairs = next(iter(said.items()))
        outs = list(product(*(range(length) for length in self.output.shape)))
        for i, shape in enumerate(self.shapes):
            missing = frozenset(product(outs, product(*(range(length) for length in shape)))) - pairs[i]
            if missing:
                out, cell = min(missing)
                self.wrong.append(
                    f"{self.name} promises entire_array, but {name} does not say that output cell {out} depends on "
                    f"cell {cell} of input {i}."
                )

    def _halo(self) -> None:
        """Parts widened by the halo must come out as they do in the whole."""
        halo = self.op.halo
        if halo is None or len(set(self.shapes)) != 1:
            return
        shape = self.shapes[0]
        if self.output.shape != shape:
            self.wrong.append(
                f"{self.name} has a halo, so its output must have its inputs' shape {shape}, not {self.output.shape}."
            )
            return
        for axis, length in enumerate(shape):
            for start, stop in ((0, length // 2), (length // 2, length)):
                low, high = max(start - halo, 0), min(stop + halo, length)
                if start == stop:
                    continue
                part = [each[(slice(None),) * axis + (slice(low, high),)] for each in self.inputs]
                try:
                    made = self._run(part, frozenset({Mode.BLACKBOX}))[0]
                except _Failed as failed:
                    self.wrong.append(f"On a part of the array: {failed}")
                    return
                trimmed = (slice(None),) * axis + (slice(start - low, stop - low),)
                due = self.output[(slice(None),) * axis + (slice(start, stop),)]
                if made.shape != part[0].shape or not _close(made[trimmed], due):
                    self.wrong.append(
                        f"{self.name} has halo={halo}, but on the cells {start} to {stop - 1} of axis {axis}, widened "
                        "by that, it gives another result than on the whole array."
                    )
                    return

    # --- the black box

    def _black_box(self, modes: frozenset[Mode], said: dict[str, list[Pairs]]) -> None:
        first = next(iter(said.values()))
        for i, each in enumerate(self.inputs):
            if each.dtype.kind not in "fc":
                continue
            reached: dict[Cell, set[Cell]] = {}
            for out, cell in first[i]:
                reached.setdefault(cell, set()).add(out)
            for cell, changed in _changes(each):
                inputs = [*self.inputs[:i], changed, *self.inputs[i + 1 :]]
                beyond = self._changed(inputs) - reached.get(cell, set())
                if beyond and modes:
                    beyond -= self._after(modes, inputs, i, cell)
                if beyond:
                    self.wrong.append(
                        f"A small change of cell {cell} of input {i} of {self.name} changes output cell {min(beyond)}, "
                        f"which is not in its forward lineage."
                    )
                    return

    def _changed(self, inputs: list[NDArray[Any]]) -> set[Cell]:
        try:
            output = self._run(inputs, frozenset({Mode.BLACKBOX}))[0]
        except _Failed:  # it refuses such values: nothing is learnt
            return set()
        if output.shape != self.output.shape:
            return set()
        return set(_listed(np.argwhere(_differing(output, self.output))))

    def _after(self, modes: frozenset[Mode], inputs: list[NDArray[Any]], i: int, cell: Cell) -> set[Cell]:
        """The forward lineage of the changed cell: where equal cells are moved by value, a change exchanges them."""
        after = _Check(self.op, inputs)
        try:
            after.output = after._run(inputs, frozenset({Mode.BLACKBOX}))[0]
            said = after._lineages(modes)
        except _Failed:
            return set()
        return {out for out, found in next(iter(said.values()), [frozenset()] * (i + 1))[i] if found == cell}


def _changes(array: NDArray[Any]) -> Iterator[tuple[Cell, NDArray[Any]]]:
    step = float(np.sqrt(np.finfo(array.dtype).eps))
    for cell in product(*(range(length) for length in array.shape)):
        if np.isfinite(array[cell]):
            for sign in (1, -1):
                changed = array.copy()
                changed[cell] += sign * step * max(1.0, abs(complex(array[cell])))
                yield cell, changed


def _differing(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Cells that differ by more than the noise of computing with floats."""
    different: NDArray[np.bool_] = np.asarray(one != other)
    if one.dtype.kind in "fc" and other.dtype.kind in "fc":
        different &= ~(np.isnan(one) & np.isnan(other))
        finite = np.abs(other[np.isfinite(other)])
        scale = float(finite.max()) if finite.size else 0.0
        with np.errstate(all="ignore"):
            different &= ~(np.abs(one - other) <= 16 * np.finfo(other.dtype).eps * scale)
    return different


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return not np.any(_nan_safe(one, other))


def _nan_safe(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray((one != other) & ~((one != one) & (other != other)))  # NaN is not itself


def _close(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.shape == other.shape and not np.any(_differing(one, other))


def _listed(cells: Coordinates) -> list[Cell]:
    return [tuple(cell) for cell in cells.tolist()]


def _array(cells: list[Cell], ndim: int) -> Coordinates:
    return np.array(cells, dtype=np.int64).reshape(len(cells), ndim)


def _split(lengths: NDArray[np.int64], cells: Coordinates) -> list[list[Cell]]:
    ends = np.cumsum(lengths)
    listed = _listed(cells)
    return [listed[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]
