"""The catalogue of a store at a URL: each process has a copy in SQLite on its own machine, and what it writes is also
written to the store, as one small file for each transaction. Whoever opens the store applies what it has not seen yet,
so that several drivers write at once without a lock, and a driver that is killed loses nothing that it had written.

    catalog/<time>-<id>.json            one transaction: observations, products, saved traces
    catalog/snapshot-<time>-<id>.db     a copy of the database, made at close when there is much to apply,
    catalog/snapshot-<time>-<id>.json   and which transactions it holds
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from whence.model import StoreError
from whence.model.lineage import Observation
from whence.store import private
from whence.store.files import Files, RemoteFiles
from whence.store.schema import diagnoses, producers, trace_rows, traces
from whence.store.sealed import sealed, unsealed
from whence.store.spool import dump, load
from whence.store.version import HEAD, require_known

log = logging.getLogger("whence.store")

MANY = 32
"""Transactions to apply on opening, from which on closing makes a copy of the database."""
_KEPT = 2  # copies; somebody may be reading the one before the last
_ENTRY = re.compile(r"\d{20}-[0-9a-f]{8}\.json")
_SNAPSHOT = re.compile(r"(snapshot-\d{20}-[0-9a-f]{8})\.json")
TABLES = {table.name: table for table in (producers, traces, trace_rows, diagnoses)}


class Entry:
    """One transaction of somebody's."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.observations: list[Observation] = [load(text) for text in told.get("observations", ())]
        self.rows: dict[str, list[dict[str, Any]]] = dict(told.get("rows", {}))
        if not set(self.rows) <= set(TABLES):
            raise ValueError("it names a table that is none of the catalogue's")


class Journal:
    def __init__(self, files: Files) -> None:
        self._files = files.below("catalog")
        self._seen: set[str] = set()
        self._in_snapshot: set[str] = set()
        self._damaged: set[str] = set()

    # --- writing

    def add(
        self, observations: Iterable[Observation] = (), rows: Mapping[str, list[dict[str, Any]]] | None = None
    ) -> None:
        """Before it is written to the copy here: what the store does not take has not happened."""
        name = _name() + ".json"
        entry = {"observations": [dump(o) for o in observations], "rows": dict(rows or {})}
        self._files.write(sealed(entry), name)
        self._seen.add(name)

    # --- reading

    def restore(self, database: Path) -> None:
        """Begin with the newest copy of the database that can be read."""
        found = (_SNAPSHOT.fullmatch(name) for name in self._files.names())
        for stem in sorted((match[1] for match in found if match), reverse=True):
            try:
                told = unsealed(self._files.read(f"{stem}.json") or b"")
                require_known(told["version"], self._files.root)
                private.write(database, self._files.read(f"{stem}.db") or b"")
                _check(database)
                self._seen = set(map(str, told["seen"]))
                self._in_snapshot = set(self._seen)
                return
            except (ValueError, KeyError, TypeError, sqlite3.DatabaseError) as problem:
                log.warning("whence begins without the copy of the catalogue %s: %s", stem, problem)
                with contextlib.suppress(OSError):
                    database.unlink()

    def unread(self) -> Iterator[Entry]:
        """What others wrote since the last time, oldest first. What is damaged is warned of, once, and left out."""
        for name in self._files.names():
            if not _ENTRY.fullmatch(name) or name in self._seen or name in self._damaged:
                continue
            data = self._files.read(name)
            if data is None:
                continue
            try:
                entry = Entry(unsealed(data))
            except (ValueError, KeyError, TypeError) as problem:
                self._damaged.add(name)
                log.warning(
                    "whence leaves out a damaged part of the catalogue, %s: %s", self._files.path(name), problem
                )
                continue
            yield entry
            self._seen.add(name)

    # --- closing

    def keep(self, database: Path) -> None:
        """Copy the database to the store where the next one would have much to apply."""
        if len(self._seen - self._in_snapshot) < MANY:
            return
        stem = f"snapshot-{_name()}"
        copy = database.with_name(f"{stem}.db")
        try:
            private.make_file(copy)
            with (
                contextlib.closing(sqlite3.connect(database)) as source,
                contextlib.closing(sqlite3.connect(copy)) as kept,
            ):
                source.backup(kept)
            if isinstance(self._files, RemoteFiles):
                self._files.put(str(copy), f"{stem}.db")
            else:
                self._files.write(copy.read_bytes(), f"{stem}.db")
            self._files.write(sealed({"version": HEAD, "seen": sorted(self._seen)}), f"{stem}.json")
            self._in_snapshot = set(self._seen)
            known = sorted(match[1] for name in self._files.names() if (match := _SNAPSHOT.fullmatch(name)))
            for old in known[:-_KEPT]:
                self._files.delete(f"{old}.json")
                self._files.delete(f"{old}.db")
        except (OSError, StoreError, sqlite3.DatabaseError) as problem:
            log.warning("whence could not copy the catalogue to %s; nothing is lost: %s", self._files.root, problem)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(copy)


def apply_rows(connection: sa.Connection, rows: Mapping[str, list[dict[str, Any]]]) -> None:
    """Rows of tables that have keys of their own; of a key that was there, the newer row stays."""
    for name, some in rows.items():
        table = TABLES[name]
        keys = [column.name for column in table.primary_key]
        for row in some:
            same = sa.and_(*(table.c[key] == row[key] for key in keys))
            if table is producers:
                connection.execute(table.delete().where(same, table.c.at <= row["at"]))
            if connection.execute(sa.select(sa.literal(1)).where(same)).first() is None:
                connection.execute(table.insert().values({key: row[key] for key in set(table.c.keys()) & set(row)}))


def _name() -> str:
    return f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}"


def _copy(database: Path, copy: Path) -> None:
    with contextlib.closing(sqlite3.connect(database)) as source, contextlib.closing(sqlite3.connect(copy)) as kept:
        source.backup(kept)


def _check(database: Path) -> None:
    with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        if connection.execute("PRAGMA quick_check").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("it is damaged")
