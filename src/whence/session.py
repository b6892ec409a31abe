"""What a user holds. A Session delegates to the rooms; it does no work of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Integral
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from whence.model import ConnectUnsupported, ForeignDataFrame, SessionClosed, WhenceError
from whence.model.quiet import FACTS
from whence.spark.release import require_classic
from whence.spark.sessions import is_classic, is_frame, is_frame_of, require_running
from whence.store import Store
from whence.store.location import DEFAULT_STORE
from whence.store.relay import Relay

if TYPE_CHECKING:  # pyspark is heavy: `import whence` must stay fast
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

    from whence.actors import Actor, ActorStore, TracingDataflow
    from whence.arrays.run import Run as ArrayRun
    from whence.debug.array_runs import ArrayRuns
    from whence.debug.crossing import Crossings
    from whence.debug.everything import Everything
    from whence.debug.explain.explain import Explanation
    from whence.debug.guard.guard import Guard
    from whence.debug.history import History
    from whence.debug.minimize.minimize import Minimal
    from whence.debug.mining.mined import Mined
    from whence.debug.notebook import Shown
    from whence.debug.questions import Questions
    from whence.debug.trace import Trace
    from whence.model.flow import Flow, Records
    from whence.model.verdict import Verdict
    from whence.rdd import LineageContext
    from whence.spark.executed import ExecutedQueries
    from whence.sql import Catalyst, SqlLineage
    from whence.sql.why_not import Fates
    from whence.store.catalog import Catalog, Moment, Named
    from whence.store.producers import Product
    from whence.strategy import Plan
    from whence.watch.watcher import Watcher

    Asked: TypeAlias = DataFrame | RDD[Any] | str


class Session:
    """One attachment of whence to one Spark session; a context manager."""

    _watcher: Watcher | None
    _executed: ExecutedQueries | None
    _questions: Questions | None

    def __init__(self, spark: SparkSession, store: str | Path | None = None) -> None:
        require_classic(spark)
        self._begin(spark, store)
        from whence.debug.cut_frames import cut_frames
        from whence.spark.executed import listen
        from whence.watch import watch

        cut_frames()
        self._watcher = watch(spark, self._store)
        self._executed = listen(spark)
        from whence.debug.questions import Questions

        self._questions = Questions(self, spark, self._store)
        if self._watcher is not None:
            self._watcher.on_saved = self._remember_training

    def _begin(self, spark: SparkSession, store: str | Path | None) -> None:
        self._spark = spark
        self._store = Store.at(store)
        has_jvm = is_classic(spark)
        self._relay = _relay_of(spark) if has_jvm else Relay("127.0.0.1", "127.0.0.1", 0)
        if self._store.location.is_elsewhere:
            if not has_jvm:
                raise ConnectUnsupported(
                    f"A store at {self._store.location}", "its files are reached with Spark's own file systems"
                )
            from whence.spark.hadoop_files import HadoopFiles

            files = HadoopFiles(spark, self._store.location.files, self._relay)
            files.check()
            self._store.reached_by(files)
        self._closed = False
        self._opening = threading.RLock()  # rooms are opened when first used, once, whichever thread asks
        self._catalyst: Catalyst | None = None
        self._context: LineageContext | None = None
        self._actors: ActorStore | None = None
        self._crossing: Crossings | None = None
        self._arrays: ArrayRuns | None = None
        self._watcher = None
        self._executed = None
        self._questions = None

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
        self._store.refresh()
        return self._store.catalog

    def show(
        self,
        dataset: Named | None = None,
        *,
        direction: str = "both",
        depth: int | None = None,
        as_of: Moment | None = None,
        height: int = 520,
    ) -> Shown:
        """The lineage of a dataset, or of all there are, as the page's graph in a notebook (docs/page.md)."""
        from whence.debug.notebook import show_lineage

        return show_lineage(self.catalog, dataset, direction, depth, as_of, height)

    # --- DataFrames and SQL

    def backward(
        self,
        asked: DataFrame | RDD[Any] | str,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        through: bool = True,
    ) -> Trace:
        """The witnesses of these rows: which source rows made them.

        `columns`: the witnesses of these columns alone; rows that matter only for the others are left out (sql.md).

        Asked of a DataFrame, of an RDD with lineage, or of a table, path or model by its name, then of the rows that
        `where` picks. A trace goes on through whatever was captured: tables that were written, programs of RDDs, actors
        and arrays, in this process or an earlier one; with `through=False` it ends at what the query itself reads."""
        from whence.debug.legs import Leg
        from whence.debug.trace import Trace

        flow, records = self._flow(asked, where, through=through, columns=columns, all_rows=True)
        leg = Leg(flow, records, self._crossings if through else None)
        return self._saved_by(Trace(leg, self._spark, models=lambda: self._models_behind(records)))

    @overload
    def forward(self, rows: Asked, *, to: Asked, where: str | None = None) -> Trace: ...

    @overload
    def forward(self, rows: DataFrame | str, *, to: None = None, where: str | None = None) -> Everything: ...

    def forward(self, rows: Any, *, to: Any = None, where: str | None = None) -> Trace | Everything:
        """Which rows of `to` these source rows touch, by whatever lies between.

        Without `to`: all that the catalogue knows to be made from them, as one report with counts for each table."""
        from whence.debug.forward import forward
        from whence.debug.legs import Leg

        if to is None:
            from whence.debug.everything import everything

            return everything(self, rows, where)
        flow, records = self._flow(rows, where)
        target, _ = self._flow(to)
        return self._saved_by(forward(Leg(flow, records, self._crossings), target, self._crossings, self._spark))

    def _saved_by(self, trace: Trace) -> Trace:
        from whence.debug.saving import save

        trace.saver = lambda name: save(trace, self.catalog, name)
        trace.session = self
        return trace

    def why_not(self, rows: Asked, *, to: DataFrame | str, where: str | None = None) -> Fates:
        """Where each of these source rows dropped out on its way to `to`, and why."""
        from whence.debug.legs import Leg
        from whence.debug.why_not import why_not
        from whence.sql.flow import SqlFlow

        flow, records = self._flow(rows, where)
        target, _ = self._flow(to)
        if not isinstance(target, SqlFlow):
            raise WhenceError("why_not is asked of rows on their way to a query's result: give a DataFrame as `to`.")
        return why_not(Leg(flow, records, self._crossings), target, self._crossings)

    def history(self, df: DataFrame | str, *, where: str | None = None) -> History:
        """The versions of these rows of a Delta or Iceberg table that keeps ids of its rows (lakes.md).

        Of each row: which commit made it, which changed it and into what, and, where that was captured, from which
        source rows. Asked of a DataFrame over one table, or of the table by its name, then of the rows that `where`
        picks."""
        from whence.debug.history import history
        from whence.debug.named import frame_by_name

        self._require_open()
        asked = frame_by_name(self._spark, self.catalog, df) if isinstance(df, str) else df
        return history(self.lineage(asked if where is None else asked.where(where), through=False))

    def verify(self, df: DataFrame, rows: int = 5) -> Verdict:
        """Trace up to `rows` rows of a result and prove each: the witnesses alone must give it again."""
        from whence.debug.forward import verify_rows

        if isinstance(rows, bool) or not isinstance(rows, Integral) or rows < 1:
            raise WhenceError(f"rows= says how many rows are proven, a whole number from 1 on, not {rows!r}.")
        return verify_rows(self.lineage(df), int(rows))

    @contextmanager
    def capture(self, plan: Plan | None = None) -> Iterator[None]:
        """Within the block, what actions compute is written down where it could not be told afterwards (capture.md).

        `plan`: what is kept of the steps that it names; `w.strategy(...)` makes one (strategy.md)."""
        from whence.sql.capture import Capture
        from whence.strategy import Plan

        if plan is not None and not isinstance(plan, Plan):
            raise WhenceError(f"What is captured by a plan takes one that w.strategy(...) made, not {plan!r}.")
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
        rooms = Rooms(self._plans, lambda: self.catalog, lambda: self._array_runs.shelf, self._require_ours)
        return plan_of(rooms, limit_disk, limit_runtime, workload, force, workflow)

    def explain(self, bad: DataFrame, good: DataFrame, **options: Any) -> Explanation:
        """Which conditions on columns set the bad rows apart from the good ones."""
        from whence.debug.explain.explain import explain

        self._require_open()
        for rows in (bad, good):
            self._require_ours(rows)
        return explain(bad, good, **options)

    def _flow(
        self,
        asked: Asked,
        where: str | None = None,
        *,
        through: bool = True,
        columns: Sequence[str] | None = None,
        all_rows: bool = False,
    ) -> tuple[Flow, Records]:
        """What is asked, as a flow and records of its output. `all_rows`: nothing else will be asked of that flow."""
        from whence.debug.asked import flow_of
        from whence.debug.named import frame_by_name

        self._require_open()
        require_running(self._spark)
        if isinstance(asked, str):
            trained = self._trained_on(asked)
            asked = trained if trained is not None else frame_by_name(self._spark, self.catalog, asked)
        lineage = partial(self.lineage, through=through, columns=columns, all_rows=all_rows)
        return flow_of(asked, where, columns, lineage)

    def _remember_training(self, path: str, rows: DataFrame, at: int) -> None:
        from whence.sql.trained import remember_training

        remember_training(self._plans(), self._store.producers, path, rows, at)

    def _trained_on(self, path: str) -> DataFrame | None:
        """The rows that the model of this name was trained on."""
        from whence.sql.trained import training_rows

        return training_rows(self._plans(), self._store.producers, path) if "/" in path else None

    def _models_behind(self, asked: Records) -> dict[str, Trace]:
        """The models that gave columns of these rows, and the traces of what they were trained on."""
        from whence.debug.models import models_behind

        known = self._watcher.trainings if self._watcher is not None else {}
        found = models_behind(self._plans(), known, asked, self._trained_on) if known else {}
        return {name: self.backward(rows) for name, rows in found.items()}

    @property
    def _crossings(self) -> Crossings:
        from whence.debug.crossing import Crossings

        with self._opening:
            if self._crossing is None:
                from whence.debug.living import Living

                openers: dict[str, Callable[[Product], Flow]] = {
                    "actors": self._open_actors,
                    "rdd": self._open_rdds,
                    "sql": self._open_written,
                    "arrays": lambda product: self._array_runs.open_flow(product),
                }
                living = Living(self.lineage, lambda: self._context, lambda: self._array_runs)
                self._crossing = Crossings(lambda: self._store.producers, openers, living.behind)
            return self._crossing

    def _open_rdds(self, product: Product) -> Flow:
        from whence.rdd.opening import open_flow

        return open_flow(product, self.context)

    def _open_written(self, product: Product) -> Flow:
        from whence.sql.written_files import open_flow

        return open_flow(product, self.spark, self.lineage)

    def _open_actors(self, product: Product) -> Flow:
        from whence.actors.opening import open_flow

        return open_flow(product, self._store.files.below("actors"))

    def lineage(
        self,
        df: DataFrame,
        *,
        through: bool = True,
        columns: Sequence[str] | None = None,
        all_rows: bool = False,
    ) -> SqlLineage:
        """The lineage of a query, for the rooms that go into it themselves."""
        from whence.sql import SqlLineage

        self._require_open()
        self._require_ours(df)
        return SqlLineage(self._plans(), df, through=through, columns=columns, all_rows=all_rows)

    def _plans(self) -> Catalyst:
        from whence.sql import Catalyst

        with self._opening:
            self._require_open()
            if self._catalyst is None:
                made = Catalyst(self._spark)
                made.executed = self._executed
                made.memory.folder = self._store.tables.location("sql")
                made.memory.seal = self._store.seal
                made.memory.made = lambda products: self._store.producers.add(products)
                self._catalyst = made
            return self._catalyst

    def _require_ours(self, df: DataFrame) -> None:
        if not is_frame_of(df, self._spark):
            raise ForeignDataFrame(
                "This is not a DataFrame of the Spark application that whence is attached to. "
                "Attach to its own session: whence.attach(df.sparkSession)."
            )
        require_running(self._spark)

    # --- RDDs

    @property
    def context(self) -> LineageContext:
        """The session's SparkContext, whose RDDs know their lineage."""
        with self._opening:
            self._require_open()
            if self._context is None:
                from whence.rdd import LineageContext

                self._store.make()
                self._context = LineageContext(
                    self._spark.sparkContext, self._store.files, lambda: self._store.producers
                )
                self._context.tracing = self.backward
            return self._context

    # --- any code: actors

    @property
    def actors(self) -> ActorStore:
        """Everything about actors that is not a method here; `whence.actors.ActorStore` is the door without Spark."""
        with self._opening:
            self._require_open()
            if self._actors is None:
                from whence.actors import ActorStore

                self._store.make()
                self._ship()
                self._actors = ActorStore(self._store.files.below("actors"), self._store)
                self._actors.tracing = self.backward
            return self._actors

    def _ship(self) -> None:
        """Executors get the code of actors."""
        from whence.rdd.ship import ship

        ship(self._spark.sparkContext)

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
        here = self._store.location.top or Path(DEFAULT_STORE).absolute()  # scripts are for whoever sits here
        return guard(self, here / "culprits", self._relay, on_error)

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

        if is_frame(root):
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
        return self._array_runs.execute(wf, inputs, strategies, limit_disk, chunks)

    def reopen(self, run: str) -> ArrayRun:
        """A run of before, by its id, in any process on the same store."""
        return self._array_runs.reopen(run)

    @property
    def _array_runs(self) -> ArrayRuns:
        with self._opening:
            self._require_open()
            if self._arrays is None:
                from whence.debug.array_runs import ArrayRuns

                self._arrays = ArrayRuns(self, self._store)
            return self._arrays

    def close(self) -> None:
        """Give back everything that attaching and tracing took; traces end here too. Closing twice is harmless."""
        with self._opening:
            if self._closed:
                return
            self._closed = True
        if self._questions is not None:
            self._questions.close()
        if self._catalyst is not None:
            from whence.sql.capture import forget

            forget(self._catalyst)
            self._catalyst.release()
            self._catalyst = None
        if self._context is not None:
            self._context.close()
        if self._executed is not None:
            self._executed.close()
        if self._watcher is not None:
            self._watcher.close()
        if self._arrays is not None:
            self._arrays.close()
        self._store.close()
        self._relay.close()

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


def _relay_of(spark: SparkSession) -> Relay:
    """Where executors reach this driver, as Spark's own do. It listens only once somebody needs it."""
    settings = spark.sparkContext.getConf()
    host = settings.get("spark.driver.host") or "127.0.0.1"
    port = settings.get("spark.whence.relay.port") or "0"
    return Relay(host, settings.get("spark.driver.bindAddress") or host, int(port))
