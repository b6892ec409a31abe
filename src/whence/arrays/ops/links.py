"""How the coordinates along one axis of an input follow from those along one axis of the output, and back.

A link answers with spans: for each coordinate asked, where its answer starts, how many there are, and what is counted:
`items` that the span runs over, or None where the span itself is the answer (start, start + 1, ...)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Spans(NamedTuple):
    starts: Ints
    counts: Ints
    items: Ints | None = None


class Link(Protocol):
    @property
    def inputs(self) -> int: ...

    @property
    def outputs(self) -> int: ...

    def back(self, at: Ints) -> Spans: ...

    def forth(self, at: Ints) -> Spans: ...


def within(at: Ints, length: int) -> Ints:
    return ((at >= 0) & (at < length)).astype(np.int64)


def clipped(low: Ints, high: Ints, length: int) -> Spans:
    low = np.maximum(low, 0)
    return Spans(low, np.maximum(np.minimum(high, length) - low, 0))


def spread(starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Every span written out: the number of the span, and its coordinate."""
    rows = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return rows, np.arange(len(rows)) - np.repeat(before - starts, counts)


@dataclass(frozen=True)
class Affine:
    """input = step * output + offset, where that is within the input."""

    inputs: int
    outputs: int
    step: int = 1
    offset: int = 0

    def back(self, at: Ints) -> Spans:
        there = at * self.step + self.offset
        return Spans(there, within(there, self.inputs))

    def forth(self, at: Ints) -> Spans:
        there, rest = np.divmod(at - self.offset, self.step)
        return Spans(there, within(there, self.outputs) * (rest == 0))


@dataclass(frozen=True)
class Wrapped:
    """Moved on by `shift` around a circle."""

    length: int
    shift: int

    @property
    def inputs(self) -> int:
        return self.length

    @property
    def outputs(self) -> int:
        return self.length

    def back(self, at: Ints) -> Spans:
        return Spans((at - self.shift) % max(self.length, 1), np.ones_like(at))

    def forth(self, at: Ints) -> Spans:
        return Spans((at + self.shift) % max(self.length, 1), np.ones_like(at))


@dataclass(frozen=True)
class Window:
    """The inputs from output - left to output + right, both included."""

    inputs: int
    outputs: int
    left: int
    right: int

    @property
    def is_running(self) -> bool:
        """From the first input on, whatever the output."""
        return self.left + 1 >= self.outputs

    def back(self, at: Ints) -> Spans:
        return clipped(at - self.left, at + self.right + 1, self.inputs)

    def forth(self, at: Ints) -> Spans:
        return clipped(at - self.right, at + self.left + 1, self.outputs)


class Table:
    """Any relation along one axis: for output k the inputs `items[starts[k] : starts[k] + counts[k]]`."""

    def __init__(self, inputs: int, starts: Ints, counts: Ints, items: Ints) -> None:
        self.inputs = inputs
        self.outputs = len(starts)
        self.spans = Spans(starts, counts, items)

    @classmethod
    def single(cls, inputs: int, origin: Any) -> Table:
        """Output k comes from input `origin[k]`, or from none where that is negative."""
        items = np.asarray(origin, dtype=np.int64)
        return cls(inputs, np.arange(len(items)), (items >= 0).astype(np.int64), items)

    @classmethod
    def pairs(cls, inputs: int, outputs: int, outs: Any, ins: Any) -> Table:
        outs = np.asarray(outs, dtype=np.int64)
        order = np.argsort(outs, kind="stable")
        counts = np.bincount(outs, minlength=outputs)
        return cls(inputs, np.cumsum(counts) - counts, counts, np.asarray(ins, dtype=np.int64)[order])

    @cached_property
    def inverse(self) -> Spans:
        starts, counts, items = self.spans
        assert items is not None
        outs, places = spread(starts, counts)
        ins = items[places]
        order = np.argsort(ins, kind="stable")
        held = np.bincount(ins, minlength=self.inputs)
        return Spans(np.cumsum(held) - held, held, outs[order])

    def back(self, at: Ints) -> Spans:
        starts, counts, items = self.spans
        return Spans(starts[at], counts[at], items)

    def forth(self, at: Ints) -> Spans:
        starts, counts, items = self.inverse
        return Spans(starts[at], counts[at], items)
