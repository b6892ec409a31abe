"""Sets of versions of many datasets at once: sorted, disjoint ranges on one line of whole numbers.

Version v of dataset d stands at `d << 32 | v`, so ranges of two datasets never touch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
_SHIFT = 32
_VERSION = (1 << _SHIFT) - 1


class Intervals(NamedTuple):
    """Both ends are in the range."""

    first: Numbers
    last: Numbers

    @property
    def datasets(self) -> Numbers:
        return self.first >> _SHIFT

    @property
    def low(self) -> Numbers:
        return self.first & _VERSION

    @property
    def high(self) -> Numbers:
        return self.last & _VERSION


def intervals(datasets: Numbers, low: Numbers, high: Numbers) -> Intervals:
    """Given in any order, with or without overlap."""
    base = datasets.astype(np.int64) << _SHIFT
    return _joined(base | low.astype(np.int64), base | high.astype(np.int64))


def union(one: Intervals, other: Intervals) -> Intervals:
    return _joined(np.concatenate([one.first, other.first]), np.concatenate([one.last, other.last]))


def difference(one: Intervals, other: Intervals) -> Intervals:
    """What is in `one` and not in `other`."""
    if not len(other.first) or not len(one.first):
        return one
    nearest = np.searchsorted(other.first, one.last, side="right") - 1  # the last of `other` that begins before the end
    begins, ends = other.first[nearest], other.last[nearest]
    apart = (nearest < 0) | (ends < one.first)
    covered = ~apart & (begins <= one.first) & (ends >= one.last)
    partly = ~(apart | covered)
    kept = Intervals(one.first[apart], one.last[apart])
    if not partly.any():
        return kept
    return union(kept, _swept(Intervals(one.first[partly], one.last[partly]), other))


def _swept(one: Intervals, other: Intervals) -> Intervals:
    """The difference by a sweep over the places where either begins or ends."""
    places = np.concatenate([one.first, one.last + 1, other.first, other.last + 1])
    here = np.concatenate([np.ones(len(one.first)), -np.ones(len(one.first)), np.zeros(2 * len(other.first))])
    there = np.concatenate([np.zeros(2 * len(one.first)), np.ones(len(other.first)), -np.ones(len(other.first))])
    order = np.argsort(places, kind="stable")
    places = places[order]
    inside = (np.cumsum(here[order]) > 0) & (np.cumsum(there[order]) == 0)
    ends = np.append(places[1:], places[-1:])
    kept = inside & (ends > places)
    return _joined(places[kept], ends[kept] - 1)


def changes(ordered: Numbers) -> NDArray[np.bool_]:
    """Where a value differs from the one before it; the first does."""
    found = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=found[1:])
    return found


def _joined(first: Numbers, last: Numbers) -> Intervals:
    if not len(first):
        return Intervals(first, last)
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order])
    marks = np.ones(len(first) + 1, dtype=bool)  # where a range begins, and where the one before ends
    np.greater(first[1:], last[:-1] + 1, out=marks[1:-1])
    return Intervals(first[marks[:-1]], last[marks[1:]])
