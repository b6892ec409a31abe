"""Functions that move or choose cells by what they hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape, size_of
from whence.arrays.ops.chosen import sorting, truth
from whence.arrays.ops.links import Ints
from whence.arrays.ops.relation import Moved, Pairs, Relation
from whence.arrays.ops.shapes import axis_of, broadcast, everything
from whence.arrays.recorded.errors import Unfit
from whence.arrays.recorded.operand import Made, Rule, operands, shape_of, value_of
from whence.arrays.recorded.rules.moving import numbers_of

Found = Iterator[tuple[Any, Relation]]


def where(made: Made, condition: Any, x: Any = None, y: Any = None) -> Found:
    holds = truth(value_of(condition))
    if x is None and y is None:
        yield condition, placed(made, np.flatnonzero(holds), shape_of(condition))
        return
    taken = np.broadcast_to(holds, made.shape)
    if operands(condition):
        yield condition, broadcast(made.shape, shape_of(condition))
    for branch, let in ((x, taken), (y, ~taken)):
        if operands(branch):
            yield branch, chosen(made.shape, shape_of(branch), let)


def chosen(output: Shape, shape: Shape, let: NDArray[np.bool_]) -> Relation:
    """The cell that broadcasts there, where `let` (of the output's shape) holds."""

    def origin() -> NDArray[np.int64]:
        return np.where(let, np.broadcast_to(numbers_of(shape), output), -1)

    return Moved(output, shape, origin)


def placed(made: Made, chosen_cells: Ints, shape: Shape) -> Relation:
    """Cell k of the result, or row k, tells of cell number `chosen_cells[k]`."""
    across = (-1,) + (1,) * (len(made.shape) - 1)
    return Moved(made.shape, shape, lambda: np.broadcast_to(chosen_cells.reshape(across), made.shape))


def nonzero(made: Made, a: Any) -> Found:
    yield a, placed(made, np.flatnonzero(a.value), shape_of(a))


def select(made: Made, condlist: Any, choicelist: Any, default: Any = 0) -> Found:
    """The conditions up to the first that holds, and its choice."""
    open_ = np.ones(made.shape, dtype=bool)
    for condition, choice in zip(condlist, choicelist, strict=True):
        holds = np.broadcast_to(truth(value_of(condition)), made.shape)
        if operands(condition):
            yield condition, chosen(made.shape, shape_of(condition), open_)
        if operands(choice):
            yield choice, chosen(made.shape, shape_of(choice), open_ & holds)
        open_ = open_ & ~holds
    if operands(default):
        yield default, chosen(made.shape, shape_of(default), open_)


def choose(made: Made, a: Any, choices: Any, mode: Any = "raise") -> Found:
    if not isinstance(choices, (list, tuple)):
        raise Unfit("the choices are one recorded array: give a list of arrays")
    which = np.asarray(value_of(a))
    if mode == "wrap":
        which = which % len(choices)
    elif mode == "clip":
        which = np.clip(which, 0, len(choices) - 1)
    which = np.broadcast_to(which, made.shape)
    if operands(a):
        yield a, broadcast(made.shape, shape_of(a))
    for number, choice in enumerate(choices):
        if operands(choice):
            yield choice, chosen(made.shape, shape_of(choice), which == number)


def sort(made: Made, a: Any, axis: Any = -1, kind: Any = None, order: Any = None, stable: Any = None) -> Found:
    if order is not None:
        raise Unfit("sorting by some fields is not")
    x = a.value
    number = None if axis is None else axis_of(axis, x.ndim)
    yield a, Moved(made.shape, x.shape, lambda: sorting(x, number))


def sort_complex(made: Made, a: Any) -> Found:
    return sort(made, a)


def partition(made: Made, a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Found:
    """numpy leaves the order within the parts open: cells are matched by their values, equal ones in order."""
    if order is not None:
        raise Unfit("sorting by some fields is not")
    x, result = a.value, made.value
    number = None if axis is None else axis_of(axis, x.ndim)

    def origin() -> NDArray[np.int64]:
        places = sorting(result, None if number is None else number)
        found = np.empty(result.size, dtype=np.int64)
        found[places.reshape(-1)] = sorting(x, number).reshape(-1)
        return found

    yield a, Moved(made.shape, x.shape, origin)


def ordered(
    made: Made, a: Any, axis: Any = -1, kth: Any = None, kind: Any = None, order: Any = None, stable: Any = None
) -> Found:
    """argsort and argpartition: the result itself says which cell stands there."""
    x, result = a.value, made.value
    if axis is None:
        yield a, Moved(made.shape, x.shape, lambda: result)
        return
    numbers = numbers_of(x.shape)
    yield a, Moved(made.shape, x.shape, lambda: np.take_along_axis(numbers, result, axis) if x.ndim else result)


def lexsort(made: Made, keys: Any, axis: Any = -1) -> Found:
    result = made.value

    def origin(shape: Shape) -> NDArray[np.int64]:
        return np.take_along_axis(numbers_of(shape), result, axis)

    if isinstance(keys, (list, tuple)):
        for key in keys:
            if operands(key):
                shape = shape_of(key)
                yield key, Moved(made.shape, shape, lambda shape=shape: origin(shape))  # type: ignore[misc]
        return
    shape = shape_of(keys)
    if len(shape) < 2:
        raise Unfit("one key of one axis is not")
    each, count = size_of(shape[1:]), shape[0]

    def pairs() -> tuple[Ints, Ints]:
        cells = origin(shape[1:]).reshape(-1)
        outs = np.tile(np.arange(len(cells)), count)
        return outs, np.concatenate([cells + number * each for number in range(count)] or [cells[:0]])

    yield keys, Pairs(made.shape, shape, pairs)


def trim_zeros(made: Made, filt: Any, trim: Any = "fb", axis: Any = None) -> Found:
    x = filt.value
    front = "f" in trim.lower()
    inside = np.argwhere(x)
    start = inside.min(axis=0) if front and len(inside) else np.zeros(x.ndim, dtype=np.int64)
    if axis is not None:
        kept = {axis_of(each, x.ndim) for each in (axis if isinstance(axis, tuple) else (axis,))}
        start = np.array([at if number in kept else 0 for number, at in enumerate(start)], dtype=np.int64)
    key = tuple(slice(at, at + length) for at, length in zip(start.tolist(), made.shape, strict=True))
    yield filt, Moved(made.shape, x.shape, lambda: numbers_of(x.shape)[key])


def equal(made: Made, value: NDArray[Any], distinct: NDArray[Any]) -> Relation:
    """Cell k of the result is the value of all cells that are equal to `distinct[k]`."""
    flat = np.concatenate([distinct.reshape(-1), value.reshape(-1)])
    inverse = np.unique(flat, return_inverse=True)[1].reshape(-1)
    own, others = inverse[: distinct.size], inverse[distinct.size :]
    slot = np.full(flat.size + 1, -1, dtype=np.int64)
    slot[own] = np.arange(len(own))

    def pairs() -> tuple[Ints, Ints]:
        outs = slot[others]
        ins = np.flatnonzero(outs >= 0)
        return outs[ins], ins

    return Pairs(made.shape, value.shape, pairs)


def unique(
    made: Made,
    ar: Any,
    return_index: Any = False,
    return_inverse: Any = False,
    return_counts: Any = False,
    axis: Any = None,
    equal_nan: Any = True,
    sorted: Any = True,
) -> Found:
    results = [
        "values",
        *(
            name
            for name, wanted in zip(
                ("index", "inverse", "counts"), (return_index, return_inverse, return_counts), strict=True
            )
            if wanted
        ),
    ]
    return distinct(made, ar, results[made.number], axis, equal_nan)


def unique_all(made: Made, x: Any) -> Found:
    return distinct(made, x, ("values", "index", "inverse", "counts")[made.number], None, False)


def unique_counts(made: Made, x: Any) -> Found:
    return distinct(made, x, ("values", "counts")[made.number], None, False)


def unique_inverse(made: Made, x: Any) -> Found:
    return distinct(made, x, ("values", "inverse")[made.number], None, False)


def unique_values(made: Made, x: Any) -> Found:
    return distinct(made, x, "values", None, False)


def distinct(made: Made, a: Any, what: str, axis: Any, equal_nan: bool) -> Found:
    """Like DISTINCT: a value comes from all cells that hold it. The place of a cell among the values tells of all."""
    if axis is not None:
        raise Unfit("whole rows compared along an axis are not")
    if what == "inverse":
        yield a, everything(made.shape, shape_of(a))
        return
    x = a.value
    if not equal_nan and x.dtype.kind in "fc" and np.isnan(x).any():
        raise Unfit("NaNs that all count as different are not")
    yield a, equal(made, x, np.unique(x))


def sets(made: Made, ar1: Any, ar2: Any, assume_unique: Any = False) -> Found:
    """A value comes from all cells of either array that hold it."""
    values = made.value
    for each in (ar1, ar2):
        if operands(each):
            yield each, equal(made, each.value, values)


def difference(made: Made, ar1: Any, ar2: Any, assume_unique: Any = False) -> Found:
    """Like EXCEPT: from the first array alone, since the second holds none of them."""
    return sets(made, ar1, ar2)


def intersection(made: Made, ar1: Any, ar2: Any, assume_unique: Any = False, return_indices: Any = False) -> Found:
    if return_indices:
        raise Unfit("return_indices=True is not")
    return sets(made, ar1, ar2)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("nonzero", "argwhere", "flatnonzero"), nonzero),
    **dict.fromkeys(("argsort", "argpartition"), ordered),
    **dict.fromkeys(("union1d", "setxor1d"), sets),
    "where": where,
    "select": select,
    "choose": choose,
    "sort": sort,
    "sort_complex": sort_complex,
    "partition": partition,
    "lexsort": lexsort,
    "trim_zeros": trim_zeros,
    "unique": unique,
    "unique_all": unique_all,
    "unique_counts": unique_counts,
    "unique_inverse": unique_inverse,
    "unique_values": unique_values,
    "setdiff1d": difference,
    "intersect1d": intersection,
}
