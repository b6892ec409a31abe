"""Tells the store which files a committed actor made and read, so that the traces of others lead on into it.

Only files and URLs count; names of other streams mean nothing outside of their actors. Nothing here may harm the
program that commits: where the store cannot be written, that is logged, and its files are sources to everybody else.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from whence.actors.registry import Named, version_of
from whence.model.flow import Site
from whence.store import Store

log = logging.getLogger("whence.actors")

KIND = "actors"
_FOLDER = "actors"


@dataclass(frozen=True)
class Teller:
    """Where products are told: in the store that somebody holds, or else in the one at `place`. It pickles, without
    what is held: a process of its own opens the store itself, and a store with a password is not sent anywhere."""

    place: str | None = None
    held: Store | None = None
    process: int = 0

    @classmethod
    def around(cls, root: str, store: Store | None) -> Teller:
        """By default the store is the directory that has `root` as its `actors`, or else `root` itself."""
        if store is not None:
            directory = store.location.directory if store.location.remote is None else None
            return cls(None if directory is None else str(directory), store, os.getpid())
        if "://" in root:
            return cls()
        path = Path(root)
        return cls(str(path.parent if path.name == _FOLDER else path))

    def __reduce__(self) -> tuple[type[Teller], tuple[str | None]]:
        return Teller, (self.place,)

    def tell(self, root: str, actor: str, named: Named) -> None:
        made, read = ([*filter(_is_file, _keys(side))] for side in (named.outputs.values(), named.inputs.values()))
        if not made and not read:
            return
        try:
            self._tell(root, actor, made, read)
        except Exception as problem:
            log.warning(
                "whence could not write down which files an actor made, so that traces of what is read from them end "
                "there; the program itself is not affected: %s",
                problem,
            )

    def _tell(self, root: str, actor: str, made: list[str], read: list[str]) -> None:
        from whence.store.producers import Product, product_of_file

        run, details = run_of(root, actor), {"reads": read}
        products = [product_of_file(key, KIND, run, details) for key in made]
        products.append(Product(site_of(root, actor).key, KIND, run, details=details))
        if self.held is not None and self.process == os.getpid():
            self.held.producers.add(products)
        elif self.place is not None:
            store = Store.at(self.place)
            try:
                store.producers.add(products)
            finally:
                store.close()


def _keys(side: Iterable[frozenset[str]]) -> list[str]:
    return sorted({key for keys in side for key in keys})


def _is_file(key: str) -> bool:
    return "://" in key or version_of(key) is not None


def run_of(root: str, actor: str) -> str:
    """How a graph of actors is found again: where it is kept, and one of its actors."""
    return f"{root}#{actor}"


def site_of(root: str, actor: str, name: str = "") -> Site:
    """What an actor puts out."""
    return Site(f"actor {root}/{actor}", name or actor)


def taken_site_of(root: str, actor: str, name: str = "") -> Site:
    """What an actor takes in from nobody that is known: its records are named by keys of their own."""
    return Site(f"actor {root}/{actor} takes", name or actor)
