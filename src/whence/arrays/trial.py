"""A trial of every strategy for one operator, on what a run kept of its inputs: what the chooser could only guess at.

The operator is run again, plainly and once in each mode that it supports; what it writes is encoded in every way, in
memory, and some cells are asked about. The figures are kept with the run, so that they are gathered once. Seconds are
those of the processor, so that what else a machine does meanwhile changes no plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.access import Access, Asking
from whence.arrays.cells import Numbers, size_of
from whence.arrays.encodings import BACKWARD, BLACKBOX, FORWARD, MAP, STORED, Encoding, Source, Strategy, TooLarge
from whence.arrays.encodings.rerun import Rerun
from whence.arrays.keeping import counted
from whence.arrays.lists import Lists
from whence.arrays.maps import Maps
from whence.arrays.operator import Mode, modes_of
from whence.arrays.payloads import Payloads, Table
from whence.arrays.remembered import Set
from whence.arrays.running import run_once
from whence.arrays.workflow import Node
from whence.arrays.written import Regions, Written
from whence.model import WhenceError
from whence.store.private import write
from whence.strategy import Answered, Kept, Observed
from whence.strategy import Written as Counted

FILE = "trial.json"
MOST_CELLS = 50_000_000
"""Of larger arrays nothing is tried: what they cost is worked out from what their runs told."""
_SIZES = (1, 30, 1000, 30_000)
_PART = 200_000
"""Numbers of the lineage that every encoding is tried on first."""
_MOST_SECONDS = 1.0
"""What takes longer is not tried any larger."""
_LONG_ENOUGH = 5.0
"""Seconds for one operator, after which the strategies that are left are not considered."""
_ORDER = ("Blackbox", "Map", "Comp", "PayOne", "FullOne", "Comp:forward", "FullOne:forward", "FullMany", "PayMany")
_SCAN = 5e-9
"""Seconds for one number that is looked through."""
_WRITE = 5e8
"""Bytes that are written in a second."""


class Trial:
    def __init__(
        self,
        node: Node,
        inputs: Sequence[NDArray[Any]],
        output: NDArray[Any],
        questions: Mapping[str, Sequence[Set]] | None = None,
    ) -> None:
        """`questions`: what was asked of this operator before, for each direction."""
        assert node.operator is not None
        self._node, self._operator = node, node.operator
        self._inputs, self._output = list(inputs), output
        self._questions = questions or {}
        self._maps = Maps(node.operator, tuple(array.shape for array in inputs), output.shape)
        self._modes = modes_of(node.operator)
        self._plain: float | None = None
        self._written: dict[Mode, tuple[Written | None, Counted]] = {}
        self._traced: dict[Mode, float] = {}
        self.seconds = 0.0

    def of(self, strategies: Iterable[str]) -> tuple[list[Counted], list[Kept], list[Answered], list[str]]:
        """What these strategies take; and those that were left out, since the others took long enough."""
        wrote: dict[str, Counted] = {}
        kept: list[Kept] = []
        answered: list[Answered] = []
        skipped: list[str] = []
        until = process_time() + _LONG_ENOUGH
        for text in sorted(strategies, key=_patience):
            strategy = Strategy.parse(text)
            if process_time() > until:
                skipped.append(text)
                continue
            if strategy == BLACKBOX:
                answered += self._again()
                continue
            if strategy == MAP:
                answered += self._asked(strategy, None)
                continue
            written, told = self._run(strategy.needs)
            wrote[told.mode] = told
            with suppress(TooLarge):
                one, asked = self._encoded(strategy, written, told)
                kept.append(one)
                answered += asked
        return list(wrote.values()), kept, answered, skipped

    def _encoded(self, strategy: Strategy, written: Written | None, told: Counted) -> tuple[Kept, list[Answered]]:
        """A part of the lineage first: where all of it would take too long, the part has to speak for the whole."""
        numbers = told.outputs + told.inputs
        share = min(1.0, _PART / max(numbers, 1)) if written is not None else 1.0
        while True:
            part = written if written is None or share == 1.0 else _part(written, share)
            start = process_time()
            columns = STORED[strategy.encoding].encode(Source(self._maps, part), strategy.direction)
            size = columns.size()
            seconds = process_time() - start + size / _WRITE
            if share == 1.0 or seconds / share > _MOST_SECONDS:
                break
            share = 1.0
        opened = STORED[strategy.encoding].open(columns, self._maps, strategy.direction)
        asked = [
            told if told.direction == strategy.direction else replace(told, seconds=told.seconds / share)
            for told in self._asked(strategy, opened)
        ]
        if share == 1.0:  # a part may know nothing of just these cells
            asked += self._asked_before(strategy, opened)
        return Kept(str(strategy), round(size / share), seconds / share), asked

    def _run(self, mode: Mode) -> tuple[Written | None, Counted]:
        """What the operator writes in that mode, and how much that is; its map functions need no writing."""
        if mode not in self._written:
            if Mode.MAP in self._modes:
                self._written[mode] = None, Counted(mode.value, 0, 0, 0, 0)
            else:
                plain = self._plain_seconds()
                start = process_time()
                written = run_once(self._operator, self._node.name, self._inputs, frozenset({mode})).written()
                self._traced[mode] = process_time() - start
                seconds = max(self._traced[mode] - plain, 0.0)
                self._written[mode] = written, counted(written, frozenset({mode}), seconds)[0]
        return self._written[mode]

    def _plain_seconds(self) -> float:
        if self._plain is None:
            start = process_time()
            run_once(self._operator, self._node.name, self._inputs, frozenset({Mode.BLACKBOX}))
            self._plain = self.seconds = process_time() - start
        return self._plain

    def _again(self) -> list[Answered]:
        """Running the operator in tracing mode, and looking through what it wrote: the run takes the time, whatever is
        asked."""
        mode = next((mode for mode in (Mode.FULL, Mode.PAY, Mode.COMP) if mode in self._modes), None)
        if mode is None or Mode.MAP in self._modes:
            return [replace(told, trial=True) for told in self._asked(BLACKBOX, None)]
        _, told = self._run(mode)
        seconds = self._traced[mode] + _SCAN * (told.outputs + told.inputs)
        return [Answered(str(BLACKBOX), way, 1, 1, seconds, trial=True) for way in (BACKWARD, FORWARD)]

    def _asked(self, strategy: Strategy, opened: Encoding | None) -> list[Answered]:
        access = self._access(strategy, opened)
        found: list[Answered] = []
        inputs = range(len(self._inputs))
        # Backward through all inputs at once; forward from each alone, since one may lead to much more than another.
        ways = [(BACKWARD, list(inputs)), *((FORWARD, [i]) for i in inputs)]
        for direction, through in ways if strategy != BLACKBOX else ways[:1]:
            for cells in self._samples(direction, through[0] if through else 0):
                best: Answered | None = None
                for _ in range(1 if strategy == BLACKBOX else 3):  # the least of three: others use the machine too
                    asking, start = Asking(optimise=False), process_time()
                    for i in through:
                        access.step(direction, cells, i, asking)
                    took = process_time() - start
                    best = _least(best, [told for _, told in asking.told], took, strategy, direction)
                    if best is None or best.seconds > 0.05:
                        break
                if best is None:
                    continue
                found.append(best)
                if best.seconds > _MOST_SECONDS or strategy == BLACKBOX:
                    break
        if strategy == BLACKBOX:  # it is the run that takes the time, whatever is asked
            found += [replace(told, direction=FORWARD) for told in found]
        return found

    def _asked_before(self, strategy: Strategy, opened: Encoding) -> list[Answered]:
        found = []
        access = self._access(strategy, opened)
        for direction, sets in self._questions.items():
            for one in sets:
                told: list[Answered] = []
                for _ in range(3):
                    asking, start = Asking(optimise=False), process_time()
                    access.step(direction, one.cells, one.i, asking)
                    took = process_time() - start
                    told += [replace(each, seconds=took, trial=True, real=True) for _, each in asking.told]
                    if took > 0.05:
                        break
                found += sorted(told, key=lambda each: each.seconds)[:1]
        return found

    def _access(self, strategy: Strategy, opened: Encoding | None) -> Access:
        stored: dict[Strategy, Callable[[], Encoding]] = {} if opened is None else {strategy: lambda: opened}
        rerun = Rerun(self._maps, self._node.name, lambda: self._inputs, lambda: self._output)
        return Access(self._node, self._maps, (strategy,), stored, rerun, 0.0)

    def _samples(self, direction: str, source: int) -> Iterable[Numbers]:
        """Cells to ask about, few to many: half of them of those that were written about, which have most to tell."""
        rng = np.random.default_rng(5)
        shapes = self._maps.input_shapes
        size = size_of(self._maps.output_shape if direction == BACKWARD else shapes[source])
        told = self._told_of(direction, source)
        for count in _SIZES:
            if count > 1 and count * 2 > size:
                return
            drawn = rng.integers(0, size, count) if size else np.empty(0, np.int64)
            if len(told):
                drawn[::2] = rng.choice(told, len(drawn[::2]))
            yield np.unique(drawn)

    def _told_of(self, direction: str, source: int) -> Numbers:
        for written, _ in self._written.values():
            if written is None:
                continue
            if len(written.payloads) and direction == BACKWARD:
                return written.payloads.out.values.part(0, 1 << 20)
            regions = [written.regions[source]] if direction == FORWARD else written.regions
            for some in regions:
                if len(some):
                    return (some.out if direction == BACKWARD else some.inn).values.part(0, 1 << 20)
        return np.empty(0, np.int64)


def _patience(text: str) -> tuple[int, str]:
    """What is mostly chosen is tried first."""
    return (_ORDER.index(text) if text in _ORDER else len(_ORDER), text)


def _least(
    best: Answered | None, told: list[Answered], seconds: float, strategy: Strategy, direction: str
) -> Answered | None:
    """One step through one input: the mean over the inputs."""
    if not told:
        return best
    count = len(told)
    one = Answered(
        str(strategy),
        direction,
        told[0].asked,
        sum(t.found for t in told) // count,
        seconds if strategy == BLACKBOX else seconds / count,
        trial=True,
    )
    return one if best is None or one.seconds < best.seconds else best


def _part(written: Written, share: float) -> Written:
    """The first of what was written."""

    def first(lists: Lists) -> Lists:
        return lists.chosen(np.arange(max(1, int(len(lists) * share)) if len(lists) else 0))

    payloads = written.payloads
    some = max(1, int(len(payloads) * share)) if len(payloads) else 0
    return Written(
        tuple(Regions(first(regions.out), first(regions.inn)) for regions in written.regions),
        Payloads(first(payloads.out), Table(payloads.table.ids[:some], payloads.table.distinct)),
    )


# --- kept with the run


def read(folder: Path) -> dict[str, Observed]:
    """The trials of a run's operators so far, by node."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return {name: Observed.from_json(told) for name, told in json.loads((folder / FILE).read_bytes()).items()}
    return {}


def keep(folder: Path, tried: dict[str, Observed]) -> None:
    with suppress(OSError):  # a store that may only be read: they are gathered again the next time
        write(folder / FILE, json.dumps({name: seen.as_json() for name, seen in tried.items()}).encode())


def tried(
    node: Node,
    seen: Observed,
    strategies: Sequence[str],
    arrays: Callable[[Node], Any],
    questions: Mapping[str, Sequence[Set]] | None = None,
) -> Observed:
    """`seen` with the figures of a trial; as it was where a trial is not possible."""
    cells = max([seen.output_cells, *seen.input_cells])
    if cells > MOST_CELLS:
        return seen
    inputs = [np.asarray(arrays(below)) for below in node.inputs]
    trial = Trial(node, inputs, np.asarray(arrays(node)), questions)
    try:
        written, kept, answered, skipped = trial.of(strategies)
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
        skipped=(*seen.skipped, *skipped),
        tried=sum(map(len, (questions or {}).values())),
    )
