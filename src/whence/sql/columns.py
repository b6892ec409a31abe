"""A question about some columns of the result: what only the others need is taken out of the query first.

From the top down: of a projection, an aggregate or a window only what the operators above still need is kept, and a
window of which nothing is left goes. What decides which rows there are (filters, keys, partners, orders) stays. Which
rows of a group then enter what is left of an aggregate says `enters`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from whence.sql import facts
from whence.sql.catalyst import Catalyst, Expr, Plan, class_name, id_of
from whence.sql.tree import Node, tree_of

# What they need is what they speak of, and what is needed above them.
_PASSES = (
    *("Filter", "Sort", "Join", "SubqueryAlias", "View", "GlobalLimit", "LocalLimit", "Offset", "Sample"),
    *("Repartition", "RepartitionByExpression", "RebalancePartitions", "ResolvedHint", "Generate"),
)
_AS_THEY_ARE = ("Settled", "Given")
# Aggregates that pass over a row whose argument is NULL.
_PASSING_OVER_NULL = (
    *("Sum", "Average", "Count", "Min", "Max", "CollectList", "CollectSet", "StddevSamp", "StddevPop", "VarianceSamp"),
    *("VariancePop", "Skewness", "Kurtosis", "Corr", "CovSample", "CovPopulation", "Percentile", "Median"),
    *("ApproximatePercentile", "HyperLogLogPlusPlus", "BitAndAgg", "BitOrAgg", "BitXorAgg", "BoolAnd", "BoolOr"),
)


def only_columns(c: Catalyst, tree: Node) -> Node:
    """The query without what its own columns do not need."""
    plan = _narrowed(c, tree, {id_of(a) for a in c.output(tree.plan)})
    return tree if plan is tree.plan else tree_of(c, plan)


def _narrowed(c: Catalyst, node: Node, needed: Collection[int]) -> Plan:
    if node.kind in _AS_THEY_ARE or not node.children:
        return node.plan
    fact = facts.known(c, node.kind, node.plan)
    if fact is not None and not fact.certain:  # it is known as it was captured
        return node.plan
    if node.kind == "Project":
        return _with_fewer(c, node, "projectList", needed, [])
    if node.kind == "Aggregate":
        return _with_fewer(c, node, "aggregateExpressions", needed, c.items(node.plan.groupingExpressions()))
    if node.kind == "Window":
        return _window(c, node, needed)
    if node.kind == "Union":
        return _union(c, node, needed)
    if node.kind not in _PASSES:
        return _below(c, node, node.plan, [{id_of(a) for a in c.output(child.plan)} for child in node.children])
    wanted = {*needed, *(id_of(a) for a in c.items(node.plan.references().toSeq()))}
    return _below(c, node, node.plan, [wanted] * len(node.children))


def _with_fewer(c: Catalyst, node: Node, field: str, needed: Collection[int], also: Sequence[Expr]) -> Plan:
    every = c.items(c.fields(node.plan)[field])
    kept = [e for e in every if id_of(e) in needed] or every[:1]
    plan = node.plan if len(kept) == len(every) else c.copy(node.plan, **{field: c.seq(kept)})
    return _below(c, node, plan, [set().union(*[c.references(e) for e in (*kept, *also)])])


def _window(c: Catalyst, node: Node, needed: Collection[int]) -> Plan:
    every = c.items(node.plan.windowExpressions())
    kept = [e for e in every if id_of(e) in needed]
    if not kept:
        return _narrowed(c, node.children[0], needed)
    plan = node.plan if len(kept) == len(every) else c.copy(node.plan, windowExpressions=c.seq(kept))
    order = [*c.items(node.plan.partitionSpec()), *c.items(node.plan.orderSpec())]
    return _below(c, node, plan, [set(needed).union(*[c.references(e) for e in (*kept, *order)])])


def _union(c: Catalyst, node: Node, needed: Collection[int]) -> Plan:
    """Its columns go by their places: of every branch the same ones are kept."""
    places = [i for i, a in enumerate(c.output(node.plan)) if id_of(a) in needed] or [0]
    branches = []
    for child in node.children:
        own = c.output(child.plan)
        kept = [own[i] for i in places]
        plan = _narrowed(c, child, {id_of(a) for a in kept})
        same = [id_of(a) for a in c.output(plan)] == [id_of(a) for a in kept]
        branches.append(plan if same else c.project(kept, plan))
    if all(new is old.plan for new, old in zip(branches, node.children, strict=True)):
        return node.plan
    return c.with_children(node.plan, branches)


def _below(c: Catalyst, node: Node, plan: Plan, needed: Sequence[Collection[int]]) -> Plan:
    children = [_narrowed(c, child, some) for child, some in zip(node.children, needed, strict=True)]
    if all(new is old.plan for new, old in zip(children, node.children, strict=True)):
        return plan
    return c.with_children(plan, children)


def enters(c: Catalyst, outputs: Sequence[Expr]) -> Expr | None:
    """Whether a row enters one of these aggregates; None if all do, or if there are only keys."""
    found: list[Expr] = []
    for call in (call for output in outputs for call in calls_in(c, output)):
        tests = _tests(c, call)
        if not tests:
            return None
        found.append(c.conjunction(tests))
    return c.is_true(c.disjunction(found)) if found else None


def calls_in(c: Catalyst, expr: Expr) -> list[Expr]:
    """The calls of aggregate functions."""
    if class_name(expr) == "AggregateExpression":
        return [expr]
    return [call for child in c.children(expr) for call in calls_in(c, child)]


def _tests(c: Catalyst, call: Expr) -> list[Expr]:
    tests: list[Expr] = [call.filter().get()] if call.filter().isDefined() else []
    function = call.aggregateFunction()
    name = class_name(function)
    if name not in _PASSING_OVER_NULL:
        return tests
    arguments = [child for child in c.children(function) if c.references(child)]
    tests += [c.is_not_null(child) for child in arguments]
    if name == "Sum" and not call.isDistinct():  # what adds nothing: CASE WHEN ... THEN amount ELSE 0 END
        tests += [c.negation(c.is_zero(child)) for child in arguments if c.is_numeric(child)]
    return tests
