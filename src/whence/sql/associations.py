"""Reads what taps have written (Tap.java has the layout): of given groups, the source rows of each reading."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whence.model import StoreError

Longs = NDArray[np.int64]

_ROW_BITS = 32
_WIDTHS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class Found:
    """Source rows of one reading, in runs of one group each: the place of the group in what was asked for, and how long
    the run is. A row's id is the number of its file in `files`, the files' hashes, above its row number."""

    runs: Sequence[tuple[int, int]]
    id: Longs
    files: Longs

    @property
    def group(self) -> Longs:
        """Of each row, the place of its group."""
        places = np.array([place for place, _ in self.runs], dtype=np.int64)
        return np.repeat(places, np.array([count for _, count in self.runs], dtype=np.int64))

    def file_and_row(self, ids: Longs) -> tuple[Longs, Longs]:
        return self.files[ids >> _ROW_BITS], ids & ((1 << _ROW_BITS) - 1)


def look_up(
    read: Callable[[str], bytes | None],
    folder: str,
    parts: Sequence[tuple[str, int, int]],
    readings: int,
    keys: Sequence[tuple[int, int]],
) -> list[Found]:
    """The rows behind each group; a group is asked for by the two hashes of its key. A part is a file, with its length
    and its checksum; `read` gives the content of one."""
    wanted = {key: place for place, key in enumerate(keys)}
    hashes = np.array(sorted({key for key, _ in keys}), dtype=np.int64)
    found = [_Gathered() for _ in range(readings)]
    for name, length, checksum in parts:
        content = memoryview(read(f"{folder}/{name}") or b"")
        if len(content) != length or zlib.crc32(content) != checksum:
            raise StoreError(f"What was captured is damaged: {folder}/{name} is not what was written.")
        for chunk in _chunks(content, readings):
            chunk.add(hashes, wanted, found)
    return [one.joined() for one in found]


@dataclass(frozen=True)
class _Gathered:
    files: dict[int, int] = field(default_factory=dict)
    runs: list[tuple[int, int]] = field(default_factory=list)
    ids: list[Longs] = field(default_factory=list)

    def numbers(self, files: Longs) -> Longs:
        """What to add to a chunk's ids: its files have other numbers there."""
        known = [self.files.setdefault(int(file), len(self.files)) for file in files]
        return (np.array(known, dtype=np.int64) - np.arange(len(known))) << _ROW_BITS

    def joined(self) -> Found:
        nothing = [np.empty(0, dtype=np.int64)]
        files = np.array(list(self.files), dtype=np.int64)
        return Found(self.runs, np.concatenate(self.ids or nothing), files)


@dataclass(frozen=True)
class _Chunk:
    keys: Longs
    checks: NDArray[np.int32]
    files: list[Longs]
    counts: list[NDArray[np.int32]]
    widths: list[NDArray[np.uint8]]
    data: list[tuple[bytes, int]]

    def add(
        self,
        hashes: Longs,
        wanted: dict[tuple[int, int], int],
        found: list[_Gathered],
    ) -> None:
        slots = [
            (int(slot), place)
            for slot in np.flatnonzero(np.isin(self.keys, hashes))
            if (place := wanted.get((int(self.keys[slot]), int(self.checks[slot])))) is not None
        ]
        if not slots:
            return
        for reading, (packed, length) in enumerate(self.data):
            counts, widths = self.counts[reading], self.widths[reading]
            sizes = counts.astype(np.int64) * widths
            ends = np.cumsum(sizes)
            body = pa.decompress(packed, length, codec="zstd", asbytes=True) if length else b""
            gathered, moved = found[reading], found[reading].numbers(self.files[reading])
            for slot, place in slots:
                count = int(counts[slot])
                if not count:
                    continue
                start = int(ends[slot] - sizes[slot])
                steps = np.frombuffer(body, _WIDTHS[int(widths[slot])], count, start)
                ids = np.cumsum(steps, dtype=np.int64)
                if moved.any():
                    ids += moved[ids >> _ROW_BITS]
                gathered.runs.append((place, count))
                gathered.ids.append(ids)


def _chunks(content: memoryview, readings: int) -> Iterator[_Chunk]:
    at = 0
    while at < len(content):
        lengths = np.frombuffer(content, ">i4", 2 + 2 * readings, at)
        at += 4 * len(lengths)
        header = pa.decompress(content[at : at + lengths[1]], int(lengths[0]), codec="zstd", asbytes=True)
        at += int(lengths[1])
        data = []
        for reading in range(readings):
            length, packed = int(lengths[2 + 2 * reading]), int(lengths[3 + 2 * reading])
            data.append((content[at : at + packed], length))
            at += packed
        yield _parsed(header, readings, data)


def _parsed(header: bytes, readings: int, data: list[Any]) -> _Chunk:
    at = 0

    def take(kind: str, count: int) -> Any:
        nonlocal at
        values = np.frombuffer(header, kind, count, at)
        at += values.nbytes
        return values

    groups = int(take("<i4", 1)[0])
    keys, checks = take("<i8", groups), take("<i4", groups)
    files, counts, widths = [], [], []
    for _ in range(readings):
        files.append(take("<i8", int(take("<i4", 1)[0])))
        counts.append(take("<i4", groups))
        widths.append(take("u1", groups))
    return _Chunk(keys, checks, files, counts, widths, data)
