"""The smallest set of source rows on which a query still fails: delta debugging, over the witnesses only.

Plain delta debugging halves the whole input. The lineage of one failing output row holds all that can matter, and is
mostly a tiny part of it (as BigSift showed for Titian); it is taken once, and each test runs the query over a few of
those rows.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from whence.debug.attached import Attached
from whence.debug.trace import Trace
from whence.model import WhenceError
from whence.model.progress import working
from whence.sql import Node, ReadingPlace, SqlLineage, evaluation, rebuild
from whence.sql.catalyst import FEW_ROWS, Plan, class_name, id_of, to_list

_POSITION = "whence_position"
_ABOVE = ("Project", "Filter", "Sort", "SubqueryAlias", "View")  # an aggregate, without changing its groups
Fails = Callable[[list[Row]], bool]


MOST_TESTS = 2_000
MOST_SECONDS = 3_600.0


class DoesNotFail(WhenceError):
    pass


class _Stopped(Exception):
    pass


@dataclass(frozen=True)
class Minimal:
    """`sources`: rows of each source, all of which are needed for the failure (unless `stopped` says why that is not
    known)."""

    sources: Mapping[str, list[Row]]
    rows: list[Row]  # what the query gives on them
    witnesses: int  # how many rows the failing output came from
    tests: int  # how often the query was run to find them
    stopped: str = ""  # why the search ended before it was known that all of these rows are needed

    @property
    def size(self) -> int:
        return sum(len(rows) for rows in self.sources.values())


def minimize(
    session: Attached,
    df: DataFrame,
    fails: Fails,
    rows: list[Row] | None = None,
    *,
    tests: int = MOST_TESTS,
    seconds: float = MOST_SECONDS,
) -> Minimal:
    """`fails(rows)` says whether these result rows show the fault. `rows`: the result, where it is at hand already.

    After `tests` runs of the query or `seconds` the search ends with the smallest set of rows so far."""
    if not hasattr(df, "_jdf"):
        raise WhenceError(
            f"minimize takes a DataFrame, and this is a {type(df).__name__}. Of an RDD, trace the failing record to "
            "its sources (rdd.filter(...).getLineage().goBackAll().collect()) and make a DataFrame of them."
        )
    if tests < 1 or seconds <= 0:
        raise WhenceError(
            f"minimize needs at least one test and some time; it was given {tests} and {seconds} seconds."
        )
    rows = df.collect() if rows is None else rows
    if not fails(rows):
        raise DoesNotFail("fails(rows) is not true for the rows of this DataFrame, so there is nothing to minimise.")
    alone = next((row for row in rows if fails([row])), None)
    asked = df if alone is None else only_row(df, alone, _keys(df, alone, rows))
    return _Minimizing(session, df, asked, fails, tests, seconds).run()


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


Range = tuple[int, int]  # half open, among the witnesses of all readings put one after the other
# Up to this many witnesses, each test runs without what makes large queries fast and small ones slow.
_SMALL = 100_000
# Of more, tests are of small pieces: on average half of the rows are run until one fails, not one and a half times all.
_PIECES = 16


class _Minimizing:
    """The witnesses are those of `asked`; what is run on parts of them is `df` itself, since the asked row's own values
    change with them."""

    def __init__(
        self, session: Attached, df: DataFrame, asked: DataFrame, fails: Fails, most_tests: int, seconds: float
    ) -> None:
        self._fails = fails
        self._most_tests = most_tests
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._smallest: list[Range] | None = None  # that was seen to fail
        self._trace: Trace = session.backward(asked)
        self._lineage: SqlLineage = self._trace._lineage
        self._whole: SqlLineage = session.backward(df)._lineage
        self._c = self._lineage.c
        self._names = asked.columns
        # reading -> its place, its witnesses with their positions, its columns, [(first number, first position, count)]
        self._kept: dict[int, tuple[ReadingPlace, DataFrame, list[Any], list[tuple[int, int, int]]]] = {}
        self._numbered = 0  # witnesses that have a number
        self.tests = 0

    def run(self) -> Minimal:
        total = self._materialise()
        stopped = ""
        try:
            least = self._least()
            if _size(least) == total and not self._still_fails(least):
                raise DoesNotFail(
                    "On the witnesses alone the query does not fail; fails() must judge the rows themselves, not how "
                    "many there are."
                )
        except _Stopped as limit:
            everything = [(first, first + count) for *_, runs in self._kept.values() for first, _, count in runs]
            least = everything if self._smallest is None else self._smallest
            stopped = f"stopped after {limit}: {_size(least):,} rows are the fewest so far, and may not all be needed"
        return Minimal(self._rows_of(least), self._query(least).collect(), total, self.tests, stopped)

    def _least(self) -> list[Range]:
        """Reading by reading, the largest first: a join needs one row of each side, which one search over all sides
        together would take long to see. Again, as long as one reading's loss lets another lose more."""
        spans = {number: [(first, first + count) for first, _, count in kept[3]] for number, kept in self._kept.items()}
        shrunk = True
        while shrunk:
            shrunk = False
            for number in sorted(spans, key=lambda n: -_size(spans[n])):
                others = [r for other, ranges in spans.items() if other != number for r in ranges]
                before = spans[number]
                if _size(before):
                    fails = partial(self._fails_with, others)
                    spans[number] = [] if fails([]) else self._least_of(number, before, others, fails)
                    shrunk = shrunk or _size(before) > _size(spans[number])
            shrunk = shrunk and len(spans) > 1 and max(map(_size, spans.values())) > 1
        return [r for ranges in spans.values() for r in ranges]

    def _least_of(
        self, number: int, ranges: list[Range], others: list[Range], fails: Callable[[Sequence[Range]], bool]
    ) -> list[Range]:
        """Many witnesses are first cut down to few, which are then kept apart: a test reads all that is kept."""
        for enough in (_SMALL, FEW_ROWS):
            if _size(ranges) > enough:
                ranges = _ddmin(ranges, fails, enough)
                if 1 < _size(ranges) <= enough:
                    place, _, output, _ = self._kept[number]
                    ranges = self._keep(place, self._leaf(number, ranges), output)
                    self._smallest = [*others, *ranges]  # under their new numbers
        return _ddmin(ranges, fails)

    def _fails_with(self, others: list[Range], ranges: Sequence[Range]) -> bool:
        return self._still_fails([*others, *ranges])

    def _materialise(self) -> int:
        for place in self._lineage.readings:
            leaf = evaluation.leaf_rows(self._c, place, self._trace._ids_of([place]), "leftsemi")
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

    def _still_fails(self, ranges: Sequence[Range]) -> bool:
        if self.tests >= self._most_tests:
            raise _Stopped(f"{self.tests:,} tests")
        if time.monotonic() > self._end:
            raise _Stopped(f"{self._seconds:g} seconds and {self.tests:,} tests")
        self.tests += 1
        shape = Row(*self._names)
        with working(f"test {self.tests}: does it still fail on {_size(ranges):,} rows?"):
            failed = bool(self._fails([shape(*row) for row in self._query(ranges).collect()]))
        if failed and (self._smallest is None or _size(ranges) < _size(self._smallest)):
            self._smallest = list(ranges)
        return failed

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
        small = sum(count for *_, runs in self._kept.values() for *_, count in runs) <= _SMALL
        return self._c.small_frame(plan) if small else self._c.frame(plan)

    def _rows_of(self, ranges: Sequence[Range]) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for name, places in self._trace._names.items():
            rows: list[Row] = []
            for place in places:
                rows += self._c.frame(self._leaf(place.number, ranges)).collect()
            found[name] = list(dict.fromkeys(rows)) if len(places) > 1 else rows
        return found


def _size(ranges: Sequence[Range]) -> int:
    return sum(high - low for low, high in ranges)


def _cut(ranges: Sequence[Range], parts: int) -> list[list[Range]]:
    """As many pieces of about the same size, in order."""
    total = _size(ranges)
    bounds = [total * n // parts for n in range(parts + 1)]
    pieces: list[list[Range]] = []
    for start, stop in itertools.pairwise(bounds):
        piece, before = [], 0
        for low, high in ranges:
            first, last = max(start - before, 0), min(stop - before, high - low)
            if first < last:
                piece.append((low + first, low + last))
            before += high - low
        if piece:
            pieces.append(piece)
    return pieces


def _ddmin(ranges: list[Range], fails: Callable[[Sequence[Range]], bool], enough: int = 1) -> list[Range]:
    """Zeller and Hildebrandt's ddmin: nothing in the answer can be left out by itself, or it is as small as asked."""
    parts = _first_cut(ranges)
    while _size(ranges) > enough:
        parts = min(parts, _size(ranges))
        pieces = _cut(ranges, parts)
        smaller = next((piece for piece in pieces if fails(piece)), None)
        if smaller is not None:
            ranges, parts = smaller, _first_cut(smaller)
            continue
        left = _needed(pieces, fails) if parts > 2 else pieces
        if len(left) < len(pieces):
            ranges, parts = _all_of(left), max(len(left), 2)
        elif parts >= _size(ranges):
            break
        else:
            parts *= 2
    return ranges


def _first_cut(ranges: Sequence[Range]) -> int:
    return _PIECES if _size(ranges) > _SMALL else 2


def _needed(pieces: list[list[Range]], fails: Callable[[Sequence[Range]], bool]) -> list[list[Range]]:
    """The pieces that are left when, one after the other, each is dropped without which it still fails."""
    left = list(pieces)
    for piece in pieces:
        others = [other for other in left if other is not piece]
        if others and fails(_all_of(others)):
            left = others
    return left


def _all_of(pieces: Sequence[Sequence[Range]]) -> list[Range]:
    return [r for piece in pieces for r in piece]
