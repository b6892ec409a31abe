from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from whence.sql.blocks import Annotated, Lookup, make_lookup
from whence.sql.builder import Builder
from whence.sql.catalyst import Attr, Expr
from whence.sql.columns import enters as entering
from whence.sql.rules.choice import require_no_choice
from whence.sql.tree import Node


def aggregate(node: Node, build: Builder) -> Annotated:
    """Every row of the group, NULL keys being one group. Without keys: every row."""
    c = build.c
    keys = c.items(node.plan.groupingExpressions())
    if build.wavering.sessions and any(map(c.is_session, keys)):
        raise build.unsupported(node, "its sessions are merged where they touch: a row's window is no group")
    named = [c.alias(key, "whence_group") for key in keys]
    outputs = c.items(node.plan.aggregateExpressions())
    counted = [c.alias(c.count_rows(), "whence_count")] if build.taps(node) else []
    enters = entering(c, outputs) if build.some_columns and not counted and build.fact_of(node) is None else None
    any_enters = [] if enters is None else [c.alias(c.any_true(enters), "whence_any")]
    plan = c.copy(node.plan, aggregateExpressions=c.seq([*outputs, *named, *any_enters, *counted]))
    pairs = [(name.toAttribute(), key) for name, key in zip(named, keys, strict=True)]
    return _group(node, build, plan, pairs, None if enters is None else (any_enters[0].toAttribute(), enters))


def distinct(node: Node, build: Builder) -> Annotated:
    """All duplicates."""
    return _group_by_columns(node, build, build.c.output(node.children[0].plan))


def deduplicate(node: Node, build: Builder) -> Annotated:
    """`dropDuplicates(columns)`: the whole group, whichever of its rows was kept."""
    return _group_by_columns(node, build, build.c.items(node.plan.keys()))


def _group_by_columns(node: Node, build: Builder, columns: Sequence[Attr]) -> Annotated:
    c = build.c
    named = [c.alias(column, "whence_group") for column in columns]
    pairs = [(name.toAttribute(), column) for name, column in zip(named, columns, strict=True)]
    return _group(node, build, c.extend(node.plan, named), pairs)


def _group(
    node: Node,
    build: Builder,
    plan: Expr,
    pairs: Sequence[tuple[Attr, Expr]],
    enters: tuple[Attr, Expr] | None = None,
) -> Annotated:
    """`plan` gives, behind the node's own output, one attribute for each key; they are hidden again from its users.

    `enters`: which rows of a group enter what is asked for, and the attribute that says if any does. If none does, that
    is what all of them have to say."""
    c = build.c
    if c.is_domain(node.plan):
        with build.auxiliary():
            block = build.block(node.children[0])
    else:
        block = build.block(node.children[0])
    tests = [c.same(key, name) for name, key in pairs]
    names = [name for name, _ in pairs]
    if enters is not None:
        any_enters, test = enters
        tests.append(c.disjunction([test, c.negation(any_enters)]))
        names.append(any_enters)
    require_no_choice(node, build, block, [key for _, key in pairs])
    condition = c.conjunction(tests) if tests else None
    counted = []
    if build.taps(node):
        # What it counts goes behind all else: as many rows must have passed the tap.
        plan = c.with_children(plan, [build.tapped([key for _, key in pairs], block)])
        counted = c.output(plan)[-1:]
    found = make_lookup(c, node, plan, block, names, condition, pairs)
    fact = build.fact_of(node)
    links = found.links
    if fact is not None and fact.tapped is not None:
        links = tuple(replace(link, stored=fact) for link in links if isinstance(link, Lookup))
    own = c.output(node.plan)
    return Annotated(c.project([*own, *found.attrs, *counted], found.plan), links)
