"""The relations that operators and recorded functions share, made from shapes and parameters."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from whence.arrays.cells import Shape, size_of
from whence.arrays.ops.links import Affine, Link, Window, Wrapped
from whence.arrays.ops.relation import Linked, Relation, Reshaped, Separable, Span, in_c_order


def axis_of(axis: Any, ndim: int) -> int:
    """The axis counted from the front, or numpy's own error."""
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise np.exceptions.AxisError(number, ndim)
    return number % ndim


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None or (ndim == 0 and not isinstance(axis, Iterable) and axis in (0, -1)):
        return tuple(range(ndim))  # numpy lets a 0-d array have one axis when it is reduced
    if isinstance(axis, Iterable):
        return tuple(axis_of(each, ndim) for each in axis)
    return (axis_of(axis, ndim),)


def same(length: int) -> Affine:
    return Affine(length, length)


def whole(length: int) -> Span:
    return Span(0, length)


def everything(output_shape: Shape, input_shape: Shape) -> Separable:
    return Separable(output_shape, input_shape, tuple(whole(length) for length in input_shape))


def broadcast(output_shape: Shape, input_shape: Shape) -> Separable:
    """The cell that numpy's broadcasting puts there."""
    return Separable(output_shape, input_shape, tuple(spread_axes(output_shape, input_shape, len(output_shape))))


def spread_axes(output_shape: Shape, lengths: Sequence[int], stop: int) -> list[Span | Linked]:
    """These axes of an input, broadcast against the output's axes that end before `stop`."""
    first = stop - len(lengths)
    return [
        Span(0, 1) if length == 1 else Linked(first + number, same(length)) for number, length in enumerate(lengths)
    ]


def transposed(input_shape: Shape, axes: Sequence[int]) -> Separable:
    """Axis k of the output is axis `axes[k]` of the input."""
    places = np.argsort(np.asarray(axes, dtype=np.int64))
    return Separable(
        tuple(input_shape[axis] for axis in axes),
        input_shape,
        tuple(Linked(int(place), same(length)) for place, length in zip(places, input_shape, strict=True)),
    )


def along(input_shape: Shape, links: dict[int, Link], output_shape: Shape | None = None) -> Separable:
    """Every axis stays where it is; along some of them cells move by a link."""
    return Separable(
        input_shape if output_shape is None else output_shape,
        input_shape,
        tuple(Linked(axis, links.get(axis) or same(length)) for axis, length in enumerate(input_shape)),
    )


def flipped(input_shape: Shape, axes: Iterable[int]) -> Separable:
    return along(
        input_shape, {axis: Affine(input_shape[axis], input_shape[axis], -1, input_shape[axis] - 1) for axis in axes}
    )


def rolled(input_shape: Shape, shift: Any, axis: Any) -> Relation:
    if axis is None:
        total = int(np.sum(shift))
        return in_c_order(input_shape, input_shape, Wrapped(size_of(input_shape), total))
    shifts: dict[int, int] = {}
    for each, one in np.broadcast(shift, axis):
        number = axis_of(one, len(input_shape))
        shifts[number] = shifts.get(number, 0) + int(each)
    return along(input_shape, {number: Wrapped(input_shape[number], total) for number, total in shifts.items()})


def sliced(output_shape: Shape, input_shape: Shape, key: tuple[Any, ...]) -> Separable:
    """What basic indexing takes: integers, slices, one `...` and new axes."""
    named = sum(part is not None and part is not Ellipsis for part in key)
    if Ellipsis not in [part for part in key if part is None or part is Ellipsis]:
        key = (*key, Ellipsis)
    axes: list[Span | Linked] = []
    place = 0
    for part in key:
        if part is None:
            place += 1
        elif part is Ellipsis:
            for _ in range(len(input_shape) - named):
                axes.append(Linked(place, same(input_shape[len(axes)])))
                place += 1
        elif isinstance(part, slice):
            length = input_shape[len(axes)]
            start, stop, step = part.indices(length)
            axes.append(Linked(place, Affine(length, len(range(start, stop, step)), step, start)))
            place += 1
        else:
            length = input_shape[len(axes)]
            number = operator.index(part)
            number += length if number < 0 else 0
            axes.append(Span(number, number + 1))
    return Separable(output_shape, input_shape, tuple(axes))


def joined(output_shape: Shape, input_shape: Shape, axis: int | None, before: int) -> Relation:
    """One of the inputs of a concatenation; `before` counts what stands in front of it along the axis."""
    if axis is None:
        return in_c_order(output_shape, input_shape, Affine(size_of(input_shape), size_of(output_shape), 1, -before))
    link = Affine(input_shape[axis], output_shape[axis], 1, -before)
    return along(input_shape, {axis: link}, output_shape)


def lanes(input_shape: Shape, axes: Sequence[int], keepdims: bool, before: Shape = ()) -> Separable:
    """A reduction: the whole of `axes`; `before` are output axes in front that reach everywhere (quantiles)."""
    reduced = set(axes)
    found: list[Span | Linked] = []
    lengths = list(before)
    for axis, length in enumerate(input_shape):
        if axis in reduced:
            found.append(whole(length))
            if keepdims:
                lengths.append(1)
        else:
            found.append(Linked(len(lengths), same(length)))
            lengths.append(length)
    return Separable(tuple(lengths), input_shape, tuple(found))


def lane_of(axis: Any, ndim: int) -> int | None:
    """The axis of a running function; None where the array is taken as a flat one."""
    return None if axis is None or (ndim == 0 and axis in (0, -1)) else axis_of(axis, ndim)


def running(input_shape: Shape, axis: int | None, output_shape: Shape | None = None, later: int = 0) -> Relation:
    """A cell and those before it in its lane; `later` is how many made-up cells stand in front."""
    if axis is None or not input_shape:
        length = size_of(input_shape)
        shape = (length,) if output_shape is None else output_shape
        return in_c_order(shape, input_shape, Window(length, size_of(shape), length + later, -later))
    length = input_shape[axis]
    shape = input_shape if output_shape is None else output_shape
    return along(input_shape, {axis: Window(length, shape[axis], length + later, -later)}, shape)


def transform(output_shape: Shape, input_shape: Shape, axes: Sequence[int]) -> Separable:
    """All to all along these axes, each cell of the others by itself (fft, inv over stacks)."""
    mixed = set(axes)
    return Separable(
        output_shape,
        input_shape,
        tuple(
            whole(length) if axis in mixed else Linked(axis, same(length)) for axis, length in enumerate(input_shape)
        ),
    )


def contracted(output_shape: Shape, shapes: tuple[Shape, Shape]) -> tuple[Separable, Separable]:
    """numpy's matmul: its row of the first, its column of the second, stacks broadcast."""
    left, right = shapes
    stop = len(output_shape) - (len(left) > 1) - (len(right) > 1)
    first: list[Span | Linked] = spread_axes(output_shape, left[:-2], stop) if len(left) > 1 else []
    if len(left) > 1:
        first.append(Linked(stop, same(left[-2])))
    first.append(whole(left[-1]))
    second: list[Span | Linked] = spread_axes(output_shape, right[:-2], stop) if len(right) > 1 else []
    second.append(whole(right[-2] if len(right) > 1 else right[-1]))
    if len(right) > 1:
        second.append(Linked(len(output_shape) - 1, same(right[-1])))
    return Separable(output_shape, left, tuple(first)), Separable(output_shape, right, tuple(second))


def dotted(output_shape: Shape, shapes: tuple[Shape, Shape]) -> tuple[Separable, Separable]:
    """numpy's dot: the last axis of the first with the last but one of the second."""
    left, right = shapes
    if not left or not right:
        return broadcast(output_shape, left), broadcast(output_shape, right)
    first: list[Span | Linked] = [Linked(axis, same(length)) for axis, length in enumerate(left[:-1])]
    first.append(whole(left[-1]))
    second: list[Span | Linked] = []
    place = len(left) - 1
    summed = max(len(right) - 2, 0)
    for axis, length in enumerate(right):
        if axis == summed:
            second.append(whole(length))
        else:
            second.append(Linked(place, same(length)))
            place += 1
    return Separable(output_shape, left, tuple(first)), Separable(output_shape, right, tuple(second))


def outer(output_shape: Shape, shapes: tuple[Shape, Shape]) -> tuple[Separable, Separable]:
    """Every cell of the first with every cell of the second."""
    left, right = shapes
    return (
        Separable(output_shape, left, tuple(Linked(axis, same(length)) for axis, length in enumerate(left))),
        Separable(output_shape, right, tuple(Linked(len(left) + axis, same(n)) for axis, n in enumerate(right))),
    )


def reshaped(output_shape: Shape, input_shape: Shape) -> Reshaped:
    return in_c_order(output_shape, input_shape)
