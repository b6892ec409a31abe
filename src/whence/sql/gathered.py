"""What a grouping gathers, computed once with the identities that the rows carry, and grouped from there.

Of a report that a LIMIT cuts all groups must be known before a question about one of them can be answered, and then the
rows of that one are looked for, in the same joins. They are no more than the query joins, and what they carry is
little: so they are kept when they are first computed, and the groups are made of what was kept. The same holds where
groups are grouped again, of which one is asked for by what it counts; and forward, where the group that a row is in is
looked for first, and is then shown whole."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from whence.sql import computed_before
from whence.sql.blocks import Block, Link, Lookup, Place
from whence.sql.catalyst import Catalyst, Kept, Plan, id_of
from whence.sql.left_first import all_left_first


def computed(c: Catalyst, plan: Plan, links: Sequence[Link], places: Sequence[Place]) -> Plan:
    """The rows of `plan`, which come from what these links lead to, computed now or by an earlier question."""
    gathers = gather(c, links, places)
    return computed_before.computed(c, plan, partial(grouped, c, plan, links) if gathers else None)


def gather(c: Catalyst, links: Sequence[Link], places: Sequence[Place]) -> bool:
    """Computes what the groupings at these links gather; whether any does."""
    found = [_gather(c, link, places) for link in links if isinstance(link, Lookup)]
    return any(found)


def grouped(c: Catalyst, plan: Plan, links: Sequence[Link]) -> Plan:
    """`plan`, with the groups at these links made of what they gather, where that is computed."""
    for link in links:
        if isinstance(link, Lookup) and link.block.kept is not None:
            plan = c.exchanged(plan, link.node.children[0].plan, link.block.kept)
    return plan


def rows_of(block: Block) -> Plan:
    """The rows of a block, or what is needed of them where that is computed."""
    return block.annotated.plan if block.kept is None else block.kept


def rows_with(c: Catalyst, block: Block, places: Sequence[Place], needed: AbstractSet[int]) -> Kept | None:
    """All rows of a block with the identities that they carry and these of their own columns, computed now or by an
    earlier question; None where they are too many."""
    carried, links = block.annotated.attrs, block.annotated.links
    own = [a for a in c.output(block.annotated.plan) if id_of(a) in needed - {id_of(a) for a in carried}]
    columns = [*carried, *own]
    # Where the block's rows are groups themselves, what these gather is looked for next.
    gather(c, links, places)
    left = all_left_first(c, block, places, {id_of(a) for a in own})
    plan = c.project(columns, block.annotated.plan)
    quicker = grouped(c, block.annotated.plan, links) if left is None else left
    return computed_before.wide(c, plan, lambda: c.project(columns, quicker))


def _gather(c: Catalyst, link: Lookup, places: Sequence[Place]) -> bool:
    """Whether the rows that a grouping gathers are computed. Not so where no join stands below, since a group is then a
    filter on a scan, nor where they are too many."""
    block = link.block
    if block.kept is None and _joins(link) and not _is_known(c, link):
        rows = rows_with(c, block, places, c.references(link.node.plan))
        block.kept = None if rows is None else rows.plan
    return block.kept is not None


def _is_known(c: Catalyst, link: Lookup) -> bool:
    """Whether the groups can be had without what they gather; or it runs functions of the user's."""
    return c.has_user_functions(link.block.annotated.plan) or c.is_computed(link.node.plan)


def _joins(link: Lookup) -> bool:
    if link.node.kind != "Aggregate" or link.stored is not None or not link.equalities:
        return False
    return bool(link.block.annotated.attrs) and any(node.kind == "Join" for node in link.block.node.walk())
