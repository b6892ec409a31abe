"""Cells of an array: as users give them, as numbers in C order, and as queries answer.

Inside, a set of cells is an int64 array of flat numbers, sorted, each once: sets are then joined with searchsorted,
and C order comes for free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whence.arrays.errors import ArrayError

Shape: TypeAlias = "tuple[int, ...]"
Numbers: TypeAlias = "NDArray[np.int64]"
"""Flat cell numbers in C order."""
Coordinates: TypeAlias = "NDArray[np.int64]"
"""n x ndim."""

NONE: Numbers = np.empty(0, np.int64)


class Cells(np.ndarray):
    """What a query answers: n x ndim, every cell once, in C order. `exact` is False where `notes` say why."""

    exact: bool
    notes: tuple[str, ...]

    def __array_finalize__(self, made_from: Any) -> None:
        self.exact = getattr(made_from, "exact", True)
        self.notes = getattr(made_from, "notes", ())

    @classmethod
    def of(cls, numbers: Numbers, shape: Shape, notes: Sequence[str] = (), exact: bool | None = None) -> Cells:
        made = coordinates(numbers, shape).view(cls)
        made.notes = tuple(notes)
        made.exact = not made.notes if exact is None else exact
        return made


def size_of(shape: Shape) -> int:
    size = 1
    for length in shape:
        size *= length
    return size


def strides_of(shape: Shape) -> NDArray[np.int64]:
    """How far apart neighbours are along each axis, in cells."""
    strides = np.ones(len(shape), np.int64)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return strides


def coordinates(numbers: Numbers, shape: Shape) -> Coordinates:
    made = np.empty((len(numbers), len(shape)), np.int64)
    rest = numbers
    for axis in range(len(shape) - 1, 0, -1):
        rest, made[:, axis] = np.divmod(rest, max(shape[axis], 1))
    if shape:
        made[:, 0] = rest
    return made


def flat(cells: Coordinates, shape: Shape) -> Numbers:
    """The numbers of cells that are known to be inside."""
    if not shape:
        return np.zeros(len(cells), np.int64)
    made = cells[:, 0].astype(np.int64)
    for axis in range(1, len(shape)):
        made *= shape[axis]
        made += cells[:, axis]
    return made


def inside(cells: NDArray[Any], shape: Shape) -> NDArray[np.bool_]:
    good = np.ones(len(cells), bool)
    for axis, length in enumerate(shape):
        good &= (cells[:, axis] >= 0) & (cells[:, axis] < length)
    return good


def _all_inside(cells: NDArray[Any], shape: Shape) -> bool:
    if cells.dtype != np.int64:
        return bool(inside(cells, shape).all())
    return bool((cells.view(np.uint64) < np.array(shape, np.uint64)).all())  # without a sign, what is below 0 is large


def unique(numbers: Numbers, size: int) -> Numbers:
    """Sorted, each once; by a bitmap where that is cheaper than sorting."""
    if len(numbers) < 2:
        return numbers
    if len(numbers) * 16 > size:
        seen = np.zeros(size, bool)
        seen[numbers] = True
        return seen.nonzero()[0]
    return distinct(numbers)


def distinct(numbers: Numbers) -> Numbers:
    """Sorted, each once. numpy's own `unique` hashes whole numbers, which takes several times as long as sorting."""
    if len(numbers) < 2 or (numbers[1:] > numbers[:-1]).all():
        return numbers
    ordered = np.sort(numbers)
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def as_set(given: Any, shape: Shape, what: str) -> Numbers:
    """The cells that a user asks for, as a set. `what` names the array in errors."""
    return unique(as_numbers(given, shape, what), size_of(shape))


def as_numbers(given: Any, shape: Shape, what: str) -> Numbers:
    """The same in the order given, repetitions and all."""
    if given is Ellipsis:
        return np.arange(size_of(shape), dtype=np.int64)
    cells = as_table(given, shape, what)
    if cells.dtype == bool:
        return np.flatnonzero(cells)
    if not _all_inside(cells, shape):
        cell = tuple(int(c) for c in cells[int(np.argmin(inside(cells, shape)))])
        raise ArrayError(f"The cell {cell} is outside of {what}, whose shape is {shape}.")
    return flat(cells.astype(np.int64, copy=False), shape)


def as_table(given: Any, shape: Shape, what: str) -> NDArray[Any]:
    """n x ndim integers, or the boolean array of the array's own shape; nothing is said yet about being inside."""
    ndim = len(shape)
    cells = as_array(given, what)
    if cells.dtype == bool and (cells.size or cells.shape == shape):
        if cells.shape != shape:
            raise ArrayError(
                f"A boolean array of shape {cells.shape} cannot choose cells of {what}, whose shape is {shape}: "
                "give one of the same shape."
            )
        return cells
    if ndim == 0 and cells.ndim == 2 and cells.shape[1] == 0:
        return np.zeros((len(cells), 0), np.int64)
    if cells.size == 0:
        return np.zeros((0, ndim), np.int64)
    if cells.dtype.kind not in "iu" and not _all_whole(cells):
        raise ArrayError(f"Cells of {what} are whole numbers, not {cells.dtype}: give tuples of {ndim} integers.")
    if ndim == 1 and cells.ndim == 1:
        return cells[:, None]
    if cells.ndim != 2 or cells.shape[1] != ndim:
        hint = " (one cell is a list of one tuple)" if cells.ndim == 1 and len(cells) == ndim else ""
        raise ArrayError(
            f"Cells of {what} are tuples of {ndim} integers, since its shape is {shape}; what was given has shape "
            f"{cells.shape}{hint}."
        )
    return cells


def _all_whole(cells: NDArray[Any]) -> bool:
    """Whole numbers too large for 64 bits are objects: cells, if none of any array."""
    return cells.dtype == object and all(isinstance(c, (int, np.integer)) for c in cells.ravel().tolist())


def as_array(given: Any, what: str) -> NDArray[Any]:
    if isinstance(given, np.ndarray):
        return given
    if isinstance(given, (set, frozenset)) or not hasattr(given, "__len__"):
        try:
            given = list(given)
        except TypeError:
            raise ArrayError(
                f"{given!r} does not name cells of {what}: give a list of tuples of integers, a boolean array of its "
                "shape, or ... for all."
            ) from None
    try:
        return np.array(given)
    except (ValueError, TypeError, OverflowError) as error:
        why = str(error).rstrip(".")
        raise ArrayError(
            f"The cells given for {what} have different numbers of coordinates, or are no integers: {why}."
        ) from error
