"""One store: its catalogue and its tables, each opened at its first use."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING

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
        if top is not None:
            with contextlib.suppress(OSError):  # who writes there will tell
                make_directory(top if "://" in tables else Path(tables, *parts), top)

    @property
    def catalog(self) -> Catalog:
        with self._lock:
            if self._catalog is None:
                from whence.store.catalog import Catalog

                more = {} if self.cache_megabytes is None else {"cache_megabytes": self.cache_megabytes}
                self._catalog = Catalog.open(self.location, **more)
            return self._catalog

    @property
    def producers(self) -> Producers:
        """Who made what (producers.py)."""
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
