"""The catalogue: runs, datasets, their versions and the edges between them. No pyspark: the server needs no JVM."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import Any

import sqlalchemy as sa

from whence.model import FAILED, Dataset, Operator, Run, StoreError, UnknownDataset
from whence.model.lineage import INPUT, OUTPUT, Application, ColumnEdge, DatasetUse, DatasetVersion, Edge, Observation
from whence.store import graph
from whence.store.answers import column_edges_of, datasets_of, edges_of
from whence.store.audit import Audit
from whence.store.changes import bump
from whence.store.database import CACHE_MEGABYTES, open_engine
from whence.store.diagnoses import Diagnoses
from whence.store.entities import Entities
from whence.store.finding import meant
from whence.store.journal import Journal, apply_rows
from whence.store.location import DATABASE_FILE, StoreLocation
from whence.store.private import make_directory
from whence.store.producers import Producers
from whence.store.record import Names, record
from whence.store.results import Results
from whence.store.rows import dataset_of, is_current, moment, run_of, run_row, seconds, upsert, upsert_all
from whence.store.schema import OPEN, aliases, datasets, edges, operators, runs, uses, versions
from whence.store.schema import events as told
from whence.store.tokens import Tokens
from whence.store.traces import Traces
from whence.store.transactions import Transactions

Named = Dataset | tuple[str, str] | str
"""A dataset, its (namespace, name), or any name it goes by: `orders`, `default.orders`, a path."""
Moment = datetime | float | str


_RECORD_LOCK = 0x77656E6366  # one writer at a time: two that see a new dataset at once would both add it
_NAMES = (datasets.c.namespace, datasets.c.name)


class Catalog(Transactions):
    """Every method is one transaction; any thread and any number of processes may use the same store."""

    def __init__(self, engine: sa.Engine, location: StoreLocation, journal: Journal | None = None) -> None:
        """`journal`: where the database is a copy of a catalogue that lies elsewhere."""
        super().__init__(engine, location)
        self._journal = journal
        self._refreshing = threading.Lock()

    @classmethod
    def open(
        cls, location: StoreLocation, cache_megabytes: int = CACHE_MEGABYTES, journal: Journal | None = None
    ) -> Catalog:
        if journal is None or location.directory is None:
            return cls(open_engine(location, cache_megabytes), location)
        make_directory(location.directory, location.directory)
        journal.restore(location.directory / DATABASE_FILE)
        made = cls(open_engine(location, cache_megabytes), location, journal)
        made.refresh()
        return made

    def refresh(self) -> None:
        """Take in what other processes wrote; where all share one database, there is nothing to do."""
        if self._journal is None:
            return
        with self._refreshing:
            for entry in self._journal.unread():
                if entry.observations:
                    self._record(entry.observations)
                if entry.rows:
                    self._write(partial(apply_rows, rows=entry.rows))

    @property
    def producers(self) -> Producers:
        """Who made what, where a trace can go on."""
        return Producers(self._engine, self._tell)

    def _tell(self, rows: Mapping[str, list[dict[str, Any]]]) -> None:
        if self._journal is not None:
            self._journal.add(rows=rows)

    def close(self) -> None:
        self._engine.dispose()
        if self._journal is not None and self._location.directory is not None:
            if self._identity() is not None:
                self._journal.keep(self._location.directory / DATABASE_FILE)
            shutil.rmtree(self._location.directory, ignore_errors=True)

    def record(self, *observations: Observation) -> None:
        """Write down what runs did: each run, new versions of what it changed, and the edges between versions.

        All of it is one transaction: either everything is there afterwards or nothing. What was recorded before is not
        recorded again; a later observation of the same run adds what is new in it.
        """
        if self._journal is not None and observations:
            self._journal.add(observations)
        self._record(observations)

    def _record(self, observations: Sequence[Observation]) -> None:
        def work(connection: sa.Connection) -> None:
            _one_writer(connection)
            known = _known_runs(connection, [observation.run.id for observation in observations])
            change = bump(connection)
            rows = [{**run_row(observation.run), "changed": change} for observation in observations]
            upsert_all(connection, runs, rows, ["id"])
            names = Names()
            for observation in observations:
                record(connection, observation, _at(observation.run), names, change, observation.run.id in known)
                known.add(observation.run.id)

        self._write(work)

    def record_events(
        self,
        events: Mapping[str, list[Mapping[str, Any]]],
        observe: Callable[[str, list[Mapping[str, Any]]], Observation],
    ) -> None:
        """Keep events of runs, each once, and record what all of a run's say together: all of it or nothing."""

        def work(connection: sa.Connection) -> None:
            _one_writer(connection)
            change = bump(connection)
            names = Names()
            seen: list[Observation] = []
            for run_id, some in events.items():
                kept = {
                    row.digest: row.event for row in connection.execute(sa.select(told).where(told.c.run == run_id))
                }
                fresh = {_digest(event): event for event in some}
                fresh = {digest: event for digest, event in fresh.items() if digest not in kept}
                if not fresh:
                    continue
                observation = observe(run_id, [*kept.values(), *fresh.values()])
                known = _known_runs(connection, [run_id])
                upsert(connection, runs, {**run_row(observation.run), "changed": change}, ["id"])
                connection.execute(
                    told.insert(),
                    [{"run": run_id, "digest": digest, "event": event} for digest, event in fresh.items()],
                )
                record(connection, observation, _at(observation.run), names, change, bool(known))
                seen.append(observation)
            if self._journal is not None and seen:
                self._journal.add(seen)

        self._write(work)

    def add_run(self, run: Run) -> None:
        """Write the run down; one of the same id is replaced."""
        self._write(lambda c: upsert(c, runs, {**run_row(run), "changed": bump(c)}, ["id"]))

    def run(self, run_id: str) -> Run | None:
        found = self._read(sa.select(runs).where(runs.c.id == run_id))
        return run_of(found[0]) if found else None

    def runs(self, application: str | None = None, kind: str | None = None, status: str | None = None) -> Results[Run]:
        """Runs, oldest first."""
        query = sa.select(runs).order_by(runs.c.started, runs.c.id)
        for column, wanted in ((runs.c.application, application), (runs.c.kind, kind), (runs.c.status, status)):
            if wanted is not None:
                query = query.where(column == wanted)
        return Results([run_of(row) for row in self._read(query)], Run)

    def add_dataset(self, dataset: Dataset) -> None:
        row = {
            "namespace": dataset.namespace,
            "name": dataset.name,
            "kind": dataset.kind,
            "created": seconds(dataset.created) or datetime.now(timezone.utc).timestamp(),
            "dropped": seconds(dataset.dropped),
        }

        def work(connection: sa.Connection) -> None:
            changed = {**row, "changed": bump(connection)}
            upsert(connection, datasets, changed, ["namespace", "name"], keep=("created",))
            here = (datasets.c.namespace == dataset.namespace, datasets.c.name == dataset.name)
            number = connection.execute(sa.select(datasets.c.id).where(*here)).scalar_one()
            named = sa.select(aliases.c.id).where(
                aliases.c.dataset == number, aliases.c.namespace == dataset.namespace, aliases.c.name == dataset.name
            )
            if connection.execute(named).first() is None:
                values = {
                    "dataset": number,
                    "namespace": dataset.namespace,
                    "name": dataset.name,
                    "since": row["created"],
                }
                connection.execute(aliases.insert().values(values))

        self._write(work)

    def datasets(self, kind: str | None = None, dropped: bool = True) -> Results[Dataset]:
        """All datasets ever seen, in order of their names; `dropped=False` leaves out those that are gone."""
        query = sa.select(datasets, versions.c.columns).outerjoin(versions, is_current()).order_by(*_NAMES)
        if kind is not None:
            query = query.where(datasets.c.kind == kind)
        if not dropped:
            query = query.where(datasets.c.dropped.is_(None))
        return Results([dataset_of(row) for row in self._read(query)], Dataset)

    def dataset(self, named: Named, as_of: Moment | None = None) -> Dataset:
        """The one dataset of this name; raises UnknownDataset when there is none, or more than one."""
        with self._reading() as connection:
            return datasets_of(connection, [self._find(connection, named, as_of)])[0]

    def aliases(self, named: Named) -> tuple[tuple[str, str], ...]:
        """Every (namespace, name) by which this data goes or went."""
        with self._reading() as connection:
            number = self._find(connection, named, None)
            query = sa.select(aliases.c.namespace, aliases.c.name).where(aliases.c.dataset == number)
            return tuple((row.namespace, row.name) for row in connection.execute(query.order_by(aliases.c.id)))

    def versions(self, named: Named) -> Results[DatasetVersion]:
        with self._reading() as connection:
            number = self._find(connection, named, None)
            (dataset,) = datasets_of(connection, [number])
            query = sa.select(versions).where(versions.c.dataset == number).order_by(versions.c.number)
            found = [
                DatasetVersion(
                    dataset, r.number, r.run, moment(r.at), r.how, r.external, tuple(tuple(c) for c in r.columns)
                )
                for r in connection.execute(query)
            ]
        return Results(found, DatasetVersion)

    def changed_by(self, run: str | Run) -> Results[DatasetVersion]:
        """The versions of datasets that a run made."""
        number = run.id if isinstance(run, Run) else run
        with self._reading() as connection:
            rows = connection.execute(
                sa.select(versions).where(versions.c.run == number).order_by(versions.c.dataset, versions.c.number)
            ).all()
            known = datasets_of(connection, [row.dataset for row in rows])
            found = [
                DatasetVersion(d, r.number, r.run, moment(r.at), r.how, r.external, tuple(tuple(c) for c in r.columns))
                for d, r in zip(known, rows, strict=True)
            ]
        return Results(found, DatasetVersion)

    def inputs(self, run: str | Run) -> Results[DatasetUse]:
        """The datasets that a run read, with the version, rows and bytes."""
        return self._uses(uses.c.run == (run.id if isinstance(run, Run) else run), uses.c.role == INPUT)

    def outputs(self, run: str | Run) -> Results[DatasetUse]:
        """The datasets that a run wrote; those that it was to write if it failed."""
        return self._uses(uses.c.run == (run.id if isinstance(run, Run) else run), uses.c.role == OUTPUT)

    def uses(self, dataset: Named) -> Results[DatasetUse]:
        """Every run that read or wrote this dataset, also those that failed, oldest first."""
        with self._reading() as connection:
            number = self._find(connection, dataset, None)
        return self._uses(uses.c.dataset == number)

    def _uses(self, *conditions: sa.ColumnElement[bool]) -> Results[DatasetUse]:
        query = sa.select(uses).join(runs, runs.c.id == uses.c.run).where(*conditions)
        with self._reading() as connection:
            rows = connection.execute(query.order_by(runs.c.started, uses.c.run, uses.c.role, uses.c.dataset)).all()
            known = datasets_of(connection, [row.dataset for row in rows])
        found = [DatasetUse(d, r.run, r.role, r.version, r.rows, r.bytes) for d, r in zip(known, rows, strict=True)]
        return Results(found, DatasetUse)

    def applications(self) -> Results[Application]:
        """Each application with its runs rolled up; the runs themselves stay apart."""
        name = runs.c.application
        failed = sa.func.sum(sa.case((runs.c.status == FAILED, 1), else_=0))
        query = (
            sa.select(name, sa.func.count(), failed, sa.func.min(runs.c.started), sa.func.max(runs.c.ended))
            .group_by(name)
            .order_by(sa.func.min(runs.c.started))
        )
        sides = (
            sa.select(runs.c.application, uses.c.dataset, uses.c.role)
            .join(uses, uses.c.run == runs.c.id)
            .where(runs.c.status != FAILED)
            .distinct()
            .order_by(uses.c.dataset)
        )
        with self._reading() as connection:
            rows = connection.execute(query).all()
            ends = connection.execute(sides).all()
            numbers = sorted({e.dataset for e in ends})
            known = dict(zip(numbers, datasets_of(connection, numbers), strict=True))
        found = []
        for application, count, bad, first, last in rows:
            own = [e for e in ends if e.application == application]
            inputs = tuple(known[e.dataset] for e in own if e.role == INPUT)
            outputs = tuple(known[e.dataset] for e in own if e.role == OUTPUT)
            found.append(Application(application, count, int(bad or 0), moment(first), moment(last), inputs, outputs))
        return Results(found, Application)

    def edges(
        self,
        level: str = "dataset",
        run: str | Run | None = None,
        source: Named | None = None,
        target: Named | None = None,
        as_of: Moment | None = None,
        expand: bool = True,
    ) -> Results[Edge] | Results[ColumnEdge]:
        """What every run was seen to do, oldest first. With `as_of`, only the edges that held at that time.

        A link that reaches every column of its target stands once for each of them; with expand=False once, as `*`.
        """
        _require(level, ("dataset", "column"), "level")
        with self._reading() as connection:
            query = sa.select(edges).order_by(edges.c.id)
            if run is not None:
                query = query.where(edges.c.run == (run.id if isinstance(run, Run) else run))
            if source is not None:
                query = query.where(edges.c.source == self._find(connection, source, None))
            if target is not None:
                query = query.where(edges.c.target == self._find(connection, target, None))
            if as_of is not None:
                when = _when(as_of)
                query = query.where(edges.c.at <= when, (edges.c.closed == OPEN) | (edges.c.closed_at > when))
            rows = connection.execute(query).all()
            steps = [graph.step_of(row) for row in rows]
            if level == "dataset":
                return Results(edges_of(connection, steps), Edge)
            found = list(graph.columns_of(connection, steps))
            return Results(column_edges_of(connection, found, expand), ColumnEdge)

    def lineage(
        self,
        dataset: Named,
        direction: str = "backward",
        depth: int | None = None,
        level: str = "dataset",
        as_of: Moment | None = None,
        column: str | None = None,
    ) -> Results[Edge] | Results[ColumnEdge]:
        """The edges behind a dataset (backward) or after it (forward), nearest first, up to `depth` steps away.

        Backward starts at the version of the time asked; what an overwrite has replaced is no longer behind it. Equal
        edges of many runs stand once, with their latest run. `column` asks about one column and implies level="column".
        """
        _require(direction, ("backward", "forward"), "direction")
        _require(level, ("dataset", "column"), "level")
        backward = direction == "backward"
        when = None if as_of is None else _when(as_of)
        with self._reading() as connection:
            number = self._find(connection, dataset, as_of)
            start = {number: self._start(connection, number, backward, when)}
            if level == "dataset" and column is None:
                steps = graph.walk(connection, start, backward, depth, when)
                return Results(edges_of(connection, steps), Edge)
            wanted: dict[int, set[str] | None] = {number: None if column is None else {column}}
            found = graph.walk_columns(connection, start, wanted, backward, depth, when)
            return Results(column_edges_of(connection, found), ColumnEdge)

    def diff(
        self, before: Moment, after: Moment, dataset: Named | None = None, level: str = "dataset"
    ) -> tuple[Results[Edge] | Results[ColumnEdge], Results[Edge] | Results[ColumnEdge]]:
        """(added, removed): how the edges, or the lineage of one dataset, differ between two times."""

        def at(when: Moment) -> Results[Edge] | Results[ColumnEdge]:
            if dataset is None:
                return self.edges(level, as_of=when)
            try:
                return self.lineage(dataset, level=level, as_of=when)
            except UnknownDataset:
                return Results([], Edge)

        old, new = at(before), at(after)
        kind: type[Edge] | type[ColumnEdge] = Edge if level == "dataset" else ColumnEdge
        old_keys, new_keys = {_key(e) for e in old}, {_key(e) for e in new}
        added = [e for e in new if _key(e) not in old_keys]
        removed = [e for e in old if _key(e) not in new_keys]
        return Results(added, kind), Results(removed, kind)  # type: ignore[return-value]

    def add_operators(self, added: Iterable[Operator]) -> None:
        """Write operators of existing runs down, in order; one of the same run and id is replaced."""
        rows = [
            {
                "run": operator.run,
                "id": operator.id,
                "position": position,
                "name": operator.name,
                "kind": operator.kind,
                "inside": operator.inside,
                "inputs": list(operator.inputs),
                "strategy": operator.strategy,
                "details": dict(operator.details),
            }
            for position, operator in enumerate(added)
        ]
        if rows:
            self._write(lambda c: upsert_all(c, operators, rows, ["run", "id"]))

    @property
    def tokens(self) -> Tokens:
        """Who may ask the server."""
        if self._journal is not None:
            raise StoreError(
                f"The store {self._location} keeps its catalogue as files, which hold no tokens of a server: give "
                f"postgresql://user:password@host/database?tables={self._location} as the store."
            )
        return Tokens(self._read, self._write)

    @property
    def audit(self) -> Audit:
        """What was asked of the server that somebody may want to know later."""
        return Audit(self._read, self._write)

    @property
    def traces(self) -> Traces:
        """Saved traces, and the questions that wait for a session."""
        return Traces(self._read, self._write, self._tell)

    @property
    def diagnoses(self) -> Diagnoses:
        return Diagnoses(self._read, self._write, self._tell)

    @property
    def entities(self) -> Entities:
        """The type system: types, entities and relationships, the built-in ones and the user's own."""
        return Entities(self._read, self._write)

    def operators(self, run_id: str) -> tuple[Operator, ...]:
        query = sa.select(operators).where(operators.c.run == run_id).order_by(operators.c.position, operators.c.id)
        return tuple(
            Operator(r.id, r.run, r.name, r.kind, r.inside, tuple(r.inputs), r.strategy, r.details)
            for r in self._read(query)
        )

    def _start(self, connection: sa.Connection, number: int, backward: bool, when: float | None) -> tuple[int, int]:
        query = sa.select(sa.func.max(versions.c.number)).where(versions.c.dataset == number)
        if when is not None:
            query = query.where(versions.c.at <= when)
        last = connection.execute(query).scalar() or 0
        return (last, last) if backward else (0, OPEN if when is None else last)

    def _find(self, connection: sa.Connection, named: Named, as_of: Moment | None) -> int:
        namespace, name = (None, named) if isinstance(named, str) else tuple(named)
        found = meant(connection, namespace, str(name), None if as_of is None else _when(as_of))
        if len(found) == 1:
            return int(next(iter(found)))
        if not found:
            raise UnknownDataset(
                f"The catalogue knows no dataset {named!r}. w.catalog.datasets() lists those it knows."
            )
        some = ", ".join(repr(f) for f in list(found.values())[:5])
        raise UnknownDataset(f"{named!r} may be any of {len(found)} datasets: {some}. Give (namespace, name).")


def _one_writer(connection: sa.Connection) -> None:
    if connection.dialect.name == "postgresql":  # SQLite has no other
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _RECORD_LOCK})


def _at(run: Run) -> float:
    return (run.ended or run.started or datetime.now(timezone.utc)).timestamp()


def _digest(event: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(event, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _known_runs(connection: sa.Connection, ids: list[str]) -> set[str]:
    found: set[str] = set()
    for first in range(0, len(ids), 500):
        found.update(connection.execute(sa.select(runs.c.id).where(runs.c.id.in_(ids[first : first + 500]))).scalars())
    return found


def _key(edge: Edge | ColumnEdge) -> tuple[object, ...]:
    if isinstance(edge, ColumnEdge):
        return (edge.source, edge.source_column, edge.target, edge.target_column, edge.kind, edge.subtype, edge.masking)
    return edge.source, edge.target, edge.kind


def _require(value: str, allowed: tuple[str, ...], name: str) -> None:
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is none of {', '.join(map(repr, allowed))}.")


def _when(at: Moment) -> float:
    """A time without a zone is local, as everywhere in Python."""
    if isinstance(at, str):
        at = datetime.fromisoformat(at)
    return at.timestamp() if isinstance(at, datetime) else float(at)
