"""Counts what changes in the catalogue, so that a copy in memory knows whether it is still true, and what is new."""

from __future__ import annotations

import secrets
from typing import NamedTuple

import sqlalchemy as sa

from whence.store.rows import inserting
from whence.store.schema import counters

_CHANGES, _EPOCH, _SECRET = "changes", "epoch", "secret"


class Counted(NamedTuple):
    changes: int
    epoch: int


def bump(connection: sa.Connection, name: str = _CHANGES) -> int:
    """Count up; the count belongs to this transaction, and others wait until it ends."""
    insert = inserting(connection.dialect.name, counters).values(name=name, value=1)
    statement = insert.on_conflict_do_update(index_elements=["name"], set_={"value": counters.c.value + 1})
    return int(connection.execute(statement.returning(counters.c.value)).scalar_one())


def forget_copies(connection: sa.Connection) -> None:
    """Rows went away: a copy in memory cannot be brought up to date by reading what is new."""
    bump(connection, _EPOCH)


def counted(connection: sa.Connection) -> Counted:
    rows = connection.exec_driver_sql("SELECT name, value FROM counters")
    held = {row[0]: row[1] for row in rows}
    return Counted(int(held.get(_CHANGES, 0)), int(held.get(_EPOCH, 0)))


def secret(connection: sa.Connection) -> bytes | None:
    """Random bits of this store, from which ids are made that tell nothing."""
    held = connection.execute(
        sa.select(counters.c.value).where(counters.c.name.startswith(_SECRET)).order_by(counters.c.name)
    ).scalars()
    return b"".join(int(value).to_bytes(8, "big") for value in held) or None


def make_secret(connection: sa.Connection) -> None:
    for part in range(4):
        insert = inserting(connection.dialect.name, counters).values(
            name=f"{_SECRET}{part}", value=secrets.randbits(62)
        )
        connection.execute(insert.on_conflict_do_nothing(index_elements=["name"]))
