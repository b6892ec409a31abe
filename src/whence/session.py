"""What a user holds. A Session delegates to the rooms; it does no work of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from whence.model import ConnectUnsupported, ForeignDataFrame, SessionClosed

if TYPE_CHECKING:  # pyspark is heavy: `import whence` must stay fast
    from pyspark.sql import DataFrame, Row, SparkSession

    from whence.actors import Actor, ActorStore, TracingDataflow
    from whence.debug.guard import Guard
    from whence.debug.minimize import Minimal
    from whence.debug.mining import Mined
    from whence.debug.trace import Trace
    from whence.debug.verify import Verdict
    from whence.sql import Catalyst, SqlLineage

DEFAULT_STORE = ".whence"


class Session:
    """One attachment of whence to one Spark session; a context manager."""

    def __init__(self, spark: SparkSession, store: str | Path | None = None) -> None:
        if not hasattr(spark, "_jsparkSession"):
            raise ConnectUnsupported
        self._spark = spark
        self._store_location = str(store or DEFAULT_STORE)
        self._closed = False
        self._catalyst: Catalyst | None = None
        self._actors: ActorStore | None = None

    @property
    def spark(self) -> SparkSession:
        self._require_open()
        return self._spark

    # --- DataFrames and SQL

    def backward(self, df: DataFrame) -> Trace:
        """The witnesses of these rows: which source rows made them."""
        from whence.debug.trace import Trace

        return Trace(self._lineage(df))

    def forward(self, df: DataFrame, *, to: DataFrame) -> Trace:
        """Which rows of `to` these source rows touch."""
        from whence.debug.forward import forward

        return forward(self._lineage(df), self._lineage(to))

    def verify(self, df: DataFrame, rows: int = 5) -> Verdict:
        """Trace up to `rows` rows of a result and prove each: the witnesses alone must give it again."""
        from whence.debug.forward import verify_rows

        return verify_rows(self._lineage(df), rows)

    def _lineage(self, df: DataFrame) -> SqlLineage:
        from whence.sql import Catalyst, SqlLineage

        self._require_open()
        self._require_ours(df)
        if self._catalyst is None:
            self._catalyst = Catalyst(self._spark)
        return SqlLineage(self._catalyst, df)

    def _require_ours(self, df: DataFrame) -> None:
        theirs = getattr(getattr(df, "sparkSession", None), "_sc", None)
        if not hasattr(df, "_jdf") or theirs is not self._spark._sc:
            raise ForeignDataFrame(
                "This is not a DataFrame of the Spark application that whence is attached to. "
                "Attach to its own session: whence.attach(df.sparkSession)."
            )
        if self._spark._sc._jsc is None:
            raise ForeignDataFrame("The Spark session of this DataFrame is stopped; start one and attach to it.")

    # --- any code: actors

    @property
    def actors(self) -> ActorStore:
        """Everything about actors that is not a method here; `whence.actors.ActorStore` is the door without Spark."""
        self._require_open()
        if self._actors is None:
            from whence.actors import ActorStore

            self._actors = ActorStore(self._home() / "actors")
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
        from whence.debug.mine import mine

        return mine(self, root, bad, good)

    def guard(self, on_error: str = "raise") -> Guard:
        """`with w.guard():` around actions: an error in Python code gains the record that caused it (docs/debug.md)."""
        from whence.debug.guard import guard

        return guard(self, self._home() / "culprits", on_error)

    def minimize(self, df: DataFrame, fails: Callable[[list[Row]], bool]) -> Minimal:
        """The smallest set of source rows on which this query still fails: delta debugging over the witnesses."""
        from whence.debug.minimize import minimize

        return minimize(self, df, fails)

    def clean(self, root: Any, *args: Any, **options: Any) -> Any:
        """Trace the worst outputs of an actor or a query, exclude what made them at the best stage, run again."""
        from whence.debug.clean import clean, clean_frame

        if hasattr(root, "_jdf"):
            return clean_frame(self, root, *args, **options)
        return clean(self.actors, root, *args, **options)

    def _home(self) -> Path:
        """Where files go when the store is a database."""
        return Path(DEFAULT_STORE if "://" in self._store_location else self._store_location)

    def close(self) -> None:
        """Give back everything that attaching and tracing took; traces end here too. Closing twice is harmless."""
        if self._catalyst is not None:
            self._catalyst.release()
            self._catalyst = None
        self._closed = True

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
