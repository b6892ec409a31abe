"""Guarding actions: when user code fails, find the record (Newt's crash culprits, section 4).

Nothing is added to a job that goes well. When one fails, the failing function's input is computed again, on the failing
partition if Spark tells which, and the function is called until it fails; a query with functions of batches and groups
runs again with functions that tell what they fail on. Processes that die are run again with every record written down
before it is touched.
"""

from __future__ import annotations

import builtins
import re
import shutil
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any

from pyspark import RDD
from pyspark.sql import DataFrame, DataFrameWriter, DataFrameWriterV2, SparkSession

from whence.debug.attached import Attached
from whence.debug.guard import telling_worker
from whence.debug.guard import worker as guard_worker
from whence.debug.guard.batch_worker import Given, call_batch, records
from whence.debug.guard.culprit import SHOWN_ROWS, Culprit, SourceRows, write_script
from whence.debug.guard.findings_worker import Drop
from whence.debug.guard.functions import (
    Placed,
    PythonNode,
    input_split,
    is_file,
    python_functions,
    rdd_nodes,
    rdd_over,
    row_nodes,
    source_of,
)
from whence.debug.guard.kinds import Kind
from whence.debug.guard.rdd import lineage_sources
from whence.debug.guard.sql import SqlSearch, failed_in_sql
from whence.model import WhenceError
from whence.model.text import visible
from whence.rdd import LineageRDD
from whence.rdd.ship import carried, ship
from whence.rdd.worker import Stage
from whence.spark.failures import failed_partition
from whence.spark.handles import execution_of
from whence.spark.python_functions import command_of, put_back, raw_command, set_command
from whence.spark.rdds import java_rdd
from whence.spark.statements import insert_query, statement_query, table_of
from whence.sql import Catalyst
from whence.sql.row_changes import Change, change_of
from whence.sql.said_in_python import change_said
from whence.store import LocalFiles, private
from whence.store.relay import Relay

_LACKS_ARROW = re.compile(r"No module named '(pyarrow|pandas)")
# Types whose values are the same Python objects whichever way they travel.
_SAME_IN_ARROW = {"string", "boolean", "byte", "short", "integer", "long", "float", "double", "date"}
TRACED_ROWS = 200  # of a smallest failing part: more say nothing more
_DIED = ("Python worker exited unexpectedly", "ExecutorLostFailure", "OutOfMemoryError", "exited with code")


class Guard:
    """Made by `Session.guard`. After a failure `culprit` holds the finding; the error carries it too."""

    def __init__(self, session: Attached, home: Path, relay: Relay) -> None:
        """`home`: a directory of this machine. What executors find comes to it through the relay."""
        self._session = session
        self._home = home
        self._relay = relay
        self.culprit: Culprit | None = None

    def __enter__(self) -> Guard:
        _ = self._session.spark
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception) or self.culprit is not None:
            return
        try:
            search = Search(self._session, self._home, self._relay)
            if not search.is_asked_for(error):
                return
            with search.c.quietly():
                self.culprit = search.find(error)
            note = str(self.culprit) if self.culprit else "whence found no record on which the job fails again."
        except Exception as trouble:  # the user's own error must stay the one that is seen
            note = visible(f"whence could not look for the culprit: {type(trouble).__name__}: {trouble}", lines=True)
        error.culprit = self.culprit  # type: ignore[attr-defined]
        if sys.version_info >= (3, 11):
            error.add_note(note)
        else:
            print(note, file=sys.stderr)

    def _repr_html_(self) -> str:
        from whence.model.html import paragraph

        return paragraph("No record has failed.") if self.culprit is None else self.culprit._repr_html_()


def guard(session: Attached, home: Path, relay: Relay, on_error: str) -> Guard:
    if on_error == "raise":
        return Guard(session, home, relay)
    if on_error == "quarantine":
        from whence.debug.guard.quarantine import QuarantineGuard

        return QuarantineGuard(session, home, relay)
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


def written(c: Catalyst, trace: TracebackType | None) -> list[Any]:
    """The queries of statements that were run at once and of writes into tables, whose values Spark casts to the types
    of the table: as analysed for that, and without running them. Of UPDATE, DELETE and MERGE: what the table would have
    held afterwards. It holds still what it held before."""
    found: list[Any] = []
    while trace is not None:
        values, name = trace.tb_frame.f_locals, trace.tb_frame.f_code.co_name
        holder = values.get("self")
        plan = None
        if isinstance(holder, SparkSession) and name == "sql" and not values.get("args"):
            text = str(values["sqlQuery"])
            change = change_of(c, text)
            plan = change.after if change is not None and change.after is not None else statement_query(c, text)
            plan = _after(change) if plan is None else plan
        elif isinstance(holder, DataFrameWriter) and name in ("insertInto", "saveAsTable"):
            table = values.get("tableName", values.get("name"))
            plan = insert_query(c, str(table), holder._df, by_name=name == "saveAsTable")
        elif isinstance(holder, DataFrameWriterV2) and name in ("append", "overwrite", "overwritePartitions"):
            plan = insert_query(c, table_of(holder), holder._df, by_name=True)
        else:
            plan = _after(change_said(c, holder, name, values))
        if plan is not None:
            found.insert(0, plan)
        trace = trace.tb_next
    return found


def _after(change: Change | None) -> Any:
    if change is None:
        return None
    if change.after is None:
        raise NothingToSearch(f"the {change.operation.upper()} that failed is not searched: {change.why}.")
    return change.after


class NothingToSearch(WhenceError):
    pass


@dataclass(frozen=True, eq=False)
class Candidate:
    """A function that may have failed: of an RDD (only `node`), or of a DataFrame (`placed`), of whose functions of
    single rows the input can be had apart (`node` too)."""

    frame: Any
    function: Any
    node: PythonNode | None = None
    placed: Placed | None = None

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__qualname__", type(self.function).__name__))


class Search:
    def __init__(self, session: Attached, home: Path, relay: Relay) -> None:
        self._session = session
        self._relay = relay
        self._context: Any = session.spark.sparkContext
        self.c = self._c = Catalyst(session.spark)
        self._home = home / uuid.uuid4().hex[:12]
        ship(self._context)

    def is_asked_for(self, error: Exception) -> bool:
        return failed_in_python(error) or failed_in_sql(self._c, error)

    def find(self, error: Exception) -> Culprit | None:
        if not failed_in_python(error):
            return self._find_in_sql(error)
        text = str(error)
        died = "Traceback (most recent call last)" not in text and any(sign in text for sign in _DIED)
        partition = failed_partition(self._context)
        candidates = [c for frame in actions_in(error.__traceback__) for c in self._candidates(frame)]
        if not candidates:
            candidates = [
                c for plan in written(self._c, error.__traceback__) for c in self._candidates(self._c.frame(plan))
            ]
        if not candidates:
            raise NothingToSearch(
                "no DataFrame, RDD or statement with Python functions stands in the traceback of the error, so what "
                "was computed is not known."
            )
        candidates = [c for c in candidates if not isinstance(c.function, Stage)] or candidates
        for candidate in [c for c in candidates if _in_traceback(c.function, text)] or candidates:
            for wanted in (partition, None) if partition is not None else (None,):
                found = self._locate(candidate, wanted, died)
                if found is not None:
                    return self._culprit(candidate, found)
                if candidate.node is None:
                    break  # such a search runs all partitions
        return None

    def _find_in_sql(self, error: Exception) -> Culprit | None:
        plans = [self._c.plan_of(f) for f in actions_in(error.__traceback__) if isinstance(f, DataFrame)]
        plans = [*written(self._c, error.__traceback__), *plans]
        if not plans:
            raise NothingToSearch(
                "no DataFrame and no statement stands in the traceback of the error, so the query is not known."
            )
        return SqlSearch(self._c, self._session.spark).find(plans, error, self._home, self._witnesses)

    def _candidates(self, frame: Any) -> Iterator[Candidate]:
        if not isinstance(frame, DataFrame):
            twin = getattr(frame, "_plain", None)  # an RDD with lineage has a plain twin with the user functions
            for node in rdd_nodes(java_rdd(twin() if callable(twin) else frame)):
                yield Candidate(frame, node.function, node)
            return
        rows = {self._c.identity(n.handle): n
                for n in row_nodes(self._c, execution_of(frame).optimizedPlan())}  # fmt: skip
        for placed in python_functions(self._c, self._c.plan_of(frame)):
            command = command_of(placed.handle)
            function = command[0] if isinstance(command, tuple) else command
            yield Candidate(frame, function, rows.get(self._c.identity(placed.handle)), placed)

    # -- running it again --------------------------------------------------------------------------------------------

    def _locate(self, candidate: Candidate, wanted: int | None, died: bool) -> guard_worker.Found | None:
        directory = self._home / "found"
        shutil.rmtree(directory, ignore_errors=True)
        private.make_directory(directory, self._home.parents[1])
        here = LocalFiles(directory, self._home.parents[1])
        master = str(self._context.master)
        shared = None if master == "local" or master.startswith("local[") else self._relay.mount(here)
        drop = Drop(shared or here)
        try:
            if candidate.node is None:
                found = self._told(candidate, drop, directory, died)
            else:
                found = self._run(candidate, candidate.node, wanted, drop if died else None)
        except Exception as error:
            if not died or not failed_in_python(error):
                raise
            found = self._last_started(drop, directory, wanted)
            for one in found:
                one |= {"error": "the process died on this record", "traceback": str(error).split("\n", 1)[0]}
        finally:
            if shared is not None:
                self._relay.unmount(shared)
            shutil.rmtree(directory, ignore_errors=True)
        return min(found, key=lambda f: (f["split"], f["index"])) if found else None

    def _told(self, candidate: Candidate, drop: Drop, here: Path, died: bool) -> list[guard_worker.Found]:
        """The query runs again as it is, with a function that tells in the place of the user's."""
        assert candidate.placed is not None
        kind, handle = candidate.placed.kind, candidate.placed.handle
        if kind is None:
            raise NothingToSearch(
                f"{candidate.name} is a function of {candidate.placed.plan.nodeName()}, which keeps state between "
                "batches: what it fails on depends on what came before, so there is no record to find."
            )
        before = raw_command(handle)
        told = telling_worker.telling(candidate.function, kind, drop, died)
        command = command_of(handle)
        set_command(self._context, handle, carried((told, *command[1:]) if isinstance(command, tuple) else told))
        try:
            # Planned anew: a plan that failed keeps the failure.
            execution_of(self._c.frame(self._c.plan_of(candidate.frame))).toRdd().count()
        except Exception as error:
            if died or not failed_in_python(error):
                raise
        finally:
            put_back(handle, before)
        files = here.glob(f"*{telling_worker.FOUND}")
        return [drop.findings.loads(f.read_bytes()) for f in files]

    def _last_started(self, drop: Drop, here: Path, wanted: int | None) -> list[guard_worker.Found]:
        partition = wanted if wanted is not None else failed_partition(self._context)
        files = [f for f in here.iterdir() if f.stat().st_size]
        files = [f for f in files if partition is None or f.stem == str(partition)] or files
        return [guard_worker.read_last(f.read_bytes(), drop) for f in files]

    def _run(
        self, candidate: Candidate, node: PythonNode, wanted: int | None, crashes: Drop | None
    ) -> list[guard_worker.Found]:
        if candidate.placed is None:
            locate = guard_worker.pipeline_locator(node.function, wanted, crashes)
            return self._located(rdd_over(self._context, node).mapPartitionsWithIndex(locate), wanted)
        args = [self._c.alias(arg, f"_{n}") for n, arg in enumerate(node.args)]
        rows = self._c.frame(self._c.project(args, node.input))
        how = (node.function, node.arg_names, wanted, crashes)
        if args and _has_pandas() and all(f.dataType.typeName() in _SAME_IN_ARROW for f in rows.schema):
            found = rows.mapInArrow(guard_worker.arrow_locator(*how), "found binary")
            try:
                return self._located(found.rdd.map(lambda row: bytes(row[0])), wanted)
            except Exception as error:  # a plain function needs neither, and executors' Python may have neither
                if not _LACKS_ARROW.search(str(error)):
                    raise
        return self._located(rows.rdd.mapPartitionsWithIndex(guard_worker.row_locator(*how)), wanted)

    def _located(self, located: RDD[Any], wanted: int | None) -> list[guard_worker.Found]:
        if wanted is not None and wanted < located.getNumPartitions():
            return [guard_worker.loads(d) for d in self._context.runJob(located, list, [wanted])]
        return [guard_worker.loads(d) for d in located.collect()]

    # -- what is told about it -------------------------------------------------------------------------------------

    def _culprit(self, candidate: Candidate, found: guard_worker.Found) -> Culprit:
        function, record, shown, run, notes = _how_it_failed(candidate, found)
        name = str(getattr(function, "__qualname__", getattr(function, "__name__", function)))
        culprit = Culprit(name, shown, found["error"], found["traceback"], found["split"], found["index"])
        sources, unknown = self._sources(candidate, found)
        script = write_script(self._home, culprit, function, record, run)
        return replace(culprit, sources=sources, notes=(*notes, *unknown), script=script)

    def _sources(
        self, candidate: Candidate, found: guard_worker.Found
    ) -> tuple[tuple[SourceRows, ...], tuple[str, ...]]:
        try:
            if candidate.placed is None:
                assert candidate.node is not None
                sources = self._file_of(candidate.node, found)
                if not sources and isinstance(candidate.frame, LineageRDD):
                    sources = lineage_sources(candidate.frame, found)
                return sources, () if sources else (
                    "its source records are not known: they were shuffled, or computed",
                )
            return self._traced(candidate.frame, candidate.placed, found)
        except WhenceError as error:
            return (), (f"its source rows are not known: {error}".split("\n", 1)[0],)

    def _file_of(self, node: PythonNode, found: guard_worker.Found) -> tuple[SourceRows, ...]:
        source = source_of(node)
        if source is None or found["index"] < 0:
            return ()
        record = (found.get("record", found.get("args")),)
        if not is_file(source):
            return (SourceRows("parallelize", record, (f"partition {found['split']}, record {found['index']}",)),)
        file, start, length = input_split(source, found["split"])
        where = f"{file}#record {found['index']} of bytes {start} to {start + length}"
        return (SourceRows(file.rsplit("/", 1)[-1], record, (where,)),)

    def _traced(
        self, frame: DataFrame, placed: Placed, found: guard_worker.Found
    ) -> tuple[tuple[SourceRows, ...], tuple[str, ...]]:
        """The analysed plan has the function where the user put it; rows with equal arguments fail alike."""
        from whence.debug.guard.sources import culprit_rows

        if "args" in found:
            given = [(0, (*found["args"], *found["kwargs"].values()))]
        else:
            given = records(found["given"]) if found["given"] else []
        sources: list[SourceRows] = []
        for side in sorted({side for side, _ in given}):
            mine = [row for s, row in given if s == side][:TRACED_ROWS]
            rows = culprit_rows(self._c, frame, placed, mine, side)
            if rows is None:
                return (), ("its source rows are not known: its values cannot be compared in SQL",)
            sources += self._witnesses(rows)
        if len(given) > 1 and placed.kind is not None and placed.kind.form in ("aggregate", "window"):
            return tuple(sources), ("its source rows are those with these values, in whichever group they stand",)
        return tuple(sources), ()

    def _witnesses(self, asked: DataFrame) -> Iterator[SourceRows]:
        trace = self._session.backward(asked)
        for name in trace.sources:
            rows, lines = trace.first_placed(name, 10 * SHOWN_ROWS)
            if not rows:  # one that rows were looked for in, and none met: an anti join's, a MERGE's table
                continue
            places = lines or sorted(set(trace.first_records(name, 10 * SHOWN_ROWS)))
            yield SourceRows(name, tuple(rows[:SHOWN_ROWS]), tuple(places))


def _has_pandas() -> bool:
    """PySpark asks for it before it lets a function have Arrow's batches."""
    try:
        import pandas  # type: ignore[import-untyped, unused-ignore] # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def _how_it_failed(candidate: Candidate, found: guard_worker.Found) -> tuple[Any, Any, Any, Any, tuple[str, ...]]:
    """The function, what to pickle for it, what to show of that, how culprit.py calls it, and notes."""
    function = candidate.function
    if candidate.placed is None:
        if "function" in found:
            record = tuple(found["args"])
            return found["function"], record, record[0] if len(record) == 1 else record, _run_row, ()
        record = found.get("record", found.get("args", [None])[0])
        return function, record, record, _run_pipeline, ()
    if "args" in found:
        record = (*found["args"], *found["kwargs"].values())
        run = _run_keywords if candidate.placed.kind == Kind("row") else _run_class
        return function, (found["args"], found["kwargs"]), record[0] if len(record) == 1 else record, run, ()
    notes = () if found.get("alone", True) else ("it failed here only after the batches before this one",)
    return function, found["given"], _shown(found["given"]), _run_batch, notes


def _shown(given: Given | None) -> Any:
    """What the function was given, as one table a side."""
    if given is None:
        return None
    if not given["columns"]:
        tables = tuple(side[0] for side in given["sides"])
        return tables[0] if len(tables) == 1 else tables
    columns = {f"_{n}": column for n, column in enumerate(given["sides"][0])}
    if all(hasattr(column, "iloc") for column in columns.values()):
        import pandas as pd  # type: ignore[import-untyped, unused-ignore]

        return pd.DataFrame({n: c if not hasattr(c, "columns") else c.to_dict("records") for n, c in columns.items()})
    import pyarrow as pa

    return pa.table(columns)


def _codes(function: Any, seen: set[int] | None = None) -> Iterator[tuple[str, str]]:
    """File and name of every function that this one holds in its closure."""
    seen = set() if seen is None else seen
    if id(function) in seen:
        return
    seen.add(id(function))
    if isinstance(function, type):  # a table function
        for method in vars(function).values():
            if callable(method) and not isinstance(method, type):
                yield from _codes(method, seen)
        return
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
        elif hasattr(content, "mergeValue"):  # PySpark's combiner
            for merge in (content.createCombiner, content.mergeValue, content.mergeCombiners):
                yield from _codes(merge, seen)
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


def _run_class(handler: Any, record: Any) -> None:
    for _ in handler().eval(*record[0], **record[1]) or ():
        pass


# A copy that knows nothing of the module it comes from.
_run_batch = FunctionType(call_batch.__code__, {"__builtins__": builtins}, "run_batch")

for _function in (_run_row, _run_keywords, _run_pipeline, _run_class, _run_batch):
    _function.__module__ = "__main__"  # what belongs to __main__ is pickled by value
