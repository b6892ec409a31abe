from __future__ import annotations

from whence.model import NonDeterministic
from whence.sql.blocks import Annotated
from whence.sql.builder import Builder
from whence.sql.catalyst import Attr, Plan
from whence.sql.tree import Node, place_of

_NAMES_ONLY = ("SubqueryAlias", "View", "ResolvedHint")


def limit(node: Node, build: Builder) -> Annotated:
    """The row itself, if it is certain which rows were kept.

    With an order it is, unless rows tie at the cut; then all of these are taken in, with a note. Without an order it is
    certain only when there are no more rows than the limit."""
    below = node.children[0].children[0] if node.children[0].kind == "LocalLimit" else node.children[0]
    above_sort, order = _down_to_sort(below)
    count = int(node.plan.limitExpr().eval(None))
    if order is None:
        return _unordered(node, build, below, count)
    kept = _ordered(node, build, order, count)
    for project in reversed(above_sort):
        columns = build.c.items(project.plan.projectList())
        kept = Annotated(build.c.project([*columns, *kept.attrs], kept.plan), kept.links)
    return kept


def _down_to_sort(node: Node) -> tuple[list[Node], Node | None]:
    """Projections between the limit and the sort: the limit goes through them unchanged."""
    projections = []
    while node.kind == "Project" or node.kind in _NAMES_ONLY:
        if node.kind == "Project":
            projections.append(node)
        node = node.children[0]
    return projections, node if node.kind == "Sort" and node.plan.productElement(1) else None


def _unordered(node: Node, build: Builder, below: Node, count: int) -> Annotated:
    child = build.annotate(below)
    if not build.compute:
        build.deferred = True
        return child
    some = build.c.materialise(build.c.limit(count + 1, child.plan))
    if some.count() > count:
        raise NonDeterministic(
            f"LIMIT {count} without ORDER BY keeps whichever rows come first, and there are more than {count}: which "
            "rows were kept cannot be worked out afterwards. Sort before the limit.\n"
            f"It stands here in the query:\n{place_of(build.root, node)}"
        )
    return Annotated(build.c.plan_of(some), child.links)


def _ordered(node: Node, build: Builder, order: Node, count: int) -> Annotated:
    c = build.c
    child = build.annotate(order.children[0])
    if not build.compute or count == 0:
        build.deferred = build.deferred or not build.compute
        return Annotated(c.limit(count, c.with_children(order.plan, [child.plan])), child.links)
    keys = [c.alias(o.child(), "whence_order") for o in c.items(order.plan.order())]
    key_attrs = [k.toAttribute() for k in keys]
    keyed = c.extend(child.plan, keys)
    position = c.alias(c.position(), "whence_position")
    first = c.limit(count + 1, c.with_children(order.plan, [keyed]))
    top = c.materialise(c.extend(first, [position]))  # one partition, in order: positions run from 0
    at = position.toAttribute()
    cut = _rows_at(build, top_plan := c.plan_of(top), at, key_attrs, (count - 1, count))
    if len(cut) < 2 or not _equal(cut[0], cut[1]):
        plan = c.filter(c.expression("LessThan", at, c.long(count)), top_plan)
    else:
        build.note(node, f"rows tie at the cut of LIMIT {count}, so all rows that tie there are counted in")
        plan = _with_ties(build, top_plan, keyed, at, key_attrs, count)
    return Annotated(c.project([*c.output(order.plan), *child.attrs], plan), child.links)


def _rows_at(
    build: Builder, plan: Plan, at: Attr, keys: list[Attr], positions: tuple[int, int]
) -> list[tuple[object, ...]]:
    c = build.c
    wanted = c.disjunction([c.expression("EqualTo", at, c.long(p)) for p in positions])
    return [tuple(row) for row in c.frame(c.project(keys, c.filter(wanted, plan))).collect()]


def _equal(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return all(a == b or (a != a and b != b) for a, b in zip(one, other, strict=True))


def _with_ties(build: Builder, top: Plan, keyed: Plan, at: Attr, keys: list[Attr], count: int) -> Plan:
    c = build.c
    last = c.filter(c.expression("EqualTo", at, c.long(count - 1)), top)
    names = [c.alias(key, "whence_cut") for key in keys]
    cut = c.plan_of(c.materialise(c.project(names, last)))
    same = c.conjunction([c.same(key, name.toAttribute()) for key, name in zip(keys, names, strict=True)])
    columns = c.output(keyed)
    before = c.project(columns, c.join(top, cut, "leftanti", same))
    tied = c.join(keyed, cut, "leftsemi", same)
    return c.plan_of(c.materialise(c.union([before, tied])))
