"""A trial of every strategy for one operator, on what a run kept of its inputs: what the chooser could only guess at.

The operator is run again, plainly and once in each mode that it supports; what it writes is encoded in every way, in
memory, and some cells are asked about. The figures are kept with the run, so that they are gathered once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.access import Access, Asking
from whence.arrays.cells import Numbers, size_of
from whence.arrays.encodings import BACKWARD, BLACKBOX, FORWARD, MAP, STORED, Encoding, Source, Strategy, TooLarge
from whence.arrays.encodings.rerun import Rerun
from whence.arrays.maps import Maps
from whence.arrays.operator import Mode, modes_of
from whence.arrays.running import run_once
from whence.arrays.workflow import Node
from whence.arrays.written import Written
from whence.model import WhenceError
from whence.store.private import write
from whence.strategy import Answered, Kept, Observed
from whence.strategy import Written as Counted

FILE = "trial.json"
MOST_CELLS = 50_000_000
"""Of larger arrays nothing is tried: what they cost is worked out from what their runs told."""
_SIZES = (1, 30, 1000, 30_000)
_MOST_SECONDS = 2.0
"""A size at which a step took longer is the last that is tried."""


class Trial:
    def __init__(self, node: Node, inputs: Sequence[NDArray[Any]], output: NDArray[Any]) -> None:
        assert node.operator is not None
        self._node, self._operator = node, node.operator
        self._inputs, self._output = list(inputs), output
        self._maps = Maps(node.operator, tuple(array.shape for array in inputs), output.shape)
        self._modes = modes_of(node.operator)
        self._plain: float | None = None
        self._written: dict[Mode, tuple[Written | None, Counted]] = {}
        self.seconds = 0.0

    def of(self, strategies: Iterable[str]) -> tuple[list[Counted], list[Kept], list[Answered]]:
        """What these strategies take."""
        counted: dict[str, Counted] = {}
        kept: list[Kept] = []
        answered: list[Answered] = []
        for text in strategies:
            strategy = Strategy.parse(text)
            if strategy in (MAP, BLACKBOX):
                answered += self._asked(strategy, None)
                continue
            written, told = self._run(strategy.needs)
            counted[told.mode] = told
            try:
                start = perf_counter()
                columns = STORED[strategy.encoding].encode(Source(self._maps, written), strategy.direction)
                size = columns.size()
                kept.append(Kept(text, size, perf_counter() - start + size / 1e9))
            except TooLarge:
                continue
            opened = STORED[strategy.encoding].open(columns, self._maps, strategy.direction)
            answered += self._asked(strategy, opened)
        return list(counted.values()), kept, answered

    def _run(self, mode: Mode) -> tuple[Written | None, Counted]:
        """What the operator writes in that mode, and how much that is; its map functions need no writing."""
        if mode not in self._written:
            if Mode.MAP in self._modes:
                self._written[mode] = None, Counted(mode.value, 0, 0, 0, 0)
            else:
                plain = self._plain_seconds()
                result = run_once(self._operator, self._node.name, self._inputs, frozenset({mode}))
                start = perf_counter()
                written = result.written()
                seconds = max(result.seconds - plain, 0.0) + perf_counter() - start
                self._written[mode] = written, counted(written, mode, seconds)
        return self._written[mode]

    def _plain_seconds(self) -> float:
        if self._plain is None:
            took = [
                run_once(self._operator, self._node.name, self._inputs, frozenset({Mode.BLACKBOX})).seconds
                for _ in range(2)
            ]
            self._plain = self.seconds = min(took)
        return self._plain

    def _asked(self, strategy: Strategy, opened: Encoding | None) -> list[Answered]:
        stored: dict[Strategy, Callable[[], Encoding]] = {} if opened is None else {strategy: lambda: opened}
        rerun = Rerun(self._maps, self._node.name, lambda: self._inputs, lambda: self._output)
        access = Access(self._node, self._maps, (strategy,), stored, rerun, 0.0)
        found: list[Answered] = []
        for direction in (BACKWARD, FORWARD):
            for cells in self._samples(direction):
                best: Answered | None = None
                for _ in range(1 if strategy == BLACKBOX else 3):  # the least of three: others use the machine too
                    asking = Asking(optimise=False)
                    for i in range(len(self._inputs)):
                        some = cells if direction == BACKWARD else cells[cells < self._inputs[i].size]
                        access.step(direction, some, i, asking)
                    best = _least(best, [told for _, told in asking.told], strategy, direction)
                    if best is None or best.seconds > 0.05:
                        break
                if best is None:
                    continue
                found.append(best)
                if best.seconds > _MOST_SECONDS or strategy == BLACKBOX:
                    break
        return found

    def _samples(self, direction: str) -> Iterable[Numbers]:
        """Cells to ask about, few to many: half of them of those that were written about, which have most to tell."""
        rng = np.random.default_rng(5)
        sizes = [size_of(self._maps.output_shape)]
        if direction == FORWARD:
            sizes = [size_of(shape) for shape in self._maps.input_shapes]
        size = max(sizes, default=0)
        told = self._told_of(direction)
        for count in _SIZES:
            if count > 1 and count * 2 > size:
                return
            drawn = rng.integers(0, size, count) if size else np.empty(0, np.int64)
            if len(told):
                drawn[::2] = rng.choice(told, len(drawn[::2]))
            yield np.unique(drawn)

    def _told_of(self, direction: str) -> Numbers:
        for written, _ in self._written.values():
            if written is None:
                continue
            if len(written.payloads) and direction == BACKWARD:
                return written.payloads.out.values.part(0, 1 << 20)
            for regions in written.regions:
                if len(regions):
                    return (regions.out if direction == BACKWARD else regions.inn).values.part(0, 1 << 20)
        return np.empty(0, np.int64)


def _least(best: Answered | None, told: list[Answered], strategy: Strategy, direction: str) -> Answered | None:
    """One step through one input: the mean over the inputs."""
    if not told:
        return best
    count = len(told)
    seconds = sum(t.seconds for t in told)
    one = Answered(
        str(strategy),
        direction,
        told[0].asked,
        sum(t.found for t in told) // count,
        seconds if strategy == BLACKBOX else seconds / count,
        trial=True,
    )
    return one if best is None or one.seconds < best.seconds else best


def counted(written: Written, mode: Mode, seconds: float) -> Counted:
    """How much an operator wrote in one mode."""
    if mode == Mode.FULL:
        regions = [region for region in written.regions if len(region)]
        return Counted(
            mode.value,
            sum(len(region) for region in regions),
            sum(len(region.out.values) for region in regions),
            sum(len(region.inn.values) for region in regions),
            sum(int(np.dot(region.out.lengths(), region.inn.lengths())) for region in regions),
            seconds=seconds,
        )
    payloads = written.payloads
    size = sum(len(p) if isinstance(p, (bytes, str)) else 8 for p in payloads.table.distinct)
    cells = len(payloads.out.values)
    return Counted(mode.value, len(payloads), cells, 0, cells, payload_bytes=size, seconds=seconds)


# --- kept with the run


def read(folder: Path) -> dict[str, Observed]:
    """The trials of a run's operators so far, by node."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return {name: Observed.from_json(told) for name, told in json.loads((folder / FILE).read_bytes()).items()}
    return {}


def keep(folder: Path, tried: dict[str, Observed]) -> None:
    with suppress(OSError):  # a store that may only be read: they are gathered again the next time
        write(folder / FILE, json.dumps({name: seen.as_json() for name, seen in tried.items()}).encode())


def tried(node: Node, seen: Observed, strategies: Sequence[str], arrays: Callable[[Node], Any]) -> Observed:
    """`seen` with the figures of a trial; as it was where a trial is not possible."""
    cells = max([seen.output_cells, *seen.input_cells])
    if cells > MOST_CELLS:
        return seen
    inputs = [np.asarray(arrays(below)) for below in node.inputs]
    trial = Trial(node, inputs, np.asarray(arrays(node)))
    try:
        written, kept, answered = trial.of(strategies)
    except WhenceError:  # what fails now, or comes out otherwise, keeps what was seen of it
        return seen
    modes = {w.mode for w in written}
    texts = {k.strategy for k in kept}
    return replace(
        seen,
        seconds=trial.seconds or seen.seconds,
        written=(*written, *(w for w in seen.written if w.mode not in modes)),
        kept=(*kept, *(k for k in seen.kept if k.strategy not in texts)),
        answered=(*answered, *seen.answered),
    )
