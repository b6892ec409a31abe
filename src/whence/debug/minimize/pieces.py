"""Many pieces of the witnesses, tested by one job: the query with one more column, which tells the piece.

Only a query whose operators keep rows of several pieces apart is run so; what it shows is tried again on the piece
alone before it is believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from whence.debug.minimize.ddmin import Range
from whence.model import operators
from whence.sql import Node, rebuild
from whence.sql.catalyst import Attr, Catalyst, Plan, class_name

PIECE = "whence_piece"
# Of one job.
MOST_PIECES = 2_000
MOST_ROWS = 100_000
_MOST_SPANS = 100
_AS_THEY_ARE = ("Filter", "Sort", "Distinct")
# Which side of a join may carry the piece.
_LEFT = ("Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti")
_RIGHT = ("Inner", "Cross", "RightOuter")

# Part of a reading's rows: first number, first position, count.
Run = tuple[int, int, int]


def piece_of(position: str, runs: Sequence[Run], ranges: Sequence[Range], parts: int) -> Column | None:
    """In which of so many pieces of these ranges (as ddmin cuts them) the row at a position is."""
    total = sum(high - low for low, high in ranges)
    spans: list[tuple[int, int, int]] = []
    before = 0
    for low, high in ranges:
        for first, start, count in runs:
            here, end = max(low, first), min(high, first + count)
            if here < end:
                spans.append((start + here - first, start + end - 1 - first, before + here - low))
        before += high - low
    if not spans or len(spans) > _MOST_SPANS:
        return None
    index = F.lit(None).cast("bigint")
    for first_position, last_position, at in spans:
        there = F.col(position).between(first_position, last_position)
        index = F.when(there, F.col(position) - first_position + at).otherwise(index)
    return F.floor(((index + 1) * parts - 1) / F.lit(total)).cast("int")


def by_piece(
    c: Catalyst, tree: Node, leaf: Node, rows: Plan, piece: Attr, exchange: Callable[[Node], Plan | None]
) -> Plan | None:
    """The query's rows with the piece that each came from behind them; None where pieces would not stay apart.

    `rows`: what is read at `leaf`, with the piece; `exchange`: what is read elsewhere."""
    found = _carried(c, tree, leaf, rows, piece, exchange)
    return None if found is None else c.project([*c.output(tree.plan), piece], found)


def _carried(
    c: Catalyst, node: Node, leaf: Node, rows: Plan, piece: Attr, exchange: Callable[[Node], Plan | None]
) -> Plan | None:
    if node is leaf:
        return rows
    carrying = [child for child in node.children if any(below is leaf for below in child.walk())]
    if len(carrying) != 1 or node.subqueries:
        return None
    below = _carried(c, carrying[0], leaf, rows, piece, exchange)
    if below is None or node.kind in operators.LOOKED_THROUGH:
        return below
    if node.kind in _AS_THEY_ARE:
        return c.with_children(node.plan, [below])
    if node.kind == "Project":
        return c.project([*c.items(node.plan.projectList()), piece], below)
    if node.kind == "Aggregate":
        keys = c.items(node.plan.groupingExpressions())
        if not keys:  # of nothing it still gives a row
            return None
        columns = [*c.items(node.plan.aggregateExpressions()), piece]
        grouped = c.copy(node.plan, groupingExpressions=c.seq([*keys, piece]), aggregateExpressions=c.seq(columns))
        return c.with_children(grouped, [below])
    if node.kind == "Join":
        side = node.children.index(carrying[0])
        if class_name(node.plan.joinType()) not in (_LEFT, _RIGHT)[side]:
            return None
        other = rebuild(c, node.children[1 - side], exchange)
        return c.with_children(node.plan, [below, other] if side == 0 else [other, below])
    return None
