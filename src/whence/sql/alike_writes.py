"""Captured writes whose queries differ in constants alone, as one query: a thousand appends by one program are one plan
over a table of what each of them had in the place of the constants.

`source.where("day = 7").groupBy("shop").sum()`, appended for every day, becomes

    aggregate by shop, write and parameter of (source join parameters where day = parameter)

That is done where its operators take each row, or each group, for itself, or join rows: then a row of the one query,
with the number of its write, is a row of that write's own query, and it comes from the same rows. A join is one of rows
of the same write, and an aggregate without keys has a row for each write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.model import operators
from whence.spark.alike import alike
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan, class_name, id_of
from whence.sql.sources import PARAMETERS
from whence.sql.tree import Node, tree_of

# Operators each row of which comes from one row, a row of each side, a group or a partition, whatever others there are.
_GROUPING = ("Aggregate", "Distinct", "Deduplicate")
_JOINS = ("Inner", "Cross", "LeftOuter", "RightOuter", "LeftSemi", "LeftAnti")
_CHAIN = (*operators.LOOKED_THROUGH, *operators.PLACEMENT, "Project", "Filter", "Sort", "Window", *_GROUPING)


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
            if not goes_row_by_row(bare):
                continue
            first = {**told[numbers[form.members[0]]], "facts": []}
            plan = Lifting(c, form.parameters).lifted(tree_of(c, again(bare, first)))
            if plan is not None:
                width = len(c.output(form.template))
                found.append(Merged([numbers[member] for member in form.members], plan, first, width))
    return found


def _kind(c: Catalyst, told: Mapping[str, Any]) -> str | None:
    """Equal for writes of which the same is known but for their files and constants; None of one that stands alone."""
    if told["plan"] is None or told["spark"] != c.spark.version:
        return None
    if any(leaf["kind"] not in ("files", "version") for leaf in told["leaves"]) or not all(
        certain for _, _, certain in told["facts"]
    ):
        return None
    steps = {step.partition("=")[0] for path, *_ in told["files"] for step in path.split("/")[:-1] if "=" in step}
    rest = {key: value for key, value in told.items() if key not in ("files", "plan", "facts")}
    return json.dumps([rest, sorted(steps)], sort_keys=True)


def goes_row_by_row(node: Node) -> bool:
    if node.subqueries or (node.children and node.kind not in (*_CHAIN, "Join")):
        return False
    return all(map(goes_row_by_row, node.children))


class _NotLifted(Exception):
    """The parameters cannot be handed up through an operator."""


class _Table:
    """A reading of the table of parameters. A query has one at each place that it reads, so that each row there is
    paired with the writes that it is for; `instead`: its columns in the place of those that the query speaks of."""

    def __init__(self, c: Catalyst, plan: Plan, spoken_of: Sequence[Attr] | None = None) -> None:
        self._c = c
        self.plan = plan
        self.columns = c.output(plan)
        self.instead: dict[int, Expr] = {}
        if spoken_of is not None:
            self.instead = {id_of(old): new for old, new in zip(spoken_of, self.columns, strict=True)}

    @property
    def write(self) -> Attr:
        """The number of the write."""
        return self.columns[0]

    @property
    def named(self) -> Plan:
        return self._c.subquery_alias(PARAMETERS, self.plan)

    def over(self, plan: Plan) -> Plan:
        """An operator whose own expressions speak of this reading."""
        if not self.instead or not self._c.references(plan) & self.instead.keys():
            return plan
        return self._c.exchange(plan, self._here)

    def _here(self, expr: Expr) -> Expr | None:
        return self.instead.get(id_of(expr)) if class_name(expr) == "AttributeReference" else None


class Lifting:
    """Puts the table of parameters into a query, as far down as they are needed, and hands its columns up.

    Below a join they are always needed: a row of one side may be a witness of one write and not of another, whatever
    it meets on the other side."""

    def __init__(self, c: Catalyst, table: Plan) -> None:
        self._c = c
        self._table = _Table(c, table)
        self._needed = {id_of(a) for a in self._table.columns[1:]}

    def lifted(self, tree: Node) -> Plan | None:
        try:
            return self._carrying(tree, self._table)
        except _NotLifted:
            return None

    def _copy(self) -> _Table:
        return _Table(self._c, self._table.plan.newInstance(), self._table.columns)

    def _paired(self, plan: Plan, table: _Table) -> Plan:
        return self._c.join(plan, table.named, "inner", None)

    def _carrying(self, node: Node, table: _Table) -> Plan:
        plan, carries = self._visit(node, table)
        return plan if carries else self._paired(plan, table)

    def _visit(self, node: Node, table: _Table) -> tuple[Plan, bool]:
        """The query of a node, and whether its rows have the columns of the table behind their own."""
        c = self._c
        if node.kind == "Join":
            return self._joined(node, table), True
        if len(node.children) != 1 or node.kind not in _CHAIN:  # what the query reads
            return node.plan, False
        if node.kind == "Aggregate" and not c.items(node.plan.groupingExpressions()):
            return self._in_one_group(node, table), True
        if node.kind == "Window":
            return self._within(node, table), True
        below, carries = self._visit(node.children[0], table)
        if not carries and c.references(node.plan) & self._needed:
            below, carries = self._paired(below, table), True
        if not carries:
            return node.plan, False
        plan = table.over(node.plan)
        if node.kind in operators.NAMES_ONLY:
            return below, True
        if node.kind == "Project":
            return c.project([*c.items(plan.projectList()), *table.columns], below), True
        if node.kind == "Aggregate":
            keys, outputs = c.items(plan.groupingExpressions()), c.items(plan.aggregateExpressions())
            return self._grouped(plan, keys, outputs, table, below), True
        if node.kind == "Deduplicate":
            return self._without_duplicates(node, table, below), True
        return c.with_children(plan, [below]), True  # the table's columns are some more that tell rows apart

    def _joined(self, node: Node, table: _Table) -> Plan:
        """Rows of both sides meet for each write. An outer join hands up what the side has that is always there."""
        c = self._c
        kind = str(node.plan.joinType().toString())
        if kind not in _JOINS:
            raise _NotLifted
        other = self._copy()
        left, right = (other, table) if kind == "RightOuter" else (table, other)
        sides = [self._carrying(side, one) for side, one in zip(node.children, (left, right), strict=True)]
        own = table.over(node.plan).condition()
        tests = [c.equal(left.write, right.write), *([own.get()] if own.isDefined() else [])]
        return c.copy(node.plan, left=sides[0], right=sides[1], condition=c.some(c.conjunction(tests)))

    def _within(self, node: Node, table: _Table) -> Plan:
        """A window's rows are those of the same write."""
        c = self._c
        below = self._carrying(node.children[0], table)
        plan = table.over(node.plan)

        def of_write(expr: Expr) -> Expr | None:
            if class_name(expr) != "WindowSpecDefinition":
                return None
            return c.copy(expr, partitionSpec=c.seq([*c.items(expr.partitionSpec()), table.write]))

        functions = [c.exchanged_in(function, of_write) for function in c.items(plan.windowExpressions())]
        partition = c.seq([*c.items(plan.partitionSpec()), table.write])
        return c.with_children(c.copy(plan, windowExpressions=c.seq(functions), partitionSpec=partition), [below])

    def _without_duplicates(self, node: Node, table: _Table, below: Plan) -> Plan:
        """Of each write those of its own rows that are equal in all columns."""
        c = self._c
        keys = c.items(node.plan.keys())
        if {id_of(key) for key in keys} != {id_of(a) for a in c.output(node.plan)}:  # of the other columns any is shown
            raise _NotLifted
        return c.with_children(c.copy(node.plan, keys=c.seq([*keys, *table.columns])), [below])

    def _grouped(self, plan: Plan, keys: Sequence[Expr], outputs: Sequence[Expr], table: _Table, below: Plan) -> Plan:
        c = self._c
        grouping = c.copy(
            plan,
            groupingExpressions=c.seq([*keys, *table.columns]),
            aggregateExpressions=c.seq([*outputs, *table.columns]),
        )
        return c.with_children(grouping, [below])

    def _in_one_group(self, node: Node, table: _Table) -> Plan:
        """Without keys a write has a row of nothing, too: so each write is there, with its rows or with none, and no
        function counts what is no row."""
        c = self._c
        if c.user_functions(node.plan):  # which take no FILTER
            raise _NotLifted
        rows = self._copy()
        below = c.join(
            self._carrying(node.children[0], rows), table.named, "rightouter", c.equal(rows.write, table.write)
        )

        def of_rows(expr: Expr) -> Expr | None:
            if class_name(expr) != "AggregateExpression":
                return None
            tests = [c.is_not_null(rows.write), *([expr.filter().get()] if expr.filter().isDefined() else [])]
            return c.copy(expr, filter=c.some(c.conjunction(tests)))

        plan = table.over(node.plan)
        outputs = [c.exchanged_in(output, of_rows) for output in c.items(plan.aggregateExpressions())]
        return self._grouped(plan, [], outputs, table, below)
