"""What `store=` may say: a directory, or a PostgreSQL URL with a path for the tables."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from whence.model import StoreError
from whence.model.redact import redact

DEFAULT_STORE = ".whence"
DATABASE_FILE = "catalog.db"


@dataclass(frozen=True)
class StoreLocation:
    url: str
    """The catalogue's database, as SQLAlchemy spells it."""
    tables: str
    """Where association tables lie: a directory, or any path that Spark can reach."""
    directory: Path | None
    """The store's own directory; None when the catalogue is in a server."""

    def __str__(self) -> str:
        return redact(self.url) if self.directory is None else str(self.directory)

    @property
    def top(self) -> Path | None:
        """The directory that is all whence's; None where it lies on no file system of this machine."""
        return self.directory or (Path(self.tables) if "://" not in self.tables else None)

    @property
    def spool(self) -> Path:
        """Where observations wait while the catalogue cannot be written."""
        if self.directory is not None:
            return self.directory / "spool"
        if "://" not in self.tables:
            return Path(self.tables) / "spool"
        return Path(DEFAULT_STORE).absolute() / "spool"


def parse_location(store: str | Path | None) -> StoreLocation:
    text = str(store) if store else DEFAULT_STORE
    scheme = text.partition("://")[0] if "://" in text else ""
    if re.fullmatch(r"postgres(ql)?(\+\w+)?", scheme):
        return _postgres(text)
    if scheme == "file":
        text = urlsplit(text).path
    elif scheme:
        raise StoreError(
            f"The store {scheme}://... cannot be used: a store is a directory (catalogue in SQLite, tables in Parquet) "
            "or a PostgreSQL URL such as postgresql://user:password@host/database?tables=/path/for/tables."
        )
    directory = Path(text).absolute()
    return StoreLocation(f"sqlite:///{directory / DATABASE_FILE}", str(directory / "tables"), directory)


def _postgres(text: str) -> StoreLocation:
    parts = urlsplit(text)
    query = dict(parse_qsl(parts.query))
    tables = query.pop("tables", None)
    if not tables:
        raise StoreError(
            "A store in PostgreSQL keeps its association tables in Parquet elsewhere: add the path for them to the "
            "URL, for example postgresql://user:password@host/database?tables=/path/for/tables."
        )
    driver = parts.scheme if "+" in parts.scheme else "postgresql+psycopg"
    url = urlunsplit((driver, parts.netloc, parts.path, urlencode(query), ""))
    return StoreLocation(url, tables if "://" in tables else str(Path(tables).absolute()), None)


def check_writable(location: StoreLocation) -> None:
    """Say at once, cheaply and without creating anything, that a directory cannot be a store."""
    if location.directory is None:
        return
    place = location.directory
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise StoreError(f"The store {location.directory} cannot be made: {place} is a file. Give store= a directory.")
    if not os.access(place, os.W_OK | os.X_OK):
        raise StoreError(
            f"The store {location.directory} cannot be written: {place} is not writable for this user. "
            "Give store= a directory that is."
        )
    database = location.directory / DATABASE_FILE
    if not database.exists():
        return
    if not database.is_file() or not os.access(database, os.R_OK | os.W_OK):
        raise StoreError(f"The store {location.directory} cannot be written: {database} is not a writable file.")
    from whence.store.version import require_known

    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5)) as connection:
            rows = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    except sqlite3.OperationalError:
        return  # being created by another process, or locked: opening it will tell
    except sqlite3.DatabaseError as error:
        raise StoreError(f"The store {location.directory} cannot be read: {database}: {error}.") from error
    if rows:
        require_known(rows[0][0], str(location))
