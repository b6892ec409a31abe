"""What a user holds. A Session delegates to the rooms; it does no work of its own."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from whence.model import ConnectUnsupported, SessionClosed

if TYPE_CHECKING:  # pyspark is heavy: `import whence` must stay fast
    from pyspark.sql import SparkSession

    from whence.rdd import LineageContext

DEFAULT_STORE = ".whence"


class Session:
    """One attachment of whence to one Spark session; a context manager."""

    def __init__(self, spark: SparkSession, store: str | Path | None = None) -> None:
        if not hasattr(spark, "_jsparkSession"):
            raise ConnectUnsupported
        self._spark = spark
        self._store_location = str(store or DEFAULT_STORE)
        self._closed = False
        self._context: LineageContext | None = None

    @property
    def spark(self) -> SparkSession:
        self._require_open()
        return self._spark

    @property
    def context(self) -> LineageContext:
        """The session's SparkContext, whose RDDs know their lineage."""
        self._require_open()
        if self._context is None:
            from whence.rdd import LineageContext

            self._context = LineageContext(self._spark.sparkContext, self._store_location)
        return self._context

    def close(self) -> None:
        """Give back everything that attaching took. Closing twice is harmless."""
        if self._context is not None and not self._closed:
            self._context.close()
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
