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

    from whence.debug.diagnose import Cause, Diagnosis, diagnose
    from whence.debug.trace import Trace


def attach(spark: SparkSession, store: str | Path | None = None) -> Session:
    """Attach whence to a Spark session. `store` is a directory or a database URL; by default `./.whence`."""
    return Session(spark, store)


_LAZY = {"Cause": "diagnose", "Diagnosis": "diagnose", "Trace": "trace", "diagnose": "diagnose"}


def __getattr__(name: str) -> object:
    """Names whose modules import pyspark or numpy are brought in when first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'whence' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"whence.debug.{_LAZY[name]}"), name)


__all__ = [
    "Cause",
    "ConnectUnsupported",
    "Diagnosis",
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
    "diagnose",
]
