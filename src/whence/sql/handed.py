"""Rows of DataFrames that were made from RDDs with lineage, as records of those RDDs: (partition, number).

Where the RDD's order is certain, a row's position says it. Where it is not, as after a shuffle, rows are told by their
contents here, and one job, whose associations are the ones that count from then on, tells which record each row is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from whence.model import WhenceError
from whence.model.flow import RecordId, Site
from whence.spark.construct import POSITION_BITS
from whence.sql.blocks import ReadingPlace
from whence.sql.catalyst import Catalyst, remembered
from whence.sql.sources import identify

_POSITION = "whence_position"
_NUMBER = (1 << POSITION_BITS) - 1


class Handed(Protocol):
    """An RDD with lineage that Spark was given the records of. `rows`: (hash, row, position) of each row."""

    site: Site
    rows: DataFrame | None

    def pinning(self) -> AbstractContextManager[None]:
        """Of the job that runs within, and that computes the RDD once, the associations are the ones that count."""
        ...


def handed_at(c: Catalyst, places: Sequence[ReadingPlace]) -> Handed | None:
    leaf = places[0].leaf
    if leaf.kind != "LogicalRDD":
        return None
    plan: JavaObject = leaf.plan
    found: Handed | None = remembered(plan, "handed", lambda: c.memory.handed(plan.rdd()))
    return found


def records_of(c: Catalyst, handed: Handed, place: ReadingPlace, ids: DataFrame) -> list[RecordId]:
    """Identities as the query tells them, as those of the RDD's records."""
    if not place.dataset.by_contents:
        return [_pair(row[-1]) for row in ids.collect()]
    known = _rows(c, handed, place)
    wanted = ids.toDF("a", "b").distinct()
    same = (known["hash"] == wanted["a"]) & (known["row"] == wanted["b"])
    return sorted(_pair(row[0]) for row in known.join(wanted, same, "leftsemi").select(_POSITION).collect())


def told_of(c: Catalyst, handed: Handed, place: ReadingPlace, ids: Iterable[RecordId]) -> list[tuple[int, ...]]:
    """The other way round."""
    wanted = [(int(part) << POSITION_BITS | int(number),) for part, number in ids]
    if not place.dataset.by_contents:
        return list(wanted)
    known = _rows(c, handed, place)
    asked = c.spark.createDataFrame(wanted, f"`{_POSITION}` bigint")
    found = known.join(asked, _POSITION).select("hash", "row").collect()
    if len(found) != len(wanted):
        raise WhenceError(f"{handed.site} has no {len(wanted) - len(found)} of these {len(wanted)} records.")
    return [*{(int(row[0]), int(row[1])) for row in found}]


def _pair(position: int) -> RecordId:
    return position >> POSITION_BITS, position & _NUMBER


def _rows(c: Catalyst, handed: Handed, place: ReadingPlace) -> DataFrame:
    if handed.rows is None:
        leaf = identify(c, place.leaf)
        position = c.alias(c.position(), _POSITION)
        plan = c.project([*leaf.ids, position], leaf.plan)
        with handed.pinning(), c.quietly():
            # What is lost is missed then: it is not computed again, in another order.
            handed.rows = c.frame(plan).toDF("hash", "row", _POSITION).localCheckpoint()
    return handed.rows
