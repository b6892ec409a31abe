"""Follows given source rows up through a query, so that it can be told where each drops out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame

from whence.sql.blocks import Block, Link, Lookup, Place, ReadingPlace, in_branch, is_there, origin
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan, id_of
from whence.sql.lineage import SqlLineage
from whence.sql.sources import identify


@dataclass(frozen=True, eq=False)
class Seeds:
    """Source rows on their way. `number` tells them apart; `matches` says which rows of an operator hold one."""

    plan: Plan
    number: Attr
    matches: Callable[[Link], Expr]


def seeds_of(c: Catalyst, reading: ReadingPlace, ids: DataFrame) -> tuple[Seeds, DataFrame]:
    """The rows as seeds, and with their own columns behind their number."""
    leaf = identify(c, reading.leaf)
    number = c.alias(c.position(), "whence_seed")
    names = [c.alias(a, "whence_id") for a in c.output(c.plan_of(ids))[-len(leaf.ids) :]]
    known = [name.toAttribute() for name in names]
    plan = c.plan_of(c.materialise(c.extend(c.project(names, c.plan_of(ids)), [number])))

    def same_row(attrs: tuple[Attr, ...]) -> Expr:
        return c.conjunction([c.equal(a, k) for a, k in zip(attrs, known, strict=True)])

    rows = c.join(leaf.plan, plan, "inner", same_row(leaf.ids))
    shown = c.frame(c.project([number.toAttribute(), *leaf.columns], rows))
    return Seeds(
        plan, number.toAttribute(), lambda link: c.conjunction([same_row(link.attrs), *in_branch(c, link.when)])
    ), shown


def way_up(lineage: SqlLineage, reading: ReadingPlace, seeds: Seeds) -> Iterator[tuple[Place, Plan, Attr]]:
    """Each operator from the reading to the result, with those of its rows that hold a seed and the seed's number."""
    c = lineage.c
    target: ReadingPlace | Block = reading
    while True:
        places = [p for p in lineage.places if p.node.fact is None]
        here = [p for p in places if any(origin(link) is target for link in p.annotated.links)]
        for place in reversed(here):
            yield place, _holding(c, place.annotated.plan, place.annotated.links, target, seeds), seeds.number
        lookup = _lookup_of(lineage, here[0].block)
        if lookup is None:
            return
        block = lookup.block
        joined = _holding(c, block.annotated.plan, block.annotated.links, target, seeds)
        seeds, target = _lifted(c, lookup, joined, seeds.number), block


def _holding(c: Catalyst, plan: Plan, links: tuple[Link, ...], target: ReadingPlace | Block, seeds: Seeds) -> Plan:
    link = next(link for link in links if origin(link) is target)
    return c.join(plan, seeds.plan, "inner", seeds.matches(link))


def _lookup_of(lineage: SqlLineage, block: int) -> Lookup | None:
    for place in lineage.places:
        for link in place.annotated.links:
            if isinstance(link, Lookup) and link.block.number == block:
                return link
    return None


def _lifted(c: Catalyst, lookup: Lookup, joined: Plan, number: Attr) -> Seeds:
    """The seeds as the block above knows them: by what its lookup compares."""
    if lookup.condition is None:
        plan = c.plan_of(c.materialise(c.distinct(c.project([number], joined))))
        return Seeds(plan, number, lambda link: is_there(c, link))
    keys = {id_of(key) for key in lookup.keys}
    needed = c.references(lookup.condition) - keys
    inner = [c.alias(a, "whence_inner") for a in c.output(joined) if id_of(a) in needed]
    by_id = {id_of(i.child()): i.toAttribute() for i in inner}
    plan = c.plan_of(c.materialise(c.distinct(c.project([number, *inner], joined))))

    def matches(link: Link) -> Expr:
        outer = {id_of(k): a for k, a in zip(lookup.keys, link.attrs[1:], strict=False)}
        assert lookup.condition is not None
        return c.conjunction([is_there(c, link), c.substitute(lookup.condition, {**by_id, **outer})])

    return Seeds(plan, number, matches)
