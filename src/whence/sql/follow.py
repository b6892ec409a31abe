"""Follows given source rows up through a query, so that it can be told where each drops out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from whence.model import operators
from whence.model.once import once
from whence.sql.blocks import Block, Link, Lookup, Place, ReadingPlace, in_branch, is_there, origin
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan, class_name, id_of
from whence.sql.evaluation import FEW, all_survive
from whence.sql.lineage import SqlLineage

_PICKING = (*operators.LOOKED_THROUGH, "Filter", "Sort")
# Each of their rows comes from one row of each input, whatever other rows there are.
_ROW_BY_ROW = (*operators.LOOKED_THROUGH, *operators.PLACEMENT, "Project", "Filter", "Sort", "Join", "Generate")
# All rows that come in go out.
KEEPING = (*operators.LOOKED_THROUGH, *operators.PLACEMENT, "Project", "Sort", "Union")
# Every row that comes in is in a row that goes out.
_GATHERING = ("Aggregate", "Distinct")


@dataclass(frozen=True, eq=False)
class Seeds:
    """Source rows on their way. `number` tells them apart; `matches` says which rows of an operator hold one.

    `told`: the number of the seed that a row holds, of rows that hold one, where the row itself tells it. `constant`:
    what `matches` comes to where it needs no other rows; `hint`: what follows from it, for scans."""

    plan: Plan
    number: Attr
    matches: Callable[[Link], Expr]
    told: Callable[[Link], Expr] | None = None
    constant: Callable[[Link], Expr] | None = None
    hint: Callable[[Link], Expr | None] | None = None
    # The number, where there is but one seed, and its values as constants, under the attributes of its reading.
    one: int | None = None
    one_row: Plan | None = None


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
    if (numbered := _told_by_numbers(rows, theirs, to, reading)) is not None:
        return c.keep(numbered).plan
    fresh = [c.alias_as(one, other) for one, other in zip(there, here, strict=True)]
    return c.keep(c.project(fresh, block.annotated.plan)).plan


def goes_alone(to: SqlLineage, reading: ReadingPlace) -> bool:
    """Whether the rows of a reading are followed without a look at what they are told by: up to the first operator that
    looks its rows up they are gone through alone, and it knows them by their values."""
    level = Level(to, reading)
    if not level.by_row:
        return False
    lookup = _lookup_of(to, level.places[-1].block)
    if lookup is None:
        return True
    told = {id_of(a) for a in lookup.block.annotated.attrs}
    asked = set() if lookup.condition is None else to.c.references(lookup.condition)
    return level.is_whole(lookup) and not told & asked and len(lookup.attrs) == 1 + len(lookup.keys)


def _told_by_numbers(rows: SqlLineage, theirs: ReadingPlace, to: SqlLineage, reading: ReadingPlace) -> Plan | None:
    """The same, where nothing looks for these rows in the source again: then any number tells them apart, and what they
    are told by elsewhere, for which some formats are read from end to end, in one task, is not asked for."""
    c = rows.c
    _, link = scanned(to, reading)
    plan, columns = rows.tree.plan, c.output(theirs.leaf.plan)
    if any(c.type_of(a) != "bigint" for a in link.attrs) or theirs.leaf.rows is not None or not plan.deterministic():
        return None
    if not {id_of(a) for a in columns} <= {id_of(a) for a in c.output(plan)} or not goes_alone(to, reading):
        return None
    own = [c.alias_as(one, other) for one, other in zip(columns, c.output(reading.leaf.plan), strict=True)]
    return c.project([*own, *[c.alias_as(c.position(), attr) for attr in link.attrs]], plan)


def seeds_of(to: SqlLineage, reading: ReadingPlace, rows: Plan) -> tuple[Seeds, DataFrame]:
    """These rows of a reading as seeds, and with their own columns behind their number."""
    c = to.c
    _, link = scanned(to, reading)
    told = c.local_rows(c.frame(c.project([c.alias(link.attrs[-1], "whence_row")], rows)))
    apart = told is not None and len({row[0] for row in told}) == len(told)
    number = c.alias(link.attrs[-1] if apart else c.position(), "whence_seed")
    names = [c.alias(a, "whence_id") for a in link.attrs]
    own = [c.alias(a, a.name()) for a in c.output(reading.leaf.plan)]
    # Under ids of their own: the rows themselves stand in the query that these are joined with.
    numbered = c.keep(c.project([*names, number, *own], rows)).plan
    known = [name.toAttribute() for name in names]
    plan = c.project([*known, number.toAttribute()], numbered)

    def same_row(attrs: tuple[Attr, ...]) -> Expr:
        return c.conjunction([c.equal(a, k) for a, k in zip(attrs, known, strict=True)])

    seeds = Seeds(
        plan, number.toAttribute(), lambda link: c.conjunction([same_row(link.attrs), *in_branch(c, link.when)])
    )
    if apart and told is not None:
        seeds = replace(seeds, told=lambda link: link.attrs[-1])
        if len(told) == 1:
            seeds = replace(seeds, one=told[0][0], one_row=_constants(c, rows))
    return seeds, c.frame(c.project([number.toAttribute(), *[a.toAttribute() for a in own]], numbered))


def _constants(c: Catalyst, row: Plan) -> Plan | None:
    """The same row made of constants, which Spark follows into the scans that it is joined with; None where a value
    does not survive the way through Python."""
    attrs = c.output(row)
    if not all(map(c.is_plain, attrs)):
        return None
    (values,) = c.frame(c.project([c.alias(c.told(a), f"v{i}") for i, a in enumerate(attrs)], row)).collect()
    if not all_survive(c, attrs, values):
        return None
    return c.one_row([c.alias_as(c.literal(value, a), a) for value, a in zip(values, attrs, strict=True)])


@dataclass(frozen=True, eq=False)
class Crossed:
    """Tables that are joined without a condition. `seeds`: of the one that holds the seeds, the rows that do, with
    their numbers; `constants`: the same, made of constants where it can be."""

    seeds: Plan
    constants: Plan
    others: tuple[Plan, ...]


def _joined_by_nothing(c: Catalyst, plan: Plan) -> list[Plan]:
    if not is_cross(plan):
        return [plan]
    return [table for child in c.children(plan) for table in _joined_by_nothing(c, child)]


def is_cross(plan: Plan) -> bool:
    """Whether this is a join of each row with each."""
    if class_name(plan) != "Join" or plan.condition().isDefined():
        return False
    return str(plan.joinType().toString()) in ("Inner", "Cross")


class Level:
    """One block on the way up: its operators from the one where the seeds enter it to the one at its top.

    As far up as they go row by row, they are computed on the rows that hold a seed alone."""

    def __init__(
        self, lineage: SqlLineage, target: ReadingPlace | Block, seeds: Seeds | None = None, rows: Plan | None = None
    ) -> None:
        """`rows`: of the lowest operator, those that hold a seed, where they are known."""
        self._lineage = lineage
        self._target = target
        self._seeds = seeds
        places = [p for p in lineage.places if p.node.fact is None]
        self.places = [p for p in reversed(places) if any(origin(link) is target for link in p.annotated.links)]
        self._rows = rows
        self.below_rows: Plan | None = None  # of the block below, the rows at its top that hold a seed
        settled = any(p.node.fact is not None for p in lineage.places)
        others = (at for at, p in enumerate(self.places) if at and p.node.kind not in _ROW_BY_ROW)
        self._row_by_row = 0 if settled else next(others, len(self.places))  # so many, from the lowest on

    @property
    def seeds(self) -> Seeds:
        assert self._seeds is not None
        return self._seeds

    @property
    def by_row(self) -> bool:
        return self._row_by_row == len(self.places)

    def is_whole(self, lookup: Lookup) -> bool:
        """Whether the operator at the top is all of the block. What a window adds to the block below it (a row's place
        among the others) takes all rows to know."""
        return bool(lookup.block.annotated.plan.fastEquals(self.places[-1].annotated.plan))

    @once
    def _base(self) -> Plan | None:
        """Of the lowest operator, the rows that hold a seed; None where all of its rows are needed."""
        if not self._row_by_row:
            return None
        return self._lineage.c.keep(self._lowest()).plan if self._rows is None else self._rows

    def _lowest(self) -> Plan:
        c, lowest, seeds = self._lineage.c, self.places[0], self.seeds
        link = self._link(lowest.annotated.links)
        if seeds.constant is not None:
            return c.filter(seeds.constant(link), lowest.annotated.plan)
        hint = None if seeds.hint is None else seeds.hint(link)
        plan = lowest.annotated.plan if hint is None else c.filter(hint, lowest.annotated.plan)
        # What the seeds are told by must not stand on both sides of the join.
        return c.join(plan, seeds.plan, "leftsemi", seeds.matches(link))

    def _link(self, links: tuple[Link, ...]) -> Link:
        return next(link for link in links if origin(link) is self._target)

    @property
    def keeps_all(self) -> bool:
        """Whether every seed is in a row at the top, here and in all blocks above, whatever the rows are."""
        lowest, *others = self.places
        if lowest.node.children and (lowest.node.kind not in _GATHERING or not self.by_row):
            return False
        if any(place.node.kind not in KEEPING for place in others):
            return False
        lookup = _lookup_of(self._lineage, self.places[-1].block)
        return lookup is None or Level(self._lineage, lookup.block, self.seeds).keeps_all

    def _on_seeds(self, plan: Plan, *, joined: bool) -> Plan:
        base = self._base
        if base is None:
            return plan
        if joined and self._rows is not None and self.seeds.one_row is not None:
            base = self.seeds.one_row
        return self._lineage.c.exchanged(plan, self.places[0].annotated.plan, base)

    def holding(self, place: Place) -> Plan:
        """The rows of an operator that hold a seed, each with the seed's number."""
        at = self.places.index(place)
        joined = any(other.node.kind == "Join" for other in self.places[: at + 1])
        return self._held(place.annotated.plan, place.annotated.links, alone=at < self._row_by_row, joined=joined)

    def _held(self, plan: Plan, links: tuple[Link, ...], *, alone: bool = True, joined: bool = True) -> Plan:
        c, seeds = self._lineage.c, self.seeds
        link = self._link(links)
        if seeds.told is not None:
            if alone and self._base is not None:
                return self._numbered(link, self._on_seeds(plan, joined=joined))
            if seeds.constant is not None:
                return c.extend(c.filter(seeds.constant(link), plan), [c.alias_as(seeds.told(link), seeds.number)])
        rows = self._on_seeds(plan, joined=joined) if alone else plan
        return c.join(rows, seeds.plan, "inner", seeds.matches(link))

    def _numbered(self, link: Link, rows: Plan) -> Plan:
        """Rows that come from those that hold a seed, with the number that they tell."""
        c, seeds = self._lineage.c, self.seeds
        assert seeds.told is not None
        return c.extend(c.filter(is_there(c, link), rows), [c.alias_as(seeds.told(link), seeds.number)])

    def reached(self, above: Level | None) -> set[int]:
        """The numbers of the seeds that are in a row at the top. `above`: the block above, if there is one."""
        if above is not None:
            return self.numbers(above.seeds.plan)
        top = self.places[-1]
        if self.seeds.constant is None or self.seeds.told is None or not self.by_row:
            return self.numbers(self.holding(top))
        # The rows are not kept for that, so that Spark computes no more of a group than what decides whether it stays.
        c = self._lineage.c
        rows = c.exchanged(top.annotated.plan, self.places[0].annotated.plan, self._lowest())
        return self.numbers(self._numbered(self._link(top.annotated.links), rows))

    def above(self) -> Level | None:
        """The block that looks up the rows of this one; its seeds are those that reached the top of this one."""
        lookup = _lookup_of(self._lineage, self.places[-1].block)
        if lookup is None:
            return None
        block = lookup.block.annotated
        alone = self.by_row and self.is_whole(lookup)
        joins = any(place.node.kind == "Join" for place in self.places)
        joined = self._held(block.plan, block.links, alone=alone, joined=joins)
        level = Level(
            self._lineage, lookup.block, _lifted(self._lineage.c, lookup, joined, self.seeds, local=not joins)
        )
        level.below_rows = joined
        return level

    def crossed(self, place: Place) -> Crossed | None:
        """What a filter looks at, where it stands on tables that are joined by nothing but its condition."""
        c = self._lineage.c
        if place.node.kind != "Filter" or self.seeds.told is None:
            return None
        below = c.children(place.annotated.plan)[0]
        if not is_cross(below) or self.places.index(place) >= self._row_by_row or self._base is None:
            return None
        link = self._link(place.annotated.links)
        tables = _joined_by_nothing(c, self._on_seeds(below, joined=False))
        (at,) = [n for n, table in enumerate(tables) if id_of(link.present) in {id_of(a) for a in c.output(table)}]
        constants = _joined_by_nothing(c, self._on_seeds(below, joined=True))
        return Crossed(
            self._numbered(link, tables[at]), self._numbered(link, constants[at]), (*tables[:at], *tables[at + 1 :])
        )

    def numbers(self, plan: Plan) -> set[int]:
        c = self._lineage.c
        told = c.project([self.seeds.number], plan)
        some = c.distinct_on_driver(told) if self.seeds.one is None else c.limit(1, told)
        return {row[0] for row in c.frame(c.taken(some)).collect()}


def _lookup_of(lineage: SqlLineage, block: int) -> Lookup | None:
    for place in lineage.places:
        for link in place.annotated.links:
            if isinstance(link, Lookup) and link.block.number == block:
                return link
    return None


def _lifted(c: Catalyst, lookup: Lookup, joined: Plan, seeds: Seeds, *, local: bool) -> Seeds:
    """The seeds as the block above knows them: by what its lookup compares. `local`: their rows are on the driver."""
    distinct = c.distinct_on_driver if local else c.distinct
    number, one, condition = seeds.number, seeds.one, lookup.condition
    told = None if one is None else lambda link: c.long(one)
    if condition is None:
        kept = c.keep(distinct(c.project([number], joined)))
        there = (lambda link: is_there(c, link)) if one is not None and kept.total else None
        return Seeds(kept.plan, number, lambda link: is_there(c, link), told, there, one=one)
    keys = {id_of(key) for key in lookup.keys}
    needed = c.references(condition) - keys
    inner = [c.alias(a, "whence_inner") for a in c.output(joined) if id_of(a) in needed]
    by_id = {id_of(i.child()): i.toAttribute() for i in inner}
    kept = c.keep(distinct(c.project([number, *inner], joined)))

    def matches(link: Link, known: Mapping[int, Expr] = by_id) -> Expr:
        return c.conjunction([is_there(c, link), c.substitute(condition, {**known, **_outer(lookup, link)})])

    lifted = Seeds(kept.plan, number, matches, told, one=one)
    if not (kept.local and 0 < kept.total <= FEW):
        return lifted
    names = list(by_id.values())
    rows = _told_rows(c, names, kept.plan)
    if one is not None and len(rows) == 1 and all_survive(c, names, rows[0]):
        values = {key: c.literal(value, a) for (key, a), value in zip(by_id.items(), rows[0], strict=True)}
        return replace(lifted, constant=lambda link: matches(link, values))
    sought = [key for key, _ in lookup.equalities]
    found = _told_rows(c, [c.substitute(expr, by_id) for _, expr in lookup.equalities], kept.plan)

    def hint(link: Link) -> Expr | None:
        outer = _outer(lookup, link)
        hints = [c.one_of(outer[id_of(key)], [row[i] for row in found]) for i, key in enumerate(sought)]
        known = [one for one in hints if one is not None]
        return c.conjunction(known) if known else None

    return replace(lifted, hint=hint)


def _outer(lookup: Lookup, link: Link) -> dict[int, Attr]:
    """The keys of a lookup as an operator's rows carry them."""
    return {id_of(key): attr for key, attr in zip(lookup.keys, link.attrs[1:], strict=False)}


def _told_rows(c: Catalyst, exprs: Sequence[Expr], plan: Plan) -> list[tuple[object, ...]]:
    told = c.project([c.alias(c.told(e), f"v{i}") for i, e in enumerate(exprs)], plan)
    return list(dict.fromkeys(tuple(row) for row in c.frame(told).collect()))
