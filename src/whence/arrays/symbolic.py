"""A user's per-cell map function, run once for many cells.

The function gets, in place of each coordinate, a `Coordinate` that stands for that coordinate of all cells and knows
plain arithmetic only. Whatever would let the function's way depend on its value (a comparison, a range, an index) is
refused and remembered, even if the function catches the refusal: then it is called cell by cell. So what comes back is
what each single call would have given. As a last check some cells are asked singly and compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LARGEST = 1 << 31  # beyond, products might not fit
_CHECKED = 16


class _Refused(Exception):
    pass


class _Watch:
    refused = False


class Coordinate:
    """One coordinate of all the cells asked about."""

    __slots__ = ("_values", "_watch")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: NDArray[np.int64], watch: _Watch) -> None:
        self._values = values
        self._watch = watch

    def _with(self, other: Any, function: Callable[[Any, Any], Any]) -> Coordinate:
        if isinstance(other, Coordinate):
            other = other._values
        elif not isinstance(other, (int, np.integer)) or isinstance(other, bool) or abs(int(other)) >= _LARGEST:
            self._refuse()
        made = function(self._values, other)
        if len(made) and max(abs(int(made.min())), abs(int(made.max()))) >= _LARGEST:
            self._refuse()
        return Coordinate(made, self._watch)

    def _refuse(self, *_: Any) -> Any:
        self._watch.refused = True
        raise _Refused

    def __add__(self, other: Any) -> Coordinate:
        return self._with(other, lambda a, b: a + b)

    def __radd__(self, other: Any) -> Coordinate:
        return self._with(other, lambda a, b: b + a)

    def __sub__(self, other: Any) -> Coordinate:
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Coordinate:
        return self._with(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Coordinate:
        return self._with(other, lambda a, b: a * b)

    def __rmul__(self, other: Any) -> Coordinate:
        return self._with(other, lambda a, b: b * a)

    def __floordiv__(self, other: Any) -> Coordinate:
        return self._with(other, self._divided(lambda a, b: a // b))

    def __mod__(self, other: Any) -> Coordinate:
        return self._with(other, self._divided(lambda a, b: a % b))

    def __neg__(self) -> Coordinate:
        return Coordinate(-self._values, self._watch)

    def __pos__(self) -> Coordinate:
        return self

    def _divided(self, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def checked(a: Any, b: Any) -> Any:
            return self._refuse() if np.any(np.equal(b, 0)) else function(a, b)

        return checked

    __bool__ = __index__ = __int__ = __float__ = __len__ = __iter__ = __abs__ = __invert__ = __round__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __pow__ = __rpow__ = __truediv__ = __rtruediv__ = _refuse
    __rfloordiv__ = __rmod__ = __divmod__ = __rdivmod__ = __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = _refuse
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = __matmul__ = __getitem__ = __str__ = __repr__ = _refuse
    __format__ = __reduce_ex__ = __array__ = __contains__ = __trunc__ = __floor__ = __ceil__ = _refuse

    def __getattr__(self, name: str) -> Any:
        self._watch.refused = True
        raise AttributeError(name)


def vectorised(
    function: Callable[..., Any], cells: NDArray[np.int64], i: int, ndim: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """(rows, cells) like a vectorised map function gives, or None where the function has to be called cell by cell."""
    if ndim == 0 or not cells.shape[1]:
        return None
    watch = _Watch()
    try:
        answer = function(tuple(Coordinate(cells[:, axis], watch) for axis in range(cells.shape[1])), i)
        if watch.refused or not isinstance(answer, (list, tuple)):
            return None
        columns = [_column(cell, len(cells), ndim) for cell in answer]
    except Exception:  # whatever it is, a call with plain numbers will tell
        return None
    if watch.refused or any(column is None for column in columns):
        return None
    told = [column for column in columns if column is not None]
    for place in np.linspace(0, len(cells) - 1, _CHECKED).astype(np.int64).tolist():
        single = [tuple(int(c) for c in cell) for cell in function(tuple(cells[place].tolist()), i)]
        if single != [tuple(column[place].tolist()) for column in told]:
            return None
    if not told:
        return np.empty(0, np.int64), np.empty((0, ndim), np.int64)
    rows = np.repeat(np.arange(len(cells), dtype=np.int64), len(told))
    return rows, np.stack(told, axis=1).reshape(-1, ndim)


def _column(cell: Any, count: int, ndim: int) -> NDArray[np.int64] | None:
    if not isinstance(cell, (tuple, list)) or len(cell) != ndim:
        return None
    made = np.empty((count, ndim), np.int64)
    for axis, coordinate in enumerate(cell):
        if isinstance(coordinate, Coordinate):
            made[:, axis] = coordinate._values
        elif isinstance(coordinate, (int, np.integer)) and not isinstance(coordinate, bool):
            made[:, axis] = int(coordinate)
        else:
            return None
    return made
