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
    """What is in `one` and not in `other`: a sweep over the places where either begins or ends."""
    if not len(other.first) or not len(one.first):
        return one
    places = np.concatenate([one.first, one.last + 1, other.first, other.last + 1])
    here = np.concatenate([np.ones(len(one.first)), -np.ones(len(one.first)), np.zeros(2 * len(other.first))])
    there = np.concatenate([np.zeros(2 * len(one.first)), np.ones(len(other.first)), -np.ones(len(other.first))])
    order = np.argsort(places, kind="stable")
    places = places[order]
    inside = (np.cumsum(here[order]) > 0) & (np.cumsum(there[order]) == 0)
    ends = np.append(places[1:], places[-1:])
    kept = inside & (ends > places)
    return _joined(places[kept], ends[kept] - 1)


def _joined(first: Numbers, last: Numbers) -> Intervals:
    if not len(first):
        return Intervals(first, last)
    order = np.argsort(first, kind="stable")
    first, last = first[order], np.maximum.accumulate(last[order])
    begins = np.append(True, first[1:] > last[:-1] + 1)
    ends = np.append(begins[1:], True)
    return Intervals(first[begins], last[ends])
