"""Rows that are witnesses of one captured write and not of another: what replay, exclude and verify restrict where
appends are looked through as one query (alike_writes.py).

Each row that such a query reads is there once for each write, as a pair of the row and the write's number, and it is
pairs that are kept or left out. That is the same as opening the writes one by one as long as a pair that is left out
takes nothing else along, and nothing of it stays."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pyspark.sql import DataFrame

from whence.model import operators
from whence.sql.blocks import Place, ReadingPlace
from whence.sql.catalyst import Catalyst
from whence.sql.lineage import SqlLineage
from whence.sql.replay import Alike
from whence.sql.sources import SCANS, is_parameters, takes_parameters
from whence.sql.tree import Node

# Below a pairing: rows one by one, and groups that are witnesses whole.
_SIMPLE = (
    *(*operators.LOOKED_THROUGH, *operators.PLACEMENT, *SCANS, "OneRowRelation"),
    *("Project", "Filter", "Sort", "Union", "Aggregate", "Distinct", "Deduplicate"),
)
_GROUPING = ("Aggregate", "Distinct", "Deduplicate")


def restricted(
    lineage: SqlLineage, places: Collection[ReadingPlace] | None, instead: Collection[ReadingPlace]
) -> list[Place]:
    """The pairings whose pairs are kept or left out. `places`: the readings that this is about, where it is not all of
    them; `instead`: those that have other rows now, all of which count."""

    def concerns(place: Place) -> bool:
        found = list(_read_at(lineage, place))
        return not any(one in instead for one in found) and (places is None or any(one in places for one in found))

    return [place for place in lineage.paired if concerns(place)]


def one_by_one(
    lineage: SqlLineage, places: Collection[ReadingPlace] | None, instead: Collection[ReadingPlace], *, other: bool
) -> bool:
    """Whether what is restricted must be told write by write. `other`: it is about another query than the trace's own,
    whose rows may be paired otherwise."""
    paired = lineage.paired
    if other and paired:
        return True
    for place in paired:
        node = place.node.children[0] if place.node.kind == "Filter" else place.node
        if not _is_simple(lineage.c, node.children[0], some_columns=lineage.some_columns):
            return True
        found = list(_read_at(lineage, place))
        if any(len({one in some for one in found}) > 1 for some in (places, instead) if some is not None):
            return True
    return False


def alike_in(lineage: SqlLineage, query: DataFrame) -> Alike | None:
    """The query, if it pairs the same rows with the same branches of a union (alike_branches.py) and reads them nowhere
    else: then pairs are kept or left out there as they are here."""
    c = lineage.c
    if not lineage.merged or lineage.passage.passed or one_by_one(lineage, None, (), other=False):
        return None
    other = SqlLineage(c, query, merges=True)
    if other.passage.passed or len(other.paired) != len(lineage.paired) or not _apart(lineage) or not _apart(other):
        return None
    nodes: dict[Node, Node] = {}
    for place in lineage.paired:
        same = [one.node for one in other.paired if one.node.plan.sameResult(place.node.plan)]
        if len(same) != 1:
            return None
        nodes[same[0]] = place.node
    return Alike(other, nodes)


def _apart(lineage: SqlLineage) -> bool:
    """Whether what is read at a pairing is read at no other place."""
    paired = {one for place in lineage.paired for one in _read_at(lineage, place)}
    keys = {one.dataset.key for one in paired}
    return not any(one.dataset.key in keys for one in lineage.readings if one not in paired and not one.auxiliary)


def _read_at(lineage: SqlLineage, place: Place) -> Iterator[ReadingPlace]:
    below = {id(node) for node in place.node.walk()}
    return (one for one in lineage.readings if id(one.leaf) in below and not one.auxiliary)


def _is_simple(c: Catalyst, node: Node, *, some_columns: bool) -> bool:
    if node.subqueries or node.fact is not None:
        return False
    if takes_parameters(node) and node.kind == "Join":  # appends over a table of appends
        return _is_simple(c, node.children[0], some_columns=some_columns)
    if node.kind in _GROUPING and some_columns:  # of a group only some rows may be witnesses
        return False
    if node.kind == "Aggregate" and not c.items(node.plan.groupingExpressions()):  # which gives a row of nothing
        return False
    if is_parameters(node) or node.kind not in _SIMPLE:
        return False
    return all(_is_simple(c, child, some_columns=some_columns) for child in node.children)
