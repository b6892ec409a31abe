"""Captured writes whose queries differ in constants alone, as one query: a thousand appends by one program are one plan
over a table of what each of them had in the place of the constants.

`source.where("day = 7").groupBy("shop").sum()`, appended for every day, becomes

    aggregate by shop, write and parameter of (source join parameters where day = parameter)

That is done where a query has one source and its operators take each row, or each group, for itself: then a row of the
one query, with the number of its write, is a row of that write's own query, and it comes from the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.model import operators
from whence.spark.alike import alike
from whence.sql.catalyst import Catalyst, Plan, id_of
from whence.sql.sources import PARAMETERS
from whence.sql.tree import Node, tree_of

# Operators with one input, each row of which comes from one row or one group, whatever the other rows are.
_GROUPING = ("Aggregate", "Distinct", "Deduplicate")
_CHAIN = (*operators.NAMES_ONLY, *operators.PLACEMENT, "Project", "Filter", "Sort", *_GROUPING)


@dataclass(frozen=True, eq=False)
class Merged:
    """`members`: the writes that this is the query of. `told`: what is told of each of them. `width`: how many of its
    columns are theirs; behind these are those of the table."""

    members: Sequence[int]
    plan: Plan
    told: Mapping[str, Any]
    width: int


def merged(
    c: Catalyst,
    told: Sequence[Mapping[str, Any]],
    content: Callable[[int], bytes],
    again: Callable[[Node, Mapping[str, Any]], Plan],
    least: int,
) -> list[Merged]:
    """Of captured writes those that are `least` of one kind. `content`: the query of a write as bytes; `again`: a
    query out of the store, reading what it read then."""
    by_kind: dict[str, list[int]] = {}
    for number, one in enumerate(told):
        if (kind := _kind(c, one)) is not None:
            by_kind.setdefault(kind, []).append(number)
    found: list[Merged] = []
    for numbers in by_kind.values():
        if len(numbers) < least:
            continue
        for form in alike(c, [content(number) for number in numbers], least):
            bare = tree_of(c, form.template)
            if not _is_chain(bare):
                continue
            first = {**told[numbers[form.members[0]]], "facts": []}
            plan = _Lifting(c, form.parameters).lifted(tree_of(c, again(bare, first)))
            if plan is not None:
                width = len(c.output(form.template))
                found.append(Merged([numbers[member] for member in form.members], plan, first, width))
    return found


def _kind(c: Catalyst, told: Mapping[str, Any]) -> str | None:
    """Equal for writes of which the same is known but for their files and constants; None of one that stands alone."""
    if told["plan"] is None or told["spark"] != c.spark.version or len(told["leaves"]) != 1:
        return None
    if told["leaves"][0]["kind"] not in ("files", "version") or not all(certain for _, _, certain in told["facts"]):
        return None
    steps = {step.partition("=")[0] for path, *_ in told["files"] for step in path.split("/")[:-1] if "=" in step}
    rest = {key: value for key, value in told.items() if key not in ("files", "plan", "facts")}
    return json.dumps([rest, sorted(steps)], sort_keys=True)


def _is_chain(node: Node) -> bool:
    """Whether each operator has one input, and goes on row by row or group by group."""
    while node.children:
        if node.subqueries or node.kind not in _CHAIN:
            return False
        (node,) = node.children
    return not node.subqueries


class _NotLifted(Exception):
    """The parameters cannot be handed up through an operator."""


class _Lifting:
    """Puts the table of parameters into a query, as far down as they are needed, and hands its columns up."""

    def __init__(self, c: Catalyst, table: Plan) -> None:
        self._c = c
        self._table = table
        self._carried = c.output(table)
        self._needed = {id_of(a) for a in self._carried[1:]}

    def lifted(self, tree: Node) -> Plan | None:
        try:
            plan, carries = self._visit(tree)
        except _NotLifted:
            return None
        return plan if carries else self._joined(plan)

    def _joined(self, plan: Plan) -> Plan:
        return self._c.join(plan, self._c.subquery_alias(PARAMETERS, self._table), "inner", None)

    def _visit(self, node: Node) -> tuple[Plan, bool]:
        """The query of a node, and whether its rows have the columns of the table behind their own."""
        c = self._c
        if len(node.children) != 1 or node.kind not in _CHAIN:  # what the query reads
            return node.plan, False
        below, carries = self._visit(node.children[0])
        if not carries and c.references(node.plan) & self._needed:
            below, carries = self._joined(below), True
        if not carries:
            return node.plan, False
        if node.kind in operators.NAMES_ONLY:
            return below, True
        if node.kind == "Project":
            return c.project([*c.items(node.plan.projectList()), *self._carried], below), True
        if node.kind == "Aggregate":
            return self._grouped(node, below), True
        if node.kind == "Deduplicate":
            return self._without_duplicates(node, below), True
        return c.with_children(node.plan, [below]), True  # the table's columns are some more that tell rows apart

    def _without_duplicates(self, node: Node, below: Plan) -> Plan:
        """Of each write those of its own rows that are equal in all columns."""
        c = self._c
        keys = c.items(node.plan.keys())
        if {id_of(key) for key in keys} != {id_of(a) for a in c.output(node.plan)}:  # of the other columns any is shown
            raise _NotLifted
        return c.with_children(c.copy(node.plan, keys=c.seq([*keys, *self._carried])), [below])

    def _grouped(self, node: Node, below: Plan) -> Plan:
        c = self._c
        keys, outputs = c.items(node.plan.groupingExpressions()), c.items(node.plan.aggregateExpressions())
        if not keys:  # which gives a row of nothing, too
            raise _NotLifted
        plan = c.copy(
            node.plan,
            groupingExpressions=c.seq([*keys, *self._carried]),
            aggregateExpressions=c.seq([*outputs, *self._carried]),
        )
        return c.with_children(plan, [below])
