"""`w.guard(on_error="quarantine")`: the job ends, the failing records stand in a table with their sources and errors.

Inside the block, the Python functions of every DataFrame and RDD that is touched are exchanged, in the JVM, for ones
that go on after an error; at its end they are put back. A scalar UDF gives null for a failing row; map, flatMap,
filter, mapInPandas, mapInArrow and table functions leave it out; a group, a cogroup, an aggregate or a window's frame
is computed without it. Functions of whole RDD partitions and of streams with state are left alone: nobody else knows
how to go on inside them.
"""

from __future__ import annotations

import base64
import json
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from whence.debug.attached import Attached
from whence.debug.guard import quarantine_worker
from whence.debug.guard.batch_worker import Given, call_batch
from whence.debug.guard.culprit import SHOWN_ROWS
from whence.debug.guard.findings_worker import Findings
from whence.debug.guard.functions import Placed, python_functions, rdd_nodes
from whence.debug.guard.guard import Guard
from whence.debug.guard.quarantine_sql import SqlQuarantine
from whence.debug.guard.sources import culprit_rows, plain_value
from whence.debug.guard.sql import Failed, SqlSearch
from whence.model.html import html_table, paragraph
from whence.model.text import shown
from whence.rdd import LineageContext
from whence.rdd.ship import carried
from whence.spark.handles import held, hold, telling
from whence.spark.python_functions import command_of, put_back, raw_command, set_command
from whence.sql import Catalyst
from whence.store import Unsigned
from whence.store.relay import Relay

log = logging.getLogger("whence.debug")

TRACED_RECORDS = 200  # of each function; further ones are in the table without their sources


@shown
@dataclass(frozen=True)
class Quarantined:
    """A record that was put aside."""

    function: str
    record: Any
    error: str
    traceback: str
    partition: int
    sources: tuple[str, ...] = ()
    part: str = ""  # the same for records that failed together
    side: int = 0  # of a cogroup: 0 left, 1 right
    place: str = field(default="", repr=False)
    given: Given | None = field(default=None, repr=False, compare=False)  # the part as the function had it


@dataclass(frozen=True)
class Retried:
    record: Any
    result: Any = None
    error: str | None = None


class QuarantineGuard(Guard):
    def __init__(self, session: Attached, home: Path, relay: Relay) -> None:
        super().__init__(session, home, relay)
        self._c = Catalyst(session.spark)
        self._context: Any = session.spark.sparkContext
        self._actor = session.actors.register("quarantine", kind="quarantine")
        self._findings = Findings(("quarantined", self._actor.id))
        self._armed: dict[str, tuple[Any, Any]] = {}  # function in the JVM -> itself, its command
        self._places: dict[str, tuple[Any, Placed]] = {}  # where each function stands
        self._seen: set[int] = set()
        self._kept: list[Any] = []
        self._planned: list[tuple[Any, Any]] = []  # frames, and what they had before
        self._sql = SqlQuarantine(self._c, session.spark, lambda search, failed: self._failed.append((search, failed)))
        self._failed: list[tuple[SqlSearch, list[Failed]]] = []
        self.notes: tuple[str, ...] = ()  # what could not be told of the records, and why
        self.records: tuple[Quarantined, ...] = ()

    def _repr_html_(self) -> str:
        rows = [(q.function, q.record, q.error, ", ".join(q.sources[:3])) for q in self.records[:SHOWN_ROWS]]
        told = f"{len(self.records):,} records were put aside." if self.records else "No record was put aside."
        table = html_table(("function", "record", "error", "sources"), rows, more=len(self.records) > SHOWN_ROWS)
        return "".join([paragraph(told), table if rows else "", *map(paragraph, self.notes)])

    # -- arming ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> QuarantineGuard:
        super().__enter__()
        self._patches: list[tuple[type, str, Any]] = []
        for owner, name, told in telling(self._arm_frame, self._arm_rdd):
            self._patch(owner, name, told)
        # Lineage of a job that leaves records out would be told by positions that have shifted: within the block RDDs
        # with lineage are computed as PySpark's own.
        self._patch(LineageContext, "capturing", property(lambda _: False))
        self._sql.open()
        return self

    def _patch(self, owner: type, name: str, value: Any) -> None:
        self._patches.append((owner, name, owner.__dict__.get(name)))
        setattr(owner, name, value)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sql.close()
        for owner, name, before in reversed(self._patches):
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        for frame, jdf in self._planned:
            hold(frame, jdf)
        for handle, command in self._armed.values():
            put_back(handle, command)
        self._end("read what was put aside", self._read_log)
        self._end("tell the rows that were put aside", self._read_rows)
        super().__exit__(kind, error, trace)

    def _end(self, what: str, do: Callable[[], tuple[Quarantined, ...]]) -> None:
        """The user's job has ended: nothing that is told about it afterwards may make it fail."""
        try:
            with self._c.quietly():
                self.records += do()
        except Exception as trouble:
            said = str(trouble).split("\n", 1)[0]
            self.notes += (f"whence could not {what}: {type(trouble).__name__}: {said}",)
            log.warning(self.notes[-1])

    def _read_log(self) -> tuple[Quarantined, ...]:
        self._actor.commit()
        return self._read()

    def _read_rows(self) -> tuple[Quarantined, ...]:
        return tuple(
            Quarantined(
                one.name, one.record, one.message, one.context, -1, sources=places.get(_key(tuple(one.record)), ())
            )
            for search, failed in self._failed
            for check in dict.fromkeys(one.check for one in failed)
            for places in [self._places_of(search.rows(check))]
            for one in failed
            if one.check is check
        )  # fmt: skip

    def _arm_frame(self, frame: Any, jdf: Any) -> None:
        if id(frame) in self._seen:
            return
        self._seen.add(id(frame))
        self._kept.append(frame)  # or its id might be given to another
        try:
            plan = jdf.queryExecution().analyzed()
        except PySparkException:  # one side of a lateral join has no meaning without the other
            return
        functions = python_functions(self._c, plan)
        if functions:
            # Planned anew: a query that failed before keeps its failed stages, one that went well its finished ones.
            self._planned.append((frame, jdf))
            hold(frame, held(self._c.frame(plan)))
        for placed in functions:
            place = self._c.identity(placed.handle)
            if place in self._armed or placed.kind is None:
                continue
            command = command_of(placed.handle)
            function, *rest = command if isinstance(command, tuple) else (command,)
            aside = quarantine_worker.Aside(self._actor, self._findings, _name(function), place)
            going_on = quarantine_worker.going_on(function, placed.kind, rest[0] if rest else None, aside)
            self._places[place] = (frame, placed)
            self._exchange(placed.handle, (going_on, *rest) if rest else going_on)

    def _arm_rdd(self, jrdd: Any) -> None:
        for node in rdd_nodes(jrdd.rdd()):
            if self._c.identity(node.handle) in self._armed:
                continue
            command = command_of(node.handle)
            aside = partial(quarantine_worker.Aside, self._actor, self._findings)
            going_on = quarantine_worker.pipeline_function(command[0], aside)
            self._exchange(node.handle, (going_on, *command[1:]))

    def _exchange(self, handle: Any, command: Any) -> None:
        self._armed[self._c.identity(handle)] = (handle, raw_command(handle))
        set_command(self._context, handle, carried(command))

    # -- afterwards ------------------------------------------------------------------------------------------------

    def _read(self) -> tuple[Quarantined, ...]:
        if not self._session.actors.registry().has_log(self._actor.id):
            return ()
        found: list[Quarantined] = []
        spoilt = 0
        for _, values, errors in self._session.actors.log(self._actor).pairs():
            for value, told in zip(values.to_pylist(), errors.to_pylist(), strict=True):
                try:
                    note = json.loads(told)
                    record = self._unpacked(value, note, "record")
                    given = self._unpacked(note["given"], note, "given") if "given" in note else None
                except (Unsigned, ValueError, KeyError):
                    spoilt += 1
                    continue
                found.append(
                    Quarantined(
                        note["function"], record, note["error"], note["traceback"], note["partition"],
                        part=note["part"], side=note["side"], place=note["place"], given=given,
                    )
                )  # fmt: skip
        if spoilt:
            warnings.warn(
                f"{spoilt} records that were put aside are left out: somebody else has changed them in the store, and "
                "reading them could run code of theirs.",
                stacklevel=3,
            )
        return self._with_sources(found)

    def _unpacked(self, text: str, note: dict[str, Any], what: str) -> Any:
        return self._findings.loads(base64.b64decode(text), *quarantine_worker.place_of(note, what))

    def _with_sources(self, found: list[Quarantined]) -> tuple[Quarantined, ...]:
        where: dict[tuple[str, int, str], tuple[str, ...]] = {}
        for place, (frame, placed) in self._places.items():
            for side in (0, 1):
                mine = [q.record for q in found if q.place == place and q.side == side and len(q.record)]
                if mine:
                    traced = self._traced(frame, placed, mine[:TRACED_RECORDS], side)
                    where |= {(place, side, key): places for key, places in traced.items()}
        return tuple(
            replace(q, sources=where.get((q.place, q.side, _key(q.record)), ())) for q in found
        )  # fmt: skip

    def _traced(self, frame: DataFrame, placed: Placed, records: list[Any], side: int) -> dict[str, tuple[str, ...]]:
        rows = culprit_rows(self._c, frame, placed, records, side)
        if rows is None:
            return {}
        return self._places_of(rows, [n for n in rows.columns if n.startswith("whence_arg_")])

    def _places_of(self, rows: DataFrame, names: list[str] | None = None) -> dict[str, tuple[str, ...]]:
        """Where rows stand in their sources, by the values of these columns, or of all."""
        where: dict[str, list[str]] = {}
        try:
            trace = self._session.backward(rows)
            outputs = trace.outputs()
            asked = outputs if names is None else outputs.select(f"`{outputs.columns[0]}`", *names)
            keys = {row[0]: _key(tuple(row)[1:]) for row in asked.collect()}
            for row in trace.associations().collect():
                where.setdefault(keys[row.output], []).append(f"{row.source}: {row.record}")
        except Exception as trouble:
            said = str(trouble).split("\n", 1)[0]
            self.notes += (f"where some records stand in their sources is not known: {said}",)
            return {}
        return {key: tuple(sorted(set(found))) for key, found in where.items()}

    def table(self) -> DataFrame:
        """The records that were put aside: function, record, error, traceback, partition, sources."""
        rows = [
            (q.function, repr(_plain(q.record)), q.error, q.traceback, q.partition, list(q.sources))
            for q in self.records
        ]
        schema = "function string, record string, error string, traceback string, partition int, sources array<string>"
        return self._session.spark.createDataFrame(rows, schema)

    def replay(self, fixed: Callable[..., Any]) -> tuple[Retried, ...]:
        """A mended function on the records that were put aside, and on nothing else. Records that failed together are
        given together."""
        parts: dict[str, list[Quarantined]] = {}
        for one in self.records:
            parts.setdefault(one.part, []).append(one)
        done = []
        for together in parts.values():
            record = together[0].record if len(together) == 1 else tuple(one.record for one in together)
            try:
                done.append(Retried(record, self._again(fixed, together[0])))
            except Exception as error:
                done.append(Retried(record, error=f"{type(error).__name__}: {error}"))
        return tuple(done)

    def _again(self, fixed: Any, one: Quarantined) -> Any:
        if one.given is not None:
            return call_batch(fixed, one.given)
        if one.place not in self._places:
            return fixed(one.record)  # of an RDD
        return list(fixed().eval(*one.record) or ()) if isinstance(fixed, type) else fixed(*one.record)


def _plain(record: Any) -> Any:
    if not isinstance(record, tuple):
        return record
    return tuple(v.item() if type(v).__module__ == "numpy" and hasattr(v, "item") else v for v in record)


def _key(value: Any) -> str:
    """By which a record is known again: pandas, Arrow and Spark have values of their own for the same thing."""
    if isinstance(value, tuple | list):
        return "(" + ", ".join(map(_key, value)) + ")"
    if isinstance(value, dict):
        return _key(tuple(value.values()))
    plain = plain_value(value)
    if plain is None or plain != plain:
        return "null"
    return repr(float(plain) if isinstance(plain, int | float) and not isinstance(plain, bool) else plain)


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", getattr(function, "__name__", type(function).__name__)))
