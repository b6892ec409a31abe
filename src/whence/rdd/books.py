"""What a run of RDDs did, as far as a trace needs it: what it read, what it computed, where that was saved, and which
tables hold the associations. `LiveBook` (live_book.py) grows while the program runs; `PastBook` is one that a process
wrote into the store, where any other process reads it. Nobody who traces has to know which of the two it is."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from whence.model import StoreError
from whence.rdd.textfiles import Split
from whence.rdd.walk import Key, Tables
from whence.store import Files, files_at

BOOK = "run.json"
_FORM = 2


@dataclass(frozen=True)
class Told:
    """An RDD of the program, and which RDDs it was made from."""

    name: str
    inputs: tuple[int, ...] = ()

    def text(self, node: int) -> str:
        return f"{self.name} (RDD {node})"


@dataclass(frozen=True)
class Source:
    """An RDD that reads what no RDD of this run made.

    `told_by`: BY_BYTE or BY_NUMBER where its records are told as records of files below `root`; None where they are
    told by partition and number. `why`: what a trace cannot say of these records, though it is known that they came
    from elsewhere. `frame`: the records are rows of a DataFrame."""

    name: str
    splits: tuple[Split, ...] = ()
    told_by: str | None = None
    root: str | None = None
    why: str | None = None
    frame: bool = False


@dataclass(frozen=True)
class Result:
    """What an action computed: its partitions' tables. `limit`: only its first records (take). `shown`: whether an
    action gave it to the program, which did not only save it."""

    node: int
    tables: tuple[Key, ...]
    limit: int | None = None
    shown: bool = True


@dataclass(frozen=True)
class SavedFile:
    """`length` and `changed` (mtime in ms) are those of the moment in which it was written."""

    key: str
    part: int
    length: int | None
    changed: int | None


@dataclass(frozen=True)
class Save:
    """Files that an action wrote: the partitions' records in their order. `sure`: no other action computed the same RDD
    at the same time, so that it is certain which table is of which file."""

    node: int
    root: str
    told_by: str
    files: tuple[SavedFile, ...]
    tables: tuple[Key, ...]
    sure: bool = True

    def table(self, part: int) -> Key | None:
        return next((key for key in self.tables if key[1] == part), None)


class Book(Protocol):
    files: Files
    tables: Tables
    saves: list[Save]
    readers: dict[tuple[int, int], Key]
    """Of each partition of a source, as (node, partition): a table of a stage that read it."""

    @property
    def directory(self) -> str:
        """The path or URL of the run."""
        ...

    @property
    def run(self) -> str: ...

    @property
    def nodes(self) -> Mapping[int, Told]: ...

    @property
    def read(self) -> tuple[int, ...]:
        """The sources."""
        ...

    def source(self, node: int) -> Source: ...

    def name_of(self, node: int) -> str:
        """Of an RDD that is no source."""
        ...

    def results(self) -> list[Result]: ...


class PastBook:
    def __init__(self, place: str | Path | Files) -> None:
        self.files = files_at(place)
        try:
            data = self.files.read(BOOK)
            if data is None:
                raise ValueError(f"it has no {BOOK}")
            book = json.loads(data)
            if book.pop("crc32", None) != _sum(book):
                raise ValueError(f"{BOOK} was changed since it was written, or is of an earlier version of whence")
            if book["form"] != _FORM:
                raise ValueError(f"{BOOK} is of another version of whence")
            self._nodes = {int(n): Told(name, tuple(inputs)) for n, (name, inputs) in book["nodes"].items()}
            self._sources = {int(n): _source(s) for n, s in book["sources"].items()}
            self._results = [Result(**{**r, "tables": _keys(r["tables"])}) for r in book["results"]]
            self.saves = [_save(s) for s in book["saves"]]
            self.readers = {(node, part): _key(key) for node, part, key in book["readers"]}
        except (OSError, ValueError, AttributeError, KeyError, TypeError) as failed:
            raise StoreError(
                f"There is no RDD run to read at {self.directory}: {failed}. A run is written when it saves files and "
                "when its session is closed."
            ) from failed
        self.tables = Tables(self.files)

    @property
    def directory(self) -> str:
        return self.files.root

    @property
    def run(self) -> str:
        return self.directory.rsplit("/", 1)[-1]

    @property
    def nodes(self) -> Mapping[int, Told]:
        return self._nodes

    @property
    def read(self) -> tuple[int, ...]:
        return tuple(self._sources)

    def source(self, node: int) -> Source:
        return self._sources[node]

    def name_of(self, node: int) -> str:
        return self._nodes[node].name if node in self._nodes else "RDD"

    def results(self) -> list[Result]:
        return self._results


def kept_of(tables: Tables, results: Iterable[Result]) -> dict[Key, int]:
    """Of each table of results: how many of its records an action computed."""
    found: dict[Key, int] = {}
    for result in results:
        left = result.limit
        for key in result.tables:
            n = tables[key].n_out
            taken = n if left is None else min(n, left)
            left = None if left is None else left - taken
            found[key] = max(taken, found.get(key, 0))
    return found


def write_book(book: Book, results: Iterable[Result]) -> None:
    """Whole or not at all, so that others may read it at any time."""
    read = {node for node, _ in book.readers}
    told = {
        "form": _FORM,
        "nodes": {str(n): [t.name, list(t.inputs)] for n, t in book.nodes.items()},
        "sources": {str(n): asdict(book.source(n)) for n in book.read if n in read},
        "results": [asdict(r) for r in results],
        "saves": [asdict(s) for s in book.saves],
        "readers": [[*place, list(key)] for place, key in book.readers.items()],
    }
    book.files.write(json.dumps({**told, "crc32": _sum(told)}).encode(), BOOK)


def _sum(book: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(book, sort_keys=True).encode())


def _key(found: list[int]) -> Key:
    stage, part, attempt = found
    return stage, part, attempt


def _keys(found: list[list[int]]) -> tuple[Key, ...]:
    return tuple(map(_key, found))


def _source(told: dict[str, Any]) -> Source:
    return Source(**{**told, "splits": tuple(Split(**s) for s in told["splits"])})


def _save(told: dict[str, Any]) -> Save:
    return Save(**{**told, "files": tuple(SavedFile(**f) for f in told["files"]), "tables": _keys(told["tables"])})
