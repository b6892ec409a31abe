"""A query on the witnesses of the asked rows alone, where these are few and are all that the rows come from.

Without each witness in turn the query is computed many times over; so the source is read once, with all of its columns,
and from there on its rows stand for the whole of it."""

from __future__ import annotations

from dataclasses import replace

from whence.sql import Node, ReadingPlace, SqlLineage
from whence.sql.catalyst import Catalyst, Plan
from whence.sql.computed_before import WIDE_BYTES, rows_for_next
from whence.sql.direct import direct_rows
from whence.sql.influence.alone import alone
from whence.sql.influence.worlds import SENT


def on_witnesses(lineage: SqlLineage) -> SqlLineage | None:
    """The same query, its one reading exchanged for the rows of it that any row of the query came from, computed. None
    where it has several readings, where other rows of the source might matter, or where the witnesses are many."""
    c = lineage.c
    if len(lineage.readings) != 1 or not alone(c, lineage.tree):
        return None
    if any(node.subqueries or node.kind in ("Settled", "Given") for node in lineage.tree.walk()):
        return None
    (place,) = lineage.readings
    direct = direct_rows(lineage, place)
    if direct is None:
        return None
    # A partition that has more is cut off there, and then there are that many in all.
    few = c.limit_of_each(SENT + 1, direct[0])
    if not _is_small(c, place) and c.frame(c.project([c.alias(c.true, "whence_any")], few)).count() > SENT:
        return None
    rows = rows_for_next(c, few)
    if rows.total > SENT:
        return None
    return lineage.with_tree(_on(c, lineage.tree, place.leaf, rows.plan))


def _is_small(c: Catalyst, place: ReadingPlace) -> bool:
    """Whether it does no harm to read all of a source's columns, to find then that too many of its rows are wanted."""
    leaf = place.leaf.plan
    if not c.is_file_scan(leaf):
        return place.leaf.kind in ("LocalRelation", "Range")
    return sum(length for length, _ in c.files_of(leaf).values()) <= WIDE_BYTES


def _on(c: Catalyst, node: Node, leaf: Node, rows: Plan) -> Node:
    """The tree with the leaf's rows exchanged."""
    if node is leaf:
        return replace(node, rows=rows)
    below = [_on(c, child, leaf, rows) for child in node.children]
    plans = [c.project(c.output(child.plan), rows) if child.rows is not None else child.plan for child in below]
    return replace(node, plan=c.with_children(node.plan, plans), children=below)
