"""User functions that go on after an error: the failing record is put aside, with its error, in the log of an actor."""

from __future__ import annotations

import base64
import json
import traceback
from collections.abc import Callable, Iterable, Iterator
from types import GeneratorType
from typing import Any

from pyspark import TaskContext
from pyspark import cloudpickle as _cloudpickle

from whence.actors import Actor
from whence.debug.guard_worker import (
    FRAMES,
    KEYED_GROUP,
    SERIES,
    SERIES_ITERATOR,
    _attempt,
    _rows,
    call_batch,
    in_wrappers,
    smallest,
)

cloudpickle: Any = _cloudpickle


class Aside:
    """Puts failing records aside."""

    def __init__(self, actor: Actor, function: str) -> None:
        self._actor = actor
        self._function = function

    def __call__(self, record: Any, error: BaseException) -> None:
        context = TaskContext.get()
        told = {
            "function": self._function,
            "shown": repr(record)[:2000],
            "error": f"{type(error).__name__}: {error}",
            "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
            "partition": context.partitionId() if context else 0,
        }
        self._actor.capture(base64.b64encode(cloudpickle.dumps(record)).decode(), json.dumps(told))


def row_function(function: Callable[..., Any], aside: Aside) -> Callable[..., Any]:
    def going_on(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            aside((*args, *kwargs.values()), error)
            return None

    return going_on


def series_function(function: Callable[..., Any], aside: Aside) -> Callable[..., Any]:
    def going_on(*series: Any) -> Any:
        import pandas as pd  # type: ignore[import-untyped, unused-ignore]

        try:
            return function(*series)
        except Exception:
            batch = pd.concat([s.reset_index(drop=True) for s in series], axis=1)
            batch.columns = [f"_{n}" for n in range(len(series))]
            return _row_by_row(function, SERIES, batch, aside)

    return going_on


def _row_by_row(function: Callable[..., Any], how: str, batch: Any, aside: Aside) -> Any:
    """Results of a scalar function, null where it fails."""
    import pandas as pd

    results: list[Any] = []
    for n in range(len(batch)):
        row = _rows(batch, n, n + 1).reset_index(drop=True)
        try:
            result = call_batch(function, how, row)
            results.append((result[0] if how == SERIES_ITERATOR else result).iloc[0])
        except Exception as error:
            aside(tuple(row.iloc[0]), error)
            results.append(None)
    return pd.Series(results, dtype=object)


def series_iterator_function(function: Callable[..., Any], aside: Aside) -> Callable[..., Any]:
    def going_on(batches: Iterable[Any]) -> Iterator[Any]:
        import pandas as pd

        for batch in batches:
            try:
                yield from list(function(iter([batch])))
            except Exception:
                series = batch if isinstance(batch, tuple) else (batch,)
                frame = pd.concat([s.reset_index(drop=True) for s in series], axis=1)
                frame.columns = [f"_{n}" for n in range(len(series))]
                yield _row_by_row(function, SERIES_ITERATOR, frame, aside)

    return going_on


def frames_function(function: Callable[..., Any], aside: Aside) -> Callable[..., Any]:
    def going_on(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield from _without_failing(lambda part: call_batch(function, FRAMES, part), batch, function, aside)

    return going_on


def _without_failing(call: Callable[[Any], Any], batch: Any, function: Callable[..., Any], aside: Aside) -> list[Any]:
    """The results of the largest part that works, found by putting the smallest failing parts aside, one at a time."""
    attempt = _attempt(function, FRAMES, None)
    while len(batch):
        try:
            return list(call(batch.reset_index(drop=True)))
        except Exception:
            batch = _put_aside(attempt, batch.reset_index(drop=True), aside)
    return []


def _put_aside(attempt: Callable[[Any], BaseException | None], batch: Any, aside: Aside) -> Any:
    part = smallest(attempt, batch, _rows)
    error = attempt(part)
    assert error is not None
    for record in part.itertuples(index=False, name=None):
        aside(tuple(record), error)
    return batch.drop(index=part.index)


def group_function(function: Callable[..., Any], how: str, columns: list[str], aside: Aside) -> Callable[..., Any]:
    def run(key: Any, group: Any) -> Any:
        import pandas as pd

        attempt = _attempt(function, how, key)
        while len(group):
            try:
                return call_batch(function, how, group.reset_index(drop=True), key)
            except Exception:
                group = _put_aside(attempt, group.reset_index(drop=True), aside)
        return pd.DataFrame({c: pd.Series([], dtype=object) for c in columns})

    if how == KEYED_GROUP:
        return lambda key, group: run(key, group)
    return lambda group: run(None, group)


def pipeline_function(function: Callable[..., Any], aside: Callable[[str], Aside]) -> Callable[..., Any]:
    """An RDD's stage whose map, flatMap and filter go on. Called on the worker, where the functions' globals are their
    own: PySpark's closures look `map` and `filter` up there before they find the built-in ones."""

    def going_on(split: int, records: Iterable[Any]) -> Any:
        arm(function, aside)
        return function(split, records)

    return going_on


def arm(function: Any, aside: Callable[[str], Aside]) -> None:
    def user_function(wrapper: Any) -> Any:
        for cell in getattr(wrapper, "__closure__", None) or ():
            if callable(cell.cell_contents):
                return cell.cell_contents
        return wrapper

    def attempts(call: Callable[..., Any], records: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        put = aside(getattr(user_function(call), "__qualname__", "function"))
        for record in records:
            try:
                result = call(record)
                if isinstance(result, GeneratorType):
                    result = list(result)
            except Exception as error:
                put(record, error)
            else:
                yield record, result

    def safe_map(call: Callable[..., Any], records: Iterable[Any]) -> Iterator[Any]:
        return (result for _, result in attempts(call, records))

    def safe_filter(call: Callable[..., Any], records: Iterable[Any]) -> Iterator[Any]:
        return (record for record, kept in attempts(call, records) if kept)

    in_wrappers(function, map=safe_map, filter=safe_filter)
