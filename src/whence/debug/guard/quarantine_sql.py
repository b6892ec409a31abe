"""Quarantine of rows on which Spark's own expressions raise: an action that fails is run on the rows that do not.

PySpark's actions are wrapped while the block is open. An action that only reads is run as it is, and looked at only if
it fails; what writes, calls the user's code or runs Python functions is looked at beforehand, so that nothing of it
happens twice.
"""

from __future__ import annotations

import functools
import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter, DataFrameWriterV2, SparkSession

from whence.debug.guard.functions import looking, python_functions
from whence.debug.guard.sql import Failed, SqlSearch, failed_in_sql
from whence.spark.handles import session_of
from whence.spark.statements import analysed_command, appends, insert_query, parsed, table_of
from whence.sql import Catalyst
from whence.sql.capture import WRITES, WRITES_V2
from whence.sql.catalyst import Plan

READING = ("collect", "toPandas", "toArrow", "count", "isEmpty", "show", "take", "head", "first", "tail")
AT_ONCE = ("toLocalIterator", "foreach", "foreachPartition", "checkpoint", "localCheckpoint")
_WRITING = re.compile(r"\s*(?:insert|create|replace|with|from)\b", re.IGNORECASE)
log = logging.getLogger("whence.debug")


class SqlQuarantine:
    """`put` is given the rows that were left out of a query."""

    def __init__(self, c: Catalyst, spark: SparkSession, put: Callable[[SqlSearch, list[Failed]], None]) -> None:
        self._c = c
        self._spark = spark
        self._put = put
        self._inside = threading.local()
        self._undo: list[tuple[type, str, Any]] = []

    def open(self) -> None:
        kind = type(self._spark.range(0))
        for name in READING:
            self._wrap(kind, name, self._reading)
        for name in AT_ONCE:
            self._wrap(kind, name, self._at_once)
        for name in WRITES:
            self._wrap(DataFrameWriter, name, self._write)
        for name in WRITES_V2:
            self._wrap(DataFrameWriterV2, name, self._write)
        self._wrap(SparkSession, "sql", self._statement)

    def close(self) -> None:
        for owner, name, method in reversed(self._undo):
            setattr(owner, name, method) if method is not None else delattr(owner, name)
        self._undo.clear()

    def _wrap(self, owner: type, name: str, around: Callable[..., Any]) -> None:
        method = getattr(owner, name, None)
        if method is None:  # older releases of PySpark lack some
            return

        @functools.wraps(method)
        def wrapper(this: Any, *args: Any, **options: Any) -> Any:
            if getattr(self._inside, "on", False):
                return method(this, *args, **options)
            self._inside.on = True
            try:
                return around(functools.partial(method, this), method.__name__, this, args, options)
            finally:
                self._inside.on = False

        self._undo.append((owner, name, owner.__dict__.get(name)))
        setattr(owner, name, wrapper)

    # --- actions

    def _reading(self, run: Callable[..., Any], name: str, df: DataFrame, args: Any, options: Any) -> Any:
        if python_functions(self._c, self._c.plan_of(df)):
            return self._at_once(run, name, df, args, options)
        try:
            return run(*args, **options)
        except Exception as error:
            if not failed_in_sql(self._c, error):
                raise
            asked = df.groupBy().count() if name == "count" else df
            with self._without_failing(self._c.plan_of(asked)) as mended:
                if mended is None:
                    raise
                frame = DataFrame(mended, df.sparkSession)
                try:
                    if name == "count":
                        return frame.collect()[0][0]
                    return getattr(type(df), name)(frame, *args, **options)
                except Exception:
                    raise error from None

    def _at_once(self, run: Callable[..., Any], name: str, df: DataFrame, args: Any, options: Any) -> Any:
        with self._without_failing(self._c.plan_of(df)) as mended:
            if mended is None:
                return run(*args, **options)
            return getattr(type(df), name)(DataFrame(mended, df.sparkSession), *args, **options)

    def _write(self, run: Callable[..., Any], name: str, writer: Any, args: Any, options: Any) -> Any:
        inserted = None
        try:
            target = self._target(name, writer, args, options)
            inserted = insert_query(self._c, target, writer._df, name != "insertInto") if target else None
        except Exception as problem:  # then rows that fail for the table's types fail as without the guard
            log.warning("whence could not look at what this write casts its rows to: %s", problem)
        with self._without_failing(self._c.plan_of(writer._df), inserted) as mended:
            if mended is not None:
                self._c.exchange_written(writer, mended)
            return run(*args, **options)

    def _target(self, name: str, writer: Any, args: Any, options: Any) -> str | None:
        """The table to whose types values are cast when they are written."""
        if name in ("append", "overwrite", "overwritePartitions"):
            return table_of(writer)
        if name == "insertInto" or (name == "saveAsTable" and appends(writer)):
            return str(args[0] if args else options.get("tableName", options.get("name")))
        return None

    def _statement(self, run: Callable[..., Any], name: str, spark: SparkSession, args: Any, options: Any) -> Any:
        """Statements that write run at once."""
        command = None
        if len(args) == 1 and not options and _WRITING.match(str(args[0])):
            try:
                command = analysed_command(self._c, parsed(session_of(spark), str(args[0])))
            except Exception:  # it is Spark that says what is wrong with it
                return run(*args, **options)
        query = self._c.fields(command).get("query") if command is not None else None
        if query is None:
            return run(*args, **options)
        with self._without_failing(query) as mended:
            if mended is None:
                return run(*args, **options)
            mended_command = self._c.copy(command, query=mended.queryExecution().analyzed())
            return DataFrame(self._c.dataset_of(session_of(spark), mended_command), spark)

    # --- the query without them

    @contextmanager
    def _without_failing(self, plan: Plan, inserted: Plan | None = None) -> Iterator[Any]:
        """The query as Spark's own dataset without the rows on which it raises, which are put aside once the action
        went well; None where there are none. `inserted`: with the casts to the types of the table it is put into."""
        try:
            with self._c.quietly(), looking(self._spark):
                search, mended, failed = self._looked_at(plan, inserted)
        except Exception as trouble:  # the action then fails as it would have
            log.warning("whence could not look for rows on which the query fails: %s", trouble)
            failed = []
        if not failed:
            yield None
            return
        yield mended
        self._put(search, failed)

    def _looked_at(self, plan: Plan, inserted: Plan | None) -> tuple[SqlSearch, Any, list[Failed]]:
        search = SqlSearch(self._c, self._spark)
        checked = search.raising.checked(plan)
        rows = checked.plan
        if inserted is not None:
            rows = search.raising.without(rows, plan, inserted, checked.checks)
        failed = [one for check in checked.checks for one in search.failing(check)]
        # In the user's own session, which then knows that a table was written.
        return search, self._c.dataset_of(session_of(self._spark), rows), failed
