from __future__ import annotations

from whence.sql.blocks import Annotated, make_lookup, nullable, repeated
from whence.sql.builder import Builder
from whence.sql.catalyst import id_of
from whence.sql.selection import equalities
from whence.sql.tree import Node

_LEFT_MAY_MISS = ("RightOuter", "FullOuter")
_RIGHT_MAY_MISS = ("LeftOuter", "LeftSingle", "FullOuter")
BOTH_SIDES = ("Inner", "Cross", *_LEFT_MAY_MISS, *_RIGHT_MAY_MISS)


def join(node: Node, build: Builder) -> Annotated:
    """The matched row of each side; of outer joins only the side that is there; of anti joins the row itself."""
    kind = _kind(node)
    if kind not in BOTH_SIDES:
        return _one_side(node, build, kind)
    c = build.c
    left, right = (build.annotate(child) for child in node.children)
    left, right = (Annotated(side.plan, repeated(side.links)) for side in (left, right))
    plan = c.with_children(node.plan, [left.plan, right.plan])
    links = (
        *(nullable(left.links) if kind in _LEFT_MAY_MISS else left.links),
        *(nullable(right.links) if kind in _RIGHT_MAY_MISS else right.links),
    )
    # No projection above it, not even one that only orders columns: Spark reorders joins that stand right on each
    # other, and in the order of a FROM clause tables may come together that no condition joins.
    return Annotated(plan, links)


def _one_side(node: Node, build: Builder, kind: str) -> Annotated:
    c = build.c
    left = build.annotate(node.children[0])
    plan = c.with_children(node.plan, [left.plan, node.children[1].plan])
    kept = Annotated(plan, left.links)
    if kind == "LeftAnti":
        build.set_aside(node.children[1])
        return kept
    if kind != "LeftSemi" and not kind.startswith("ExistenceJoin"):
        raise build.unsupported(node, f"whence has no lineage rule for the join type {kind}")
    # The row and its matches: these are looked up by the columns of the row that the condition speaks of.
    option = node.plan.condition()
    condition = option.get() if option.isDefined() else None
    names = {id_of(a) for a in c.items(condition.references().toSeq())} if condition is not None else set()
    keys = [a for a in c.output(node.children[0].plan) if id_of(a) in names]
    block = build.block(node.children[1])
    pairs = [] if condition is None else equalities(c, condition, keys)
    matches = make_lookup(c, node, kept.plan, block, keys, condition, pairs)
    return Annotated(matches.plan, (*kept.links, *matches.links))


def _kind(node: Node) -> str:
    kind: str = node.plan.joinType().toString()
    return kind
