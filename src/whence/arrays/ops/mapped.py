"""Operators whose lineage follows from shapes and parameters alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape
from whence.arrays.errors import ArrayError
from whence.arrays.operator import Mode, Operator
from whence.arrays.ops.relation import Relation, Renumbered, Separable, Shares, alike

REMEMBERED = 8


class Mapped(Operator):
    """One relation for each input does all the map functions."""

    _known: OrderedDict[tuple[tuple[Shape, ...], Shape], tuple[Relation, ...]] | None = None

    def supported_modes(self) -> set[Mode]:
        return {Mode.FULL, Mode.MAP}

    def relations(self, input_shapes: tuple[Shape, ...], output_shape: Shape) -> Sequence[Relation]:
        raise NotImplementedError(f"{type(self).__name__} has no relations.")

    def relation(self, i: int) -> Relation:
        """That of input i where the operator stands now; some are worth remembering, since they invert tables."""
        key = (self.input_shapes, self.output_shape)
        known = self._known
        if known is None:
            known = self._known = OrderedDict()
        found = known.get(key)
        if found is None:
            found = known[key] = tuple(self.relations(*key))
            while len(known) > REMEMBERED:
                known.popitem(last=False)
        return found[i]

    def map_b_many(self, outcells: NDArray[np.int64], i: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.relation(i).backward(outcells)

    def map_f_many(self, incells: NDArray[np.int64], i: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.relation(i).forward(incells)

    # --- what a question about many cells may take instead of the map functions: arrays/maps.py

    def alike_b(self, outcells: NDArray[np.int64], i: int) -> NDArray[np.int64]:
        """Some of the cells, whose lineage together is that of all of them."""
        return alike(self.relation(i), outcells, backward=True) if self._is_own("map_b") else outcells

    def alike_f(self, incells: NDArray[np.int64], i: int) -> NDArray[np.int64]:
        return alike(self.relation(i), incells, backward=False) if self._is_own("map_f") else incells

    def keeps_cells(self, i: int) -> bool:
        """Whether every cell of input i is related to the one at its own place alone."""
        relation = self.relation(i)
        own = self._is_own("map_b") and self._is_own("map_f")
        return own and isinstance(relation, Separable) and relation.is_identity

    def moves_cells(self, i: int) -> tuple[Renumbered, Renumbered] | None:
        """Where every cell of input i is related to one of the output: from number to number, backward and forward."""
        relation = self.relation(i)
        own = self._is_own("map_b") and self._is_own("map_f")
        return relation.renumbered if own and isinstance(relation, Separable) else None

    def together_b(self, outcells: NDArray[np.int64], i: int) -> NDArray[np.int64] | None:
        """All that any of the cells depends on, or None where there is no shorter way."""
        relation = self.relation(i)
        return relation.many_backward(outcells) if isinstance(relation, Shares) and self._is_own("map_b") else None

    def together_f(self, incells: NDArray[np.int64], i: int) -> NDArray[np.int64] | None:
        relation = self.relation(i)
        return relation.many_forward(incells) if isinstance(relation, Shares) and self._is_own("map_f") else None

    def _is_own(self, name: str) -> bool:
        """Whether the map functions are those of the relation, not of a subclass."""
        return all(getattr(type(self), each) is getattr(Mapped, each) for each in (name, f"{name}_many"))

    def map_b(self, outcell: tuple[int, ...], i: int) -> NDArray[np.int64]:
        return self.map_b_many(one(outcell), i)[1]

    def map_f(self, incell: tuple[int, ...], i: int) -> NDArray[np.int64]:
        return self.map_f_many(one(incell), i)[1]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_known"}

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.__getstate__().items())
        return f"{type(self).__name__}({given})"


def one(cell: tuple[int, ...]) -> NDArray[np.int64]:
    return np.asarray(cell, dtype=np.int64).reshape(1, -1)


def takes(operator: Operator, inputs: Sequence[Any], count: int) -> None:
    if len(inputs) != count:
        raise ArrayError(f"{type(operator).__name__} takes {count} input{'s' * (count > 1)}, not {len(inputs)}.")


def expect(operator: Operator, result: Any, shape: Shape, inputs: Sequence[NDArray[Any]], why: str) -> NDArray[Any]:
    """The result as an array; a function that gives another shape would have another lineage."""
    made = np.asarray(result)
    if made.shape != shape:
        given = " and ".join(str(each.shape) for each in inputs)
        raise ArrayError(f"{operator!r} gave shape {made.shape} for {given}, where {shape} was due: {why}.")
    return made
