"""The vocabulary of whence. It imports nothing but the standard library."""

from whence.model.catalog import COMPLETED, FAILED, RUNNING, Dataset, Operator, Run
from whence.model.errors import (
    ConnectUnsupported,
    ForeignDataFrame,
    NonDeterministic,
    SessionClosed,
    SourceChanged,
    StoreError,
    StoreTooNew,
    UnknownDataset,
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
    "NonDeterministic",
    "Operator",
    "Run",
    "SessionClosed",
    "SourceChanged",
    "StoreError",
    "StoreTooNew",
    "Strategy",
    "UnknownDataset",
    "UnsupportedOperator",
    "WhenceError",
]
