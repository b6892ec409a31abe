"""Many parts of the witnesses, tested by one job: the query with one more column, which tells the test.

Only a query whose operators keep rows of several tests apart is run so; a part that fails there is tried again alone
before it is believed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
# Single rows in all tests of one job.
MOST_TOGETHER = 100_000
_AS_THEY_ARE = ("Filter", "Sort", "Distinct")
_EVERY_ROW = ("Project", "Sort", "Window", *operators.LOOKED_THROUGH)
# Which side of a join may carry the piece.
_LEFT = ("Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti")
_RIGHT = ("Inner", "Cross", "RightOuter")

# Part of a reading's rows: first number, first position, count.
Run = tuple[int, int, int]


def piece_of(
    position: str, runs: Sequence[Run], ranges: Sequence[Range], parts: int, most_spans: int = _MOST_SPANS
) -> Column | None:
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
    if not spans or len(spans) > most_spans:
        return None
    index = F.lit(None).cast("bigint")
    for first_position, last_position, at in spans:
        there = F.col(position).between(first_position, last_position)
        index = F.when(there, F.col(position) - first_position + at).otherwise(index)
    return F.floor(((index + 1) * parts - 1) / F.lit(total)).cast("int")


def tests_of(position: str, runs: Sequence[Run], ranges: Sequence[Range], subsets: Sequence[Sequence[Range]]) -> Column:
    """In which tests the row at a position is, one row for each: a row may be in many. `subsets` are parts of the
    ranges, which hold few rows."""
    numbers = [n for low, high in ranges for n in range(low, high)]
    tests: dict[int, list[int]] = {n: [] for n in numbers}
    for test, subset in enumerate(subsets):
        for low, high in subset:
            for n in range(low, high):
                tests[n].append(test)
    index = piece_of(position, runs, ranges, len(numbers), most_spans=len(numbers))
    assert index is not None
    known = F.from_json(F.lit(json.dumps([tests[n] for n in numbers])), "array<array<int>>")
    return F.explode(F.get(known, index))


@dataclass(frozen=True)
class Way:
    """From the rows of a reading up to the result, through operators that keep rows of several tests apart."""

    nodes: Sequence[tuple[Node, int]]  # from the result down, with the child that the way goes through
    leaf: Node
    # An aggregate without keys is on the way: it gives a row even of nothing.
    one_group: bool

    @classmethod
    def to(cls, tree: Node, leaf: Node) -> Way | None:
        """None where rows of several tests would not stay apart."""
        nodes: list[tuple[Node, int]] = []
        node, rows_stay, one_group = tree, True, False
        if not tree.plan.deterministic():
            return None
        while node is not leaf:
            carrying = [n for n, child in enumerate(node.children) if any(below is leaf for below in child.walk())]
            if len(carrying) != 1 or node.subqueries or not _keeps_apart(node, carrying[0]):
                return None
            if node.kind == "Aggregate" and not node.plan.groupingExpressions().size():
                if not rows_stay:  # whether nothing arrived, or what is above dropped the row, could not be told
                    return None
                one_group = True
            rows_stay = rows_stay and node.kind in _EVERY_ROW
            nodes.append((node, carrying[0]))
            node = node.children[carrying[0]]
        return cls(nodes, leaf, one_group)

    def plan(self, c: Catalyst, rows: Plan, test: Attr, exchange: Callable[[Node], Plan | None]) -> Plan:
        """The query's rows with the test that each belongs to behind them. `rows`: what is read at the leaf, with the
        test; `exchange`: what is read elsewhere."""
        found = rows
        for node, at in reversed(self.nodes):
            found = _carried(c, node, at, found, test, exchange)
        return c.project([*c.output(self.nodes[0][0].plan if self.nodes else self.leaf.plan), test], found)


def _keeps_apart(node: Node, at: int) -> bool:
    if node.kind == "Join":
        return class_name(node.plan.joinType()) in (_LEFT, _RIGHT)[at]
    return node.kind in (*_AS_THEY_ARE, *operators.LOOKED_THROUGH, "Project", "Aggregate", "Window")


def _carried(
    c: Catalyst, node: Node, at: int, below: Plan, test: Attr, exchange: Callable[[Node], Plan | None]
) -> Plan:
    if node.kind in operators.LOOKED_THROUGH:
        return below
    if node.kind == "Project":
        return c.project([*c.items(node.plan.projectList()), test], below)
    if node.kind == "Aggregate":
        keys = c.seq([*c.items(node.plan.groupingExpressions()), test])
        columns = c.seq([*c.items(node.plan.aggregateExpressions()), test])
        return c.with_children(c.copy(node.plan, groupingExpressions=keys, aggregateExpressions=columns), [below])
    if node.kind == "Window":
        parts = c.seq([*c.items(node.plan.partitionSpec()), test])
        return c.with_children(c.copy(node.plan, partitionSpec=parts), [below])
    if node.kind == "Join":
        other = rebuild(c, node.children[1 - at], exchange)
        return c.with_children(node.plan, [below, other] if at == 0 else [other, below])
    return c.with_children(node.plan, [below])
