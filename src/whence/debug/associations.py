"""Associations over several flows: what one flow ends at is what the next one was asked for."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from whence.debug.crossing import ids_in
from whence.debug.legs import Leg
from whence.model import WhenceError
from whence.model.flow import RecordId, Site

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST = 10_000


def through(spark: SparkSession, pairs: DataFrame, leg: Leg) -> DataFrame:
    """`pairs` of the asked query (output, source, record), with the records that other flows made exchanged for what
    these were made from."""
    crossed = {site.name: site for site in leg.crossed}
    kept = pairs.where(~pairs["source"].isin(*crossed))
    rows: dict[tuple[int, str, str], None] = {}
    for output, source, record in pairs.where(pairs["source"].isin(*crossed)).collect():
        for name, told in _behind(leg, crossed[source])[record]:
            rows[output, name, told] = None
    return kept.unionAll(spark.createDataFrame(list(rows), "output bigint, source string, record string"))


def _behind(leg: Leg, site: Site) -> dict[str, list[tuple[str, str]]]:
    """For each record of a crossed site, as `first_records` tells it, the (source, record) pairs behind it."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for crossing, behind in leg.next[site]:
        records = leg.answer.found[site]
        narrowed = getattr(records, "in_files", None)
        here = narrowed(crossing.files) if narrowed is not None and crossing.files else records
        ids = ids_in(records, crossing.files)
        if crossing.ask is not None and crossing.each is None:
            raise WhenceError(
                f"The records of {site.name} are handed on by their values, so that it is not told which of them came "
                "from which. Ask for fewer rows at a time, and for their sources."
            )
        if len(ids) > MOST:
            raise WhenceError(
                f"{len(ids)} records of {site.name} would be asked for one by one; associations() over several flows "
                f"goes up to {MOST}. Ask for fewer rows."
            )
        told = here.first_records(len(ids)) if hasattr(here, "first_records") else ["#".join(map(str, i)) for i in ids]
        there = None if crossing.each is None else crossing.each(here)
        for one, text in zip(ids, told, strict=True):
            asked = [one] if there is None else there[one]
            found[text] += [(name, "#".join(map(str, i))) for name, i in _ends_of(behind, asked)]
    return found


def _ends_of(leg: Leg, asked: list[RecordId]) -> list[tuple[str, RecordId]]:
    alone = Leg(leg.flow, leg.flow.take(leg.asked.site, asked), leg.crossings, leg.depth)
    return [(site.name, i) for _, site, records in alone.ends() for i in records.ids()]
