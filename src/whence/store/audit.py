"""Who wrote, who read rows, and who was turned away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa

from whence.store.rows import moment
from whence.store.schema import audit

Read = Callable[[sa.Select[Any]], list[Any]]
Write = Callable[[Callable[[sa.Connection], object]], None]


@dataclass(frozen=True)
class AuditEntry:
    number: int
    at: datetime | None
    who: str | None
    action: str
    status: int
    target: str | None


class Audit:
    def __init__(self, read: Read, write: Write) -> None:
        self._read = read
        self._write = write

    def add(self, who: str | None, action: str, status: int, target: str | None) -> None:
        row = {"at": datetime.now(timezone.utc).timestamp(), "who": who, "action": action, "status": status}
        self._write(lambda c: c.execute(audit.insert().values(**row, target=target)))

    @staticmethod
    def forget(connection: sa.Connection, days: int) -> None:
        before = datetime.now(timezone.utc).timestamp() - days * 86_400
        connection.execute(audit.delete().where(audit.c.at < before))

    def list(self, limit: int, before: int | None = None) -> tuple[AuditEntry, ...]:
        """Newest first."""
        query = sa.select(audit).order_by(audit.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(audit.c.id < before)
        return tuple(AuditEntry(r.id, moment(r.at), r.who, r.action, r.status, r.target) for r in self._read(query))
