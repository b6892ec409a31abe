"""What a user holds. A Session delegates to the rooms; it does no work of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from whence.model import ConnectUnsupported, ForeignDataFrame, SessionClosed, StoreError
from whence.model.quiet import FACTS
from whence.store import Store

if TYPE_CHECKING:  # pyspark is heavy: `import whence` must stay fast
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

    from whence.actors import Actor, ActorStore, TracingDataflow
    from whence.arrays.folder import Shelf
    from whence.arrays.run import Run as ArrayRun
    from whence.debug.explain.explain import Explanation
    from whence.debug.guard.guard import Guard
    from whence.debug.minimize.minimize import Minimal
    from whence.debug.mining.mined import Mined
    from whence.debug.trace import Trace
    from whence.rdd import LineageContext
    from whence.sql import Catalyst, SqlLineage
    from whence.sql.verify import Verdict
    from whence.sql.why_not import Dropped
    from whence.store.catalog import Catalog
    from whence.strategy import Plan


class Session:
    """One attachment of whence to one Spark session; a context manager."""

    def __init__(self, spark: SparkSession, store: str | Path | None = None) -> None:
        if not hasattr(spark, "_jsparkSession"):
            raise ConnectUnsupported
        self._spark = spark
        self._store = Store.at(store)
        self._closed = False
        self._opening = threading.RLock()  # rooms are opened when first used, once, whichever thread asks
        self._catalyst: Catalyst | None = None
        self._context: LineageContext | None = None
        self._actors: ActorStore | None = None
        from whence.watch import watch

        self._watcher = watch(spark, self._store)

    @property
    def spark(self) -> SparkSession:
        self._require_open()
        return self._spark

    @property
    def catalog(self) -> Catalog:
        """The catalogue, with everything that this application has done so far."""
        self._require_open()
        if self._watcher is not None:
            self._watcher.flush()
        return self._store.catalog

    # --- DataFrames and SQL

    def backward(self, df: DataFrame, *, through: bool = True) -> Trace:
        """The witnesses of these rows: which source rows made them.

        A trace goes on through tables that captured writes made; with `through=False` it ends at them."""
        from whence.debug.trace import Trace

        return Trace(self._lineage(df, through=through))

    def forward(self, df: DataFrame, *, to: DataFrame) -> Trace:
        """Which rows of `to` these source rows touch."""
        from whence.debug.forward import forward

        return forward(self._lineage(df), self._lineage(to))

    def why_not(self, df: DataFrame, *, to: DataFrame) -> tuple[Dropped, ...]:
        """Where each of these source rows dropped out of the query `to`, and why."""
        from whence.sql.why_not import why_not

        return why_not(self._lineage(df), self._lineage(to))

    def verify(self, df: DataFrame, rows: int = 5) -> Verdict:
        """Trace up to `rows` rows of a result and prove each: the witnesses alone must give it again."""
        from whence.debug.forward import verify_rows

        return verify_rows(self._lineage(df), rows)

    @contextmanager
    def capture(self, plan: Plan | None = None) -> Iterator[None]:
        """Within the block, what actions compute is written down where it could not be told afterwards (capture.md).

        `plan`: what is kept of the steps that it names; `w.strategy(...)` makes one (strategy.md)."""
        from whence.sql.capture import Capture

        self._store.make("sql", FACTS)
        with Capture(self._plans(), plan).open():
            yield

    def strategy(
        self,
        limit_disk: float | None = None,
        limit_runtime: float | None = None,
        workload: Iterable[Any] = (),
        force: Mapping[Any, Any] | None = None,
        workflow: Any = None,
    ) -> Plan:
        """What to keep of each step, so that the workload's questions take the least time (strategy.md).

        `limit_disk`: bytes; `limit_runtime`: seconds added to a run; `workload`: (direction, start, to) or (direction,
        start, to, weight); `force`: what a step keeps in any case. The plan is followed by being given to `execute`,
        to `capture`, or to `w.context.strategy`."""
        from whence.debug.planning import Rooms, plan_of

        self._require_open()
        rooms = Rooms(self._plans, lambda: self.catalog, self._shelf, self._require_ours)
        return plan_of(rooms, limit_disk, limit_runtime, workload, force, workflow)

    def explain(self, bad: DataFrame, good: DataFrame, **options: Any) -> Explanation:
        """Which conditions on columns set the bad rows apart from the good ones."""
        from whence.debug.explain.explain import explain

        self._require_open()
        return explain(bad, good, **options)

    def _lineage(self, df: DataFrame, *, through: bool = True) -> SqlLineage:
        from whence.sql import SqlLineage

        self._require_open()
        self._require_ours(df)
        return SqlLineage(self._plans(), df, through=through)

    def _plans(self) -> Catalyst:
        from whence.sql import Catalyst

        with self._opening:
            self._require_open()
            if self._catalyst is None:
                made = Catalyst(self._spark)
                made.memory.folder = self._store.tables.location("sql")
                made.memory.seal = self._store.seal
                self._catalyst = made
            return self._catalyst

    def _require_ours(self, df: DataFrame) -> None:
        theirs = getattr(getattr(df, "sparkSession", None), "_sc", None)
        if not hasattr(df, "_jdf") or theirs is not self._spark._sc:
            raise ForeignDataFrame(
                "This is not a DataFrame of the Spark application that whence is attached to. "
                "Attach to its own session: whence.attach(df.sparkSession)."
            )
        if self._spark._sc._jsc is None:
            raise ForeignDataFrame("The Spark session of this DataFrame is stopped; start one and attach to it.")

    # --- RDDs

    @property
    def context(self) -> LineageContext:
        """The session's SparkContext, whose RDDs know their lineage."""
        with self._opening:
            self._require_open()
            if self._context is None:
                from whence.rdd import LineageContext

                self._store.make()
                self._context = LineageContext(self._spark.sparkContext, str(self._files))
            return self._context

    @property
    def _files(self) -> Path:
        """Where the rooms that write files of their own put them: in the store's directory, or beside its tables."""
        location = self._store.location
        return location.directory or Path(location.tables)

    # --- any code: actors

    @property
    def actors(self) -> ActorStore:
        """Everything about actors that is not a method here; `whence.actors.ActorStore` is the door without Spark."""
        with self._opening:
            self._require_open()
            if self._actors is None:
                from whence.actors import ActorStore
                from whence.rdd.ship import ship

                self._store.make()
                ship(self._spark.sparkContext)
                self._actors = ActorStore(self._files / "actors")
            return self._actors

    def register(self, name: str, kind: str = "actor", parents: Sequence[Actor | str] = (), **options: Any) -> Actor:
        """A new actor, for capture in any code; it may be sent to executors (docs/actors.md)."""
        return self.actors.register(name, kind, parents, **options)

    def flow_link(self, giver: Actor | str, taker: Actor | str) -> None:
        """What `giver` puts out, `taker` takes in."""
        self.actors.flow_link(giver, taker)

    def trace(self, records: Any, direction: str = "backward", root: Any = None) -> TracingDataflow:
        """Follow records through actors; for DataFrames ask `backward` and `forward`."""
        return self.actors.trace(records, direction, root)

    def mine(self, root: Any, bad: Any = None, good: Any = ()) -> Mined:
        """Operators and instances whose output multiplicity stands out, most suspicious first (docs/debug.md)."""
        from whence.debug.mining.mine import mine

        return mine(self, root, bad, good)

    def guard(self, on_error: str = "raise") -> Guard:
        """`with w.guard():` around actions: an error in Python code gains the record that caused it (docs/debug.md)."""
        from whence.debug.guard.guard import guard

        self._store.make()
        return guard(self, self._files / "culprits", on_error)

    def minimize(
        self,
        asked: DataFrame | RDD[Any],
        fails: Callable[[list[Any]], bool],
        rows: list[Any] | None = None,
        **limits: Any,
    ) -> Minimal:
        """The smallest set of source rows on which this query, or this program of RDDs, still fails: delta debugging
        over the witnesses.

        `tests=` and `seconds=` limit the search (docs/debug.md)."""
        from whence.debug.minimize.minimize import minimize

        self._require_open()
        return minimize(self, asked, fails, rows, **limits)

    def clean(self, root: Any, *args: Any, **options: Any) -> Any:
        """Trace the worst outputs of an actor or a query, exclude what made them at the best stage, run again."""
        from whence.debug.clean import clean, clean_frame

        if hasattr(root, "_jdf"):
            return clean_frame(self, root, *args, **options)
        return clean(self.actors, root, *args, **options)

    # --- arrays

    def execute(
        self,
        wf: Any,
        inputs: Mapping[Any, Any] | None = None,
        strategies: Any = None,
        limit_disk: float | None = None,
        chunks: int | None = None,
    ) -> ArrayRun:
        """Run a workflow over arrays, or what numpy code on recorded arrays did, and keep it (docs/arrays.md)."""
        from whence.arrays.execute import execute

        shelf = self._shelf()
        return execute(shelf, wf, inputs, strategies, limit_disk, chunks, **self._around_arrays())

    def reopen(self, run: str) -> ArrayRun:
        """A run of before, by its id, in any process on the same store."""
        from whence.arrays.run import Run

        about = self._around_arrays()
        return Run(self._shelf().open(run), is_open=about["is_open"], frames=about["frames"])

    def _shelf(self) -> Shelf:
        from whence.arrays.folder import Shelf

        self._require_open()
        if "://" in str(self._store.location.tables) and self._store.location.directory is None:
            raise StoreError(
                f"Array runs are kept as files on this machine, and the store {self._store.location} has none here: "
                "attach with a directory for a store."
            )
        self._store.make()
        return Shelf(self._files, self._store.seal)

    def _around_arrays(self) -> dict[str, Any]:
        return {"spark": self._shipped, "is_open": lambda: not self._closed, "frames": None}

    def _shipped(self) -> SparkSession:
        """Spark, whose executors have whence."""
        from whence.rdd.ship import ship

        ship(self.spark.sparkContext)
        return self.spark

    def close(self) -> None:
        """Give back everything that attaching and tracing took; traces end here too. Closing twice is harmless."""
        with self._opening:
            if self._closed:
                return
            self._closed = True
        if self._catalyst is not None:
            from whence.sql.capture import forget

            forget(self._catalyst)
            self._catalyst.release()
            self._catalyst = None
        if self._context is not None:
            self._context.close()
        if self._watcher is not None:
            self._watcher.close()
        self._store.close()

    def _require_open(self) -> None:
        if self._closed:
            raise SessionClosed

    def __enter__(self) -> Session:
        self._require_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
