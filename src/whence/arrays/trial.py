"""A trial of every strategy for one operator, on what a run kept of its inputs: what the chooser could only guess at.

The operator is run again, plainly and once in each mode that it supports; what it writes is encoded in every way and
written to files, which are opened and asked about some cells. The figures are kept with the run, so that they are
gathered once. Seconds are those of the processor, so that what else a machine does meanwhile changes no plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.access import ENTIRE, Access, Asking, Found
from whence.arrays.cells import NONE, Cells, Numbers, as_set, coordinates, distinct, size_of
from whence.arrays.columns import Columns
from whence.arrays.encodings import BACKWARD, BLACKBOX, FORWARD, MAP, STORED, Encoding, Source, Strategy, TooLarge
from whence.arrays.encodings.rerun import Rerun, TracedAgain, same_array
from whence.arrays.keeping import counted
from whence.arrays.lists import Lists
from whence.arrays.maps import Maps
from whence.arrays.operator import Mode, modes_of
from whence.arrays.payloads import Payloads, Table
from whence.arrays.query import Query
from whence.arrays.remembered import Set
from whence.arrays.run import Run
from whence.arrays.running import run_once
from whence.arrays.workflow import Node, Workflow
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
_TIMES = 5
"""How often a question is asked, after once to open what it needs: the middle one counts."""
_NOISE, _JITTER = 0.05, 0.002
"""The part and the seconds by which two runs of an operator differ for no reason."""


class Trial:
    def __init__(
        self,
        node: Node,
        inputs: Sequence[NDArray[Any]],
        output: NDArray[Any],
        folder: Path,
        questions: Mapping[str, Sequence[Set]] | None = None,
    ) -> None:
        """`folder`: where lineage is written meanwhile; `questions`: what was asked of this operator before, for each
        direction."""
        assert node.operator is not None
        self._node, self._operator = node, node.operator
        self._inputs, self._output = list(inputs), output
        self._folder = folder
        self._questions = questions or {}
        self._maps = Maps(node.operator, tuple(array.shape for array in inputs), output.shape)
        self._modes = modes_of(node.operator)
        self._plain: float | None = None
        self._written: dict[Mode, tuple[Written | None, Counted]] = {}
        self._traced: dict[Mode, float] = {}
        self.seconds = 0.0

    def of(
        self, strategies: Iterable[str], patient: bool = False
    ) -> tuple[list[Counted], list[Kept], list[Answered], list[str]]:
        """What these strategies take; and those that were left out, since the others took long enough. `patient`: none
        is left out."""
        wrote: dict[str, Counted] = {}
        kept: list[Kept] = []
        answered: list[Answered] = []
        skipped: list[str] = []
        until = process_time() + _LONG_ENOUGH
        for text in sorted(strategies, key=_patience):
            strategy = Strategy.parse(text)
            if process_time() > until and not patient:
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
        path = self._folder / "lineage"
        while True:
            part = written if written is None or share == 1.0 else _part(written, share)
            path.unlink(missing_ok=True)
            start = process_time()
            columns = STORED[strategy.encoding].encode(Source(self._maps, part), strategy.direction)
            size = columns.size()
            columns.write(path)
            seconds = process_time() - start
            if share == 1.0 or seconds / share > _MOST_SECONDS:
                break
            share = 1.0
        opened = STORED[strategy.encoding].open(Columns.read(path), self._maps, strategy.direction)
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
                written, taken, own = self._traced_run(mode)
                if beyond_noise(own, plain):  # looked at again, since one slow run would pass for it
                    own = min(own, self._traced_run(mode)[2])
                seconds = taken + beyond_noise(own, plain)
                self._written[mode] = written, counted(written, frozenset({mode}), seconds)[0]
        return self._written[mode]

    def _traced_run(self, mode: Mode) -> tuple[Written, float, float]:
        """What the operator wrote, the seconds that taking it took, and those of the operator's own work."""
        start = process_time()
        result = run_once(self._operator, self._node.name, self._inputs, frozenset({mode}))
        ran = process_time()
        written = result.written()
        finished = process_time()
        taken = min(result.recorder.seconds, ran - start)
        self._traced[mode] = finished - start
        return written, taken + finished - ran, ran - start - taken

    def _plain_seconds(self) -> float:
        """The less of two, the first of which brings the inputs into memory."""
        if self._plain is None:
            took = []
            for _ in range(2):
                start = process_time()
                run_once(self._operator, self._node.name, self._inputs, frozenset({Mode.BLACKBOX}))
                took.append(process_time() - start)
            self._plain = self.seconds = min(took)
        return self._plain

    def _again(self) -> list[Answered]:
        """Running the operator in tracing mode, comparing what it made, and looking through what it wrote."""
        mode = next((mode for mode in (Mode.FULL, Mode.PAY, Mode.COMP) if mode in self._modes), None)
        if mode is None:  # it tells nothing: whoever asks is told so, without running it
            return []
        if Mode.MAP in self._modes:
            start = process_time()
            again = Rerun(self._maps, self._node.name, lambda: self._inputs, lambda: self._output).trace()
            ran = process_time() - start
        else:
            written, _ = self._run(mode)
            assert written is not None
            start = process_time()
            same_array(self._output, np.array(self._output))
            again = TracedAgain(self._maps, written, mode)
            ran = self._traced[mode] + process_time() - start
        return [*self._asked(BLACKBOX, None, again, ran), *self._asked_before(BLACKBOX, None, again, ran)]

    def _asked(
        self, strategy: Strategy, opened: Encoding | None, again: TracedAgain | None = None, ran: float = 0.0
    ) -> list[Answered]:
        access = self._access(strategy, opened)
        found: list[Answered] = []
        inputs = range(len(self._inputs))
        # Backward through all inputs at once; forward from each alone, since one may lead to much more than another.
        for direction, through in [(BACKWARD, list(inputs)), *((FORWARD, [i]) for i in inputs)]:
            for cells in self._samples(direction, through[0] if through else 0):
                told = self._timed(access, strategy, direction, cells, through, again, ran)
                if told is None:
                    continue
                found.append(told)
                if told.seconds > _MOST_SECONDS:
                    break
        return found

    def _asked_before(
        self, strategy: Strategy, opened: Encoding | None, again: TracedAgain | None = None, ran: float = 0.0
    ) -> list[Answered]:
        access = self._access(strategy, opened)
        found = []
        for direction, sets in self._questions.items():
            for one in sets:
                told = self._timed(access, strategy, direction, one.cells, [one.i], again, ran)
                if told is not None:
                    found.append(replace(told, real=True))
        return found

    def _timed(
        self,
        access: Access,
        strategy: Strategy,
        direction: str,
        cells: Numbers,
        through: Sequence[int],
        again: TracedAgain | None,
        ran: float,
    ) -> Answered | None:
        """One step through one input, the mean over the inputs; the middle of some times, once where it is long. `ran`:
        what `again` took, which whole arrays may not need."""
        took: list[float] = []
        told: list[Answered] = []
        for _ in range(_TIMES + 1):
            asking = Asking(optimise=False)
            if again is not None:
                asking.again[self._node] = again
            start = process_time()
            for i in through:
                access.step(direction, cells, i, asking)
            took.append(process_time() - start)
            told = [each for _, each in asking.told]
            if took[-1] > 0.05:
                break
        if not told:
            return None
        count = len(told)
        seconds = sorted(took[1:] or took)[len(took[1:] or took) // 2] / count
        if told[0].strategy != ENTIRE:
            seconds += ran
        return Answered(
            str(strategy), direction, told[0].asked, sum(t.found for t in told) // count, seconds, trial=True
        )

    def beside(self) -> float:
        """What a question through this operator alone takes beside its step."""
        if not self._inputs:
            return 0.0
        workflow = Workflow.of([self._node])
        shape, took = self._output.shape, []
        cells = coordinates(next(iter(self._samples(BACKWARD, 0))), shape)
        for _ in range(_TIMES + 1):
            start = process_time()
            ends = workflow.find(self._node.name), workflow.find(self._node.inputs[0].name)
            asked = as_set(cells, shape, "")
            query = Query(workflow, BACKWARD, lambda *_: Found(NONE), lambda _: shape)
            Cells.of(query.along_all(ends[0], asked, ends[1], Asking()), shape, (*query.notes,))
            took.append(process_time() - start)
        return sorted(took)[_TIMES // 2]

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
            yield distinct(drawn)

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


def beyond_noise(own: float, plain: float) -> float:
    """What an operator does for its lineage beside writing it: the seconds of its own work when it is asked for lineage
    beyond those when it is not, where they are more than the noise between two runs."""
    more = own - plain
    return more if more > max(_NOISE * plain, _JITTER) else 0.0


def _patience(text: str) -> tuple[int, str]:
    """What is mostly chosen is tried first."""
    return (_ORDER.index(text) if text in _ORDER else len(_ORDER), text)


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
    run: Run,
    questions: Mapping[str, Sequence[Set]] | None = None,
    patient: bool = False,
) -> Observed:
    """`seen` with the figures of a trial; as it was where a trial is not possible."""
    cells = max([seen.output_cells, *seen.input_cells])
    if cells > MOST_CELLS:
        return seen
    inputs = [np.asarray(run.array(below)) for below in node.inputs]
    try:
        with _beside(run.folder.path) as place:
            trial = Trial(node, inputs, np.asarray(run.array(node)), Path(place), questions)
            written, kept, answered, skipped = trial.of(strategies, patient)
            beside = seen.beside or trial.beside()
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
        skipped=tuple(dict.fromkeys((*(s for s in seen.skipped if s not in strategies), *skipped))),
        tried=sum(map(len, (questions or {}).values())),
        beside=beside,
    )


def _beside(folder: Path) -> TemporaryDirectory[str]:
    """On the disk that runs are kept on; elsewhere where that may only be read."""
    try:
        return TemporaryDirectory(prefix=".trial-", dir=folder)
    except OSError:
        return TemporaryDirectory(prefix="whence-trial-")
