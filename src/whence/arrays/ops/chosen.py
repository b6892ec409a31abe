"""Operators that move cells by what the data say: they write down where each came from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape, coordinates
from whence.arrays.operator import Mode, Operator
from whence.arrays.ops.mapped import expect, takes
from whence.arrays.ops.relation import all_cells
from whence.arrays.ops.shapes import axis_of, broadcast


class Chosen(Operator):
    def supported_modes(self) -> set[Mode]:
        return {Mode.FULL}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def write(self, outcells: NDArray[np.int64], input_shape: Shape, output_shape: Shape, i: int) -> None:
        """These output cells depend on the cell of input i that broadcasts there."""
        if input_shape == output_shape:
            self.lwrite_many(outcells, outcells, i)
            return
        rows, cells = broadcast(output_shape, input_shape).backward(outcells)
        self.lwrite_many(outcells[rows], cells, i)


def truth(condition: Any) -> NDArray[np.bool_]:
    """What np.where makes of a condition of any kind."""
    return np.where(condition, True, False)


def sorting(x: NDArray[Any], axis: int | None) -> NDArray[np.int64]:
    """For each cell of the sorted array the number of the cell that moved there; equal ones keep their order."""
    if axis is None:
        return np.argsort(x, axis=None, kind="stable")
    numbers = np.arange(x.size).reshape(x.shape)
    return np.take_along_axis(numbers, np.argsort(x, axis=axis, kind="stable"), axis)


class Sort(Chosen):
    """np.sort(kind="stable") along an axis: a cell depends on the one that moved there."""

    def __init__(self, axis: int | None = -1) -> None:
        self.axis = axis

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        takes(self, inputs, 1)
        x = inputs[0]
        axis = None if self.axis is None else axis_of(self.axis, x.ndim)
        if Mode.FULL not in cur_modes:
            return np.sort(x, axis=axis, kind="stable")
        origin = sorting(x, axis)
        result = x.reshape(-1)[origin]
        self.lwrite_many(all_cells(result.shape), coordinates(origin.reshape(-1), x.shape))
        return result


class Where(Chosen):
    """np.where(c, a, b): a cell depends on c's cell and on that of the branch taken."""

    halo = 0

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        takes(self, inputs, 3)
        result = np.where(*inputs)
        if Mode.FULL in cur_modes:
            taken = np.broadcast_to(truth(inputs[0]), result.shape)
            self.write(all_cells(result.shape), inputs[0].shape, result.shape, 0)
            self.write(np.argwhere(taken), inputs[1].shape, result.shape, 1)
            self.write(np.argwhere(~taken), inputs[2].shape, result.shape, 2)
        return result


class Mask(Chosen):
    """np.where(m, x, fill) of inputs x, m: a cell depends on m's cell, and on x's where m holds."""

    halo = 0

    def __init__(self, fill: Any = 0) -> None:
        self.fill = fill

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        takes(self, inputs, 2)
        x, m = inputs
        shape = np.broadcast_shapes(x.shape, m.shape)
        result = expect(self, np.where(m, x, self.fill), shape, inputs, "fill must be one value")
        if Mode.FULL in cur_modes:
            self.write(np.argwhere(np.broadcast_to(truth(m), shape)), x.shape, shape, 0)
            self.write(all_cells(shape), m.shape, shape, 1)
        return result
