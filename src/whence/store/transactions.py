"""What every question to the database is, and every change: a transaction, with errors that name the store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from whence.model import StoreError
from whence.store.audit import Audit
from whence.store.changes import make_secret, secret
from whence.store.database import retrying, writing
from whence.store.location import DATABASE_FILE, StoreLocation


class Transactions:
    def __init__(self, engine: sa.Engine, location: StoreLocation) -> None:
        self._engine = engine
        self._writer = writing(engine)
        self._location = location
        self._file = self._identity()

    def vacuum(self, audit_days: int | None = None) -> None:
        """Give back space that is no longer needed; with `audit_days` also forget older entries of the audit."""
        if audit_days is not None:
            self._write(lambda c: Audit.forget(c, audit_days))
        held = self._engine.raw_connection()
        try:
            driver: Any = held.driver_connection
            if self._engine.dialect.name == "postgresql":  # SQLite's connections begin nothing by themselves
                driver.autocommit = True
            for statement in ("VACUUM", "ANALYZE"):
                driver.execute(statement)
        except Exception as error:
            raise StoreError(f"The store {self._location} cannot be vacuumed now: {error}") from error
        finally:
            held.invalidate()

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """A connection for questions that this class does not ask itself."""
        return self._reading()

    def secret(self) -> bytes:
        """Random bits that are this store's own."""
        with self._reading() as connection:
            found = secret(connection)
        if found is None:
            self._write(make_secret)
            return self.secret()
        return found

    def _identity(self) -> tuple[int, int] | None:
        """Which file the database is; None where there is none, or another kind of database."""
        if self._location.directory is None:
            return None
        try:
            found = os.stat(self._location.directory / DATABASE_FILE)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _require_same_file(self) -> None:
        """SQLite goes on in a file that was removed as if nothing had happened; at its end everything is gone."""
        if self._identity() != self._file:
            raise StoreError(
                f"The catalogue of the store {self._location} was removed or replaced while it was in use, so what it "
                "held is out of reach. Put it back, or close this session and attach again to begin a new one."
            )

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        self._require_same_file()
        try:
            with self._engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise StoreError(f"The store {self._location} cannot be read: {error.orig}") from error

    def _read(self, query: sa.Select[Any]) -> list[Any]:
        with self._reading() as connection:
            return list(connection.execute(query))

    def _write(self, action: Callable[[sa.Connection], object]) -> None:
        def work() -> None:
            with self._writer.begin() as connection:
                action(connection)

        self._require_same_file()
        try:
            retrying(work)
        except DBAPIError as error:
            raise StoreError(f"The store {self._location} cannot be written: {error.orig}") from error
