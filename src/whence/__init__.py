"""whence: which input rows made this output row, and what follows from that.

>>> import whence
>>> w = whence.attach(spark)                      # doctest: +SKIP
>>> w.backward(report.where("total < 0")).sources  # doctest: +SKIP
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from whence.model import (
    ConnectUnsupported,
    ForeignDataFrame,
    NonDeterministic,
    SessionClosed,
    SourceChanged,
    StoreError,
    StoreTooNew,
    UnsupportedOperator,
    WhenceError,
)
from whence.session import Session
from whence.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from whence.debug.trace import Trace


def attach(spark: SparkSession, store: str | Path | None = None) -> Session:
    """Attach whence to a Spark session. `store` is a directory or a database URL; by default `./.whence`."""
    return Session(spark, store)


def __getattr__(name: str) -> object:
    """Types whose modules import pyspark are brought in when first used."""
    if name == "Trace":
        from whence.debug.trace import Trace

        return Trace
    raise AttributeError(f"module 'whence' has no attribute {name!r}")


__all__ = [
    "ConnectUnsupported",
    "ForeignDataFrame",
    "NonDeterministic",
    "Session",
    "SessionClosed",
    "SourceChanged",
    "StoreError",
    "StoreTooNew",
    "Trace",
    "UnsupportedOperator",
    "WhenceError",
    "__version__",
    "attach",
]
