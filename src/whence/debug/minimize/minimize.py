"""The smallest set of source rows on which a query still fails: delta debugging, over the witnesses only.

Plain delta debugging halves the whole input. The lineage of one failing output row holds all that can matter, and is
mostly a tiny part of it (as BigSift showed for Titian); it is taken once, and each test runs the query over a few of
those rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark import RDD
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from whence.debug.attached import Attached
from whence.debug.minimize.ddmin import MOST_SECONDS, MOST_TESTS, SMALL, DoesNotFail, Range, Search, Test, ddmin, size
from whence.model import WhenceError
from whence.spark.catalyst import FEW_ROWS
from whence.sql import Node, ReadingPlace, SqlLineage, evaluation, rebuild
from whence.sql.catalyst import Plan, class_name, id_of, to_list
from whence.sql.question import SqlQuestion

_POSITION = "whence_position"
_ABOVE = ("Project", "Filter", "Sort", "SubqueryAlias", "View")  # an aggregate, without changing its groups
Fails = Callable[[list[Any]], bool]


@dataclass(frozen=True)
class Minimal:
    """`sources`: rows of each source, all of which are needed for the failure (unless `stopped` says why that is not
    known)."""

    sources: Mapping[str, list[Any]]
    rows: list[Any]  # what the query gives on them
    witnesses: int  # how many rows the failing output came from
    tests: int  # how often the query was run to find them
    stopped: str = ""  # why the search ended before it was known that all of these rows are needed
    places: Mapping[str, list[str]] = field(default_factory=dict)  # of an RDD's records: where each was read
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(len(rows) for rows in self.sources.values())


def minimize(
    session: Attached,
    asked: DataFrame | RDD[Any],
    fails: Fails,
    rows: list[Any] | None = None,
    *,
    tests: int = MOST_TESTS,
    seconds: float = MOST_SECONDS,
) -> Minimal:
    """`fails(rows)` says whether these result rows show the fault. `rows`: the result, where it is at hand already.

    After `tests` runs of the query or `seconds` the search ends with the smallest set of rows so far."""
    if isinstance(asked, RDD):
        from whence.debug.minimize.rdd import minimize_rdd

        return minimize_rdd(session, asked, fails, rows, tests, seconds)
    if not hasattr(asked, "_jdf"):
        raise WhenceError(f"minimize takes a DataFrame or an RDD, and this is a {type(asked).__name__}.")
    df, search = asked, Search(tests, seconds)
    rows = df.collect() if rows is None else rows
    if not fails(rows):
        raise DoesNotFail("fails(rows) is not true for the rows of this DataFrame, so there is nothing to minimise.")
    alone = next((row for row in rows if fails([row])), None)
    asked = df if alone is None else only_row(df, alone, _keys(df, alone, rows))
    return _Minimizing(session, df, asked, fails, search).run()


def only_row(df: DataFrame, row: Row, positions: Sequence[int] | None = None) -> DataFrame:
    """The rows with these values; `positions`: of columns that are enough to tell."""
    chosen = F.lit(True)
    for n, (name, value) in enumerate(zip(df.columns, row, strict=True)):
        if (positions is None or n in positions) and not isinstance(value, list | dict | Row):
            chosen = chosen & F.col(f"`{name}`").eqNullSafe(F.lit(value))
    return df.where(chosen)


def _keys(df: DataFrame, row: Row, rows: Sequence[Row]) -> list[int] | None:
    """Where the columns that a query groups by tell the row from all others: asked by them alone, Spark finds its
    witnesses without computing the aggregates again."""
    plan = df._jdf.queryExecution().analyzed()
    while class_name(plan) != "Aggregate":
        if class_name(plan) not in _ABOVE:
            return None
        plan = plan.child()
    by = {id_of(e) for e in to_list(plan.groupingExpressions()) if class_name(e) == "AttributeReference"}
    output = to_list(df._jdf.queryExecution().analyzed().output())
    positions = [n for n, a in enumerate(output) if id_of(a) in by]
    same = [other for other in rows if all(other[n] == row[n] for n in positions)]
    return positions if positions and len(same) == 1 else None


class _Minimizing:
    """The witnesses are those of `asked`; what is run on parts of them is `df` itself, since the asked row's own values
    change with them."""

    def __init__(self, session: Attached, df: DataFrame, asked: DataFrame, fails: Fails, search: Search) -> None:
        self._fails = fails
        self._search = search
        self._question = SqlQuestion(session.lineage(asked))
        self._lineage: SqlLineage = self._question.lineage
        self._whole: SqlLineage = session.lineage(df)
        self._c = self._lineage.c
        self._names = asked.columns
        # reading -> its place, its witnesses with their positions, its columns, [(first number, first position, count)]
        self._kept: dict[int, tuple[ReadingPlace, DataFrame, list[Any], list[tuple[int, int, int]]]] = {}
        self._numbered = 0  # witnesses that have a number

    def run(self) -> Minimal:
        total = self._materialise()
        spans = {number: [(first, first + count) for first, _, count in kept[3]] for number, kept in self._kept.items()}
        least, stopped = self._search.run(self._fails_on, spans, self._cut)
        return Minimal(self._rows_of(least), self._query(least).collect(), total, self._search.tests, stopped)

    def _cut(self, number: int, ranges: list[Range], others: list[Range], fails: Test) -> list[Range]:
        """Many witnesses are first cut down to few, which are then kept apart: a test reads all that is kept."""
        for enough in (SMALL, FEW_ROWS):
            if size(ranges) > enough:
                ranges = ddmin(ranges, fails, enough)
                if 1 < size(ranges) <= enough:
                    place, _, output, _ = self._kept[number]
                    ranges = self._keep(place, self._leaf(number, ranges), output)
                    self._search.smallest = [*others, *ranges]  # under their new numbers
        return ddmin(ranges, fails)

    def _materialise(self) -> int:
        for place in self._lineage.readings:
            leaf = self._question.witness_rows(place)
            if leaf is None:
                leaf = evaluation.leaf_rows(self._c, place, self._question.ids_of([place]), "leftsemi")
            self._keep(place, leaf, self._c.output(leaf))
        return self._numbered

    def _keep(self, place: ReadingPlace, leaf: Plan, output: list[Any]) -> list[Range]:
        """Compute the rows of a reading and number them, from the next number on."""
        c = self._c
        kept = c.frame(c.keep(c.extend(leaf, [c.alias(c.position(), _POSITION)])).plan)
        # Spark numbers the rows of a partition in sequence, so that counts tell all positions
        part = F.shiftright(F.col(_POSITION), 33).alias("part")
        runs = []
        for row in kept.groupBy(part).agg(F.min(_POSITION), F.count("*")).orderBy("part").collect():
            runs.append((self._numbered, row[1], row[2]))
            self._numbered += row[2]
        self._kept[place.number] = (place, kept, output, runs)
        return [(first, first + count) for first, _, count in runs]

    def _fails_on(self, ranges: Sequence[Range]) -> bool:
        shape = Row(*self._names)
        return bool(self._fails([shape(*row) for row in self._query(ranges).collect()]))

    def _leaf(self, number: int, ranges: Sequence[Range]) -> Plan:
        c = self._c
        _, kept, output, runs = self._kept[number]
        chosen = F.lit(False)
        for low, high in ranges:
            for first, position, count in runs:
                start, stop = max(low, first), min(high, first + count)
                if start < stop:
                    chosen = chosen | F.col(_POSITION).between(position + start - first, position + stop - 1 - first)
        return c.project(output, c.plan_of(kept.where(chosen)))

    def _query(self, ranges: Sequence[Range]) -> DataFrame:
        leaves = {place.leaf: place.number for place in self._whole.readings}

        def replace(node: Node) -> Plan | None:
            return self._leaf(leaves[node], ranges) if node in leaves else None

        plan = rebuild(self._c, self._whole.tree, replace)
        small = sum(count for *_, runs in self._kept.values() for *_, count in runs) <= SMALL
        return self._c.small_frame(plan) if small else self._c.frame(plan)

    def _rows_of(self, ranges: Sequence[Range]) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for name, places in self._question.names.items():
            rows: list[Row] = []
            for place in places:
                rows += self._c.frame(self._leaf(place.number, ranges)).collect()
            found[name] = list(dict.fromkeys(rows)) if len(places) > 1 else rows
        return found
