"""One association log: what one task of one actor captured. It is written as it grows and counts once committed.

A log is a number of Parquet parts and, when it is committed, a manifest naming them. Parts without a manifest belong to
a task that failed or is still running; nobody reads them.

    pairs    input, output              capture(i, o)
    inputs   set, time, input           add_input(i): the set is the number of the tag's current association set
    outputs  set, time, output          add_output(o): associated with the inputs of its set that have a lesser time
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Collection, Hashable
from typing import Any

from whence.actors.records import INT, LOCATION, STR, columns, domain_of, files_in, pair_columns
from whence.store import Files, files_at
from whence.store.names import file_key
from whence.store.sealed import sealed

BATCH = 1 << 17  # associations held in memory before they are written

PAIRS, INPUTS, OUTPUTS = "pairs", "inputs", "outputs"


def _write_options(schema: Any) -> dict[str, Any]:
    # Ids that grow slowly (row numbers, sets, times, offsets) shrink to a byte or two as deltas; strings to codes.
    deltas: dict[str, str] = {}
    codes: list[str] = []
    for field in schema:
        if domain_of(field) == LOCATION:
            deltas |= {f"{field.name}.offset": "DELTA_BINARY_PACKED", f"{field.name}.length": "DELTA_BINARY_PACKED"}
            codes.append(f"{field.name}.file")
        elif domain_of(field) == INT:
            deltas[field.name] = "DELTA_BINARY_PACKED"
        elif domain_of(field) == STR:
            codes.append(field.name)
    return {"use_dictionary": codes, "column_encoding": deltas, "compression": "lz4", "write_statistics": False}


class Log:
    def __init__(self, files: str | Files, actor: str, task: str, attempt: int, own: bool = False) -> None:
        self._place, self._actor, self._task, self._attempt = files, actor, task, attempt
        self._own = own  # of a process, not of a task: it commits when the actor does
        self._name = uuid.uuid4().hex
        self._files: Files | None = None
        self._lock = threading.Lock()
        self._writers: dict[Any, Any] = {}
        self._parts: list[dict[str, Any]] = []
        self._named: dict[str, dict[str, str]] = {}  # input or output -> file as a Location names it -> its key
        self._pairs: list[tuple[Any, Any]] = []
        self._inputs: list[tuple[int, int, Any]] = []
        self._outputs: list[tuple[int, int, Any]] = []
        self._bulk: list[tuple[Any, Any]] = []
        self._bulk_rows = 0
        self._sets: dict[Hashable, int] = {}
        self._next_set = 0
        self._clock = 0

    def pair(self, i: Any, o: Any) -> None:
        if i is None or o is None:
            self._lonely(i, o)
            return
        with self._lock:
            self._pairs.append((i, o))
            if len(self._pairs) >= BATCH:
                self._flush()

    def pairs(self, inputs: Any, outputs: Any) -> None:
        for side in (inputs, outputs):
            if isinstance(side, list | tuple) and None in side:
                for i, o in zip(inputs, outputs, strict=True):
                    self.pair(i, o)
                return
        arrays = list(pair_columns(inputs, outputs))
        with self._lock:
            for pair in arrays:
                self._bulk.append(pair)
                self._bulk_rows += len(pair[0])
            if self._bulk_rows >= BATCH:
                self._flush()

    def _lonely(self, i: Any, o: Any) -> None:
        """An input without outputs, or an output without inputs: alone in an association set of its own."""
        with self._lock:
            if i is not None:
                self._inputs.append((self._next_set, self._clock, i))
            elif o is not None:
                self._outputs.append((self._next_set, self._clock, o))
            self._next_set += 1
            if len(self._inputs) + len(self._outputs) >= BATCH:
                self._flush()

    def _set(self, tag: Hashable) -> int:
        number = self._sets.get(tag)
        if number is None:
            number = self._sets[tag] = self._next_set
            self._next_set += 1
        return number

    def input(self, record: Any, tags: Collection[Hashable]) -> None:
        with self._lock:
            for tag in tags:
                self._inputs.append((self._set(tag), self._clock, record))
            self._clock += 1
            if len(self._inputs) >= BATCH:
                self._flush()

    def output(self, record: Any, tags: Collection[Hashable]) -> None:
        with self._lock:
            for tag in tags:
                self._outputs.append((self._set(tag), self._clock, record))
            self._clock += 1
            if len(self._outputs) >= BATCH:
                self._flush()

    def reset(self, tags: Collection[Hashable]) -> None:
        with self._lock:
            for tag in tags:
                self._sets.pop(tag, None)

    def _write(self, kind: str, names: list[str], arrays: list[Any]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_arrays(arrays, names=names)
        for side, array in zip(names, arrays, strict=True):
            if domain_of(array) == LOCATION:
                known = self._named.setdefault(side, {})
                known.update((file, file_key(file)) for file in files_in(array) if file not in known)
        key = (kind, *(domain_of(a) for a in arrays))
        if key not in self._writers:
            if self._files is None:
                self._files = files_at(self._place)
            part = f"{self._name}-{len(self._parts)}.parquet"
            sink = self._files.create("logs", self._actor, part)
            writer = pq.ParquetWriter(sink, table.schema, **_write_options(table.schema))
            entry = {"file": part, "kind": kind, "domains": list(key[1:]), "rows": 0}
            self._writers[key] = (writer, sink, entry)
            self._parts.append(entry)
        writer, _, entry = self._writers[key]
        writer.write_table(table, row_group_size=BATCH)
        entry["rows"] += table.num_rows

    def _flush(self) -> None:
        import pyarrow as pa

        if self._pairs:
            pairs, self._pairs = self._pairs, []
            for i, o in pair_columns([p[0] for p in pairs], [p[1] for p in pairs]):
                self._write(PAIRS, ["input", "output"], [i, o])
        if self._bulk:
            bulk, self._bulk, self._bulk_rows = self._bulk, [], 0
            grouped: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
            for i, o in bulk:
                grouped.setdefault((domain_of(i), domain_of(o)), []).append((i, o))
            for found in grouped.values():
                columns_ = [pa.chunked_array([f[side] for f in found]).combine_chunks() for side in (0, 1)]
                self._write(PAIRS, ["input", "output"], columns_)
        for kind, rows in ((INPUTS, self._inputs), (OUTPUTS, self._outputs)):
            if not rows:
                continue
            sets, times, records = (list(c) for c in zip(*rows, strict=True))
            rows.clear()
            sets_array, times_array = pa.array(sets, pa.int64()), pa.array(times, pa.int64())
            for positions, array in columns(records):
                chosen = (a if positions is None else a.take(positions) for a in (sets_array, times_array))
                self._write(kind, ["set", "time", kind[:-1]], [*chosen, array])

    def commit(self, *, also_nothing: bool = False) -> str | None:
        """Write the manifest: from here on the log counts. The name of the log, or None when it holds nothing, unless
        that is to be remembered."""
        with self._lock:
            self._flush()
            if also_nothing and self._files is None:
                self._files = files_at(self._place)
            for writer, sink, entry in self._writers.values():
                writer.close()
                sink.close()
                entry |= {"bytes": sink.bytes, "crc32": sink.crc32}
            if self._files is None or not (self._parts or also_nothing):
                return None
            manifest = {
                "task": self._task,
                "attempt": self._attempt,
                "own": self._own,
                "parts": self._parts,
                "files": self._named,  # a relative path means something in the process that wrote it only
            }
            self._files.write(sealed(manifest), "logs", self._actor, f"{self._name}.json")
            name, self._name = self._name, uuid.uuid4().hex
            self._parts, self._writers, self._named = [], {}, {}
            return name

    def abandon(self) -> None:
        with self._lock:
            for writer, sink, entry in self._writers.values():
                writer.close()
                sink.close()
                if self._files is not None:
                    self._files.delete("logs", self._actor, entry["file"])
            self._parts, self._writers, self._named = [], {}, {}
            self._pairs, self._inputs, self._outputs, self._bulk = [], [], [], []

    def __reduce__(self) -> tuple[Any, ...]:
        # PySpark pickles a task's accumulators when, and only when, its Python part has ended well: that is the
        # moment to commit. Capture must not fail the user's task, so a trouble is told instead of raised.
        try:
            return str, (f"ok {self.commit() or ''}",)
        except Exception as error:
            return str, (f"lost {self._actor} {self._task}: {error}",)


class NoLog(Log):
    """Of a task that runs the user's function once more, to answer a question: what it captures was captured before."""

    def commit(self, *, also_nothing: bool = False) -> str | None:
        return None

    def pair(self, i: Any, o: Any) -> None:
        pass

    def pairs(self, inputs: Any, outputs: Any) -> None:
        pass

    def input(self, record: Any, tags: Collection[Hashable]) -> None:
        pass

    def output(self, record: Any, tags: Collection[Hashable]) -> None:
        pass

    def reset(self, tags: Collection[Hashable]) -> None:
        pass
