"""Values that may come out otherwise the next time though the rows are the same, and what they decide.

`first(v)` over rows in no order, the other columns of `dropDuplicates(["k"])`, the elements of a collected list: such
a value wavers. As long as it is only shown, the rows behind a result are the same whatever it is. Once a filter, a
join, a grouping or a LIMIT goes by it, other rows may be kept the next time; then the operator that gives it must be
written down (capture.py), or what it sees must leave no choice (rules/choice.py), or the trace refuses. (What draws,
such as `rand()`, is refused wherever it stands.)

From the leaves up, each operator is asked which of its columns waver; a table says how, one function a kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from whence.model import operators
from whence.sql.catalyst import Catalyst, Expr, class_name, id_of
from whence.sql.certainty import by_position
from whence.sql.tree import Node

# Of these the order in which rows come makes the value, or a tie does.
ANY_ROW = ("First", "Last", "AnyValue", "NthValue")
BY_OTHER = ("MaxBy", "MinBy")
# Summaries that forget rows: which, goes by the order and the partitions in which rows come.
_APPROXIMATE = re.compile(
    r"CollectFrequentItems|HistogramNumeric|ApproximatePercentile|ApproxTopK|KllSketch|KllMerge|HllSketch|HllUnion|"
    r"ThetaSketch|ThetaUnion|ThetaIntersection|TupleSketch|TupleUnion|TupleIntersection"
)
_BY_ORDER = (*ANY_ROW, *BY_OTHER, "MaxMinByK", "Mode", "PandasMode", "ListAgg")
_LISTS = ("CollectList", "CollectSet")
_SUSPECT = re.compile(
    r"more fields|Deduplicate|\b(first|last|any_value|first_value|last_value|nth_value|max_by|min_by|mode|pandas_mode|"
    r"collect_list|collect_set|array_agg|listagg|string_agg|collect_frequent_items|histogram_numeric|approx_percentile|"
    r"percentile_approx|approx_top_k\w*|(kll|hll|theta|tuple)_\w+)\("
)
_SESSIONS = re.compile(r"more fields|session_window#")
# The same whatever the order of the elements.
_WHATEVER_ORDER = (
    *("Size", "ArrayContains", "ArrayMax", "ArrayMin", "SortArray", "ArraysOverlap", "ArrayExists", "ArrayForAll"),
    *("IsNull", "IsNotNull", "ArraySize"),
)
# The same elements, in another order if theirs is.
_KEEPS_ELEMENTS = ("Alias", "AggregateExpression", "WindowExpression", "ArrayDistinct", "ArrayFilter")
_LIMITS = ("GlobalLimit", "LocalLimit", "Offset")
_PASSES = (*operators.LOOKED_THROUGH, *operators.PLACEMENT, "GlobalLimit", "LocalLimit", "Sample", "Given", "WithCTE")


@dataclass(frozen=True, eq=False)
class Wavering:
    """`sources`: the operators that give it, and which of their columns it is. `order`: nothing but the order of its
    elements may differ."""

    sources: frozenset[tuple[Node, int]]
    order: bool = False

    def fully(self) -> Wavering:
        return Wavering(self.sources) if self.order else self


Columns = dict[int, Wavering]  # by the id of the attribute


@dataclass(eq=False)
class Waverings:
    """What was found in one query. `decides`: operators a wavering column of which decides about rows, with these
    columns, and the operator that goes by them."""

    decides: dict[Node, tuple[set[int], Node]] = field(default_factory=dict)
    # Of the result, by position.
    columns: Mapping[int, Wavering] = field(default_factory=dict)
    sessions: bool = False  # whether groups by session windows may be in it


def waverings(c: Catalyst, tree: Node) -> Waverings:
    hidden = [node.children[0] for node in tree.walk() if node.kind in ("Settled", "Given")]
    # One look at the whole, which spares one at each operator of nearly all queries.
    texts = [str(node.plan.toString()) for node in (tree, *hidden)]
    found = Waverings(sessions=any(_SESSIONS.search(text) for text in texts))
    if any(_SUSPECT.search(text) for text in texts):
        looking = _Looking(c, found)
        columns = looking.columns(tree, False)
        ids = [id_of(a) for a in c.output(tree.plan)]
        found.columns = {at: columns[key] for at, key in enumerate(ids) if key in columns}
    return found


@dataclass(eq=False)
class _Looking:
    c: Catalyst
    found: Waverings

    def columns(self, node: Node, limited: bool) -> Columns:
        """The columns of an operator that waver. `limited`: the order of its rows decides which of them are kept."""
        limited = limited or node.kind in _LIMITS or node.kind in operators.PYTHON_BATCHES
        below: Columns = {}
        each = [self.columns(child, limited) for child in node.children]
        for columns in each:
            below.update(columns)
        for sub in node.subqueries.values():
            self.decided(node, self.columns(sub, False).values())
        if node.kind == "Settled":
            return {}
        if node.kind == "Union":
            return self._union(node, each)
        rule = _RULES.get(node.kind)
        if rule is not None:
            return rule(self, node, below, limited)
        if below and node.kind not in _PASSES:
            self.decided(node, below.values())  # whatever it does with them
        return self.passed(node, below)

    def decided(self, by: Node, values: Iterable[Wavering]) -> None:
        for value in values:
            for source, column in value.sources:
                self.found.decides.setdefault(source, (set(), by))[0].add(column)

    def decided_by(self, node: Node, below: Columns, expressions: Iterable[Expr]) -> None:
        if below:
            self.decided(node, [w for e in expressions if (w := self.of(e, below)) is not None])

    def passed(self, node: Node, below: Columns) -> Columns:
        """What goes through an operator as it is. One that looks through its input may name all columns anew."""
        if not below:
            return {}
        ids = [id_of(a) for a in self.c.output(node.plan)]
        found = {key: below[key] for key in ids if key in below}
        if not found and node.kind in _PASSES and len(node.children) == 1:
            inner = [id_of(a) for a in self.c.output(node.children[0].plan)]
            pairs = zip(ids, inner, strict=True) if len(ids) == len(inner) else ()
            found = {key: below[old] for key, old in pairs if old in below}
        return found

    def _union(self, node: Node, each: Sequence[Columns]) -> Columns:
        if not any(each):
            return {}
        found: dict[int, list[Wavering]] = {}
        ids = [id_of(a) for a in self.c.output(node.plan)]
        for child, columns in zip(node.children, each, strict=True):
            for key, attribute in zip(ids, self.c.output(child.plan), strict=True):
                if id_of(attribute) in columns:
                    found.setdefault(key, []).append(columns[id_of(attribute)])
        return {key: _joined(values) for key, values in found.items()}

    def of(self, expr: Expr, below: Columns) -> Wavering | None:
        """What an expression makes of columns that waver."""
        kind = class_name(expr)
        if kind == "AttributeReference":
            return below.get(id_of(expr))
        parts = [found for child in self.c.children(expr) if (found := self.of(child, below)) is not None]
        if kind in _WHATEVER_ORDER:
            parts = [part for part in parts if not part.order]
        if not parts:
            return None
        return _joined(parts) if kind in _KEEPS_ELEMENTS else _joined([part.fully() for part in parts])

    def given(self, node: Node, exprs: Sequence[Expr], below: Columns, *, in_order: bool = False) -> Columns:
        """The columns that an operator computes, each by one named expression. `in_order`: of rows that come in one
        order only."""
        found: Columns = {}
        by_order = not in_order and _SUSPECT.search(self.c.expressions_text(node.plan)) is not None
        if not by_order and not below:
            return found
        for expr in exprs:
            parts = [] if (part := self.of(expr, below)) is None else [part]
            if by_order and (order := self._wavers(expr)) is not None:
                parts.append(Wavering(frozenset({(node, id_of(expr))}), order))
            if parts:
                found[id_of(expr)] = _joined(parts)
        return found

    def _wavers(self, expr: Expr) -> bool | None:
        """Whether the order of rows makes its value: True if it makes the order of its elements alone, None if it does
        not matter."""
        kind = class_name(expr)
        if makes_order(self.c, expr):
            return kind in _LISTS
        orders = [order for child in self.c.children(expr) if (order := self._wavers(child)) is not None]
        if kind in _WHATEVER_ORDER:
            orders = [order for order in orders if not order]
        if not orders:
            return None
        return all(orders) and kind in _KEEPS_ELEMENTS


def makes_order(c: Catalyst, function: Expr) -> bool:
    """Whether an aggregate function goes by the order of rows, or takes one of those that tie."""
    kind = class_name(function)
    if kind in _LISTS or _APPROXIMATE.match(kind):
        return True
    return kind in _BY_ORDER and not _has_order(c, function)


def _has_order(c: Catalyst, function: Expr) -> bool:
    """LISTAGG ... WITHIN GROUP (ORDER BY ...), MODE() WITHIN GROUP (ORDER BY ...)."""
    fields = c.fields(function)
    if class_name(function) == "ListAgg":
        # By the texts themselves: of others than these, equal ones stand as they came.
        listed = c.children(function)[0]
        return any(order.child().semanticEquals(listed) for order in orders_of(c, function))
    return class_name(function) == "Mode" and "reverseOpt" in fields and bool(fields["reverseOpt"].isDefined())


def orders_of(c: Catalyst, function: Expr) -> list[Expr]:
    """The ORDER BY of a LISTAGG."""
    fields = c.fields(function)
    return c.items(fields["orderExpressions"]) if "orderExpressions" in fields else []


def _joined(values: Sequence[Wavering]) -> Wavering:
    if len(values) == 1:
        return values[0]
    return Wavering(frozenset().union(*[value.sources for value in values]), all(value.order for value in values))


# --- one function a kind of operator


def _project(look: _Looking, node: Node, below: Columns, limited: bool) -> Columns:
    return look.given(node, look.c.items(node.plan.projectList()), below)


def _aggregate(look: _Looking, node: Node, below: Columns, limited: bool) -> Columns:
    look.decided_by(node, below, look.c.items(node.plan.groupingExpressions()))
    return look.given(node, look.c.items(node.plan.aggregateExpressions()), below)


def _window(look: _Looking, node: Node, below: Columns, limited: bool) -> Columns:
    c = look.c
    orders = c.items(node.plan.orderSpec())
    look.decided_by(node, below, [*c.items(node.plan.partitionSpec()), *orders])
    functions = c.items(node.plan.windowExpressions())
    no_ties = any(by_position(c, alias.child()) for alias in functions)  # which the window's own rule makes sure of
    return {**look.passed(node, below), **look.given(node, functions, below, in_order=no_ties)}


def _deduplicate(look: _Looking, node: Node, below: Columns, limited: bool) -> Columns:
    keys = {id_of(key) for key in look.c.items(node.plan.keys())}
    look.decided(node, [value for key, value in below.items() if key in keys])
    others = [id_of(a) for a in look.c.output(node.plan) if id_of(a) not in keys]
    own = {key: Wavering(frozenset({(node, key)})) for key in others}
    return {key: _joined([value, below[key]]) if key in below else value for key, value in own.items()}


def _filter(look: _Looking, node: Node, below: Columns, limited: bool) -> Columns:
    look.decided_by(node, below, [node.plan.condition()])
    return look.passed(node, below)


def _join(look: _Looking, node: Node, below: Columns, limited: bool) -> Columns:
    condition = node.plan.condition()
    look.decided_by(node, below, [condition.get()] if condition.isDefined() else [])
    return look.passed(node, below)


def _sort(look: _Looking, node: Node, below: Columns, limited: bool) -> Columns:
    if limited:
        look.decided_by(node, below, look.c.items(node.plan.order()))
    return below


def _offset(look: _Looking, node: Node, below: Columns, limited: bool) -> Columns:
    look.decided(node, below.values())  # rows that are not passed over are told by all that they show
    return below


def _generate(look: _Looking, node: Node, below: Columns, limited: bool) -> Columns:
    c, generator = look.c, node.plan.generator()
    parts = [part for child in c.children(generator) if (part := look.of(child, below)) is not None]
    if class_name(generator) != "Explode" or any(not part.order for part in parts):
        look.decided(node, parts)
    return look.passed(node, below)


def _expand(look: _Looking, node: Node, below: Columns, limited: bool) -> Columns:
    found: Columns = {}
    if below:
        ids = [id_of(a) for a in look.c.output(node.plan)]
        for projection in look.c.items(node.plan.projections()):
            for key, expr in zip(ids, look.c.items(projection), strict=True):
                if (value := look.of(expr, below)) is not None:
                    found[key] = _joined([value, found[key]]) if key in found else value
    return found


_RULES: dict[str, Callable[[_Looking, Node, Columns, bool], Columns]] = {
    "Project": _project,
    "Aggregate": _aggregate,
    "Window": _window,
    "Deduplicate": _deduplicate,
    "Filter": _filter,
    "Join": _join,
    "Sort": _sort,
    "Offset": _offset,
    "Generate": _generate,
    "Expand": _expand,
}
