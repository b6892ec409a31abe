"""A workflow is a graph of operators over arrays: what is to be run, before anything is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from whence.arrays.errors import ArrayError, UnknownNode
from whence.arrays.operator import Operator, label


class Node:
    """One array of a workflow: an input, or what an operator makes. Two nodes are equal when they are the same one."""

    __slots__ = ("__weakref__", "inputs", "name", "operator")

    def __init__(self, name: str, operator: Operator | None = None, inputs: tuple[Node, ...] = ()) -> None:
        self.name = name
        self.operator = operator
        self.inputs = inputs

    def __repr__(self) -> str:
        if self.operator is None:
            return f"<Node {self.name}: an input>"
        return f"<Node {self.name}: {label(self.operator)}({', '.join(node.name for node in self.inputs)})>"


class Workflow:
    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    @classmethod
    def of(cls, nodes: Iterable[Node]) -> Workflow:
        """The workflow of these nodes and all behind them, in an order in which they can run."""
        made = cls()
        waiting = [(node, False) for node in reversed(list(nodes))]
        while waiting:
            node, ready = waiting.pop()
            known = made._nodes.get(node.name)
            if known is node:
                continue
            if known is not None:
                raise ArrayError(f"Two arrays of one workflow are called {node.name!r}: give one another name.")
            if ready:
                made._nodes[node.name] = node
            else:
                waiting.append((node, True))
                waiting.extend((below, False) for below in reversed(node.inputs))
        return made

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All, in the order of adding: each after its inputs."""
        return tuple(self._nodes.values())

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(node for node in self._nodes.values() if node.operator is None)

    def input(self, name: str) -> Node:
        return self._put(Node(self._free(name)))

    def add(self, op: Operator, *inputs: Any, name: str | None = None) -> Node:
        """`op` over these nodes. A name is as good as a node."""
        if not isinstance(op, Operator):
            hint = ": give an instance, not the class" if isinstance(op, type) and issubclass(op, Operator) else ""
            raise TypeError(f"{op!r} cannot be added to a workflow: it is no whence.arrays.Operator{hint}.")
        read = tuple(self._mine(each) for each in inputs)
        return self._put(Node(self._numbered(label(op)) if name is None else self._free(name), op, read))

    def _mine(self, given: Any) -> Node:
        node = self[given]
        if isinstance(given, Node) and given is not node:
            raise UnknownNode(f"The array {given.name!r} is of another workflow, which has one of this name, too.")
        return node

    def __getitem__(self, node: Any) -> Node:
        return self.find(node)

    def find(self, asked: Any) -> Node:
        """The node of this name, this node itself, or that of a recorded array."""
        node = asked if isinstance(asked, (Node, str)) else getattr(asked, "whence_node", None)
        if isinstance(node, str):
            found = self._nodes.get(node)
            if found is None:
                raise UnknownNode(f"This workflow has no array {node!r}. It has {self._listed()}.")
            return found
        if not isinstance(node, Node):
            raise TypeError(f"{asked!r} names no array of a workflow: give a node or its name.")
        found = self._nodes.get(node.name)
        if found is None or (found is not node and not _alike(found, node)):
            raise UnknownNode(f"The array {node.name!r} is not of this workflow. This one has {self._listed()}.")
        return found

    def __repr__(self) -> str:
        return f"<Workflow of {len(self._nodes)} arrays: {self._listed()}>"

    def _listed(self) -> str:
        names = list(self._nodes)
        return (", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")) or "none yet"

    def _put(self, node: Node) -> Node:
        self._nodes[node.name] = node
        return node

    def _free(self, name: Any) -> str:
        if not isinstance(name, str) or not name:
            raise TypeError(f"{name!r} cannot name an array: a name is a text.")
        if name in self._nodes:
            raise ArrayError(f"This workflow has an array {name!r} already: give another name.")
        return name

    def _numbered(self, name: str) -> str:
        if name not in self._nodes:
            return name
        number = 2
        while f"{name}_{number}" in self._nodes:
            number += 1
        return f"{name}_{number}"


def _alike(found: Node, node: Node) -> bool:
    """Whether a node of another process, or of before a run was reopened, is this one."""
    return type(found.operator).__name__ == type(node.operator).__name__ and [below.name for below in found.inputs] == [
        below.name for below in node.inputs
    ]
