"""Functions of single cells, with numpy's broadcasting, and made-up cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from whence.arrays.ops.relation import Linked, Nothing, Relation, Separable, Span
from whence.arrays.ops.shapes import axis_of, broadcast, everything, same
from whence.arrays.recorded.errors import Unfit
from whence.arrays.recorded.operand import Made, Rule, operands, shape_of
from whence.arrays.recorded.rules.names import names

Found = Iterator[tuple[Any, Relation]]


def elementwise(made: Made, **arguments: Any) -> Found:
    inputs = operands(arguments)
    if np.broadcast_shapes(made.shape, *(operand.shape for operand in inputs)) != made.shape:
        raise Unfit("its result has fewer cells than its arguments")
    for operand in inputs:
        yield operand, broadcast(made.shape, operand.shape)


def elementwise_of_all(made: Made, **arguments: Any) -> Found:
    """The same, though the kind of all cells is chosen by looking at all of them."""
    return elementwise(made, **arguments)


def made_up(made: Made, **arguments: Any) -> Found:
    for operand in operands(arguments):
        yield operand, Nothing(made.shape, operand.shape)


def full_like(made: Made, a: Any, fill_value: Any, **parameters: Any) -> Found:
    yield a, Nothing(made.shape, shape_of(a))
    if operands(fill_value):
        yield fill_value, broadcast(made.shape, shape_of(fill_value))


def looked_up(made: Made, **arguments: Any) -> Found:
    """Each cell of the first argument against all of the others."""
    each, *tables = arguments.values()
    if operands(each):
        yield each, broadcast(made.shape, shape_of(each))
    for operand in operands(tables):
        yield operand, everything(made.shape, operand.shape)


def searched(made: Made, a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Found:
    return looked_up(made, v=v, a=a, sorter=sorter)


def polyval(made: Made, p: Any, x: Any) -> Found:
    return looked_up(made, x=x, p=p)


def numbered(made: Made, multi_index: Any, dims: Any, mode: Any = "raise", order: Any = "C") -> Found:
    if isinstance(multi_index, tuple):
        return elementwise(made, multi_index=multi_index)
    return _columns(made, multi_index)


def _columns(made: Made, multi_index: Any) -> Found:
    shape = shape_of(multi_index)
    links = tuple(Linked(axis, same(length)) for axis, length in enumerate(shape[1:]))
    yield multi_index, Separable(made.shape, shape, (Span(0, shape[0]), *links))


def between(made: Made, start: Any, stop: Any, axis: Any = 0, **parameters: Any) -> Found:
    """linspace and its like: a new axis, along which each cell comes from its start and its stop."""
    if parameters.get("retstep"):
        raise Unfit("with retstep it gives two things of different kinds")
    place = axis_of(axis, len(made.shape))
    rest = made.shape[:place] + made.shape[place + 1 :]
    for operand in operands((start, stop, parameters.get("base"))):
        inner = broadcast(rest, operand.shape).axes
        axes = [
            part if isinstance(part, Span) else Linked(part.axis + (part.axis >= place), part.link) for part in inner
        ]
        yield operand, Separable(made.shape, operand.shape, tuple(axes))


CELLS = names(
    "around round round_ clip real imag angle nan_to_num isclose i0 sinc fix isposinf isneginf iscomplex isreal "
    "copy astype unravel_index datetime_as_string is_busday busday_count busday_offset"
)

RULES: dict[str, Rule] = {
    **dict.fromkeys(CELLS, elementwise),
    **dict.fromkeys(names("zeros_like ones_like diag_indices_from tril_indices_from triu_indices_from"), made_up),
    **dict.fromkeys(("digitize", "interp", "isin", "in1d"), looked_up),
    **dict.fromkeys(("linspace", "logspace", "geomspace"), between),
    "real_if_close": elementwise_of_all,
    "full_like": full_like,
    "searchsorted": searched,
    "polyval": polyval,
    "ravel_multi_index": numbered,
}
