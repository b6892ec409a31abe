from __future__ import annotations

from whence.model import NonDeterministic
from whence.sql.blocks import Annotated, repeated
from whence.sql.builder import Builder
from whence.sql.certainty import NUMBERED, unsure_sample
from whence.sql.tree import Node, place_of


def sample(node: Node, build: Builder) -> Annotated:
    """The row itself: Spark draws by seed, partition and position, which the identities do not move."""
    why = unsure_sample(build.c, node) if build.fact_of(node) is None else None
    if why is not None:
        raise NonDeterministic(
            f"{why} So which rows it drew cannot be worked out afterwards: compute the result under "
            f"`with w.capture():`.\nIt stands here in the query:\n{place_of(build.root, node)}"
        )
    c = build.c
    with build.ordered(True):
        child = build.annotate(node.children[0])
    build.freeze(node)
    return Annotated(c.with_children(node.plan, [child.plan]), repeated(child.links))


def numbered(node: Node, build: Builder) -> Annotated:
    """The row itself (`zipWithIndex`, the default index of pandas on Spark), where its number is written down."""
    if build.fact_of(node) is None:
        raise NonDeterministic(
            f"{NUMBERED} So which row got which number cannot be worked out afterwards: compute the result under "
            f"`with w.capture():`.\nIt stands here in the query:\n{place_of(build.root, node)}"
        )
    child = build.annotate(node.children[0])
    build.freeze(node)
    return Annotated(build.c.with_children(node.plan, [child.plan]), child.links)
