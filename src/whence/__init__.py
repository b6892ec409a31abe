"""whence: which input rows made this output row, and what follows from that.

>>> import whence
>>> w = whence.attach(spark)                      # doctest: +SKIP
>>> w.backward(report.where("total < 0")).sources  # doctest: +SKIP
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from whence.model.errors import (
    ConnectUnsupported,
    ForeignDataFrame,
    NonDeterministic,
    NoSession,
    SessionClosed,
    SourceChanged,
    StoreError,
    StoreTooNew,
    UnknownSpark,
    UnsupportedOperator,
    WhenceError,
)
from whence.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from whence.debug.diagnose import Cause, Diagnosis, diagnose
    from whence.debug.trace import Trace
    from whence.session import Session


def attach(spark: SparkSession, store: str | Path | None = None) -> Session:
    """Attach whence to a Spark session. `store` is a directory or a database URL; by default `./.whence`.

    Of a session of Spark Connect, what needs no JVM works (docs/versions.md)."""
    from whence.spark.release import is_connect

    if is_connect(spark):
        from whence.connect import ConnectSession

        return ConnectSession(spark, store)
    from whence.session import Session

    return Session(spark, store)


_LAZY = {
    "Cause": "whence.debug.diagnose",
    "Diagnosis": "whence.debug.diagnose",
    "Session": "whence.session",
    "Trace": "whence.debug.trace",
    "diagnose": "whence.debug.diagnose",
}


def __getattr__(name: str) -> object:
    """Names whose modules import pyspark, numpy or much of whence are brought in when first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'whence' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


__all__ = [
    "Cause",
    "ConnectUnsupported",
    "Diagnosis",
    "ForeignDataFrame",
    "NoSession",
    "NonDeterministic",
    "Session",
    "SessionClosed",
    "SourceChanged",
    "StoreError",
    "StoreTooNew",
    "Trace",
    "UnknownSpark",
    "UnsupportedOperator",
    "WhenceError",
    "__version__",
    "attach",
    "diagnose",
]
