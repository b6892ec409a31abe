"""Selections on group keys, pushed below the grouping.

`report.where("region = 'EU'")` asks for groups by their key, so the group's rows can be told directly: there is no need
to compute the groups first to know which of them were asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from whence.model import operators
from whence.sql.blocks import Block, Lookup
from whence.sql.catalyst import Attr, Catalyst, Expr, class_name, id_of
from whence.sql.tree import Node

AS_IT_IS = (*operators.LOOKED_THROUGH, "Sort")


def asked_by_key(c: Catalyst, block: Block, condition: Expr | None) -> tuple[Lookup, Expr | None] | None:
    """The grouping that the block's rows are the groups of, and what the asked groups' keys come to on its own rows.

    `condition` is what is asked of the block's rows. None when the block is not of that form. No condition: all rows
    are asked for."""
    node = next((n for n in _chain(block.node) if n.kind == "Aggregate"), None)
    conditions = None if node is None else choices(c, block.node, node, [] if condition is None else [condition])
    if node is None or conditions is None:
        return None
    (link, *others) = block.annotated.links
    if others or not isinstance(link, Lookup) or link.node is not node:
        return None
    if len(link.keys) > len(link.equalities):  # not all rows of a group are looked up
        return None
    keys = keys_of(c, node)
    if any(not c.references(condition) <= set(keys) for condition in conditions):
        return None
    if not conditions:
        return link, None
    if not keys:
        return None
    return link, c.conjunction([c.substitute(condition, keys) for condition in conditions])


def choices(
    c: Catalyst, above: Node, below: Node, conditions: Sequence[Expr], *, left: bool = False
) -> list[Expr] | None:
    """What rows of `below` must meet to be among those of `above` that meet the conditions: all tests in between as
    they are on the rows of `below`, the topmost first. None where there is more in between than choosing and naming.

    `left`: there may be joins in between that keep rows of their left side; what these ask for is no test."""
    found, node = list(conditions), above
    while node is not below:
        passed = (*AS_IT_IS, "Filter", "Project", *(["Join"] if left else []))
        if node.subqueries or node.kind not in passed:
            return None
        if node.kind == "Filter":
            found.append(node.plan.condition())
        elif node.kind == "Project":
            named = {id_of(e): _content(e) for e in c.items(node.plan.projectList())}
            found = [c.substitute(test, named) for test in found]
        node = node.children[0]
    return found


def _chain(node: Node) -> Iterator[Node]:
    yield node
    while node.kind != "Aggregate" and len(node.children) == 1:
        node = node.children[0]
        yield node


def gives_one_row(c: Catalyst, node: Node) -> bool:
    """Whether a query aggregates all that it reads into one row, and does no more than name what is in it."""
    while node.kind in (*AS_IT_IS, "Project") and not node.subqueries:
        node = node.children[0]
    return node.kind == "Aggregate" and not c.items(node.plan.groupingExpressions())


def is_one_group(c: Catalyst, link: Lookup, below: Expr | None) -> bool:
    """Whether the groups that `asked_by_key` found are one at most: `below` says what each of the keys is."""
    keys = c.items(link.node.plan.groupingExpressions())
    told = [side for test in all_of(c, below) for side in pinned(test)] if keys and below is not None else []
    return all(any(side.semanticEquals(key) for side in told) for key in keys)


def all_of(c: Catalyst, condition: Expr) -> list[Expr]:
    if class_name(condition) != "And":
        return [condition]
    return [test for side in (condition.left(), condition.right()) for test in all_of(c, side)]


def equalities(c: Catalyst, condition: Expr, keys: Sequence[Attr]) -> list[tuple[Attr, Expr]]:
    """The keys that the condition wants to equal something of the other side."""
    if class_name(condition) == "And":
        return [pair for part in c.children(condition) for pair in equalities(c, part, keys)]
    if class_name(condition) not in ("EqualTo", "EqualNullSafe"):
        return []
    by_id = {id_of(key): key for key in keys}
    one, other = c.children(condition)
    for key, expr in ((one, other), (other, one)):
        if class_name(key) == "AttributeReference" and id_of(key) in by_id and not c.references(expr) & set(by_id):
            return [(by_id[id_of(key)], expr)]
    return []


def pinned(test: Expr) -> list[Expr]:
    """What a test says to be one constant."""
    if class_name(test) not in ("EqualTo", "EqualNullSafe"):
        return []
    sides = (test.left(), test.right())
    return [one for one, other in (sides, sides[::-1]) if other.foldable()]


def keys_of(c: Catalyst, node: Node) -> dict[int, Expr]:
    """Output columns of a grouping that are its keys, by id, as expressions over its rows."""
    grouping = c.items(node.plan.groupingExpressions())
    return {
        id_of(e): _content(e)
        for e in c.items(node.plan.aggregateExpressions())
        if any(_content(e).semanticEquals(key) for key in grouping)
    }


def _content(named: Expr) -> Expr:
    return named.child() if class_name(named) == "Alias" else named
