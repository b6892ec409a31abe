"""explain: which conditions on columns set the bad rows apart from the good ones.

Candidates come from a sample, coded into bins and categories (explain_search.py). Everything that is reported is
counted by Spark over all rows: thresholds are moved to where the rows really part, good rows that a rule wrongly lets
in join the sample and the search is done again, and support and error rate are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from whence.debug.diagnose.causes import Condition
from whence.debug.diagnose.errors import DiagnoseError
from whence.debug.explain_search import STRICTNESS, Bools, Coded, Rule, needed, next_rule

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_BINS = 40
_CATEGORIES = 60
_SAMPLE = 40_000
_SIMPLE = ("tinyint", "smallint", "int", "bigint", "float", "double", "string", "boolean", "date", "timestamp")


@dataclass(frozen=True)
class DataCause:
    """`support`: bad rows that satisfy it; `error_rate`: share of bad ones among all rows that satisfy it."""

    conditions: tuple[Condition, ...]
    support: int
    good_rows: int
    coverage: float

    @property
    def error_rate(self) -> float:
        return self.support / max(1, self.support + self.good_rows)

    @property
    def sql(self) -> str:
        return " and ".join(_sql(c) for c in self.conditions)

    def __str__(self) -> str:
        return self.sql


@dataclass(frozen=True)
class Explanation:
    """Causes, the one with most support first; `covered` and `good_rows` are of all of them together, over all rows."""

    causes: tuple[DataCause, ...]
    bad_rows: int
    good_rows: int
    covered: int
    let_in: int
    columns: tuple[str, ...]

    @property
    def sql(self) -> str:
        """One condition for all of the causes, to filter with."""
        return " or ".join(f"({c.sql})" if len(self.causes) > 1 else c.sql for c in self.causes) or "false"

    @property
    def exact(self) -> bool:
        """True when it holds for every bad row and for no good row."""
        return self.covered == self.bad_rows and self.let_in == 0

    def __str__(self) -> str:
        if not self.causes:
            return f"No condition on {', '.join(self.columns)} sets the {self.bad_rows} bad rows apart."
        lines = [
            f"{self.covered:,} of {self.bad_rows:,} bad rows are explained; "
            f"{self.let_in:,} of {self.good_rows:,} good rows satisfy the conditions too."
        ]
        lines += [f"  {c.sql}   ({c.support:,} bad rows, error rate {c.error_rate:.1%})" for c in self.causes]
        return "\n".join(lines)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, int | float):
        return repr(value)
    return f"{'timestamp' if hasattr(value, 'hour') else 'date'} '{value}'"


def _sql(condition: Condition) -> str:
    name, op, value = condition
    plain = name.replace("_", "").isalnum() and not name[0].isdigit()
    quoted = name if plain or name.endswith((")", "`")) else f"`{name}`"
    if value is None:
        return f"{quoted} is {'not ' if op == '!=' else ''}null"
    return f"{quoted} {'=' if op == '==' else op} {_literal(value)}"


@dataclass(frozen=True)
class _Feature:
    """One column, or the hour of a timestamp. `cuts[i]`: the smallest value of bin i + 1; or `names`, categories."""

    name: str
    expression: str
    cuts: tuple[Any, ...] | None
    names: tuple[Any, ...] | None

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
            return [Condition(self.expression, "!=", values[v]) for v in sorted(outside)]
        cuts = self.cuts or ()
        if len(outside) == 1 and 0 in inside:  # everything but one bin
            v = min(outside)
            return [Condition(self.expression, "!=", cuts[v - 1])]
        low, high = min(inside), max(inside)
        found = []
        if low > 1:
            found.append(Condition(self.expression, ">=", cuts[low - 1]))
        if high < self.size - 1:
            found.append(Condition(self.expression, "<", cuts[high]))
        return found


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

    if pa_.types.is_timestamp(values.type) or pa_.types.is_date(values.type):
        return np.array([np.nan if v is None else _number(v) for v in values.to_pylist()], dtype=float)
    return np.asarray(values.cast(pa_.float64()).to_numpy(zero_copy_only=False), dtype=float)


def _features(sample: pa.Table, expressions: dict[str, str], bad: Bools) -> list[_Feature]:
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
                found.append(_Feature(name, expressions[name], None, tuple(names)))
            continue
        numbers = _numbers(values)
        known = ~np.isnan(numbers)
        if not known.any():
            continue
        distinct, first = np.unique(numbers[known], return_index=True)
        at = np.flatnonzero(known)[first]
        if len(distinct) > _BINS:
            at = _cut(distinct, at, numbers, bad & known)
        found.append(_Feature(name, expressions[name], tuple(values[int(i)].as_py() for i in at), None))
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


def explain(
    bad: DataFrame,
    good: DataFrame,
    *,
    columns: Sequence[str] | None = None,
    conditions: int = 3,
    causes: int = 5,
    enough: float = 0.99,
    seed: int = 0,
) -> Explanation:
    """`conditions`: most conditions in a cause; `causes`: most causes; `enough`: share of bad rows to explain."""
    from pyspark.sql import functions as F

    expressions = _expressions(bad, good, columns)
    bad_rows, good_rows = bad.count(), good.count()
    if not bad_rows or not good_rows:
        word, other = ("bad", "good") if not bad_rows else ("good", "bad")
        raise DiagnoseError(
            f"There are no {word} rows, so nothing sets them apart from the {other} ones. Check the two DataFrames."
        )
    picked = [F.expr(e).alias(name) for name, e in expressions.items()]
    sample_bad = _sample(bad.select(picked), bad_rows, seed)
    sample_good = _sample(good.select(picked), good_rows, seed)
    found: list[tuple[Condition, ...]] = []
    for _ in range(3):
        found = _search(sample_bad, sample_good, expressions, conditions, causes, enough)
        found = _sharpen(found, bad, good)
        if not found:
            break
        wrong = good.where(_any(found)).select(picked).limit(2000)
        more = wrong.toArrow()
        # Good rows that a sample of them did not show: look again with these in it.
        if not more.num_rows or _share(sample_good, more) or good_rows <= sample_good.num_rows:
            break
        sample_good = _joined(sample_good, more)
    return _count(found, bad, good, bad_rows, good_rows, tuple(expressions))


def _expressions(bad: DataFrame, good: DataFrame, columns: Sequence[str] | None) -> dict[str, str]:
    have = dict(good.dtypes)
    wanted = list(columns) if columns is not None else [name for name, kind in bad.dtypes if have.get(name) == kind]
    missing = [name for name in wanted if name not in dict(bad.dtypes) or name not in have]
    if missing:
        shared = ", ".join(sorted(set(have) & set(bad.columns)))
        raise DiagnoseError(f"The column {missing[0]!r} is not in both DataFrames; they share {shared}.")
    found: dict[str, str] = {}
    for name in wanted:
        kind = have[name]
        quoted = name if name.replace("_", "").isalnum() and not name[0].isdigit() else f"`{name}`"
        if kind in _SIMPLE:
            found[name] = quoted
        elif kind.startswith("decimal"):
            found[name] = f"double({quoted})"
        if kind == "timestamp":
            found[f"hour({name})"] = f"hour({quoted})"
    if not found:
        raise DiagnoseError(
            "The two DataFrames share no column of a simple type (numbers, strings, booleans, dates). Select some."
        )
    return found


def _sample(rows: DataFrame, count: int, seed: int) -> pa.Table:
    if count <= _SAMPLE:
        return rows.toArrow()
    return rows.sample(fraction=min(1.0, 1.1 * _SAMPLE / count), seed=seed).toArrow()


def _joined(a: pa.Table, b: pa.Table) -> pa.Table:
    import pyarrow as pa_

    return pa_.concat_tables([a, b.cast(a.schema)])


def _share(sample: pa.Table, more: pa.Table) -> bool:
    """Are these rows no news to the search? A handful in a large sample is noise that rules may live with."""
    return bool(more.num_rows < 0.0005 * sample.num_rows)


def _search(
    sample_bad: pa.Table, sample_good: pa.Table, expressions: dict[str, str], depth: int, most: int, enough: float
) -> list[tuple[Condition, ...]]:
    both = _joined(sample_bad, sample_good)
    bad = np.arange(both.num_rows) < sample_bad.num_rows
    found: list[tuple[Condition, ...]] = []
    masks: list[Bools] = []
    for strictness in STRICTNESS:
        left = bad.copy()
        while len(found) < most and left.sum() > (1 - enough) * bad.sum():
            # The bins follow the bad rows that are still unexplained: a narrow range needs bins as narrow.
            features = _features(both, expressions, left)
            if not features:
                break
            data = Coded(
                np.column_stack([f.code(both[f.name]) for f in features]),
                bad,
                tuple(f.size for f in features),
                tuple(f.cuts is not None for f in features),
                tuple(f.usable for f in features),
            )
            rule = next_rule(data, left, strictness, depth)
            if rule is None:
                break
            found.append(_words(rule, features))
            masks.append(rule.mask(data.codes))
            left &= ~masks[-1]
        if found:
            break
    return [found[i] for i in needed(masks, bad, [len(c) for c in found])]


def _words(rule: Rule, features: list[_Feature]) -> tuple[Condition, ...]:
    return tuple(c for column, inside in rule.conditions for c in features[column].conditions(inside))


def _column(conditions: Sequence[Condition]) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(F.expr(" and ".join(_sql(c) for c in conditions) or "true"), F.lit(False))


def _any(found: Sequence[Sequence[Condition]]) -> Column:
    return reduce(lambda a, b: a | b, (_column(c) for c in found))


def _sharpen(found: list[tuple[Condition, ...]], bad: DataFrame, good: DataFrame) -> list[tuple[Condition, ...]]:
    """Move each threshold to the last value at which a bad row stands before the first good row beyond it."""
    from pyspark.sql import functions as F

    ranged = [
        (i, j)
        for i, rule in enumerate(found)
        for j, c in enumerate(rule)
        if c.op in (">=", "<") and c.value is not None
    ]
    if not ranged:
        return found

    def others(i: int, j: int) -> Column:
        return _column([c for k, c in enumerate(found[i]) if k != j])

    beyond = []
    for n, (i, j) in enumerate(ranged):
        c = found[i][j]
        column = F.expr(c.parameter)
        past = column < F.lit(c.value) if c.op == ">=" else column >= F.lit(c.value)
        nearest = F.max if c.op == ">=" else F.min
        beyond.append(nearest(F.when(others(i, j) & past, column)).alias(f"c{n}"))
    walls = good.agg(*beyond).collect()[0]
    last = []
    for n, (i, j) in enumerate(ranged):
        c, wall = found[i][j], walls[n]
        column = F.expr(c.parameter)
        here = others(i, j)
        if wall is not None:
            here = here & (column > F.lit(wall) if c.op == ">=" else column < F.lit(wall))
        last.append((F.min if c.op == ">=" else F.max)(F.when(here, column)).alias(f"c{n}"))
    ends = bad.agg(*last).collect()[0]
    moved = [list(rule) for rule in found]
    for n, (i, j) in enumerate(ranged):
        c, end = found[i][j], ends[n]
        if end is not None:
            moved[i][j] = Condition(c.parameter, ">=" if c.op == ">=" else "<=", end)
    # A range that no good row bounds is no condition at all.
    kept = [
        tuple(c for j, c in enumerate(rule) if (i, j) not in ranged or walls[ranged.index((i, j))] is not None)
        for i, rule in enumerate(moved)
    ]
    return [_merged(rule if kept[i] == () else kept[i]) for i, rule in enumerate(map(tuple, moved))]


def _merged(rule: Sequence[Condition]) -> tuple[Condition, ...]:
    """A range of one value is that value."""
    ends = {(c.parameter, c.op): c.value for c in rule if c.op in (">=", "<=")}
    single = {name for name, _ in ends if ends.get((name, ">=")) == ends.get((name, "<=")) and (name, "<=") in ends}
    return tuple(
        Condition(c.parameter, "==", c.value) if c.parameter in single and c.op == ">=" else c
        for c in rule
        if not (c.parameter in single and c.op == "<=")
    )


def _count(
    found: list[tuple[Condition, ...]],
    bad: DataFrame,
    good: DataFrame,
    bad_rows: int,
    good_rows: int,
    columns: tuple[str, ...],
) -> Explanation:
    from pyspark.sql import functions as F

    if not found:
        return Explanation((), bad_rows, good_rows, 0, 0, columns)
    sums = [F.count(F.when(_column(c), 1)) for c in found] + [F.count(F.when(_any(found), 1))]
    hit, let_in = list(bad.agg(*sums).collect()[0]), list(good.agg(*sums).collect()[0])
    causes = [
        DataCause(conditions, hit[i], let_in[i], hit[i] / bad_rows) for i, conditions in enumerate(found) if hit[i]
    ]
    causes.sort(key=lambda c: -c.support)
    return Explanation(tuple(causes), bad_rows, good_rows, hit[-1], let_in[-1], columns)
