"""What `store=` may say: a directory, a URL that Spark can reach, or a PostgreSQL URL with a path for the tables."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from whence.model import StoreError
from whence.model.redact import redact
from whence.store.files import spelled_out

SCHEMES = (
    "s3a", "s3", "s3n", "hdfs", "webhdfs", "swebhdfs", "viewfs", "abfss", "abfs", "wasbs", "wasb", "adl", "gs", "dbfs",
    "oss", "cosn", "obs", "ofs", "o3fs",
)  # fmt: skip
"""File systems that Hadoop, and so Spark, may know."""
DEFAULT_STORE = ".whence"
DATABASE_FILE = "catalog.db"


@dataclass(frozen=True)
class StoreLocation:
    url: str
    """The catalogue's database in a server, as SQLAlchemy spells it; else a name for it."""
    tables: str
    """Where association tables lie: a directory, or any path that Spark can reach."""
    directory: Path | None
    """The store's own directory; None when the catalogue is in a server. Of a store at a URL: the directory of this
    process for its copy of the catalogue."""
    remote: str | None = None
    """The URL of a store whose files all lie on a file system of Spark's."""

    def __str__(self) -> str:
        if self.remote is not None:
            return redact(self.remote)
        return redact(self.url) if self.directory is None else str(self.directory)

    @property
    def top(self) -> Path | None:
        """The directory that is all whence's; None where it lies on no file system of this machine."""
        if self.remote is not None:
            return None
        return self.directory or (Path(self.tables) if "://" not in self.tables else None)

    @property
    def files(self) -> str:
        """Where the rooms put files of their own: in the store's directory, or beside its tables."""
        return self.remote or (str(self.directory) if self.directory is not None else self.tables)

    @property
    def is_elsewhere(self) -> bool:
        """Whether its files are reached through Spark, not as paths of this machine."""
        return "://" in self.files

    @property
    def spool(self) -> Path:
        """Where observations wait while the catalogue cannot be written."""
        if self.remote is not None:  # it outlives the copy of the catalogue
            base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
            return Path(base, "whence", f"spool-{hashlib.sha256(self.remote.encode()).hexdigest()[:16]}")
        if self.directory is not None:
            return self.directory / "spool"
        if "://" not in self.tables:
            return Path(self.tables) / "spool"
        return Path(DEFAULT_STORE).absolute() / "spool"


def parse_location(store: str | os.PathLike[str] | None) -> StoreLocation:
    if store is not None and not isinstance(store, str | os.PathLike):
        raise StoreError(f"A store is a directory, as a text or a Path, or a URL, not {store!r}.")
    text = spelled_out(os.fspath(store)) if store else DEFAULT_STORE
    if "\0" in text:
        raise StoreError(f"The store {text!r} cannot be used: no path has a character of the code 0.")
    scheme = text.partition("://")[0] if "://" in text else ""
    if re.fullmatch(r"postgres(ql)?(\+\w+)?", scheme):
        return _postgres(text)
    if text.startswith("file:/"):  # as Hadoop reads it: what follows is a path as it stands, without escapes
        host, slash, path = text.removeprefix("file:").removeprefix("//").partition("/")
        if host not in ("", "localhost"):
            raise StoreError(
                f"The store {text} cannot be used: {host} is no part of a path. Write file:///{host}{slash}{path}."
            )
        text = slash + path
    elif scheme in SCHEMES:
        return _elsewhere(text)
    elif scheme:
        raise StoreError(
            f"The store {scheme}://... cannot be used: a store is a directory (catalogue in SQLite, tables in "
            "Parquet), a URL of a file system that Spark knows, such as s3a://bucket/lineage, or a PostgreSQL URL "
            "such as postgresql://user:password@host/database?tables=/path/for/tables."
        )
    directory = Path(text).absolute()
    return StoreLocation(f"sqlite:///{directory / DATABASE_FILE}", str(directory / "tables"), directory)


def _elsewhere(text: str) -> StoreLocation:
    url = text.rstrip("/")
    if not url.partition("://")[2].strip("/"):
        raise StoreError(f"The store {text} names no folder: give one, such as {url.rstrip(':/')}://bucket/lineage.")
    here = Path(tempfile.gettempdir(), f"whence-{os.getpid()}-{os.urandom(8).hex()}")  # made when it is first used
    return StoreLocation(f"sqlite:///{here / DATABASE_FILE}", f"{url}/tables", here, url)


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
    tables = spelled_out(tables)
    if tables.startswith("file://"):
        tables = urlsplit(tables).path
    return StoreLocation(url, tables.rstrip("/") if "://" in tables else str(Path(tables).absolute()), None)


def check_writable(location: StoreLocation) -> None:
    """Say at once, cheaply and without creating anything, that a directory cannot be a store."""
    if location.directory is None or location.remote is not None:
        return
    place = location.directory
    try:
        while not place.exists():
            place = place.parent
    except OSError as error:  # a name that is too long
        raise StoreError(f"The store {location.directory} cannot be made: {error.strerror}.") from error
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
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
            rows = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    except sqlite3.OperationalError:
        return  # being created by another process, or locked: opening it will tell
    except sqlite3.DatabaseError as error:
        raise StoreError(f"The store {location.directory} cannot be read: {database}: {error}.") from error
    if rows:
        require_known(rows[0][0], str(location))
