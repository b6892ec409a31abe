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
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from whence.debug.attached import Attached
from whence.debug.minimize.ddmin import (
    MOST_SECONDS,
    MOST_TESTS,
    SMALL,
    DoesNotFail,
    Range,
    Search,
    Test,
    cut,
    ddmin,
    size,
)
from whence.debug.minimize.pieces import MOST_PIECES, MOST_ROWS, PIECE, by_piece, piece_of
from whence.model import WhenceError
from whence.spark.catalyst import FEW_ROWS
from whence.spark.handles import execution_of
from whence.spark.sessions import is_frame
from whence.sql import Node, ReadingPlace, SqlLineage, evaluation, rebuild
from whence.sql.catalyst import Plan, class_name, id_of, to_list
from whence.sql.question import SqlQuestion

_POSITION = "whence_position"
# So few are tested one by one.
_FEW_PIECES = 4
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
    if not is_frame(asked):
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
    plan = execution_of(df).analyzed()
    while class_name(plan) != "Aggregate":
        if class_name(plan) not in _ABOVE:
            return None
        plan = plan.child()
    by = {id_of(e) for e in to_list(plan.groupingExpressions()) if class_name(e) == "AttributeReference"}
    output = to_list(execution_of(df).analyzed().output())
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
        self._failing: tuple[list[Range], list[Row]] = ([], [])  # what was last seen to fail, and what it gave

    def run(self) -> Minimal:
        total = self._materialise()
        spans = {number: [(first, first + count) for first, _, count in kept[3]] for number, kept in self._kept.items()}
        least, stopped = self._search.run(self._fails_on, spans, self._cut)
        return Minimal(self._rows_of(least), self._result_on(least), total, self._search.tests, stopped)

    def _cut(self, number: int, ranges: list[Range], others: list[Range], fails: Test) -> list[Range]:
        """Many witnesses are first cut down to few, which are then kept apart: a test reads all that is kept."""
        for enough in (SMALL, FEW_ROWS):
            if size(ranges) > enough:
                ranges = self._one_piece(number, ranges, others, fails)
                ranges = ddmin(ranges, fails, enough)
                if 1 < size(ranges) <= enough:
                    place, _, output, _ = self._kept[number]
                    ranges = self._keep(place, self._leaf(number, ranges), output)
                    self._search.smallest = [*others, *ranges]  # under their new numbers
        return ddmin(self._one_piece(number, ranges, others, fails), fails)

    def _one_piece(self, number: int, ranges: list[Range], others: list[Range], fails: Test) -> list[Range]:
        """A small piece that fails by itself, found by one job over all; the same ranges where there is none."""
        parts = min(max(-(-size(ranges) // FEW_ROWS), min(size(ranges), FEW_ROWS)), MOST_PIECES)
        pieces = cut(ranges, parts)
        if len(pieces) < _FEW_PIECES:
            return ranges
        frame = self._by_piece(number, ranges, others, len(pieces))
        if frame is None:
            return ranges
        with self._search.test(f"does it still fail on any of {len(pieces):,} pieces of {size(ranges):,} rows?"):
            try:
                rows = frame.limit(MOST_ROWS + 1).collect()
            except PySparkException:  # the query breaks on some piece: they are tested one by one
                return ranges
        if len(rows) > MOST_ROWS:
            return ranges
        shape = Row(*self._names)
        found: dict[int, list[Row]] = {}
        for row in rows:
            found.setdefault(row[-1], []).append(shape(*row[:-1]))
        piece = next((pieces[n] for n in sorted(found) if self._fails(found[n])), None)
        return piece if piece is not None and fails(piece) else ranges

    def _by_piece(self, number: int, ranges: list[Range], others: list[Range], parts: int) -> DataFrame | None:
        c = self._c
        _, _, output, runs = self._kept[number]
        piece = piece_of(_POSITION, runs, ranges, parts)
        (leaf,) = [place.leaf for place in self._whole.readings if place.number == number]
        if piece is None:
            return None
        rows = c.plan_of(self._chosen(number, ranges).withColumn(PIECE, piece))
        told = c.output(rows)[-1]
        exchange = self._exchange([*others, *ranges])
        plan = by_piece(c, self._whole.tree, leaf, c.project([*output, told], rows), told, exchange)
        if plan is None:
            return None
        return c.small_frame(plan) if size(ranges) + size(others) <= SMALL else c.frame(plan)

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
        rows = self._query(ranges).collect()
        shape = Row(*self._names)
        failed = bool(self._fails([shape(*row) for row in rows]))
        if failed:
            self._failing = sorted(ranges), rows
        return failed

    def _result_on(self, ranges: Sequence[Range]) -> list[Row]:
        """What the query gives on these, which mostly was the last to fail."""
        known, rows = self._failing
        return rows if known == sorted(ranges) else self._query(ranges).collect()

    def _leaf(self, number: int, ranges: Sequence[Range]) -> Plan:
        return self._c.project(self._kept[number][2], self._c.plan_of(self._chosen(number, ranges)))

    def _chosen(self, number: int, ranges: Sequence[Range]) -> DataFrame:
        _, kept, _, runs = self._kept[number]
        chosen = F.lit(False)
        for low, high in ranges:
            for first, position, count in runs:
                start, stop = max(low, first), min(high, first + count)
                if start < stop:
                    chosen = chosen | F.col(_POSITION).between(position + start - first, position + stop - 1 - first)
        return kept.where(chosen)

    def _exchange(self, ranges: Sequence[Range]) -> Callable[[Node], Plan | None]:
        leaves = {place.leaf: place.number for place in self._whole.readings}
        return lambda node: self._leaf(leaves[node], ranges) if node in leaves else None

    def _query(self, ranges: Sequence[Range]) -> DataFrame:
        plan = rebuild(self._c, self._whole.tree, self._exchange(ranges))
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
