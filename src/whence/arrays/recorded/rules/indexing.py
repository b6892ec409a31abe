"""a[key], with any key that numpy takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape, size_of
from whence.arrays.ops.moving import is_basic
from whence.arrays.ops.relation import Moved, Relation
from whence.arrays.ops.shapes import reshaped, sliced
from whence.arrays.recorded.errors import Unfit
from whence.arrays.recorded.operand import Made, Operand, operands, shape_of, value_of
from whence.arrays.recorded.rules.moving import numbers_of, traced


def getitem(made: Made, a: Any, key: Any) -> Iterator[tuple[Any, Relation]]:
    shape = shape_of(a)
    parts = key if isinstance(key, tuple) else (key,)
    if isinstance(key, str) or (isinstance(key, list) and key and all(isinstance(part, str) for part in key)):
        yield a, reshaped(made.shape, shape)  # fields of records: the cells stay
        return
    if any(operands(part) and not isinstance(part, Operand) for part in parts):
        raise Unfit("recorded arrays inside of slices or lists of a key are not; use them as indices of their own")
    if all(is_basic(part) for part in parts):
        yield a, sliced(made.shape, shape, parts)
        return
    known = tuple(value_of(part) for part in parts)
    yield from traced(made, a, lambda numbers: numbers[known])
    for place, part in enumerate(parts):
        if isinstance(part, Operand):
            yield part, chosen(made, shape, known, place)


def chosen(made: Made, shape: Shape, key: tuple[Any, ...], place: int) -> Relation:
    """Which cell of the index at `place` of the key took each cell of the result.

    The same indexing is done on an array that holds, along the axes of that index, the index's own cell numbers."""
    index = np.asarray(key[place])
    first = axis_at(shape, key, place)

    def origin() -> NDArray[np.int64]:
        if index.dtype == bool:
            held = along(numbers_of(index.shape), shape, first)
            return np.asarray(held[key])
        lengths = (*shape[:first], size_of(index.shape), *shape[first + 1 :])
        held = along(np.arange(size_of(index.shape)), lengths, first)
        own = numbers_of(index.shape)
        own_key = (*key[:place], own, *key[place + 1 :])
        return np.asarray(held[own_key])

    return Moved(made.shape, index.shape, origin)


def along(numbers: NDArray[np.int64], shape: Shape, first: int) -> NDArray[np.int64]:
    spread = numbers.reshape(numbers.shape + (1,) * (len(shape) - first - numbers.ndim))
    return np.broadcast_to(spread, shape)


def axis_at(shape: Shape, key: tuple[Any, ...], place: int) -> int:
    """The first axis of the array that the part at `place` of the key is about."""
    used = [axes_used(part) for part in key]
    hidden = len(shape) - sum(used)
    return sum(hidden if part is Ellipsis else count for part, count in zip(key[:place], used, strict=False))


def axes_used(part: Any) -> int:
    if part is None or part is Ellipsis:
        return 0
    if isinstance(part, slice):
        return 1
    index = np.asarray(part)
    return index.ndim if index.dtype == bool else 1
