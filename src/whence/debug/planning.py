"""`w.strategy(...)`: one plan for a pipeline of SQL, RDD and array steps.

What stands between two ends of a question is a graph by names: queries read datasets, datasets were written by runs
that the catalogue knows, results of RDDs and arrays have their own steps behind them. Each kind of step has its costs
from its own front end; the choice among them is one (whence.strategy).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from whence.model import UnknownDataset, WhenceError
from whence.spark.sessions import is_frame
from whence.sql import Catalyst
from whence.store.catalog import Catalog
from whence.strategy import BACKWARD, DIRECTIONS, Cost, Limits, NoSuchStep, NoWay, Plan, Question, choose
from whence.strategy.arrays import KINDS
from whence.strategy.plan import name_of
from whence.strategy.steps import Query, program_costs, query_costs

_FRAME = re.compile(r"/arrays/(\d{8}-\d{6}-[0-9a-f]{8})/frames/(\d+)")


@dataclass(frozen=True)
class Rooms:
    """What a choice needs of a session, each opened when it is needed."""

    catalyst: Callable[[], Catalyst]
    catalog: Callable[[], Catalog]
    arrays: Callable[[], Any]
    require_ours: Callable[[Any], None]


def plan_of(
    rooms: Rooms,
    limit_disk: float | None,
    limit_runtime: float | None,
    workload: Iterable[Any],
    force: Mapping[Any, Any] | None,
    workflow: Any,
) -> Plan:
    if force is not None and not isinstance(force, Mapping):
        raise WhenceError(f"force= is a dict of steps to what they keep, not {force!r}.")
    limits = Limits(limit_disk, limit_runtime)
    steps = _Steps(rooms, workflow)
    asked = [steps.asked(item) for item in workload]
    wanted = {steps.key(step): _texts(given) for step, given in (force or {}).items()}
    questions = [
        Question(one.direction, steps.between(one), one.weight, frozenset((one.start, one.to))) for one in asked
    ]
    costs = steps.costs({step for question in questions for step in question.steps}, questions, wanted)
    if not costs:
        raise ValueError("There is nothing to choose for: name steps in the workload, or give a workflow that has run.")
    return replace(choose(costs, questions, limits, wanted, KINDS), named=steps.named)


@dataclass(frozen=True)
class _Asked:
    direction: str
    start: str
    to: str
    weight: float


@dataclass(eq=False)
class _Steps:
    rooms: Rooms
    workflow: Any
    # What each step is made from, by name.
    inputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    frames: list[tuple[str, Any, Any]] = field(default_factory=list)
    """Name, DataFrame and plan of each query that was named."""
    rdds: dict[str, Any] = field(default_factory=dict)
    arrays: Any = None
    arrived: set[str] = field(default_factory=set)
    """Inputs of workflows that come from a table or a file: they are made from it, and are no steps."""
    unknown: set[str] = field(default_factory=set)
    """Names of which the catalogue knows nothing."""

    def __post_init__(self) -> None:
        if self.workflow is not None:
            self._open_arrays(self.workflow)

    def asked(self, item: Any) -> _Asked:
        parts = tuple(item) if isinstance(item, (tuple, list)) else ()
        if len(parts) not in (3, 4) or parts[0] not in DIRECTIONS:
            raise ValueError(
                f"A workload is a list of (direction, start, to) or (direction, start, to, weight), the direction "
                f"'backward' or 'forward'; this is {item!r}."
            )
        weight = parts[3] if len(parts) == 4 else 1.0
        if isinstance(weight, bool) or not isinstance(weight, (int, float)):
            raise TypeError(f"The weight of a question is a number; in {item!r} it is {weight!r}.")
        ends = {n: self.key(parts[n]) for n in sorted((1, 2), key=lambda n: isinstance(parts[n], str))}
        return _Asked(parts[0], ends[1], ends[2], float(weight))

    # --- names

    def key(self, step: Any) -> str:
        """The name of a step that the user names or holds."""
        if is_frame(step):
            return self._query(step)
        if hasattr(step, "getLineage") and hasattr(step, "node"):
            return self._result(step)
        node = getattr(step, "whence_node", step)
        if not isinstance(node, str) and hasattr(node, "operator") and hasattr(node, "inputs"):
            if self.arrays is None:
                self._open_arrays(node)
            return str(self.arrays.workflow[node].name)
        if isinstance(step, str):
            if self.arrays is not None and step in self.arrays.inputs:
                return step
            name = self._dataset(step)
            if name not in self.known:
                raise NoSuchStep(
                    f"There is no step {step!r}: no array, table or path of this name is known here. "
                    f"Known are {', '.join(sorted(self.known)[:20]) or 'none'}."
                )
            return name
        raise TypeError(
            f"{step!r} names no step: give a DataFrame, an RDD with lineage, an array of a workflow, or the name of a "
            "table, a path or an array."
        )

    @property
    def known(self) -> set[str]:
        read = {name for names in self.inputs.values() for name in names}
        return (set(self.inputs) - self.unknown) | read

    def named(self, step: object) -> str | None:
        """The same for a finished plan: a step that it does not know has no name."""
        if is_frame(step):
            from whence.sql.planning import same

            c = self.rooms.catalyst()
            return next((name for name, _, plan in self.frames if same(c, step, plan)), None)  # type: ignore[arg-type]
        if hasattr(step, "getLineage") and hasattr(step, "node"):
            from whence.rdd.context import step_name

            return step_name(step.node)
        name = name_of(getattr(step, "whence_node", step))
        return name if name is None or name in self.inputs else _last(name)

    def _query(self, df: Any) -> str:
        from whence.sql.checkpoints import put_back
        from whence.sql.planning import datasets_of, same

        self.rooms.require_ours(df)
        c = self.rooms.catalyst()
        known = next((name for name, _, plan in self.frames if same(c, df, plan)), None)
        if known is not None:
            return known
        name = f"query {len(self.frames) + 1}"
        self.frames.append((name, df, put_back(c, c.plan_of(df))))
        self.inputs[name] = tuple(self._read(read, where) for read, where in datasets_of(c, df))
        return name

    def _read(self, name: str, where: str) -> str:
        """What a query reads: an array, where it is the frame of one, else a table or a path."""
        frame = _FRAME.search(where)
        if frame is None:
            return self._dataset(name)
        from whence.arrays.run import Run

        workflow = Run(self.rooms.arrays().open(frame[1])).workflow
        if self.arrays is None:
            self._open_arrays(workflow)
        return str(workflow.nodes[int(frame[2])].name)

    def _result(self, rdd: Any) -> str:
        from whence.rdd.context import step_name
        from whence.rdd.planning import files_of, steps_behind

        name = step_name(rdd.node)
        if not self.inputs.get(name):
            self.inputs[name] = ()
            if not rdd.node.source:
                self.inputs[name] = (*(self._dataset(file) for file in files_of(rdd)), *steps_behind(rdd))
                self.rdds[name] = rdd
        return name

    def _dataset(self, named: str) -> str:
        """A table or path, and all that the catalogue knows behind it."""
        name = named if named in self.inputs else _last(named)
        if name in self.inputs:
            return name
        self.inputs[name] = ()
        try:
            edges = self.rooms.catalog().lineage(named, direction=BACKWARD)
        except UnknownDataset:
            self.unknown.add(name)
            return name
        for edge in edges:
            target, source = _last(edge.target.name), _last(edge.source.name)
            if source != target:
                self.inputs[target] = tuple(dict.fromkeys((*self.inputs.get(target, ()), source)))
                self.inputs.setdefault(source, ())
        return name

    def _open_arrays(self, given: Any) -> None:
        from whence.arrays.planning import Arrays

        self.arrays = Arrays(self.rooms.arrays(), given)
        self.inputs.update(self.arrays.inputs)
        for name, path in self.arrays.sources.items():
            self.inputs[name] = (self._dataset(path),)
            self.arrived.add(name)

    # --- ways

    def between(self, asked: _Asked) -> frozenset[str]:
        """The steps on any way of the question; sources are no steps."""
        made, source = (asked.start, asked.to) if asked.direction == BACKWARD else (asked.to, asked.start)
        found = self._ways(made, source)
        if not found and made != source:
            raise NoWay(
                f"No way leads {asked.direction} from {asked.start} to {asked.to}: {made} is not made from {source}."
            )
        return frozenset(step for step in found if self.inputs.get(step) and step not in self.arrived)

    def _ways(self, made: str, source: str) -> set[str]:
        behind = self._behind(made)
        if source not in behind:
            return set()
        return {step for step in behind if step != source and source in self._behind(step)}

    def _behind(self, step: str) -> set[str]:
        found: set[str] = set()
        waiting = [step]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting.extend(self.inputs.get(one, ()))
        return found

    # --- costs

    def costs(
        self, asked: set[str], questions: Sequence[Question], force: Mapping[str, Sequence[str]]
    ) -> dict[str, dict[str, Cost]]:
        found: dict[str, dict[str, Cost]] = {}
        if self.arrays is not None:
            found.update(self.arrays.costs(questions, force))
        for name, df, _ in self.frames:
            from whence.sql.planning import query_of

            found[name] = query_costs(query_of(self.rooms.catalyst(), df, asked=name in asked))
        for name, rdd in self.rdds.items():
            from whence.rdd.planning import program_of

            found[name] = program_costs(program_of(rdd))
        for name, read in self.inputs.items():
            if read and name not in found and name not in self.arrived and (name in asked or name in force):
                found[name] = query_costs(self._written(name, name in asked))
        return found

    def _written(self, table: str, asked: bool) -> Query:
        """A table as the run that last wrote it was seen."""
        catalog = self.rooms.catalog()
        seconds, rows = 1.0, 100_000
        versions = catalog.versions(table)
        run = catalog.run(versions[-1].run) if versions and versions[-1].run else None
        if run is not None:
            if run.started is not None and run.ended is not None:
                seconds = max((run.ended - run.started).total_seconds(), 0.01)
            rows = sum(use.rows or 0 for use in catalog.inputs(run)) or rows
        return Query(seconds, rows, groups=True, written=True, asked=asked)


def _last(name: str) -> str:
    """The last part of a path or of a table's name."""
    return name.rstrip("/").rsplit("/", 1)[-1] if "/" in name else name.rsplit(".", 1)[-1]


def _texts(given: Any) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
