"""Blackbox: nothing is kept; the operator runs again in tracing mode, and what it writes answers the query.

The rerun must make the same array again: an operator that does not is not deterministic, and what it writes the second
time says nothing about the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Numbers, size_of
from whence.arrays.encodings.base import Encoding, Source
from whence.arrays.encodings.comp import Comp
from whence.arrays.encodings.pay_one import PayOne
from whence.arrays.lists import Members
from whence.arrays.maps import Maps
from whence.arrays.operator import Mode, label, modes_of
from whence.arrays.running import run_once
from whence.arrays.written import Written
from whence.model import NonDeterministic


class TracedAgain:
    """What one rerun told."""

    def __init__(self, maps: Maps, written: Written, mode: Mode) -> None:
        self.maps, self.written, self.mode = maps, written, mode
        self.is_silent = mode in written.silent
        self._noted: PayOne | Comp | None = None
        if mode in (Mode.PAY, Mode.COMP):
            kind = PayOne if mode == Mode.PAY else Comp
            self._noted = kind.open(kind.encode(Source(maps, written), "backward"), maps, "backward")

    def backward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        if self.mode == Mode.MAP:
            return self.maps.backward(cells, i)
        if self._noted is not None:
            return self._noted.backward(cells, i)
        return self._through(cells, i, backward=True)

    def forward(self, cells: Numbers, i: int) -> Iterator[Numbers]:
        if self.mode == Mode.MAP:
            return self.maps.forward(cells, i)
        if self._noted is not None:
            return self._noted.forward(cells, i)
        return self._through(cells, i, backward=False)

    def _through(self, cells: Numbers, i: int, *, backward: bool) -> Iterator[Numbers]:
        regions = self.written.regions[i] if backward else self.written.regions[i].turned()
        shape = self.maps.output_shape if backward else self.maps.input_shapes[i]
        for found in regions.out.having(Members(cells, size_of(shape))):
            yield from regions.inn.gather(found)


class Again(Encoding, Protocol):
    @property
    def is_silent(self) -> bool:
        """Whether nothing was written at all."""
        ...


class Reruns(Protocol):
    """How an operator is run again: on whole arrays, or on the chunks that are needed."""

    def trace(self) -> Again: ...


class Rerun:
    """How an operator is run again."""

    def __init__(
        self,
        maps: Maps,
        name: str,
        inputs: Callable[[], list[NDArray[np.generic]]],
        output: Callable[[], NDArray[np.generic]],
    ) -> None:
        self._maps, self._name, self._inputs, self._output = maps, name, inputs, output

    def trace(self) -> TracedAgain:
        """Runs the operator, once."""
        mode = tracing_mode(self._maps)
        asked = Mode.FULL if mode == Mode.MAP else mode  # the paper's black box runs it all the same
        result = run_once(self._maps.operator, self._name, self._inputs(), frozenset({asked}))
        if not same_array(result.output, self._output()):
            raise NonDeterministic(
                f"{self._name} ({label(self._maps.operator)}) made another array when it was run again, so that its "
                "lineage cannot be told afterwards. Execute the workflow with a strategy that stores it: "
                f"strategies={{{self._name!r}: 'FullOne'}}."
            )
        return TracedAgain(self._maps, result.written(), mode)


def tracing_mode(maps: Maps) -> Mode:
    modes = modes_of(maps.operator)
    return next(mode for mode in (Mode.MAP, Mode.FULL, Mode.PAY, Mode.COMP) if mode in modes)


def same_array(a: NDArray[np.generic], b: NDArray[np.generic]) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if np.array_equal(a, b):
        return True
    return a.dtype.kind in "fcmM" and np.array_equal(a, b, equal_nan=True)
