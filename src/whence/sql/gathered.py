"""What a grouping gathers, computed once with the identities that the rows carry, and grouped from there.

Of a report that a LIMIT cuts all groups must be known before a question about one of them can be answered, and then the
rows of that one are looked for, in the same joins. They are no more than the query joins, and what they carry is
little: so they are kept when they are first computed, and the groups are made of what was kept."""

from __future__ import annotations

from collections.abc import Sequence

from whence.sql import computed_before
from whence.sql.blocks import Block, Link, Lookup
from whence.sql.catalyst import Catalyst, Plan, id_of


def computed(c: Catalyst, plan: Plan, links: Sequence[Link]) -> Plan:
    """The rows of `plan`, which come from what these links lead to, computed now or by an earlier question."""
    below = [link for link in links if isinstance(link, Lookup) and _gather(c, link)]

    def grouped() -> Plan:
        found = plan
        for link in below:
            assert link.block.kept is not None
            found = c.exchanged(found, link.node.children[0].plan, link.block.kept)
        return found

    return computed_before.computed(c, plan, grouped if below else None)


def rows_of(block: Block) -> Plan:
    """The rows of a block, or what is needed of them where that is computed."""
    return block.annotated.plan if block.kept is None else block.kept


def _gather(c: Catalyst, link: Lookup) -> bool:
    """Whether the rows that a grouping gathers are computed. Not so where no join stands below, since a group is then a
    filter on a scan, nor where they are too many."""
    block = link.block
    if block.kept is None and _joins(link) and not c.has_user_functions(block.annotated.plan):
        needed = c.references(link.node.plan) - {id_of(a) for a in block.annotated.attrs}
        own = [a for a in c.output(block.annotated.plan) if id_of(a) in needed]
        rows = computed_before.wide(c, c.project([*block.annotated.attrs, *own], block.annotated.plan))
        block.kept = None if rows is None else rows.plan
    return block.kept is not None


def _joins(link: Lookup) -> bool:
    if link.node.kind != "Aggregate" or link.stored is not None or not link.equalities:
        return False
    return bool(link.block.annotated.attrs) and any(node.kind == "Join" for node in link.block.node.walk())
