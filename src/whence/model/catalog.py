"""What the catalogue knows: runs, datasets, operators. Values are finished and immutable; the store makes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

COMPLETED = "completed"
FAILED = "failed"
RUNNING = "running"


@dataclass(frozen=True)
class Dataset:
    """A named thing that holds data. Two datasets are the same when namespace and name are (OpenLineage's naming)."""

    namespace: str
    name: str
    kind: str = field(default="path", compare=False)
    created: datetime | None = field(default=None, compare=False)
    dropped: datetime | None = field(default=None, compare=False)
    columns: tuple[str, ...] = field(default=(), compare=False)
    version: int = field(default=0, compare=False)

    def __iter__(self) -> Iterator[str]:
        return iter((self.namespace, self.name))


@dataclass(frozen=True)
class Run:
    """One execution that was observed."""

    id: str
    kind: str
    name: str = ""
    status: str = RUNNING
    error: str | None = None
    started: datetime | None = None
    ended: datetime | None = None
    application: str = ""
    details: Mapping[str, object] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Operator:
    """One transformation inside a run. `inside` names the operator that contains it, `inputs` those that feed it."""

    id: str
    run: str
    name: str
    kind: str
    inside: str | None = None
    inputs: tuple[str, ...] = ()
    strategy: str | None = None
    details: Mapping[str, object] = field(default_factory=dict, compare=False)
