"""One store: its catalogue and its tables, each opened at its first use."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from whence.model import StoreError
from whence.store.files import Files, files_at
from whence.store.location import StoreLocation, check_writable, parse_location
from whence.store.private import make_directory
from whence.store.seal import Seal

if TYPE_CHECKING:  # SQLAlchemy and pyarrow take a while to import
    from whence.store.catalog import Catalog
    from whence.store.producers import Producers
    from whence.store.tables import Tables


class Store:
    def __init__(self, location: StoreLocation) -> None:
        self.location = location
        self.cache_megabytes: int | None = None
        """What SQLite may keep in memory for each connection, for who has many of them; set before the first use."""
        self.seal = Seal()
        self._catalog: Catalog | None = None
        self._tables: Tables | None = None
        self._files: Files | None = None
        self._lock = threading.Lock()

    @classmethod
    def at(cls, store: str | Path | None) -> Store:
        """The store that `store=` names. A directory that cannot be one is refused here; nothing is created yet."""
        location = parse_location(store)
        check_writable(location)
        return cls(location)

    def make(self, *parts: str) -> None:
        """Its own directories, down to these tables, before somebody else makes them who would let others in."""
        top, tables = self.location.top, self.location.tables
        if self.location.is_elsewhere:
            with contextlib.suppress(OSError, StoreError):
                self.files.make(*(("tables",) if self.location.remote is not None else ()), *parts)
        elif top is not None:
            with contextlib.suppress(OSError):  # who writes there will tell
                make_directory(top if "://" in tables else Path(tables, *parts), top)

    @property
    def catalog(self) -> Catalog:
        with self._lock:
            if self._catalog is None:
                from whence.store.catalog import Catalog
                from whence.store.database import CACHE_MEGABYTES
                from whence.store.journal import Journal

                megabytes = CACHE_MEGABYTES if self.cache_megabytes is None else self.cache_megabytes
                journal = Journal(self.files) if self.location.remote is not None else None
                self._catalog = Catalog.open(self.location, megabytes, journal)
            return self._catalog

    @property
    def files(self) -> Files:
        """Everything that is no table of Spark's and not the catalogue: associations of RDDs, actors, array runs."""
        if self._files is None:
            self._files = files_at(self.location.files)
        return self._files

    def reached_by(self, files: Files) -> None:
        """With Spark at hand its own file systems are used; to be said before the first use."""
        self._files = files

    def refresh(self) -> None:
        """See what other processes have written since, where that is not seen by itself."""
        if self.location.remote is not None:
            self.catalog.refresh()

    @property
    def producers(self) -> Producers:
        """Who made what (producers.py)."""
        self.refresh()
        return self.catalog.producers

    @property
    def tables(self) -> Tables:
        with self._lock:
            if self._tables is None:
                from whence.store.tables import Tables

                self._tables = Tables(self.location.tables, self.location.top)
            return self._tables

    def close(self) -> None:
        with self._lock:
            if self._catalog is not None:
                self._catalog.close()
                self._catalog = None
