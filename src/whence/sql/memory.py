"""What a session knows of queries beyond their plans: what stood below checkpoints, and what was written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from whence.spark.catalyst import Kept
from whence.store import Seal
from whence.store.producers import Product

# path, length, modification time
FileVersion: TypeAlias = tuple[str, int, int]
# Of each scan, from left to right, its files: path, length, modification time, and the mark that tells it from a new
# file of the same length and time. Spark takes two scans of one place for equal, whatever files each has listed there.
Versions: TypeAlias = tuple[frozenset[tuple[str, int, int, str]], ...]
# Of each file its length and, where that is cheap, a digest (intact.py).
Manifest: TypeAlias = dict[str, tuple[int, str | None]]
# Of each file that was looked at, how the file system tells its state, and the digest it had then.
Checked: TypeAlias = dict[str, tuple[tuple[int, int, int], str]]


@dataclass(eq=False)
class Fact:
    """An operator of a query whose rows are written down, each with the identities behind it.

    `operator` is the plan as the user wrote it, and `name` the one that it was given (Catalyst.named): another plan is
    the same only if it has this name, is equal and reads the same files. So a fact is of one DataFrame and of what is
    derived from it, never of a new one that happens to say the same. A part is one table; `own` are the positions of
    the operator's own columns in the part `rows`."""

    folder: str
    operator: JavaObject
    sources: frozenset[FileVersion]
    name: str = ""
    # The versions of these files, by more than length and time (Catalyst.versions_of).
    versions: Mapping[str, tuple[int, int, str]] = field(default_factory=dict)
    # Names of the facts that stand below it: if one of them is computed anew, this one is of the past.
    below: frozenset[str] = frozenset()
    # Whether the operator would give the same rows again, so that it is written down for speed alone.
    certain: bool = False
    own: tuple[int, ...] = ()
    # Whether its parts are Parquet tables in the store. If not, Spark's cache has them: an operator that would give the
    # same rows again, asked for by an action, need not outlive this process.
    durable: bool = True
    # Whether the order of its rows is one that the user asked for.
    ordered: bool = False
    # Schema of each part, as Spark's JSON.
    parts: dict[str, str] = field(default_factory=dict)
    open: bool = True
    # The scan of each part, once it was read.
    scans: dict[str, JavaObject] = field(default_factory=dict)
    # Its rows on the driver, where Spark needs no job to find some of them, if they are few and it is not durable.
    few: JavaObject | None = None
    # What is still to be done once its rows are computed, which the user's own action does (facts.known sees to it).
    later: Callable[[], None] | None = None
    # What Spark's cache holds of it.
    cached: list[DataFrame] = field(default_factory=list)
    # Whether it outlives the session: a captured write needs it.
    lasting: bool = False
    # Its files as they were written, once it is finished (intact.py).
    files: Manifest = field(default_factory=dict)
    checked: Checked = field(default_factory=dict)
    # What the tap below the operator told, if there was one (taps.py).
    tapped: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Recent:
    """Rows that a trace has computed, of which query over which files, and how the session was set
    (computed_before.py). None: they are too many to compute all of them."""

    query: JavaObject
    files: Versions
    settings: int
    rows: Kept | None


@dataclass(frozen=True, eq=False)
class Few:
    """The same of few rows that the driver was told."""

    query: JavaObject
    files: Versions
    settings: int
    rows: list[tuple[object, ...]]


@dataclass(eq=False)
class Memory:
    # Plans of checkpointed DataFrames, by the id of the RDD that holds the checkpoint's rows (checkpoints.py).
    checkpoints: dict[int, JavaObject] = field(default_factory=dict)
    # Facts by the kind of their operator (facts.py).
    facts: dict[str, list[Fact]] = field(default_factory=dict)
    # Facts that later ones took the place of: only their files are still there.
    past: list[Fact] = field(default_factory=list)
    # Queries of the writes that this process has captured, by where they are told in the store (writes.py).
    writes: dict[str, JavaObject] = field(default_factory=dict)
    # Tables whose rows were seen to be those that their captured query gives: their files, and the columns compared.
    compared: set[tuple[frozenset[FileVersion], tuple[str, ...]]] = field(default_factory=set)
    # Queries that actions under capture computed whole, and the seconds that they took; the latest last (planning.py).
    timed: list[tuple[JavaObject, float]] = field(default_factory=list)
    # Of each place that a query read, the files that were there when it was first asked about (versions.py).
    first_seen: dict[str, frozenset[FileVersion]] = field(default_factory=dict)
    # The latest first.
    recent: list[Recent] = field(default_factory=list)
    few: list[Few] = field(default_factory=list)
    # Rows that traces gave to the user, by the mark that stands above them in plans (given.py); the latest last.
    given: dict[str, object] = field(default_factory=dict)
    # Where the store keeps facts and writes; None: nowhere yet.
    folder: str | None = None
    # Tells the store which files a captured write made; nobody to tell without.
    made: Callable[[Iterable[Product]], None] | None = None
    # Signs what is read back as code, or says which of it is.
    seal: Seal = field(default_factory=Seal)
