from __future__ import annotations

from whence.sql.blocks import Annotated, Reading
from whence.sql.builder import Builder
from whence.sql.recursion import reads_something, why_not_unrolled
from whence.sql.sources import identify
from whence.sql.tree import Node


def scan(node: Node, build: Builder) -> Annotated:
    leaf = identify(build.c, node)
    return Annotated(leaf.plan, (Reading(build.reading(node), leaf.ids),))


def nothing(node: Node, build: Builder) -> Annotated:
    """SELECT without FROM: one row that comes from nowhere."""
    return Annotated(node.plan, ())


def loop(node: Node, build: Builder) -> Annotated:
    """A recursive query that could not be taken apart into its rounds; one that reads nothing only counts up."""
    if reads_something(node):
        raise build.unsupported(node, why_not_unrolled(build.c, node))
    return Annotated(node.plan, ())
