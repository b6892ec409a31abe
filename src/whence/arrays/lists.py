"""Many lists of numbers in two columns (what sparse matrices call CSR), and how sets are looked up in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import NONE, Numbers
from whence.arrays.columns import Column, Even, pack

SLICE = 1 << 19
"""How many numbers are looked at before the clock is: some milliseconds."""


@dataclass(frozen=True)
class Lists:
    """List k is values[starts[k] : starts[k + 1]]."""

    starts: Column
    values: Column

    @classmethod
    def single(cls, values: NDArray[np.int64]) -> Lists:
        """One number each."""
        return cls(Even(0, 1, len(values) + 1), pack(values))

    @classmethod
    def of(cls, lengths: NDArray[np.int64], values: NDArray[np.int64]) -> Lists:
        return cls(pack(starts_of(lengths)), pack(values))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def are_single(self) -> bool:
        starts = self.starts
        return isinstance(starts, Even) and starts.start == 0 and (starts.step == 1 or starts.length == 1)

    def lengths(self) -> Numbers:
        return np.diff(self.starts.all())

    def owners(self) -> Numbers:
        """For each value the list that it is in."""
        if self.are_single:
            return np.arange(len(self), dtype=np.int64)
        return np.repeat(np.arange(len(self), dtype=np.int64), self.lengths())

    def gather(self, lists: Numbers) -> Iterator[Numbers]:
        """The values of these lists, some at a time."""
        if self.are_single:
            for start in range(0, len(lists), SLICE):
                yield self.values.take(lists[start : start + SLICE])
            return
        for start in range(0, len(lists), SLICE):
            some = lists[start : start + SLICE]
            yield from _of_ranges(self.values, self.starts.take(some), self.starts.take(some + 1))

    def chosen(self, lists: Numbers) -> Lists:
        """These lists, in this order."""
        if self.are_single:
            return Lists.single(self.values.take(lists))
        starts = self.starts.take(lists)
        lengths = self.starts.take(lists + 1) - starts
        return Lists.of(lengths, self.values.take(spread(starts, lengths)))

    def having(self, wanted: Members) -> Iterator[Numbers]:
        """The lists with at least one of the wanted numbers, by looking through all; some may come twice."""
        for start in range(0, len(self.values), SLICE):
            places = np.flatnonzero(wanted.among(self.values.part(start, start + SLICE))) + start
            if self.are_single:
                yield places
            else:
                found = self.starts.find(places, "right") - 1
                yield found[np.diff(found, prepend=-1) != 0]


class Members:
    """A set of numbers below `size` that others are held against: by a bitmap, or sorted where that would be large."""

    def __init__(self, numbers: Numbers, size: int) -> None:
        self.numbers = numbers
        self._bits: NDArray[np.bool_] | None = None
        self._size = size

    def among(self, values: Numbers) -> NDArray[np.bool_]:
        if not len(self.numbers):
            return np.zeros(len(values), bool)
        if self._bits is None and self._size <= 1 << 27 and len(values) * 8 > self._size:
            self._bits = np.zeros(self._size, bool)
            self._bits[self.numbers] = True
        if self._bits is not None:
            return self._bits[values]
        places = np.searchsorted(self.numbers, values)
        places[places == len(self.numbers)] = 0
        found: NDArray[np.bool_] = self.numbers[places] == values
        return found


def starts_of(lengths: NDArray[np.int64]) -> Numbers:
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def spread(starts: Numbers, lengths: Numbers) -> Numbers:
    """start, start + 1, ... start + length - 1, for one pair after the other."""
    ends = lengths.cumsum()
    if not len(ends) or not ends[-1]:
        return NONE
    places = np.arange(ends[-1], dtype=np.int64)
    places += (starts - (ends - lengths)).repeat(lengths)
    return places


def _of_ranges(values: Column, starts: Numbers, stops: Numbers) -> Iterator[Numbers]:
    lengths = stops - starts
    sums = lengths.cumsum()
    if len(sums) and sums[-1] <= SLICE:
        yield values.take(spread(starts, lengths))
        return
    done = 0
    while done < len(lengths):
        before = int(sums[done - 1]) if done else 0
        upto = max(int(np.searchsorted(sums, before + SLICE, "right")), done + 1)
        yield values.take(spread(starts[done:upto], lengths[done:upto]))
        done = upto
