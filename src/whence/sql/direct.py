"""Witness rows without a look-up: where a block does no more than choose rows of one reading, the same choice, made
right above the scan, gives them. Spark then pushes it into the scan, and nothing is read twice."""

from __future__ import annotations

from collections.abc import Sequence

from whence.sql.blocks import Reading, ReadingPlace
from whence.sql.catalyst import Catalyst, Expr, Plan
from whence.sql.lineage import SqlLineage
from whence.sql.selection import asked_by_key, choices
from whence.sql.sources import has_row_index, identify


def direct_rows(lineage: SqlLineage, place: ReadingPlace) -> tuple[Plan, Sequence[int]] | None:
    """The rows of a reading that any row of the query came from, their identities behind them, and the places of these.

    None where that takes more than a choice among the reading's own rows."""
    tests = _tests(lineage, place)
    if tests is None:
        return None
    leaf = identify(lineage.c, place.leaf)
    return _chosen(lineage.c, tests, leaf.plan), range(len(leaf.columns), len(leaf.columns) + len(leaf.ids))


def direct_values(lineage: SqlLineage, place: ReadingPlace) -> Plan | None:
    """The same without identities. Where these say nothing of how the files are read, the scan is the query's own, so
    that Spark sees what it has to compute once for both."""
    c, tests = lineage.c, _tests(lineage, place)
    if tests is None:
        return None
    own = c.output(place.leaf.plan)
    if has_row_index(c, place.leaf):
        return _chosen(c, tests, place.leaf.plan)
    return c.project(own, _chosen(c, tests, identify(c, place.leaf).plan))


def _chosen(c: Catalyst, tests: Sequence[Expr], plan: Plan) -> Plan:
    for test in reversed(tests):  # the nearest to the scan first: others may fail on rows that it shuts out
        plan = c.filter(test, plan)
    return plan


def _tests(lineage: SqlLineage, place: ReadingPlace) -> Sequence[Expr] | None:
    """What rows of the reading must meet to be witnesses of any row of the query, if that is all."""
    c = lineage.c
    block, condition = lineage.root, None
    while (by_key := asked_by_key(c, block, condition)) is not None and by_key[0].stored is None:
        block, condition = by_key[0].block, by_key[1]
    (link, *others) = block.annotated.links or (None,)
    if others or not isinstance(link, Reading) or link.place is not place or not (link.once and link.always):
        return None
    chosen = choices(c, block.node, place.leaf, [] if condition is None else [condition])
    # A function of the user's own is called once for a trace, however much is asked of it.
    if chosen is None or any(not test.deterministic() or c.calls_user(test) for test in chosen):
        return None
    return chosen
