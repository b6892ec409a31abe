"""Operators that move cells: each output cell is one input cell."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape, size_of
from whence.arrays.operator import Mode
from whence.arrays.ops.mapped import Mapped, takes
from whence.arrays.ops.relation import Chain, Relation
from whence.arrays.ops.shapes import axes_of, axis_of, flipped, joined, reshaped, rolled, sliced, transposed


class Moving(Mapped):
    """One input, whose cells go elsewhere."""

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        takes(self, inputs, 1)
        return np.asarray(self.move(inputs[0]))

    def move(self, x: NDArray[Any]) -> NDArray[Any]:
        raise NotImplementedError

    def relations(self, input_shapes: tuple[Shape, ...], output_shape: Shape) -> list[Relation]:
        return [self.moves(input_shapes[0], output_shape)]

    def moves(self, input_shape: Shape, output_shape: Shape) -> Relation:
        raise NotImplementedError


class Transpose(Moving):
    def __init__(self, axes: Sequence[int] | None = None) -> None:
        self.axes = None if axes is None else tuple(axes)

    def move(self, x: NDArray[Any]) -> NDArray[Any]:
        return np.transpose(x, self.axes)

    def moves(self, input_shape: Shape, output_shape: Shape) -> Relation:
        ndim = len(input_shape)
        return transposed(input_shape, range(ndim)[::-1] if self.axes is None else axes_of(self.axes, ndim))


class Reshape(Moving):
    """In C order; one length may be -1."""

    def __init__(self, shape: int | Sequence[int]) -> None:
        self.shape = operator.index(shape) if not isinstance(shape, Iterable) else tuple(shape)

    def move(self, x: NDArray[Any]) -> NDArray[Any]:
        return np.reshape(x, self.shape)

    def moves(self, input_shape: Shape, output_shape: Shape) -> Relation:
        return reshaped(output_shape, input_shape)


class Slice(Moving):
    """x[key] with a basic key: integers, slices, `...` and None."""

    def __init__(self, key: Any) -> None:
        self.key = basic(key)

    def move(self, x: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(x[self.key])

    def moves(self, input_shape: Shape, output_shape: Shape) -> Relation:
        return sliced(output_shape, input_shape, self.key)


def basic(key: Any) -> tuple[Any, ...]:
    """The key as a tuple, or a TypeError where it is no basic one."""
    parts = key if isinstance(key, tuple) else (key,)
    for part in parts:
        if not is_basic(part):
            raise TypeError(
                f"Slice takes integers, slices, ... and None, not {part!r}: choose cells by other arrays with numpy "
                "code on whence.arrays.asarray(x)."
            )
    return parts


def is_basic(part: Any) -> bool:
    if part is None or part is Ellipsis or isinstance(part, slice):
        return True
    if isinstance(part, (bool, np.bool_)):
        return False
    try:
        operator.index(part)
    except TypeError:
        return False
    return np.ndim(part) == 0


class Flip(Moving):
    def __init__(self, axis: int | Sequence[int] | None = None) -> None:
        self.axis = tuple(axis) if isinstance(axis, Sequence) else axis

    def move(self, x: NDArray[Any]) -> NDArray[Any]:
        return np.flip(x, self.axis)

    def moves(self, input_shape: Shape, output_shape: Shape) -> Relation:
        return flipped(input_shape, axes_of(self.axis, len(input_shape)))


class Rotate(Moving):
    """k quarter turns from the first of `axes` towards the second: numpy.rot90."""

    def __init__(self, k: int = 1, axes: Sequence[int] = (0, 1)) -> None:
        self.k = operator.index(k)
        self.axes = tuple(axes)

    def move(self, x: NDArray[Any]) -> NDArray[Any]:
        return np.rot90(x, self.k, self.axes)  # type: ignore[arg-type]

    def moves(self, input_shape: Shape, output_shape: Shape) -> Relation:
        return turned(input_shape, self.k, self.axes)


def turned(input_shape: Shape, k: int, axes: Sequence[int]) -> Relation:
    first, second = (axis_of(axis, len(input_shape)) for axis in axes)
    turns = k % 4
    if turns == 0:
        return flipped(input_shape, ())
    if turns == 2:
        return flipped(input_shape, (first, second))
    order = list(range(len(input_shape)))
    order[first], order[second] = second, first
    swap = transposed(input_shape, order)
    if turns == 1:  # numpy flips the second axis, then swaps
        return Chain(swap.output_shape, input_shape, swap, flipped(input_shape, (second,)))
    return Chain(swap.output_shape, input_shape, flipped(swap.output_shape, (second,)), swap)


class Roll(Moving):
    def __init__(self, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> None:
        self.shift = tuple(shift) if isinstance(shift, Sequence) else shift
        self.axis = tuple(axis) if isinstance(axis, Sequence) else axis

    def move(self, x: NDArray[Any]) -> NDArray[Any]:
        return np.roll(x, self.shift, self.axis)

    def moves(self, input_shape: Shape, output_shape: Shape) -> Relation:
        return rolled(input_shape, self.shift, self.axis)


class Concatenate(Mapped):
    """All inputs, one behind the other along `axis`; None: each as a flat one."""

    def __init__(self, axis: int | None = 0) -> None:
        self.axis = axis

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        return np.concatenate(inputs, axis=self.axis)

    def relations(self, input_shapes: tuple[Shape, ...], output_shape: Shape) -> list[Relation]:
        return joined_all(input_shapes, output_shape, self.axis)


def joined_all(input_shapes: Sequence[Shape], output_shape: Shape, axis: int | None) -> list[Relation]:
    number = None if axis is None else axis_of(axis, len(output_shape))
    found: list[Relation] = []
    before = 0
    for shape in input_shapes:
        found.append(joined(output_shape, shape, number, before))
        before += size_of(shape) if number is None else shape[number]
    return found
