"""Recorded calls as operators of a workflow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape
from whence.arrays.operator import Mode, Operator
from whence.arrays.ops.mapped import Mapped
from whence.arrays.ops.relation import Relation, all_cells
from whence.arrays.recorded.call import Call
from whence.arrays.recorded.operand import Made


def picked(result: Any, pick: int | None) -> NDArray[Any]:
    return np.asarray(result if pick is None else result[pick])


class ByShape(Mapped):
    """A call whose lineage follows from shapes and arguments."""

    def __init__(self, call: Call, pick: int | None) -> None:
        self.call = call
        self.pick = pick
        self.name = call.label
        self.halo = 0 if call.is_local else None

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        return picked(self.call.run(inputs), self.pick)

    def relations(self, input_shapes: tuple[Shape, ...], output_shape: Shape) -> list[Relation]:
        return self.call.relations(input_shapes, Made(output_shape, self.pick or 0))

    def __repr__(self) -> str:
        return f"<{self.call.name}>"


class ByValue(Operator):
    """A call that moves cells by what they hold: where each came from is written down while it runs."""

    def __init__(self, call: Call, pick: int | None) -> None:
        self.call = call
        self.pick = pick
        self.name = call.label
        self.halo = 0 if call.is_local else None

    def supported_modes(self) -> set[Mode]:
        return {Mode.FULL}

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        result = picked(self.call.run(inputs), self.pick)
        if Mode.FULL in cur_modes:
            outcells = all_cells(result.shape)
            made = Made(result.shape, self.pick or 0, result)
            for i, relation in enumerate(self.call.relations(tuple(x.shape for x in inputs), made, inputs)):
                rows, cells = relation.backward(outcells)
                self.lwrite_many(outcells[rows], cells, i)
        return result

    def __repr__(self) -> str:
        return f"<{self.call.name}>"
