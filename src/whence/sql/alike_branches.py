"""Branches of a union that differ in constants alone, as one query: Spark plans and runs each of a thousand branches by
itself, and a question would take as long as the query does, several times.

`source.where("day = 0") UNION ALL source.where("day = 1") UNION ALL ...` becomes

    source join parameters where day = parameter

as a thousand captured appends do (alike_writes.py), with the number of the branch in the place of the write's. Only a
question's own work is done so: the rows that are asked about are those of the user's own query."""

from __future__ import annotations

from dataclasses import replace

from whence.model import operators
from whence.spark.branches import alike_branches
from whence.sql.alike_writes import Lifting, goes_row_by_row
from whence.sql.catalyst import Catalyst, Plan
from whence.sql.sources import SCANS
from whence.sql.tree import Node, tree_of, with_below

# Of fewer branches each keeps its own place in the answer.
LEAST = 50
# What may stand above and beside them: it takes rows as they come, in any order.
_IN_ANY_ORDER = (
    *(*operators.LOOKED_THROUGH, *operators.PLACEMENT, *SCANS),
    *("Project", "Filter", "Sort", "Union", "Join", "Aggregate", "Distinct", "Deduplicate"),
)


def with_branches_merged(c: Catalyst, tree: Node) -> Node:
    """The tree of a query with such branches as one. What `tree.plan` gives, this one's gives in another order."""
    if not any(map(_is_wide, tree.walk())) or not all(_takes_any_order(c, node) for node in tree.walk()):
        return tree
    if c.has_user_functions(tree.plan) or not tree.plan.deterministic():
        return tree
    return _merged(c, tree, tree.plan)


def _is_wide(node: Node) -> bool:
    return node.kind == "Union" and sum(not branch.barren for branch in node.children) >= LEAST


def _takes_any_order(c: Catalyst, node: Node) -> bool:
    plain = not node.subqueries and node.fact is None and node.rows is None and not node.counts_others
    if not plain or node.kind not in _IN_ANY_ORDER:
        return False
    # Of the columns that it does not compare it shows those of any row.
    return node.kind != "Deduplicate" or len(c.items(node.plan.keys())) == len(c.output(node.plan))


def _merged(c: Catalyst, node: Node, query: Plan) -> Node:
    if _is_wide(node):
        return _union(c, node, query)
    return with_below(c, node, [_merged(c, child, query) for child in node.children], {})


def _union(c: Catalyst, union: Node, query: Plan) -> Node:
    at = [number for number, branch in enumerate(union.children) if not branch.barren]
    instead: dict[int, Plan] = {}
    gone: set[int] = set()
    for form, template in alike_branches(c, query, [union.children[number].plan for number in at], LEAST):
        bare = tree_of(c, template)
        plan = Lifting(c, form.parameters).lifted(bare) if goes_row_by_row(bare) else None
        if plan is not None:
            first, *others = [at[member] for member in form.members]
            own = c.output(union.children[first].plan)
            shown = c.output(plan)[: len(own)]
            instead[first] = c.project([c.alias_as(*pair) for pair in zip(shown, own, strict=True)], plan)
            gone.update(others)
    if not instead:
        return union
    branches = [
        tree_of(c, instead[number]) if number in instead else branch
        for number, branch in enumerate(union.children)
        if number not in gone
    ]
    if len(branches) > 1:
        return replace(union, plan=c.union([branch.plan for branch in branches]), children=branches)
    (only,) = branches
    pairs = zip(c.output(only.plan), c.output(union.plan), strict=True)
    return tree_of(c, c.project([c.alias_as(*pair) for pair in pairs], only.plan))
