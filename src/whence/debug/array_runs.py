"""Array runs of a session: what they need of Spark, SQL and the store, and how traces come into them and out again."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from whence.arrays.errors import ArrayError
from whence.arrays.execute import execute
from whence.arrays.flow import ArrayFlow
from whence.arrays.folder import Shelf
from whence.arrays.remote import NoTables, RemoteShelf
from whence.arrays.run import Run
from whence.arrays.tables import Tables
from whence.debug.crossing import Crossing
from whence.debug.frames import frame_of
from whence.model import SessionClosed
from whence.model.flow import Flow, RecordId, Records, Site
from whence.spark.paths import literal
from whence.sql.flow import SqlFlow
from whence.store import Store
from whence.store.producers import Product

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from whence.sql import SqlLineage


class Attached(Protocol):
    """What is needed of a session."""

    @property
    def spark(self) -> SparkSession: ...

    def capture(self) -> AbstractContextManager[None]: ...

    def lineage(self, df: DataFrame, *, through: bool = True) -> SqlLineage: ...


class ArrayRuns:
    def __init__(self, session: Attached, store: Store) -> None:
        self._session, self._store = session, store
        self._here: str | None = None
        if store.location.top is None:
            self._here = tempfile.mkdtemp(prefix="whence-arrays-")
            self.shelf: Shelf = RemoteShelf(Path(self._here), store.seal, store.files)
        else:
            self.shelf = Shelf(Path(store.location.files), store.seal)
        self._flows: dict[str, ArrayFlow] = {}
        self._behind: dict[str, Crossing] = {}
        kind = Tables if self._here is None else NoTables
        self.tables = kind(lambda: session.spark, self._write, lambda: store.producers)

    def close(self) -> None:
        """What was fetched or written here goes; the store has it."""
        self.shelf.settle()
        if self._here is not None:
            shutil.rmtree(self._here, ignore_errors=True)

    def execute(
        self, target: Any, inputs: Mapping[Any, Any] | None, strategies: Any, limit_disk: float | None, chunks: Any
    ) -> Run:
        self._store.make()
        # Only chunks need a SparkContext, which a session of Spark Connect has not.
        master = str(self._session.spark.sparkContext.master) if chunks is not None else "local"
        if self._here is not None and not (master == "local" or master.startswith("local[")):
            raise ArrayError(
                f"Chunks are files that executors and the driver both map, and the store {self._store.location} lies "
                f"at a URL, which the machines of {master} cannot map. Run without chunks=, or attach with a directory "
                "that they share."
            )
        return execute(
            self.shelf,
            target,
            inputs,
            strategies,
            limit_disk,
            chunks,
            spark=self._shipped,
            is_open=self._is_open,
            tables=self.tables,
        )

    def reopen(self, run: str) -> Run:
        return Run(self.shelf.open(run), is_open=self._is_open, tables=self.tables)

    def _is_open(self) -> bool:
        try:
            return self._session.spark is not None
        except SessionClosed:
            return False

    def _shipped(self) -> SparkSession:
        """Spark, whose executors have whence."""
        from whence.rdd.ship import ship

        spark = self._session.spark
        ship(spark.sparkContext)
        return spark

    def _write(self, df: DataFrame, path: str) -> None:
        with self._session.capture():
            df.write.parquet(path)

    # --- for traces

    def flow(self, run: str) -> ArrayFlow:
        if run not in self._flows:
            self._flows[run] = ArrayFlow(self.reopen(run), self.shelf.tables)
        return self._flows[run]

    def open_flow(self, product: Product) -> Flow:
        return self.flow(product.run)

    def behind(self, flow: Flow, site: Site) -> Crossing | None:
        """The query behind a table that an array run was made from."""
        path = flow.table(site) if isinstance(flow, ArrayFlow) else None
        if not isinstance(flow, ArrayFlow) or path is None:
            return None
        if path not in self._behind:
            self._behind[path] = self._query_behind(flow, site, path)
        return self._behind[path]

    def _query_behind(self, arrays: ArrayFlow, site: Site, path: str) -> Crossing:
        frame = self._session.spark.read.parquet(literal(path))
        query = SqlFlow(self._session.lineage(frame))

        def ask(records: Records) -> tuple[Flow, Records, tuple[str, ...]]:
            picked = SqlFlow(self._session.lineage(frame.where(arrays.condition(site, records.ids()))))
            return picked, picked.all(), ()

        def arrive(records: Records) -> tuple[list[RecordId], tuple[str, ...]]:
            keys = [f"d{axis}" for axis in range(arrays.axes(site))]
            rows = frame_of(self._session.spark, records).select(*keys).collect()
            return arrays.rows_at(site, [tuple(row) for row in rows]), ()

        return Crossing(site, query, query.outputs[0], ask=ask, arrive=arrive)
