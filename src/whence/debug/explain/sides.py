"""The witnesses of a source and its other records, as rows with columns: what conditions are looked for between.

Queries and arrays give both themselves. Lines of files, which RDDs and actors speak of, become rows by the format of
the file; records that only an RDD has become rows by what they are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from whence.debug.frames import frame_of
from whence.debug.named import kinds_of
from whence.model import WhenceError
from whence.model.flow import BY_BYTE, Flow, InFiles, RecordId, Records, told_by
from whence.rdd.flow import RddFlow
from whence.rdd.site_records import RddRecords
from whence.sql.flow import SqlFlow
from whence.sql.found_rows import told_leaf_rows
from whence.store.lines import content_of, line_at

if TYPE_CHECKING:
    from whence.debug.attached import Attached

Sides: TypeAlias = "tuple[DataFrame, DataFrame]"
_FLAG = "whence_witness"
_NAME, _NUMBER = re.compile(r"\s*\"?[A-Za-z_]\w*\"?\s*"), re.compile(r"\s*-?\d+(\.\d+)?\s*")


def sides_of(session: Attached | None, flow: Flow, records: Records) -> Sides | None:
    """The witnesses, and the other records of the same source; None where the others are not known here."""
    if hasattr(records, "others"):
        others: DataFrame = records.others()
        return frame_of(others.sparkSession, records), others
    if session is None:
        return None
    if told_by(records.site) == BY_BYTE and isinstance(flow, InFiles):
        return _lines(session, flow.files(records.site), records.ids())
    if isinstance(flow, RddFlow) and isinstance(records, RddRecords) and flow.is_live:
        return _objects(session, flow, records)
    return None


def _lines(session: Attached, files: Collection[str], ids: Sequence[RecordId]) -> Sides:
    paths = sorted(files)
    (kind, *more) = sorted({kind for path in paths for kind in kinds_of(path)}) or ["text"]
    for format_ in [kind, "text"] if kind in ("csv", "json") and not more else ["text"]:
        try:
            return _read(session, format_, paths, ids)
        except WhenceError:  # a witness is a line that is no row there, as a header is
            if format_ == "text":
                raise
    raise AssertionError(kind)


def _read(session: Attached, kind: str, paths: list[str], ids: Sequence[RecordId]) -> Sides:
    reader = session.spark.read.format(kind)
    if kind == "csv":
        reader = reader.option("inferSchema", True).option("header", all(map(_has_header, paths)))
    query = SqlFlow(session.lineage(reader.load(paths), through=False))
    (site,) = query.inputs
    taken = query.take(site, ids)
    place, c = taken.places[0], query.lineage.c
    rest, _ = told_leaf_rows(c, place, taken.identities(), "leftanti")
    return taken.frame(), c.frame(c.project(c.output(place.leaf.plan), rest))


def _has_header(path: str) -> bool:
    """Names in the first line, and a number in the second: as a guess it changes what columns are called, and nothing
    that is counted."""
    try:
        content = content_of(path)
    except (OSError, WhenceError):
        return False
    first = line_at(content, 0)
    second = line_at(content, min(len(first) + 1, len(content)))
    names, values = (str(line, "utf-8", "replace").split(",") for line in (first, second))
    return all(map(_NAME.fullmatch, names)) and any(map(_NUMBER.fullmatch, values))


def _objects(session: Attached, flow: RddFlow, records: RddRecords) -> Sides | None:
    context = session.spark.sparkContext
    here = context.parallelize([(True, value) for (value,) in records.values()], 1)
    both = here.union(flow.others(records).map(lambda value: (False, value))).map(_row)
    try:
        frame = session.spark.createDataFrame(both)
    except (PySparkException, TypeError, ValueError):  # values of no type that Spark has
        return None
    return frame.where(_FLAG).drop(_FLAG), frame.where(~F.col(_FLAG)).drop(_FLAG)


def _row(told: tuple[bool, Any]) -> Row:
    return Row(**dict([(_FLAG, told[0]), *_columns(told[1])]))


def _columns(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((str(name), value[name]) for name in sorted(value, key=str))
    elif isinstance(value, (tuple, list)):
        names = getattr(value, "__fields__", None) or [f"_{n}" for n in range(1, len(value) + 1)]
        yield from zip(names, value, strict=True)
    else:
        yield "value", value
