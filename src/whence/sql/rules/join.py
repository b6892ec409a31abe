from __future__ import annotations

from whence.sql.blocks import Annotated, make_lookup, nullable, repeated
from whence.sql.builder import Builder
from whence.sql.catalyst import Catalyst, Expr, class_name, id_of
from whence.sql.selection import all_of, equalities
from whence.sql.sources import is_of_parameters, takes_parameters
from whence.sql.tree import Node

_LEFT_MAY_MISS = ("RightOuter", "FullOuter")
_RIGHT_MAY_MISS = ("LeftOuter", "LeftSingle", "FullOuter")
BOTH_SIDES = ("Inner", "Cross", *_LEFT_MAY_MISS, *_RIGHT_MAY_MISS)


def join(node: Node, build: Builder) -> Annotated:
    """The matched row of each side; of outer joins only the side that is there; of anti joins the row itself."""
    kind = _kind(node)
    if kind not in BOTH_SIDES:
        return _one_side(node, build, kind)
    if kind == "Inner" and (pairs := _of_pairs(node, build)) is not None:
        return pairs
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


def _of_pairs(node: Node, build: Builder) -> Annotated | None:
    """Rows that meet in the query of the same captured write (alike_writes.py), where the right side has the same rows
    for every write: these need not stand there once for each, since the left side says which write it is.

    None for other joins."""
    c, (first, second) = build.c, node.children
    if second.kind != "Join" or not takes_parameters(second) or not node.plan.condition().isDefined():
        return None
    theirs = c.output(second.children[1].plan)
    tests = all_of(c, node.plan.condition().get())
    said = [(test, write) for test in tests if (write := _other_side(c, test, id_of(theirs[0]))) is not None]
    rest = [test for test in tests if not said or test is not said[0][0]]
    if not said or any(c.references(test) & {id_of(a) for a in theirs} for test in rest):
        return None
    write = id_of(said[0][1])
    tables = [leaf for leaf in first.walk() if is_of_parameters(c, leaf) and id_of(c.output(leaf.plan)[0]) == write]
    if len(tables) != 1 or not {id_of(a) for a in c.output(tables[0].plan)} <= {id_of(a) for a in c.output(first.plan)}:
        return None
    left = build.annotate(first)
    right, other = build.paired(second)
    plan = c.join(left.plan, right.plan, "inner", c.conjunction(rest) if rest else None)
    ours = [c.alias_as(a, b) for a, b in zip(c.output(tables[0].plan), theirs, strict=True)]
    numbers = [c.alias_as(c.output(tables[0].plan)[0], number) for number in other.attrs]
    return Annotated(c.extend(plan, [*ours, *numbers]), repeated((*left.links, *right.links, *other.links)))


def _other_side(c: Catalyst, test: Expr, attribute: int) -> Expr | None:
    """The attribute that a test wants this one to equal."""
    sides = c.children(test) if class_name(test) == "EqualTo" else []
    if any(class_name(side) != "AttributeReference" for side in sides):
        return None
    return next((one for one, other in zip(sides, sides[::-1], strict=True) if id_of(other) == attribute), None)


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
