"""What executors leave in files for the driver to unpickle, signed so that nobody else can leave something there.

Executors have no key of the user's. They get one that is made for this one search or block and travels with the code
that they run, which no file of the store holds.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from pyspark import cloudpickle as _cloudpickle

from whence.store import Files, Seal

cloudpickle: Any = _cloudpickle  # untyped


@dataclass(frozen=True)
class Findings:
    purpose: tuple[str, ...]
    key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    def dumps(self, value: Any, *place: str) -> bytes:
        return Seal([self.key]).wrap((*self.purpose, *place), cloudpickle.dumps(value))

    def loads(self, data: bytes, *place: str) -> Any:
        """Raises Unsigned, with nothing unpickled, for what was not written with this key for this place."""
        return cloudpickle.loads(Seal([self.key]).unwrap((*self.purpose, *place), data))


@dataclass(frozen=True)
class Drop:
    """Where tasks leave what they found; from other machines it comes to the driver."""

    files: Files
    findings: Findings = field(default_factory=lambda: Findings(("finding",)))
