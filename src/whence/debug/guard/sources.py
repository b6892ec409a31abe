"""The rows, in the query as the user wrote it, on which a function fails: what `backward` is asked about."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from whence.debug.guard.functions import Placed, python_functions
from whence.sql import Catalyst

_ATOMIC = (bool, int, float, str, bytes, bytearray, decimal.Decimal, dt.date, dt.timedelta, type(None))


def culprit_rows(
    c: Catalyst, frame: DataFrame, placed: Placed, rows: Sequence[Sequence[Any]], side: int = 0
) -> DataFrame | None:
    """Rows of the function's input whose arguments are one of these `rows`; None where that cannot be asked.

    They have the arguments as further columns, whence_arg_0 and so on."""
    args = placed.args(c)
    if any("outer(" in str(a.toString()) for a in args):  # LATERAL f(t.x): the row stands beside the call, not below
        placed = _in_the_row(c, frame, placed)
        args = placed.args(c)
    children = c.children(placed.plan)
    if not rows or not children:
        return None
    if len(children) > 1:  # a cogroup is given the last columns of each side, whatever its expression calls them
        args = c.output(children[side])[-len(rows[0]) :]
    names = [f"whence_arg_{n}" for n in range(len(args))]
    child = c.frame(c.extend(children[side], [c.alias(a, n) for a, n in zip(args, names, strict=True)]))
    condition = F.lit(False)
    for row in rows:
        same = _same([F.col(n) for n in names], row)
        if same is None:
            return None
        condition = condition | same
    return child.where(condition)


def _in_the_row(c: Catalyst, frame: DataFrame, placed: Placed) -> Placed:
    wanted = c.identity(placed.handle)
    found = python_functions(c, c.normalise(c.plan_of(frame)))
    return next((p for p in found if c.identity(p.handle) == wanted), placed)


def _same(columns: Sequence[Column], row: Sequence[Any]) -> Column | None:
    """Equal in all that can be compared with a literal; None where nothing can."""
    compared = [_equal(column, value) for column, value in zip(columns, row, strict=True)]
    known = [one for one in compared if one is not None]
    if row and not known:
        return None
    same = F.lit(True)
    for one in known:
        same = same & one
    return same


def plain_value(value: Any) -> Any:
    """Python's own value for one of numpy's or pandas'."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value


def _equal(column: Column, value: Any) -> Column | None:
    plain = plain_value(value)
    if isinstance(plain, float) and plain != plain:  # pandas says NaN for null too
        return column.isNull() | (column.cast("string") == "NaN")
    if isinstance(plain, _ATOMIC):
        return column.eqNullSafe(F.lit(None if plain != plain else plain))
    if hasattr(plain, "asDict"):
        plain = plain.asDict()
    if isinstance(plain, dict):
        return _same([column.getField(name) for name in plain], list(plain.values())) if plain else None
    return None
