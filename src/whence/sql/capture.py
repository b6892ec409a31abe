"""`with w.capture():` - what the actions within it compute is written down where it could not be told afterwards.

PySpark's own methods are wrapped for as long as a capture is open (wrapping.py). An action of a DataFrame is then
computed from what is written down (exchange.py); a write is remembered with its query (writes.py). Nothing here may
harm the user's own action: what cannot be captured is said in a warning, and the action runs as it stands.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    PythonException,
    SparkRuntimeException,
)
from pyspark.sql import DataFrame, DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from whence.model import operators
from whence.model.quiet import FACTS
from whence.spark.frames import ClassicDataFrame
from whence.spark.handles import become, dataset_of, frame_in
from whence.spark.sessions import is_same_session, is_stopped, shares_context
from whence.sql import checkpoints, facts, said_in_python, targets
from whence.sql.batches import keep_batch
from whence.sql.catalyst import Catalyst, Plan
from whence.sql.checkpoints import put_back
from whence.sql.exchange import Failed, facts_in, for_the_user, settle, tap_aggregate
from whence.sql.lake_writes import pending_change, pending_write
from whence.sql.memory import Fact
from whence.sql.plans import as_read
from whence.sql.row_changes import Change, change_of
from whence.sql.sinks import remember_stream
from whence.sql.targets import Target
from whence.sql.tree import Node, tree_of
from whence.sql.wrapping import Wrapping
from whence.sql.writes import Pending, remember_unfollowed
from whence.strategy import Plan as Steps
from whence.strategy.steps import NOTHING, RERUN, WRITE

log = logging.getLogger("whence.sql")
T = TypeVar("T")

ACTIONS = (
    *("collect", "toPandas", "toArrow", "toLocalIterator", "count", "isEmpty", "show"),
    *("take", "head", "first", "tail", "foreach", "foreachPartition"),
)
# Those that compute every row and every column.
_WHOLE = ("collect", "toPandas", "toArrow", "foreach", "foreachPartition")
KEEPING = ("cache", "persist")
WRITES = ("save", "saveAsTable", "insertInto", "parquet", "orc", "json", "csv", "text", "xml", "jdbc")
WRITES_V2 = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")
CHECKPOINTS = ("checkpoint", "localCheckpoint")
STARTS = ("start", "toTable")
_AHEAD = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_WRITING = re.compile(_AHEAD + r"(?:insert|create|replace|with|from)\b", re.IGNORECASE | re.DOTALL)
_CHANGING = re.compile(_AHEAD + r"(?:update|delete|merge)\b", re.IGNORECASE | re.DOTALL)

# What code of the user's, or an expression of his query, raises; other failures may be whence's own.
_USERS_OWN = (
    *(PythonException, SparkRuntimeException, ArithmeticException, ArrayIndexOutOfBoundsException),
    *(DateTimeException, NumberFormatException),
)
# Above an operator, these show all of its rows and columns.
_SHOWING_ALL = (*operators.LOOKED_THROUGH, *operators.PLACEMENT, "Sort")

_EVERY: dict[tuple[type, str], str] = {
    **{(ClassicDataFrame, name): "action" for name in ACTIONS},
    **{(ClassicDataFrame, name): "keeping" for name in KEEPING},
    **{(ClassicDataFrame, name): "checkpointing" for name in CHECKPOINTS},
    **{(DataFrameWriter, name): "write" for name in WRITES},
    **{(DataFrameWriterV2, name): "write_v2" for name in WRITES_V2},
    (SparkSession, "sql"): "sql",
    **{(DataStreamWriter, name): "start" for name in STARTS},
}
# The classes are the process's, and so is this. Older releases of PySpark lack some of the methods.
_WRAPPING = Wrapping({(owner, name): how for (owner, name), how in _EVERY.items() if hasattr(owner, name)})


def forget(c: Catalyst) -> None:
    """Remove what was captured for this session alone; what captured writes need stays."""
    if is_stopped(c.spark):
        return
    with contextlib.suppress(Exception):  # closing must not fail for it
        facts.forget(c)


@dataclass(frozen=True, eq=False)
class Captured:
    """A DataFrame with the same rows, computed from these facts."""

    frame: DataFrame
    facts: list[Fact] = field(default_factory=list)


class Capture:
    def __init__(self, c: Catalyst, plan: Steps | None = None) -> None:
        """`plan` says what is kept of the steps that it names; of all others, what can be."""
        self._c = c
        self._plan = plan

    @contextmanager
    def open(self) -> Iterator[None]:
        with _WRAPPING.opened(self, said_in_python.methods(self._c.spark)):
            yield

    def is_ours(self, this: Any) -> bool:
        frame = this if isinstance(this, DataFrame) else getattr(this, "_df", getattr(this, "_spark", this))
        session = getattr(frame, "sparkSession", frame)
        return shares_context(session, self._c.spark)

    # --- DataFrames

    def action(self, method: Callable[..., Any], df: DataFrame, *args: Any, **options: Any) -> Any:
        whole = method.__name__ in _WHOLE
        captured = self.captured(df, durable=False, whole=whole, keep=self._wanted(df))
        started = time.perf_counter()
        result = self._run(captured, df, lambda frame: method(frame, *args, **options))
        if whole:
            self._timed(df, time.perf_counter() - started)
        return result

    def _wanted(self, df: DataFrame, target: Callable[[], Target] | None = None) -> str | None:
        """What the plan says of this step; None where it says nothing."""
        if self._plan is None:
            return None
        try:
            written = target() if target is not None else None
            for step in (df, *((written.name, written.place) if written is not None else ())):
                if step in self._plan:
                    return self._plan[step][0]
        except Exception as problem:
            self._warn(problem)
        return None

    def _timed(self, df: DataFrame, seconds: float) -> None:
        with contextlib.suppress(Exception):  # a note for later, which must harm nothing now
            self._c.memory.timed = [*self._c.memory.timed[-99:], (put_back(self._c, self._c.plan_of(df)), seconds)]

    def keeping(self, method: Callable[..., Any], df: DataFrame, *args: Any, **options: Any) -> DataFrame:
        """What is cached must be what is written down; the DataFrame that was asked to keep its rows becomes that."""
        captured = self.captured(df)
        facts.keep(captured.facts)
        become(df, captured.frame)
        method(df, *args, **options)
        return df

    def checkpointing(self, method: Callable[..., Any], df: DataFrame, *args: Any, **options: Any) -> DataFrame:
        captured = self.captured(df, whole=True)
        made: DataFrame = self._run(captured, df, lambda frame: method(frame, *args, **options))
        checkpoints.remember(self._c, made, self._c.plan_of(captured.frame))
        return made

    def _run(
        self,
        captured: Captured,
        plain: DataFrame,
        run: Callable[[DataFrame], T],
        clear: Callable[[], bool] | None = None,
    ) -> T:
        """The user's action; should what was written down get lost on the way, as it stands. `clear`: takes away what
        the first attempt left in the way of the second."""
        if captured.frame is plain:
            return run(plain)
        try:
            return run(captured.frame)
        except Exception as problem:
            facts.drop(self._c, captured.facts)
            if f"/{FACTS}/" not in str(problem) and all(facts.damage(self._c, f) is None for f in captured.facts):
                raise
            self._warn(problem)
        try:
            return run(plain)
        except Exception as problem:
            if clear is None or "ALREADY_EXISTS" not in str(problem) or not clear():
                raise
        return run(plain)

    def _clear(self, target: Callable[[], Target]) -> bool:
        """A write that failed leaves its directory, empty, and a second one finds it there. That it is asked for at all
        says that there was none before: then the first would have been refused."""
        try:
            place = target()
            if not place.is_directory or set(self._c.names_in(place.place)) - {"_temporary"}:
                return False
            self._c.remove(place.place)
            return True
        except Exception as problem:
            self._warn(problem)
            return False

    # --- writes

    def write(self, method: Callable[..., Any], writer: Any, *args: Any, **options: Any) -> Any:
        def target() -> Target:
            return targets.of_writer(self._c, writer, method.__name__, args, options)

        return self._write(lambda: method(writer, *args, **options), writer, target, lambda: self._clear(target))

    def write_v2(self, method: Callable[..., Any], writer: Any, *args: Any, **options: Any) -> Any:
        def target() -> Target:
            return targets.of_writer_v2(self._c, writer, method.__name__, args, options)

        return self._write(lambda: method(writer, *args, **options), writer, target)

    def _write(
        self,
        write: Callable[[], Any],
        writer: Any,
        target: Callable[[], Target],
        clear: Callable[[], bool] | None = None,
    ) -> Any:
        df = self._as_read(writer._df)
        wanted = self._wanted(df, target)
        captured = self.captured(df, whole=True, keep=wanted)
        pending = self._pending(df, target, wanted)

        def run(frame: DataFrame) -> Any:
            self._c.exchange_written(writer, dataset_of(frame))
            return write()

        try:
            result = self._run(captured, df, run, clear)
        finally:
            self._c.exchange_written(writer, dataset_of(writer._df))
        self._done(pending)
        return result

    def _as_read(self, df: DataFrame) -> DataFrame:
        """What is written is what is remembered: of a table that went on since, the version that is there now."""
        try:
            plan = self._c.plan_of(df)
            read = as_read(self._c, plan)
            return df if read is plan else frame_in(df.sparkSession, self._c.frame(read))
        except Exception as problem:
            self._warn(problem)
            return df

    def _pending(self, df: DataFrame, target: Callable[[], Target], wanted: str | None) -> Pending | None:
        try:
            if wanted == NOTHING:
                # That it was written is remembered all the same: a trace which ends without a note is complete.
                why = "the plan that its capture followed keeps nothing of it"
                return Pending(self._c, None, replace(target(), why=why))
            return pending_write(self._c, self._c.plan_of(df), target())
        except Exception as problem:
            self._warn(problem)
            return None

    def _done(self, pending: Pending | None) -> None:
        if pending is None:
            return
        try:
            pending.done()
        except Exception as problem:
            self._warn(problem)
        else:
            if pending.why is not None:
                log.warning("whence remembers that this was written, but a trace ends there: %s", pending.why)

    def start(self, method: Callable[..., Any], writer: Any, *args: Any, **options: Any) -> Any:
        """A stream: what it writes as files is remembered with its query."""
        query = method(writer, *args, **options)
        try:
            why = remember_stream(self._c, writer._df, query)
            if why is not None:
                log.warning("whence remembers this stream, but a trace ends at what it writes: %s", why)
        except Exception as problem:
            self._warn(problem)
        return query

    def sql(self, method: Callable[..., Any], spark: SparkSession, *args: Any, **options: Any) -> DataFrame:
        """INSERT and CREATE TABLE ... AS SELECT are run by `spark.sql` itself."""
        text = args[0] if args else options.get("sqlQuery")
        if isinstance(text, str) and _CHANGING.match(text) and self._is_here(spark):
            return self._sql_change(text, len(args) + len(options) > 1, lambda: method(spark, *args, **options))
        if not isinstance(text, str) or not _WRITING.match(text) or not self._is_here(spark):
            plain: DataFrame = method(spark, *args, **options)
            return plain
        known = self._command(text) if len(args) + len(options) == 1 else None
        if known is None:
            result: DataFrame = method(spark, *args, **options)
            self._note(result)
            return result
        command, target = known
        asked = self._c.frame(command.query())
        df = self._as_read(asked)
        wanted = self._wanted(df, lambda: target)
        captured = self.captured(df, whole=True, keep=wanted)
        pending = self._pending(df, lambda: target, wanted)

        def run(frame: DataFrame) -> DataFrame:
            if frame is asked:
                plain: DataFrame = method(spark, *args, **options)
                return plain
            return frame_in(spark, self._c.frame(self._c.copy(command, query=self._c.plan_of(frame))))

        result = self._run(captured, df, run)
        self._done(pending)
        return result

    def _sql_change(self, text: str, has_arguments: bool, run: Callable[[], DataFrame]) -> DataFrame:
        def change() -> Change | None:
            found = change_of(self._c, text)
            if found is not None and has_arguments:
                return replace(found, after=None, why="the SQL text that wrote it was given arguments")
            return found

        result, known = self._change(change, run)
        if not known:
            self._note(result)
        return result

    def merge_into(self, method: Callable[..., None], writer: Any) -> None:
        self._change(lambda: said_in_python.merged_into(self._c, writer), lambda: method(writer))

    def delta_delete(self, method: Callable[..., T], table: Any, *args: Any, **options: Any) -> T:
        return self._change(
            lambda: said_in_python.delta_deleted(self._c, table, *args, **options),
            lambda: method(table, *args, **options),
        )[0]

    def delta_update(self, method: Callable[..., T], table: Any, *args: Any, **options: Any) -> T:
        return self._change(
            lambda: said_in_python.delta_updated(self._c, table, *args, **options),
            lambda: method(table, *args, **options),
        )[0]

    def delta_merge(self, method: Callable[..., T], builder: Any) -> T:
        return self._change(lambda: said_in_python.delta_merged(self._c, builder), lambda: method(builder))[0]

    def _change(self, change: Callable[[], Change | None], run: Callable[[], T]) -> tuple[T, bool]:
        """UPDATE, DELETE and MERGE run as they stand; what they make of the table is told as a query beforehand. Also
        whether it will be known."""
        pending = None
        try:
            found = change()
            pending = None if found is None else pending_change(self._c, found)
        except Exception as problem:
            self._warn(problem)
        result = run()
        self._done(pending)
        return result, pending is not None

    def _is_here(self, spark: SparkSession) -> bool:
        """Another session of the same application has views of its own."""
        return is_same_session(spark, self._c.spark)

    def _command(self, text: str) -> tuple[Plan, Target] | None:
        """What a SQL text will write where, if that can be followed."""
        try:
            plan = self._c.analysed_command(text)
            target = targets.of_command(self._c, plan)
        except AnalysisException:
            return None  # Spark will say so
        except Exception as problem:
            self._warn(problem)
            return None
        return None if target is None or (target.why is not None and not target.keeps_versions) else (plan, target)

    def _note(self, done: DataFrame) -> None:
        """A command that was not captured may have written something all the same."""
        try:
            command = self._c.executed_command(dataset_of(done))
            target = None if command is None else targets.of_command(self._c, command)
            if target is not None:
                remember_unfollowed(self._c, target, "the SQL text that wrote it was given arguments")
        except Exception as problem:
            self._warn(problem)

    def captured(
        self, df: DataFrame, *, durable: bool = True, whole: bool = False, keep: str | None = None
    ) -> Captured:
        """The same rows, computed from what is written down; `df` itself where there is nothing to write down.

        Not durable: what would come out the same again may stay in memory. Whole: every row and column is computed.
        `keep` is a plan's word: nothing at all, no groups, or (None) all that can be."""
        if keep in (RERUN, NOTHING):
            return Captured(df)
        tree: Node | None = None
        try:
            batch = self._batched(df)
            tree = self._tree(batch)
            return Captured(batch) if tree is None else self._captured(batch, tree, durable, keep != WRITE)
        except Failed as failed:
            if whole and isinstance(failed.problem, _USERS_OWN) and tree is not None and _shows_all(tree, failed.node):
                raise failed.problem from None  # it would fail again in the same way, after running twice
            self._warn(failed.problem)
        except Exception as problem:
            self._warn(problem)
        return Captured(df)

    def _warn(self, problem: Exception) -> None:
        log.warning(
            "whence could not capture this result, so it cannot be traced if it may come out otherwise the next "
            "time; the result itself is not affected: %s",
            problem,
            exc_info=log.isEnabledFor(logging.DEBUG),
        )

    def _batched(self, df: DataFrame) -> DataFrame:
        """A stream's batch is read from where it is written down."""
        plan = self._c.plan_of(df)
        batch = keep_batch(self._c, plan)
        if batch is plan or batch.fastEquals(plan):
            return df
        return frame_in(df.sparkSession, self._c.frame(batch))

    def _tree(self, df: DataFrame) -> Node | None:
        c = self._c
        if c.is_cached(df):
            if not c.plan_of(df).deterministic():
                log.warning("whence does not capture this result: it is cached, so it was computed before")
            return None
        plan = c.plan_of(df)
        ready = c.normalise(put_back(c, plan))
        if c.identity(ready) != c.identity(plan):
            # Names go with operators into the copies that are made of them, if they have one before.
            _name_operators(c, plan)
            ready = c.normalise(put_back(c, plan))
        return tree_of(c, ready)

    def _captured(self, df: DataFrame, tree: Node, durable: bool, groups: bool) -> Captured:
        c = self._c
        settled = settle(c, tree, write=True)
        if settled is tree and groups:
            settled = tap_aggregate(c, tree, durable)
        if settled is tree:
            return Captured(df)
        return Captured(frame_in(df.sparkSession, c.frame(for_the_user(c, settled))), facts_in(settled))


def _name_operators(c: Catalyst, plan: Plan) -> None:
    for node in tree_of(c, plan).walk():
        if node.children:
            c.named(node.plan)


def _shows_all(tree: Node, operator: Node) -> bool:
    node = tree
    while node.plan is not operator.plan and node.kind in _SHOWING_ALL and not node.subqueries:
        (node,) = node.children
    return node.kind == operator.kind and node.plan is operator.plan
