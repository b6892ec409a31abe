from __future__ import annotations

from whence.sql.blocks import Annotated, Link, maybe_missing
from whence.sql.builder import Builder
from whence.sql.catalyst import Expr
from whence.sql.tree import Node


def union(node: Node, build: Builder) -> Annotated:
    """The row in its branch. Each branch carries its own identities and NULL for those of the others."""
    c = build.c
    branches = [build.annotate(child) for child in node.children]
    columns: list[list[Expr]] = [c.output(child.plan) for child in node.children]
    links: list[Link] = []
    for at, branch in enumerate(branches):
        for link in branch.links:
            for attr in link.attrs:
                for i, row in enumerate(columns):
                    row.append(attr if i == at else c.alias(c.null(attr), attr.name()))
            # A union's attributes have the ids of its first branch.
            heads = columns[0][-len(link.attrs) :]
            links.append(maybe_missing(link, [head.toAttribute() for head in heads]))
    plans = [c.project(row, branch.plan) for row, branch in zip(columns, branches, strict=True)]
    return Annotated(c.with_children(node.plan, plans), tuple(links))
