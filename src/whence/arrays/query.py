"""Lineage queries: which ways through the workflow a question takes, and the steps along them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from whence.arrays.access import Asking, Found
from whence.arrays.cells import NONE, Numbers, size_of, unique
from whence.arrays.encodings import BACKWARD
from whence.arrays.errors import ArrayError
from whence.arrays.ways import Jump, Leg
from whence.arrays.workflow import Node, Workflow

Step = Callable[[Node, str, Numbers, int, Asking], Found]
SizeOf = Callable[[Node], int]


class Query:
    """One question to one run."""

    def __init__(
        self, workflow: Workflow, direction: str, step: Step, shape: Callable[[Node], tuple[int, ...]]
    ) -> None:
        self._workflow = workflow
        self._direction = direction
        self._step = step
        self._shape = shape
        self.notes: dict[str, None] = {}
        self.ended: dict[str, None] = {}
        """Where there may be less than there is, and why."""

    def along_all(self, start: Node, cells: Numbers, to: Node, asking: Asking) -> Numbers:
        """All ways from one array to the other, together."""
        if start is to:
            return cells
        return self.everywhere(start, cells, (to,), asking)[to]

    def everywhere(self, start: Node, cells: Numbers, to: Sequence[Node], asking: Asking) -> dict[Node, Numbers]:
        """The same to several arrays at once: what lies on the way to more than one of them is asked once."""
        backward = self._direction == BACKWARD
        useful = self._leading_to(to)
        if start not in useful:
            names = ", ".join(node.name for node in to)
            self.notes[f"No way leads {self._direction} from {start.name} to {names}: nothing is related."] = None
        parts: dict[Node, list[Numbers]] = {start: [cells]}
        sets: dict[Node, Numbers] = {}
        for node in reversed(self._workflow.nodes) if backward else self._workflow.nodes:
            if backward:
                if node not in parts or node not in useful:
                    continue
                sets[node] = self._union(node, parts[node])
                for i, below in enumerate(node.inputs):
                    if below in useful:
                        parts.setdefault(below, []).append(self._walk(node, sets[node], i, asking))
            else:
                found = [
                    self._walk(node, sets[below], i, asking)
                    for i, below in enumerate(node.inputs)
                    if below in sets and node in useful
                ]
                if node is start:
                    sets[node] = cells
                elif found:
                    sets[node] = self._union(node, found)
        return {node: sets.get(node, NONE) for node in to}

    def _leading_to(self, to: Sequence[Node]) -> set[Node]:
        """The arrays from which one of these can be reached."""
        useful = set(to)
        if self._direction == BACKWARD:
            for node in self._workflow.nodes:
                if any(below in useful for below in node.inputs):
                    useful.add(node)
        else:
            for node in reversed(self._workflow.nodes):
                if node in useful:
                    useful.update(node.inputs)
        return useful

    def legs(self, start: Node, to: Node, path: Any) -> tuple[Leg, ...]:
        """One way: operators in the order walked, each a node or (node, i)."""
        ways = [self._part(part) for part in _listed(path)]
        if not ways:
            if start is to:
                return ()
            raise ArrayError(f"The path from {start.name} to {to.name} is empty: name the operators on it.")
        backward = self._direction == BACKWARD
        if backward and ways[0][0] is not start:
            raise ArrayError(
                f"The path begins with {ways[0][0].name}, but {start.name} is asked: backward, a path begins with the "
                "array that is asked about."
            )
        if not backward and ways[-1][0] is not to:
            raise ArrayError(
                f"The path ends with {ways[-1][0].name}, not with {to.name}: forward, a path ends with the array that "
                "it leads to."
            )
        legs = []
        before = start
        for place, (node, i) in enumerate(ways):
            beside = (ways[place + 1][0] if place + 1 < len(ways) else to) if backward else before
            legs.append(Leg(node, self._places(place, node, i, beside), beside if backward else node))
            before = node
        return tuple(legs)

    def along(self, cells: Numbers, steps: Iterable[Leg | Jump], asking: Asking) -> Numbers:
        for step in steps:
            if isinstance(step, Jump):
                cells = step.take(cells) if len(cells) < step.most else self.along(cells, step.legs, asking)
            else:
                cells = self._union(step.to, [self._walk(step.node, cells, i, asking) for i in step.inputs])
        return cells

    def _places(self, place: int, node: Node, i: int | None, beside: Node) -> tuple[int, ...]:
        """The inputs of `node` that this step of the path goes through."""
        stands = tuple(k for k, below in enumerate(node.inputs) if below is beside)
        if i is not None and i not in range(len(node.inputs)):
            raise ArrayError(
                f"Step {place + 1} of the path goes through input {i} of {node.name}, whose inputs are "
                f"{_numbered(node)}."
            )
        if not stands or (i is not None and i not in stands):
            through = f"input {i} of {node.name}" if i is not None else node.name
            raise ArrayError(
                f"The path breaks at step {place + 1}: {beside.name} does not stand at {through}, whose inputs are "
                f"{_numbered(node)}."
            )
        return stands if i is None else (i,)

    def _part(self, part: Any) -> tuple[Node, int | None]:
        i: int | None = None
        if isinstance(part, tuple) and len(part) == 2 and isinstance(part[1], (int, np.integer)):
            part, i = part[0], int(part[1])
        node = self._workflow.find(part)
        if node.operator is None:
            raise ArrayError(f"The path names {node.name}, which is an input: a path is of operators.")
        return node, i

    def _walk(self, node: Node, cells: Numbers, i: int, asking: Asking) -> Numbers:
        found = self._step(node, self._direction, cells, i, asking)
        if found.widened is not None:
            self.notes[found.widened] = None
        if found.ended is not None:
            self.ended[found.ended] = None
        return found.cells

    def _union(self, node: Node, parts: list[Numbers]) -> Numbers:
        if len(parts) == 1:
            return parts[0]
        return unique(np.concatenate(parts), size_of(self._shape(node)))


def _listed(path: Any) -> list[Any]:
    if isinstance(path, (str, bytes)) or not hasattr(path, "__iter__"):
        raise TypeError(f"{path!r} is no path: give a list of operators, each a node or (node, i).")
    return list(path)


def _numbered(node: Node) -> str:
    return ", ".join(f"{i}: {below.name}" for i, below in enumerate(node.inputs)) or "none"
