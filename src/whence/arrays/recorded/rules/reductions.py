"""Reductions and running functions: a cell depends on its lanes, whatever the function."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whence.arrays.cells import Shape
from whence.arrays.ops.relation import Chain, Linked, Nothing, Relation, Separable, Span
from whence.arrays.ops.shapes import axes_of, axis_of, broadcast, everything, lane_of, lanes, running, same, whole
from whence.arrays.recorded.errors import Unfit
from whence.arrays.recorded.operand import Made, Rule, operands, shape_of, value_of
from whence.arrays.recorded.rules.masked import masked
from whence.arrays.recorded.rules.names import names

Found = Iterator[tuple[Any, Relation]]


def reduction(
    made: Made,
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = True,
    ddof: Any = 0,
    mean: Any = None,
    correction: Any = None,
    overwrite_input: Any = False,
) -> Found:
    shape = shape_of(a)
    along = lanes(shape, axes_of(axis, len(shape)), bool(keepdims))
    yield a, masked(along, value_of(where), shape)
    if operands(where):
        yield where, Chain(made.shape, shape_of(where), along, broadcast(shape, shape_of(where)))
    if operands(initial):
        yield initial, everything(made.shape, shape_of(initial))


def of_all(made: Made, a: Any, **parameters: Any) -> Found:
    """Two arrays compared as a whole, and their like: every cell counts."""
    for operand in operands((a, list(parameters.values()))):
        yield operand, everything(made.shape, operand.shape)


def compared(made: Made, a1: Any, a2: Any, equal_nan: Any = False) -> Found:
    return of_all(made, (a1, a2))


def close(made: Made, a: Any, b: Any, rtol: Any = 0, atol: Any = 0, equal_nan: Any = False) -> Found:
    return of_all(made, (a, b, rtol, atol))


def quantile(
    made: Made,
    a: Any,
    q: Any,
    axis: Any = None,
    keepdims: Any = False,
    weights: Any = None,
    method: Any = "linear",
    interpolation: Any = None,
    overwrite_input: Any = False,
) -> Found:
    shape = shape_of(a)
    axes = axes_of(axis, len(shape))
    ahead = shape_of(q)
    yield a, lanes(shape, axes, bool(keepdims), ahead)
    if operands(q):
        yield q, Separable(made.shape, ahead, tuple(Linked(axis, same(length)) for axis, length in enumerate(ahead)))
    if operands(weights):
        yield weights, weighting(made.shape, shape, shape_of(weights), axes, bool(keepdims), ahead)


def average(
    made: Made, a: Any, axis: Any = None, weights: Any = None, returned: Any = False, keepdims: Any = False
) -> Found:
    shape = shape_of(a)
    axes = axes_of(axis, len(shape))
    yield a, lanes(shape, axes, bool(keepdims)) if made.number == 0 else Nothing(made.shape, shape)
    if operands(weights):
        yield weights, weighting(made.shape, shape, shape_of(weights), axes, bool(keepdims))


def weighting(
    out: Shape, shape: Shape, weights: Shape, axes: tuple[int, ...], keepdims: bool, ahead: Shape = ()
) -> Relation:
    """Weights have the shape of the array, or that of the reduced axes alone."""
    if weights == shape:
        return lanes(shape, axes, keepdims, ahead)
    return everything(out, weights)


def cumulative(
    made: Made, a: Any = None, x: Any = None, axis: Any = None, dtype: Any = None, include_initial: Any = False
) -> Found:
    given = x if a is None else a
    shape = shape_of(given)
    if axis is None and len(shape) == 1:
        axis = 0
    number = lane_of(axis, len(shape))
    yield given, running(shape, number, made.shape, later=1 if include_initial else 0)


def unwrapped(made: Made, p: Any, discont: Any = None, axis: Any = -1, period: Any = None) -> Found:
    shape = shape_of(p)
    yield p, running(shape, axis_of(axis, len(shape)))


def norm(made: Made, x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Found:
    return reduction(made, x, axis, keepdims=keepdims)


def matrix_norm(made: Made, x: Any, keepdims: Any = False, ord: Any = None) -> Found:
    return reduction(made, x, (-2, -1), keepdims=keepdims)


def trapezoid(made: Made, y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Found:
    shape = shape_of(y)
    number = axis_of(axis, len(shape))
    along = lanes(shape, (number,), False)
    yield y, along
    if operands(x):
        if len(shape_of(x)) == 1:
            yield x, everything(made.shape, shape_of(x))
        else:
            yield x, Chain(made.shape, shape_of(x), along, broadcast(shape, shape_of(x)))
    if operands(dx):
        if shape_of(dx):
            raise Unfit("dx is a recorded array with axes")
        yield dx, everything(made.shape, ())


def over_axes(made: Made, func: Any, a: Any, axes: Any) -> Found:
    shape = shape_of(a)
    along = lanes(shape, axes_of(axes, len(shape)), True)
    if along.output_shape != made.shape:
        raise Unfit("the function did not reduce the axes it was given")
    yield a, along


def along_axis(made: Made, func1d: Any, axis: Any, arr: Any, args: Any = (), **more: Any) -> Found:
    shape = shape_of(arr)
    number = axis_of(axis, len(shape))
    extra = len(made.shape) - len(shape)  # what the function gives stands where its lane stood
    found: list[Span | Linked] = []
    for each, length in enumerate(shape):
        if each == number:
            found.append(whole(length))
        else:
            found.append(Linked(each if each < number else each + extra, same(length)))
    yield arr, Separable(made.shape, shape, tuple(found))


def counted(
    made: Made,
    a: Any = None,
    bins: Any = 10,
    range: Any = None,
    density: Any = None,
    weights: Any = None,
    x: Any = None,
    y: Any = None,
    sample: Any = None,
    minlength: Any = 0,
) -> Found:
    """Histograms: every cell decides into which bin it goes."""
    return of_all(made, (a, bins, weights, x, y, sample))


REDUCTIONS = names(
    "sum prod max amax min amin mean std var median any all argmax argmin ptp count_nonzero nansum nanprod nanmax "
    "nanmin nanmean nanstd nanvar nanmedian nanargmax nanargmin"
)
RUNNING = names("cumsum cumprod nancumsum nancumprod cumulative_sum cumulative_prod")
QUANTILES = names("percentile quantile nanpercentile nanquantile")

RULES: dict[str, Rule] = {
    **dict.fromkeys(REDUCTIONS, reduction),
    **dict.fromkeys(RUNNING, cumulative),
    **dict.fromkeys(QUANTILES, quantile),
    **dict.fromkeys(("histogram", "histogram_bin_edges", "histogram2d", "bincount"), counted),
    "average": average,
    "unwrap": unwrapped,
    "array_equal": compared,
    "array_equiv": compared,
    "allclose": close,
    "trapezoid": trapezoid,
    "trapz": trapezoid,
    "linalg.norm": norm,
    "linalg.vector_norm": norm,
    "linalg.matrix_norm": matrix_norm,
    "apply_along_axis": along_axis,
    "apply_over_axes": over_axes,
}
