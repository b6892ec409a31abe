"""What a user holds. A Session delegates to the rooms; it does no work of its own."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from whence.model import ConnectUnsupported, SessionClosed
from whence.store import Store

if TYPE_CHECKING:  # pyspark is heavy: `import whence` must stay fast
    from pyspark.sql import SparkSession

    from whence.store.catalog import Catalog


class Session:
    """One attachment of whence to one Spark session; a context manager."""

    def __init__(self, spark: SparkSession, store: str | Path | None = None) -> None:
        if not hasattr(spark, "_jsparkSession"):
            raise ConnectUnsupported
        self._spark = spark
        self._store = Store.at(store)
        self._closed = False
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

    def close(self) -> None:
        """Give back everything that attaching took. Closing twice is harmless."""
        if not self._closed:
            self._closed = True
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
