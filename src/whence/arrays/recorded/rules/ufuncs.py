"""Ufuncs, their methods, and ufuncs of whole lanes or matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from whence.arrays.ops.links import Table
from whence.arrays.ops.relation import Chain, Linked, Relation, Separable, Span
from whence.arrays.ops.shapes import (
    along,
    axes_of,
    axis_of,
    broadcast,
    everything,
    lanes,
    outer,
    running,
    same,
    spread_axes,
    whole,
)
from whence.arrays.recorded.errors import Unfit
from whence.arrays.recorded.operand import Made, Rule, operands, shape_of, value_of
from whence.arrays.recorded.rules.masked import masked

Found = Iterator[tuple[Any, Relation]]

# Sums of products: a core axis that the result has too is the same one there.
CONTRACTIONS = ("matmul", "vecdot", "matvec", "vecmat")


def called(
    made: Made,
    ufunc: np.ufunc,
    inputs: tuple[Any, ...],
    where: Any = True,
    axes: Any = None,
    axis: Any = None,
    keepdims: Any = False,
    **computing: Any,
) -> Found:
    if ufunc.signature is None:
        for operand in operands(inputs):
            yield operand, broadcast(made.shape, operand.shape)
        return
    if axes is not None or axis is not None or keepdims:
        if ufunc.signature != "(n),(n)->()" or axes is not None:
            raise Unfit("axes= is not; move the axes to the back first")
        yield from lane_products(made, inputs, -1 if axis is None else axis, bool(keepdims))
        return
    yield from cored(made, ufunc, inputs)


def lane_products(made: Made, inputs: tuple[Any, ...], axis: int, keepdims: bool) -> Found:
    """vecdot along any axis: both are broadcast, then the axis is reduced. The axis counts in each input by itself."""
    shapes = [shape_of(each) for each in inputs]
    for each, shape in zip(inputs, shapes, strict=True):
        if operands(each):
            own = axis_of(axis, len(shape))
            rest = [
                part
                for number, part in enumerate(made.shape)
                if not (keepdims and number == axis_of(axis, len(made.shape)))
            ]
            around = spread_axes(tuple(rest), shape[:own] + shape[own + 1 :], len(rest))
            gone = axis_of(axis, len(made.shape)) if keepdims else len(made.shape)
            axes = [
                part if isinstance(part, Span) else Linked(part.axis + (part.axis >= gone), part.link)
                for part in around
            ]
            axes.insert(own, whole(shape[own]))
            yield each, Separable(made.shape, shape, tuple(axes))


def cored(made: Made, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Found:
    """Generalised ufuncs: loops are broadcast, core axes all to all unless the ufunc is known as a contraction."""
    assert ufunc.signature is not None
    given, _, results = ufunc.signature.replace(" ", "").partition("->")
    terms = [_core(term) for term in given.strip("()").split("),(")]
    result = _core(results.strip("()").split("),(")[made.number])
    shapes = [shape_of(each) for each in inputs]
    missing: set[str] = set()
    for term, shape in zip(terms, shapes, strict=True):
        optional = [label for label in term if label.endswith("?")]
        if len(shape) < len(term):
            missing |= set(optional)
    terms = [[label for label in term if label not in missing] for term in terms]
    result = [label for label in result if label not in missing]
    loops = len(made.shape) - len(result)
    contraction = ufunc.__name__ in CONTRACTIONS and getattr(np, ufunc.__name__, None) is ufunc
    for each, term, shape in zip(inputs, terms, shapes, strict=True):
        if operands(each):
            axes = spread_axes(made.shape, shape[: len(shape) - len(term)], loops)
            for label, length in zip(term, shape[len(shape) - len(term) :], strict=True):
                if contraction and label in result:
                    axes.append(Linked(loops + result.index(label), same(length)))
                else:
                    axes.append(whole(length))
            yield each, Separable(made.shape, shape, tuple(axes))


def _core(term: str) -> list[str]:
    return [label for label in term.split(",") if label]


def reduced(
    made: Made,
    ufunc: np.ufunc,
    inputs: tuple[Any, ...],
    axis: Any = 0,
    dtype: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = True,
) -> Found:
    (a,) = inputs
    shape = shape_of(a)
    if axis == 0 and not shape:
        axis = None
    line = lanes(shape, axes_of(axis, len(shape)), bool(keepdims))
    yield a, masked(line, value_of(where), shape)
    if operands(where):
        yield where, Chain(made.shape, shape_of(where), line, broadcast(shape, shape_of(where)))
    if operands(initial):
        yield initial, everything(made.shape, shape_of(initial))


def accumulated(made: Made, ufunc: np.ufunc, inputs: tuple[Any, ...], axis: Any = 0, dtype: Any = None) -> Found:
    (a,) = inputs
    shape = shape_of(a)
    yield a, running(shape, axis_of(axis, len(shape)))


def reduced_at(made: Made, ufunc: np.ufunc, inputs: tuple[Any, ...], axis: Any = 0, dtype: Any = None) -> Found:
    """From each index up to the next one; where that is not larger, the cell at the index alone."""
    a, indices = inputs
    shape = shape_of(a)
    number = axis_of(axis, len(shape))
    length = shape[number]
    starts = np.asarray(value_of(indices), dtype=np.int64)
    starts = np.where(starts < 0, starts + length, starts)
    stops = np.append(starts[1:], length)
    counts = np.maximum(stops - starts, 1)
    link = Table(length, starts, counts, np.arange(length))
    yield a, along(shape, {number: link}, made.shape)


def outer_of(made: Made, ufunc: np.ufunc, inputs: tuple[Any, ...], **computing: Any) -> Found:
    first, second = inputs
    left, right = outer(made.shape, (shape_of(first), shape_of(second)))
    yield first, left
    yield second, right


METHODS: dict[str, Rule] = {
    "__call__": called,
    "reduce": reduced,
    "accumulate": accumulated,
    "reduceat": reduced_at,
    "outer": outer_of,
}
