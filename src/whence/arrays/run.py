"""A run of a workflow: its arrays, and questions about where their cells come from."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.access import Access, Asking, Found
from whence.arrays.cells import Cells, Numbers, Shape, as_set, size_of
from whence.arrays.columns import Columns
from whence.arrays.encodings import BACKWARD, FORWARD, STORED, Encoding, Strategy
from whence.arrays.encodings.rerun import Again, Rerun, Reruns
from whence.arrays.errors import ArrayError
from whence.arrays.folder import Folder
from whence.arrays.maps import Maps
from whence.arrays.operator import Mode, modes_of
from whence.arrays.query import Query
from whence.arrays.remembered import Memory
from whence.arrays.tables import Tables
from whence.arrays.ways import Jump, Leg, Ways
from whence.arrays.workflow import Node, Workflow
from whence.model import SessionClosed
from whence.strategy.costs import Answered, Observed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_REMEMBERED = 1000  # steps of queries whose times are kept with a run
_ALL_REMEMBERED = 500  # steps until which every query is remembered, and then every tenth
_WAIT = 1.0  # seconds between two times that this is written down


@dataclass(frozen=True)
class Stats:
    """What one operator did in a run. `bytes` are of lineage; `overhead` is the part of `seconds` that was for it."""

    strategies: tuple[str, ...]
    bytes: int
    seconds: float
    overhead: float
    notes: tuple[str, ...] = ()


class ByNode(Mapping[Any, Any]):
    """Something for each operator; asked by node or by name."""

    def __init__(self, workflow: Workflow, values: Mapping[Node, Any]) -> None:
        self._workflow, self._values = workflow, values

    def __getitem__(self, node: Any) -> Any:
        found = self._workflow.find(node)
        if found not in self._values:
            raise ArrayError(f"{found.name} is an input: no operator made it.")
        return self._values[found]

    def __iter__(self) -> Iterator[Node]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return "\n".join(f"{node.name}: {value}" for node, value in self._values.items())


class Run:
    """Made by `Session.execute` and `Session.reopen`. It reads what it needs from the store when it is asked."""

    def __init__(
        self,
        folder: Folder,
        *,
        workflow: Workflow | None = None,
        is_open: Callable[[], bool] = lambda: True,
        tables: Tables | None = None,
    ) -> None:
        """`workflow`: the one that was executed, in the process that did; elsewhere it is made anew."""
        self._folder = folder
        self._about = folder.about()
        self._is_open = is_open
        self._tables = tables
        self.id: str = self._about["id"]
        self.workflow = workflow or _workflow(self._about, folder)
        self._told = dict(zip(self.workflow.nodes, self._about["nodes"], strict=True))
        self._number = {node: number for number, node in enumerate(self.workflow.nodes)}
        self._arrays: dict[Node, Any] = {}
        self._accesses: dict[Node, Access] = {}
        self._lock = threading.RLock()
        self._remembered = self._queries = 0
        self._memory = Memory(folder.path)
        self._ways = Ways(self._access, lambda node: size_of(self.shape(node)))
        self._notes: list[tuple[int, Answered]] = []
        self._settled = float("-inf")

    # --- arrays

    def __getitem__(self, node: Any) -> Any:
        """The array, read-only: of a chunked run something that np.asarray and indexing read."""
        self._require_open()
        return self.array(self.workflow.find(node))

    def array(self, node: Node) -> Any:
        with self._lock:
            if node not in self._arrays:
                self._arrays[node] = self._opened(node)
            return self._arrays[node]

    def _opened(self, node: Node) -> Any:
        if self._about.get("chunks"):
            from whence.arrays.chunked.stored import open_array

            return open_array(self._folder.path / f"{self._number[node]}.zarr", self.shape(node))
        return self._folder.array(self._number[node])

    def shape(self, node: Any) -> Shape:
        return tuple(self._told[self.workflow.find(node)]["shape"])

    # --- lineage

    def backward(self, node: Any, cells: Any, to: Any, path: Any = None, optimise: bool = True) -> Cells:
        """The cells of `to` that these cells of `node` were made from."""
        return self._ask(BACKWARD, node, cells, to, path, optimise)

    def forward(self, node: Any, cells: Any, to: Any, path: Any = None, optimise: bool = True) -> Cells:
        """The cells of `to` that these cells of `node` reach."""
        return self._ask(FORWARD, node, cells, to, path, optimise)

    def _ask(self, direction: str, node: Any, cells: Any, to: Any, path: Any, optimise: bool) -> Cells:
        self._require_open()
        start, end = self.workflow.find(node), self.workflow.find(to)
        asked = as_set(cells, self.shape(start), f"the array {start.name}")
        query, asking = self.query(direction), Asking(optimise)
        if path is None:
            found = query.along_all(start, asked, end, asking)
        else:
            found = query.along(asked, self._steps(query, direction, start, end, path, optimise), asking)
        self.remember(asking)
        # A cell that nothing was written of has no lineage: that is exact, and worth a note where all cells are so.
        widened = any(not note.startswith("No way leads") for note in query.notes)
        return Cells.of(found, self.shape(end), (*query.notes, *query.ended), exact=not widened)

    def _steps(
        self, query: Query, direction: str, start: Node, end: Node, path: Any, optimise: bool
    ) -> tuple[Leg | Jump, ...]:
        """The steps of a path: as they were walked before, put together where that was worth it."""
        if not optimise or not isinstance(path, (list, tuple)) or not all(map(_is_plain, path)):
            return query.legs(start, end, path)
        way = (direction, start, end, *path)
        known = self._ways.get(way, direction)
        if known is not None:
            return known
        legs = query.legs(start, end, path)
        self._ways.keep(way, legs)
        return legs

    def query(self, direction: str) -> Query:
        return Query(self.workflow, direction, self._step, self.shape)

    def _step(self, node: Node, direction: str, cells: Numbers, i: int, asking: Asking) -> Found:
        return self._access(node).step(direction, cells, i, asking)

    def _access(self, node: Node) -> Access:
        with self._lock:
            if node not in self._accesses:
                self._accesses[node] = self._made_access(node)
            return self._accesses[node]

    def _made_access(self, node: Node) -> Access:
        assert node.operator is not None
        told = self._told[node]
        maps = Maps(node.operator, tuple(self.shape(below) for below in node.inputs), self.shape(node))
        strategies = tuple(Strategy.parse(text) for text in told["strategies"])
        stored = {s: partial(self._read, node, s, maps) for s in strategies if s.is_stored}
        silent = frozenset(Mode(mode) for mode in told.get("silent", ()))
        return Access(node, maps, strategies, stored, self._rerun(node, maps), told["traced"], silent)

    def _rerun(self, node: Node, maps: Maps) -> Reruns:
        if told_chunked(self._told[node]):
            from whence.arrays.chunked.stored import ChunkedRerun

            step: int = self._about["chunks"]
            return ChunkedRerun(
                maps, node.name, lambda: [self.array(below) for below in node.inputs], lambda: self.array(node), step
            )
        return Rerun(
            maps,
            node.name,
            lambda: [np.asarray(self.array(below)) for below in node.inputs],
            lambda: np.asarray(self.array(node)),
        )

    def traced_again(self, node: Node) -> Again | None:
        """What an operator tells when it is run once more; None for one that says nothing about its lineage."""
        access = self._access(node)
        return self._rerun(node, access.maps).trace() if access.is_known else None

    def _read(self, node: Node, strategy: Strategy, maps: Maps) -> Encoding:
        path = self._folder.path / lineage_name(self._number[node], strategy)
        if told_chunked(self._told[node]):
            from whence.arrays.chunked.stored import ChunkedEncoding

            return ChunkedEncoding(path, strategy, maps, self._about["chunks"])
        return STORED[strategy.encoding].open(Columns.read(path), maps, strategy.direction)

    # --- what it cost

    @property
    def stats(self) -> ByNode:
        self._require_open()
        made = {}
        for node, told in self._told.items():
            if node.operator is not None:
                notes = tuple(told.get("notes", ()))
                made[node] = Stats(tuple(told["strategies"]), told["bytes"], told["seconds"], told["overhead"], notes)
        return ByNode(self.workflow, made)

    @property
    def observed(self) -> Mapping[Node, Observed]:
        """All that is known about each operator: what the chooser works from."""
        self.settle()
        answered: dict[int, list[Answered]] = {}
        with suppress(OSError, ValueError):
            for line in (self._folder.path / "asked.jsonl").read_text("utf-8").splitlines():
                told = json.loads(line)
                answered.setdefault(told.pop("node"), []).append(Answered(**told))
        made = {}
        for node, told in self._told.items():
            if "observed" in told:
                about = {**told["observed"], "answered": ()}
                known = Observed.from_json(about)
                made[node] = _with_answers(known, answered.get(self._number[node], []))
        return made

    def remember(self, asking: Asking) -> None:
        """Keep what the steps of a query took, for the chooser."""
        self._queries += 1
        seldom = self._remembered >= _ALL_REMEMBERED and self._queries % 10
        if self._remembered >= _MOST_REMEMBERED or seldom or not asking.told:
            return
        self._remembered += len(asking.told)
        for (node, told), (i, cells) in zip(asking.told, asking.cells, strict=True):
            assert node.operator is not None
            self._notes.append((self._number[node], told))
            if Mode.MAP not in modes_of(node.operator):
                self._memory.keep(self._number[node], told.direction, cells, i)
        self._folder.waiting.add(self)
        if monotonic() > self._settled + _WAIT:
            self.settle()

    def settle(self) -> None:
        """Write down what was not yet. Doing so after every question would take longer than most of them do."""
        with self._lock:
            notes, self._notes = self._notes, []
            self._settled = monotonic()
        self._folder.waiting.discard(self)
        if not notes:
            return
        lines = [json.dumps({"node": number, **_as_json(told)}) for number, told in notes]
        with suppress(OSError):  # a store that may only be read
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            with os.fdopen(os.open(self._folder.path / "asked.jsonl", flags, 0o600), "w") as file:
                file.write("\n".join(lines) + "\n")

    # --- as a table

    def frame(self, node: Any, cells: Any = ...) -> DataFrame:
        """A DataFrame with a row for each cell: d0, d1, ... and value. Traces go on through it."""
        self._require_open()
        found = self.workflow.find(node)
        if self._tables is None:
            raise ArrayError(
                f"The run {self.id} was opened without Spark, so that it has no DataFrame of {found.name}."
            )
        asked = None if cells is Ellipsis else as_set(cells, self.shape(found), f"the array {found.name}")
        return self._tables.frame(self, found, asked)

    def number(self, node: Node) -> int:
        return self._number[node]

    @property
    def folder(self) -> Folder:
        return self._folder

    def source(self, node: Node) -> Mapping[str, Any]:
        """Where an input came from."""
        told: Mapping[str, Any] = self._told[node].get("source", {})
        return told

    def __repr__(self) -> str:
        return f"<Run {self.id} of {len(self._told)} arrays>"

    def _require_open(self) -> None:
        if not self._is_open():
            raise SessionClosed


def _is_plain(part: Any) -> bool:
    """A part of a path that is told from others by being equal."""
    return isinstance(part, (str, Node)) or (
        type(part) is tuple and len(part) == 2 and isinstance(part[0], (str, Node)) and type(part[1]) is int
    )


def _as_json(told: Answered) -> dict[str, Any]:
    return {
        "strategy": told.strategy,
        "direction": told.direction,
        "asked": told.asked,
        "found": told.found,
        "seconds": told.seconds,
    }


def told_chunked(told: Mapping[str, Any]) -> bool:
    """Whether the operator ran chunk by chunk."""
    return bool(told.get("by_chunk"))


def lineage_name(number: int, strategy: Strategy) -> str:
    return f"{number}.{strategy.encoding}.{strategy.direction}"


def _workflow(about: Mapping[str, Any], folder: Folder) -> Workflow:
    operators = iter(folder.operators())
    nodes: list[Node] = []
    for told in about["nodes"]:
        operator = None if told["inputs"] is None else next(operators)
        nodes.append(Node(told["name"], operator, tuple(nodes[k] for k in told["inputs"] or ())))
    return Workflow.of(nodes)


def _with_answers(known: Observed, answered: list[Answered]) -> Observed:
    from dataclasses import replace

    return replace(known, answered=tuple(reversed(answered)))


def as_written(node: Node, numbers: Mapping[Node, int]) -> dict[str, Any]:
    """How a node is told in run.json."""
    inputs = None if node.operator is None else [numbers[below] for below in node.inputs]
    return {"name": node.name, "inputs": inputs}


def described(array: NDArray[Any]) -> dict[str, Any]:
    return {"shape": [int(n) for n in array.shape], "dtype": str(array.dtype)}
