"""The catalogue's graph in memory, for whoever asks often: datasets and edges as arrays, brought up to date by change.

Rows say at which count they changed last (changes.py), so a copy reads only what is new. What it gives out are
snapshots, which never change: a question that is under way keeps the one it began with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from whence.model import FAILED
from whence.model.lineage import OUTPUT
from whence.store.changes import Counted, counted
from whence.store.frugal import give_back
from whence.store.intervals import Numbers
from whence.store.schema import datasets, edges, runs, uses, versions

_CHUNK = 500
_ARRAYS = (
    "number",
    "source",
    "source_version",
    "target",
    "target_version",
    "closed",
    "mapping",
    "at",
    "closed_at",
    "kind",
)
_FIELDS = ("id", "source", "source_version", "target", "target_version", "closed", "mapping")


@dataclass(frozen=True, slots=True)
class Known:
    """A dataset as it is now."""

    id: int
    namespace: str
    name: str
    kind: str
    dropped: float | None
    columns: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """All edges, in the order of their numbers; `by_target` and `by_source` are places in it."""

    number: Numbers
    source: Numbers
    source_version: Numbers
    target: Numbers
    target_version: Numbers
    closed: Numbers
    mapping: Numbers
    at: NDArray[np.float64]
    closed_at: NDArray[np.float64]
    kind: NDArray[np.int16]
    runs: list[str]
    kinds: tuple[str, ...]
    by_target: Numbers = field(init=False)
    by_source: Numbers = field(init=False)
    target_starts: Numbers = field(init=False)
    source_starts: Numbers = field(init=False)

    def __post_init__(self) -> None:
        last = int(max(self.source.max(), self.target.max())) if len(self.number) else 0
        for name, ends in (("target", self.target), ("source", self.source)):
            order = np.argsort(ends, kind="stable").astype(np.int32)
            starts = np.searchsorted(ends[order], np.arange(last + 2))
            object.__setattr__(self, f"by_{name}", order)
            object.__setattr__(self, f"{name}_starts", starts)

    def at_datasets(self, wanted: Numbers, backward: bool) -> tuple[Numbers, Numbers]:
        """Places of the edges that end, or begin, at these datasets; for each the place of its dataset in `wanted`."""
        starts, order = (self.target_starts, self.by_target) if backward else (self.source_starts, self.by_source)
        known = wanted < len(starts) - 1
        inside = np.where(known, wanted, 0)
        first = starts[inside]
        counts = np.where(known, starts[np.minimum(inside + 1, len(starts) - 1)] - first, 0)
        whose = np.repeat(np.arange(len(wanted)), counts)
        offsets = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        return order[first[whose] + offsets], whose


@dataclass(frozen=True, eq=False)
class Snapshot:
    counted: Counted
    datasets: dict[int, Known]
    order: tuple[int, ...]
    """Datasets by namespace and name."""
    rank: NDArray[np.int32]
    """The place of each dataset in that order, by its number."""
    edges: EdgeTable
    failed: dict[int, str]
    """The newest run that was to write a dataset, where that one failed."""
    names: int
    """Counts up when a dataset's name or kind changes, or one is new."""

    @cached_property
    def column_names(self) -> frozenset[str]:
        """Every name that a column has."""
        return frozenset(column for columns in {k.columns for k in self.datasets.values()} for column in columns)


class Copy:
    def __init__(self, reading: Callable[[], AbstractContextManager[sa.Connection]]) -> None:
        self._reading = reading
        self._lock = threading.Lock()
        self._held: Snapshot | None = None
        self._newest: dict[int, tuple[float, str, str]] = {}

    def counted(self) -> Counted:
        with self._reading() as connection:
            return counted(connection)

    def snapshot(self) -> Snapshot:
        """The catalogue as it is now."""
        with self._reading() as connection:
            now, held = counted(connection), self._held
            if held is not None and held.counted == now:
                return held
        with self._lock, self._reading() as connection:
            now, held = counted(connection), self._held
            if held is None or held.counted != now:
                fresh = held is None or held.counted.epoch != now.epoch
                self._held = held = self._read(connection, now, None if fresh else held)
                if fresh:
                    give_back()
            return held

    def _read(self, connection: sa.Connection, now: Counted, held: Snapshot | None) -> Snapshot:
        since = -1 if held is None else held.counted.changes
        if connection.dialect.name == "postgresql":  # all that is read here must be of one moment, as it is in SQLite
            connection.rollback()
            connection.execution_options(isolation_level="REPEATABLE READ")
            now = counted(connection)
        known, order, rank, names = self._datasets(connection, since, held)
        table = self._edges(connection, since, held)
        failed = self._failed(connection, since, held)
        return Snapshot(now, known, order, rank, table, failed, names)

    def _datasets(
        self, connection: sa.Connection, since: int, held: Snapshot | None
    ) -> tuple[dict[int, Known], tuple[int, ...], NDArray[np.int32], int]:
        query = sa.select(
            datasets.c.id,
            datasets.c.namespace,
            datasets.c.name,
            datasets.c.kind,
            datasets.c.dropped,
            versions.c.columns,
        ).outerjoin(versions, (versions.c.dataset == datasets.c.id) & (versions.c.number == datasets.c.version))
        shared: dict[str, str] = {}
        alike: dict[tuple[str, ...], tuple[str, ...]] = {}
        fresh: dict[int, Known] = {}
        for r in connection.execution_options(yield_per=1000).execute(query.where(datasets.c.changed > since)):
            columns = tuple(shared.setdefault(c[0], c[0]) for c in r.columns or ())
            columns = alike.setdefault(columns, columns)
            namespace, kind = shared.setdefault(r.namespace, r.namespace), shared.setdefault(r.kind, r.kind)
            fresh[r.id] = Known(r.id, namespace, r.name, kind, r.dropped, columns)
        if held is not None and not fresh:
            return held.datasets, held.order, held.rank, held.names
        known = fresh if held is None else {**held.datasets, **fresh}
        if held is not None and not any(_is_renamed(held.datasets.get(n), d) for n, d in fresh.items()):
            return known, held.order, held.rank, held.names
        order = tuple(sorted(known, key=lambda n: (known[n].namespace, known[n].name, n)))
        names = 0 if held is None else held.names + 1
        rank = np.zeros(max(order, default=0) + 1, dtype=np.int32)
        rank[list(order)] = np.arange(len(order), dtype=np.int32)
        return known, order, rank, names

    def _edges(self, connection: sa.Connection, since: int, held: Snapshot | None) -> EdgeTable:
        fields = [edges.c[name] for name in _FIELDS]
        query = sa.select(*fields, edges.c.at, edges.c.closed_at, edges.c.kind, edges.c.run)
        query = query.where(edges.c.changed > since).order_by(edges.c.id)
        kinds: dict[str, int] = {} if held is None else {kind: n for n, kind in enumerate(held.edges.kinds)}
        shared: dict[str, str] = {}
        types = [np.int32] * len(_FIELDS) + [np.float64, np.float64]
        missing = [-1] * len(_FIELDS) + [0.0, np.inf]
        parts: list[list[NDArray[Any]]] = [[] for _ in types]
        codes: list[int] = []
        names: list[str] = []
        result = connection.execution_options(yield_per=5_000).execute(query)
        for some in result.partitions():
            for row in some:
                codes.append(kinds.setdefault(row[-2], len(kinds)))
                names.append(shared.setdefault(row[-1], row[-1]))
            for part, values, kind, none in zip(parts, zip(*some, strict=True), types, missing, strict=False):
                part.append(np.array([none if v is None else v for v in values], dtype=kind))
        if held is not None and not names:
            return held.edges
        arrays = [np.concatenate([*part, np.empty(0, kind)]) for part, kind in zip(parts, types, strict=True)]
        arrays.append(np.array(codes, dtype=np.int16))
        if held is not None:
            old = held.edges
            before: list[NDArray[Any]] = [getattr(old, name) for name in _ARRAYS]
            known = len(old.number)
            places = np.searchsorted(old.number, arrays[0])
            again = (places < known) & (old.number[np.minimum(places, known - 1)] == arrays[0]) if known else (
                np.zeros(len(places), bool)
            )  # fmt: skip
            merged: list[NDArray[Any]] = []
            for was, new in zip(before, arrays, strict=True):
                changed = was.copy() if again.any() else was
                if again.any():
                    changed[places[again]] = new[again]
                merged.append(np.concatenate([changed, new[~again]]))
            arrays = merged
            names = old.runs + [name for name, is_old in zip(names, again, strict=True) if not is_old]
        named = dict(zip(_ARRAYS, arrays, strict=True))
        return EdgeTable(**named, runs=names, kinds=tuple(kinds))

    def _failed(self, connection: sa.Connection, since: int, held: Snapshot | None) -> dict[int, str]:
        query = sa.select(uses.c.dataset, runs.c.started, runs.c.id, runs.c.status).join(runs, runs.c.id == uses.c.run)
        query = query.where(uses.c.role == OUTPUT)
        if held is None:
            self._newest = {}
            self._take(connection.execution_options(yield_per=10_000).execute(query))
        else:
            touched = sa.select(uses.c.dataset).join(runs, runs.c.id == uses.c.run)
            touched = touched.where(uses.c.role == OUTPUT, runs.c.changed > since)
            numbers = list(set(connection.execute(touched).scalars()))
            if not numbers:
                return held.failed
            for number in numbers:
                self._newest.pop(number, None)
            for first in range(0, len(numbers), _CHUNK):
                self._take(connection.execute(query.where(uses.c.dataset.in_(numbers[first : first + _CHUNK]))))
        return {number: run for number, (_, run, status) in self._newest.items() if status == FAILED}

    def _take(self, rows: Iterable[Any]) -> None:
        newest = self._newest
        for dataset, started, run, status in rows:
            found = (float("-inf") if started is None else started, run, status)
            if dataset not in newest or newest[dataset] < found:
                newest[dataset] = found


def _is_renamed(before: Known | None, now: Known) -> bool:
    return before is None or (before.namespace, before.name, before.kind) != (now.namespace, now.name, now.kind)
