"""Opens the catalogue's database: settings, creation, upgrade, and the retry that lets two processes share one file."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, OperationalError

from whence.model import StoreError
from whence.store.location import DATABASE_FILE, StoreLocation
from whence.store.private import make_directory, make_file
from whence.store.schema import metadata
from whence.store.version import HEAD, require_known

BUSY_SECONDS = 30.0
CACHE_MEGABYTES = 32
"""What SQLite keeps in memory for each connection."""
_UPGRADE_LOCK = 0x77656E6365  # any number will do, so long as every whence uses the same

T = TypeVar("T")


def open_engine(location: StoreLocation, cache_megabytes: int = CACHE_MEGABYTES) -> sa.Engine:
    """An engine over a database of the current version, created or upgraded where needed."""
    if location.directory is not None:
        try:
            make_directory(location.directory, location.directory)
            make_file(location.directory / DATABASE_FILE)  # the files beside it get its rights from SQLite
        except OSError as error:
            raise StoreError(f"The store {location.directory} cannot be made: {error}") from error
    try:
        engine = _engine(location, cache_megabytes)
        try:
            retrying(lambda: _ready(engine, location))
        except BaseException:
            engine.dispose()
            raise
        return engine
    except (ImportError, NoSuchModuleError) as error:
        raise StoreError(
            f"The store {location} needs the PostgreSQL driver: pip install 'whence[postgres]' ({error})"
        ) from error
    except DBAPIError as error:
        raise StoreError(f"The store {location} cannot be opened: {_first_line(error)}") from error


def _engine(location: StoreLocation, cache_megabytes: int = CACHE_MEGABYTES) -> sa.Engine:
    if location.directory is None:
        return sa.create_engine(location.url, pool_pre_ping=True, pool_size=2, connect_args={"connect_timeout": 5})
    # Not by a text: of a path, what follows a ? would be options, and %20 a space.
    url = sa.URL.create("sqlite", database=str(location.directory / DATABASE_FILE))
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def settings(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions begin where `begin` below says, not where sqlite3 guesses
        connection.execute(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA cache_size=-{cache_megabytes * 1000}")

    @event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        # A transaction that will write takes the write lock at once: a reader that turns writer would get SQLITE_BUSY.
        writing = connection.get_execution_options().get("whence_writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def writing(engine: sa.Engine) -> sa.Engine:
    return engine.execution_options(whence_writing=True)


def retrying(action: Callable[[], T], attempts: int = 8) -> T:
    """Try again while another process holds the database; SQLite's own waiting does not cover every case."""
    for attempt in range(attempts):
        try:
            return action()
        except OperationalError as error:
            if attempt + 1 == attempts or not _is_passing(error):
                raise
            time.sleep(min(2.0, 0.02 * 2**attempt) * (0.5 + random.random()))
    raise AssertionError("unreachable")


def _is_passing(error: OperationalError) -> bool:
    text = str(error.orig).lower()
    return "locked" in text or "busy" in text or "deadlock" in text or "could not serialize" in text


def _ready(engine: sa.Engine, location: StoreLocation) -> None:
    with engine.connect() as connection:
        version = _version(connection)
    if version == HEAD:
        return
    if version is not None:
        require_known(version, str(location))
    with writing(engine).begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK})
        version = _version(connection)  # another process may have been faster
        if version is None:
            metadata.create_all(connection)
            _stamp(connection, HEAD)
        elif version != HEAD:
            _upgrade(connection)


def _version(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    return str(found) if found is not None else None


def _stamp(connection: sa.Connection, version: str) -> None:
    connection.execute(
        sa.text("CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
    )
    connection.execute(sa.text("INSERT INTO alembic_version VALUES (:version)"), {"version": version})


def _upgrade(connection: sa.Connection, target: str = HEAD) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, target)


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0]
