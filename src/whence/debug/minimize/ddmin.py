"""Delta debugging under limits: the smallest part of numbered records on which something still fails."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from whence.model import WhenceError
from whence.progress import working

MOST_TESTS = 2_000
MOST_SECONDS = 3_600.0

Range = tuple[int, int]  # half open, among the records of all readings put one after the other
# Up to this many witnesses, each test runs without what makes large queries fast and small ones slow.
SMALL = 100_000
# Of more, tests are of small pieces: on average half of the rows are run until one fails, not one and a half times all.
_PIECES = 16
# Into so many pieces rows are cut that are tested together, and so many times as many where all of them are needed.
_TOGETHER = 16
_FINER = 4


class DoesNotFail(WhenceError):
    pass


class _Stopped(Exception):
    pass


Test = Callable[[Sequence[Range]], bool]
# Of each of these sets, whether it fails, found in one run.
Each = Callable[[Sequence[Sequence[Range]]], list[bool]]
# Begins tests that are likely to be asked for next, side by side.
Ahead = Callable[[Sequence[Sequence[Range]]], None]
Cut = Callable[[int, list[Range], list[Range], Test], list[Range]]


class Search:
    """How many tests there may be, and what was seen to fail."""

    def __init__(self, tests: int, seconds: float) -> None:
        if tests < 1 or seconds <= 0:
            raise WhenceError(
                f"minimize needs at least one test and some time; it was given {tests} and {seconds} seconds."
            )
        self._most_tests = tests
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self.smallest: list[Range] | None = None  # that was seen to fail
        self._seen: dict[tuple[Range, ...], bool] = {}  # each set of records is tested once
        self.tests = 0
        self._known: Callable[[Sequence[Range]], bool | None] = lambda ranges: None

    def run(
        self,
        fails: Test,
        spans: Mapping[int, list[Range]],
        cut: Cut | None = None,
        known: Callable[[Sequence[Range]], bool | None] | None = None,
    ) -> tuple[list[Range], str]:
        """The records that are left of all readings, and why the search ended early. `fails` runs the program on some
        records and judges what it gives; `known` judges without a run, where it can; `cut` searches one reading."""
        self._fails = fails
        self._known = known or self._known
        everything = [r for ranges in spans.values() for r in ranges]
        try:
            least = self._least(dict(spans), cut or self._cut)
            if size(least) == size(everything) and not self._still_fails(least):
                raise DoesNotFail(
                    "On the witnesses alone the query does not fail; fails() must judge the rows themselves, not how "
                    "many there are."
                )
        except _Stopped as limit:
            least = everything if self.smallest is None else self.smallest
            told = f"stopped after {limit}: {size(least):,} rows are the fewest so far, and may not all be needed"
            return least, told
        return least, ""

    def _least(self, spans: dict[int, list[Range]], cut: Cut) -> list[Range]:
        """Reading by reading, the largest first: a join needs one row of each side, which one search over all sides
        together would take long to see. Again, as long as one reading's loss lets another lose more."""
        shrunk = True
        while shrunk:
            shrunk = False
            for number in sorted(spans, key=lambda n: -size(spans[n])):
                others = [r for other, ranges in spans.items() if other != number for r in ranges]
                before = spans[number]
                if size(before):
                    fails = partial(self._fails_with, others)
                    spans[number] = [] if fails([]) else cut(number, before, others, fails)
                    shrunk = shrunk or size(before) > size(spans[number])
            shrunk = shrunk and len(spans) > 1 and max(map(size, spans.values())) > 1
        return [r for ranges in spans.values() for r in ranges]

    def _cut(self, number: int, ranges: list[Range], others: list[Range], fails: Test) -> list[Range]:
        return ddmin(ranges, fails)

    def _fails_with(self, others: list[Range], ranges: Sequence[Range]) -> bool:
        return self._still_fails([*others, *ranges])

    def _still_fails(self, ranges: Sequence[Range]) -> bool:
        key = joined(ranges)
        if key not in self._seen:
            known = self._known(ranges)
            self._seen[key] = self._test(ranges) if known is None else known
        return self._seen[key]

    def unseen(self, sets: Sequence[Sequence[Range]]) -> list[Sequence[Range]]:
        """Those that were not tested yet."""
        return [ranges for ranges in sets if joined(ranges) not in self._seen]

    @contextmanager
    def test(self, what: str) -> Iterator[None]:
        """One run of the program, within the limits."""
        if self.tests >= self._most_tests:
            raise _Stopped(f"{self.tests:,} tests")
        if time.monotonic() > self._end:
            raise _Stopped(f"{self._seconds:g} seconds and {self.tests:,} tests")
        self.tests += 1
        with working(f"test {self.tests}: {what}"):
            yield

    def _test(self, ranges: Sequence[Range]) -> bool:
        with self.test(f"does it still fail on {size(ranges):,} rows?"):
            failed = self._fails(ranges)
        if failed and (self.smallest is None or size(ranges) < size(self.smallest)):
            self.smallest = list(ranges)
        return failed


def joined(ranges: Sequence[Range]) -> tuple[Range, ...]:
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and found[-1][1] == low:
            found[-1] = found[-1][0], high
        else:
            found.append((low, high))
    return tuple(found)


def size(ranges: Sequence[Range]) -> int:
    return sum(high - low for low, high in ranges)


def cut(ranges: Sequence[Range], parts: int) -> list[list[Range]]:
    """As many pieces of about the same size, in order."""
    total = size(ranges)
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


def ddmin(ranges: list[Range], fails: Test, enough: int = 1, ahead: Ahead = lambda sets: None) -> list[Range]:
    """Zeller and Hildebrandt's ddmin: nothing in the answer can be left out by itself, or it is as small as asked."""
    parts = _first_cut(ranges)
    while size(ranges) > enough:
        parts = min(parts, size(ranges))
        pieces = cut(ranges, parts)
        smaller = next((piece for piece in _begun(pieces, ahead) if fails(piece)), None)
        if smaller is not None:
            ranges, parts = smaller, _first_cut(smaller)
            continue
        left = _needed(pieces, fails, ahead) if parts > 2 else pieces
        if len(left) < len(pieces):
            ranges, parts = all_of(left), max(len(left), 2)
        elif parts >= size(ranges):
            break
        else:
            parts *= 2
    return ranges


def ddmin_together(ranges: list[Range], fails: Test, each: Each) -> list[Range]:
    """The same, with all tests of one round made in one run; what fails there is tried alone."""
    parts = _TOGETHER
    while size(ranges) > 1:
        parts = min(parts, size(ranges))
        pieces = cut(ranges, parts)
        without = [all_of(_but(pieces, [n])) for n in range(len(pieces))] if parts > 2 else []
        found = each([*pieces, *without])
        piece = next((piece for piece, failed in zip(pieces, found, strict=False) if failed and fails(piece)), None)
        if piece is not None:
            ranges, parts = piece, _TOGETHER
            continue
        spare = [n for n, failed in enumerate(found[len(pieces) :]) if failed]
        left = _dropped(pieces, spare, fails, each) if spare else None
        if left is not None:
            ranges, parts = left, _TOGETHER
        elif spare:  # what is seen of many tests in one run does not hold alone
            return ddmin(ranges, fails)
        elif parts >= size(ranges):
            break
        else:
            parts *= _FINER
    return ranges


def _dropped(pieces: list[list[Range]], spare: Sequence[int], fails: Test, each: Each) -> list[Range] | None:
    """Without as many as possible of the pieces that can be left out one by one; None where none can."""
    rest = all_of(_but(pieces, spare))
    if rest and fails(rest):
        return rest
    fewer = [all_of(_but(pieces, spare[: n + 1])) for n in range(len(spare))]
    likely = [some for some, failed in zip(fewer, each(fewer), strict=True) if some and failed]
    return next((some for some in reversed(likely) if fails(some)), None)


def _but(pieces: Sequence[list[Range]], dropped: Sequence[int]) -> list[list[Range]]:
    return [piece for n, piece in enumerate(pieces) if n not in dropped]


def _begun(sets: Sequence[list[Range]], ahead: Ahead) -> Iterator[list[Range]]:
    for n, some in enumerate(sets):
        ahead(sets[n:])
        yield some


def _first_cut(ranges: Sequence[Range]) -> int:
    return _PIECES if size(ranges) > SMALL else 2


def _needed(pieces: list[list[Range]], fails: Test, ahead: Ahead) -> list[list[Range]]:
    """The pieces that are left when, one after the other, each is dropped without which it still fails."""
    left = list(pieces)
    for n, piece in enumerate(pieces):
        others = [other for other in left if other is not piece]
        ahead([all_of([other for other in left if other is not some]) for some in pieces[n:]])
        if others and fails(all_of(others)):
            left = others
    return left


def all_of(pieces: Sequence[Sequence[Range]]) -> list[Range]:
    return [r for piece in pieces for r in piece]
