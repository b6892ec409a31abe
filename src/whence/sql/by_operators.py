"""The proof of a trace operator by operator, where the query as a whole gives other rows on the witnesses alone.

A row that is a witness only as part of another row's frame lacks the rest of its own. Run on the witnesses alone, a
window says something else of it, and an operator above may then take it for one of the rows, or into one of the groups,
that were asked about. So may a group that a witness is in beside those asked about (CUBE, `explode` and joins put one
row into several groups), since its other rows are none. That speaks against nothing. So each operator that does more
than hand rows on is run by itself, on the rows on the way that reach it: it must give its own rows on the way, and the
last ones the rows asked for."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from whence.model.verdict import PROVEN, Proof, Verdict
from whence.sql import SqlLineage, found_rows
from whence.sql.evaluation import Evaluation
from whence.sql.replay import Restriction, restricted, restricted_at
from whence.sql.verify import apart, compare, unsorted

_BY_THEMSELVES = ("Window", "Aggregate", "Join")
HOW = (
    "each operator, run on the rows on the way that reach it, gave those that leave it (the query, run on the "
    "witnesses alone, takes in a row that is a witness only as part of another row's frame or group)"
)


def proven_by_operators(
    lineage: SqlLineage, found: Evaluation, restriction: Restriction, asked: DataFrame, extras_count: bool
) -> Verdict | None:
    """None where that proves nothing either, or no row on the way is a part of others, which alone needs it."""
    c = lineage.c
    places = [p for p in lineage.places if p.node.kind in _BY_THEMSELVES and not p.barren and p.annotated.links]
    places = [place for place in places if place.node not in restriction.frozen]
    if not any(place.node.kind in ("Window", "Aggregate") for place in places):
        return None
    held = {place.node: found_rows.rows_at(found, place) for place in places}
    by_itself = replace(restriction, frozen={**restriction.frozen, **held})
    whole = unsorted(c, restricted(lineage, None, by_itself))
    if not compare(asked, whole, extras_count=extras_count).ok:
        return None
    for place in places:
        again = restricted_at(lineage, by_itself, place.node)
        if compare(apart(c, c.frame(held[place.node])), again, extras_count=False).missing:
            return None
    return Verdict(True, proofs=(Proof("", PROVEN, HOW),))
