"""whence: which input rows made this output row, and what follows from that.

>>> import whence
>>> w = whence.attach(spark)                      # doctest: +SKIP
>>> w.backward(report.where("total < 0")).sources  # doctest: +SKIP
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

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

_LAZY = {"Cause": "diagnose", "Diagnosis": "diagnose", "diagnose": "diagnose"}  # numpy is needed for these only


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'whence' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"whence.debug.{_LAZY[name]}"), name)


def attach(spark: SparkSession, store: str | Path | None = None) -> Session:
    """Attach whence to a Spark session. `store` is a directory or a database URL; by default `./.whence`."""
    return Session(spark, store)


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
    "UnsupportedOperator",
    "WhenceError",
    "__version__",
    "attach",
    "diagnose",
]
