"""The normalised plan as a tree of Python nodes, so that every place in the query has an identity of its own.

One JVM node may stand at two places (an inlined CTE); a `Node` stands at one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from whence.model import WhenceError
from whence.spark.round_trips import open_tree
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
    # Of a node of the kind Given: which rows of its only child these are, by identity, and the name of their source.
    picked: Plan | None = None
    name: str | None = None
    # Whether it counts rows that are no witnesses of what it gives, so that on the witnesses alone it gives other rows.
    counts_others: bool = False
    # Of a branch of a union: no row of it can be among those that are asked about (barren.py).
    barren: bool = False
    # Of a reading: the rows that are to stand for the whole of it, computed, with their identities behind them.
    rows: Plan | None = None

    def walk(self) -> Iterator[Node]:
        yield self
        for below in (*self.children, *self.subqueries.values()):
            yield from below.walk()

    @property
    def text(self) -> str:
        text: str = self.plan.simpleString(25)
        return text.strip()


# What the marks of such rows begin with.
GIVEN = "whence_given_"


@dataclass(frozen=True, eq=False)
class Given:
    """Rows of an operator that a trace gave to the user: `ids` are the places of their identities in the plan below."""

    node: Node
    ids: Sequence[int]
    name: str | None

    def again(self, c: Catalyst, plan: Plan) -> Node:
        """`plan`: these rows, with their mark above them, in a query of the user's."""
        rows = plan.child().child()
        attrs = c.output(rows)
        picked = c.project([attrs[at] for at in self.ids], rows)
        return Node(plan, "Given", [_copied(self.node)], picked=picked, name=self.name)


def _copied(node: Node) -> Node:
    below = {key: _copied(sub) for key, sub in node.subqueries.items()}
    return replace(node, children=[_copied(child) for child in node.children], subqueries=below)


def tree_of(c: Catalyst, plan: Plan) -> Node:
    open_tree(plan)
    return _tree_of(c, plan)


def _tree_of(c: Catalyst, plan: Plan) -> Node:
    kind = class_name(plan)
    if kind == "Filter" and c.memory.given:
        text = str(plan.condition().toString())
        given = c.memory.given.get(text[1:].split(" ")[0]) if text.startswith(f"({GIVEN}") else None
        if isinstance(given, Given):
            return given.again(c, plan)
    below = _branches(c, plan) if kind == "Union" else c.children(plan)
    node = Node(plan, kind, [_tree_of(c, child) for child in below])
    for expression in c.subqueries(plan):
        key = id_of(expression)
        node.subqueries[key] = tree_of(c, expression.plan())
        node.subquery_kinds[key] = c.kind_of_subquery(expression)
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


def rebuild(c: Catalyst, node: Node, exchange: Callable[[Node], Plan | None]) -> Plan:
    """The plan of `node` with every node for which `exchange` gives a plan exchanged for it."""
    new = exchange(node)
    if new is not None:
        return new
    if node.kind in ("Settled", "Given"):
        below = rebuild(c, node.children[0], exchange)
        if below is node.children[0].plan:
            return node.plan
        if node.kind == "Settled":
            return below
        raise WhenceError(
            "This DataFrame is made of rows that a trace gave, which are known by their place in the source: it cannot "
            "be computed from some of the source's rows alone. Give the query that the trace was asked about instead."
        )
    plan = node.plan
    children = [rebuild(c, child, exchange) for child in node.children]
    if any(new is not old.plan for new, old in zip(children, node.children, strict=True)):
        plan = c.with_children(plan, children)
    plans = {key: rebuild(c, sub, exchange) for key, sub in node.subqueries.items()}
    changed = {key: new for key, new in plans.items() if new is not node.subqueries[key].plan}
    return c.replace_subqueries(plan, changed) if changed else plan


def with_below(c: Catalyst, node: Node, children: list[Node], subqueries: dict[int, Node]) -> Node:
    """The node above others than its own; `subqueries` by its own keys. A subquery with another plan is another
    expression, known by another key from then on."""
    plan = node.plan
    if any(new is not old for new, old in zip(children, node.children, strict=True)):
        plan = c.with_children(plan, [child.plan for child in children])
    changed = {key: new.plan for key, new in subqueries.items() if new is not node.subqueries[key]}
    if changed:
        plan = c.replace_subqueries(plan, changed)
    if plan is node.plan:
        return node
    keys = dict(zip(subqueries, map(id_of, c.subqueries(plan)) if changed else subqueries, strict=True))
    kinds = {keys[key]: kind for key, kind in node.subquery_kinds.items()}
    below = {keys[key]: new for key, new in subqueries.items()}
    return replace(node, plan=plan, children=children, subqueries=below, subquery_kinds=kinds)


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
