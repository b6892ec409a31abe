"""Guarding actions: when user code fails, find the record (Newt's crash culprits, section 4).

Nothing is added to a job that goes well. When one fails, the failing function's input is computed again, on the failing
partition if Spark tells which, and the function is called until it fails. Processes that die are run again with every
record written down before it is touched.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from pyspark.core.rdd import RDD
from pyspark.sql import DataFrame, DataFrameWriter, DataFrameWriterV2

from whence.debug import guard_worker
from whence.debug.attached import Attached
from whence.debug.culprit import SHOWN_ROWS, Culprit, SourceRows, write_script
from whence.debug.guard_spark import (
    PythonNode,
    failed_partition,
    input_split,
    plan_nodes,
    rdd_nodes,
    rdd_over,
)
from whence.model import WhenceError
from whence.sql import Catalyst

_DIED = ("Python worker exited unexpectedly", "ExecutorLostFailure", "OutOfMemoryError", "exited with code")


class Guard:
    """Made by `Session.guard`. After a failure `culprit` holds the finding; the error carries it too."""

    def __init__(self, session: Attached, home: Path) -> None:
        self._session = session
        self._home = home
        self.culprit: Culprit | None = None

    def __enter__(self) -> Guard:
        _ = self._session.spark
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception) or not failed_in_python(error):
            return
        try:
            self.culprit = Search(self._session, self._home).find(error)
            note = str(self.culprit) if self.culprit else "whence found no record on which the function fails again."
        except Exception as trouble:  # the user's own error must stay the one that is seen
            note = f"whence could not look for the culprit: {type(trouble).__name__}: {trouble}"
        error.culprit = self.culprit  # type: ignore[attr-defined]
        if sys.version_info >= (3, 11):
            error.add_note(note)
        else:
            print(note, file=sys.stderr)


def guard(session: Attached, home: Path, on_error: str) -> Guard:
    if on_error == "raise":
        return Guard(session, home)
    if on_error == "quarantine":
        from whence.debug.quarantine import QuarantineGuard

        return QuarantineGuard(session, home)
    raise ValueError(f'on_error is "raise" or "quarantine", not {on_error!r}.')


def failed_in_python(error: BaseException) -> bool:
    text = str(error)
    return "Python worker" in text or "PythonException" in text or any(sign in text for sign in _DIED)


def actions_in(trace: TracebackType | None) -> list[Any]:
    """The RDDs and DataFrames whose methods stand in the traceback of a failed action, innermost first."""
    found: list[Any] = []
    while trace is not None:
        values = trace.tb_frame.f_locals
        holder = values.get("self")
        if isinstance(holder, DataFrameWriter | DataFrameWriterV2):
            holder = holder._df
        if isinstance(holder, RDD | DataFrame) and not any(holder is f for f in found):
            found.insert(0, holder)
        trace = trace.tb_next
    return found


class Search:
    def __init__(self, session: Attached, home: Path) -> None:
        self._session = session
        self._context: Any = session.spark.sparkContext
        self._c = Catalyst(session.spark)
        self._home = home / uuid.uuid4().hex[:12]

    def find(self, error: Exception) -> Culprit | None:
        text = str(error)
        died = "Traceback (most recent call last)" not in text and any(sign in text for sign in _DIED)
        partition = failed_partition(self._context)
        candidates = [
            (frame, node) for frame in actions_in(error.__traceback__) for node in self._nodes(frame)
        ]  # fmt: skip
        matching = [(f, n) for f, n in candidates if _in_traceback(n.function, text)]
        for frame, node in matching or candidates:
            for wanted in (partition, None) if partition is not None else (None,):
                found = self._locate(node, wanted, died)
                if found is not None:
                    return self._culprit(frame, node, found)
        return None

    def _nodes(self, frame: Any) -> Iterator[PythonNode]:
        if isinstance(frame, DataFrame):
            yield from plan_nodes(self._c, frame._jdf.queryExecution().optimizedPlan())
        else:
            twin = getattr(frame, "_plain", None)  # an RDD with lineage has a plain twin with the user functions
            yield from rdd_nodes(self._context, (twin() if callable(twin) else frame)._jrdd.rdd())

    def _locate(self, node: PythonNode, wanted: int | None, died: bool) -> guard_worker.Found | None:
        crashes = self._home / "last-started" if died else None
        if crashes is not None:
            shutil.rmtree(crashes, ignore_errors=True)
            crashes.mkdir(parents=True)
        try:
            found = self._run(node, wanted, str(crashes) if crashes else None)
        except Exception as error:
            if crashes is None or not failed_in_python(error):
                raise
            found = self._last_started(crashes, wanted)
            for one in found:
                one |= {"error": "the process died on this record", "traceback": str(error).split("\n", 1)[0]}
        finally:
            if crashes is not None:
                shutil.rmtree(crashes, ignore_errors=True)
        return min(found, key=lambda f: (f["split"], f["index"])) if found else None

    def _last_started(self, crashes: Path, wanted: int | None) -> list[guard_worker.Found]:
        partition = wanted if wanted is not None else failed_partition(self._context)
        files = [f for f in crashes.iterdir() if partition is None or f.stem == str(partition)] or list(
            crashes.iterdir()
        )
        return [guard_worker.read_last(f.read_bytes()) for f in files]

    def _run(self, node: PythonNode, wanted: int | None, crashes: str | None) -> list[guard_worker.Found]:
        if node.kind in ("row", "pipeline"):
            if node.kind == "row":
                rows: RDD[Any] = self._args_frame(node).rdd
                locate: Any = guard_worker.row_locator(node.function, node.arg_names, wanted, crashes)
            else:
                rows = rdd_over(self._context, node)
                locate = guard_worker.pipeline_locator(node.function, wanted, crashes)
            located = rows.mapPartitionsWithIndex(locate)
            if wanted is not None and wanted < located.getNumPartitions():
                return [guard_worker.loads(d) for d in self._context.runJob(located, list, [wanted])]
            return [guard_worker.loads(d) for d in located.collect()]
        if node.kind == "group":
            c = self._c
            columns = [a.name() for a in node.args]
            given = [c.alias(a, f"_{n}") for n, a in enumerate(node.args)]
            keys = [c.alias(a, f"key_{n}") for n, a in enumerate(node.keys)]
            frame = c.frame(c.project([*given, *keys], node.input))
            takes_key = len(inspect.signature(node.function).parameters) == 2
            how = guard_worker.KEYED_GROUP if takes_key else guard_worker.GROUP
            locate = guard_worker.group_locator(node.function, how, columns, crashes)
            result = frame.groupBy(*frame.columns[len(given) :]).applyInPandas(locate, "found binary")
        else:
            frame = self._c.frame(node.input) if node.kind == "frames" else self._args_frame(node)
            locate = guard_worker.batch_locator(node.function, node.kind, wanted, crashes)
            result = frame.mapInPandas(locate, "found binary")
        return [guard_worker.loads(bytes(row.found)) for row in result.collect()]

    def _args_frame(self, node: PythonNode) -> DataFrame:
        c = self._c
        args = [c.alias(arg, f"_{n}") for n, arg in enumerate(node.args)]
        return c.frame(c.project(args, node.input))

    # -- what is told about it -------------------------------------------------------------------------------------

    def _culprit(self, frame: Any, node: PythonNode, found: guard_worker.Found) -> Culprit:
        function, run = node.function, _run_row
        if node.kind == "pipeline":
            if "function" in found:
                function, record = found["function"], tuple(found["args"])
                shown = record[0] if len(record) == 1 else record
            else:
                record = shown = found.get("record", found.get("args", [None])[0])
                run = _run_pipeline
        elif node.kind == "row":
            record = (*found["args"], *found["kwargs"].values())
            shown = record[0] if len(record) == 1 else record
            if found["kwargs"]:
                record, run = (found["args"], found["kwargs"]), _run_keywords
        else:
            shown = found["batch"]
            record = (node.kind, shown, found.get("key"))
            run = _run_batch
            if node.kind == "group":
                takes_key = len(inspect.signature(function).parameters) == 2
                record = (guard_worker.KEYED_GROUP if takes_key else guard_worker.GROUP, shown, found.get("key"))
        name = str(getattr(function, "__qualname__", getattr(function, "__name__", function)))
        culprit = Culprit(name, shown, found["error"], found["traceback"], found["split"], found["index"])
        sources, notes = self._sources(frame, node, found)
        script = write_script(self._home, culprit, function, record, run)
        return replace(culprit, sources=sources, notes=notes, script=script)

    def _sources(
        self, frame: Any, node: PythonNode, found: guard_worker.Found
    ) -> tuple[tuple[SourceRows, ...], tuple[str, ...]]:
        try:
            if node.kind == "pipeline":
                return self._file_of(node, found), ()
            return self._traced(frame, node, found), ()
        except WhenceError as error:
            return (), (f"its source rows are not known: {error}".split("\n", 1)[0],)

    def _file_of(self, node: PythonNode, found: guard_worker.Found) -> tuple[SourceRows, ...]:
        split = input_split(node, found["split"])
        if split is None or found["index"] < 0:
            return ()
        file, start, length = split
        where = f"{file}#record {found['index']} of bytes {start} to {start + length}"
        return (SourceRows(file.rsplit("/", 1)[-1], (found.get("record", found.get("args")),), (where,)),)

    def _traced(self, frame: DataFrame, node: PythonNode, found: guard_worker.Found) -> tuple[SourceRows, ...]:
        """The analysed plan has the function where the user put it; rows with equal arguments fail alike."""
        from whence.debug.guard_sources import culprit_rows

        rows = culprit_rows(self._c, frame, node, found)
        if rows is None:
            return ()
        trace = self._session.backward(rows)
        places: dict[str, list[str]] = {}
        for row in trace.associations().limit(10 * SHOWN_ROWS).collect():
            places.setdefault(row.source, []).append(row.record)
        return tuple(
            SourceRows(name, tuple(source.limit(SHOWN_ROWS).collect()), tuple(sorted(set(places.get(name, ())))))
            for name, source in trace.sources.items()
        )


def _codes(function: Any, seen: set[int] | None = None) -> Iterator[tuple[str, str]]:
    """File and name of every function that this one holds in its closure."""
    seen = set() if seen is None else seen
    if id(function) in seen:
        return
    seen.add(id(function))
    code = getattr(function, "__code__", None)
    if code is not None:
        yield code.co_filename, code.co_name
    for cell in getattr(function, "__closure__", None) or ():
        try:
            content = cell.cell_contents
        except ValueError:
            continue
        if callable(content):
            yield from _codes(content, seen)
    inner = getattr(function, "func", None)  # a partial
    if inner is not None:
        yield from _codes(inner, seen)
    elif code is None and callable(function):
        yield from _codes(type(function).__call__, seen)


def _in_traceback(function: Any, text: str) -> bool:
    raised = set(re.findall(r'File "([^"]+)", line \d+, in (\S+)', text))
    own = {(file, name) for file, name in _codes(function) if "/pyspark/" not in file}
    return bool(own & raised)


# These run in culprit.py, on a machine that need not have whence: they are pickled by value.


def _run_row(function: Any, record: Any) -> None:
    function(*record)


def _run_keywords(function: Any, record: Any) -> None:
    function(*record[0], **record[1])


def _run_pipeline(function: Any, record: Any) -> None:
    for _ in function(0, iter([record])):
        pass


def _run_batch(function: Any, record: Any) -> None:
    how, part, key = record
    series = [part[c] for c in part.columns]
    if how == "series":
        function(*series)
    elif how == "series iterator":
        list(function(iter([series[0] if len(series) == 1 else tuple(series)])))
    elif how == "frames":
        list(function(iter([part])))
    elif how == "keyed group":
        function(key, part)
    else:
        function(part)


for _function in (_run_row, _run_keywords, _run_pipeline, _run_batch):
    _function.__module__ = "__main__"  # what belongs to __main__ is pickled by value
