"""Rows of DataFrames that were made from RDDs with lineage, as records of those RDDs: (partition, number).

Where the RDD's order is certain, a row's position says that. Where it is not, as after a shuffle, rows are told by what
they hold, and one job, whose associations are the ones that count from then on, tells which record each row is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from pyspark.sql import DataFrame

from whence.model import WhenceError
from whence.model.flow import RecordId, Site
from whence.spark.construct import POSITION_BITS
from whence.sql.blocks import ReadingPlace
from whence.sql.catalyst import Catalyst
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


def records_of(c: Catalyst, handed: Handed, place: ReadingPlace, ids: DataFrame) -> list[RecordId]:
    """Identities as the query tells them, as those of the RDD's records."""
    known = _rows(c, handed, place)
    wanted = ids.toDF("a", "b").distinct()
    same = (known["hash"] == wanted["a"]) & (known["row"] == wanted["b"])
    return sorted(_pair(row[0]) for row in known.join(wanted, same, "leftsemi").select(_POSITION).collect())


def pairs_of(c: Catalyst, handed: Handed, place: ReadingPlace, ids: DataFrame) -> dict[RecordId, list[RecordId]]:
    """The same for each of them: rows that are equal have one identity, and are several records."""
    known = _rows(c, handed, place)
    wanted = ids.toDF("a", "b").distinct()
    same = (known["hash"] == wanted["a"]) & (known["row"] == wanted["b"])
    found: dict[RecordId, list[RecordId]] = defaultdict(list)
    for a, b, position in known.join(wanted, same).select("a", "b", _POSITION).orderBy(_POSITION).collect():
        found[a, b].append(_pair(position))
    return found


def told_of(
    c: Catalyst, handed: Handed, place: ReadingPlace, ids: Iterable[RecordId]
) -> tuple[list[tuple[int, ...]], int]:
    """The other way round; and how many rows have these identities: those that are equal have the same."""
    wanted = [(int(part) << POSITION_BITS | int(number),) for part, number in ids]
    known = _rows(c, handed, place)
    asked = c.spark.createDataFrame(wanted, f"`{_POSITION}` bigint")
    found = known.join(asked, _POSITION).select("hash", "row").collect()
    if len(found) != len(wanted):
        raise WhenceError(f"{handed.site} has no {len(wanted) - len(found)} of these {len(wanted)} records.")
    told: list[tuple[int, ...]] = [*{(int(row[0]), int(row[1])) for row in found}]
    same = c.spark.createDataFrame(told, "hash bigint, row bigint") if told else None
    return told, known.join(same, ["hash", "row"], "leftsemi").count() if same is not None else 0


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
