"""User functions that go on after an error: the failing record is put aside, with its error, in the log of an actor."""

from __future__ import annotations

import base64
import json
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator
from types import GeneratorType
from typing import Any

from pyspark import TaskContext

from whence.actors import Actor
from whence.debug.guard.batch_worker import Given, call_batch, part, records, size, smallest_like, wrapped
from whence.debug.guard.findings_worker import Findings
from whence.debug.guard.kinds import LOOKING, Kind
from whence.debug.guard.telling_worker import rows_of
from whence.debug.guard.worker import aggregators, in_wrappers, unwrapped
from whence.spark.names import SkipRestOfInputTableException

MOST_PARTS = 50  # of one group are looked for; then the rest of it is put aside together


class Aside:
    """Puts failing records aside."""

    def __init__(self, actor: Actor, findings: Findings, function: str, place: str = "") -> None:
        self._actor = actor
        self._findings = findings
        self._function = function
        self._place = place  # which function it is, where several have one name

    def __call__(self, record: Any, error: BaseException) -> None:
        self._put([(0, record)], error, None)

    def batch(self, given: Given, error: BaseException) -> None:
        """Records that fail together; they are tried together again."""
        self._put(records(given) or [(0, ())], error, given)

    def _put(self, found: list[tuple[int, Any]], error: BaseException, given: Given | None) -> None:
        context = TaskContext.get()
        if context is not None and context.getLocalProperty(LOOKING):
            return
        told = {
            "function": self._function,
            "place": self._place,
            "part": uuid.uuid4().hex,
            "error": f"{type(error).__name__}: {error}",
            "traceback": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
            "partition": context.partitionId() if context else 0,
        }
        for number, (side, record) in enumerate(found):
            note = {**told, "number": number, "side": side}
            if given is not None and not number:
                note["given"] = self._packed(given, note, "given")
            self._actor.capture(self._packed(record, note, "record"), json.dumps(note))

    def _packed(self, value: Any, note: dict[str, Any], what: str) -> str:
        return base64.b64encode(self._findings.dumps(value, *place_of(note, what))).decode()


def place_of(note: dict[str, Any], what: str) -> tuple[str, ...]:
    """To what a packed value belongs: it cannot be put to another note."""
    return (what, str(note["part"]), str(note["number"]), str(note["side"]))


def going_on(function: Any, kind: Kind, returned: Any, aside: Aside) -> Any:
    """The function, of any kind, that puts aside what it fails on. `returned` is its declared type."""
    if kind.form == "row":
        return _row_function(function, aside)
    if kind.form == "table function":
        return _table_function(function, aside)

    def on_stream(batches: Iterable[Any], to_given: Callable[[Any], Given]) -> Iterator[Any]:
        for batch in batches:
            if kind.form == "rows":
                for _, result in _halved(function, to_given(batch), aside):
                    yield from result
            else:
                yield _scalar(function, to_given(batch), returned, aside)

    if kind.form == "scalar":
        return wrapped(function, kind, lambda given: _scalar(function, given, returned, aside), on_stream)
    known: set[str] | None = set() if kind.form == "window" else None

    def on_call(given: Given) -> Any:
        return _grouped(function, given, kind, returned, aside, known)

    return wrapped(function, kind, on_call, on_stream)


def _row_function(function: Callable[..., Any], aside: Aside) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            aside((*args, *kwargs.values()), error)
            return None

    return run


def _table_function(handler: Any, aside: Aside) -> type:
    def evaluate(self: Any, *args: Any, **kwargs: Any) -> list[Any]:
        try:
            return rows_of(handler, self, *args, **kwargs)
        except SkipRestOfInputTableException:
            raise
        except Exception as error:
            aside((*args, *kwargs.values()), error)
            return []

    return type(handler.__name__, (handler,), {"eval": evaluate})


def _halved(function: Any, given: Given, aside: Aside) -> Iterator[tuple[Any, Any]]:
    """(positions, result) of parts on which the function works; single records on which it does not are put aside.

    For functions that may be given any portion of the rows: records that fail only together are just given apart.
    """
    import numpy as np

    waiting = [np.arange(size(given))]
    while waiting:
        positions = waiting.pop()
        here = part(given, positions) if len(positions) < size(given) else given
        try:
            result = call_batch(function, here)
        except Exception as error:
            if len(positions) <= 1:
                aside.batch(here, error)
            else:
                middle = len(positions) // 2
                waiting += [positions[middle:], positions[:middle]]
        else:
            yield positions, result


def _scalar(function: Any, given: Given, returned: Any, aside: Aside) -> Any:
    """A column of results, null where the function fails."""
    import numpy as np

    found = list(_halved(function, given, aside))
    if given["iterator"]:
        found = [(positions, column) for positions, (column,) in found]
    length = size(given)
    if len(found) == 1 and len(found[0][0]) == length:
        return found[0][1]
    where = np.concatenate([positions for positions, _ in found]) if found else np.arange(0)
    if any(hasattr(column, "iloc") for column in given["sides"][0]):
        return _spread_pandas([column for _, column in found], where, length, returned)
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    if not found:
        return pa.nulls(length, to_arrow_type(returned))
    chunks = [chunk for _, column in found for chunk in (column.chunks if hasattr(column, "chunks") else [column])]
    at = np.full(length, -1)
    at[where] = np.arange(len(where))
    return pa.concat_arrays(chunks).take(pa.array(at, mask=at < 0))


def _spread_pandas(columns: list[Any], where: Any, length: int, returned: Any) -> Any:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]

    if hasattr(returned, "fields"):  # a struct is a DataFrame
        names = returned.fieldNames()
        whole = pd.concat(columns, ignore_index=True) if columns else pd.DataFrame(columns=names)
        return whole.astype(object).set_axis(where).reindex(range(length)).where(lambda frame: frame.notna(), None)
    spread = pd.Series([None] * length, dtype=object)
    for position, value in zip(where, (v for column in columns for v in column), strict=True):
        spread.iat[position] = value
    return spread


def _grouped(function: Any, given: Given, kind: Kind, returned: Any, aside: Aside, known: set[str] | None) -> Any:
    """The result on the group without its smallest failing parts. `known`: rows that are already put aside, for frames
    of a window, which share their rows."""
    import numpy as np

    left = np.arange(size(given))
    for turn in range(MOST_PARTS + 1):
        if turn and not len(left):
            break
        here = part(given, left) if len(left) < size(given) else given
        try:
            return call_batch(function, here)
        except Exception as error:
            if known:
                fresh = left[[repr(row) not in known for _, row in records(here)]] if len(left) else left
                if len(fresh) < len(left):
                    left = fresh
                    continue
            failing, how = (left, error) if turn == MOST_PARTS else smallest_like(error, function, given, left)
            failed = part(given, failing)
            aside.batch(failed, how)
            if known is not None:
                known.update(repr(row) for _, row in records(failed))
            left = np.setdiff1d(left, failing)
    return _nothing(given, kind, returned)


def _nothing(given: Given, kind: Kind, returned: Any) -> Any:
    if kind.of_columns:
        return None
    if kind.iterator:
        return []
    if hasattr(given["sides"][0][0], "iloc"):
        import pandas as pd

        return pd.DataFrame({c: pd.Series([], dtype=object) for c in returned.fieldNames()})
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(returned).empty_table()


def pipeline_function(function: Callable[..., Any], aside: Callable[[str], Aside]) -> Callable[..., Any]:
    """An RDD's stage whose map, flatMap and filter go on. Called on the worker, where the functions' globals are their
    own: PySpark's closures look `map` and `filter` up there before they find the built-in ones."""

    def going_on(split: int, records: Iterable[Any]) -> Any:
        arm(function, aside)
        return function(split, records)

    return going_on


def arm(function: Any, aside: Callable[[str], Aside]) -> None:
    def attempts(call: Callable[..., Any], records: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        put = aside(getattr(unwrapped(call), "__qualname__", "function"))
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
    for combiner in aggregators(function):
        for name in ("mergeValue", "mergeCombiners"):
            setattr(combiner, name, _safe_merge(getattr(combiner, name), aside))


def _safe_merge(merge: Callable[[Any, Any], Any], aside: Callable[[str], Aside]) -> Callable[[Any, Any], Any]:
    """Of two values that cannot be combined the second is put aside, with the first it was to be combined with."""
    put = aside(getattr(unwrapped(merge), "__qualname__", "function"))

    def run(one: Any, other: Any) -> Any:
        try:
            return merge(one, other)
        except Exception as error:
            put((one, other), error)
            return one

    return run
