"""The book of the run that is going on: every RDD, stage, table, result and save of a LineageContext."""

from __future__ import annotations

import itertools
import os
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.accumulators import AccumulatorParam

from whence.model.quiet import AGAIN, QUIET, tagged
from whence.rdd.books import Result, Save, Source, Told, write_book
from whence.rdd.stages import Base, Node, StageInfo, Step
from whence.rdd.walk import Key, Tables
from whence.rdd.worker import LOCAL_DIRS, Segment, Shuffle
from whence.spark.carrying import SCRATCH, Carriers
from whence.spark.hadoop_files import HadoopFiles
from whence.store import Files

if TYPE_CHECKING:
    from whence.rdd.again import Instead
    from whence.rdd.lineage_rdd import LineageRDD
    from whence.rdd.reading import Reading

_DESCRIPTION = "spark.job.description"


class Commits(AccumulatorParam[list[Any]]):
    """Spark adds what a task says only if the task wins, so this list names the tables that count."""

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:
        value1.extend(value2)
        return value1


class _Here(threading.local):
    """What one thread is doing: asking (a trace), making the inner steps of a composite, under which name."""

    def __init__(self) -> None:
        self.asking = self.depth = 0
        self.names: list[str] = []
        self.strategy: str | None = None  # of the result that an action computes, where a plan names it


class LiveBook:
    def __init__(self, spark: SparkContext, store: Files) -> None:
        self.spark = spark
        self.run = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.runs = store.below("rdd")
        self.files = self.runs.below(self.run)
        self.tables = Tables(self.files)
        self.carriers = Carriers(self.files, self.run) if isinstance(self.files, HadoopFiles) else None
        self.here = _Here()
        self.making = threading.RLock()  # what an RDD is computed by is made once, whichever thread asks
        self.ids = itertools.count()
        self.commits = spark.accumulator([], Commits())
        self.stages: dict[int, StageInfo] = {}
        self.committed: dict[tuple[int, int], dict[int, tuple[int, int, str | None]]] = {}
        self.readers: dict[tuple[int, int], Key] = {}
        self.computed: dict[int, tuple[LineageRDD, int | None]] = {}
        self.seconds: dict[int, float] = {}  # of the last action that computed all of an RDD, by its node
        self.shown: set[int] = set()  # results that an action gave to the program
        self.handed: dict[int, LineageRDD] = {}  # by the JVM's RDD id: what DataFrames were made from
        self.bridges: dict[int, Any] = {}  # the same, with what is known about their rows (opening.HandedOver)
        self.handed_nodes: set[int] = set()
        self.pins: dict[int, tuple[Key, ...]] = {}  # of a result: the tables that a DataFrame's rows are told by
        self.saves: list[Save] = []
        self.source_rdds: dict[int, LineageRDD] = {}
        self.readings: dict[int, Reading] = {}  # what sources read
        self.inner: dict[tuple[int, ...], LineageRDD] = {}
        self.instead: ContextVar[Instead | None] = ContextVar("instead", default=None)  # for a thread of its own

    @property
    def directory(self) -> str:
        return self.files.root

    @property
    def written_to(self) -> str:
        """Where tasks write tables: in the store, or on their own machine, from where they are carried to it."""
        return self.directory if self.carriers is None else f"{LOCAL_DIRS}/{SCRATCH}/{self.run}"

    # --- what threads are doing

    @contextmanager
    def job(self, what: str) -> Iterator[None]:
        """A job of whence's own: it says in Spark's pages what it is for, and the catalogue leaves it out. Where it
        runs the user's functions, that is once more."""
        users: Any = self.spark.getLocalProperty(_DESCRIPTION)
        self.spark.setJobDescription(f"whence: {what}")
        try:
            with tagged(self.spark, QUIET, AGAIN):
                yield
        finally:
            self.spark.setJobDescription(users)

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Within, everything is captured, whatever is switched off: a trace needs it."""
        self.here.asking += 1
        try:
            yield
        finally:
            self.here.asking -= 1

    def label(self, name: str) -> str:
        return self.here.names[-1] if self.here.names else name

    @contextmanager
    def naming(self, name: str) -> Iterator[None]:
        self.here.names.append(name)
        try:
            yield
        finally:
            self.here.names.pop()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Nodes made in here are steps of a composite transformation."""
        self.here.depth += 1
        try:
            yield
        finally:
            self.here.depth -= 1

    # --- what the program is made of

    def new_node(self, name: str, inputs: tuple[Node, ...], source: bool = False) -> Node:
        return Node(next(self.ids), name, inputs, hidden=self.here.depth > 0, source=source)

    def new_stage(
        self,
        base: Base,
        steps: tuple[Step, ...],
        node: Node | None,
        partitions: int,
        made: list[Segment],
        shuffle: Shuffle | None,
    ) -> StageInfo:
        reads = tuple(base.sources()) if base.sources is not None else ()
        for number in {n for n, _ in reads}:
            if number in self.readings:
                self.readings[number].load()  # the files as they are now, before the job reads them
        info = StageInfo(next(self.ids), base, steps, node, partitions, made, shuffle, reads)
        self.stages[info.id] = info
        return info

    # --- what was computed

    def take_commits(self) -> None:
        """Enter what finished tasks reported."""
        with self.making:
            reported, self.commits._value = self.commits.value, []
            lost = self.carriers.failures() if self.carriers is not None and reported else {}
            for stage, part, attempt, size, n_out, error in reported:
                if self.carriers is not None:
                    error = lost.get((stage, part, attempt), error or self.carriers.broken)
                # Others may be reading the old one.
                self.committed[stage, part] = {**self.committed.get((stage, part), {}), attempt: (size, n_out, error)}
                if error is not None:
                    self.tables.errors[stage, part, attempt] = error
                    continue
                info = self.stages.get(stage)
                if info is not None and info.reads:
                    self.readers[info.reads[part]] = (stage, part, attempt)

    def whole(self, stage: int, part: int) -> list[int]:
        """The attempts at a partition whose tables are there, oldest first."""
        return [a for a, (_, _, error) in self.committed.get((stage, part), {}).items() if error is None]

    def note_result(self, rdd: LineageRDD, limit: int | None, shown: bool) -> None:
        """An action computed this RDD, or its first `limit` records."""
        with self.making:
            before = self.computed.get(rdd.node.id)
            if before is None or (before[1] is not None and (limit is None or limit > before[1])):
                self.computed[rdd.node.id] = (rdd, limit)
            if shown:
                self.shown.add(rdd.node.id)

    def written(self) -> list[Result]:
        """The results whose tables are there; nothing is computed for this."""
        found = []
        for rdd, limit in list(self.computed.values()):
            info = rdd._committed_stage()
            if info is None:
                continue
            keys = tuple(
                (info.id, part, attempts[-1])
                for part in range(info.partitions)
                if (attempts := self.whole(info.id, part))
            )
            if keys:
                found.append(Result(rdd.node.id, keys, limit, rdd.node.id in self.shown))
        return found

    def results(self) -> list[Result]:
        """The results; what was computed without capture, or not to its end, is computed now."""
        found = [self.result(rdd, limit) for rdd, limit in list(self.computed.values())]
        told = {result.node for result in found}
        handed = {rdd.node.id: rdd for rdd in list(self.handed.values())}
        return found + [self.result(rdd) for node, rdd in handed.items() if node not in told]

    def result(self, rdd: LineageRDD, limit: int | None = None) -> Result:
        from whence.rdd.capture import captured

        node = rdd.node.id
        shown = node in self.shown or node in self.handed_nodes or node not in self.computed
        return Result(node, self.pins.get(node) or tuple(captured(rdd)), limit, shown)

    def write(self) -> None:
        """So that other processes can trace what was computed so far."""
        self.take_commits()
        results = self.written()
        if results:
            write_book(self, results)

    # --- what a trace asks (books.Book)

    @property
    def nodes(self) -> Mapping[int, Told]:
        made = [rdd.node for rdd, _ in list(self.computed.values())]
        return program(made + [rdd.node for rdd in list(self.handed.values())])

    @property
    def read(self) -> tuple[int, ...]:
        return tuple(self.source_rdds)

    def name_of(self, node: int) -> str:
        if node in self.computed:
            return self.computed[node][0].node.name
        told = self.nodes.get(node)
        return told.name if told is not None else "RDD"

    def source(self, node: int) -> Source:
        rdd = self.source_rdds[node]
        reading = self.readings.get(node)
        return Source(rdd.node.name) if reading is None else reading.source(rdd.node.name)


def program(results: Iterable[Node]) -> dict[int, Told]:
    """These RDDs and what they were made from, hidden steps looked through."""
    found: dict[int, Told] = {}
    todo = list(results)
    while todo:
        node = todo.pop()
        if node.id in found:
            continue
        inputs = _visible(node.inputs)
        found[node.id] = Told(node.name, tuple(n.id for n in inputs))
        todo.extend(inputs)
    return found


def _visible(nodes: Iterable[Node]) -> list[Node]:
    found: dict[int, Node] = {}
    todo = list(nodes)
    while todo:
        node = todo.pop(0)
        if node.hidden:
            todo = [*node.inputs, *todo]
        else:
            found[node.id] = node
    return list(found.values())
