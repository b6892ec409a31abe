from __future__ import annotations

from whence.sql.blocks import Annotated, repeated
from whence.sql.builder import Builder
from whence.sql.tree import Node


def generate(node: Node, build: Builder) -> Annotated:
    """explode and the like: the row that held the array."""
    c = build.c
    child = build.annotate(node.children[0])
    plan = c.with_children(node.plan, [child.plan])
    return Annotated(c.project([*c.output(node.plan), *child.attrs], plan), repeated(child.links))


def expand(node: Node, build: Builder) -> Annotated:
    """Rollup, cube, grouping sets and unpivot: each row goes out several times, its identity with it."""
    c = build.c
    child = build.annotate(node.children[0])
    projections = [c.seq([*c.items(one), *child.attrs]) for one in c.items(node.plan.projections())]
    plan = c.copy(
        node.plan,
        projections=c.seq(projections),
        output=c.seq([*c.output(node.plan), *child.attrs]),
        child=child.plan,
    )
    return Annotated(plan, repeated(child.links))
