from __future__ import annotations

from whence.sql.blocks import Annotated
from whence.sql.builder import Builder
from whence.sql.row_changes import is_as_it_was
from whence.sql.sources import is_parameters
from whence.sql.tree import Node


def in_place(node: Node, build: Builder) -> Annotated:
    """Operators that keep or drop rows as they are; the identities ride along."""
    child = build.annotate(node.children[0])
    return Annotated(build.c.with_children(node.plan, [child.plan]), child.links)


# They have no name of their own; the query may give them one: `VALUES ... AS t`.
_NAMELESS = ("LocalRelation", "LogicalRDD", "Range")


def look_through(node: Node, build: Builder) -> Annotated:
    child = node.children[0]
    if is_as_it_was(node) or is_parameters(node):
        with build.auxiliary():
            return build.annotate(child)
    if node.kind == "View":
        with build.view(node.plan.desc().identifier().table()):
            return build.annotate(child)
    if node.kind == "SubqueryAlias" and child.kind in _NAMELESS:
        with build.view(node.plan.identifier().name()):
            return build.annotate(child)
    return build.annotate(child)


def project(node: Node, build: Builder) -> Annotated:
    c = build.c
    child = build.annotate(node.children[0])
    columns = c.items(node.plan.projectList())
    return Annotated(c.project([*columns, *child.attrs], child.plan), child.links)


def sort(node: Node, build: Builder) -> Annotated:
    """Sorting costs time and changes no lineage, so it is left out unless an operator above keeps the first rows."""
    return in_place(node, build) if build.order_matters else build.annotate(node.children[0])
