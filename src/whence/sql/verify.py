"""The proof of a trace: two results compared as bags of rows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType

from whence.model import NonDeterministic, operators
from whence.model.verdict import Verdict
from whence.sql import SqlLineage
from whence.sql.catalyst import Catalyst, Plan, class_name
from whence.sql.sources import in_files
from whence.sql.wavering import Wavering

# Rows that differ only in the last digits of a floating-point number are equal: Spark adds floats in any order.
_TOLERANCE = 1e-6
# The same where they are shown as texts: all digits but the last few.
_TEXT_TOLERANCE = 1e-12
_FLOAT = re.compile(r"-?\d+\.\d+(E-?\d+)?")
_SHOWN = 1000
# Without these a text leaves out microseconds, and fields that are NULL.
_WHOLE = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}


def compare(asked: DataFrame, again: DataFrame, *, extras_count: bool = True) -> Verdict:
    names = [f"c{i}" for i in range(len(asked.columns))]
    left, right = asked.toDF(*names), again.toDF(*names)
    floats = [i for i, field in enumerate(left.schema) if isinstance(field.dataType, DoubleType | FloatType)]
    plain = [name for i, name in enumerate(names) if i not in floats]
    texts = [F.coalesce(F.format_string("%.9e", F.col(f"c{i}").cast("double")), F.lit("\x00")) for i in floats]
    text = F.concat_ws("\x1f", *texts, *([F.to_json(F.struct(*plain), _WHOLE)] if plain else []))
    # In Spark's own words, where they do: each function of PySpark's is several round trips.
    value = f"struct({', '.join(names)})" if names else "struct(1)"

    def differing(carried: Sequence[str], kept: Sequence[str]) -> list[Row]:
        # Spark looks through the whole query for each DataFrame on the way, so there are as few as can be.
        told = [text.alias("text"), *map(F.expr, carried)]
        both = left.select(*told, F.expr("1 as n")).unionAll(right.select(*told, F.expr("-1 as n")))
        rest = both.groupBy("text").agg(*[F.expr(told) for told in (*kept, "sum(n) as n")]).where("n <> 0")
        return rest.limit(_SHOWN).collect()

    # Mostly there are none: what they hold is asked for when there are some. Sums of floats often differ at their end.
    if not floats and not differing([], []):
        return Verdict(True, (), ())
    found = differing([f"{value} as row"], ["any_value(row) as row"])
    missing = [r.row for r in found for _ in range(max(r.n, 0))]
    extra = [r.row for r in found for _ in range(max(-r.n, 0))]
    if missing and extra and any(word in kind for _, kind in left.dtypes for word in ("float", "double", "string")):
        missing, extra = _without_close(missing, extra)
    if not extras_count:
        extra = []
    if missing and (collated := _collated(left)) and not _differ_by_collation(left, right, collated, extras_count):
        why = "texts that their collation takes for equal, of which Spark takes either, count as the same"
        return Verdict(True, notes=(why,))
    return Verdict(not missing and not extra, _named(missing, asked), _named(extra, asked))


def _collated(df: DataFrame) -> list[str]:
    """Columns with texts that another text may be equal to; Spark groups by what their collation says."""
    return [name for name, kind in df.dtypes if "collate" in kind and "map<" not in kind]


def _differ_by_collation(left: DataFrame, right: DataFrame, collated: Sequence[str], extras_count: bool) -> bool:
    """Whether two bags of rows differ when the texts in these columns are compared as their collations do."""
    others = [name for name in left.columns if name not in collated]
    text = F.to_json(F.struct(*others), _WHOLE) if others else F.lit("")
    both = left.select(text.alias("text"), *collated, F.lit(1).alias("n"))
    both = both.unionAll(right.select(text.alias("text"), *collated, F.lit(-1).alias("n")))
    rest = both.groupBy("text", *collated).agg(F.sum("n").alias("n")).where("n <> 0" if extras_count else "n > 0")
    return not rest.limit(1).isEmpty()


def compare_steady(asked: DataFrame, again: DataFrame, wavering: Mapping[int, Wavering], extras_count: bool) -> Verdict:
    """The same of what must be the same each time. `wavering`: the columns, by position, of which that is not true."""
    lists = [at for at, value in wavering.items() if value.order]
    left_out = [asked.columns[at] for at in wavering if at not in lists]

    def steady(df: DataFrame) -> DataFrame:
        named = df.toDF(*[f"c{i}" for i in range(len(df.columns))])
        shown = []
        for i, name in enumerate(df.columns):
            if i in lists:
                elements = f"transform(c{i}, x -> to_json(named_struct('x', x)))"
                shown.append(F.expr(f"array_sort({elements})").alias(name))
            elif i not in wavering:
                shown.append(F.col(f"c{i}").alias(name))
        return named.select(*shown)

    verdict = compare(steady(asked), steady(again), extras_count=extras_count)
    if not left_out:
        return verdict
    why = f"not compared, since the same rows may give another value each time: {', '.join(left_out)}"
    return replace(verdict, notes=(*verdict.notes, why))


def unsorted(c: Catalyst, df: DataFrame) -> DataFrame:
    """The same rows in any order, without the sort that stands on top of the query: to compare them takes none."""
    found = _without_sort(c, c.plan_of(df))
    return df if found is None else c.frame(found)


def as_asked(c: Catalyst, df: DataFrame) -> DataFrame:
    """The user's own query, as a proof computes it: in any order, what it has computed before taken from there."""
    plan = c.plan_of(df)
    found = _without_sort(c, plan)
    return c.frame(c.as_joins(c.taken(plan if found is None else found)))


def _without_sort(c: Catalyst, plan: Plan) -> Plan | None:
    """None where no sort stands on top."""
    if class_name(plan) == "Sort":
        return c.children(plan)[0]
    if class_name(plan) not in ("Filter", "Project", "SubqueryAlias"):
        return None
    below = _without_sort(c, c.children(plan)[0])
    return None if below is None else c.with_children(plan, [below])


def apart(c: Catalyst, df: DataFrame) -> DataFrame:
    """The same rows, computed where an aggregate of pandas' gives them: Spark 4.3 does not plan a query in which two of
    these stand that have no keys."""
    plan = c.plan_of(df)
    return c.materialise(plan) if c.aggregates_in_python(plan) else df


def without_barriers(c: Catalyst, df: DataFrame) -> DataFrame:
    """The same query without barrier execution, of which Spark takes no unions."""

    def plain(plan: Plan) -> Plan:
        below = [plain(child) for child in c.children(plan)]
        changed = any(new is not old for new, old in zip(below, c.children(plan), strict=True))
        found = c.with_children(plan, below) if changed else plan
        waits = class_name(plan) in operators.PYTHON_BATCHES and bool(c.fields(plan).get("isBarrier"))
        return c.copy(found, isBarrier=False) if waits else found

    plan = c.plan_of(df)
    found = plain(plan)
    return df if found is plan else c.frame(found)


def with_sources(
    c: Catalyst, verdict: Verdict, sources: Mapping[str, DataFrame], readings: Mapping[str, Sequence[DataFrame]]
) -> Verdict:
    """The verdict, and whether the sources show what their readings have: each row of a reading, and nothing else.

    Of a source that is read once this would be the same query twice: only those with several readings are given."""
    notes: list[str] = []
    for name, parts in readings.items():
        shown = sources[name]
        # Of a column that one reading takes for a number and another for a text, the values differ by that alone.
        alike = set(shown.dtypes).intersection(*[part.dtypes for part in parts])
        columns = [column for column, kind in shown.dtypes if (column, kind) in alike]
        if len(set(columns)) < len(columns):
            continue  # two columns of one name cannot be asked for by it
        each = [part.select(*[_quoted(column) for column in columns]) for part in parts]
        shown = shown.select(*[_quoted(column) for column in columns])
        lost, foreign = _differ(c, shown, each)
        if lost or foreign:
            notes.append(f"{name} does not show {lost} of the witnesses, and shows {foreign} rows that are none")
    if not notes:
        return verdict
    return replace(verdict, ok=False, notes=(*verdict.notes, *notes), proofs=())


def _differ(c: Catalyst, shown: DataFrame, parts: Sequence[DataFrame]) -> tuple[int, int]:
    """How many rows of the parts are not shown, and how many are shown that are in none of them: as bags, in one job.

    They are rows of one source, as it is read: equal ones are equal to the bit, and told by their hashes."""
    numbered = []
    for number, frame in enumerate((shown, *parts)):
        plan = c.plan_of(frame)
        own = c.output(plan)
        hashes = c.group_hashes(own) if own else []
        columns = [c.alias(hashed, f"hash{i}") for i, hashed in enumerate(hashes)]
        numbered.append(c.frame(c.project([c.alias(c.number(number), "whence_of"), *columns], plan)))
    every = reduce(DataFrame.unionAll, numbered)
    times = [F.count(F.when(F.col("whence_of") == n, 1)).alias(f"n{n}") for n in range(len(numbered))]
    each = every.groupBy(*every.columns[1:]).agg(*times)
    there, inside = F.col("n0"), [F.col(f"n{n}") for n in range(1, len(numbered))]
    lost = reduce(Column.__add__, [F.greatest(one - there, F.lit(0)) for one in inside])
    foreign = F.greatest(there - reduce(Column.__add__, inside), F.lit(0))
    (found,) = each.agg(F.sum(lost).alias("lost"), F.sum(foreign).alias("foreign")).collect()
    return found.lost or 0, found.foreign or 0


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def _named(rows: list[Row], like: DataFrame) -> tuple[Row, ...]:
    make = Row(*like.columns) if len(set(like.columns)) == len(like.columns) else Row
    return tuple(make(*row) for row in rows)


def _without_close(missing: list[Row], extra: list[Row]) -> tuple[list[Row], list[Row]]:
    left: list[Row] = []
    rest = list(extra)
    for row in missing:
        twin = next((other for other in rest if _close(row, other)), None)
        if twin is None:
            left.append(row)
        else:
            rest.remove(twin)
    return left, rest


def _close(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=1e-9) or (one != one and other != other)
    if isinstance(one, str) and isinstance(other, str):
        return one == other or _close_texts(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(value, other[key]) for key, value in one.items())
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(_close(a, b) for a, b in zip(one, other, strict=True))
    return one == other


def _close_texts(one: str, other: str) -> bool:
    """Whether both are a floating-point number cast to a text."""
    if not (_FLOAT.fullmatch(one) and _FLOAT.fullmatch(other)):
        return False
    return math.isclose(float(one), float(other), rel_tol=_TEXT_TOLERANCE)


def require_same_rows(lineage: SqlLineage) -> None:
    """Where a trace goes on through a written table, its query must give now the rows that were written.

    Only where that is not certain: floating-point sums, arrays, text formats, columns that were cast on the way. All
    rows of the table are compared, not those that were asked for: these may be the same by chance."""
    c, passage = lineage.c, lineage.passage
    for table, query, made in passage.pairs:
        kept = c.version_of(table)
        listed = {} if kept is not None else c.files_of(table)
        files = {(path, *version) for path, version in listed.items() if made is None or path in made}
        versions = frozenset(files if kept is None else {(kept.place, kept.number, 0)})
        columns = tuple(a.name() for a in c.output(table))
        if (versions, columns) in c.memory.compared:
            continue
        with c.quietly():
            there = table if made is None else in_files(c, table, made)
            verdict = compare(c.frame(there), lineage.given_by(query))
        if not verdict.ok:
            roots = c.roots(table) if kept is None else [kept.shown]
            name = ", ".join(root.rstrip("/").rsplit("/", 1)[-1] for root in roots)
            raise NonDeterministic(
                f"The trace cannot go on through {name}, which was written under capture: its query, run again, does "
                f"not give the rows that are in it ({len(verdict.missing)} missing, {len(verdict.extra)} too many). "
                "Ask w.backward(df, through=False) to end at the table."
            )
        c.memory.compared.add((versions, columns))
    passage.pairs.clear()
