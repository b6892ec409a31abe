"""Runs of other processes, from the store alone: no executor, no SparkContext, no program is needed to trace them."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.model import StoreError
from whence.rdd.textfiles import Split, check_unchanged, lines_at
from whence.rdd.walk import Place, State, Tables, merged
from whence.store import private

if TYPE_CHECKING:
    from whence.rdd.context import LineageContext

BOOK = "run.json"


@dataclass(frozen=True)
class Witness:
    """One source record. `offset` and `line` for text files that are still there."""

    source: str
    part: int
    number: int
    path: str | None
    offset: int | None
    line: str | None


@dataclass(frozen=True)
class Touched:
    """One record of a result, by its partition and its number in it."""

    result: str
    part: int
    number: int


@dataclass(frozen=True)
class Result:
    """What an action computed: its partitions' tables; `limit`: only its first records (take)."""

    name: str
    tables: tuple[tuple[int, int, int], ...]
    limit: int | None = None


def write_book(context: LineageContext, results: list[Result]) -> None:
    sources = {}
    readers: dict[str, tuple[int, int, int]] = {}
    for node, rdd in list(context._sources.items()):
        splits = context._splits.get(node)
        known = splits._found if splits is not None else None
        sources[str(node)] = {
            "name": f"{rdd.node.name} {node}",
            "splits": [asdict(s) for s in known] if known else None,
        }
    for info in list(context._stages.values()):
        if info.base.sources is None:
            continue
        for part, (node, number) in enumerate(info.base.sources()):
            for attempt, (_, _, error) in context._tables.get((info.id, part), {}).items():
                if error is None:
                    readers[f"{node}/{number}"] = (info.id, part, attempt)
    book = {"results": [asdict(r) for r in results], "sources": sources, "readers": readers}
    path = Path(context._directory) / BOOK
    private.make_directory(path.parent, path.parents[2])
    private.write(path, json.dumps({**book, "crc32": _sum(book)}).encode())


def _sum(book: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(book, sort_keys=True).encode())


class PastRun:
    def __init__(self, directory: str | Path) -> None:
        self.directory = str(directory)
        try:
            book = json.loads((Path(directory) / BOOK).read_text())
            if book.pop("crc32", _sum(book)) != _sum(book) or {*book} != {"results", "sources", "readers"}:
                raise ValueError(f"{BOOK} was changed since it was written")
        except (OSError, ValueError, AttributeError) as failed:
            raise StoreError(
                f"There is no finished RDD run at {directory}: {failed}. Runs are written when a session is closed."
            ) from failed
        self._tables = Tables(self.directory)
        self._sources: dict[str, Any] = book["sources"]
        self._readers: dict[str, list[int]] = book["readers"]
        self.results = {
            r["name"]: Result(r["name"], tuple((s, p, a) for s, p, a in r["tables"]), r["limit"])
            for r in book["results"]
        }

    @property
    def sources(self) -> tuple[str, ...]:
        """What was read, as `Witness.source` names it."""
        read = {key.partition("/")[0] for key in self._readers}
        return tuple(source["name"] for node, source in self._sources.items() if node in read)

    @property
    def name(self) -> str:
        return os.path.basename(self.directory)

    def size(self, result: str, part: int) -> int:
        """How many records a partition of a result has."""
        return sum(self._tables[key].n_out for key in self.results[result].tables if key[1] == part)

    def backward(self, result: str, records: Iterable[tuple[int, int]]) -> list[Witness]:
        """The source records of a result's records, each named by (partition, number in it)."""
        if result not in self.results:
            raise StoreError(
                f"This run computed no result {result!r}; it computed {', '.join(self.results) or 'none'}."
            )
        keys = {key[1]: key for key in self.results[result].tables}
        state: dict[Place, list[Any]] = {}
        for part, number in records:
            key = keys.get(part)
            if key is None or not 0 <= number < self._tables[key].n_out:
                raise StoreError(f"{result} has no record {number} in partition {part}.")
            state.setdefault(Place(*key, self._tables[key].last), []).append(np.array([number]))
        return self._witnesses(self._tables.back_all(merged(state), lambda _: None))

    def forward(self, records: Iterable[Witness] | Iterable[tuple[str, int, int]]) -> list[Touched]:
        """Every result record that these source records touched. A source record is a witness that `backward` gave, or
        (source, partition, number in it)."""
        numbers = {source["name"]: int(node) for node, source in self._sources.items()}
        state: dict[Place, list[Any]] = {}
        for record in records:
            name, part, number = (record.source, record.part, record.number) if isinstance(record, Witness) else record
            if name not in numbers:
                raise StoreError(f"This run read no source {name!r}; it read {', '.join(numbers) or 'none'}.")
            state.setdefault(Place(numbers[name], part, -1, 0), []).append(np.array([number]))
        limits: dict[tuple[int, int, int], tuple[str, int]] = {}
        for result in self.results.values():
            left = result.limit
            for key in result.tables:
                n = self._tables[key].n_out
                limits[key] = (result.name, n if left is None else min(n, left))
                left = None if left is None else max(0, left - n)
        found = self._tables.forth_all(merged(state), self._tables.readers(limits), set(limits), lambda _: None)
        return [
            Touched(limits[place[:3]][0], place.part, number)
            for place, positions in found.items()
            for number in positions[positions < limits[place[:3]][1]].tolist()
        ]

    def _witnesses(self, state: State) -> list[Witness]:
        found: list[Witness] = []
        for place, numbers in state.items():
            source = self._sources[str(place.stage)]
            split = Split(**source["splits"][place.part]) if source["splits"] else None
            lines = None
            reader = self._readers.get(f"{place.stage}/{place.part}")
            if split is not None and reader is not None:
                check_unchanged(split)
                measures = self._tables[reader[0], reader[1], reader[2]].measures
                lines = lines_at(split, measures, numbers) if measures is not None else None
            for i, number in enumerate(numbers.tolist()):
                offset, line = (None, None) if lines is None else (lines[i][0], str(lines[i][1], "utf-8", "replace"))
                path = split.local if split is not None else None
                found.append(Witness(source["name"], place.part, number, path, offset, line))
        return found
