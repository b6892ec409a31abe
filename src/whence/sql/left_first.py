"""IN, EXISTS and subqueries that belong to a row, asked about few rows: these rows first, then what they look for.

A semi or anti join keeps rows of its left side by what is on its right side. Of a report's one row the left side is
soon known, and few keys of it are a filter that Spark pushes into the scans on the right side; left to itself, Spark
would compute all of the right side, and sort it, to find the few. What the rows of a semi join find there are their
witnesses too: these are computed once, with the identities that they carry. So are the rows that are gathered for the
left rows of an outer join with a grouping, which is what Spark makes of a subquery that belongs to a row. Where more
rows than a few are kept, their keys are sent to the right side as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pyspark.sql import functions as F

from whence.sql.blocks import Block, Lookup, Place
from whence.sql.catalyst import Catalyst, Expr, Kept, Plan, class_name, id_of
from whence.sql.computed_before import wide
from whence.sql.selection import AS_IT_IS, all_of, choices, equalities, keys_of, pinned
from whence.sql.tree import Node

# So many rows of the left side are computed first, and so many where their keys are sent to the other side.
_ROWS = 1000
_SENT = 100_000
_ONE_SIDE = ("LeftSemi", "LeftAnti")


def left_first(
    c: Catalyst,
    block: Block,
    condition: Expr | None,
    places: Sequence[Place],
    find: Callable[[Lookup, Expr, AbstractSet[int]], Plan],
    also: AbstractSet[int] = frozenset(),
) -> Plan | None:
    """The rows of the block that meet the condition, with the identities that they carry, and of their own columns
    those in `also`; None where no semi or anti join stands at the top of the block, or many rows of its left side may
    be kept. `find`: gives the rows that a lookup finds among those that meet a condition, computed, with the columns
    that are needed of them."""
    way = _way(c, block, places, [] if condition is None else [condition])
    if way is None or not any(_tells(part) for test in way.tests for part in all_of(c, test)):
        return None
    used = way.needed({id_of(a) for a in block.annotated.attrs} | also)
    if not used:
        return None
    kept = c.first(c.project(used, way.chosen), _ROWS)
    if kept is None:
        return None
    found = way.exchanged(kept, used, lambda join, right, link: _wanted(c, join, right, link, kept, find))
    return found if found is None or condition is None else c.filter(condition, found)


def all_left_first(c: Catalyst, block: Block, places: Sequence[Place], also: AbstractSet[int]) -> Plan | None:
    """The same of all rows of the block, where a semi join keeps some of what is read in one place, and these are few
    enough to send their keys to the other side. What they find there is kept as the rows of the block below."""
    way = _way(c, block, places, [])
    if way is None or not all(_is_one_side(join) for join in way.joins):
        return None
    looked = [link for link in block.annotated.links if isinstance(link, Lookup) and link.node in way.joins]
    # A join on the left may take as long as all the rest, and then be of too many rows.
    if not looked or any(node.kind == "Join" for node in way.joins[-1].children[0].walk()):
        return None
    used = way.needed({id_of(a) for a in block.annotated.attrs} | also)
    kept = wide(c, c.project(used, way.chosen), most=_SENT) if used else None
    if kept is None:
        return None
    return way.exchanged(kept, used, lambda join, right, link: _sent(c, join, right, link, kept, way.chosen))


@dataclass(frozen=True, eq=False)
class _Way:
    """From the top of a block down to the left side of the lowest join on the way."""

    c: Catalyst
    block: Block
    nodes: Sequence[Node]
    left: Plan
    # What rows of the left side must meet to be kept, as far as that is about them alone.
    tests: Sequence[Expr]

    @property
    def joins(self) -> list[Node]:
        return [node for node in self.nodes if node.kind == "Join"]

    @property
    def chosen(self) -> Plan:
        return self.c.filter(self.c.conjunction(self.tests), self.left) if self.tests else self.left

    def needed(self, carried: AbstractSet[int]) -> list[Expr]:
        """The columns of the left side that are carried, or that stand in an operator on the way."""
        parts = (*self.tests, *(node.plan for node in self.nodes))
        wanted = carried | {number for part in parts for number in self.c.references(part)}
        return [a for a in self.c.output(self.left) if id_of(a) in wanted]

    def exchanged(
        self, kept: Kept, used: Sequence[Expr], restrict: Callable[[Plan, Plan, Lookup | None], Plan]
    ) -> Plan | None:
        """The block's plan with the left side exchanged for these rows of it, and every right side on the way for what
        `restrict` makes of it: it gets the join, its right side, and what looks up the rows that are found there."""
        c, known = self.c, {id_of(a) for a in used}
        # All attributes of the left side are there; what nobody needs is NULL.
        rows = c.project([a if id_of(a) in known else c.alias_as(c.null(a), a) for a in c.output(self.left)], kept.plan)
        links = {id(link.node): link for link in self.block.annotated.links if isinstance(link, Lookup)}
        looked = [links.get(id(join if _is_one_side(join) else _grouping(join))) for join in self.joins]

        def visit(plan: Plan, looked: Sequence[Lookup | None]) -> Plan | None:
            if plan.fastEquals(self.left):
                return rows
            sides = c.children(plan)
            joins = class_name(plan) == "Join"
            below = visit(sides[0], looked[joins:]) if sides else None
            if below is None:
                return None
            return c.with_children(plan, [below, restrict(plan, sides[1], looked[0])] if joins else [below])

        return visit(self.block.annotated.plan, looked)


def _way(c: Catalyst, block: Block, places: Sequence[Place], conditions: Sequence[Expr]) -> _Way | None:
    nodes = list(_chain(block.node))
    joins = [node for node in nodes if node.kind == "Join"]
    if not joins or c.has_user_functions(block.annotated.plan):
        return None
    below = joins[-1].children[0]
    left = next((place.annotated.plan for place in places if place.node is below), None)
    tests = choices(c, block.node, below, conditions, left=True)
    if left is None or tests is None or _counts_rows(c, block.annotated.plan, left):
        return None
    own = {id_of(a) for a in c.output(left)}
    return _Way(c, block, nodes, left, [test for test in tests if c.references(test) <= own])


def _tells(test: Expr) -> bool:
    """Whether a test says which values something has: few rows may meet it."""
    return class_name(test) == "In" or bool(pinned(test))


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
    """From the top of a block down to its lowest semi or anti join, or outer join with a grouping, by operators that
    only choose and name."""
    passed: list[Node] = []
    while not node.subqueries and node.children:
        if node.kind == "Join" and (_is_one_side(node) or _grouping(node) is not None):
            yield from (*passed, node)
            passed = []
        elif node.kind in (*AS_IT_IS, "Filter", "Project"):
            passed.append(node)
        else:
            return
        node = node.children[0]


def _is_one_side(join: Node) -> bool:
    return str(join.plan.joinType().toString()) in _ONE_SIDE


def _grouping(join: Node) -> Node | None:
    """The grouping that is the right side of an outer join."""
    if str(join.plan.joinType().toString()) != "LeftOuter":
        return None
    node = join.children[1]
    while node.kind in (*AS_IT_IS, "Project") and not node.subqueries:
        node = node.children[0]
    return node if node.kind == "Aggregate" and not node.subqueries else None


def _pairs(c: Catalyst, join: Plan, rows: Plan) -> list[tuple[Expr, Expr]]:
    """Columns of the rows on the left, and what they are to equal on the right."""
    condition = join.condition()
    return equalities(c, condition.get(), c.output(rows)) if condition.isDefined() else []


def _wanted(
    c: Catalyst,
    join: Plan,
    right: Plan,
    link: Lookup | None,
    kept: Kept,
    find: Callable[[Lookup, Expr, AbstractSet[int]], Plan],
) -> Plan:
    """The right side without what none of the rows can match."""
    pairs = _pairs(c, join, kept.plan)
    if not pairs:
        return right
    told = c.project([c.alias(c.told(key), f"k{i}") for i, (key, _) in enumerate(pairs)], kept.plan)
    values = c.rows(told)
    if not values:
        return right
    if link is None or link.node.kind == "Join":
        known = _hints(c, [expr for _, expr in pairs], values)
        if known is None:
            return right
        return c.filter(known, right) if link is None else find(link, known, c.references(link.condition))
    # A grouping: its keys, as the rows below it have them.
    keys = _keys_below(c, right, link)
    known = _hints(c, [keys.get(id_of(expr)) for _, expr in pairs], values) if link.stored is None else None
    if known is None:
        return right
    return c.exchanged(right, link.node.children[0].plan, find(link, known, c.references(link.node.plan)))


def _keys_below(c: Catalyst, plan: Plan, link: Lookup) -> dict[int, Expr]:
    """What the columns of the right side that are keys of its grouping are on the rows that it gathers."""
    keys = keys_of(c, link.node)
    renamed = []
    while class_name(plan) in (*AS_IT_IS, "Project"):
        renamed += c.items(plan.projectList()) if class_name(plan) == "Project" else []
        (plan,) = c.children(plan)
    for named in reversed(renamed):
        inner = named.child() if class_name(named) == "Alias" else named
        if class_name(inner) == "AttributeReference" and id_of(inner) in keys:
            keys[id_of(named)] = keys[id_of(inner)]
    return keys


def _hints(c: Catalyst, exprs: Sequence[Expr | None], rows: Sequence[Sequence[object]]) -> Expr | None:
    found = [c.one_of(expr, [row[i] for row in rows]) for i, expr in enumerate(exprs) if expr is not None]
    known = [hint for hint in found if hint is not None]
    return c.conjunction(known) if known else None


def _sent(c: Catalyst, join: Plan, right: Plan, link: Lookup | None, kept: Kept, left: Plan) -> Plan:
    """The right side without what none of the rows can match, whose keys are sent there. `left`: the query of them."""
    pairs = _pairs(c, join, kept.plan)
    if not pairs:
        return right
    plain = all(class_name(test) != "EqualNullSafe" for test in all_of(c, join.condition().get()))

    def matching(side: Plan, rows: Plan, *, send: bool = True) -> Plan:
        names = [c.alias(key, "whence_key") for key, _ in pairs]
        same = c.equal if plain else c.same  # Spark has a quicker table of keys that are not NULL
        tests = [same(expr, name.toAttribute()) for (_, expr), name in zip(pairs, names, strict=True)]
        keys = c.project(names, rows)
        keys = c.plan_of(F.broadcast(c.frame(keys))) if send else keys
        return c.join(side, keys, "leftsemi", c.conjunction(tests))

    if link is None:
        return matching(right, kept.plan)
    block = link.block
    needed = c.references(link.condition)
    carried = {id_of(a) for a in block.annotated.attrs}
    columns = [*block.annotated.attrs, *(a for a in c.output(right) if id_of(a) in needed - carried)]
    # How the next question knows them: by the query of the left side, not by its rows.
    named = c.project(columns, matching(block.annotated.plan, left, send=False))
    found = wide(c, named, lambda: c.project(columns, matching(block.annotated.plan, kept.plan)))
    if found is None:
        return matching(right, kept.plan)
    block.kept = found.plan
    return found.plan
