from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape
from whence.arrays.operator import Mode
from whence.arrays.ops.mapped import Mapped, expect, takes
from whence.arrays.ops.relation import Separable
from whence.arrays.ops.shapes import broadcast


class Elementwise(Mapped):
    """f(*inputs), cell by cell with numpy's broadcasting."""

    halo = 0

    def __init__(self, f: Callable[..., Any]) -> None:
        if not callable(f):
            raise TypeError(f"Elementwise takes a function of arrays, not {f!r}.")
        self.f = f

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        shape = np.broadcast_shapes(*(each.shape for each in inputs))
        why = "f must work cell by cell"
        return expect(self, self.f(*inputs), shape, inputs, why)

    def relations(self, input_shapes: tuple[Shape, ...], output_shape: Shape) -> list[Separable]:
        return [broadcast(output_shape, shape) for shape in input_shapes]


class Threshold(Mapped):
    """x > value."""

    halo = 0

    def __init__(self, value: Any) -> None:
        self.value = value

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        takes(self, inputs, 1)
        return expect(self, inputs[0] > self.value, inputs[0].shape, inputs, "value must be one number")

    def relations(self, input_shapes: tuple[Shape, ...], output_shape: Shape) -> list[Separable]:
        return [broadcast(output_shape, input_shapes[0])]
