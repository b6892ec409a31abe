"""Conditions, causes, and the boxes of codes that they stand for (section 2 of the paper)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from whence.debug.diagnose.errors import OutsideSpace
from whence.debug.diagnose.space import Mask, Parameter, Space, _key
from whence.model.text import visible

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Condition(NamedTuple):
    parameter: str
    op: str
    value: Any

    def holds(self, config: Mapping[str, Any]) -> bool:
        return compare(config[self.parameter], self.op, self.value)

    def __str__(self) -> str:
        return visible(f"{self.parameter} {self.op} {shown(self.value)}")


def shown(value: object) -> str:
    """A number of numpy's as the number that it is."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def compare(left: Any, op: str, right: Any) -> bool:
    if op == "==":
        return _key(left) == _key(right)
    if op == "!=":
        return _key(left) != _key(right)
    return bool(COMPARE[op](left, right))


@dataclass(frozen=True)
class Evidence:
    """What was seen of a cause: runs inside that failed, runs inside that did not, and for each condition a run that
    breaks only this condition and did not fail (its number in the history)."""

    failed: int = 0
    succeeded: int = 0
    near_misses: tuple[tuple[Condition, int | None], ...] = ()
    values_tried: float = 0.0  # share of the other parameters' values seen failing under this cause, of those that no
    # other cause hides


@dataclass(frozen=True)
class Cause:
    """A conjunction of conditions that makes the pipeline fail.

    `status` is "confirmed" when interventions showed it sufficient and minimal, else "consistent": no run speaks
    against it. `confidence` is the share of the hypotheses left that contain this very cause.
    """

    conditions: tuple[Condition, ...]
    status: str = "consistent"
    confidence: float = 0.0
    kind: str | None = None
    evidence: Evidence = field(default=Evidence(), compare=False)

    def holds(self, config: Mapping[str, Any]) -> bool:
        return all(c.holds(config) for c in self.conditions)

    def __str__(self) -> str:
        return " and ".join(str(c) for c in self.conditions) or "always"


Box = tuple[tuple[int, frozenset[int]], ...]  # (parameter, codes inside), only parameters that are restricted


def box_of(conditions: Iterable[tuple[str, str, Any]], space: Space) -> Box:
    """The codes inside; two conjunctions mean the same over the space when their boxes are equal."""
    masks: dict[int, Mask] = {}
    index = {name: i for i, name in enumerate(space.names)}
    for name, op, value in conditions:
        if name not in index:
            raise OutsideSpace(f"The parameter {name!r} is not in the space ({', '.join(space.names)}).")
        i = index[name]
        mask = np.array([compare(v, op, value) for v in space.parameters[i].values])
        masks[i] = masks[i] & mask if i in masks else mask
    return box_from_masks(masks)


def box_from_masks(masks: Mapping[int, Mask]) -> Box:
    return tuple(
        (i, frozenset(int(c) for c in np.flatnonzero(mask))) for i, mask in sorted(masks.items()) if not mask.all()
    )


def within(box: Box, other: Box) -> bool:
    """Is every configuration of the first also in the second?"""
    mine = dict(box)
    return all(p in mine and mine[p] <= values for p, values in other)


def conditions_of(box: Box, space: Space) -> tuple[Condition, ...]:
    return tuple(c for i, inside in box for c in _conditions(space.parameters[i], inside))


def _conditions(parameter: Parameter, inside: frozenset[int]) -> list[Condition]:
    name, values, size = parameter.name, parameter.values, len(parameter.values)
    outside = sorted(set(range(size)) - inside)
    if len(inside) == 1:
        return [Condition(name, "==", values[min(inside)])]
    if parameter.ordinal:
        low, high = min(inside, default=0), max(inside, default=-1)
        gaps = [v for v in outside if low < v < high]
        found = []
        if low > 0:
            found.append(Condition(name, ">=", values[low]))
        if high < size - 1:
            found.append(Condition(name, "<=", values[high]))
        return found + [Condition(name, "!=", values[v]) for v in gaps]
    return [Condition(name, "!=", values[v]) for v in outside]
