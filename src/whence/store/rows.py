"""Between rows of the catalogue's tables and the values that the rest of whence knows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from functools import cache
from typing import Any

import sqlalchemy as sa

from whence.model import Dataset, Run
from whence.model.redact import parse_redacted, redact
from whence.store.schema import datasets, versions


def seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def moment(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, timezone.utc)


def upsert(
    connection: sa.Connection, table: sa.Table, row: Mapping[str, object], key: list[str], keep: tuple[str, ...] = ()
) -> None:
    connection.execute(_upserting(connection.dialect.name, table, tuple(row), tuple(key), keep), row)


def upsert_all(
    connection: sa.Connection, table: sa.Table, rows: Iterable[Mapping[str, object]], key: list[str]
) -> None:
    for row in rows:
        upsert(connection, table, row, key)


@cache
def _upserting(
    dialect: str, table: sa.Table, names: tuple[str, ...], key: tuple[str, ...], keep: tuple[str, ...]
) -> sa.Executable:
    statement = inserting(dialect, table).values({name: sa.bindparam(name) for name in names})
    changed = {name: statement.excluded[name] for name in names if name not in key and name not in keep}
    found: sa.Executable = statement.on_conflict_do_update(index_elements=list(key), set_=changed)
    return found


def inserting(dialect: str, table: sa.Table) -> Any:
    """An INSERT that can be told what to do with a row that is there already."""
    insert: Any
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert
    return insert(table)


def run_of(row: Any) -> Run:
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


def run_row(run: Run) -> dict[str, object]:
    return {
        "id": run.id,
        "kind": run.kind,
        "name": run.name,
        "status": run.status,
        "error": None if run.error is None else redact(run.error),
        "started": seconds(run.started),
        "ended": seconds(run.ended),
        "application": run.application,
        "details": parse_redacted(json.dumps(dict(run.details))),
    }


def dataset_of(row: Any) -> Dataset:
    columns = tuple(c[0] for c in row.columns or ())
    return Dataset(row.namespace, row.name, row.kind, moment(row.created), moment(row.dropped), columns, row.version)


def is_current() -> sa.ColumnElement[bool]:
    return (versions.c.dataset == datasets.c.id) & (versions.c.number == datasets.c.version)
