"""LIMIT and OFFSET: the row itself, if it is certain which rows were kept.

With an order it is certain, unless rows tie at a cut; then all of these are taken in, with a note. Without an order it
is certain only when all rows were kept, or none; so where Spark loses the order on the way (certainty.LOST_ORDER).
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import functions as F

from whence.model import NonDeterministic, operators
from whence.sql import gathered
from whence.sql.blocks import Annotated
from whence.sql.builder import Builder
from whence.sql.catalyst import Attr, Plan
from whence.sql.certainty import LOST_ORDER
from whence.sql.tree import Node, place_of, rebuild

_IN_ORDER = (
    "Write the subquery as a join, or compute the result under `with w.capture():`, or tell Spark to leave that out:"
)


def limit(node: Node, build: Builder) -> Annotated:
    """LIMIT and OFFSET, one or several on top of each other: together they keep rows from one place to another."""
    return _kept(node, build, *_cuts(node))


def _cuts(node: Node) -> tuple[Node, int, int | None]:
    """What is cut, the first row that is kept, and the first behind it that is not."""
    if node.kind == "GlobalLimit":
        inner = node.children[0]
        below, start, stop = _cuts(inner.children[0] if inner.kind == "LocalLimit" else inner)
        end = start + _number(node.plan.limitExpr())
        return below, start, end if stop is None else min(stop, end)
    if node.kind == "Offset":
        below, start, stop = _cuts(node.children[0])
        start += _number(node.plan.offsetExpr())
        return below, start if stop is None else min(start, stop), stop
    return node, 0, None


def _number(expression: Plan) -> int:
    return int(expression.eval(None))


def _kept(node: Node, build: Builder, below: Node, start: int, stop: int | None) -> Annotated:
    projections, order = _down_to_sort(below)
    if order is None or build.c.has_lost_order(node.plan):
        return _unordered(node, build, below, start, stop)
    kept = _ordered(node, build, order, start, stop)
    for project in reversed(projections):
        columns = build.c.items(project.plan.projectList())
        kept = Annotated(build.c.project([*columns, *kept.attrs], kept.plan), kept.links)
    return kept


def _down_to_sort(node: Node) -> tuple[list[Node], Node | None]:
    """Projections between the limit and the sort: the limit goes through them unchanged."""
    projections = []
    while node.kind == "Project" or node.kind in operators.LOOKED_THROUGH:
        if node.kind == "Project":
            projections.append(node)
        node = node.children[0]
    is_global = node.kind == "Sort" and node.plan.productElement(1)
    return projections, node if is_global else None


def _unordered(node: Node, build: Builder, below: Node, start: int, stop: int | None) -> Annotated:
    c = build.c
    child = build.annotate(below)
    if build.fact_of(node) is not None:
        return Annotated(rebuild(c, node, lambda n: child.plan if n is below else None), child.links)
    nothing = Annotated(c.filter(c.parse("false"), child.plan), child.links)
    if stop == start:
        return nothing
    if start == 0 and stop is None:
        return child
    if not build.compute:
        build.deferred = True
        return child
    if stop is not None and start == 0:
        some = c.keep(c.limit(stop + 1, child.plan))
        if some.total <= stop:
            return Annotated(some.plan, child.links)
    elif c.frame(c.limit(start + 1, child.plan)).count() <= start:
        return nothing
    what = "OFFSET" if stop is None else f"LIMIT {stop - start}"
    if c.has_lost_order(node.plan):
        raise NonDeterministic(
            f"{LOST_ORDER} Which rows {what} kept cannot be worked out afterwards. {_IN_ORDER} "
            f"{c.losing_order}.\nIt stands here in the query:\n{place_of(build.root, node)}"
        )
    raise NonDeterministic(
        f"{what} without ORDER BY keeps whichever rows come first, and there are more: which rows were kept cannot be "
        "worked out afterwards. Sort before it, or compute the result under `with w.capture():`.\n"
        f"It stands here in the query:\n{place_of(build.root, node)}"
    )


@dataclass(frozen=True, eq=False)
class _Top:
    """The first rows in order, computed: their sort keys and positions are behind their own columns."""

    plan: Plan
    keyed: Plan  # all rows, with their sort keys
    keys: list[Attr]
    at: Attr


def _ordered(node: Node, build: Builder, order: Node, start: int, stop: int | None) -> Annotated:
    c = build.c
    child = build.annotate(order.children[0])
    if not build.compute:
        build.deferred = True
        return child
    own = [*c.output(order.plan), *child.attrs]
    if start > 0:
        build.freeze(node)
    if stop == start:
        return Annotated(c.filter(c.parse("false"), child.plan), child.links)
    top = _top(build, order, child, (start if stop is None else stop) + 1)
    plan = _between(build, top, start, stop)
    for cut in {start, stop} - {0, None}:
        assert cut is not None
        if _ties_at(build, top, cut):
            build.note(node, f"rows tie at row {cut} of the order, so all rows that tie there are counted in")
            plan = _with_ties(build, top, plan, cut)
    return Annotated(c.project(own, plan), child.links)


def _top(build: Builder, order: Node, child: Annotated, count: int) -> _Top:
    c = build.c
    keys = [c.alias(o.child(), "whence_order") for o in c.items(order.plan.order())]
    keyed = c.extend(child.plan, keys)
    position = c.alias(c.position(), "whence_position")
    first = c.limit(count, c.with_children(order.plan, [keyed]))
    # one partition, in order: positions run from 0
    placed = c.extend(first, [position])
    if any(leaf.maxRows().isDefined() for leaf in c.leaves(keyed) if not c.is_file_scan(leaf)):
        # But where Spark knows that there are no more rows than that, it leaves the limit out, and each partition of
        # the sort counts for itself.
        orders = c.items(order.plan.order())
        number = c.alias(c.row_number([], orders), "whence_number")
        at = c.cast(number.toAttribute(), position.toAttribute())
        position = c.alias(c.add(at, c.long(-1)), "whence_position")
        placed = c.project([*c.output(first), position], c.window([number], [], orders, first))
    found = gathered.computed(c, placed, child.links, build.places)
    return _Top(found, keyed, [k.toAttribute() for k in keys], position.toAttribute())


def _between(build: Builder, top: _Top, start: int, stop: int | None) -> Plan:
    c = build.c
    columns = c.output(top.keyed)
    if stop is None:
        return _without(build, top, c.filter(c.expression("LessThan", top.at, c.long(start)), top.plan))
    inside = c.conjunction(
        [
            c.expression("GreaterThanOrEqual", top.at, c.long(start)),
            c.expression("LessThan", top.at, c.long(stop)),
        ]
    )
    return c.project(columns, c.filter(inside, top.plan))


def _without(build: Builder, top: _Top, first: Plan) -> Plan:
    """All rows but the first ones, told by everything that is known of a row."""
    c = build.c
    columns = c.output(top.keyed)
    here = [c.alias(h, "whence_content") for h in c.content_hashes(columns)]
    there = [c.alias(h, "whence_first") for h in c.content_hashes(columns)]
    pairs = [c.equal(one.toAttribute(), other.toAttribute()) for one, other in zip(here, there, strict=True)]
    rest = c.join(c.extend(top.keyed, here), c.project(there, first), "leftanti", c.conjunction(pairs))
    return c.project(columns, rest)


def _ties_at(build: Builder, top: _Top, cut: int) -> bool:
    """Spark compares, as it did when it sorted: Python knows neither collations nor what -0.0 is to Spark."""
    c = build.c
    wanted = c.disjunction([c.expression("EqualTo", top.at, c.long(p)) for p in (cut - 1, cut)])
    keys = [c.alias(key, f"k{i}") for i, key in enumerate(top.keys)]
    two = c.project(keys, c.filter(wanted, top.plan))
    if (known := c.is_tied(two)) is not None:
        return known
    rows = c.small_frame(two)
    pair = rows.agg(F.collect_list(F.struct(*rows.columns)).alias("pair"))
    (tied,) = pair.select(F.expr("size(pair) = 2 AND get(pair, 0) <=> get(pair, 1)")).collect()[0]
    return bool(tied)


def _with_ties(build: Builder, top: _Top, plan: Plan, cut: int) -> Plan:
    c = build.c
    last = c.filter(c.expression("EqualTo", top.at, c.long(cut)), top.plan)
    names = [c.alias(key, "whence_cut") for key in top.keys]
    tie = c.keep(c.project(names, last)).plan
    same = c.conjunction([c.same(key, name.toAttribute()) for key, name in zip(top.keys, names, strict=True)])
    others = c.project(c.output(top.keyed), c.join(plan, tie, "leftanti", same))
    tied = c.join(top.keyed, tie, "leftsemi", same)
    return c.keep(c.union([others, tied])).plan
