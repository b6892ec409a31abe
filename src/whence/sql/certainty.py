"""Which operators may give other rows, or other values, the next time they are computed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from whence.model import operators
from whence.sql.catalyst import Catalyst, Expr, Plan, class_name
from whence.sql.tree import Node

_MOMENT = re.compile(r"\b(current_timestamp|current_date|current_time|localtimestamp|now)\(")

# Between a sample and what it reads these leave rows where they are; any other operator may change their order.
_IN_PLACE = (
    *("Project", "Filter", *operators.LOOKED_THROUGH, "Union", "Generate", "Expand", "Sample"),
    *("LogicalRelation", "LocalRelation", "LogicalRDD", "ExternalRDD", "Range", "HiveTableRelation", "OneRowRelation"),
)
_BY_POSITION = ("RowNumber", "NTile", "Lag", "Lead")
_RANKS = ("Rank", "DenseRank", "PercentRank", "CumeDist")
LOST_ORDER = (
    "Spark works out the subquery in the SELECT above this LIMIT below it, as a join after which the rows are in no "
    "order: it may keep, and show, other rows than ORDER BY says."
)
NUMBERED = "Rows are numbered here in the order in which they arrive."


def uncertain_expressions(c: Catalyst, node: Node) -> list[str]:
    found = c.nondeterministic(node.plan)
    if node.kind == "Aggregate":
        found += c.functions_of_any_row(node.plan)
    return found


# Operators that may come out otherwise whatever their expressions.
_BY_KIND = ("GlobalLimit", "Offset", "Sample", "Deduplicate", "Window", "AttachDistributedSequence")
_SUSPECT = re.compile(r"more fields|\b(first|last|any_value|first_value|last_value|current_\w+|localtimestamp|now)\(")


def certain(plan: Plan) -> bool:
    """Whether no expression of the whole query may come out otherwise: one look that spares one at each operator."""
    return bool(plan.deterministic()) and not _SUSPECT.search(plan.toString())


def may_be_uncertain(node: Node, expressions: bool) -> bool:
    return expressions or node.kind in _BY_KIND


def uncertain(c: Catalyst, node: Node, *, ties: bool = True) -> str | None:
    """Why the operator alone, on the same rows, may come out otherwise the next time; None if it may not.

    With ties: also what is certain only if no rows tie in an order or a key, which is not known beforehand, and what
    depends on the time of day, which is the same within one query."""
    for expression in uncertain_expressions(c, node):
        return f"{expression} may give another value each time it is computed."
    if node.kind in ("GlobalLimit", "Offset") and not _of_zero(node):
        if sort_below(limited(node)) is None:
            return f"{node.kind} without ORDER BY keeps whichever rows come first."
        if c.has_lost_order(node.plan):
            return LOST_ORDER
    if node.kind == "Sample" and (why := unsure_sample(c, node)) is not None:
        return why
    if node.kind == "AttachDistributedSequence":
        return NUMBERED
    if not ties:
        return None
    if _MOMENT.search(c.expressions_text(node.plan)):
        return "It tells the time at which the query runs."
    if node.kind == "Deduplicate" and len(c.items(node.plan.keys())) < len(c.output(node.plan)):
        return "dropDuplicates over some columns keeps whichever row of a group comes first."
    if node.kind == "Window" and any(by_position(c, alias.child()) for alias in c.items(node.plan.windowExpressions())):
        return "This window counts rows by their position, and rows that tie in its order may come in any order."
    return None


def _of_zero(node: Node) -> bool:
    """LIMIT 0 keeps no row and OFFSET 0 all of them, in whatever order they come."""
    count = node.plan.limitExpr() if node.kind == "GlobalLimit" else node.plan.offsetExpr()
    return int(count.eval(None)) == 0


def limited(node: Node) -> Node:
    """What stands below a limit, an offset, or both."""
    below = node
    while below.kind in ("GlobalLimit", "LocalLimit", "Offset"):
        below = below.children[0]
    return below


def sort_below(node: Node) -> Node | None:
    """The global sort that a limit above this node cuts, through what leaves rows in their order."""
    while node.kind == "Project" or node.kind in operators.LOOKED_THROUGH:
        node = node.children[0]
    return node if node.kind == "Sort" and node.plan.productElement(1) else None


def unsure_sample(c: Catalyst, node: Node) -> str | None:
    """Spark draws by seed, partition and position."""
    seed = c.fields(node.plan)["seed"]
    if c.is_a(seed, "scala.Option") and not seed.isDefined():
        return "A sample without a seed draws other rows each time."
    for below in _walk(node.children[0]):
        if below.kind not in _IN_PLACE:
            return f"A sample of what {below.kind} gives depends on the order in which rows arrive."
    return None


def _walk(node: Node) -> Iterator[Node]:
    if node.fact is not None and not node.fact.certain:
        return  # written down once, in files whose order does not change
    yield node
    for below in (*node.children, *node.subqueries.values()):
        yield from _walk(below)


def by_position(c: Catalyst, expression: Expr) -> bool:
    """Whether the order of rows with equal sort keys decides what a window function sees."""
    name = class_name(expression.windowFunction())
    if name in _BY_POSITION:
        return True
    frame = expression.windowSpec().frameSpecification()
    return name not in _RANKS and is_rows(frame) and not is_unbounded(frame)


def is_rows(frame: Expr) -> bool:
    return class_name(frame) == "SpecifiedWindowFrame" and class_name(frame.frameType()) == "RowFrame"


def is_unbounded(frame: Expr) -> bool:
    return class_name(frame.lower()) == "UnboundedPreceding" and class_name(frame.upper()) == "UnboundedFollowing"
