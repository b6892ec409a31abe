"""What aggregates come to without each of their inputs in turn, in one pass over all of them.

What is left of a group without one input is what stands before it and what stands behind it: sums, counts, extremes and
moments of both are merged (nothing is subtracted, so that a large value does not swallow the digits of the others).
Percentiles follow from the places in order, distinct counts from how many inputs share a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from whence.sql import Catalyst
from whence.sql.catalyst import Attr, Expr, Plan, class_name

_MOMENTS = ("VariancePop", "VarianceSamp", "StddevPop", "StddevSamp")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")
_V = "v"


@dataclass(frozen=True)
class _Part:
    """One aggregate: what is gathered of each input, and what comes out of the inputs before and behind.

    `prepare(each, rows, keys)` adds columns that need a further look; `single`: an input has one row in a group."""

    gathered: dict[str, str]
    merged: Callable[[_Sides], Column | str]
    prepare: Callable[[DataFrame, DataFrame, list[str]], DataFrame] | None = None
    single: bool = False


@dataclass(frozen=True)
class _Sides:
    """The windows of what stands before and behind a row. In SQL's words: each function of PySpark's is several round
    trips to the JVM."""

    before: str
    behind: str

    def both(self, function: str, name: str) -> tuple[str, str]:
        return f"{function}({name}) OVER ({self.before})", f"{function}({name}) OVER ({self.behind})"

    def added(self, name: str) -> str:
        one, other = self.both("sum", name)
        return f"coalesce({one} + {other}, {one}, {other})"


@dataclass(frozen=True, eq=False)
class LeftOut:
    """`plan` has, for each group and each input that is left out of it, `v`, `keys` and one of `results` for each
    aggregate; groups of which nothing is left are missing, unless there are no keys."""

    plan: Plan
    v: Attr
    keys: tuple[Attr, ...]
    results: tuple[Attr, ...]


def left_out(c: Catalyst, rows: Plan, v: Attr, keys: Sequence[Expr], calls: Sequence[Expr]) -> LeftOut | None:
    """None where one of the aggregates is not among those that can be told this way."""
    values = [_value(c, call) for call in calls]
    if any(value is None for value in values):
        return None
    names = [f"k{i}" for i in range(len(keys))]
    named = [c.alias(key, name) for key, name in zip(keys, names, strict=True)]
    own = [c.alias(value, f"x{i}") for i, value in enumerate(values)]
    frame = c.frame(c.project([c.alias(v, _V), *named, *own], rows))
    parts = [_part(c, call, i) for i, call in enumerate(calls)]
    if any(part is None for part in parts):
        return None
    known = [part for part in parts if part is not None]
    gathered = {"rows": "count(1)", **{name: column for p in known for name, column in p.gathered.items()}}
    each = frame.groupBy(*names, _V).agg(*[F.expr(f"{told} AS {name}") for name, told in gathered.items()])
    if any(p.single for p in known) and not each.where("rows > 1").isEmpty():
        return None  # an input that stands several times in a group is several places in the order
    for part in known:
        if part.prepare is not None:
            each = part.prepare(each, frame, names)
    group = f"PARTITION BY {', '.join(names)}" if names else ""
    up, down = (
        f"{group} ORDER BY {_V} {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
        for order in ("ASC NULLS FIRST", "DESC NULLS LAST")
    )
    sides = _Sides(up, down)
    types = [c.type_of(call) for call in calls]
    merged = [p.merged(sides) for p in known]
    columns = [F.expr(told) if isinstance(told, str) else told for told in merged]
    results = [told.cast(kind).alias(f"r{i}") for i, (told, kind) in enumerate(zip(columns, types, strict=True))]
    left = F.expr(f"sum(rows) OVER ({group}) - rows").alias("left")
    found = each.select(_V, *names, left, *results).where(f"{_V} IS NOT NULL")
    if names:
        found = found.where("left > 0")
    plan = c.plan_of(found.drop("left"))
    number, *others = c.output(plan)
    return LeftOut(plan, number, tuple(others[: len(names)]), tuple(others[len(names) :]))


def _value(c: Catalyst, call: Expr) -> Expr | None:
    """What the aggregate looks at in one row, NULL where its FILTER shuts the row out."""
    inner = c.children(call.aggregateFunction())
    if not inner or (class_name(call.aggregateFunction()) == "Count" and len(inner) > 1):
        return None
    value = inner[0]
    if call.filter().isDefined():
        return c.expression("If", call.filter().get(), value, c.null(value))
    return value


def _part(c: Catalyst, call: Expr, i: int) -> _Part | None:
    function = call.aggregateFunction()
    name, kind = class_name(function), c.type_of(call)
    x, s, n = f"x{i}", f"s{i}", f"n{i}"
    if call.isDistinct():
        return _distinct_count(i) if name == "Count" else None
    if name in ("Min", "BoolAnd", "Max", "BoolOr"):
        best, pick = ("min", "least") if name in ("Min", "BoolAnd") else ("max", "greatest")
        return _Part({s: f"{best}({x})"}, lambda sides: f"{pick}({', '.join(sides.both(best, s))})")
    if name == "Count":
        return _Part({n: f"count({x})"}, lambda sides: f"coalesce({sides.added(n)}, 0)")
    looked_at = c.type_of(c.children(function)[0])
    number = looked_at in _NUMBERS or looked_at.startswith("decimal(")
    if not number:
        return None
    if name == "Sum":
        exact = "double" if kind == "double" else "decimal(38,0)" if kind == "bigint" else kind
        return _Part({s: f"sum(cast({x} AS {exact}))"}, lambda sides: sides.added(s))
    if name == "Average":
        summed = f"sum({x})" if looked_at.startswith("decimal(") else f"sum(cast({x} AS double))"
        counted = {s: summed, n: f"count({x})"}
        return _Part(counted, lambda sides: f"try_divide({sides.added(s)}, {sides.added(n)})")
    if name in _MOMENTS:
        return _moments(name, i)
    if name == "Median":
        return _percentile(0.5, i)
    if name == "Percentile" and looked_at in _NUMBERS:
        share = _constant(c, function)
        return None if share is None else _percentile(share, i)
    return None


def _constant(c: Catalyst, percentile: Expr) -> float | None:
    _, share, frequency = c.children(percentile)[:3]
    if not share.foldable() or not c.is_numeric(share) or frequency.sql() != "1L":
        return None
    if "DESC" in percentile.sql():
        return None
    return float(str(share.eval(None)))


def _distinct_count(i: int) -> _Part:
    x, d, alone = f"x{i}", f"d{i}", f"alone{i}"

    def prepare(each: DataFrame, rows: DataFrame, names: list[str]) -> DataFrame:
        having = rows.where(F.col(x).isNotNull()).select(*names, _V, x).distinct()
        shared = having.withColumn("inputs", F.count("*").over(Window.partitionBy(*names, x)))
        mine = shared.groupBy(*names, _V).agg(F.count(F.when(F.col("inputs") == 1, 1)).alias(alone))
        counted = rows.groupBy(*names).agg(F.countDistinct(x).alias(d))
        return _joined(_joined(each, counted, names), mine, [*names, _V])

    return _Part({}, lambda _: F.coalesce(d, F.lit(0)) - F.coalesce(alone, F.lit(0)), prepare)


def _joined(left: DataFrame, right: DataFrame, by: Sequence[str]) -> DataFrame:
    """NULL being equal to NULL."""
    renamed = right.withColumnsRenamed({name: f"other_{name}" for name in by})
    condition = [F.col(name).eqNullSafe(F.col(f"other_{name}")) for name in by] or [F.lit(True)]
    return left.join(renamed, condition, "left").drop(*[f"other_{name}" for name in by])


def _moments(name: str, i: int) -> _Part:
    x = f"single{i}"

    def merged(sides: _Sides) -> Column:
        """Of two parts together, by the formula of Chan, Golub and LeVeque."""
        n1, n2 = map(F.expr, sides.both("count", x))
        mean1, mean2 = (F.expr(f"coalesce({mean}, 0.0D)") for mean in sides.both("avg", x))
        spread1, spread2 = (F.expr(f"coalesce({spread}, 0.0D)") for spread in sides.both("var_pop", x))
        count = n1 + n2
        apart = F.coalesce((mean1 - mean2) ** 2 * n1 * n2 / F.when(count > 0, count), F.lit(0.0))
        below = count if name.endswith("Pop") else count - 1
        variance = (spread1 * n1 + spread2 * n2 + apart) / F.when(below > 0, below)
        return F.sqrt(variance) if name.startswith("Stddev") else variance

    return _Part({x: f"max(cast(x{i} AS double))"}, merged, single=True)


def _percentile(share: float, i: int) -> _Part:
    x, place, n = f"single{i}", f"place{i}", f"n{i}"

    def bounds(count: Column) -> tuple[Column, Column, Column]:
        position = F.lit(share) * (count - 1)
        return position, F.floor(position), F.ceil(position)

    def prepare(each: DataFrame, rows: DataFrame, names: list[str]) -> DataFrame:
        group = Window.partitionBy(*names)
        known = F.col(x).isNotNull()
        ordered = Window.partitionBy(*names, known).orderBy(x)
        ranked = each.withColumns({
            place: F.when(known, F.row_number().over(ordered) - 1), n: F.count(x).over(group)
        })  # fmt: skip
        at = {}
        for end in (0, 1):
            at[f"all{end}_{i}"] = bounds(F.col(n))[1 + end]
            for step in (0, 1):
                at[f"less{end}{step}_{i}"] = bounds(F.col(n) - 1)[1 + end] + step
        return ranked.withColumns(
            {name: F.max(F.when(F.col(place) == index, F.col(x))).over(group) for name, index in at.items()}
        )

    def between(count: Column, low: Column, high: Column) -> Column:
        position, below, above = bounds(count)
        mixed = (above - position) * low + (position - below) * high
        return F.when(count > 0, F.when((below == above) | (low == high), low).otherwise(mixed))

    def merged(_: _Sides) -> Column:
        less = F.col(n) - 1
        # Behind the place that is left out, everything stands one place earlier.
        ends = [
            F.when(index < F.col(place), F.col(f"less{end}0_{i}")).otherwise(F.col(f"less{end}1_{i}"))
            for end, index in enumerate(bounds(less)[1:])
        ]
        unchanged = between(F.col(n), F.col(f"all0_{i}"), F.col(f"all1_{i}"))
        return F.when(F.col(place).isNull(), unchanged).otherwise(between(less, *ends))

    return _Part({x: f"max(cast(x{i} AS double))"}, merged, prepare, single=True)
