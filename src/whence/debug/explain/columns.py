"""Columns as the search sees them: numbers and dates in bins, names as categories, null a code of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from whence.debug.diagnose.causes import COMPARE, Condition
from whence.debug.explain.search import Bools

if TYPE_CHECKING:
    import pyarrow as pa

_BINS = 40
_CATEGORIES = 60
_EPOCH = 719_163  # date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Feature:
    """One column, or the hour of a timestamp. `cuts[i]`: the smallest value of bin i + 1; or `names`, categories."""

    name: str
    expression: str
    cuts: tuple[Any, ...] | None
    names: tuple[Any, ...] | None
    coarse: bool = False  # a bin holds more than one value

    @property
    def size(self) -> int:
        return 1 + (len(self.cuts) if self.cuts is not None else len(self.names or ()) + 1)

    @property
    def usable(self) -> Bools:
        named = np.ones(self.size, dtype=bool)
        if self.names is not None:
            named[-1] = False  # all the values that have no code of their own
        return named

    def code(self, values: pa.ChunkedArray) -> npt.NDArray[np.uint8]:
        import pyarrow.compute as pc

        null = np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=bool)
        if self.cuts is not None:
            numbers = _numbers(values)
            found = np.searchsorted(np.array([_number(c) for c in self.cuts]), numbers, side="right")
            return np.where(null, 0, np.maximum(found, 1)).astype(np.uint8)
        import pyarrow as pa_

        at = pc.index_in(values, pa_.array(self.names, type=values.type)).to_numpy(zero_copy_only=False)
        other = len(self.names or ()) + 1
        return np.where(null, 0, np.where(np.isnan(at.astype(float)), other, at.astype(float) + 1)).astype(np.uint8)

    def conditions(self, inside: frozenset[int]) -> list[Condition]:
        """The rule's set of codes in words; ranges are whole runs of bins."""
        outside = set(range(self.size)) - inside
        if inside == {0}:
            return [Condition(self.expression, "==", None)]
        if outside == {0}:
            return [Condition(self.expression, "!=", None)]
        if self.names is not None:
            values: Sequence[Any] = (None, *self.names)
            if len(inside) == 1:
                return [Condition(self.expression, "==", values[min(inside)])]
            return [Condition(self.expression, "!=", values[v]) for v in sorted(outside - {0})]
        cuts = self.cuts or ()
        low, high = min(inside), max(inside)
        gaps = [v for v in outside if low < v < high]
        if gaps:  # everything but one value
            return [Condition(self.expression, "!=", cuts[gaps[0] - 1])]
        found = []
        if low > 1:
            found.append(Condition(self.expression, ">=", cuts[low - 1]))
        if high < self.size - 1:
            found.append(Condition(self.expression, "<", cuts[high]))
        return found

    def window(self, condition: Condition) -> tuple[float, float] | None:
        """Between which values the true threshold must lie, when the bins left that open."""
        cuts = self.cuts or ()
        if not self.coarse or condition.op not in (">=", "<") or not isinstance(condition.value, int | float):
            return None
        at = cuts.index(condition.value)
        low = float(cuts[max(0, at - 1)])
        return low, float(cuts[at + 1]) if at + 1 < len(cuts) else 2 * float(condition.value) - low


def _number(value: Any) -> float:
    return (
        value.timestamp()
        if hasattr(value, "timestamp")
        else value.toordinal()
        if hasattr(value, "toordinal")
        else float(value)
    )


def _numbers(values: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    import pyarrow as pa_

    if pa_.types.is_timestamp(values.type):
        whole = values.cast(pa_.timestamp("us", tz=values.type.tz)).cast(pa_.int64()).cast(pa_.float64(), safe=False)
        return np.asarray(whole.to_numpy(zero_copy_only=False), dtype=float) / 1e6
    if pa_.types.is_date(values.type):
        days = values.cast(pa_.date32()).cast(pa_.int32()).cast(pa_.float64())
        return np.asarray(days.to_numpy(zero_copy_only=False), dtype=float) + _EPOCH
    return np.asarray(values.cast(pa_.float64()).to_numpy(zero_copy_only=False), dtype=float)


def features_of(sample: pa.Table, expressions: dict[str, str], bad: Bools) -> list[Feature]:
    import pyarrow as pa_

    found = []
    for name in sample.column_names:
        values = sample[name]
        if (
            pa_.types.is_string(values.type)
            or pa_.types.is_boolean(values.type)
            or pa_.types.is_large_string(values.type)
        ):
            counts = sorted(values.value_counts().to_pylist(), key=lambda row: -row["counts"])
            names = [row["values"] for row in counts if row["values"] is not None][:_CATEGORIES]
            if names:
                found.append(Feature(name, expressions[name], None, tuple(names)))
            continue
        numbers = _numbers(values)
        known = ~np.isnan(numbers)
        if not known.any():
            continue
        distinct, first = np.unique(numbers[known], return_index=True)
        at = np.flatnonzero(known)[first]
        coarse = len(distinct) > _BINS
        if coarse:
            at = _cut(distinct, at, numbers, bad & known)
        found.append(Feature(name, expressions[name], tuple(values[int(i)].as_py() for i in at), None, coarse))
    return found


def _cut(
    distinct: npt.NDArray[np.float64], at: npt.NDArray[np.intp], numbers: npt.NDArray[np.float64], bad: Bools
) -> npt.NDArray[np.intp]:
    """Bins of a column with many values: equal shares of all rows, and of the bad rows, so that both are resolved."""
    half = _BINS // 2
    wanted = {0}
    for rows in (numbers[~np.isnan(numbers)], numbers[bad]):
        if len(rows):
            edges = np.quantile(rows, np.linspace(0, 1, half), method="lower")
            places = np.searchsorted(distinct, edges)
            wanted.update(int(p) for p in places)
            if rows.size == bad.sum():  # the bin that ends with the last bad value
                wanted.add(min(int(places[-1]) + 1, len(distinct) - 1))
    return at[sorted(wanted)]


def holds(values: pa.ChunkedArray, condition: Condition) -> Bools:
    import pyarrow as pa_
    import pyarrow.compute as pc

    null = np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    op, value = condition.op, condition.value
    if value is None:
        return null if op == "==" else ~null
    if isinstance(value, str | bool):
        same = pc.fill_null(pc.equal(values, pa_.scalar(value, type=values.type)), False)
        found = np.asarray(same.to_numpy(zero_copy_only=False), dtype=bool)
        return np.asarray(~null & (found if op == "==" else ~found), dtype=bool)
    numbers = _numbers(values)
    compare: Any = {"==": np.equal, "!=": np.not_equal, **COMPARE}[op]
    return np.asarray(~null & compare(numbers, _number(value)), dtype=bool)
