"""Files that a stream writes: a trace of a query that reads them goes on to the stream's own input files.

When a stream is started under capture, its query is kept with where it writes and where its checkpoint is. Spark itself
keeps which files each batch read (the log of the source, in the checkpoint) and which batches are in the sink (the log
there). So what the sink holds is the stream's query over the files of these batches, row by row; of a stream that keeps
state over its batches that is not so, and a trace ends at its sink and says why."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame

from whence.spark.allowed import FORMATS, reading_options
from whence.spark.streams import batches, file_sink, stream_source
from whence.sql import plans
from whence.sql.catalyst import Catalyst, Plan
from whence.sql.plans import MadeFrom, NotRestored
from whence.sql.tree import Node, rebuild, tree_of
from whence.sql.written import Files, settings
from whence.store import Unsigned
from whence.store.names import file_key

_LAYOUT = 1


@dataclass(frozen=True)
class Stream:
    """What was kept of a stream. `why`: why it cannot be followed."""

    stem: str
    told: Mapping[str, Any]
    why: str | None = None


def remember_stream(c: Catalyst, df: DataFrame, query: Any) -> str | None:
    """A stream of `df` was started. Why a trace will end at what it writes, as the end of a sentence."""
    from whence.sql.batches import NotByFiles, require_row_by_row
    from whence.sql.writes import unsettled

    sink = file_sink(query)
    if sink is None:
        return None  # foreachBatch, or nothing that can be read again as files
    told: dict[str, Any] = {"layout": _LAYOUT, "why": None, "columns": df.columns, "checkpoint": sink.checkpoint}
    told |= settings(c)
    content: bytes | None = None
    tree = tree_of(c, c.plan_of(df))
    try:
        require_row_by_row(tree)
        content = _kept(c, tree, told, unsettled)
    except NotByFiles as why:
        told["why"] = str(why)
    stem = f"{_folder(c, c.qualified(sink.place))}/{time.time_ns():020d}-{uuid4().hex[:8]}"
    told["plan"] = hashlib.sha256(content).hexdigest() if content is not None else None
    if content is not None:
        c.write_bytes(f"{stem}.plan", content)
    c.write_bytes(f"{stem}.json", c.memory.seal.wrap(_purpose(stem), json.dumps(told).encode()))
    why_not: str | None = told["why"]
    return why_not


def _kept(c: Catalyst, tree: Node, told: dict[str, Any], unsettled: Any) -> bytes:
    from whence.sql.batches import NotByFiles

    streaming = [node for node in tree.walk() if not node.children and node.plan.isStreaming()]
    source = stream_source(streaming[0].plan) if len(streaming) == 1 else None
    if source is None or source.format not in FORMATS:
        raise NotByFiles("the stream reads something else than the files of one directory")

    def replaced(node: Node) -> Plan | None:
        if node.kind == "EventTimeWatermark":
            return rebuild(c, node.children[0], replaced)
        return c.empty_like(node.plan) if node is streaming[0] else None

    bare = tree_of(c, c.normalise(rebuild(c, tree, replaced)))
    why = unsettled(c, bare, expressions=True)
    if why is not None:
        raise NotByFiles(f"the stream's {why.removeprefix('its ')}")
    names = {a.name() for a in c.output(streaming[0].plan)}
    leaves = [node for node in bare.walk() if not node.children and not node.subqueries]
    places = [n for n, leaf in enumerate(leaves) if {a.name() for a in c.output(leaf.plan)} == names]
    if len(places) != 1 or leaves[places[0]].kind != "LocalRelation":
        raise NotByFiles("which part of its query is the stream is not known")
    told |= plans.describe(c, bare)
    told["stream"] = {
        "leaf": places[0],
        "format": source.format,
        "options": reading_options(source.options),
        "schema": source.schema,
        "root": c.qualified(source.root),
    }
    return plans.to_bytes(c, bare)


def any_streams(c: Catalyst) -> bool:
    folder = c.memory.folder
    if folder is None or "://" in folder:
        return folder is not None and c.exists(f"{folder}/streams")
    return Path(folder, "streams").is_dir()


def stream_to(c: Catalyst, place: str) -> Stream | None:
    """The stream that writes there, as it was started last."""
    if c.memory.folder is None:
        return None
    folder = _folder(c, place)
    stems = sorted(name.removesuffix(".json") for name in c.names_in(folder) if name.endswith(".json"))
    if not stems:
        return None
    stem = f"{folder}/{stems[-1]}"
    try:
        told = json.loads(c.memory.seal.unwrap(_purpose(stem), c.read_bytes(f"{stem}.json") or b""))
    except Unsigned as unsigned:
        return Stream(stem, {}, f"what was captured of the stream that writes there is not read: {unsigned.why}")
    except (OSError, ValueError):
        return Stream(stem, {}, "what was captured of the stream that writes there cannot be read")
    if told.get("layout") != _LAYOUT:
        return Stream(stem, {}, "what was captured of the stream that writes there is of another version of whence")
    return Stream(stem, told, told["why"])


def query_of(c: Catalyst, stream: Stream, place: str, files: Files, made_from: MadeFrom) -> Plan:
    """The stream's query over what it read for these files of its sink."""
    if stream.why is not None:
        raise NotRestored(stream.why)
    told = stream.told
    content = c.read_bytes(f"{stream.stem}.plan")
    if content is None or hashlib.sha256(content).hexdigest() != told["plan"]:
        raise NotRestored("the query of the stream that writes there is gone from the store, or was changed there")
    tree = tree_of(c, plans.from_bytes(c, content, told, made_from, plans.Scans()))
    leaves = [node for node in tree.walk() if not node.children and not node.subqueries]
    leaf = leaves[told["stream"]["leaf"]]
    scan = _scan(c, told, leaf, _files_read(c, told, _last_batch(c, place, files)))
    return rebuild(c, tree, lambda node: scan if node is leaf else None)


def _scan(c: Catalyst, told: Mapping[str, Any], leaf: Node, read: Mapping[str, int]) -> Plan:
    source = told["stream"]
    root = source["root"].rstrip("/")
    now = {file_key(path): (path, version) for path, version in c.current_files(_spelled(root, read)).items()}
    for path, changed in read.items():
        if path not in now or now[path][1][1] != changed:
            raise NotRestored(f"{path} that the stream read was changed or removed since")
    if not read:
        return c.empty_like(leaf.plan)
    paths = sorted(path for path, _ in now.values())
    described = {
        "table": None,
        "format": source["format"],
        "options": {**source["options"], "basePath": root},
        "schema": source["schema"],
        "roots": paths,
    }
    return plans.reading(c, described, c.output(leaf.plan))


def _spelled(root: str, keys: Mapping[str, int]) -> list[str]:
    scheme = "file:" if root.startswith("file:") else ""
    return [f"{scheme}{key}" if key.startswith("/") else key for key in keys]


def _last_batch(c: Catalyst, place: str, files: Files) -> int:
    """The last of the batches that these files are of: all batches from the first to that one."""
    log = f"{place.rstrip('/')}/_spark_metadata"
    wanted = {file_key(path) for path in files}
    found = None
    for number, told in batches(c.names_in(log), lambda name: c.read_bytes(f"{log}/{name}")):
        if {file_key(str(entry["path"])) for entry in told} == wanted:
            found = number
    if found is None:
        raise NotRestored("its files are not those of whole batches of the stream that was captured")
    return found


def _files_read(c: Catalyst, told: Mapping[str, Any], batch: int) -> dict[str, int]:
    """The files that the batches up to this one read, by their keys, and when each was changed last."""
    checkpoint = told["checkpoint"].rstrip("/")
    offsets = c.read_bytes(f"{checkpoint}/offsets/{batch}")
    if offsets is None:
        raise NotRestored("the stream's checkpoint does not tell any more which files it has read")
    lines = offsets.decode().splitlines()[2:]
    if len(lines) != 1 or "logOffset" not in (offset := json.loads(lines[0])):
        raise NotRestored("the stream's checkpoint tells of other sources than the stream had")
    log = f"{checkpoint}/sources/0"
    found: list[dict[str, Any]] = []
    for _, found in batches(c.names_in(log), lambda name: c.read_bytes(f"{log}/{name}")):  # noqa: B007
        pass
    last = int(offset["logOffset"])
    return {file_key(str(e["path"])): int(e["timestamp"]) for e in found if int(e["batchId"]) <= last}


def _folder(c: Catalyst, place: str) -> str:
    return f"{c.memory.folder}/streams/{hashlib.sha256(place.rstrip('/').encode()).hexdigest()[:24]}"


def _purpose(stem: str) -> tuple[str, ...]:
    return ("captured stream", *stem.rsplit("/", 2)[-2:])
