from __future__ import annotations

from contextlib import nullcontext

from whence.sql.blocks import Annotated
from whence.sql.builder import Builder
from whence.sql.tree import Node


def given(node: Node, build: Builder) -> Annotated:
    """Rows of an operator that an earlier trace gave: what they come from is what the operator's rows do."""
    c = build.c
    (inner,) = node.children
    assert node.picked is not None
    with nullcontext() if node.name is None else build.view(node.name):
        child = build.annotate(inner)
    build.freeze(node)
    pairs = zip(c.output(inner.plan), c.output(node.plan), strict=True)
    columns = [c.alias_as(old, new) for old, new in pairs]
    if not build.compute:
        build.deferred = True
        return Annotated(c.project([*columns, *child.attrs], child.plan), child.links)
    picked = c.keep(c.distinct(node.picked)).plan
    names = [c.alias(attr, "whence_id") for attr in c.output(picked)]
    same = [c.same(attr, name.toAttribute()) for attr, name in zip(child.attrs, names, strict=True)]
    plan = c.join(child.plan, c.project(names, picked), "leftsemi", c.conjunction(same))
    return Annotated(c.project([*columns, *child.attrs], plan), child.links)
