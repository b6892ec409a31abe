"""What a session knows of queries beyond their plans: what stood below checkpoints, and what was written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

# path, length, modification time
FileVersion: TypeAlias = tuple[str, int, int]


@dataclass(eq=False)
class Fact:
    """An operator of a query whose rows are written down, each with the identities behind it.

    `operator` is the plan as the user wrote it; another one is the same if it is equal and reads the same files. A part
    is one table; `own` are the positions of the operator's own columns in the part `rows`."""

    folder: str
    operator: JavaObject
    sources: frozenset[FileVersion]
    # Whether the operator would give the same rows again, so that it is written down for speed alone.
    certain: bool = False
    own: tuple[int, ...] = ()
    # Whether its parts are Parquet tables in the store. If not, Spark's cache has them: an operator that would give the
    # same rows again, asked for by an action, need not outlive this process.
    durable: bool = True
    # Schema of each part, as Spark's JSON.
    parts: dict[str, str] = field(default_factory=dict)
    open: bool = True
    # The scan of each part, once it was read.
    scans: dict[str, JavaObject] = field(default_factory=dict)
    # What is still to be done once its rows are computed, which the user's own action does (facts.known sees to it).
    later: Callable[[], None] | None = None
    # What Spark's cache holds of it.
    cached: list[DataFrame] = field(default_factory=list)
    # Whether it outlives the session: a captured write needs it.
    lasting: bool = False
    # What the tap below the operator told, if there was one (taps.py).
    tapped: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Recent:
    """Rows that a trace has computed, of which query over which files, and how the session was set (recent.py)."""

    query: JavaObject
    files: frozenset[FileVersion]
    settings: int
    rows: JavaObject


@dataclass(eq=False)
class Memory:
    # Plans of checkpointed DataFrames, by the id of the RDD that holds the checkpoint's rows (checkpoints.py).
    checkpoints: dict[int, JavaObject] = field(default_factory=dict)
    # Facts by the kind of their operator (facts.py).
    facts: dict[str, list[Fact]] = field(default_factory=dict)
    # Queries of the writes that this process has captured, by where they are told in the store (writes.py).
    writes: dict[str, JavaObject] = field(default_factory=dict)
    # The latest first.
    recent: list[Recent] = field(default_factory=list)
    # Rows that traces gave to the user, by the mark that stands above them in plans (given.py); the latest last.
    given: dict[str, object] = field(default_factory=dict)
    # Where the store keeps facts and writes; None: nowhere yet.
    folder: str | None = None
