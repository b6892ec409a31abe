"""minimize for RDDs: the program is run again, as plain PySpark would, on some of the records of its sources."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from pyspark import RDD

from whence.debug.attached import Attached
from whence.debug.guard.plain_rdd import PlainProgram
from whence.debug.minimize.ddmin import DoesNotFail, Range, Search, Test, ddmin, size
from whence.debug.minimize.minimize import Minimal
from whence.rdd import LineageRDD, Program

_ON_DRIVER = 200_000  # records; of more, each test reads the sources


def minimize_rdd(
    session: Attached,
    rdd: RDD[Any],
    fails: Callable[[list[Any]], bool],
    rows: list[Any] | None,
    tests: int,
    seconds: float,
) -> Minimal:
    search = Search(tests, seconds)
    rows = rdd.collect() if rows is None else rows
    if not fails(rows):
        raise DoesNotFail("fails(records) is not true for the records of this RDD, so there is nothing to minimise.")
    alone = next((n for n, row in enumerate(rows) if fails([row])), None)
    program = Program(rdd) if isinstance(rdd, LineageRDD) else PlainProgram(session.context, rdd)
    return _Minimizing(program, alone, fails, search).run()


class _Minimizing:
    def __init__(self, program: Program, alone: int | None, fails: Callable[[list[Any]], bool], search: Search) -> None:
        self._program = program
        self._fails = fails
        self._search = search
        self._places = list(program.witnesses(alone).items())
        self._starts = np.cumsum([0, *(len(positions) for _, positions in self._places)]).tolist()
        self._records: dict[int, Any] = {}  # by number, once they are few
        self._broken: dict[str, int] = {}

    def run(self) -> Minimal:
        spans: dict[int, list[Range]] = {}
        for (place, positions), start in zip(self._places, self._starts, strict=False):
            spans.setdefault(place.stage, []).append((start, start + len(positions)))
        if self._starts[-1] <= _ON_DRIVER:
            self._fetch([r for ranges in spans.values() for r in ranges])
        try:
            least, stopped = self._search.run(self._fails_on, spans, self._cut)
        except DoesNotFail as error:
            raise DoesNotFail("\n".join([str(error), *self._notes()])) from None
        self._fetch(least)
        sources: dict[str, list[Any]] = {self._program.name(place): [] for place, _ in self._places}
        places: dict[str, list[str]] = {name: [] for name in sources}
        for place, positions, numbers in self._chosen(least):
            name = self._program.name(place)
            sources[name] += [self._records[n] for some in numbers for n in some]
            places[name] += [self._program.where(place, position) for position in positions.tolist()]
        rows = self._rows(least)
        return Minimal(sources, rows, self._starts[-1], self._search.tests, stopped, places, self._notes())

    def _notes(self) -> tuple[str, ...]:
        many = self._broken.items()
        return tuple(f"{count} tests ended in an error and count as not failing: {said}" for said, count in many)

    def _cut(self, number: int, ranges: list[Range], others: list[Range], fails: Test) -> list[Range]:
        if size(ranges) + size(others) > _ON_DRIVER and size(others) < _ON_DRIVER:
            ranges = ddmin(ranges, fails, _ON_DRIVER - size(others))
            if size(ranges) + size(others) <= _ON_DRIVER:
                self._fetch([*others, *ranges])
        return ddmin(ranges, fails)

    def _fetch(self, ranges: Sequence[Range]) -> None:
        for place, positions, numbers in self._chosen(ranges):
            if not self._known(numbers):
                every = itertools.chain.from_iterable(numbers)
                self._records.update(zip(every, self._program.records(place, positions), strict=True))

    def _known(self, numbers: Iterable[range]) -> bool:
        return all(n in self._records for some in numbers for n in some)

    def _chosen(self, ranges: Sequence[Range]) -> list[tuple[Any, Any, list[range]]]:
        """Of each place: the positions there, and the numbers that they have."""
        found = []
        for (place, positions), start in zip(self._places, self._starts, strict=False):
            stop = start + len(positions)
            inside = [(max(low, start), min(high, stop)) for low, high in sorted(ranges)]
            numbers = [range(low, high) for low, high in inside if low < high]
            if numbers:
                chosen = np.concatenate([positions[n.start - start : n.stop - start] for n in numbers])
                found.append((place, chosen, numbers))
        return found

    def _rows(self, ranges: Sequence[Range]) -> list[Any]:
        chosen = self._chosen(ranges)
        records = None
        if all(self._known(numbers) for *_, numbers in chosen):
            records = {place: [self._records[n] for some in numbers for n in some] for place, _, numbers in chosen}
        return self._program.run({place: positions for place, positions, _ in chosen}, records)

    def _fails_on(self, ranges: Sequence[Range]) -> bool:
        try:
            rows = self._rows(ranges)
        except Exception as error:  # of the program, which may not be made for so few records
            said = _said(error)
            self._broken[said] = self._broken.get(said, 0) + 1
            return False
        return bool(self._fails(rows))


def _said(error: Exception) -> str:
    """The last line of the Python traceback that a worker sent, or of the error."""
    lines = str(error).splitlines() or [type(error).__name__]
    starts = [n for n, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    after = [line for line in lines[starts[-1] + 1 :] if line and not line[0].isspace()] if starts else lines
    return after[0]
