"""Operators of a plan: what each does to the columns that come through it. One rule per operator, in one table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from whence.model import operators
from whence.model.lineage import Seen
from whence.model.redact import parse_redacted
from whence.watch import sources
from whence.watch.columns import (
    AGGREGATION,
    CONDITIONAL,
    FILTER,
    GROUP_BY,
    IDENTITY,
    JOIN,
    NOTHING,
    SORT,
    TRANSFORMATION,
    WINDOW,
    Contribution,
    Contributions,
    Scope,
    struct_fields,
    through,
)
from whence.watch.sources import Place

Node = dict[str, Any]
Row = set[Contribution]
"""What decides about whole rows: it reaches every column above."""


MOST_SECONDS = 3.0


class TooLong(Exception):
    """A plan that takes longer than MOST_SECONDS to go through."""


class Reading:
    """One pass over one plan, from the leaves up."""

    def __init__(self, place: Place, seconds: float | None = None) -> None:
        """Going through the plan may take so long; MOST_SECONDS unless told."""
        self.place = place
        self.datasets: list[Seen] = []
        self._known: dict[tuple[str, str], int] = {}
        self.scope = Scope(self._subquery)
        self.gaps: Counter[str] = Counter()
        self.views: dict[int, tuple[set[int], list[tuple[str, Contributions]], Contributions]] = {}
        self._ctes: dict[int, tuple[list[Contributions], Row, list[dict[str, Contributions] | None]]] = {}
        self.read: set[int] = set()
        self.leaf_of: dict[int, tuple[int, ...]] = {}
        """The datasets of the leaf that an attribute comes from; the physical scan has the same attribute."""
        self.kept = False
        """Whether rows were read that had been computed and kept before."""
        self.own: set[int] = set()
        """The table that an UPDATE or MERGE changes, whose rows the plan reads and gives again."""
        self._gone_through: dict[int, Row] = {}
        self._deadline = time.monotonic() + (MOST_SECONDS if seconds is None else seconds)
        self.batch: tuple[dict[str, Contributions], Contributions, frozenset[int]] | None = None
        """In `foreachBatch`: what the columns of the batch are made of, and the datasets behind them."""

    def dataset(self, seen: Seen) -> int:
        key = (seen.namespace, seen.name)
        if key not in self._known:
            self._known[key] = len(self.datasets)
            self.datasets.append(seen)
        return self._known[key]

    def rows(self, node: Node) -> Row:
        """Go through this node and all below it; afterwards the scope knows its attributes.

        Plans are as deep as a loop of `withColumn` or joins is long, so what lies below is gone through in a loop too,
        from the leaves up, and waits in `_gone_through` for the rule of the node above to ask.
        """
        if id(node) in self._gone_through:
            return self._gone_through.pop(id(node))
        todo, below = [node], []
        while todo:
            next_node = todo.pop()
            below.append(next_node)
            if NODES.get(next_node["c"]) not in _OWN_ORDER:
                todo.extend(next_node.get("k") or ())
        for next_node in reversed(below[1:]):
            self._gone_through[id(next_node)] = self._one(next_node)
        return self._one(node)

    def _one(self, node: Node) -> Row:
        self._require_time()
        children = node.get("k")
        rule = NODES.get(node["c"])
        if not children and rule is None:
            return self._leaf(node)
        if rule is None:
            return self._unknown(node)
        return rule(self, node)

    def _require_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise TooLong

    def children(self, node: Node) -> Row:
        found: Row = set()
        for child in node.get("k", ()):
            found |= self.rows(child)
        return found

    def outputs(self, node: Node) -> list[tuple[str, Contributions]]:
        """Names and contributions of the columns that a plan gives, once it has been gone through."""
        return [(name, self.scope.attributes.get(number, NOTHING)) for number, name, _ in output(node)]

    def _leaf(self, node: Node) -> Row:
        if self.batch is not None and node["c"] == "LogicalRDD":
            columns, row, read = self.batch
            if all(name in columns for _, name, _ in node.get("out", ())):
                self.read.update(read)
                for number, name, _ in node.get("out", ()):
                    self.scope.attributes[number] = columns[name]
                return set(row)
        kept = self.place.checkpoints.get(_rdd(node).get("id", -1))
        if kept is not None:
            return self._checkpoint(node, parse_redacted(kept))
        found = sources.read(self.place, node)
        self.kept |= bool(_rdd(node).get("kept"))
        numbers = [self.dataset(seen) for seen in found.datasets]
        for frame in found.frames:
            numbers += self._behind(frame)
        if found.gap is not None:
            self.gaps[found.gap] += 1
        self.read.update(numbers)
        for number, name, _ in node.get("out", ()):
            self.leaf_of[number] = tuple(numbers)
            self.scope.attributes[number] = (
                frozenset((d, name, IDENTITY, False) for d in numbers) if found.columns else NOTHING
            )
        return set()

    def _checkpoint(self, node: Node, plan: Node) -> Row:
        """Rows that were kept: what they were computed from goes on to be behind them."""
        self.kept = True
        row = self.rows(plan)
        for (number, _, _), (_, contributions) in zip(node.get("out", ()), self.outputs(plan), strict=False):
            self.scope.attributes[number] = contributions
        return row

    def _behind(self, frame: str) -> list[int]:
        """The datasets behind a DataFrame that was turned into an RDD."""
        inner = Reading(self.place)
        inner._known, inner.datasets, inner.views = self._known, self.datasets, self.views
        inner.rows(parse_redacted(frame))
        self.gaps.update(inner.gaps)
        return sorted(inner.read)

    def _unknown(self, node: Node) -> Row:
        """Nothing is known of what it does: every column it gives may come from every column it gets."""
        self.gaps[node["c"]] += 1
        return _opaque(self, node)

    def _subquery(self, plan: Node, values: bool) -> Contributions:
        found: Row = set(self.rows(plan))
        for _, contributions in self.outputs(plan) if values else ():
            found |= contributions
        return frozenset(found)

    def define(self, expression: Any) -> None:
        """An expression with a name becomes an attribute."""
        if isinstance(expression, dict) and "id" in expression and expression["c"] == "Alias":
            self._require_time()
            self.scope.attributes[expression["id"]] = self._assigned(expression) or self.scope.of(expression)
            if expression["id"] in self.place.models:
                self._scored(expression["id"])
            fields = struct_fields(self.scope, expression["k"][0])
            if fields:
                self.scope.structs[expression["id"]] = fields

    def stays(self, value: Any, name: str) -> bool:
        """Whether this is the changed table's own column of this name."""
        found = self.scope.of(value) if isinstance(value, int) else NOTHING
        return bool(found) and all(d in self.own and c == name and t == IDENTITY for d, c, t, _ in found)

    def _assigned(self, expression: Any) -> Contributions | None:
        """An UPDATE gives every row: the new value where its condition holds, else the old one."""
        held = expression["k"][0]
        if not (
            self.own and isinstance(held, dict) and held["c"] == "If" and self.stays(held["k"][2], expression["n"])
        ):
            return None
        test, new, old = held["k"]
        if new == old:
            return self.scope.of(old)
        return self.scope.all([test], CONDITIONAL) | self.scope.of(new) | self.scope.of(old)

    def _scored(self, attribute: int) -> None:
        """A model made this column, so the model is behind it too."""
        model = self.dataset(self.place.models[attribute])
        self.read.add(model)
        self.scope.attributes[attribute] |= {(model, "model", TRANSFORMATION, False)}

    def cte(self, number: int, definition: Node, row: Row) -> None:
        attributes = [n for n, _, _ in output(definition)]
        self._ctes[number] = (
            [self.scope.attributes.get(n, NOTHING) for n in attributes],
            set(row),
            [self.scope.structs.get(n) for n in attributes],
        )

    def cte_reference(self, node: Node) -> Row:
        number = node["f"].get("cteId", node["f"].get("loopId"))
        columns, row, structs = self._ctes.get(number, ([], set(), []))
        for (attribute, _, _), contributions, fields in zip(node.get("out", ()), columns, structs, strict=False):
            self.scope.attributes[attribute] = contributions
            if fields:
                self.scope.structs[attribute] = fields
        return set(row)


def _rdd(node: Node) -> dict[str, Any]:
    held = node.get("f", {}).get("rdd")
    return held if isinstance(held, dict) else {}


def output(node: Node) -> list[Any]:
    found = node.get("o") or node.get("out") or []
    return list(found)


def _pass(r: Reading, node: Node) -> Row:
    return r.children(node)


def _project(r: Reading, node: Node) -> Row:
    row = r.children(node)
    for expression in node["f"].get("projectList", ()):
        r.define(expression)
    return row


def _filter(r: Reading, node: Node) -> Row:
    row = r.children(node)
    return row | r.scope.all([node["f"].get("condition")], FILTER)


def _join(r: Reading, node: Node) -> Row:
    row = r.children(node)
    return row | r.scope.all([node["f"].get("condition"), node["f"].get("asOfCondition")], JOIN)


def _lateral(r: Reading, node: Node) -> Row:
    row = r.children(node)
    right = node["f"].get("right") or {}
    if "p" in right:
        row |= r.rows(right["p"])
    return row | r.scope.all([node["f"].get("condition")], JOIN)


def _aggregate(r: Reading, node: Node) -> Row:
    row = r.children(node)
    row |= r.scope.all(node["f"].get("groupingExpressions", ()), GROUP_BY)
    for expression in node["f"].get("aggregateExpressions", ()):
        r.define(expression)
    return row


def _sort(r: Reading, node: Node) -> Row:
    row = r.children(node)
    return row | r.scope.all(node["f"].get("order", ()), SORT)


def _distinct(r: Reading, node: Node) -> Row:
    """Like a GROUP BY over the columns it compares."""
    row = r.children(node)
    keys = node["f"].get("keys")
    if keys is None:
        keys = [number for number, _, _ in output(node)]
    return row | r.scope.all(keys, GROUP_BY)


def _window(r: Reading, node: Node) -> Row:
    row = r.children(node)
    spec = [*node["f"].get("partitionSpec", ()), *node["f"].get("orderSpec", ())]
    for expression in node["f"].get("windowExpressions", ()):
        r.define(expression)
        if isinstance(expression, dict) and "id" in expression:
            r.scope.attributes[expression["id"]] |= r.scope.all(spec, WINDOW)
    return row


def _generate(r: Reading, node: Node) -> Row:
    row = r.children(node)
    made = r.scope.all([node["f"].get("generator")], TRANSFORMATION)
    for attribute in node["f"].get("generatorOutput", ()):
        if isinstance(attribute, int):
            r.scope.attributes[attribute] = made
    return row


def _numbered(r: Reading, node: Node) -> Row:
    """A number for each row, which comes from none of its columns."""
    row = r.children(node)
    number = node["f"].get("sequenceAttr")
    if isinstance(number, int):
        r.scope.attributes[number] = frozenset()
    return row


def _expand(r: Reading, node: Node) -> Row:
    """Several projections of each row (ROLLUP, CUBE, UNPIVOT): a column may come from any of them."""
    row = r.children(node)
    projections = node["f"].get("projections", ())
    gathered = [
        frozenset().union(*(r.scope.of(p[i]) for p in projections if i < len(p)))
        for i in range(len(node["f"].get("output", ())))
    ]
    for attribute, contributions in zip(node["f"].get("output", ()), gathered, strict=False):
        if isinstance(attribute, int):
            r.scope.attributes[attribute] = contributions
    return row


def _union(r: Reading, node: Node) -> Row:
    """By position. The result's attributes may be those of the first branch, so each branch is read off at once."""
    row: Row = set()
    columns: list[set[Contribution]] = []
    for child in node.get("k", ()):
        row |= r.rows(child)
        for place, (_, contributions) in enumerate(r.outputs(child)):
            if place == len(columns):
                columns.append(set())
            columns[place] |= contributions
        if node["c"] == "UnionLoop" and "id" in node["f"]:
            r.cte(node["f"]["id"], child, row)
        if node["c"] == "Except":
            break
    for (attribute, _, _), found in zip(output(node) or output(node["k"][0]), columns, strict=False):
        r.scope.attributes[attribute] = frozenset(found)
    if node["c"] == "Except":
        row |= r.rows(node["k"][1])
        row |= {c for _, found in r.outputs(node["k"][1]) for c in through(FILTER, found)}
        for (attribute, _, _), found in zip(output(node) or output(node["k"][0]), columns, strict=False):
            r.scope.attributes[attribute] = frozenset(found)
    if node["c"] in ("Intersect", "Except") and not node["f"].get("isAll"):
        row |= {c for found in columns for c in through(GROUP_BY, found)}
    return row


def _cte_definition(r: Reading, node: Node) -> Row:
    row = r.children(node)
    r.cte(node["f"]["id"], node["k"][0], row)
    return row


def _with_cte(r: Reading, node: Node) -> Row:
    *definitions, plan = node["k"]
    for definition in definitions:
        r.rows(definition)
    return r.rows(plan)


def _view(r: Reading, node: Node) -> Row:
    """A temporary view is looked through. Any other is a dataset, and what it is made of is told beside."""
    if node["f"].get("isTempView"):
        return r.children(node)
    inner = Reading(r.place)
    inner._known, inner.datasets, inner.views, inner.leaf_of = r._known, r.datasets, r.views, r.leaf_of
    row = inner.children(node)
    r.gaps.update(inner.gaps)
    r.scope.functions |= inner.scope.functions
    seen = sources.of_table(r.place, node["f"]["desc"], "view")
    names = [(name, kind) for _, name, kind in output(node)] or list(seen.columns)
    view = r.dataset(Seen(seen.namespace, seen.name, "view", tuple(names), seen.aliases))
    columns = [(name, found) for name, found in inner.outputs(node["k"][0])]
    r.views[view] = (set(inner.read), columns, frozenset(row))
    r.read.add(view)
    for number, name, _ in output(node):
        r.scope.attributes[number] = frozenset([(view, name, IDENTITY, False)])
    return set()


def _merge_rows(r: Reading, node: Node) -> Row:
    """MERGE over a V2 table: each instruction has a condition and then a value for every column."""
    row = r.children(node)
    attributes = [number for number, _, _ in output(node)]
    names = [name for _, name, _ in output(node)]
    columns: list[Contributions] = [NOTHING for _ in attributes]
    for name, instructions in node["f"].items():
        if not name.endswith("Instructions"):
            continue
        for instruction in instructions or ():
            condition, *values = instruction.get("k") or [None]
            decided = r.scope.all([condition], CONDITIONAL)
            for place, value in enumerate(values):
                at = place % max(1, len(columns))
                columns[at] |= r.scope.of(value) | (NOTHING if r.stays(value, names[at]) else decided)
    for attribute, contributions in zip(attributes, columns, strict=True):
        r.scope.attributes[attribute] = contributions
    return row


def _opaque(r: Reading, node: Node) -> Row:
    """A function over whole rows: each output column may come from every input column (or from those it names)."""
    row = r.children(node)
    found: Row = set()
    for child in node.get("k", ()):
        for number, _, _ in output(child):
            found |= r.scope.attributes.get(number, NOTHING)
    fields = node.get("f", {})
    for key in ("groupingAttributes", "groupingExprs", "leftAttributes", "rightAttributes"):
        row |= r.scope.all(fields.get(key) or (), GROUP_BY)
    for key in ("functionExpr", "func", "udf"):
        name = fields[key].get("n") if isinstance(fields.get(key), dict) else None
        if name:
            r.scope.functions.add(name)
    kept = {number for child in node.get("k", ()) for number, _, _ in output(child)}
    for number, _, _ in output(node):
        if number not in kept:
            r.scope.attributes[number] = through(TRANSFORMATION, found)
    return row


NODES: dict[str, Callable[[Reading, Node], Row]] = {
    "Project": _project,
    "Filter": _filter,
    "Join": _join,
    "AsOfJoin": _join,
    "LateralJoin": _lateral,
    "Aggregate": _aggregate,
    "Sort": _sort,
    "Distinct": _distinct,
    "Deduplicate": _distinct,
    "DeduplicateWithinWatermark": _distinct,
    "Window": _window,
    "Generate": _generate,
    "Expand": _expand,
    "Union": _union,
    "UnionLoop": _union,
    "Intersect": _union,
    "Except": _union,
    "WithCTE": _with_cte,
    "CTERelationDef": _cte_definition,
    "CTERelationRef": Reading.cte_reference,
    "UnionLoopRef": Reading.cte_reference,
    "View": _view,
    "MergeRows": _merge_rows,
    "AttachDistributedSequence": _numbered,
    **dict.fromkeys(
        [
            *operators.NAMES_ONLY,
            *operators.PLACEMENT,
            "GlobalLimit",
            "LocalLimit",
            "Offset",
            "Tail",
            "Sample",
            "UnresolvedHint",
            "EventTimeWatermark",
            "LocalLimitAndOffset",
            "Subquery",
            "ReturnAnswer",
            "PlanWithUnresolvedIdentifier",
            "WriteFiles",
            "TempResolvedColumn",
            "LimitAll",
            "Limit",
            "SubqueryColumnAliases",
            "UpdateEventTimeWatermarkColumn",
        ],
        _pass,
    ),
    **dict.fromkeys(
        [
            *operators.PYTHON_BATCHES,
            *operators.PYTHON_GROUPS,
            *operators.PYTHON_COGROUPS,
            "FlatMapGroupsInPandasWithState",
            "TransformWithStateInPandas",
            "TransformWithStateInPySpark",
            "TransformWithState",
            "MapPartitions",
            "MapElements",
            "MapGroups",
            "CoGroup",
            "AppendColumns",
            "DeserializeToObject",
            "SerializeFromObject",
            "TypedFilter",
            "FlatMapGroupsWithState",
            "ScriptTransformation",
            "ArrowEvalPythonUDTF",
            "BatchEvalPythonUDTF",
            "MapPartitionsInR",
            "PythonDataSource",
        ],
        _opaque,
    ),
}

# These go through what is below them in an order of their own.
_OWN_ORDER = (_union, _with_cte, _cte_definition, _view)

__all__ = ["AGGREGATION", "NODES", "Node", "Reading", "TooLong", "output"]
