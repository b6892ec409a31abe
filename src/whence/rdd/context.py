"""LineageContext: the session's SparkContext, whose RDDs know their lineage."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pyspark import RDD, SparkContext

from whence.model import StoreError, WhenceError
from whence.rdd.books import BOOK, PastBook
from whence.rdd.capture import captured
from whence.rdd.frames import Frames, frame_of
from whence.rdd.jobs import walking
from whence.rdd.lineage_rdd import LineageRDD
from whence.rdd.live_book import LiveBook
from whence.rdd.propagate import write_full
from whence.rdd.reading import LINES, OBJECTS, Reading
from whence.rdd.ship import ship
from whence.rdd.stages import Base, Node, source_base
from whence.rdd.wire import Tagged
from whence.spark.rdds import in_certain_order
from whence.store import Files, files_at
from whence.store.files import is_url
from whence.strategy import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from whence.rdd.flow import RddFlow
    from whence.store.producers import Producers

LARGE = 200_000  # records; traces of more are walked and read by Spark jobs
STRATEGIES = ("stored", "propagated", "rerun")


def step_name(node: Node) -> str:
    """What a result is called in plans."""
    return f"{node.name} {node.id}"


class LineageContext(SparkContext):
    """Everything of a SparkContext. `capture` switches whether actions write lineage; off, RDDs are plain PySpark's."""

    def __init__(
        self, spark: SparkContext, store: str | Files, producers: Callable[[], Producers] | None = None
    ) -> None:
        """`producers`: where files and results are told to the other front ends and to later processes."""
        if isinstance(store, str) and is_url(store):
            raise StoreError(
                f"The lineage of RDDs cannot be kept at {store} by a context of its own, which has no session to reach "
                "it with: attach(spark, store=...).context is one that does."
            )
        self.spark = spark
        self.capture = True
        self.book = LiveBook(spark, files_at(store))
        self._strategy: str | Plan = "stored"
        self._producers = producers
        if str(spark.master).startswith("local") and "PYSPARK_PYTHON" not in os.environ:
            # PySpark takes the first `python3` of the path, which need not be the one whence is installed for.
            spark.pythonExec = sys.executable
        ship(spark)
        if self.book.carriers is None:  # tables elsewhere are fetched by the driver, which then may as well walk them
            self.book.tables.elsewhere = walking(self)
        self.large = LARGE
        self._frames = Frames()
        self.tracing: Callable[[LineageRDD], Any] | None = None  # makes a Trace; set by the session

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
        return self.book.here.asking > 0 or (self.capture and self._followed != "rerun")

    @property
    def _followed(self) -> str:
        here = self.book.here.strategy
        if here is not None:
            return here
        return "stored" if isinstance(self._strategy, Plan) else self._strategy

    @contextmanager
    def _computing(self, rdd: LineageRDD, whole: bool = True) -> Iterator[None]:
        """Within, an action computes this RDD: the plan's word on it counts, and how long the whole of it takes is
        noted."""
        here, name = self.book.here, step_name(rdd.node)
        before = here.strategy
        if isinstance(self._strategy, Plan) and name in self._strategy:
            here.strategy = next((s for s in self._strategy[name] if s in STRATEGIES), None)
        started = time.perf_counter()
        try:
            yield
            if whole:
                self.book.seconds[rdd.node.id] = time.perf_counter() - started
        finally:
            here.strategy = before

    @property
    def large(self) -> int:
        """Up to how many records a trace is answered by the driver; larger ones are by Spark jobs."""
        return self.book.tables.large

    @large.setter
    def large(self, records: int) -> None:
        self.book.tables.large = records

    def runs(self) -> list[RddFlow]:
        """Runs in the store, oldest first; also those of other processes. One that is damaged is warned of."""
        from whence.rdd.flow import RddFlow

        runs = self.book.runs
        found = []
        written = {run: runs.changed(run, BOOK) for run in runs.names()}
        for run in sorted((run for run, when in written.items() if when), key=lambda run: written[run]):
            try:
                found.append(RddFlow(PastBook(runs.below(run))))
            except StoreError as failed:
                warnings.warn(f"A run is left out: {failed}", stacklevel=2)
        return found

    def _computed(self, rdd: LineageRDD, limit: int | None, shown: bool = True) -> None:
        """An action computed this RDD, or its first `limit` records."""
        self.book.note_result(rdd, limit, shown)
        if self._followed == "propagated" and limit is None:
            keys = captured(rdd)
            files = self.book.files
            if keys and self.book.carriers is not None:
                for key in keys:
                    write_full(files, key)
            elif keys:
                with self.book.job("putting lineage together"):
                    self.spark.parallelize(keys, len(keys)).map(lambda key: write_full(files, key)).count()

    # Sources

    def of(self, df: DataFrame) -> LineageRDD:
        """The rows of a DataFrame, as `df.rdd` gives them; a trace goes on from them into its query."""
        plain = df.rdd
        if self.capture and not in_certain_order(plain):
            # Rows would come in another order when a trace reads them again: they are kept as they come now.
            plain.localCheckpoint()
        return self._source("DataFrame", plain, Reading(plain, "DataFrame", df))

    def _source(self, name: str, plain: RDD[Any], reading: Reading | None = None) -> LineageRDD:
        node = Node(next(self.book.ids), name, (), source=True)
        made = LineageRDD(self, source_base(node, plain), (), lambda: plain)
        self.book.source_rdds[node.id] = made
        if reading is None and name in LINES + OBJECTS:
            reading = Reading(plain, name)
        if reading is not None:
            self.book.readings[node.id] = reading
        return made

    def _lineage(self, rdd: RDD[Any]) -> LineageRDD:
        """A plain RDD among LineageRDDs is a source."""
        if isinstance(rdd, LineageRDD):
            return rdd
        frame, derived = frame_of(rdd)
        if frame is None:
            return self._source("RDD", rdd)
        if not derived and in_certain_order(rdd):
            return self._source("DataFrame", rdd, Reading(rdd, "DataFrame", frame))
        made = "plain PySpark made these records from a DataFrame" if derived else "these rows come in no certain order"
        why = f"RDD: {made}, so the way ends at them; lc.of(df) in the place of df.rdd would follow it"
        return self._source("RDD", rdd, Reading(rdd, "RDD", why=why))

    def union(self, rdds: list[RDD[Any]]) -> LineageRDD:
        return self._union([self._lineage(r) for r in rdds], pairwise=False)

    def _union(self, rdds: list[LineageRDD], pairwise: bool) -> LineageRDD:
        node = self.book.new_node("union", tuple(r.node for r in rdds))

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
        self.book.take_commits()
        files = self.book.files
        for stage in filter(str.isdigit, files.names()):
            for name in files.names(stage):
                part, _, attempt = name.removesuffix(".full").partition("-")
                known = self.book.committed.get((int(stage), int(part)), {}) if part.isdigit() else {}
                if not attempt.isdigit() or int(attempt) not in known:
                    with suppress(OSError, StoreError):  # what others put there, or a link, is theirs
                        files.delete(stage, name)

    def close(self) -> None:
        """Write down what the run computed, so that other processes can trace it, and sweep."""
        self.sweep()
        self.publish()
        self._frames.close()
        self.capture = False

    def publish(self) -> None:
        """Let other processes trace what was computed so far."""
        self.book.write()
        if self._producers is not None:
            from whence.rdd.saves import products

            self._producers().add(products(self.book))

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
