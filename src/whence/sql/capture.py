"""`with w.capture():` - what the actions within it compute is written down where it could not be told afterwards.

PySpark's own methods are wrapped for as long as a capture is open. An action of a DataFrame is then computed from what
is written down (settling.py); a write is remembered with its query (writes.py). Nothing here may harm the user's own
action: what cannot be captured is said in a warning and then run as it stands.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter, DataFrameWriterV2, SparkSession

from whence.sql import checkpoints, facts
from whence.sql.batches import keep_batch
from whence.sql.catalyst import Catalyst, Plan
from whence.sql.checkpoints import put_back
from whence.sql.settling import for_the_user, settle, tap_aggregate
from whence.sql.tree import tree_of
from whence.sql.writes import Pending

log = logging.getLogger("whence.sql")

ACTIONS = (
    *("collect", "toPandas", "toArrow", "toLocalIterator", "count", "isEmpty", "show"),
    *("take", "head", "first", "tail", "foreach", "foreachPartition"),
)
KEEPING = ("cache", "persist")
WRITES = ("save", "saveAsTable", "insertInto", "parquet", "orc", "json", "csv", "text", "xml", "jdbc")
WRITES_V2 = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")
_WRITING = re.compile(r"\s*(?:insert|create|replace|with)\b", re.IGNORECASE)
CHECKPOINTS = ("checkpoint", "localCheckpoint")


def forget(c: Catalyst) -> None:
    """Remove what was captured for this session alone; what captured writes need stays."""
    if c.spark.sparkContext._jsc is None:
        return
    with contextlib.suppress(Exception):  # closing must not fail for it
        facts.forget(c)


class Capture:
    def __init__(self, c: Catalyst) -> None:
        self._c = c
        self._inside = threading.local()
        self._undo: list[tuple[type, str, Any]] = []

    @contextmanager
    def open(self) -> Iterator[None]:
        kind = type(self._c.spark.range(0))
        for name in ACTIONS:
            self._wrap(kind, name, self._action)
        for name in KEEPING:
            self._wrap(kind, name, self._keeping)
        for name in CHECKPOINTS:
            self._wrap(kind, name, self._checkpoint)
        for name in WRITES:
            self._wrap(DataFrameWriter, name, self._write)
        for name in WRITES_V2:
            self._wrap(DataFrameWriterV2, name, self._write_v2)
        self._wrap(SparkSession, "sql", self._sql)
        try:
            yield
        finally:
            for owner, name, method in reversed(self._undo):
                setattr(owner, name, method) if method is not None else delattr(owner, name)
            self._undo.clear()

    def _wrap(self, owner: type, name: str, around: Callable[..., Any]) -> None:
        method = getattr(owner, name)

        @functools.wraps(method)
        def wrapper(this: Any, *args: Any, **options: Any) -> Any:
            if getattr(self._inside, "on", False) or not self._is_ours(this):
                return method(this, *args, **options)
            self._inside.on = True
            try:
                return around(method, this, *args, **options)
            finally:
                self._inside.on = False

        self._undo.append((owner, name, owner.__dict__.get(name)))
        setattr(owner, name, wrapper)

    def _is_ours(self, this: Any) -> bool:
        frame = this if isinstance(this, DataFrame) else getattr(this, "_df", this)
        session = getattr(frame, "sparkSession", frame)
        return getattr(session, "_jsparkSession", None) is not None and session._sc is self._c.spark._sc

    # --- DataFrames

    def _action(self, method: Callable[..., Any], df: DataFrame, *args: Any, **options: Any) -> Any:
        return method(self.captured(df, durable=False), *args, **options)

    def _keeping(self, method: Callable[..., Any], df: DataFrame, *args: Any, **options: Any) -> DataFrame:
        """What is cached must be what is written down; the DataFrame that was asked to keep its rows becomes that."""
        kept: Any = df
        kept._jdf = self.captured(df)._jdf
        facts.keep(self._c)
        method(df, *args, **options)
        return df

    def _checkpoint(self, method: Callable[..., Any], df: DataFrame, *args: Any, **options: Any) -> DataFrame:
        below = self._c.plan_of(df)
        made: DataFrame = method(self.captured(df), *args, **options)
        checkpoints.remember(self._c, made, below)
        return made

    # --- writes

    def _write(self, method: Callable[..., Any], writer: Any, *args: Any, **options: Any) -> Any:
        df = writer._df
        captured = self.captured(df)
        if captured is not df:
            self._c.set_field(writer._jwrite, "df", captured._jdf)
        path, table = self._target(method.__name__, args, options)
        pending = self._pending(df, path, table, by_position=method.__name__ == "insertInto")
        result = method(writer, *args, **options)
        self._done(pending)
        return result

    def _write_v2(self, method: Callable[..., Any], writer: Any, *args: Any, **options: Any) -> Any:
        """Tables of other catalogues keep their own versions; what they are made from is captured all the same."""
        captured = self.captured(writer._df)
        if captured is not writer._df:
            self._c.set_field(writer._jwriter, "df", captured._jdf)
            self._c.set_field(writer._jwriter, "logicalPlan", captured._jdf.queryExecution().logical())
        return method(writer, *args, **options)

    def _target(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[str | None, str | None]:
        """The path or the table that a writer's method writes to."""
        first = args[0] if args else None
        if name == "saveAsTable":
            return None, first or options.get("name")
        if name == "insertInto":
            return None, first or options.get("tableName")
        if name == "jdbc":
            return None, None
        return first or options.get("path"), None

    def _pending(self, df: DataFrame, path: str | None, table: str | None, by_position: bool) -> Pending | None:
        c = self._c
        try:
            columns = list(df.columns)
            if table is not None and by_position:
                columns = [column.name for column in c.spark.catalog.listColumns(table)]
            root = path if path is not None else c.table_root(table) if table is not None else None
            return None if root is None else Pending(c, put_back(c, c.plan_of(df)), root, columns)
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

    def _sql(self, method: Callable[..., Any], spark: SparkSession, *args: Any, **options: Any) -> DataFrame:
        """INSERT and CREATE TABLE ... AS SELECT are run by `spark.sql` itself."""
        text = args[0] if args else options.get("sqlQuery")
        command = None
        here = spark._jsparkSession.equals(self._c.spark._jsparkSession)  # another one has views of its own
        if here and len(args) == 1 and not options and isinstance(text, str) and _WRITING.match(text):
            try:
                command = self._command(spark, text)
            except Exception as problem:
                self._warn(problem)
        if command is None:
            result: DataFrame = method(spark, *args, **options)
            return result
        plan, pending = command
        done = DataFrame(self._c.frame(plan)._jdf, spark)
        self._done(pending)
        return done

    def _command(self, spark: SparkSession, text: str) -> tuple[Plan, Pending | None] | None:
        c = self._c
        plan = c.analysed_command(text)
        target = c.written_by(plan)
        if target is None:
            return None
        query, path, table, columns = target
        df = c.frame(query)
        captured = self.captured(df)
        root = path if path is not None else c.table_root(table)
        pending = Pending(c, put_back(c, query), root, columns)
        return c.copy(plan, query=c.plan_of(captured)), pending

    def captured(self, df: DataFrame, *, durable: bool = True) -> DataFrame:
        """The same rows, computed from what is written down; `df` itself where there is nothing to write down.

        Not durable: what would come out the same again may stay in memory."""
        try:
            return self._captured(df, durable)
        except Exception as problem:
            self._warn(problem)
            return df

    def _warn(self, problem: Exception) -> None:
        log.warning(
            "whence could not capture this result, so it cannot be traced if it may come out otherwise the next "
            "time; the result itself is not affected: %s",
            problem,
            exc_info=log.isEnabledFor(logging.DEBUG),
        )

    def _captured(self, df: DataFrame, durable: bool) -> DataFrame:
        c = self._c
        if c.is_cached(df):
            if not c.plan_of(df).deterministic():
                log.warning("whence does not capture this result: it is cached, so it was computed before")
            return df
        plan = c.plan_of(df)
        batch = keep_batch(c, plan)
        if batch is not plan and not batch.fastEquals(plan):
            df = DataFrame(c.frame(batch)._jdf, df.sparkSession)
        tree = tree_of(c, c.normalise(put_back(c, c.plan_of(df))))
        settled = settle(c, tree, write=True)
        if settled is tree:
            settled = tap_aggregate(c, tree, durable)
        if settled is tree:
            return df
        return DataFrame(c.frame(for_the_user(c, settled))._jdf, df.sparkSession)
