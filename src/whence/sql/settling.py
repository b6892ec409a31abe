"""Exchanges operators of a query for what is written down of them, and writes down what must be.

What takes an operator's place in the user's own query is a union: the rows from the store, and the operator itself
below a condition that is never true. Spark's optimizer drops the second, so nothing is computed twice; but whoever
reads the analysed plan (the catalogue, a later trace) still sees what the user wrote.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from whence.model.quiet import FACTS
from whence.sql import facts
from whence.sql.builder import Builder
from whence.sql.catalyst import Catalyst, Plan, class_name
from whence.sql.certainty import certain, may_be_uncertain, uncertain
from whence.sql.memory import Fact
from whence.sql.rules import RULES
from whence.sql.taps import Tap, tappable
from whence.sql.tree import Node, rebuild


def settle(c: Catalyst, tree: Node, *, write: bool = False) -> Node:
    """The tree with a node `Settled` above every operator whose rows are written down.

    With write: what may come out otherwise the next time and is not yet written down, is now."""
    if not write and not c.memory.facts:
        return tree
    return _settle(c, tree, write, write and not certain(tree.plan))


def _settle(c: Catalyst, node: Node, write: bool, expressions: bool) -> Node:
    if node.kind == "Given":  # by a trace, whose tree was settled
        return node
    children = [_settle(c, child, write, expressions) for child in node.children]
    subqueries = {key: _settle(c, below, write, expressions) for key, below in node.subqueries.items()}
    new = node
    if any(one is not other for one, other in zip(children, node.children, strict=True)) or any(
        subqueries[key] is not node.subqueries[key] for key in subqueries
    ):
        new = replace(node, plan=_with_new(c, node, children, subqueries), children=children, subqueries=subqueries)
    if not node.children and not node.subqueries:
        return new
    fact = facts.known(c, node.kind, node.plan)
    if fact is None and write and may_be_uncertain(node, expressions) and uncertain(c, new) is not None:
        fact = facts.new(c, node.plan)
        write_down(c, new, fact)
    return new if fact is None else facts.settled(c, new, fact)


def write_down(c: Catalyst, node: Node, fact: Fact, tap: Tap | None = None) -> None:
    pending = facts.settled(c, node, fact)
    with c.quietly(first=True):
        Builder(c, pending, RULES, compute=True, tap=tap).block(pending)
    fact.later = partial(_finish, c, fact, tap)
    facts.remember(c, fact)
    if fact.durable:
        facts.complete(c, fact)


def _finish(c: Catalyst, fact: Fact, tap: Tap | None) -> None:
    if tap is not None:
        tap.finish()
    facts.finish(c, fact)


def tap_aggregate(c: Catalyst, tree: Node, durable: bool) -> Node:
    """The tree with its topmost aggregate written down, and the lineage of each of its groups with it.

    As it is where a tap cannot stand there."""
    target = tappable(c, tree)
    if target is None:
        return tree
    fact = facts.known(c, target.kind, target.plan)
    if fact is None or (durable and not fact.durable):
        fact = facts.new(c, target.plan, certain=True, durable=durable)
        write_down(c, target, fact, Tap(c, fact))
    return _exchanged(c, tree, target, facts.settled(c, target, fact))


def _exchanged(c: Catalyst, node: Node, old: Node, new: Node) -> Node:
    if node is old:
        return new
    children = [_exchanged(c, child, old, new) for child in node.children]
    if all(one is other for one, other in zip(children, node.children, strict=True)):
        return node
    return replace(node, plan=_with_new(c, node, children, node.subqueries), children=children)


def _with_new(c: Catalyst, node: Node, children: list[Node], subqueries: dict[int, Node]) -> Plan:
    plan = node.plan
    if any(one is not other for one, other in zip(children, node.children, strict=True)):
        plan = c.with_children(plan, [child.plan for child in children])
    changed = {key: new.plan for key, new in subqueries.items() if new is not node.subqueries[key]}
    return c.replace_subqueries(plan, changed) if changed else plan


def for_the_user(c: Catalyst, tree: Node) -> Plan:
    """The user's query, computed from what is written down."""

    def replaced(node: Node) -> Plan | None:
        if node.kind == "Given":
            return node.plan
        if node.fact is None:
            return None
        return in_place_of(c, node.fact.operator, node.plan)

    return rebuild(c, tree, replaced)


def in_place_of(c: Catalyst, operator: Plan, rows: Plan) -> Plan:
    """The rows from the store where `operator` stood, under the same attributes."""
    fresh = [c.alias(a, a.name()) for a in c.output(operator)]
    return c.union([rows, c.project(fresh, c.filter(c.parse("false"), operator))])


def original(c: Catalyst, plan: Plan) -> Plan | None:
    """The operator that the user wrote, if `plan` is what took its place."""
    if class_name(plan) != "Union" or plan.children().size() != 2:
        return None
    rows, never = c.children(plan)
    if class_name(rows) != "Project" or class_name(never) != "Project":
        return None
    scan, dropped = rows.child(), never.child()
    if class_name(dropped) != "Filter" or not _is_ours(c, scan):
        return None
    pairs = zip(c.items(never.projectList()), c.output(plan), strict=True)
    return c.project([c.alias_as(alias.child(), attr) for alias, attr in pairs], dropped.child())


def _is_ours(c: Catalyst, scan: Plan) -> bool:
    if class_name(scan) == "InMemoryRelation":
        return facts.is_kept(c, scan)
    return c.is_file_scan(scan) and any(f"/{FACTS}/" in root for root in c.roots(scan))
