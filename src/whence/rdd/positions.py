"""From identities of records to positions in a run's tables, and back: of sources, of results, of saved files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whence.model import StoreError, WhenceError
from whence.model.flow import BY_BYTE, RecordId, Site
from whence.rdd.books import Book, Result, Save, SavedFile, Source, kept_of
from whence.rdd.codec import Ints
from whence.rdd.saves import require_unchanged
from whence.rdd.textfiles import check_unchanged, starts_in
from whence.rdd.walk import Key, Place, State, merged
from whence.store.lines import content_of, line_starts
from whence.store.producers import file_key

if TYPE_CHECKING:
    from whence.rdd.context import LineageContext


@dataclass(frozen=True)
class _Lines:
    """How the lines of a saved file and the records of its partition go together. There are as many lines as records,
    and each is one; or `more` lines: then some records hold line ends, and a line may be of several records."""

    starts: Ints
    records: int

    @property
    def more(self) -> int:
        return len(self.starts) - self.records

    def records_of(self, lines: Ints) -> Ints:
        return _spread(np.maximum(lines - self.more, 0), np.minimum(lines, self.records - 1))

    def lines_of(self, records: Ints) -> Ints:
        return _spread(records, records + self.more)


def _spread(first: Ints, last: Ints) -> Ints:
    if not len(first):
        return first
    return np.unique(np.concatenate([np.arange(a, b + 1) for a, b in zip(first.tolist(), last.tolist(), strict=True)]))


class Positions:
    def __init__(self, book: Book, context: LineageContext | None) -> None:
        self.book = book
        self._context = context

    def in_result(self, site: Site, result: Result, wanted: Iterable[RecordId]) -> State:
        tables, kept = self.book.tables, kept_of(self.book.tables, [result])
        keys = {key[1]: key for key in result.tables}
        state: dict[Place, list[Ints]] = defaultdict(list)
        for record in wanted:
            part, number = _pair(record)
            key = keys.get(part)
            if key is None or not 0 <= number < kept[key]:
                raise StoreError(f"{site} has no record {number} in partition {part}.")
            state[Place(*key, tables[key].last)].append(np.array([number]))
        return merged(state)

    def in_source(self, node: int, wanted: Iterable[RecordId]) -> Iterator[tuple[Place, Ints, set[RecordId]]]:
        source = self.book.source(node)
        if source.told_by is None:
            yield from self._in_partitions(node, wanted)
            return
        by_file: dict[str, list[int]] = defaultdict(list)
        for file, number in wanted:
            by_file[str(file)].append(int(number))
        for part, split in enumerate(source.splits):
            file = file_key(split.path)
            if file not in by_file:
                continue
            numbers = np.unique(by_file[file])
            if source.told_by == BY_BYTE:
                check_unchanged(split)
                positions, known = _found(starts_in(split), numbers)
            else:
                positions = known = numbers[(numbers >= 0) & (numbers < self._size(node, part))]
            if len(known):
                yield Place(node, part, -1, 0), positions, {(file, n) for n in known.tolist()}

    def _in_partitions(self, node: int, wanted: Iterable[RecordId]) -> Iterator[tuple[Place, Ints, set[RecordId]]]:
        for record in wanted:
            part, number = _pair(record)
            if 0 <= number < self._size(node, part):
                yield Place(node, part, -1, 0), np.array([number]), {record}

    def _size(self, node: int, part: int) -> int:
        """How many records of a source's partition were read."""
        key = self._reader(node, part)
        if key is None and self._context is not None and part >= 0:
            rdd = self._context.book.source_rdds[node]
            if part < rdd.getNumPartitions():
                from whence.rdd.capture import captured

                (key,) = captured(rdd, [part])
        return self.book.tables[key].n_in if key is not None else 0

    def _reader(self, node: int, part: int) -> Key | None:
        if self._context is not None:
            self._context.book.take_commits()
        return self.book.readers.get((node, part))

    def in_files(
        self, save: Save, wanted: Iterable[RecordId], widened: list[str]
    ) -> Iterator[tuple[Place, Ints, set[RecordId]]]:
        by_file: dict[str, list[int]] = defaultdict(list)
        for name, number in wanted:
            by_file[str(name)].append(int(number))
        for file in save.files:
            key = save.table(file.part)
            if file.key not in by_file or key is None:
                continue
            table = self.book.tables[key]
            numbers = np.unique(by_file[file.key])
            if save.told_by == BY_BYTE:
                lines = self._lines(save, file, table.n_out)
                at, known = _found(lines.starts, numbers)
                positions = lines.records_of(at)
                if lines.more:
                    widened.append(_several(file, lines))
            else:
                require_unchanged(file)
                positions = known = numbers[(numbers >= 0) & (numbers < table.n_out)]
            if not save.sure and len(positions):
                positions = np.arange(table.n_out)
                widened.append(_unsure(file))
            if len(known):
                yield Place(*key, table.last), positions, {(file.key, n) for n in known.tolist()}

    def _lines(self, save: Save, file: SavedFile, records: int) -> _Lines:
        require_unchanged(file)
        if not file.key.startswith("/"):
            raise WhenceError(f"{file.key} is on no file system of this machine: its lines cannot be read here.")
        lines = _Lines(line_starts(content_of(file.key)), records)
        if lines.more < 0:
            raise StoreError(
                f"{file.key} has {len(lines.starts)} lines where {records} records were saved: it cannot be traced."
            )
        return lines

    def ids_of(self, place: Place, positions: Ints) -> list[RecordId]:
        """The identities of records of a source or a result."""
        if place.attempt < 0:
            source = self.book.source(place.stage)
            if source.told_by is not None:
                return self._ids_in_file(source, place, positions)
        return [(place.part, number) for number in positions.tolist()]

    def _ids_in_file(self, source: Source, place: Place, positions: Ints) -> list[RecordId]:
        split = source.splits[place.part]
        file = file_key(split.path)
        if source.told_by != BY_BYTE:
            return [(file, number) for number in positions.tolist()]
        check_unchanged(split)
        starts = starts_in(split)
        reader = self._reader(place.stage, place.part)
        read = self.book.tables[reader].n_in if reader is not None else 0
        if read > len(starts) or (len(positions) and positions[-1] >= len(starts)):
            raise StoreError(
                f"{file} has {len(starts)} lines from byte {split.start} on where {read} were read: it cannot be told "
                "where in the file these records are."
            )
        return [(file, start) for start in starts[positions].tolist()]

    def saved_ids(
        self, save: Save, part: int, positions: Ints, widened: list[str], ended: list[str]
    ) -> Iterator[RecordId]:
        file = next((f for f in save.files if f.part == part), None)
        if file is None:
            ended.append(f"{save.root}: partition {part} was saved to no file that is known")
            return
        size = self.book.tables[save.table(part) or (-1, -1, -1)].n_out
        if not save.sure:
            positions = np.arange(size)
            widened.append(_unsure(file))
        if save.told_by != BY_BYTE:
            yield from ((file.key, number) for number in positions.tolist())
            return
        try:
            lines = self._lines(save, file, size)
        except WhenceError as failed:
            ended.append(str(failed))
            return
        if lines.more:
            widened.append(_several(file, lines))
        yield from ((file.key, start) for start in lines.starts[lines.lines_of(positions)].tolist())


def _found(starts: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """(position in `starts`, the value) of each wanted one that is there; both ascending."""
    if not len(starts):
        return starts, starts
    at = np.minimum(np.searchsorted(starts, wanted), len(starts) - 1)
    there = starts[at] == wanted
    return at[there], wanted[there]


def _pair(record: RecordId) -> tuple[int, int]:
    if len(record) != 2 or not all(isinstance(x, int) for x in record):
        raise StoreError(f"{record} names no record of an RDD: that is done by its partition and its number in it.")
    return int(record[0]), int(record[1])


def _several(file: SavedFile, lines: _Lines) -> str:
    return (
        f"saveAsTextFile: {file.key} has {len(lines.starts)} lines of {lines.records} records, some of which hold line "
        "ends, so a line may be of any of several records"
    )


def _unsure(file: SavedFile) -> str:
    return (
        f"saveAsTextFile: another action computed the same RDD while {file.key} was written, so that the order in the "
        "file is not certain and all records of its partition count"
    )
