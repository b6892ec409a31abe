"""Functions that move cells: run on the cells' numbers, they say themselves where each one went."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import size_of
from whence.arrays.ops.relation import Linked, Moved, Nothing, Relation, Separable, Span
from whence.arrays.ops.shapes import axes_of, axis_of, flipped, reshaped, rolled, same, transposed
from whence.arrays.recorded.errors import Unfit
from whence.arrays.recorded.operand import Made, Operand, Rule, exchange, operands, shape_of, value_of
from whence.arrays.recorded.rules.names import found, names

Found = Iterator[tuple[Any, Relation]]


def numbers_of(shape: tuple[int, ...], first: int = 0) -> NDArray[np.int64]:
    return np.arange(first, first + size_of(shape)).reshape(shape)


def traced(made: Made, data: Any, run: Callable[[Any], Any]) -> Found:
    """`run` moves the cells of `data`, in which all that is not recorded is made up. Cells are numbered from 1."""
    inputs = operands(data)
    firsts = np.cumsum([1, *(size_of(operand.shape) for operand in inputs)])
    first = {operand.number: int(start) for operand, start in zip(inputs, firsts, strict=False)}
    result: list[NDArray[np.int64]] = []

    def origin(operand: Operand) -> NDArray[np.int64]:
        if not result:
            known = exchange(blank(data), Operand, lambda each: numbers_of(each.shape, first[each.number]))
            given = run(known)
            result.append(np.asarray(given[made.number] if isinstance(given, (list, tuple)) else given))
        start = first[operand.number]
        here = (result[0] >= start) & (result[0] < start + size_of(operand.shape))
        return np.where(here, result[0] - start, -1)

    for operand in inputs:
        yield operand, Moved(made.shape, operand.shape, lambda each=operand: origin(each))  # type: ignore[misc]


def blank(data: Any) -> Any:
    """`data` with zeros for all plain arrays in it."""
    if isinstance(data, Operand):
        return data
    if isinstance(data, (list, tuple)) and operands(data):
        return type(data)(blank(each) for each in data)
    return np.zeros(np.shape(data), dtype=np.int64)


def moving(function: Callable[..., Any], *data: str) -> Rule:
    """`function` moves the cells of these arguments; the others say how."""

    def rule(made: Made, **arguments: Any) -> Found:
        given = {name: arguments[name] for name in data if name in arguments}
        for name in ("dtype", "casting", "subok", "copy"):
            arguments.pop(name, None)
        how = value_of({name: each for name, each in arguments.items() if name not in data})
        return traced(made, list(given.values()), lambda known: call(dict(zip(given, known, strict=True)), how))

    def call(known: dict[str, Any], how: dict[str, Any]) -> Any:
        together = {**known, **how}
        first = [together.pop(name) for name in ORDER.get(getattr(function, "__name__", ""), ()) if name in together]
        return function(*first, **together)

    return rule


# Parameters that can only be given by position.
ORDER: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("concatenate", "concat"), ("arrays",)),
    **dict.fromkeys(("matrix_transpose", "unstack", "diagonal"), ("x",)),
}


def several(function: Callable[..., Any], data: str) -> Rule:
    """The same for a function of any number of arrays."""

    def rule(made: Made, **arguments: Any) -> Found:
        arguments.pop("subok", None)
        arguments.pop("copy", None)
        given = arguments.pop(data)
        how = value_of(arguments)
        return traced(made, list(given), lambda known: function(*known, **how))

    return rule


def permuting(function: Callable[..., Any]) -> Rule:
    """A function that does nothing but order the axes anew: it is asked on axes of telling lengths."""

    def rule(made: Made, **arguments: Any) -> Found:
        name, a = next(iter(arguments.items()))
        ndim = len(shape_of(a))
        telling = np.broadcast_to(np.zeros((), dtype=np.int8), tuple(range(2, ndim + 2)))
        rest = {key: value_of(each) for key, each in arguments.items() if key != name}
        yield a, transposed(shape_of(a), [length - 2 for length in function(telling, **rest).shape])

    return rule


def reshaping(made: Made, a: Any = None, order: Any = "C", **arguments: Any) -> Found:
    """The same cells in the same order, under another shape."""
    if order == "C":
        yield a, reshaped(made.shape, shape_of(a))
    elif order == "F":
        shape = shape_of(a)
        yield a, Moved(made.shape, shape, lambda: np.reshape(numbers_of(shape), made.shape, order="F"))
    else:
        raise Unfit(f"order={order!r} depends on how the array lies in memory; say 'C' or 'F'")


def dimensions(made: Made, arys: Any) -> Found:
    """atleast_1d and its like: result k is argument k."""
    for number, each in enumerate(arys):
        if operands(each):
            if number == made.number or len(arys) == 1:
                yield each, reshaped(made.shape, shape_of(each))
            else:
                yield each, Nothing(made.shape, shape_of(each))


def roll(made: Made, a: Any, shift: Any, axis: Any = None) -> Found:
    yield a, rolled(shape_of(a), value_of(shift), value_of(axis))


def flip(made: Made, m: Any, axis: Any = None) -> Found:
    yield m, flipped(shape_of(m), axes_of(axis, len(shape_of(m))))


def pad(made: Made, array: Any, pad_width: Any, mode: Any = "constant", **how: Any) -> Found:
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap") or how.get("reflect_type", "even") != "even":
        raise Unfit(
            f"with mode={mode!r} the new cells are computed or undefined; constant, edge, reflect, symmetric and wrap "
            "only move cells"
        )
    if operands(how):
        raise Unfit("what is padded with is a recorded array")
    how = {} if mode == "constant" else how
    width = value_of(pad_width)
    return traced(made, array, lambda known: np.pad(known, width, mode=mode, **how))


def take(made: Made, a: Any, indices: Any, axis: Any = None, mode: Any = "raise") -> Found:
    which = value_of(indices)
    yield from traced(made, a, lambda known: np.take(known, which, axis=axis, mode=mode))
    if operands(indices):
        place = 0 if axis is None else axis_of(axis, len(shape_of(a)))
        links = tuple(Linked(place + number, same(length)) for number, length in enumerate(shape_of(indices)))
        yield indices, Separable(made.shape, shape_of(indices), links)


def take_along_axis(made: Made, arr: Any, indices: Any, axis: Any = -1) -> Found:
    which = value_of(indices)
    yield from traced(made, arr, lambda known: np.take_along_axis(known, which, axis))
    if operands(indices):
        if axis is None:
            yield indices, reshaped(made.shape, shape_of(indices))
        else:
            shape = shape_of(indices)
            links = [
                Span(0, 1) if length == 1 and made.shape[number] != 1 else Linked(number, same(length))
                for number, length in enumerate(shape)
            ]
            yield indices, Separable(made.shape, shape, tuple(links))


def compress(made: Made, condition: Any, a: Any, axis: Any = None) -> Found:
    which = np.asarray(value_of(condition), dtype=bool)
    yield from traced(made, a, lambda known: np.compress(which, known, axis=axis))
    if operands(condition):
        place = 0 if axis is None else axis_of(axis, len(shape_of(a)))
        chosen = np.flatnonzero(which)
        yield condition, decided(made, chosen, place, shape_of(condition))


def extract(made: Made, condition: Any, arr: Any) -> Found:
    which = np.asarray(value_of(condition), dtype=bool)
    yield from traced(made, arr, lambda known: np.extract(which, known))
    if operands(condition):
        yield condition, decided(made, np.flatnonzero(which), 0, shape_of(condition))


def decided(made: Made, chosen: NDArray[np.int64], place: int, shape: tuple[int, ...]) -> Relation:
    """Along axis `place` of the result, cell k was let in by cell number `chosen[k]` of a condition."""
    across = [1] * len(made.shape)
    across[place] = -1
    return Moved(made.shape, shape, lambda: np.broadcast_to(chosen.reshape(across), made.shape))


def insert(made: Made, arr: Any, obj: Any, values: Any, axis: Any = None) -> Found:
    where = value_of(obj)
    return traced(made, [arr, values], lambda known: np.insert(known[0], where, known[1], axis=axis))


def append(made: Made, arr: Any, values: Any, axis: Any = None) -> Found:
    return traced(made, [arr, values], lambda known: np.append(known[0], known[1], axis=axis))


def block(made: Made, arrays: Any) -> Found:
    return traced(made, arrays, np.block)


ONE = names(
    "fliplr:m flipud:m rot90:m squeeze:a expand_dims:a broadcast_to:array repeat:a tile:A delete:arr resize:a "
    "diag:v diagflat:v diagonal:a triu:m tril:m linalg.diagonal:x fft.fftshift:x fft.ifftshift:x "
    "lib.stride_tricks.sliding_window_view:x split:ary array_split:ary hsplit:ary vsplit:ary dsplit:ary unstack:x "
    "concatenate:arrays concat:arrays stack:arrays vstack:tup hstack:tup dstack:tup column_stack:tup"
)
PERMUTING = names("transpose permute_dims swapaxes moveaxis rollaxis matrix_transpose linalg.matrix_transpose")


RULES: dict[str, Rule] = {
    **{name: moving(found(name), data) for name, data in (each.split(":") for each in ONE) if found(name)},
    **{name: permuting(found(name)) for name in PERMUTING if found(name)},
    **{name: several(found(name), data) for name, data in (("broadcast_arrays", "args"), ("meshgrid", "xi"))},
    **dict.fromkeys(("reshape", "ravel"), reshaping),
    **dict.fromkeys(("atleast_1d", "atleast_2d", "atleast_3d"), dimensions),
    "squeeze": reshaping,
    "expand_dims": reshaping,
    "roll": roll,
    "flip": flip,
    "pad": pad,
    "take": take,
    "take_along_axis": take_along_axis,
    "compress": compress,
    "extract": extract,
    "insert": insert,
    "append": append,
    "block": block,
}
