"""The normalised plan as a tree of Python nodes, so that every place in the query has an identity of its own.

One JVM node may stand at two places (an inlined CTE); a `Node` stands at one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from whence.sql.catalyst import Catalyst, Plan, class_name, id_of
from whence.sql.memory import Fact


@dataclass(eq=False)
class Node:
    plan: Plan
    kind: str
    children: list[Node]
    # Plans of the subquery expressions in this node, by expression id.
    subqueries: dict[int, Node] = field(default_factory=dict)
    subquery_kinds: dict[int, str] = field(default_factory=dict)
    # Of a node of the kind Settled: what is written down of its only child (facts.py).
    fact: Fact | None = None

    def walk(self) -> Iterator[Node]:
        yield self
        for below in (*self.children, *self.subqueries.values()):
            yield from below.walk()

    @property
    def text(self) -> str:
        text: str = self.plan.simpleString(25)
        return text.strip()


def tree_of(c: Catalyst, plan: Plan) -> Node:
    kind = class_name(plan)
    below = _branches(c, plan) if kind == "Union" else c.children(plan)
    node = Node(plan, kind, [tree_of(c, child) for child in below])
    for expression in c.subqueries(plan):
        key = id_of(expression)
        node.subqueries[key] = tree_of(c, expression.plan())
        node.subquery_kinds[key] = class_name(expression)
    return node


def _branches(c: Catalyst, union: Plan) -> list[Plan]:
    """The branches of a union of unions of ...: a long chain of UNION ALL is as deep as it is long."""
    found: list[Plan] = []
    waiting = [union]
    while waiting:
        plan = waiting.pop()
        if class_name(plan) == "Union":
            waiting += reversed(c.children(plan))
        else:
            found.append(plan)
    return found


def rebuild(c: Catalyst, node: Node, replace: Callable[[Node], Plan | None]) -> Plan:
    """The plan of `node` with every node for which `replace` gives a plan exchanged for it."""
    new = replace(node)
    if new is not None:
        return new
    if node.kind == "Settled":
        below = rebuild(c, node.children[0], replace)
        return node.plan if below is node.children[0].plan else below
    plan = node.plan
    children = [rebuild(c, child, replace) for child in node.children]
    if any(new is not old.plan for new, old in zip(children, node.children, strict=True)):
        plan = c.with_children(plan, children)
    plans = {key: rebuild(c, sub, replace) for key, sub in node.subqueries.items()}
    changed = {key: new for key, new in plans.items() if new is not node.subqueries[key].plan}
    return c.replace_subqueries(plan, changed) if changed else plan


def place_of(root: Node, target: Node) -> str:
    """The query as an indented tree with an arrow at the target."""
    lines: list[str] = []

    def show(node: Node, depth: int) -> None:
        mark = "-> " if node is target else "   "
        lines.append(f"{mark}{'  ' * depth}{node.text}")
        for below in (*node.subqueries.values(), *node.children):
            show(below, depth + 1)

    show(root, 0)
    return "\n".join(lines)
