"""Tests that are likely to be asked for next, run while others are waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType

from pyspark.sql import DataFrame, Row

from whence.debug.minimize.ddmin import Ahead, Range
from whence.sql.catalyst import Catalyst

Key = tuple[Range, ...]
Begin = Callable[[list[Range], Sequence[Range]], tuple[Key, DataFrame] | None]


class Abreast:
    """The driver plans one query after the other, and most tests are small: their jobs leave cores idle."""

    def __init__(self, c: Catalyst, most: int) -> None:
        self._c, self._most = c, most
        self._begun: dict[Key, Future[list[Row]]] = {}

    def __enter__(self) -> Abreast:
        self._workers = ThreadPoolExecutor(max(self._most, 1))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._workers.shutdown(wait=True, cancel_futures=True)
        self._begun.clear()

    def of(self, begin: Begin, others: list[Range]) -> Ahead:
        """Begins as many as fit of the sets that a search will try next, unless they were tested. `begin` gives the
        query of one."""
        return partial(self._ahead, begin, others)

    def _ahead(self, begin: Begin, others: list[Range], sets: Sequence[Sequence[Range]]) -> None:
        if self._most < 2:
            return
        for some in sets[: self._most]:
            query = begin(others, some)
            if query is not None and query[0] not in self._begun:
                self._begun[query[0]] = self._workers.submit(self._collect, query[1])

    def _collect(self, frame: DataFrame) -> list[Row]:
        with self._c.quietly():
            return frame.collect()

    def rows(self, key: Key) -> list[Row] | None:
        """Of a test that was begun."""
        begun = self._begun.pop(key, None)
        return None if begun is None else begun.result()
