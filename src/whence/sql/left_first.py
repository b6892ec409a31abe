"""IN and EXISTS, asked about few rows: these rows first, then what they look for.

A semi or anti join keeps rows of its left side by what is on its right side. Of a report's one row the left side is
soon known, and few keys of it are a filter that Spark pushes into the scans on the right side; left to itself, Spark
would compute all of the right side, and sort it, to find the few. What the rows of a semi join find there are their
witnesses too: these are computed once, with the identities that they carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from whence.sql.blocks import Block, Lookup, Place
from whence.sql.catalyst import Catalyst, Expr, Kept, Plan, class_name, id_of
from whence.sql.rules.join import equalities
from whence.sql.selection import AS_IT_IS, all_of, choices, pinned
from whence.sql.tree import Node

# So many rows of the left side are computed first.
_ROWS = 1000
_ONE_SIDE = ("LeftSemi", "LeftAnti")


def left_first(
    c: Catalyst,
    block: Block,
    condition: Expr | None,
    places: Sequence[Place],
    find: Callable[[Lookup, Expr], Plan],
    also: AbstractSet[int] = frozenset(),
) -> Plan | None:
    """The rows of the block that meet the condition, with the identities that they carry, and of their own columns
    those in `also`; None where no semi or anti join stands at the top of the block, or many rows of its left side may
    be kept. `find`: gives the rows that a lookup finds among those that meet a condition, computed."""
    chain = list(_chain(block.node))
    joins = [node for node in chain if node.kind == "Join"]
    if not joins:
        return None
    below = joins[-1].children[0]
    left = next((place.annotated.plan for place in places if place.node is below), None)
    tests = choices(c, block.node, below, [] if condition is None else [condition], left=True)
    if left is None or tests is None or c.has_user_functions(block.annotated.plan):
        return None
    if _counts_rows(c, block.annotated.plan, left):
        return None
    if not any(pinned(part) for test in tests for part in all_of(c, test)):
        return None
    needed = {id_of(a) for a in block.annotated.attrs} | also
    needed |= {number for part in (*tests, *(node.plan for node in chain)) for number in c.references(part)}
    rows = _rows(c, left, tests, needed)
    if rows is None:
        return None
    matches = {id(link.node): link for link in block.annotated.links if isinstance(link, Lookup)}
    found = _exchanged(c, block.annotated.plan, left, rows, [matches.get(id(node)) for node in joins], find)
    return found if found is None or condition is None else c.filter(condition, found)


def _counts_rows(c: Catalyst, plan: Plan, left: Plan) -> bool:
    """Whether rows are numbered on the way from the left side up (rules/window.py): of some of them, they would get
    other numbers."""
    while not plan.fastEquals(left):
        below = c.children(plan)
        if class_name(plan) == "Window" or not below:
            return True
        plan = below[0]
    return False


def _chain(node: Node) -> Iterator[Node]:
    """From the top of a block down to its lowest semi or anti join, by operators that only choose and name."""
    passed: list[Node] = []
    while not node.subqueries and node.children:
        if node.kind == "Join" and str(node.plan.joinType().toString()) in _ONE_SIDE:
            yield from (*passed, node)
            passed = []
        elif node.kind in (*AS_IT_IS, "Filter", "Project"):
            passed.append(node)
        else:
            return
        node = node.children[0]


@dataclass(frozen=True, eq=False)
class _Left:
    """Rows of the left side under its own attributes, all of which are there; what nobody needs is NULL."""

    plan: Plan
    kept: Kept


def _rows(c: Catalyst, left: Plan, tests: Sequence[Expr], needed: set[int]) -> _Left | None:
    own = c.output(left)
    used = [a for a in own if id_of(a) in needed]
    if not used:
        return None
    kept = c.keep(c.limit_of_each(_ROWS + 1, c.project(used, c.filter(c.conjunction(tests), left))))
    if kept.total > _ROWS or not kept.local:
        return None
    columns = [a if id_of(a) in needed else c.alias_as(c.null(a), a) for a in own]
    return _Left(c.project(columns, kept.plan), kept)


def _exchanged(
    c: Catalyst,
    plan: Plan,
    left: Plan,
    rows: _Left,
    matches: Sequence[Lookup | None],
    find: Callable[[Lookup, Expr], Plan],
) -> Plan | None:
    """`plan` with the left side exchanged for the rows, and every right side on the way restricted to their keys.

    `matches`: for each join on the way, the topmost first, what looks up the rows that it finds on its right side."""
    if plan.fastEquals(left):
        return rows.plan
    sides = c.children(plan)
    joins = class_name(plan) == "Join"
    below = _exchanged(c, sides[0], left, rows, matches[joins:], find) if sides else None
    if below is None:
        return None
    if not joins:
        return c.with_children(plan, [below])
    return c.with_children(plan, [below, _wanted(c, plan, sides[1], rows, matches[0] if matches else None, find)])


def _wanted(
    c: Catalyst,
    join: Plan,
    right: Plan,
    rows: _Left,
    match: Lookup | None,
    find: Callable[[Lookup, Expr], Plan],
) -> Plan:
    """The right side without what none of the rows can match."""
    condition = join.condition()
    pairs = equalities(c, condition.get(), c.output(rows.kept.plan)) if condition.isDefined() else []
    if not pairs:
        return right
    told = c.project([c.alias(c.told(key), f"k{i}") for i, (key, _) in enumerate(pairs)], rows.kept.plan)
    values = c.frame(told).collect()
    hints = [c.one_of(expr, [row[i] for row in values]) for i, (_, expr) in enumerate(pairs)] if values else []
    known = [hint for hint in hints if hint is not None]
    if not known:
        return right
    return c.filter(c.conjunction(known), right) if match is None else find(match, c.conjunction(known))
