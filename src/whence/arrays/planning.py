"""The operators of an array workflow as the chooser sees them: what stands between two arrays, and what each costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from whence.arrays import remembered, trial
from whence.arrays.encodings import Strategy
from whence.arrays.errors import ArrayError, UnknownNode
from whence.arrays.folder import Shelf
from whence.arrays.operator import Mode, modes_of
from whence.arrays.run import Run
from whence.arrays.workflow import Node, Workflow
from whence.progress import working
from whence.strategy import BACKWARD, DIRECTIONS, Answered, Cost, Observed, Question
from whence.strategy.arrays import KINDS, Passing, costs_of, possible

_RUNS = 5
_START = 100.0
"""Cells of a question, where none was asked yet."""


class Arrays:
    """A workflow that was executed in this store before; the newest run of it tells what it costs."""

    def __init__(self, shelf: Shelf, given: Any) -> None:
        """`given`: a workflow, or an array of one."""
        shelf.settle()
        self._runs = _runs(shelf, given)
        self._run = self._runs[0]
        self.workflow = self._run.workflow
        self._told = [run.observed for run in self._runs]

    @property
    def inputs(self) -> dict[str, tuple[str, ...]]:
        """What each array is made from; inputs of the workflow from nothing."""
        return {node.name: tuple(below.name for below in node.inputs) for node in self.workflow.nodes}

    @property
    def sources(self) -> dict[str, str]:
        """The inputs of the workflow that come from a table or a file, and its path."""
        found = {}
        for node in self.workflow.inputs:
            told = self._run.source(node)
            if told.get("kind") == "frame":
                found[node.name] = str(self._run.folder.path.parent / "tables" / str(told["table"]))
            elif told.get("path"):
                found[node.name] = str(told["path"])
        return found

    def costs(self, questions: Sequence[Question], force: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Cost]]:
        operators = [node for node in self.workflow.nodes if node.operator is not None]
        seen = self._seen(operators, force)
        passing = self._passing(seen, questions)
        found = {}
        for node in operators:
            forced = force.get(node.name, ())
            wanted = [s for s in _strategies(node, forced) if forced or s not in seen[node].skipped]
            found[node.name] = costs_of(seen[node], wanted, passing[node])
        return found

    def _seen(self, operators: Sequence[Node], force: Mapping[str, Sequence[str]]) -> dict[Node, Observed]:
        folder = self._run.folder.path
        observed, tried = self._observed(), trial.read(folder)
        for run in self._runs[1:]:
            for name, known in trial.read(run.folder.path).items():
                if name not in tried and _alike(known, observed[self.workflow[name]]):
                    tried[name] = known
        if tried:
            trial.keep(folder, tried)  # the next plan looks at the newest runs alone
        for number, node in enumerate(operators):
            wanted = _strategies(node, force.get(node.name, ()))
            before = tried.get(node.name)
            questions = self._asked(node, observed[node])
            count = sum(map(len, questions.values()))
            if before is not None and count >= max(2 * before.tried, 1):  # others than those that were tried
                before, wanted = None, tuple(dict.fromkeys((*wanted, *_strategies(node, ()))))
            forced = bool(force.get(node.name))
            missing = [s for s in wanted if before is None or not _knows(before, s, forced)]
            if missing:
                with working(f"Trying strategies for {node.name}, {number + 1} of {len(operators)} operators"):
                    tried[node.name] = trial.tried(
                        node, before or _bare(observed[node]), missing, self._run, questions, patient=forced
                    )
                    trial.keep(folder, tried)
            observed[node] = replace(tried[node.name], answered=(*observed[node].answered, *tried[node.name].answered))
        return observed

    def _asked(self, node: Node, seen: Observed) -> dict[str, list[remembered.Set]]:
        """What was asked of an operator in these runs, for each direction; map functions have nothing to choose."""
        assert node.operator is not None
        if Mode.MAP in modes_of(node.operator):
            return {}
        places = []
        for run, told in zip(self._runs, self._told, strict=True):
            mine = run.workflow[node.name]
            if mine in told and _alike(told[mine], seen):
                places.append((run.folder.path, run.number(mine)))
        return {way: remembered.together([remembered.read(*at, way) for at in places]) for way in DIRECTIONS}

    def _observed(self) -> dict[Node, Observed]:
        """What the newest run told, with the queries of earlier ones behind its own."""
        found = dict(self._told[0])
        for told in self._told[1:]:
            for node, seen in told.items():
                mine = self.workflow[node.name]
                if _alike(seen, found[mine]):
                    found[mine] = replace(found[mine], answered=(*found[mine].answered, *seen.answered))
        return {
            node: replace(seen, answered=tuple(a for a in seen.answered if a.asked)) for node, seen in found.items()
        }

    def _passing(self, seen: Mapping[Node, Observed], questions: Sequence[Question]) -> dict[Node, dict[str, Passing]]:
        """How the workload passes each operator: as past queries did, else by the fan of the operators before it."""
        found: dict[Node, dict[str, Passing]] = {node: {} for node in seen}
        for direction in DIRECTIONS:
            mine = [question for question in questions if question.direction == direction]
            for node, (inputs, steps) in self._through(mine).items():
                past = [a for a in seen[node].answered if a.direction == direction and not a.trial]
                asked, reached = _mean(past) if past else (_START, _START)
                found[node][direction] = Passing(asked, reached, inputs, steps)
            self._spread(seen, direction, mine, found)
        return found

    def _through(self, questions: Sequence[Question]) -> dict[Node, tuple[float, float]]:
        """Through how many of its inputs a question passes an operator, and through how many operators it goes, on
        average."""
        counts: dict[Node, list[tuple[int, int, float]]] = {}
        for question in questions:
            on_the_way = question.steps | question.ends
            for node in self.workflow.nodes:
                if node.name in question.steps:
                    inputs = sum(below.name in on_the_way for below in node.inputs)
                    counts.setdefault(node, []).append((max(inputs, 1), len(question.steps), question.weight))
        found = {}
        for node, told in counts.items():
            weight = sum(w for *_, w in told) or 1.0
            found[node] = (sum(n * w for n, _, w in told) / weight, sum(s * w for _, s, w in told) / weight)
        return found

    def _spread(
        self,
        seen: Mapping[Node, Observed],
        direction: str,
        questions: Sequence[Question],
        found: dict[Node, dict[str, Passing]],
    ) -> None:
        """For operators that no query has passed yet: what those before them hand on."""
        for question in questions:
            nodes = [node for node in self.workflow.nodes if node.name in question.steps]
            cells: dict[str, float] = {}
            for node in reversed(nodes) if direction == BACKWARD else nodes:
                here = seen[node]
                size = float(here.output_cells if direction == BACKWARD else max(here.input_cells, default=1))
                before = cells.get(node.name) if direction == BACKWARD else _most(cells, node)
                asked = min(size, _START if before is None else before)
                other = float(max(here.input_cells, default=1) if direction == BACKWARD else here.output_cells)
                reached = min(other, asked * _fan(here, direction))
                known = [a for a in here.answered if a.direction == direction and not a.trial]
                if not known:
                    found[node][direction] = replace(found[node][direction], asked=asked, found=reached)
                else:
                    reached = found[node][direction].found
                if direction == BACKWARD:
                    for below in node.inputs:
                        cells[below.name] = max(cells.get(below.name, 0.0), reached)
                else:
                    cells[node.name] = reached


def _most(cells: Mapping[str, float], node: Node) -> float | None:
    return max((cells[below.name] for below in node.inputs if below.name in cells), default=None)


def _fan(seen: Observed, direction: str) -> float:
    """Cells that one cell leads to, as asking about some has shown."""
    points = [a for a in seen.answered if a.direction == direction and a.asked > 0]
    few = [a for a in points if a.found < 0.5 * (max(seen.input_cells, default=1))]
    return max((a.found / a.asked for a in (few or points)[:4]), default=1.0)


def _alike(one: Observed, other: Observed) -> bool:
    return (one.operator, one.output_cells, one.input_cells) == (other.operator, other.output_cells, other.input_cells)


def _mean(past: Sequence[Answered]) -> tuple[float, float]:
    newest = past[:200]
    count = len(newest)
    return sum(a.asked for a in newest) / count, sum(a.found for a in newest) / count


def _knows(seen: Observed, strategy: str, forced: bool) -> bool:
    """What took too long to be tried is tried where it is forced."""
    return (strategy in seen.skipped and not forced) or any(a.strategy == strategy for a in seen.answered)


def _bare(seen: Observed) -> Observed:
    return replace(seen, answered=())


def _strategies(node: Node, forced: Iterable[str]) -> tuple[str, ...]:
    """What the operator could keep; where the user forces something, that."""
    assert node.operator is not None
    modes = modes_of(node.operator)
    wanted = tuple(dict.fromkeys(str(Strategy.parse(text)) for text in forced))
    for text in wanted:
        if Strategy.parse(text).needs not in modes:
            raise ArrayError(
                f"force says {text} for {node.name}, which cannot keep it: its modes are "
                f"{', '.join(sorted(mode.value for mode in modes))}."
            )
    if len({KINDS[text] for text in wanted if text in KINDS}) > 1:
        raise ArrayError(f"force says {' and '.join(wanted)} for {node.name}: one run cannot keep both. Choose one.")
    return wanted or possible(frozenset(mode.value for mode in modes))


def _runs(shelf: Shelf, given: Any) -> list[Run]:
    """The last runs of this workflow, or of one with this array, the newest first."""
    found: list[Run] = []
    names = {node.name for node in given.nodes} if isinstance(given, Workflow) else {getattr(given, "name", given)}
    for name in reversed(shelf.names()):
        folder = shelf.open(name)
        told = {about["name"] for about in folder.about()["nodes"]}
        if names <= told and (not isinstance(given, Workflow) or names == told):
            run = Run(folder)
            if _same(run.workflow, found[0].workflow if found else given):
                found.append(run)
        if len(found) == _RUNS:
            break
    if not found:
        what = "this workflow" if isinstance(given, Workflow) else f"a workflow with the array {min(names)}"
        raise ArrayError(
            f"No run of {what} is in this store, so nothing is known about what it costs: execute it once, then ask "
            "for a plan."
        )
    return found


def _has(workflow: Workflow, node: Any) -> bool:
    try:
        workflow.find(node)
    except UnknownNode:
        return False
    return True


def _same(one: Workflow, other: Any) -> bool:
    if not isinstance(other, Workflow):
        return _has(one, other)
    return len(one.nodes) == len(other.nodes) and all(_has(one, node) for node in other.nodes)
