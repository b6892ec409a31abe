"""Operators along lanes: reductions and running ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape, size_of
from whence.arrays.operator import Mode
from whence.arrays.ops.mapped import Mapped, expect, takes
from whence.arrays.ops.relation import Relation, Separable
from whence.arrays.ops.shapes import axes_of, lane_of, lanes, running


class Reduce(Mapped):
    """f(x, axis=axis, keepdims=keepdims): a cell depends on all cells of its lanes."""

    def __init__(self, f: Callable[..., Any], axis: int | Sequence[int] | None = None, keepdims: bool = False) -> None:
        if not callable(f):
            raise TypeError(f"Reduce takes a function of (x, axis, keepdims), such as np.sum, not {f!r}.")
        self.f = f
        self.axis = tuple(axis) if isinstance(axis, Sequence) else axis
        self.keepdims = bool(keepdims)

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        takes(self, inputs, 1)
        due = self._lanes(inputs[0].shape).output_shape
        result = self.f(inputs[0], axis=self.axis, keepdims=self.keepdims)
        return expect(self, result, due, inputs, "f must reduce the axes it is given")

    def relations(self, input_shapes: tuple[Shape, ...], output_shape: Shape) -> list[Separable]:
        return [self._lanes(input_shapes[0])]

    def _lanes(self, shape: Shape) -> Separable:
        return lanes(shape, axes_of(self.axis, len(shape)), self.keepdims)


class Cumulative(Mapped):
    """f(x, axis=axis), such as np.cumsum: a cell depends on those of its lane up to its own."""

    def __init__(self, f: Callable[..., Any], axis: int | None = 0) -> None:
        if not callable(f):
            raise TypeError(f"Cumulative takes a function of (x, axis), such as np.cumsum, not {f!r}.")
        self.f = f
        self.axis = axis

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        takes(self, inputs, 1)
        flat = lane_of(self.axis, inputs[0].ndim) is None
        shape = (size_of(inputs[0].shape),) if flat else inputs[0].shape
        result = np.asarray(self.f(inputs[0], axis=self.axis))
        return expect(self, result, shape, inputs, "f must give as many cells as it gets")

    def relations(self, input_shapes: tuple[Shape, ...], output_shape: Shape) -> list[Relation]:
        shape = input_shapes[0]
        return [running(shape, lane_of(self.axis, len(shape)))]
