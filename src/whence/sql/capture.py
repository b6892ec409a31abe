"""`with w.capture():` - what the actions within it compute is written down where it could not be told afterwards.

PySpark's own methods are wrapped for as long as a capture is open. An action of a DataFrame is then computed from what
is written down (settling.py); a write is remembered with its query (writes.py). Nothing here may harm the user's own
action: what cannot be captured is said in a warning and then run as it stands.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame

from whence.sql import checkpoints
from whence.sql.catalyst import Catalyst
from whence.sql.settling import for_the_user, settle, tap_aggregate
from whence.sql.tree import tree_of

log = logging.getLogger("whence.sql")

ACTIONS = (
    *("collect", "toPandas", "toArrow", "toLocalIterator", "count", "isEmpty", "show"),
    *("take", "head", "first", "tail", "foreach", "foreachPartition"),
)
KEEPING = ("cache", "persist")
CHECKPOINTS = ("checkpoint", "localCheckpoint")


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
        return method(self.captured(df), *args, **options)

    def _keeping(self, method: Callable[..., Any], df: DataFrame, *args: Any, **options: Any) -> DataFrame:
        """What is cached must be what is written down; the DataFrame that was asked to keep its rows becomes that."""
        kept: Any = df
        kept._jdf = self.captured(df)._jdf
        method(df, *args, **options)
        return df

    def _checkpoint(self, method: Callable[..., Any], df: DataFrame, *args: Any, **options: Any) -> DataFrame:
        below = self._c.plan_of(df)
        made: DataFrame = method(self.captured(df), *args, **options)
        checkpoints.remember(self._c, made, below)
        return made

    def captured(self, df: DataFrame) -> DataFrame:
        """The same rows, computed from what is written down; `df` itself where there is nothing to write down."""
        try:
            return self._captured(df)
        except Exception as problem:
            log.warning(
                "whence could not capture this result, so it cannot be traced if it may come out otherwise the next "
                "time; the result itself is not affected: %s",
                problem,
                exc_info=log.isEnabledFor(logging.DEBUG),
            )
            return df

    def _captured(self, df: DataFrame) -> DataFrame:
        c = self._c
        if c.is_cached(df):
            if not c.plan_of(df).deterministic():
                log.warning("whence does not capture this result: it is cached, so it was computed before")
            return df
        tree = tree_of(c, c.normalise(checkpoints.put_back(c, c.plan_of(df))))
        settled = settle(c, tree, write=True)
        if settled is tree:
            settled = tap_aggregate(c, tree)
        if settled is tree:
            return df
        return DataFrame(c.frame(for_the_user(c, settled))._jdf, df.sparkSession)
