"""Exchanges operators of a query for what is written down of them, and writes down what must be.

What takes an operator's place in the user's own query is a union: the rows from the store, and the operator itself
below a condition that is never true. Spark's optimizer drops the second, so nothing is computed twice; but whoever
reads the analysed plan (the catalogue, a later trace) still sees what the user wrote.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from logging import getLogger

from whence.model.quiet import FACTS
from whence.sql import facts
from whence.sql.builder import Builder
from whence.sql.catalyst import Catalyst, Plan, class_name
from whence.sql.certainty import certain, may_be_uncertain, uncertain
from whence.sql.memory import Fact
from whence.sql.rules import RULES
from whence.sql.taps import Tap, tappable
from whence.sql.tree import Node, rebuild, with_below
from whence.sql.wavering import waverings

log = getLogger("whence.sql")

_KEEPS_ORDER = (
    *("Project", "Filter", "SubqueryAlias", "View", "ResolvedHint", "Sample", "Generate", "Settled"),
    *("GlobalLimit", "LocalLimit", "Offset"),
)


def settle(c: Catalyst, tree: Node, *, write: bool = False) -> Node:
    """The tree with a node `Settled` above every operator whose rows are written down.

    With write: what may come out otherwise the next time and is not yet written down, or would be computed from other
    sources by now, is written down now."""
    if not write and not c.memory.facts:
        return tree
    decide = frozenset(waverings(c, tree).decides) if write else frozenset()
    return _Settling(c, write, write and not certain(tree.plan), decide).settle(tree)


@dataclass(eq=False)
class _Settling:
    c: Catalyst
    write: bool
    expressions: bool
    # Operators whose values decide about rows above them and may be others the next time.
    decide: frozenset[Node]
    # How many operators were written down anew: what stands above one of them is too.
    anew: int = 0

    def settle(self, node: Node) -> Node:
        if node.kind == "Given":  # by a trace, whose tree was settled
            return node
        c, before = self.c, self.anew
        children = [self.settle(child) for child in node.children]
        subqueries = {key: self.settle(below) for key, below in node.subqueries.items()}
        new = with_below(c, node, children, subqueries)
        if not node.children and not node.subqueries:
            return new
        fact = facts.known(c, node.kind, node.plan)
        if fact is not None:
            usable = self.anew == before and facts.holds(c, fact) if self.write else facts.require_whole(c, fact)
            fact = fact if usable else None
        if fact is None and self.write and (node in self.decide or self._is_uncertain(node, new)):
            fact = facts.new(c, node.plan, below=facts_below(new), ordered=_is_ordered(new))
            write_down(c, new, fact)
            self.anew += 1
        return new if fact is None else facts.settled(c, new, fact)

    def _is_uncertain(self, node: Node, new: Node) -> bool:
        return may_be_uncertain(node, self.expressions) and uncertain(self.c, new) is not None


def _is_ordered(node: Node) -> bool:
    """Whether the operator's rows come in the order of a sort below it."""
    while node.kind in _KEEPS_ORDER:
        node = node.children[0]
    return node.kind == "Sort"


def facts_below(node: Node) -> frozenset[str]:
    return frozenset(below.fact.name for below in node.walk() if below.fact is not None and not below.fact.certain)


def facts_in(tree: Node) -> list[Fact]:
    return [node.fact for node in tree.walk() if node.fact is not None]


class Failed(Exception):
    """The rows of an operator could not be written down."""

    def __init__(self, node: Node, problem: Exception) -> None:
        super().__init__(str(problem))
        self.node = node
        self.problem = problem


def write_down(c: Catalyst, node: Node, fact: Fact, tap: Tap | None = None) -> None:
    try:
        pending = facts.settled(c, node, fact)
        with c.quietly(first=True):
            Builder(c, pending, RULES, compute=True, tap=tap).block(pending, ordered=fact.ordered)
        fact.later = partial(_finish, c, fact, tap)
        if fact.durable:
            facts.complete(c, fact)
    except Exception as problem:
        with suppress(Exception):
            c.remove(fact.folder)
        raise Failed(node, problem) from problem
    facts.remember(c, fact)


def _finish(c: Catalyst, fact: Fact, tap: Tap | None) -> None:
    try:
        if tap is not None:
            tap.finish()
        facts.finish(c, fact)
    except Exception as problem:
        if fact.durable:
            raise
        fact.tapped = None
        log.warning("whence did not store the lineage of an aggregate; it will be worked out when asked: %s", problem)


def tap_aggregate(c: Catalyst, tree: Node, durable: bool) -> Node:
    """The tree with its topmost aggregate written down, and the lineage of each of its groups with it.

    As it is where a tap cannot stand there."""
    target = tappable(c, tree)
    if target is None:
        return tree
    fact = facts.known(c, target.kind, target.plan)
    if fact is None or (durable and not fact.durable) or not facts.holds(c, fact):
        fact = facts.new(c, target.plan, below=facts_below(target), certain=True, durable=durable)
        write_down(c, target, fact, Tap(c, fact))
    return _exchanged(c, tree, target, facts.settled(c, target, fact))


def _exchanged(c: Catalyst, node: Node, old: Node, new: Node) -> Node:
    if node is old:
        return new
    children = [_exchanged(c, child, old, new) for child in node.children]
    return with_below(c, node, children, node.subqueries)


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
    folder = _folder_of(c, scan) if class_name(dropped) == "Filter" else None
    if folder is None:
        return None
    pairs = zip(c.items(never.projectList()), c.output(plan), strict=True)
    columns = [(alias.child(), attr) for alias, attr in pairs]
    shown = [c.alias_as(old, new) for old, new in columns]
    return c.project(shown, facts.bound(c, folder, dropped.child()))


def _folder_of(c: Catalyst, scan: Plan) -> str | None:
    """Where that is kept which this scan reads; empty if in Spark's cache, None if it is not of a fact."""
    kind = class_name(scan)
    if kind == "InMemoryRelation":
        return "" if facts.is_kept(c, scan) else None
    if kind == "Union":
        return _folder_of(c, c.children(scan)[0])
    if not c.is_file_scan(scan):
        return None
    found = [root.partition(f"/{FACTS}/") for root in c.roots(scan)]
    if not all(middle for _, middle, _ in found):
        return None
    return f"{c.memory.folder}/{FACTS}/{found[0][2].split('/', 1)[0]}"
