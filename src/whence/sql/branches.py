"""Groups of many branches of a union, looked up in one query: a job for each branch would take as long as a thousand
queries.

The branches of a union share the columns that tell their groups (rules/union.py), so that the rows behind all of them
are one union again, joined once with the keys that are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import functions as F

from whence.sql.blocks import Annotated, Block, Link, Lookup, in_branch, same_branches
from whence.sql.catalyst import Attr, Catalyst, Expr, Kept, Plan, id_of
from whence.sql.rules.union import united

# From so many on they are looked up together.
MANY = 4
# Up to so many keys of one branch become a filter that Spark can push into its scans.
_FEW = 200
# Of more rows the driver is not told the keys.
_MOST = 100_000
_GROUPING = ("Aggregate", "Distinct", "Deduplicate")
# A branch, and what is asked for in it.
Keys = Mapping[int, Sequence[tuple[object, ...]]]


def alike(links: Sequence[Link]) -> list[list[Lookup]]:
    """Lookups of groups that differ in nothing but their branch of a union, where they are many."""
    found: dict[tuple[object, ...], list[Lookup]] = {}
    for link in links:
        if isinstance(link, Lookup) and link.when and link.stored is None and _finds_groups(link):
            found.setdefault(same_branches(link), []).append(link)
    return [links for links in found.values() if len(links) >= MANY]


def _finds_groups(link: Lookup) -> bool:
    """Whether it finds all rows of groups, and by their keys alone."""
    return link.node.kind in _GROUPING and len(link.keys) == len(link.equalities) == len(link.attrs) - 1


def behind(c: Catalyst, links: Sequence[Lookup], kept: Kept, rows_of: Callable[[Block], Plan]) -> Annotated | None:
    """The rows that computed rows look up there, with what they carry: of all these lookups in one query.

    None where there is a lookup that no row asks for."""
    asked = _asked(c, links[0], kept.plan)
    keys = _keys(c, asked, kept)
    if keys is not None and any(link.when[-1][1] not in keys for link in links):
        return None
    hints = [_hints(c, link, [] if keys is None else keys[link.when[-1][1]]) for link in links]
    # One key of each branch, told by constants: there is nothing left to join.
    is_told = keys is not None and all(len(keys[link.when[-1][1]]) == 1 for link in links)
    is_told = is_told and all(len(hint) == len(link.keys) for hint, link in zip(hints, links, strict=True))
    parts = []
    for link, hint in zip(links, hints, strict=True):
        rows = rows_of(link.block)
        rows = c.filter(c.conjunction(hint), rows) if hint else rows
        parts.append(([] if is_told else _told_by(c, link), Annotated(rows, link.block.annotated.links)))
    joint = united(c, parts)
    if is_told:
        return joint
    same = _same(c, c.output(joint.plan), c.output(asked))
    wanted = c.distinct(asked)
    wanted = c.plan_of(F.broadcast(c.frame(wanted))) if kept.local else wanted
    return Annotated(c.join(joint.plan, wanted, "leftsemi", same), joint.links)


def touched(c: Catalyst, below: Sequence[tuple[Lookup, Plan]]) -> tuple[Plan, Callable[[Plan], Expr]]:
    """The groups that these rows are in, of all branches: the branch and the keys. And how a row of the block above is
    known to be one of them."""
    plans = [c.project(_told_by(c, link), rows) for link, rows in below]
    first = below[0][0]

    def is_one(groups: Plan) -> Expr:
        *outer, (tells, _) = first.when
        there = [c.is_not_null(first.present), *in_branch(c, outer)]
        return c.conjunction([*there, _same(c, [tells, *first.asked], c.output(groups))])

    return c.distinct(plans[0] if len(plans) == 1 else c.union(plans)), is_one


def _told_by(c: Catalyst, link: Lookup) -> list[Expr]:
    """Of a row of the block below: the branch, and the keys of the group that it is in."""
    by_key = {id_of(key): expr for key, expr in link.equalities}
    keys = [c.alias(by_key[id_of(key)], "whence_key") for key in link.keys]
    return [c.alias(c.number(link.when[-1][1]), "whence_at"), *keys]


def _asked(c: Catalyst, link: Lookup, rows: Plan) -> Plan:
    """The branches and keys that rows look up, of all lookups that differ in their branch alone."""
    *outer, (tells, _) = link.when
    there = c.filter(c.conjunction([c.is_not_null(link.present), *in_branch(c, outer)]), rows)
    return c.project([c.alias(tells, "whence_at"), *[c.alias(key, "whence_key") for key in link.asked]], there)


def _keys(c: Catalyst, asked: Plan, kept: Kept) -> Keys | None:
    """What is asked for in each branch, as Python is told it; None if it is much."""
    if kept.total > _MOST:
        return None
    told = c.project([c.alias(c.told(attr), f"k{i}") for i, attr in enumerate(c.output(asked))], asked)
    found: dict[Any, dict[tuple[object, ...], None]] = {}
    for branch, *key in c.rows(told if kept.local else c.distinct(told)):
        found.setdefault(branch, {})[tuple(key)] = None
    return {branch: list(keys) for branch, keys in found.items()}


def _hints(c: Catalyst, link: Lookup, keys: Sequence[tuple[object, ...]]) -> list[Expr]:
    """What follows for the rows below, in a form that Spark can push into the scans."""
    if not 0 < len(keys) <= _FEW:
        return []
    at = {id_of(key): i for i, key in enumerate(link.keys)}
    found = [c.one_of(expr, [key[at[id_of(name)]] for key in keys]) for name, expr in link.equalities]
    return [hint for hint in found if hint is not None]


def _same(c: Catalyst, ours: Sequence[Attr], theirs: Sequence[Attr]) -> Expr:
    """That the branch is the same, and each key is, NULL being one value."""
    (at, *keys), (other, *others) = ours, theirs
    return c.conjunction([c.equal(at, other), *[c.same(a, b) for a, b in zip(keys, others, strict=False)]])
