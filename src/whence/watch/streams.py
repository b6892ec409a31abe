"""Streaming queries: one run for each, whose sources and sinks gather over its micro-batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Protocol

from whence.model import COMPLETED, FAILED, RUNNING, Run
from whence.model.lineage import Observation, Seen
from whence.watch.parse import moment, observe, observe_batch, with_topics
from whence.watch.sources import Place


@dataclass
class _Stream:
    run: Run
    stored: set[object] = field(default_factory=set)
    patterns: dict[str, list[str]] = field(default_factory=dict)
    waiting: list[Observation] = field(default_factory=list)


class HasPlace(Protocol):
    place: Place


class Streams:
    def __init__(self, where: HasPlace) -> None:
        self._where = where
        self._streams: dict[str, _Stream] = {}

    @property
    def _place(self) -> Place:
        return self._where.place

    def _stream(self, run_id: str) -> _Stream:
        if run_id not in self._streams:
            run = Run(
                run_id, "stream", "", RUNNING, None, datetime.now(timezone.utc), None, self._place.application_id, {}
            )
            self._streams[run_id] = _Stream(run)
        return self._streams[run_id]

    def batch(self, seen: Mapping[str, Any], inner: Iterable[Mapping[str, Any]]) -> list[Observation]:
        """One micro-batch: its own sink, or what `foreachBatch` wrote, each tied to the stream's sources."""
        stream = self._stream(str(seen["stream"]["run"]))
        found = []
        whole = observe(seen, self._place)
        if whole is not None:
            found.append(whole)
        for snapshot in inner:
            written = observe_batch(snapshot, seen, self._place)
            if written is not None and written.changes:
                found.append(written)
        details = {**stream.run.details, "query": seen["stream"]["query"], "batch": seen["stream"]["batch"]}
        stream.run = replace(stream.run, details=details, started=stream.run.started or moment(seen.get("started")))
        result = []
        for observation in found:
            ready = self._of_stream(stream, observation)
            if any(
                s.kind == "topic" and _is_pattern(s, seen) and s.name not in stream.patterns
                for s in observation.datasets
            ):
                stream.waiting.append(observation)
            elif ready is not None:
                result.append(ready)
        return result

    def _of_stream(self, stream: _Stream, observation: Observation) -> Observation | None:
        """Only what this stream has not done before; a batch like the last adds nothing."""
        observation = with_topics(observation, stream.patterns)
        links = tuple(
            link for link in observation.links if self._key(observation, link.source, link.target) not in stream.stored
        )
        if not links:
            return None
        for link in links:
            stream.stored.add(self._key(observation, link.source, link.target))
        targets = {link.target for link in links}
        changes = tuple(replace(c, how="append") for c in observation.changes if c.dataset in targets)
        columns = tuple(c for c in observation.columns if c.target in targets)
        return replace(observation, run=stream.run, links=links, changes=changes, columns=columns)

    @staticmethod
    def _key(observation: Observation, source: int, target: int) -> object:
        one, two = observation.datasets[source], observation.datasets[target]
        return one.namespace, one.name, two.namespace, two.name

    def event(self, seen: Mapping[str, Any]) -> list[Observation]:
        name = str(seen["event"])
        if "Progress" in name:
            return self._progress(seen["progress"])
        if "Idle" in name:
            return []
        stream = self._stream(str(seen["run"]))
        at = moment(seen.get("at"))
        if "Started" in name:
            label = seen.get("name") if seen.get("name") not in (None, "null") else ""
            stream.run = replace(
                stream.run, name=str(label), started=at, details={**stream.run.details, "query": seen.get("id")}
            )
        elif "Terminated" in name:
            error = seen.get("error")
            stream.run = replace(stream.run, status=FAILED if error else COMPLETED, error=error, ended=at)
            self._streams.pop(stream.run.id, None)
        return [Observation(stream.run)]

    def _progress(self, progress: Mapping[str, Any]) -> list[Observation]:
        stream = self._stream(str(progress["runId"]))
        rows = int(stream.run.details.get("rows", 0)) + int(progress.get("numInputRows", 0))  # type: ignore[call-overload]
        batches = int(progress.get("batchId", 0)) + 1
        ended = {
            "rows": rows,
            "batches": batches,
            "sources": [s.get("description") for s in progress.get("sources", ())],
            "sink": (progress.get("sink") or {}).get("description"),
        }
        stream.run = replace(stream.run, details={**stream.run.details, **ended})
        for source in progress.get("sources", ()):
            description, offsets = str(source.get("description", "")), source.get("endOffset")
            if "SubscribePattern[" in description and isinstance(offsets, dict):
                pattern = description.partition("SubscribePattern[")[2].rstrip("]")
                stream.patterns[pattern] = sorted(offsets)
        waiting, stream.waiting = stream.waiting, []
        found = [o for o in (self._of_stream(stream, w) for w in waiting) if o is not None]
        return [*found, Observation(stream.run)]


def _is_pattern(seen: Seen, snapshot: Mapping[str, Any]) -> bool:
    return any(c in seen.name for c in "*[]()|+?^$\\")
