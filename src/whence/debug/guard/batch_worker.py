"""Functions of batches and groups, called on parts of what they were given. Runs on executors.

What one call is given (a Given) has *sides*: two for a cogroup, else one. A side is a list of columns of one length, or
of one table; columns and tables are pandas' or Arrow's. A part of it is told by positions, counted through the sides.
"""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from whence.debug.guard.kinds import Kind

Sides = list[list[Any]]
Given = dict[str, Any]  # a plain dict: culprit.py reads it on a machine that need not have whence
Fails = Callable[[Any], bool]

TESTS = 500  # calls of the function that a search for the smallest failing part may make


def call_batch(function: Any, given: Given) -> Any:
    """As PySpark would call it. Uses nothing of this module: it is pickled by value into culprit.py."""
    sides, names = given["sides"], given["names"]
    if given["columns"]:
        columns = sides[0]
        if given["iterator"]:
            result = function(iter([columns[0] if len(columns) == 1 else tuple(columns)]))
            return list(result) if given["form"] == "scalar" else result
        plain = len(columns) - len(names)
        return function(*columns[:plain], **dict(zip(names, columns[plain:], strict=True)))
    tables = [side[0] for side in sides]
    if given["iterator"]:
        tables = [iter(t.to_batches() if hasattr(t, "to_batches") else [t]) for t in tables]
    result = function(given["key"], *tables) if given["keyed"] else function(*tables)
    return list(result) if given["iterator"] else result


def takes_key(function: Any, kind: Kind) -> bool:
    """PySpark's own rule: a parameter more than there are tables is for the key."""
    tables = {"group": 1, "cogroup": 2}.get(kind.form)
    return tables is not None and len(inspect.getfullargspec(function).args) == tables + 1


def wrapped(
    function: Any,
    kind: Kind,
    on_call: Callable[[Given], Any],
    on_stream: Callable[[Iterable[Any], Callable[[Any], Given]], Iterator[Any]],
) -> Callable[..., Any]:
    """A function with the signature PySpark expects of this kind: each call goes to `on_call`; a function that is given
    the batches of a whole task, in no particular portions, goes to `on_stream`."""
    keyed = takes_key(function, kind)

    def given(sides: Sides, key: Any = None, names: Iterable[str] = ()) -> Given:
        return {
            "form": kind.form, "columns": kind.of_columns, "iterator": kind.iterator, "keyed": keyed,
            "sides": sides, "key": key, "names": tuple(names),
        }  # fmt: skip

    def of_columns(batch: Any) -> Given:
        return given([list(batch) if isinstance(batch, tuple) else [batch]])

    if kind.of_columns and not kind.iterator:
        return lambda *columns, **named: on_call(given([[*columns, *named.values()]], names=named))
    if kind.form == "scalar":
        return lambda batches: on_stream(batches, of_columns)
    if kind.of_columns:
        return lambda batches: on_call(of_columns(_together(list(batches))))
    if kind.form == "rows":
        return lambda batches: on_stream(batches, lambda batch: given([[batch]]))
    if kind.form == "cogroup":
        if keyed:
            return lambda key, left, right: on_call(given([[left], [right]], key))
        return lambda left, right: on_call(given([[left], [right]]))
    if kind.iterator:
        if keyed:
            return lambda key, tables: iter(on_call(given([[_table(list(tables))]], key)))
        return lambda tables: iter(on_call(given([[_table(list(tables))]])))
    if keyed:
        return lambda key, table: on_call(given([[table]], key))
    return lambda table: on_call(given([[table]]))


def _together(batches: list[Any]) -> Any:
    """The columns of several batches as those of one."""
    if len(batches) == 1:
        return batches[0]
    if isinstance(batches[0], tuple):
        return tuple(_together(list(columns)) for columns in zip(*batches, strict=True))
    if _is_pandas(batches[0]):
        import pandas as pd  # type: ignore[import-untyped, unused-ignore]

        return pd.concat(batches, ignore_index=True)
    import pyarrow as pa

    return pa.concat_arrays(batches)


def _table(tables: list[Any]) -> Any:
    if _is_pandas(tables[0]):
        return _together(tables)
    import pyarrow as pa

    return pa.Table.from_batches(tables)


def _is_pandas(value: Any) -> bool:
    return hasattr(value, "iloc")


def size(given: Given) -> int:
    return sum(len(side[0]) if side else 0 for side in given["sides"])


def part(given: Given, positions: Any) -> Given:
    sides, start = [], 0
    for side in given["sides"]:
        length = len(side[0]) if side else 0
        mine = positions[(positions >= start) & (positions < start + length)] - start
        sides.append([_take(column, mine) for column in side])
        start += length
    return {**given, "sides": sides}


def _take(column: Any, positions: Any) -> Any:
    if _is_pandas(column):
        return column.iloc[positions].reset_index(drop=True)
    import pyarrow as pa

    return column.take(pa.array(positions, pa.int64()))


def records(given: Given) -> list[tuple[int, tuple[Any, ...]]]:
    """(side, values) of every row."""
    found: list[tuple[int, tuple[Any, ...]]] = []
    for number, side in enumerate(given["sides"]):
        if given["columns"]:
            rows = zip(*map(_values, side), strict=True)
        elif _is_pandas(side[0]):
            rows = side[0].itertuples(index=False, name=None)
        else:
            rows = zip(*(column.to_pylist() for column in side[0].columns), strict=True)
        found += [(number, tuple(row)) for row in rows]
    return found


def _values(column: Any) -> list[Any]:
    if not _is_pandas(column):
        return list(column.to_pylist())
    if hasattr(column, "columns"):  # a column of structs is a DataFrame
        return list(column.to_dict("records"))
    return list(column)


_LIBRARIES = re.compile(r"(^|/)(pandas|pyarrow|numpy|pyspark|whence/debug)/")


def signature(error: BaseException) -> tuple[Any, ...]:
    """What makes two failures the same: the kind of error and the user's line that it came from. A part of a batch may
    fail for a reason of its own, such as that it is too small."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not _LIBRARIES.search(frame.filename)] or frames
    return (type(error).__qualname__, *((users[-1].filename, users[-1].lineno) if users else ()))


def failing_like(error: BaseException, function: Any, given: Given) -> Callable[[Any], BaseException | None]:
    """Of positions: the error, if the function fails on that part as it did on the whole."""
    wanted = signature(error)

    def attempt(positions: Any) -> BaseException | None:
        try:
            call_batch(function, part(given, positions))
        except Exception as found:
            return found if signature(found) == wanted else None
        return None

    return attempt


def smallest_like(error: BaseException, function: Any, given: Given, positions: Any) -> tuple[Any, BaseException]:
    """Positions of the smallest part of these that fails in the same way, and how it fails."""
    attempt = failing_like(error, function, given)
    found = smallest(lambda p: attempt(p) is not None, positions)
    return found, attempt(found) or error


def smallest(fails: Fails, positions: Any, tests: int = TESTS) -> Any:
    """Delta debugging (Zeller's ddmin): one position, unless records fail only together."""
    import numpy as np

    pieces = 2
    while len(positions) > 1:
        cut = np.array_split(positions, min(pieces, len(positions)))
        ways = [*cut, *(np.concatenate([*cut[:n], *cut[n + 1 :]]) for n in range(len(cut)) if len(cut) > 2)]
        if tests < len(ways):
            break
        tests -= len(ways)
        chosen = next((n for n, way in enumerate(ways) if fails(way)), None)
        if chosen is not None:
            positions = ways[chosen]
            pieces = 2 if chosen < len(cut) else max(2, len(cut) - 1)
        elif pieces >= len(positions):
            break
        else:
            pieces *= 2
    return positions
