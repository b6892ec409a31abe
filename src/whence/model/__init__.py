"""The vocabulary of whence. It imports nothing but the standard library."""

from whence.model.catalog import COMPLETED, FAILED, RUNNING, Dataset, Operator, Run
from whence.model.errors import (
    ConnectUnsupported,
    ForeignDataFrame,
    NonDeterministic,
    NoSession,
    SessionClosed,
    SourceChanged,
    StoreError,
    StoreTooNew,
    UnknownDataset,
    UnknownSpark,
    UnsupportedOperator,
    WhenceError,
)
from whence.model.exactness import EXACT, Exactness
from whence.model.strategy import Strategy

__all__ = [
    "COMPLETED",
    "EXACT",
    "FAILED",
    "RUNNING",
    "ConnectUnsupported",
    "Dataset",
    "Exactness",
    "ForeignDataFrame",
    "NoSession",
    "NonDeterministic",
    "Operator",
    "Run",
    "SessionClosed",
    "SourceChanged",
    "StoreError",
    "StoreTooNew",
    "Strategy",
    "UnknownDataset",
    "UnknownSpark",
    "UnsupportedOperator",
    "WhenceError",
]
