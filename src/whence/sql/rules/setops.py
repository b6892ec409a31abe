from __future__ import annotations

from whence.sql.blocks import Annotated, make_lookup
from whence.sql.builder import Builder
from whence.sql.catalyst import Attr, Expr, Plan
from whence.sql.tree import Node


def intersect(node: Node, build: Builder) -> Annotated:
    """Both sides: all rows equal to this one. With ALL, the rows pair off one to one."""
    if not node.plan.isAll():
        return _equal_rows(node, build, sides=(0, 1))
    c = build.c
    left, right = (build.annotate(child) for child in node.children)
    numbered_left, n = _numbered(build, node.children[0], left)
    numbered_right, m = _numbered(build, node.children[1], right)
    columns = _columns(build, node)
    pairs = [c.same(a, b) for a, b in columns] + [c.equal(n, m)]
    plan = c.join(numbered_left, numbered_right, "inner", c.conjunction(pairs))
    own = [c.alias_as(a, o) for (a, _), o in zip(columns, c.output(node.plan), strict=True)]
    return Annotated(c.project([*own, *left.attrs, *right.attrs], plan), (*left.links, *right.links))


def except_(node: Node, build: Builder) -> Annotated:
    """The left side. With ALL, as many of the equal rows as the right side leaves over."""
    if not node.plan.isAll():
        return _equal_rows(node, build, sides=(0,))
    c = build.c
    left = build.annotate(node.children[0])
    numbered, n = _numbered(build, node.children[0], left)
    other, m = _numbered(build, node.children[1], Annotated(node.children[1].plan, ()))
    build.set_aside(node.children[1])
    columns = _columns(build, node)
    pairs = [c.same(a, b) for a, b in columns] + [c.equal(n, m)]
    plan = c.join(numbered, other, "leftanti", c.conjunction(pairs))
    own = [c.alias_as(a, o) for (a, _), o in zip(columns, c.output(node.plan), strict=True)]
    return Annotated(c.project([*own, *left.attrs], plan), left.links)


def _columns(build: Builder, node: Node) -> list[tuple[Attr, Attr]]:
    left, right = (build.c.output(child.plan) for child in node.children)
    return list(zip(left, right, strict=True))


def _numbered(build: Builder, node: Node, annotated: Annotated) -> tuple[Plan, Attr]:
    """Equal rows numbered 1, 2, ..., by their identities so that every evaluation numbers them alike."""
    c = build.c
    own = c.output(node.plan)
    order = [c.ascending(a) for a in annotated.attrs or own]
    number = c.alias(c.row_number(own, order), "whence_copy")
    plan = c.window([number], own, order, annotated.plan)
    return plan, number.toAttribute()


def _equal_rows(node: Node, build: Builder, sides: tuple[int, ...]) -> Annotated:
    c = build.c
    own = c.output(node.plan)
    named: list[Expr] = [c.alias(column, "whence_value") for column in own]
    plan = c.extend(node.plan, named)
    keys = [name.toAttribute() for name in named]
    found = Annotated(plan, ())
    for side in sides:
        child = node.children[side]
        pairs = list(zip(keys, c.output(child.plan), strict=True))
        condition = c.conjunction([c.same(column, key) for key, column in pairs])
        one = make_lookup(c, node, found.plan, build.block(child), keys, condition, pairs)
        found = Annotated(one.plan, (*found.links, *one.links))
    if 1 not in sides:
        build.set_aside(node.children[1])
    return Annotated(c.project([*own, *found.attrs], found.plan), found.links)
