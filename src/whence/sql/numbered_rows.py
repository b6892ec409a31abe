"""Rows that a Delta table numbers itself (GENERATED ... AS IDENTITY). A write that leaves such a column out does not
know its values, so they are read back from the version that it made, where a row is found by all its other columns. The
version is nobody's witness there. Of rows that are equal in all else it is not known which has which number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from whence.spark.lakes import Version
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan
from whence.sql.plans import NotRestored
from whence.sql.row_changes import AS_NUMBERED


def numbered_by_table(
    c: Catalyst, made: Plan, given: Sequence[Attr], lacking: Sequence[Attr], leaf: Plan, rows: Plan, scan: Plan
) -> Plan:
    """What was written, with its numbers, under the columns of `leaf`. `rows`: those of the version (read by
    `scan`) that the write added."""
    what = f"its column {', '.join(str(a.name()) for a in lacking)} was numbered by the table"
    now, called = c.columns_told(leaf), _called(c, scan)
    by_name = {str(a.name()): a for a in c.output(rows)}
    values: dict[str, Expr] = {}
    for attr in (*given, *lacking):
        name = str(attr.name())
        value = by_name.get(called.get(now[name][0], ""))
        if value is not None and not c.can_cast(value, attr):
            raise NotRestored(f"{what}, and {name} has another type by now")
        if value is not None:  # a column that the table has got since tells nothing
            values[name] = c.alias(c.cast(value, attr), name)
    keys = [(attr, values[str(attr.name())].toAttribute()) for attr in given if str(attr.name()) in values]
    there = c.project(list(values.values()), rows)
    if not keys or not _told_apart(c, there, [key for _, key in keys]):
        raise NotRestored(f"{what}, and rows that are equal in all else cannot be told apart")
    test = c.conjunction([c.same(attr, key) for attr, key in keys])
    joined = c.join(made, c.subquery_alias(AS_NUMBERED, there), "inner", test)
    numbers = {str(a.name()): c.alias_as(values[str(a.name())].toAttribute(), a) for a in lacking}
    shown = [numbers.get(str(attr.name()), attr) for attr in c.output(leaf)]
    return c.plan_of(c.frame(c.project(shown, joined)))


def _called(c: Catalyst, scan: Plan) -> dict[str, str]:
    """The names of a version's columns, by what the format itself tells them by."""
    return {own: name for name, (own, _) in c.columns_told(scan).items()}


def _told_apart(c: Catalyst, rows: Plan, keys: Sequence[Attr]) -> bool:
    named = c.project([c.alias(key, f"k{n}") for n, key in enumerate(keys)], rows)
    groups = c.frame(named).groupBy(*(f"k{n}" for n in range(len(keys)))).count()
    try:
        return groups.where("count > 1").limit(1).count() == 0
    except AnalysisException:  # of a type that is not compared
        return False


def added(c: Catalyst, version: Version) -> tuple[Plan, Plan]:
    """A scan of a version, and those of its rows that stand in files which it added."""
    scan = _opened(c, version)
    names = c.files_added(version)
    if names is None:
        raise NotRestored("its log does not tell any more which files it added, in which the table numbered the rows")
    return scan, c.plan_of(c.frame(scan).where(F.col("_metadata.file_name").isin(names)))


def whole(c: Catalyst, version: Version) -> tuple[Plan, Plan]:
    scan = _opened(c, version)
    return scan, scan


def new(c: Catalyst, leaf: Plan, version: Version, before: int, numbers: Sequence[str]) -> tuple[Plan, Plan]:
    """A scan of a version, and those of its rows whose numbers the version before has not. `numbers`: their columns, as
    `leaf` calls them."""
    scan, former = _opened(c, version), _opened(c, replace(version, number=before))
    now = c.columns_told(leaf)
    here, there = (
        {own: attr for attr in c.output(plan) for own in [c.columns_told(plan)[str(attr.name())][0]]}
        for plan in (scan, former)
    )
    tests = [c.same(here[now[name][0]], there[now[name][0]]) for name in numbers]
    return scan, c.join(scan, former, "leftanti", c.conjunction(tests))


def _opened(c: Catalyst, version: Version) -> Plan:
    scan = c.open_version(version)
    if scan is None or not c.has_its_files(scan):
        raise NotRestored(f"the table numbered its rows, and its {version.as_text} is not there any more")
    return scan
