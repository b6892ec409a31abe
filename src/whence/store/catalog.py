"""The catalogue: runs, datasets and operators in a database. No pyspark here: the server reads it without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from whence.model import Dataset, Operator, Run, StoreError
from whence.store.database import open_engine, retrying, writing
from whence.store.location import StoreLocation
from whence.store.schema import datasets, operators, runs


class Catalog:
    """Every method is one transaction; any thread and any number of processes may use the same store."""

    def __init__(self, engine: sa.Engine, location: StoreLocation) -> None:
        self._engine = engine
        self._writer = writing(engine)
        self._location = location

    @classmethod
    def open(cls, location: StoreLocation) -> Catalog:
        return cls(open_engine(location), location)

    def close(self) -> None:
        self._engine.dispose()

    def add_run(self, run: Run) -> None:
        """Write the run down; one of the same id is replaced."""
        row = {
            "id": run.id,
            "kind": run.kind,
            "name": run.name,
            "status": run.status,
            "error": run.error,
            "started": seconds(run.started),
            "ended": seconds(run.ended),
            "application": run.application,
            "details": dict(run.details),
        }
        self._write(lambda c: _upsert(c, runs, row, ["id"]))

    def run(self, run_id: str) -> Run | None:
        found = self._read(sa.select(runs).where(runs.c.id == run_id))
        return _run(found[0]) if found else None

    def runs(self, application: str | None = None, kind: str | None = None) -> tuple[Run, ...]:
        """Runs, oldest first."""
        query = sa.select(runs).order_by(runs.c.started, runs.c.id)
        if application is not None:
            query = query.where(runs.c.application == application)
        if kind is not None:
            query = query.where(runs.c.kind == kind)
        return tuple(_run(row) for row in self._read(query))

    def add_dataset(self, dataset: Dataset) -> None:
        row = {
            "namespace": dataset.namespace,
            "name": dataset.name,
            "kind": dataset.kind,
            "created": seconds(dataset.created) or datetime.now(timezone.utc).timestamp(),
            "dropped": seconds(dataset.dropped),
        }
        self._write(lambda c: _upsert(c, datasets, row, ["namespace", "name"], keep=("created",)))

    def datasets(self) -> tuple[Dataset, ...]:
        query = sa.select(datasets).order_by(datasets.c.namespace, datasets.c.name)
        return tuple(
            Dataset(r.namespace, r.name, r.kind, moment(r.created), moment(r.dropped)) for r in self._read(query)
        )

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
            self._write(lambda c: _upsert_all(c, operators, rows, ["run", "id"]))

    def operators(self, run_id: str) -> tuple[Operator, ...]:
        query = sa.select(operators).where(operators.c.run == run_id).order_by(operators.c.position, operators.c.id)
        return tuple(
            Operator(r.id, r.run, r.name, r.kind, r.inside, tuple(r.inputs), r.strategy, r.details)
            for r in self._read(query)
        )

    def _read(self, query: sa.Select[tuple[object, ...]]) -> list[sa.Row[tuple[object, ...]]]:
        def work() -> list[sa.Row[tuple[object, ...]]]:
            with self._engine.connect() as connection:
                return list(connection.execute(query))

        try:
            return retrying(work)
        except DBAPIError as error:
            raise StoreError(f"The store {self._location} cannot be read: {error.orig}") from error

    def _write(self, action: Callable[[sa.Connection], object]) -> None:
        def work() -> None:
            with self._writer.begin() as connection:
                action(connection)

        try:
            retrying(work)
        except DBAPIError as error:
            raise StoreError(f"The store {self._location} cannot be written: {error.orig}") from error


def seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def moment(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, timezone.utc)


def _upsert(
    connection: sa.Connection, table: sa.Table, row: Mapping[str, object], key: list[str], keep: tuple[str, ...] = ()
) -> None:
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as pg_insert

        statement = pg_insert(table).values(row)
    else:
        from sqlalchemy.dialects.sqlite import insert as sqlite_insert

        statement = sqlite_insert(table).values(row)  # type: ignore[assignment]
    changed = {name: statement.excluded[name] for name in row if name not in key and name not in keep}
    connection.execute(statement.on_conflict_do_update(index_elements=key, set_=changed))


def _upsert_all(
    connection: sa.Connection, table: sa.Table, rows: Iterable[Mapping[str, object]], key: list[str]
) -> None:
    for row in rows:
        _upsert(connection, table, row, key)


def _run(row: sa.Row[tuple[object, ...]]) -> Run:
    return Run(
        row.id,
        row.kind,
        row.name,
        row.status,
        row.error,
        moment(row.started),
        moment(row.ended),
        row.application,
        row.details,
    )
