"""The paper's propagated design (Titian-P): a result's complete lineage, down to the sources, is put together when the
job ends and stored with the result. It costs an extra pass over the tables; a trace to the sources is then one look-up.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable

import numpy as np

from whence.rdd.books import Book
from whence.rdd.codec import Ints, pack, ragged, unpack
from whence.rdd.tables import Table
from whence.rdd.walk import Place, State, Tables, merged_states
from whence.rdd.wire import Origin
from whence.store import Files

Pairs = tuple[Ints, Ints, Ints]  # (index into what was asked, which source partition, position in it)


class Composer:
    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.sources: list[tuple[int, int]] = []
        self.notes: list[str] = []
        self._index: dict[tuple[int, int], int] = {}

    def _source(self, origin: Origin) -> int:
        key = (origin.stage, origin.part)
        if key not in self._index:
            self._index[key] = len(self.sources)
            self.sources.append(key)
        return self._index[key]

    def of(self, table: Table, space: int, positions: Ints) -> Pairs:
        """The source records of each position."""
        owner, found = np.arange(len(positions)), positions
        while space:
            note = table.links[space - 1].get("note")
            if note and note not in self.notes:
                self.notes.append(note)
            distinct, where = np.unique(found, return_inverse=True)
            inner, before = table.back_listed(space, distinct)
            owner, found = _through(owner, where, inner, before, len(distinct))
            space -= 1
        distinct, where = np.unique(found, return_inverse=True)
        index, part, position = self._arrivals(table, distinct)
        counts = np.bincount(index, minlength=len(distinct))
        order = np.argsort(index, kind="stable")
        chosen = order[ragged((np.cumsum(counts) - counts)[where], counts[where])]
        owner = np.repeat(owner, counts[where])
        together = np.unique(np.stack((owner, part[chosen], position[chosen])), axis=1)
        return together[0], together[1], together[2]

    def _arrivals(self, table: Table, positions: Ints) -> Pairs:
        found: list[Pairs] = []
        for origin in table.origins:
            starts, origins, firsts = table.runs
            run = np.searchsorted(starts, positions, side="right") - 1
            mine = np.flatnonzero(origins[run] == table.origins.index(origin))
            if not len(mine):
                continue
            numbers = firsts[run[mine]] + positions[mine] - starts[run[mine]]
            if origin.attempt < 0:
                found.append((mine, np.full(len(mine), self._source(origin)), numbers))
                continue
            writer = self.tables.of(origin)
            space, places = writer.stood(origin, numbers)
            index, part, position = self.of(writer, space, places)
            found.append((mine[index], part, position))
        if not found:
            nothing = np.zeros(0, dtype=np.int64)
            return nothing, nothing, nothing
        return tuple(np.concatenate(column) for column in zip(*found, strict=True))  # type: ignore[return-value]


def _through(owner: Ints, where: Ints, inner: Ints, before: Ints, n: int) -> tuple[Ints, Ints]:
    """(owner, index into distinct) joined with (index into distinct, position)."""
    counts = np.bincount(inner, minlength=n)
    order = np.argsort(inner, kind="stable")
    chosen = order[ragged((np.cumsum(counts) - counts)[where], counts[where])]
    return np.repeat(owner, counts[where]), before[chosen]


def name_of_full(key: tuple[int, int, int]) -> tuple[str, str]:
    return str(key[0]), f"{key[1]}-{key[2]}.full"


def write_full(files: Files, key: tuple[int, int, int]) -> int:
    """Runs on an executor. Bytes written."""
    composer = Composer(Tables(files))
    table = composer.tables[key]
    owner, part, position = composer.of(table, table.last, np.arange(table.n_out))
    columns = [pack(np.diff(c, prepend=0)) for c in (owner, part, position)]
    head = json.dumps(
        {"sources": composer.sources, "notes": composer.notes, "sizes": [len(c) for c in columns]}
    ).encode()
    body = len(head).to_bytes(4, "little") + head + b"".join(columns)
    data = zlib.crc32(body).to_bytes(4, "little") + body
    files.write(data, *name_of_full(key))
    return len(data)


def read_full(files: Files, key: tuple[int, int, int], positions: Ints) -> tuple[State, list[str]] | None:
    """The source records of a result's records, and notes; None where the complete lineage was not stored, or is not
    as it was stored: the tables it was put together from tell the same."""
    try:
        data = files.read(*name_of_full(key)) or b""
    except OSError:
        return None
    if len(data) < 8 or int.from_bytes(data[:4], "little") != zlib.crc32(data[4:]):
        return None
    at = 8 + int.from_bytes(data[4:8], "little")
    head = json.loads(data[8:at])
    columns = []
    for size in head["sizes"]:
        columns.append(np.cumsum(unpack(data[at : at + size])))
        at += size
    owner, part, position = columns
    keep = np.isin(owner, positions)
    part, position = part[keep], position[keep]
    found = {
        Place(node, number, -1, 0): np.unique(position[part == i])
        for i, (node, number) in enumerate(head["sources"])
        if (part == i).any()
    }
    return found, head["notes"]


def stored_whole(book: Book, state: State, note: Callable[[str], None]) -> State | None:
    """The way to the sources where the strategy put it together beforehand."""
    found: State = {}
    for place, positions in state.items():
        if place.attempt < 0 or place.space != book.tables.of(place).last:
            return None
        one = read_full(book.files, place[:3], positions)
        if one is None:
            return None
        for text in one[1]:
            note(text)
        found = merged_states(found, one[0])
    return found
