"""The vocabulary of whence. It imports nothing but the standard library."""

from whence.model.errors import (
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
from whence.model.exactness import EXACT, Exactness
from whence.model.strategy import Strategy

__all__ = [
    "EXACT",
    "ConnectUnsupported",
    "Exactness",
    "ForeignDataFrame",
    "NonDeterministic",
    "SessionClosed",
    "SourceChanged",
    "StoreError",
    "StoreTooNew",
    "Strategy",
    "UnsupportedOperator",
    "WhenceError",
]
