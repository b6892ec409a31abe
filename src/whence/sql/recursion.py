"""Recursive queries (`WITH RECURSIVE`) as the union of their rounds.

Spark runs the recursive part on what the round before gave, until a round gives nothing. How many rounds that takes is
found by running it; then the same rows come from a union without recursion, whose branches hold each other, and every
rule there is knows those. The copies of the recursive part grow with the square of the rounds, so there is a limit.
"""

from __future__ import annotations

from whence.sql.catalyst import Catalyst, Plan
from whence.sql.certainty import certain
from whence.sql.plans import each
from whence.sql.sources import SCANS
from whence.sql.tree import Node, rebuild, tree_of

MOST_ROUNDS = 16
_LOOP, _REFERENCE = "UnionLoop", "UnionLoopRef"


def unrolled(c: Catalyst, tree: Node) -> Node:
    """The tree with each recursion exchanged for its rounds; one that cannot be is left, and its rule says why."""
    loops = [node for node in tree.walk() if node.kind == _LOOP]
    innermost = [node for node in loops if not any(other.kind == _LOOP for other in list(node.walk())[1:])]
    rounds = {node: _rounds(c, node) for node in innermost if _why_not(c, node) is None and reads_something(node)}
    found = {node: plan for node, plan in rounds.items() if plan is not None}
    return unrolled(c, tree_of(c, rebuild(c, tree, found.get))) if found else tree


def reads_something(node: Node) -> bool:
    return any(below.kind in SCANS for below in node.walk())


def why_not_unrolled(c: Catalyst, node: Node) -> str:
    return _why_not(c, node) or f"its recursion takes more than {MOST_ROUNDS} rounds"


def _why_not(c: Catalyst, node: Node) -> str | None:
    if any(below.kind == _REFERENCE and below.plan.accumulated() for below in node.walk()):
        return "each of its rounds looks at the rows of all rounds before it"
    if not certain(node.plan):
        return "its recursion may come out otherwise each time"
    return None


def _rounds(c: Catalyst, node: Node) -> Plan | None:
    anchor, recursion = node.children
    with c.quietly():
        count, found = 0, c.materialise(anchor.plan)
        while not found.isEmpty():
            count += 1
            if count > MOST_ROUNDS:
                return None
            # Under new ids: of a plan that gives an attribute of its own leaf anew (n + 1 AS n), Spark keeps the old.
            found = c.materialise(_after(c, tree_of(c, _copied(c, recursion)), c.plan_of(found)))
    branches = [_round(c, node, number) for number in range(max(count, 1))]
    named = [c.project([c.alias(a, a.name()) for a in c.output(branch)], branch) for branch in branches]
    united = named[0] if len(named) == 1 else c.union(named)
    return c.project(
        [c.alias_as(new, old) for new, old in zip(c.output(united), c.output(node.plan), strict=True)], united
    )


def _round(c: Catalyst, node: Node, number: int) -> Plan:
    """What a round gives, by a query of its own: its columns have ids that no other copy has."""
    anchor, recursion = node.children
    below = _copied(c, anchor)
    for _ in range(number):
        below = _after(c, tree_of(c, _copied(c, recursion)), below)
    return below


def _copied(c: Catalyst, node: Node) -> Plan:
    ids: dict[int, object] = {}
    return each(c, node, lambda plan: c.under_new_ids(plan, ids, every=True))


def _after(c: Catalyst, recursion: Node, before: Plan) -> Plan:
    """The recursive part over what the round before gave."""

    def given(node: Node) -> Plan | None:
        if node.kind != _REFERENCE:
            return None
        renamed = zip(c.output(before), c.output(node.plan), strict=True)
        return c.project([c.alias_as(there, here) for there, here in renamed], before)

    return rebuild(c, recursion, given)
