"""Follows given source rows up through a query, so that it can be told where each drops out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from whence.model import operators
from whence.model.once import once
from whence.sql.blocks import Block, Link, Lookup, Place, ReadingPlace, in_branch, is_there, origin
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan, id_of
from whence.sql.lineage import SqlLineage

_PICKING = (*operators.LOOKED_THROUGH, "Filter", "Sort")
# Each of their rows comes from one row of each input, whatever other rows there are.
_ROW_BY_ROW = (*operators.LOOKED_THROUGH, *operators.PLACEMENT, "Project", "Filter", "Sort", "Join", "Generate")


@dataclass(frozen=True, eq=False)
class Seeds:
    """Source rows on their way. `number` tells them apart; `matches` says which rows of an operator hold one."""

    plan: Plan
    number: Attr
    matches: Callable[[Link], Expr]


def is_followed(to: SqlLineage, reading: ReadingPlace) -> bool:
    """Whether rows that are read there may come to the result; those of an anti join's other side never do."""
    return any(p.node is reading.leaf for p in to.places)


def scanned(to: SqlLineage, reading: ReadingPlace) -> tuple[Place, Link]:
    """The operator that reads, and its link to the rows that it reads."""
    place = next(p for p in to.places if p.node is reading.leaf)
    return place, next(link for link in place.annotated.links if origin(link) is reading)


def identities(to: SqlLineage, reading: ReadingPlace, ids: DataFrame) -> Plan:
    """The rows of a reading that have these identities: as the query reads them, kept."""
    c = to.c
    place, link = scanned(to, reading)
    names = [c.alias(a, "whence_id") for a in c.output(c.plan_of(ids))[-len(link.attrs) :]]
    same = c.conjunction([c.equal(a, n.toAttribute()) for a, n in zip(link.attrs, names, strict=True)])
    return c.keep(c.join(place.annotated.plan, c.project(names, c.plan_of(ids)), "leftsemi", same)).plan


def picked(rows: SqlLineage, theirs: ReadingPlace, to: SqlLineage, reading: ReadingPlace) -> Plan | None:
    """The same, where the asked rows are rows of the source as they are: known without looking for them again."""
    c = rows.c
    if any(node.kind not in _PICKING and node.children for node in rows.tree.walk()) or rows.passage.passed:
        return None
    block = rows.root
    found = [link for link in block.annotated.links if origin(link) is theirs]
    known = {id_of(a) for a in c.output(block.annotated.plan)}
    columns = c.output(theirs.leaf.plan)
    _, link = scanned(to, reading)
    here = (*c.output(reading.leaf.plan), *link.attrs)
    if len(found) != 1 or len(block.annotated.links) > 1 or any(id_of(a) not in known for a in columns):
        return None
    there = (*columns, *found[0].attrs)
    if [c.type_of(a) for a in there] != [c.type_of(a) for a in here]:
        return None
    fresh = [c.alias_as(one, other) for one, other in zip(there, here, strict=True)]
    return c.keep(c.project(fresh, block.annotated.plan)).plan


def seeds_of(to: SqlLineage, reading: ReadingPlace, rows: Plan) -> tuple[Seeds, DataFrame]:
    """These rows of a reading as seeds, and with their own columns behind their number."""
    c = to.c
    _, link = scanned(to, reading)
    number = c.alias(c.position(), "whence_seed")
    names = [c.alias(a, "whence_id") for a in link.attrs]
    own = [c.alias(a, a.name()) for a in c.output(reading.leaf.plan)]
    # Under ids of their own: the rows themselves stand in the query that these are joined with.
    numbered = c.keep(c.project([*names, number, *own], rows)).plan
    known = [name.toAttribute() for name in names]
    plan = c.project([*known, number.toAttribute()], numbered)

    def same_row(attrs: tuple[Attr, ...]) -> Expr:
        return c.conjunction([c.equal(a, k) for a, k in zip(attrs, known, strict=True)])

    return Seeds(
        plan, number.toAttribute(), lambda link: c.conjunction([same_row(link.attrs), *in_branch(c, link.when)])
    ), c.frame(c.project([number.toAttribute(), *[a.toAttribute() for a in own]], numbered))


class Level:
    """One block on the way up: its operators from the one where the seeds enter it to the one at its top.

    Where all of them go row by row, they are computed on the rows that hold a seed alone."""

    def __init__(
        self, lineage: SqlLineage, target: ReadingPlace | Block, seeds: Seeds, rows: Plan | None = None
    ) -> None:
        """`rows`: of the lowest operator, those that hold a seed, where they are known."""
        self._lineage = lineage
        self._target = target
        self.seeds = seeds
        places = [p for p in lineage.places if p.node.fact is None]
        self.places = [p for p in reversed(places) if any(origin(link) is target for link in p.annotated.links)]
        self._rows = rows
        self.below_rows: Plan | None = None  # of the block below, the rows at its top that hold a seed
        self._by_row = all(p.node.kind in _ROW_BY_ROW for p in self.places[1:])
        settled = {p.node for p in lineage.places if p.node.fact is not None}
        self._by_row = self._by_row and not settled

    @once
    def _base(self) -> Plan | None:
        if not self._by_row:
            return None
        if self._rows is not None:
            return self._rows
        c, lowest = self._lineage.c, self.places[0]
        link = next(link for link in lowest.annotated.links if origin(link) is self._target)
        # What the seeds are told by must not stand on both sides of the join.
        return c.keep(c.join(lowest.annotated.plan, self.seeds.plan, "leftsemi", self.seeds.matches(link))).plan

    def _on_seeds(self, plan: Plan) -> Plan:
        return (
            plan if self._base is None else _exchanged(self._lineage.c, plan, self.places[0].annotated.plan, self._base)
        )

    def holding(self, place: Place) -> Plan:
        """The rows of an operator that hold a seed, each with the seed's number."""
        return self._held(place.annotated.plan, place.annotated.links)

    def _held(self, plan: Plan, links: tuple[Link, ...], *, alone: bool = True) -> Plan:
        c = self._lineage.c
        link = next(link for link in links if origin(link) is self._target)
        return c.join(self._on_seeds(plan) if alone else plan, self.seeds.plan, "inner", self.seeds.matches(link))

    def above(self) -> Level | None:
        """The block that looks up the rows of this one; its seeds are those that reached the top of this one."""
        lookup = _lookup_of(self._lineage, self.places[-1].block)
        if lookup is None:
            return None
        block = lookup.block.annotated
        # What a window adds to the block below it (a row's place among the others) takes all rows to know.
        alone = block.plan.fastEquals(self.places[-1].annotated.plan)
        joined = self._held(block.plan, block.links, alone=alone)
        level = Level(self._lineage, lookup.block, _lifted(self._lineage.c, lookup, joined, self.seeds.number))
        level.below_rows = joined
        return level

    def numbers(self, plan: Plan) -> set[int]:
        c = self._lineage.c
        return {row[0] for row in c.frame(c.distinct(c.project([self.seeds.number], plan))).collect()}


def _exchanged(c: Catalyst, plan: Plan, old: Plan, new: Plan) -> Plan:
    if plan.fastEquals(old):
        return new
    children = c.children(plan)
    changed = [_exchanged(c, child, old, new) for child in children]
    if all(one is other for one, other in zip(changed, children, strict=True)):
        return plan
    return plan.withNewChildren(c.seq(changed))


def _lookup_of(lineage: SqlLineage, block: int) -> Lookup | None:
    for place in lineage.places:
        for link in place.annotated.links:
            if isinstance(link, Lookup) and link.block.number == block:
                return link
    return None


def _lifted(c: Catalyst, lookup: Lookup, joined: Plan, number: Attr) -> Seeds:
    """The seeds as the block above knows them: by what its lookup compares."""
    if lookup.condition is None:
        plan = c.keep(c.distinct(c.project([number], joined))).plan
        return Seeds(plan, number, lambda link: is_there(c, link))
    keys = {id_of(key) for key in lookup.keys}
    needed = c.references(lookup.condition) - keys
    inner = [c.alias(a, "whence_inner") for a in c.output(joined) if id_of(a) in needed]
    by_id = {id_of(i.child()): i.toAttribute() for i in inner}
    plan = c.keep(c.distinct(c.project([number, *inner], joined))).plan

    def matches(link: Link) -> Expr:
        outer = {id_of(k): a for k, a in zip(lookup.keys, link.attrs[1:], strict=False)}
        assert lookup.condition is not None
        return c.conjunction([is_there(c, link), c.substitute(lookup.condition, {**by_id, **outer})])

    return Seeds(plan, number, matches)
