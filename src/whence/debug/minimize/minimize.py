"""The smallest set of source rows on which a query still fails: delta debugging, over the witnesses only.

Plain delta debugging halves the whole input. The lineage of one failing output row holds all that can matter, and is
mostly a tiny part of it (as BigSift showed for Titian); it is taken once, and each test runs the query over a few of
those rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyspark import RDD
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from whence.debug.attached import Attached
from whence.debug.minimize.abreast import Abreast
from whence.debug.minimize.ddmin import (
    MOST_SECONDS,
    MOST_TESTS,
    SMALL,
    DoesNotFail,
    Range,
    Search,
    Test,
    all_of,
    cut,
    ddmin,
    ddmin_together,
    joined,
    size,
)
from whence.debug.minimize.pieces import MOST_PIECES, MOST_ROWS, MOST_TOGETHER, PIECE, Run, Way, piece_of, tests_of
from whence.model import WhenceError
from whence.spark.catalyst import FEW_ROWS
from whence.spark.frames import of_partitions
from whence.spark.handles import execution_of
from whence.spark.sessions import is_frame
from whence.sql import Node, ReadingPlace, SqlLineage, found_rows, rebuild
from whence.sql.catalyst import Plan, class_name, id_of, to_list
from whence.sql.question import SqlQuestion

_POSITION = "whence_position"
# Bits of a position that number the rows of a partition; above them stands the partition's own number.
_IN_PARTITION = 33
# So few are tested one by one.
_FEW_PIECES = 4
# Tests that run side by side.
_MOST_ABREAST = 4
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
    if not callable(fails):
        raise WhenceError(f"fails is a function of result rows, not {fails!r}.")
    if rows is not None and not isinstance(rows, list | tuple):
        raise WhenceError(f"rows= are the result's rows as collect() gives them, not {rows!r}.")
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


class _CannotTell(Exception):
    """Tests cannot be made in one run."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some witnesses of a reading, with their positions, and how these are numbered."""

    frame: DataFrame
    runs: list[Run]
    kept: bool  # computed, not to be read from the source for every test

    @property
    def ranges(self) -> list[Range]:
        return [(first, first + count) for first, _, count in self.runs]


@dataclass(eq=False)
class _Reading:
    """The witnesses at a reading. As they become few they are computed again, under new numbers."""

    place: ReadingPlace
    leaf: Node  # of the whole query
    way: Way | None
    output: list[Any]
    rows: list[_Rows] = field(default_factory=list)

    def of(self, ranges: Sequence[Range]) -> tuple[_Rows, list[Range]]:
        """The rows that have these numbers, and which of the numbers are this reading's."""
        for rows in reversed(self.rows):
            low, high = (rows.ranges[0][0], rows.ranges[-1][1]) if rows.runs else (0, 0)
            if own := [r for r in ranges if low <= r[0] < high]:
                return rows, own
        return self.rows[-1], []


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
        self._readings: dict[int, _Reading] = {}
        self._numbered = 0  # witnesses that have a number
        self._failing: tuple[list[Range], list[Row]] = ([], [])  # what was last seen to fail, and what it gave
        self._told: dict[tuple[Range, ...], bool] = {}  # what was seen of many tests in one run
        self._abreast = Abreast(self._c, min(df.sparkSession.sparkContext.defaultParallelism, _MOST_ABREAST))

    def run(self) -> Minimal:
        with self._c.quietly(), self._abreast:
            for place in self._lineage.readings:
                self._find(place)
            spans = {number: reading.rows[-1].ranges for number, reading in self._readings.items()}
            total = sum(map(size, spans.values()))
            least, stopped = self._search.run(self._fails_on, spans, self._cut, self._known)
            return Minimal(self._rows_of(least), self._result_on(least), total, self._search.tests, stopped)

    # The witnesses

    def _find(self, place: ReadingPlace) -> None:
        (leaf,) = [other.leaf for other in self._whole.readings if other.number == place.number]
        plan = self._question.witness_rows(place)
        if plan is None:
            plan = found_rows.leaf_rows(self._c, place, self._question.ids_of([place]), "leftsemi")
        reading = _Reading(place, leaf, Way.to(self._whole.tree, leaf), self._c.output(plan))
        self._readings[place.number] = reading
        # To choose among the rows of a source again costs less than to keep them, where a few of them will do.
        keep = reading.way is None or self._question.direct(place) is None
        ranges = self._number(reading, plan, keep)
        if not keep and size(ranges) <= FEW_ROWS:
            self._keep(reading, ranges)

    def _number(self, reading: _Reading, plan: Plan, keep: bool) -> list[Range]:
        """Number the rows of a reading, from the next number on."""
        c = self._c
        plan = c.with_position(plan, c.alias(c.position(), _POSITION))
        frame = c.frame(c.keep(plan).plan if keep else plan)
        # Spark numbers the rows of a partition in sequence, so that counts tell all positions
        part = F.shiftright(F.col(_POSITION), _IN_PARTITION).alias("part")
        runs: list[Run] = []
        for row in frame.groupBy(part).agg(F.min(_POSITION), F.count("*")).orderBy("part").collect():
            runs.append((self._numbered, row[1], row[2]))
            self._numbered += row[2]
        reading.rows.append(_Rows(frame, runs, keep))
        return reading.rows[-1].ranges

    def _keep(self, reading: _Reading, ranges: Sequence[Range]) -> list[Range]:
        """Compute these rows and keep them, under new numbers."""
        plan = self._fetched(reading, ranges)
        return self._number(reading, self._leaf(reading, ranges) if plan is None else plan, True)

    def _fetched(self, reading: _Reading, ranges: Sequence[Range]) -> Plan | None:
        """Few rows of a source, read from the partitions alone that hold them; None where that is not to be had."""
        c = self._c
        rows, own = reading.of(ranges)
        if rows.kept or size(own) > FEW_ROWS:
            return None
        held = {
            position >> _IN_PARTITION
            for first, position, count in rows.runs
            if any(low < first + count and first < high for low, high in own)
        }
        frame, found = of_partitions(c.frame(self._leaf(reading, ranges)), sorted(held))
        if found != size(own):
            return None
        columns = zip(c.output(c.plan_of(frame)), reading.output, strict=True)
        return c.project([c.alias_as(new, old) for new, old in columns], c.plan_of(frame))

    # The search

    def _cut(self, number: int, ranges: list[Range], others: list[Range], fails: Test) -> list[Range]:
        """Many witnesses are first cut down to few, which are then kept apart: a test reads all that is kept."""
        reading = self._readings[number]
        if size(ranges) <= FEW_ROWS:
            return self._fewest(reading, ranges, others, fails)
        least = self._in_one_piece(reading, ranges, others, fails)
        if least is not None:
            return least
        if not reading.of(ranges)[0].kept:
            ranges = self._keep(reading, ranges)
        for enough in (SMALL, FEW_ROWS):
            if size(ranges) > enough:
                ranges = ddmin(ranges, fails, enough, self._abreast.of(self._begin, others))
                if 1 < size(ranges) <= enough:
                    ranges = self._keep(reading, ranges)
        return self._fewest(reading, ranges, others, fails)

    def _in_one_piece(
        self, reading: _Reading, ranges: list[Range], others: list[Range], fails: Test
    ) -> list[Range] | None:
        """What is needed of the first small piece that fails by itself, found by one job over all; None where there is
        no such piece."""
        pieces = cut(ranges, min(-(-size(ranges) // FEW_ROWS), MOST_PIECES))
        rows, own = reading.of(ranges)
        piece_number = piece_of(_POSITION, rows.runs, own, len(pieces))
        if len(pieces) < _FEW_PIECES or reading.way is None or piece_number is None:
            return None
        told = f"does it still fail on any of {len(pieces):,} pieces of {size(ranges):,} rows?"
        try:
            found = self._together(reading, ranges, others, piece_number, told)
        except _CannotTell:
            return None
        piece = next((pieces[n] for n in sorted(found) if self._fails(found[n])), None)
        if piece is None:
            return None
        ranges = self._keep(reading, piece)
        if size(ranges) > FEW_ROWS:
            return self._cut(reading.place.number, ranges, others, fails) if fails(ranges) else None
        alone = self._alone(reading, ranges, others, fails)
        if alone is None and not fails(ranges):
            return None
        return alone or self._fewest(reading, ranges, others, fails)

    def _fewest(self, reading: _Reading, ranges: list[Range], others: list[Range], fails: Test) -> list[Range]:
        """Of few rows."""
        if size(ranges) > 1 and reading.way is not None:
            try:
                alone = self._alone(reading, ranges, others, fails)
                return alone or ddmin_together(ranges, fails, partial(self._each, reading, others, fails))
            except _CannotTell:
                pass
        return ddmin(ranges, fails, ahead=self._abreast.of(self._begin, others))

    def _alone(self, reading: _Reading, ranges: list[Range], others: list[Range], fails: Test) -> list[Range] | None:
        """The first row that fails by itself."""
        rows = cut(ranges, size(ranges))
        found = zip(rows, self._each(reading, others, fails, rows), strict=True)
        return next((row for row, failed in found if failed and fails(row)), None)

    def _each(
        self, reading: _Reading, others: list[Range], fails: Test, subsets: Sequence[Sequence[Range]]
    ) -> list[bool]:
        """Which of these parts of few rows fail, as many as possible tested in one run."""
        keys = [joined([*others, *subset]) for subset in subsets]
        unknown = [n for n, key in enumerate(keys) if key not in self._told]
        while unknown:
            several = 1
            while several < len(unknown) and sum(size(subsets[n]) for n in unknown[: several + 1]) <= MOST_TOGETHER:
                several += 1
            some, unknown = unknown[:several], unknown[several:]
            ranges = joined(all_of([subsets[n] for n in some]))
            rows, own = reading.of(ranges)
            column = tests_of(_POSITION, rows.runs, own, [subsets[n] for n in some])
            told = f"on which of {len(some):,} parts of {size(ranges):,} rows does it still fail?"
            found = self._together(reading, ranges, others, column, told)
            for test, n in enumerate(some):
                nothing = test not in found and reading.way is not None and reading.way.one_group
                self._told[keys[n]] = fails([]) if nothing else bool(self._fails(found.get(test, [])))
        return [self._told[key] for key in keys]

    def _together(
        self, reading: _Reading, ranges: Sequence[Range], others: list[Range], test: Column, told: str
    ) -> dict[int, list[Row]]:
        """What the query gives on each of many parts of these rows, in one run. `test` tells the part."""
        c = self._c
        assert reading.way is not None
        rows = c.plan_of(self._chosen(reading, ranges).withColumn(PIECE, test))
        number = c.output(rows)[-1]
        rows = c.project([*reading.output, number], rows)
        plan = reading.way.plan(c, rows, number, self._exchange([*others, *ranges]))
        frame = c.small_frame(plan) if size(ranges) + size(others) <= SMALL else c.frame(plan)
        with self._search.test(told):
            try:
                answer = frame.limit(MOST_ROWS + 1).collect()
            except PySparkException as error:  # the query breaks on some part: they are tested one by one
                raise _CannotTell from error
        if len(answer) > MOST_ROWS:
            raise _CannotTell
        shape = Row(*self._names)
        found: dict[int, list[Row]] = {}
        for row in answer:
            found.setdefault(row[-1], []).append(shape(*row[:-1]))
        return found

    # One test

    def _known(self, ranges: Sequence[Range]) -> bool | None:
        """Where nothing is left of a reading, and of nothing the query gives nothing."""
        for reading in self._readings.values():
            if reading.way is not None and not reading.way.one_group and not reading.of(ranges)[1]:
                return bool(self._fails([]))
        return None

    def _begin(self, others: list[Range], ranges: Sequence[Range]) -> tuple[tuple[Range, ...], DataFrame] | None:
        """The query of a test that is not made yet, small enough to run beside others."""
        every = [*others, *ranges]
        if size(every) > SMALL or not self._search.unseen([every]) or self._known(every) is not None:
            return None
        return joined(every), self._query(every)

    def _fails_on(self, ranges: Sequence[Range]) -> bool:
        rows = self._abreast.rows(joined(ranges))
        rows = self._query(ranges).collect() if rows is None else rows
        shape = Row(*self._names)
        failed = bool(self._fails([shape(*row) for row in rows]))
        if failed:
            self._failing = sorted(ranges), rows
        return failed

    def _result_on(self, ranges: Sequence[Range]) -> list[Row]:
        """What the query gives on these, which mostly was the last to fail."""
        known, rows = self._failing
        return rows if known == sorted(ranges) else self._query(ranges).collect()

    def _leaf(self, reading: _Reading, ranges: Sequence[Range]) -> Plan:
        return self._c.project(reading.output, self._c.plan_of(self._chosen(reading, ranges)))

    def _chosen(self, reading: _Reading, ranges: Sequence[Range]) -> DataFrame:
        rows, own = reading.of(ranges)
        chosen = F.lit(False)
        for low, high in joined(own):
            for first, position, count in rows.runs:
                start, stop = max(low, first), min(high, first + count)
                if start < stop:
                    chosen = chosen | F.col(_POSITION).between(position + start - first, position + stop - 1 - first)
        return rows.frame.where(chosen)

    def _exchange(self, ranges: Sequence[Range]) -> Callable[[Node], Plan | None]:
        leaves = {reading.leaf: reading for reading in self._readings.values()}
        return lambda node: self._leaf(leaves[node], ranges) if node in leaves else None

    def _query(self, ranges: Sequence[Range]) -> DataFrame:
        plan = rebuild(self._c, self._whole.tree, self._exchange(ranges))
        every = sum(size(reading.of(ranges)[0].ranges) for reading in self._readings.values())
        return self._c.small_frame(plan) if every <= SMALL else self._c.frame(plan)

    def _rows_of(self, ranges: Sequence[Range]) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for name, places in self._question.names.items():
            rows: list[Row] = []
            for place in places:
                rows += self._c.frame(self._leaf(self._readings[place.number], ranges)).collect()
            found[name] = list(dict.fromkeys(rows)) if len(places) > 1 else rows
        return found
