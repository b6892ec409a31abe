"""What a rule sees of a recorded call: shapes always, values only where the operator is asked while it runs.

A rule is a function of the arguments of a numpy function, with an `Operand` for each recorded array among them. It
yields (operand, relation) for each. Asking an operand for its value says that the lineage depends on the data: such a
call is then followed by writing pairs down while it runs, and every other by its shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape
from whence.arrays.ops.relation import Relation

Rule: TypeAlias = "Callable[..., Iterator[tuple[Any, Relation]]]"


class NeedsValues(Exception):  # noqa: N818: a turn in the road, not a failure
    """The lineage of this call depends on the data."""


@dataclass(frozen=True)
class Slot:
    """The place of input `number` of the operator in the arguments of the call."""

    number: int


@dataclass(frozen=True, eq=False)
class Operand:
    number: int
    shape: Shape
    held: NDArray[Any] | None = None

    @property
    def value(self) -> NDArray[Any]:
        if self.held is None:
            raise NeedsValues
        return self.held


@dataclass(frozen=True, eq=False)
class Made:
    """The result, or result `number` of several."""

    shape: Shape
    number: int = 0
    held: NDArray[Any] | None = None

    @property
    def value(self) -> NDArray[Any]:
        if self.held is None:
            raise NeedsValues
        return self.held


def shape_of(given: Any) -> Shape:
    return given.shape if isinstance(given, Operand) else np.shape(given)


def value_of(given: Any) -> Any:
    """The argument itself, recorded arrays in it as their values."""
    return exchange(given, Operand, lambda operand: operand.value)


def operands(given: Any) -> list[Operand]:
    """All recorded arrays in an argument, however deep."""
    found: list[Operand] = []

    def note(operand: Operand) -> Operand:
        found.append(operand)
        return operand

    exchange(given, Operand, note)
    return found


def exchange(given: Any, kind: type, to: Callable[[Any], Any]) -> Any:
    """`given` with everything of this kind exchanged, inside of lists, tuples, dictionaries and slices too."""
    if isinstance(given, kind):
        return to(given)
    if isinstance(given, tuple):
        parts = [exchange(each, kind, to) for each in given]
        return type(given)._make(parts) if hasattr(given, "_make") else tuple(parts)
    if isinstance(given, list):
        return [exchange(each, kind, to) for each in given]
    if isinstance(given, dict):
        return {name: exchange(each, kind, to) for name, each in given.items()}
    if isinstance(given, slice):
        return slice(*(exchange(each, kind, to) for each in (given.start, given.stop, given.step)))
    return given
