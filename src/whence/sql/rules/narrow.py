from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from whence.sql.blocks import Annotated
from whence.sql.builder import Builder
from whence.sql.row_changes import is_no_witness
from whence.sql.sources import is_parameters
from whence.sql.tree import Node


def in_place(node: Node, build: Builder) -> Annotated:
    """Operators that keep or drop rows as they are; the identities ride along."""
    child = build.annotate(node.children[0])
    return Annotated(build.c.with_children(node.plan, [child.plan]), child.links)


# They have no name of their own; the query may give them one: `VALUES ... AS t`.
_NAMELESS = ("LocalRelation", "LogicalRDD", "Range")


def look_through(node: Node, build: Builder) -> Annotated:
    with below(node, build):
        return build.annotate(node.children[0])


def below(node: Node, build: Builder) -> AbstractContextManager[None]:
    """What an operator that is looked through says of the readings below it."""
    if is_no_witness(node) or is_parameters(node):
        return build.auxiliary()
    if node.kind == "View":
        return build.view(node.plan.desc().identifier().table())
    if node.kind == "SubqueryAlias" and node.children[0].kind in _NAMELESS:
        return build.view(node.plan.identifier().name())
    return nullcontext()


def project(node: Node, build: Builder) -> Annotated:
    c = build.c
    child = build.annotate(node.children[0])
    columns = c.items(node.plan.projectList())
    return Annotated(c.project([*columns, *child.attrs], child.plan), child.links)


def sort(node: Node, build: Builder) -> Annotated:
    """Sorting costs time and changes no lineage, so it is left out unless an operator above keeps the first rows."""
    return in_place(node, build) if build.order_matters else build.annotate(node.children[0])
