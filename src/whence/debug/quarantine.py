"""`w.guard(on_error="quarantine")`: the job ends, the failing records stand in a table with their sources and errors.

Inside the block, the Python functions of every DataFrame and RDD that is touched are exchanged, in the JVM, for ones
that go on after an error; at its end they are put back. A plain or pandas UDF gives null for a failing row; map,
flatMap, filter, mapInPandas and applyInPandas leave the failing rows out. Functions of whole RDD partitions are left
alone: nobody else knows how to go on inside them.
"""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from pyspark import cloudpickle as _cloudpickle
from pyspark.core.rdd import RDD, PipelinedRDD
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from whence.debug import quarantine_worker
from whence.debug.attached import Attached
from whence.debug.guard import Guard
from whence.debug.guard_sources import culprit_rows
from whence.debug.guard_spark import (
    PythonNode,
    command_of,
    put_back,
    python_functions,
    raw_command,
    rdd_nodes,
    set_command,
)
from whence.debug.guard_worker import GROUP, KEYED_GROUP
from whence.model import WhenceError
from whence.sql import Catalyst

cloudpickle: Any = _cloudpickle

TRACED_RECORDS = 200  # of each function; further ones are in the table without their sources


@dataclass(frozen=True)
class Quarantined:
    """A record that was put aside."""

    function: str
    record: Any
    error: str
    traceback: str
    partition: int
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Retried:
    record: Any
    result: Any = None
    error: str | None = None


class QuarantineGuard(Guard):
    def __init__(self, session: Attached, home: Path) -> None:
        super().__init__(session, home)
        self._c = Catalyst(session.spark)
        self._context: Any = session.spark.sparkContext
        self._actor = session.actors.register("quarantine", kind="quarantine")
        self._armed: dict[str, tuple[Any, Any]] = {}  # function in the JVM -> itself, its command
        self._nodes: dict[str, tuple[Any, PythonNode]] = {}  # name -> where it stands
        self._seen: set[int] = set()
        self._kept: list[Any] = []
        self.records: tuple[Quarantined, ...] = ()

    # -- arming ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> QuarantineGuard:
        super().__enter__()
        self._patches: list[tuple[type, str, Any]] = []
        arm_frame, arm_rdd = self._arm_frame, self._arm_rdd

        def frame_of(frame: Any) -> Any:
            jdf = frame.__dict__["_jdf"]
            arm_frame(frame, jdf)
            return jdf

        def rdd_of(rdd: Any) -> Any:
            jrdd = rdd.__dict__["_jrdd"]
            arm_rdd(jrdd)
            return jrdd

        pipelined = PipelinedRDD.__dict__["_jrdd"]

        def pipelined_of(rdd: Any) -> Any:
            jrdd = pipelined.fget(rdd)
            arm_rdd(jrdd)
            return jrdd

        self._patch(ClassicDataFrame, "_jdf", property(frame_of, partial(_set, "_jdf")))
        self._patch(RDD, "_jrdd", property(rdd_of, partial(_set, "_jrdd")))
        self._patch(PipelinedRDD, "_jrdd", property(pipelined_of))
        return self

    def _patch(self, owner: type, name: str, value: Any) -> None:
        self._patches.append((owner, name, owner.__dict__.get(name)))
        setattr(owner, name, value)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for owner, name, before in reversed(self._patches):
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        for handle, command in self._armed.values():
            put_back(handle, command)
        self._actor.commit()
        self.records = self._read()
        super().__exit__(kind, error, trace)

    def _arm_frame(self, frame: Any, jdf: Any) -> None:
        if id(frame) in self._seen:
            return
        self._seen.add(id(frame))
        self._kept.append(frame)  # or its id might be given to another
        for kind, handle in python_functions(self._c, jdf.queryExecution().analyzed()):
            if self._c.identity(handle) in self._armed:
                continue
            function, returned = command_of(self._context, handle)[:2]
            name = _name(function)
            aside = quarantine_worker.Aside(self._actor, name)
            going_on = self._going_on(kind, function, returned, aside)
            self._nodes[name] = (frame, PythonNode(kind, function, handle, jdf))
            self._exchange(handle, (going_on, returned))

    def _going_on(self, kind: str, function: Any, returned: Any, aside: quarantine_worker.Aside) -> Callable[..., Any]:
        if kind == "group":
            how = KEYED_GROUP if len(inspect.signature(function).parameters) == 2 else GROUP
            return quarantine_worker.group_function(function, how, returned.fieldNames(), aside)
        made = {
            "row": quarantine_worker.row_function,
            "series": quarantine_worker.series_function,
            "series iterator": quarantine_worker.series_iterator_function,
            "frames": quarantine_worker.frames_function,
        }
        return made[kind](function, aside)

    def _arm_rdd(self, jrdd: Any) -> None:
        for node in rdd_nodes(self._context, jrdd.rdd()):
            if self._c.identity(node.handle) in self._armed:
                continue
            command = command_of(self._context, node.handle)
            going_on = quarantine_worker.pipeline_function(command[0], partial(quarantine_worker.Aside, self._actor))
            self._exchange(node.handle, (going_on, *command[1:]))

    def _exchange(self, handle: Any, command: Any) -> None:
        self._armed[self._c.identity(handle)] = (handle, raw_command(handle))
        set_command(self._context, handle, command)

    # -- afterwards ------------------------------------------------------------------------------------------------

    def _read(self) -> tuple[Quarantined, ...]:
        if not self._session.actors.registry().has_log(self._actor.id):
            return ()
        found: list[Quarantined] = []
        for _, records, errors in self._session.actors.log(self._actor).pairs():
            for record, told in zip(records.to_pylist(), errors.to_pylist(), strict=True):
                note = json.loads(told)
                value = cloudpickle.loads(base64.b64decode(record))
                found.append(
                    Quarantined(note["function"], value, note["error"], note["traceback"], note["partition"])
                )  # fmt: skip
        return self._with_sources(found)

    def _with_sources(self, found: list[Quarantined]) -> tuple[Quarantined, ...]:
        places: dict[tuple[str, str], tuple[str, ...]] = {}
        for name, (frame, node) in self._nodes.items():
            mine = [q.record for q in found if q.function == name][:TRACED_RECORDS]
            if mine:
                places |= {(name, key): where for key, where in self._traced(frame, node, mine).items()}
        return tuple(
            Quarantined(q.function, q.record, q.error, q.traceback, q.partition,
                        places.get((q.function, repr(_plain(q.record))), ()))
            for q in found
        )  # fmt: skip

    def _traced(self, frame: DataFrame, node: PythonNode, records: list[Any]) -> dict[str, tuple[str, ...]]:
        import pandas as pd  # type: ignore[import-untyped, unused-ignore]

        batch = pd.DataFrame([tuple(r) for r in records]).astype(object)
        rows = culprit_rows(self._c, frame, node, {"batch": batch})
        if rows is None:
            return {}
        try:
            trace = self._session.backward(rows)
            names = [n for n in rows.columns if n.startswith("whence_arg_")]
            number = trace.outputs().columns[0]
            keys = {row[0]: repr(tuple(row[1:])) for row in trace.outputs().select(f"`{number}`", *names).collect()}
            where: dict[str, list[str]] = {}
            for row in trace.associations().collect():
                where.setdefault(keys[row.output], []).append(f"{row.source}: {row.record}")
        except WhenceError:
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
        """A mended function on the records that were put aside, and on nothing else."""
        done = []
        for one in self.records:
            try:
                done.append(Retried(one.record, _call(fixed, self._kind_of(one.function), one.record)))
            except Exception as error:
                done.append(Retried(one.record, error=f"{type(error).__name__}: {error}"))
        return tuple(done)

    def _kind_of(self, name: str) -> str:
        return self._nodes[name][1].kind if name in self._nodes else "pipeline"


def _call(function: Callable[..., Any], kind: str, record: Any) -> Any:
    if kind == "pipeline":
        return function(record)
    if kind == "row":
        return function(*record)
    import pandas as pd

    from whence.debug.guard_worker import call_batch

    row = pd.DataFrame([record], columns=[f"_{n}" for n in range(len(record))])
    return call_batch(function, kind, row)


def _plain(record: Any) -> Any:
    if not isinstance(record, tuple):
        return record
    return tuple(v.item() if type(v).__module__ == "numpy" and hasattr(v, "item") else v for v in record)


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", getattr(function, "__name__", type(function).__name__)))


def _set(name: str, holder: Any, value: Any) -> None:
    holder.__dict__[name] = value
