"""explain: which conditions on columns set the bad rows apart from the good ones.

Candidates come from a sample, coded into bins and categories (search.py). Everything that is reported is
counted by Spark over all rows: thresholds are moved to where the rows really part, each condition is dropped in turn
and goes when the rows it shuts out are as bad as the others, and support and error rate are exact. When the sample had
too few of the good rows that the rules let in, more of them join it (weighted, so that it still stands for all rows)
and the search is done again. The driver never holds more than the sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.debug.diagnose.causes import Condition
from whence.debug.diagnose.errors import DiagnoseError
from whence.debug.explain.columns import features_of, holds
from whence.debug.explain.search import STRICTNESS, Bools, Coded, Floats, gain, needed, next_rule, tells_apart
from whence.model.html import html_table, paragraph
from whence.model.text import visible
from whence.spark.frames import to_arrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_SAMPLE = 40_000
_TURNS = 3
_CLOSER = 4_000  # good rows to add where the conditions let some in
_SEEN = 400  # of them in the sample are enough to judge by
_NOISE = 0.001  # good rows per bad one that conditions may let in without a closer look
_STEPS = 1_000  # places for a threshold between two bins
_ZOOMS = 6  # times that the place found is looked at more closely
_CHOICES = 80  # conditions that a column offers, about
_ALIKE = 0.8  # of the error rate inside: rows as bad as that belong to the cause
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
        return visible(self.sql)


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
            return f"No condition on {visible(', '.join(self.columns))} sets the {self.bad_rows} bad rows apart."
        lines = [
            f"{self.covered:,} of {self.bad_rows:,} bad rows are explained; "
            f"{self.let_in:,} of {self.good_rows:,} good rows satisfy the conditions too."
        ]
        lines += [f"  {c}   ({c.support:,} bad rows, error rate {c.error_rate:.1%})" for c in self.causes]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        first, *_ = str(self).splitlines()
        if not self.causes:
            return paragraph(first)
        rows = [(c.sql, f"{c.support:,}", f"{c.good_rows:,}", f"{c.error_rate:.1%}") for c in self.causes]
        return paragraph(first) + html_table(("condition", "bad rows", "good rows", "error rate"), rows)


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
    picked = [F.expr(e).alias(name) for name, e in expressions.items()]
    few = to_arrow(bad.select(picked).limit(_SAMPLE + 1))  # bad rows are mostly few: then this is all of them
    bad_rows = few.num_rows if few.num_rows <= _SAMPLE else bad.count()
    good_rows = good.count()
    if not bad_rows or not good_rows:
        word, other = ("bad", "good") if not bad_rows else ("good", "bad")
        raise DiagnoseError(
            f"There are no {word} rows, so nothing sets them apart from the {other} ones. Check the two DataFrames."
        )
    some = few if bad_rows <= _SAMPLE else _sample(bad.select(picked), bad_rows, seed)
    sample = Sample.of(some, _sample(good.select(picked), good_rows, seed), good_rows, expressions)
    for turn in range(_TURNS):
        found = _search(sample, conditions, causes, enough)
        answer = _count(_sharpen(*found, bad, good), bad, good, bad_rows, good_rows, tuple(expressions))
        if not answer.causes or turn == _TURNS - 1 or sample.shows(answer):
            break
        wrong = good.where(_any([c.conditions for c in answer.causes])).select(picked)
        more = to_arrow(wrong.sample(fraction=min(1.0, 1.2 * _CLOSER / answer.let_in), seed=seed).limit(2 * _CLOSER))
        sample = sample.closer(more, answer)
    return answer


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
        return to_arrow(rows)
    return to_arrow(rows.sample(fraction=min(1.0, 1.1 * _SAMPLE / count), seed=seed))


@dataclass(frozen=True)
class Sample:
    """Rows of both kinds. A good row's weight is how many rows of an even sample it stands for."""

    bad: pa.Table
    good: pa.Table
    weight: Floats
    good_rows: int
    expressions: dict[str, str]

    @classmethod
    def of(cls, bad: pa.Table, good: pa.Table, good_rows: int, expressions: dict[str, str]) -> Sample:
        return cls(bad, good, np.ones(good.num_rows), good_rows, expressions)

    def shows(self, answer: Explanation) -> bool:
        """Did the sample have enough of the good rows that the conditions let in to tell them from the bad ones?"""
        if self.good.num_rows >= self.good_rows or answer.let_in < _NOISE * answer.covered:
            return True
        return bool(self._inside(answer).sum() >= min(_SEEN, answer.let_in))

    def closer(self, more: pa.Table, answer: Explanation) -> Sample:
        """With these rows, a sample of the good ones that the conditions let in, in place of its own."""
        import pyarrow as pa_

        outside = ~self._inside(answer)
        share = answer.let_in / self.good_rows * self.weight.sum() / max(1, more.num_rows)
        good = pa_.concat_tables([self.good.filter(pa_.array(outside)), more.cast(self.good.schema)])
        weight = np.concatenate([self.weight[outside], np.full(more.num_rows, share)])
        return Sample(self.bad, good, weight, self.good_rows, self.expressions)

    def _inside(self, answer: Explanation) -> Bools:
        names = {expression: name for name, expression in self.expressions.items()}
        inside = np.zeros(self.good.num_rows, dtype=bool)
        for cause in answer.causes:
            every = np.ones(self.good.num_rows, dtype=bool)
            for c in cause.conditions:
                every &= holds(self.good[names[c.parameter]], c)
            inside |= every
        return inside


Windows = dict[Condition, tuple[float, float]]


def _search(sample: Sample, depth: int, most: int, enough: float) -> tuple[list[tuple[Condition, ...]], Windows]:
    import pyarrow as pa_

    both = pa_.concat_tables([sample.bad, sample.good.cast(sample.bad.schema)])
    bad = np.arange(both.num_rows) < sample.bad.num_rows
    weight = np.concatenate([np.ones(sample.bad.num_rows), sample.weight])
    found: list[tuple[Condition, ...]] = []
    masks: list[Bools] = []
    windows: Windows = {}
    for strictness in STRICTNESS:
        left = bad.copy()
        while len(found) < most and left.sum() > (1 - enough) * bad.sum():
            # The bins follow the bad rows that are still unexplained: a narrow range needs bins as narrow.
            features = features_of(both, sample.expressions, left)
            if not features:
                break
            data = Coded(
                np.column_stack([f.code(both[f.name]) for f in features]),
                bad,
                tuple(f.size for f in features),
                tuple(f.cuts is not None for f in features),
                tuple(f.usable for f in features),
                weight,
                tuple(f.coarse for f in features),
            )
            rule = next_rule(data, left, strictness, depth)
            if rule is None:
                break
            found.append(())
            for column, inside in rule.conditions:
                said = features[column].conditions(inside)
                found[-1] += tuple(said)
                windows.update((c, w) for c in said if (w := features[column].window(c)) is not None)
            masks.append(rule.mask(data.codes))
            left &= ~masks[-1]
        if found:
            break
    return [found[i] for i in needed(masks, bad, [len(c) for c in found])], windows


def _column(conditions: Sequence[Condition]) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(F.expr(" and ".join(_sql(c) for c in conditions) or "true"), F.lit(False))


def _any(found: Sequence[Sequence[Condition]]) -> Column:
    return reduce(lambda a, b: a | b, (_column(c) for c in found))


def _sharpen(
    found: list[tuple[Condition, ...]], windows: Windows, bad: DataFrame, good: DataFrame
) -> list[tuple[Condition, ...]]:
    """Move each threshold to where all rows part: to the last bad row before the first good row beyond it or, when good
    rows stand on both sides, to where the likelihood is greatest."""
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

    beyond = [F.count(F.when(_column(rule), 1)) for rule in found]
    for i, j in ranged:
        c = found[i][j]
        column = F.expr(c.parameter)
        past = column < F.lit(c.value) if c.op == ">=" else column >= F.lit(c.value)
        beyond.append((F.max if c.op == ">=" else F.min)(F.when(others(i, j) & past, column)))
    let_in, walls = _halves(good.agg(*beyond).collect()[0], len(found))
    last = []
    for (i, j), wall in zip(ranged, walls, strict=True):
        c = found[i][j]
        column = F.expr(c.parameter)
        here = others(i, j)
        if wall is None:  # no good row at all beyond it
            pass
        elif not let_in[i]:
            here = here & (column > F.lit(wall) if c.op == ">=" else column < F.lit(wall))
        else:
            edge = _likeliest(c, windows[c], others(i, j), bad, good) if c in windows else c.value
            here = here & (column >= F.lit(edge) if c.op == ">=" else column < F.lit(edge))
        last.append((F.min if c.op == ">=" else F.max)(F.when(here, column)))
    ends = list(bad.agg(*last).collect()[0])
    moved = [list(rule) for rule in found]
    for (i, j), end in zip(ranged, ends, strict=True):
        if end is not None:
            moved[i][j] = Condition(found[i][j].parameter, ">=" if found[i][j].op == ">=" else "<=", end)
    # A range that no good row bounds is no condition at all.
    unbounded = {place for place, wall in zip(ranged, walls, strict=True) if wall is None}
    kept = [tuple(c for j, c in enumerate(rule) if (i, j) not in unbounded) for i, rule in enumerate(moved)]
    return [_merged(kept[i] or rule) for i, rule in enumerate(moved)]


def _halves(row: Sequence[Any], at: int) -> tuple[list[Any], list[Any]]:
    return list(row[:at]), list(row[at:])


def _likeliest(
    condition: Condition, window: tuple[float, float], others: Column, bad: DataFrame, good: DataFrame
) -> Any:
    """The threshold within the window that tells bad from good rows best: a value that rows have.

    Of a thousand steps the best border; then, as long as the steps beside it hold several values, the same again
    between them."""
    from pyspark.sql import functions as F

    column = F.expr(condition.parameter)
    low, high = window
    edge: Any = condition.value
    for _ in range(_ZOOMS):
        step = (high - low) / _STEPS
        # One step below the window and one above it hold all the rows beyond.
        number = F.greatest(F.lit(-1), F.least(F.lit(_STEPS), F.floor((column - F.lit(low)) / F.lit(step))))
        counts = [np.zeros(_STEPS + 2), np.zeros(_STEPS + 2)]
        least: dict[int, Any] = {}
        most: dict[int, Any] = {}
        for which, rows in enumerate((bad, good)):
            grouped = rows.where(others & column.isNotNull()).groupBy(number.alias("n"))
            for n, count, first, last in grouped.agg(F.count("*"), F.min(column), F.max(column)).collect():
                at = int(n) + 1
                counts[which][at] = count
                least[at], most[at] = min(first, least.get(at, first)), max(last, most.get(at, last))
        filled = sorted(least)
        if len(filled) < 2:
            break
        under = [np.cumsum(c) for c in counts]
        whole = [float(u[-1]) for u in under]
        worth = [gain(under[0][i], under[1][i], whole[0] - under[0][i], whole[1] - under[1][i]) for i in filled[:-1]]
        best = int(np.argmax(worth))
        below, above = filled[best], filled[best + 1]
        edge = least[above]
        mixed = [i for i in (below, above) if least[i] != most[i] and counts[0][i] and counts[1][i]]
        inner = [i for i in mixed if 0 < i < _STEPS + 1]
        if not inner:
            break
        low, high = float(least[min(inner)]), float(most[max(inner)])
        high += (high - low) / _STEPS  # the largest value belongs to the last step
    return edge


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
    found: Sequence[tuple[Condition, ...]],
    bad: DataFrame,
    good: DataFrame,
    bad_rows: int,
    good_rows: int,
    columns: tuple[str, ...],
) -> Explanation:
    """Support and error rate over all rows, of conditions without those that all rows show to be needless."""
    from pyspark.sql import functions as F

    rules = list(dict.fromkeys(found))
    while rules:
        every = [_column(c) for c in rules]
        sums = [*every, _any(rules)]
        places = [(i, j) for i, rule in enumerate(rules) for j in range(len(rule)) if len(rule) > 1]
        for i, j in places:  # rows that only this condition of this rule shuts out
            less = _column([c for k, c in enumerate(rules[i]) if k != j])
            sums.append(reduce(lambda a, b: a & ~b, every, less))
        counts = [F.count(F.when(column, 1)) for column in sums]
        hit, let_in = list(bad.agg(*counts).collect()[0]), list(good.agg(*counts).collect()[0])
        price = float(np.log(_CHOICES * len(columns)))
        weakest: dict[int, tuple[float, int]] = {}
        for n, (i, j) in enumerate(places, len(rules) + 1):
            inside, outside = (hit[i], let_in[i]), (hit[n], let_in[n])
            if not _needs(inside, outside, price):
                weakest[i] = min(weakest.get(i, (np.inf, j)), (gain(*inside, *outside), j))
        if not weakest:
            causes = [DataCause(rule, hit[i], let_in[i], hit[i] / bad_rows) for i, rule in enumerate(rules) if hit[i]]
            causes.sort(key=lambda c: -c.support)
            return Explanation(tuple(causes), bad_rows, good_rows, hit[len(rules)], let_in[len(rules)], columns)
        shorter = [
            tuple(c for j, c in enumerate(rule) if i not in weakest or j != weakest[i][1])
            for i, rule in enumerate(rules)
        ]
        rules = list(dict.fromkeys(shorter))
    return Explanation((), bad_rows, good_rows, 0, 0, columns)


def _needs(inside: tuple[int, int], outside: tuple[int, int], price: float) -> bool:
    """Are the rows outside (bad, good) less often bad than those inside, by more than chance and enough to matter?"""
    if not sum(outside) or not sum(inside):
        return False
    matters = outside[0] / sum(outside) < _ALIKE * inside[0] / sum(inside)
    return matters and tells_apart(*inside, *outside, price)
