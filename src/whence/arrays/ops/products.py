"""Operators of linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape
from whence.arrays.errors import ArrayError
from whence.arrays.operator import Mode
from whence.arrays.ops.mapped import Mapped, takes
from whence.arrays.ops.relation import Separable
from whence.arrays.ops.shapes import contracted, dotted, everything


class MatMul(Mapped):
    """np.matmul: a cell depends on its row of the first input and its column of the second."""

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        takes(self, inputs, 2)
        return np.asarray(np.matmul(inputs[0], inputs[1]))

    def relations(self, input_shapes: tuple[Shape, ...], output_shape: Shape) -> tuple[Separable, ...]:
        return contracted(output_shape, (input_shapes[0], input_shapes[1]))


class Dot(Mapped):
    """np.dot: the last axis of the first input with the last but one of the second."""

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        takes(self, inputs, 2)
        return np.asarray(np.dot(inputs[0], inputs[1]))

    def relations(self, input_shapes: tuple[Shape, ...], output_shape: Shape) -> tuple[Separable, ...]:
        return dotted(output_shape, (input_shapes[0], input_shapes[1]))


class Inverse(Mapped):
    """np.linalg.inv of a matrix: every cell depends on all."""

    entire_array = True

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        takes(self, inputs, 1)
        if inputs[0].ndim != 2:
            raise ArrayError(f"Inverse takes a matrix, not an array of shape {inputs[0].shape}.")
        return np.linalg.inv(inputs[0])

    def relations(self, input_shapes: tuple[Shape, ...], output_shape: Shape) -> list[Separable]:
        return [everything(output_shape, input_shapes[0])]
