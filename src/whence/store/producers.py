"""Who made what: of each file, array or model that a captured run made, which run, so that a trace can go on there.

Whoever captures adds its products when they are made (an RDD's save, an actor's commit, an array run, a trained model);
whoever traces asks for the products behind the records it has arrived at, in this process or in a later one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from whence.store.database import retrying, writing
from whence.store.names import file_key
from whence.store.schema import producers

__all__ = ["Producers", "Product", "file_key", "product_of_file"]

_AT_ONCE = 500


@dataclass(frozen=True)
class Product:
    """One thing that a captured run made. `key`: a file as `file_key` tells it, or the key of a site.

    `kind` names the front end that opens the run again, `run` is how it finds it. `length` and `changed` (mtime in ms)
    are those that a file had when it was made: a file that has others now is no longer this product."""

    key: str
    kind: str
    run: str
    length: int | None = None
    changed: int | None = None
    details: Mapping[str, object] = field(default_factory=dict, compare=False)
    at: float = field(default=0.0, compare=False)

    @property
    def is_there(self) -> bool:
        """Whether the file is still as it was made, where that can be seen from here."""
        if self.length is None or not self.key.startswith("/"):
            return True
        try:
            status = os.stat(self.key)
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns // 1_000_000) == (self.length, self.changed)


def product_of_file(path: str, kind: str, run: str, details: Mapping[str, object] | None = None) -> Product:
    """For a file that was just made."""
    key = file_key(path)
    length = changed = None
    if key.startswith("/"):
        status = os.stat(key)
        length, changed = status.st_size, status.st_mtime_ns // 1_000_000
    return Product(key, kind, run, length, changed, details or {})


class Producers:
    def __init__(
        self, engine: sa.Engine, tell: Callable[[Mapping[str, list[dict[str, Any]]]], None] | None = None
    ) -> None:
        """`tell`: hears of rows before they are written (journal.py)."""
        self._engine = engine
        self._tell = tell

    def add(self, products: Iterable[Product]) -> None:
        """All of them or none. A key that was made before is now made by the newer run."""
        rows = [
            {
                "key": p.key,
                "kind": p.kind,
                "run": p.run,
                "length": p.length,
                "changed": p.changed,
                "details": dict(p.details),
                "at": p.at or time.time(),
            }
            for p in products
        ]
        if not rows:
            return
        if self._tell is not None:
            self._tell({"producers": rows})

        def write() -> None:
            with writing(self._engine).begin() as connection:
                for first in range(0, len(rows), _AT_ONCE):
                    some = rows[first : first + _AT_ONCE]
                    keys = [row["key"] for row in some]
                    connection.execute(producers.delete().where(producers.c.key.in_(keys)))
                    connection.execute(producers.insert(), some)

        retrying(write)

    def of(self, keys: Iterable[str]) -> dict[str, Product]:
        wanted = list(dict.fromkeys(keys))
        found: dict[str, Product] = {}
        with self._engine.connect() as connection:
            for first in range(0, len(wanted), _AT_ONCE):
                some = wanted[first : first + _AT_ONCE]
                for row in connection.execute(sa.select(producers).where(producers.c.key.in_(some))):
                    found[row.key] = Product(
                        row.key, row.kind, row.run, row.length, row.changed, row.details, float(row.at)
                    )
        return found

    def of_run(self, kind: str, run: str) -> list[Product]:
        """What a run made: where a way forward goes on."""
        with self._engine.connect() as connection:
            rows = connection.execute(
                sa.select(producers).where(producers.c.kind == kind, producers.c.run == run).order_by(producers.c.key)
            )
            return [
                Product(row.key, row.kind, row.run, row.length, row.changed, row.details, float(row.at)) for row in rows
            ]

    def readers(self, keys: Iterable[str]) -> list[tuple[str, str]]:
        """Captured runs, as (kind, run), that say they read one of these (`details["reads"]`)."""
        wanted = set(keys)
        found: dict[tuple[str, str], None] = {}
        with self._engine.connect() as connection:
            for row in connection.execute(sa.select(producers.c.kind, producers.c.run, producers.c.details)):
                if wanted.intersection(row.details.get("reads", ())):
                    found[row.kind, row.run] = None
        return list(found)
