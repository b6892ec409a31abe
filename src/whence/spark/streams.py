"""Streaming queries as Spark runs them: private classes of its streaming engine, and of its logs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whence.spark.construct import class_name

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_LOG = re.compile(r"(\d+)(\.compact)?")
_SINK = re.compile(r"FileSink\[(.*)\]")


def execution_of(spark: Any, query: str) -> JavaObject | None:
    """What runs this query, by its id; None where it is not running."""
    found = spark._jsparkSession.streams().get(query)
    return found if found is None else _unwrapped(found)


def _unwrapped(query: JavaObject) -> JavaObject:
    return query.streamingQuery() if class_name(query) == "StreamingQueryWrapper" else query


def batch_plan(execution: JavaObject, number: int) -> JavaObject | None:
    """The query of one batch as it is computed now, with the files of that batch; None where another one is."""
    last = execution.lastExecution()
    if last is None or int(last.currentBatchId()) != number:
        return None
    plan = last.logical()
    if class_name(plan) == "WriteToMicroBatchDataSourceV1":
        plan = plan.child()
    return plan


@dataclass(frozen=True)
class FileSink:
    place: str
    checkpoint: str


def file_sink(query: Any) -> FileSink | None:
    """Where a query that was started writes files; None where it writes something else."""
    execution = _unwrapped(query._jsq)
    found = _SINK.fullmatch(str(execution.sink().toString()))
    return None if found is None else FileSink(found[1], str(execution.resolvedCheckpointRoot()))


@dataclass(frozen=True)
class StreamSource:
    """What a streaming relation of files reads."""

    format: str
    options: dict[str, str]
    schema: Any
    root: str


def stream_source(relation: JavaObject) -> StreamSource | None:
    """Of a leaf of a streaming DataFrame; None where it does not read files."""
    if class_name(relation) != "StreamingRelation" or not str(relation.sourceName()).startswith("FileSource["):
        return None
    source = relation.dataSource()
    options = {str(pair._1()): str(pair._2()) for pair in _pairs(source.options())}
    root = next((value for key, value in options.items() if key.lower() == "path"), None)
    if root is None:
        return None
    schema = json.loads(str(source.sourceInfo().schema().json()))
    return StreamSource(str(source.className()).lower(), options, schema, root)


def _pairs(options: JavaObject) -> Iterable[Any]:
    found = options.toSeq()
    return [found.apply(i) for i in range(found.size())]


def batches(names: Iterable[str], read: Callable[[str], bytes | None]) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """What one of Spark's logs says, batch by batch: all that it has told up to then, one entry for each path."""
    known: dict[str, dict[str, Any]] = {}
    numbered = sorted((int(found[1]), name) for name in names if (found := _LOG.fullmatch(name)))
    for number, name in numbered:
        for line in (read(name) or b"").decode().splitlines()[1:]:
            entry = json.loads(line)
            known[str(entry["path"])] = entry
        yield number, list(known.values())
