"""LineageContext: the session's SparkContext, whose RDDs know their lineage."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark import RDD, SparkContext
from pyspark.accumulators import AccumulatorParam

from whence.model import StoreError, WhenceError
from whence.model.quiet import AGAIN, QUIET, tagged
from whence.rdd.capture import captured
from whence.rdd.jobs import walking
from whence.rdd.lineage_rdd import LineageRDD
from whence.rdd.past import BOOK, PastRun, Result, write_book
from whence.rdd.propagate import write_full
from whence.rdd.records import text_lines
from whence.rdd.ship import ship
from whence.rdd.stages import Base, Node, StageInfo, Step, source_base
from whence.rdd.textfiles import Split, split_of
from whence.rdd.walk import Place, Tables
from whence.rdd.wire import Tagged
from whence.rdd.worker import Segment, Shuffle
from whence.strategy import Plan

if TYPE_CHECKING:
    from whence.rdd.again import Instead

LARGE = 200_000  # records; traces of more are walked and read by Spark jobs
STRATEGIES = ("stored", "propagated", "rerun")
_DESCRIPTION = "spark.job.description"


def step_name(node: Node) -> str:
    """What a result is called in plans and in the books of a run."""
    return f"{node.name} {node.id}"


class Commits(AccumulatorParam[list[Any]]):
    """Spark adds what a task says only if the task wins, so this list names the tables that count."""

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:
        value1.extend(value2)
        return value1


class _Splits:
    """How Hadoop cut a text file, asked of the JVM when first needed; the files' state is noted then."""

    def __init__(self, plain: RDD[Any]) -> None:
        self._plain = plain
        self._found: list[Split] | None = None

    def load(self) -> list[Split]:
        if self._found is None:
            hadoop = self._plain._jrdd.rdd().dependencies().head().rdd()
            cut = [p.inputSplit().value() for p in hadoop.partitions()]
            self._found = [split_of(str(s.getPath().toString()), s.getStart(), s.getLength()) for s in cut]
        return self._found

    def __getitem__(self, part: int) -> Split:
        return self.load()[part]


class _Here(threading.local):
    """What one thread is doing: asking (a trace), making the inner steps of a composite, under which name."""

    def __init__(self) -> None:
        self.asking = self.depth = 0
        self.names: list[str] = []
        self.strategy: str | None = None  # of the result that an action computes, where a plan names it


class LineageContext(SparkContext):
    """Everything of a SparkContext. `capture` switches whether actions write lineage; off, RDDs are plain PySpark's."""

    def __init__(self, spark: SparkContext, store: str) -> None:
        self.spark = spark
        self.capture = True
        self._strategy: str | Plan = "stored"
        self._here = _Here()
        self._making = threading.RLock()  # what an RDD is computed by is made once, whichever thread asks
        if str(spark.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
            # PySpark takes the first `python3` of the path, which need not be the one whence is installed for.
            spark.pythonExec = sys.executable
        ship(spark)
        self._run = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._directory = str(Path(store).absolute() / "rdd" / self._run)
        self._commits = spark.accumulator([], Commits())
        self._ids = itertools.count()
        self._stages: dict[int, StageInfo] = {}
        self._tables: dict[tuple[int, int], dict[int, tuple[int, int, str | None]]] = {}
        self._results: dict[int, tuple[LineageRDD, int | None]] = {}
        self._sources: dict[int, LineageRDD] = {}
        self._seconds: dict[int, float] = {}  # of the last action that computed an RDD, by its node
        self._inner: dict[tuple[int, ...], LineageRDD] = {}
        self._splits: dict[int, _Splits] = {}
        self._instead: ContextVar[Instead | None] = ContextVar("instead", default=None)  # for a thread of its own
        self._open = Tables(self._directory)
        self._open.elsewhere = walking(self)
        self.large = LARGE

    def __getattr__(self, name: str) -> Any:
        if name == "spark":
            raise AttributeError(name)
        return getattr(self.spark, name)

    @property
    def strategy(self) -> str | Plan:
        """How lineage is kept (the paper's section 4.7): "stored", a table for each partition of each stage;
        "propagated", stored, and every result's complete lineage put together beside it when the job ends; "rerun",
        nothing, and a trace runs the job again under capture. Or a plan, which says so for each result; those that it
        does not name are stored."""
        return self._strategy

    @strategy.setter
    def strategy(self, chosen: str | Plan) -> None:
        if not isinstance(chosen, Plan) and chosen not in STRATEGIES:
            raise WhenceError(
                f"There is no strategy {chosen!r} for RDDs: choose one of {', '.join(STRATEGIES)}, or give a plan."
            )
        self._strategy = chosen

    @property
    def capturing(self) -> bool:
        return self._here.asking > 0 or (self.capture and self._followed != "rerun")

    @property
    def _followed(self) -> str:
        if self._here.strategy is not None:
            return self._here.strategy
        return "stored" if isinstance(self._strategy, Plan) else self._strategy

    @contextmanager
    def _computing(self, rdd: LineageRDD, whole: bool) -> Iterator[None]:
        """Within, an action computes this RDD: the plan's word on it counts, and how long the whole of it takes is
        noted."""
        before, name = self._here.strategy, step_name(rdd.node)
        if isinstance(self._strategy, Plan) and name in self._strategy:
            self._here.strategy = next(s for s in self._strategy[name] if s in STRATEGIES)
        started = time.perf_counter()
        try:
            yield
            if whole:
                self._seconds[rdd.node.id] = time.perf_counter() - started
        finally:
            self._here.strategy = before

    @property
    def large(self) -> int:
        """Up to how many records a trace is answered by the driver; larger ones are by Spark jobs."""
        return self._open.large

    @large.setter
    def large(self, records: int) -> None:
        self._open.large = records

    @contextmanager
    def _job(self, what: str) -> Iterator[None]:
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
    def _asked(self) -> Iterator[None]:
        """Within, everything is captured, whatever is switched off: a trace needs it."""
        self._here.asking += 1
        try:
            yield
        finally:
            self._here.asking -= 1

    def runs(self) -> list[PastRun]:
        """Finished runs in the store, oldest first; also those of other processes. One that is damaged is warned of."""
        home = Path(self._directory).parent
        found = []
        for book in sorted(home.glob(f"*/{BOOK}"), key=lambda p: p.stat().st_mtime_ns):
            try:
                found.append(PastRun(book.parent))
            except StoreError as failed:
                warnings.warn(f"A run is left out: {failed}", stacklevel=2)
        return found

    # Books

    def _new_node(self, name: str, inputs: tuple[Node, ...], source: bool = False) -> Node:
        return Node(next(self._ids), name, inputs, hidden=self._here.depth > 0, source=source)

    def _new_stage(
        self,
        base: Base,
        steps: tuple[Step, ...],
        node: Node | None,
        partitions: int,
        made: list[Segment],
        shuffle: Shuffle | None,
    ) -> StageInfo:
        for node_id in {n for n, _ in base.sources()} if base.sources is not None else ():
            if node_id in self._splits:
                self._splits[node_id].load()  # the files as they are now, before the job reads them
        info = StageInfo(next(self._ids), base, steps, node, partitions, made, shuffle)
        self._stages[info.id] = info
        return info

    def _label(self, name: str) -> str:
        return self._here.names[-1] if self._here.names else name

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        self._here.names.append(name)
        try:
            yield
        finally:
            self._here.names.pop()

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Nodes made in here are steps of a composite transformation."""
        self._here.depth += 1
        try:
            yield
        finally:
            self._here.depth -= 1

    def _computed(self, rdd: LineageRDD, limit: int | None) -> None:
        """An action computed this RDD, or its first `limit` records."""
        with self._making:
            before = self._results.get(rdd.node.id)
            if before is None or (before[1] is not None and (limit is None or limit > before[1])):
                self._results[rdd.node.id] = (rdd, limit)
        if self._followed == "propagated" and limit is None:
            keys = captured(rdd)
            directory = self._directory
            if keys:
                with self._job("putting lineage together"):
                    self.spark.parallelize(keys, len(keys)).map(lambda key: write_full(directory, key)).count()

    def _take_commits(self) -> None:
        """Enter what finished tasks reported."""
        with self._making:
            reported, self._commits._value = self._commits.value, []
            for stage, part, attempt, size, n_out, error in reported:
                # Others may be reading the old one.
                self._tables[stage, part] = {**self._tables.get((stage, part), {}), attempt: (size, n_out, error)}
                if error is not None:
                    self._open.errors[stage, part, attempt] = error

    def _where(self, place: Place, position: int) -> str:
        if place.attempt >= 0:
            return f"partition {place.part}, record {position}"
        found = text_lines(self, place, np.array([position]))
        if found is not None:
            split = self._splits[place.stage][place.part]
            return f"{split.local}, byte {found[0][0]}"
        return f"{self._sources[place.stage].node.name}, partition {place.part}, record {position}"

    # Sources

    def _source(self, name: str, plain: RDD[Any]) -> LineageRDD:
        node = Node(next(self._ids), name, (), source=True)
        made = LineageRDD(self, source_base(node, plain), (), lambda: plain)
        self._sources[node.id] = made
        if name == "textFile":
            self._splits[node.id] = _Splits(plain)
        return made

    def _lineage(self, rdd: RDD[Any]) -> LineageRDD:
        """A plain RDD among LineageRDDs is a source."""
        return rdd if isinstance(rdd, LineageRDD) else self._source("RDD", rdd)

    def union(self, rdds: list[RDD[Any]]) -> LineageRDD:
        return self._union([self._lineage(r) for r in rdds], pairwise=False)

    def _union(self, rdds: list[LineageRDD], pairwise: bool) -> LineageRDD:
        node = self._new_node("union", tuple(r.node for r in rdds))

        def twin() -> RDD[Any]:
            plain = [r._plain() for r in rdds]
            return RDD.union(*plain) if pairwise else self.spark.union(plain)

        bases = [r._base for r in rdds]
        raw = all(
            not r._steps and b.sources is not None and b.prelude is None and b.deserializer == bases[0].deserializer
            for r, b in zip(rdds, bases, strict=True)
        )
        if raw:

            def build() -> Any:
                joined = bases[0].jrdd
                for b in bases[1:]:
                    joined = joined.union(b.jrdd)
                return joined

            def sources() -> list[tuple[int, int]]:
                return [place for b in bases for place in b.sources()]  # type: ignore[misc]

            base = Base(node, build, bases[0].deserializer, sources, batch=bases[0].batch, before=tuple(bases))
            return LineageRDD(self, base, (), twin, inputs=tuple(rdds))

        def build_tagged() -> Any:
            joined = rdds[0]._tagged_jrdd(0)
            for r in rdds[1:]:
                joined = joined.union(r._tagged_jrdd(0))
            return joined

        base = Base(node, build_tagged, Tagged(), before=tuple(bases))
        made = LineageRDD(self, base, (), twin, inputs=tuple(rdds))
        alike = pairwise and rdds[0].partitioner is not None and rdds[0].partitioner == rdds[1].partitioner
        if alike and self.capturing and rdds[0].getNumPartitions() == made.getNumPartitions():
            made.partitioner = rdds[0].partitioner
        return made

    def sweep(self) -> None:
        """Remove what tasks left that were killed, failed, or lost to a copy of themselves."""
        self._take_commits()
        if not os.path.isdir(self._directory):
            return
        for stage in os.scandir(self._directory):
            # what others put there is theirs, and a link would lead out of the store
            if not stage.is_dir(follow_symlinks=False) or not stage.name.isdigit():
                continue
            for file in os.scandir(stage.path):
                if file.is_dir(follow_symlinks=False):
                    continue
                part, _, attempt = file.name.removesuffix(".full").partition("-")
                known = self._tables.get((int(stage.name), int(part)), {}) if part.isdigit() else {}
                if not attempt.isdigit() or int(attempt) not in known:
                    os.unlink(file.path)

    def close(self) -> None:
        """Write down what the run computed, so that other processes can trace it, and sweep."""
        self.sweep()
        finished: list[Result] = []
        for rdd, limit in list(self._results.values()):
            info = rdd._committed_stage()
            if info is None:
                continue
            keys = [
                (info.id, part, [a for a, (_, _, error) in found.items() if error is None][-1])
                for part in range(info.partitions)
                if (found := self._tables.get((info.id, part))) and any(error is None for _, _, error in found.values())
            ]
            if keys:
                finished.append(Result(step_name(rdd.node), tuple(keys), limit))
        if finished:
            write_book(self, finished)
        self.capture = False

    def stop(self) -> None:
        self.spark.stop()


def _source_method(name: str) -> Any:
    def make(self: LineageContext, *args: Any, **kwargs: Any) -> LineageRDD:
        plain = getattr(self.spark, name)(*args, **kwargs)
        return self._source(name, plain)

    make.__name__ = name
    make.__doc__ = getattr(SparkContext, name).__doc__
    return make


for _name in [
    "textFile",
    "wholeTextFiles",
    "binaryFiles",
    "binaryRecords",
    "sequenceFile",
    "parallelize",
    "range",
    "emptyRDD",
    "newAPIHadoopFile",
    "newAPIHadoopRDD",
    "hadoopFile",
    "hadoopRDD",
    "pickleFile",
]:
    setattr(LineageContext, _name, _source_method(_name))
