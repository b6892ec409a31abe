"""Records that lie in files: how byte ranges, which actors speak of, and the records of a file go together.

In a file of lines a record is a line, and its identity is (file, first byte), as it is for SQL and for RDDs. In a
columnar file rows have no bytes of their own: only a location that is the whole file says something of them. In any
other file, or where nothing can be read, a record is the byte range itself: (file, first byte, length).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from whence.actors.records import Location
from whence.model import WhenceError
from whence.model.flow import BY_BYTE, BY_ROW, RecordId, Site, files_site, told_by
from whence.store.lines import Offsets, content_of, line_starts

BY_RANGE = "range"
TO_THE_END = -1
"""The length of a byte range that reaches to the end of its file."""
_COLUMNAR = (b"PAR1", b"ORC")
_LOOKED_AT = 1 << 16  # bytes at a file's start: a file of lines has no zero among them

Span = tuple[int, int]
"""First byte, and the one behind the last."""


@dataclass(frozen=True)
class File:
    """A file as it is now, looked at when first asked about."""

    key: str

    @cached_property
    def told_by(self) -> str:
        head = self._head
        if head is None:
            return BY_RANGE
        if head.startswith(_COLUMNAR):
            return BY_ROW if head.startswith(b"PAR1") else BY_RANGE
        return BY_RANGE if b"\0" in head or self._content is None else BY_BYTE

    @cached_property
    def _head(self) -> bytes | None:
        """None where there is no such file on this machine."""
        try:
            with open(self.key, "rb") as file:
                raw = file.read(_LOOKED_AT)
        except (OSError, ValueError):
            return None
        compressed = self.key.endswith((".gz", ".bz2"))
        return raw if not compressed or self._content is None else bytes(self._content[:_LOOKED_AT])

    @cached_property
    def _content(self) -> Any | None:
        try:
            return content_of(self.key)
        except (OSError, EOFError, WhenceError):
            return None

    @cached_property
    def starts(self) -> Offsets:
        return line_starts(self._content) if self._content is not None else np.zeros(0, np.int64)

    @property
    def length(self) -> int:
        return 0 if self._content is None else len(self._content)

    @cached_property
    def rows(self) -> int:
        import pyarrow.parquet as pq

        return int(pq.ParquetFile(self.key).metadata.num_rows)

    def site(self, told: str | None = None) -> Site:
        return files_site(told or self.told_by, self.key)

    def lines(self, spans: Iterable[Span]) -> Offsets:
        """Where the lines begin that share a byte with one of these spans, ascending."""
        found = np.zeros(len(self.starts), bool)
        for first, end in spans:
            low = int(np.searchsorted(self.starts, first, side="right")) - 1
            high = int(np.searchsorted(self.starts, end, side="left"))
            if end > first:
                found[max(low, 0) : high] = True
        return self.starts[found]

    def line_span(self, start: int) -> Span:
        """The line that begins at this byte, with its end; one byte where none begins there."""
        at = int(np.searchsorted(self.starts, start))
        if at >= len(self.starts) or self.starts[at] != start:
            return start, start + 1
        return start, int(self.starts[at + 1]) if at + 1 < len(self.starts) else self.length

    def text(self, first: int, end: int) -> str | None:
        """What stands there, without a line's end."""
        if self._content is None:
            return None
        return bytes(self._content[first:end]).decode("utf-8", "replace").rstrip("\r\n")


def span_of(location: Location) -> Span:
    end = 2**62 if location.length is None else location.offset + location.length
    return location.offset, end


def is_whole(location: Location, key: str) -> bool:
    if location.offset != 0:
        return False
    try:
        return location.length is None or location.length >= os.path.getsize(key)
    except OSError:
        return False


@dataclass(frozen=True)
class InFile:
    """Records of one file: those that some byte ranges hold."""

    file: File
    site: Site
    spans: tuple[Span, ...]
    columns: tuple[str, ...] = field(default=("file", "offset", "length", "value"))

    @cached_property
    def _found(self) -> list[Span]:
        if told_by(self.site) == BY_BYTE:
            return [self.file.line_span(int(start)) for start in self.file.lines(self.spans)]
        return sorted(dict.fromkeys(self.spans))

    def count(self) -> int:
        if told_by(self.site) == BY_ROW:
            return self.file.rows
        return len(self._found)

    def ids(self, most: int | None = None) -> list[RecordId]:
        kind = told_by(self.site)
        if kind == BY_ROW:
            return [(self.file.key, row) for row in range(self.file.rows)[:most]]
        if kind == BY_BYTE:
            return [(self.file.key, first) for first, _ in self._found[:most]]
        return [(self.file.key, first, _length(first, end)) for first, end in self._found[:most]]

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        if told_by(self.site) == BY_ROW:
            return [(self.file.key, None, None, None) for _ in range(self.file.rows)[:most]]
        return [
            (self.file.key, first, _length(first, end), self.file.text(first, end)) for first, end in self._found[:most]
        ]


def _length(first: int, end: int) -> int:
    return TO_THE_END if end >= 2**62 else end - first


def records_in(file: File, locations: Sequence[Location], *, changed: bool) -> InFile:
    """What these locations of a file mean to everybody else. `changed`: it is another file by now, so that nothing is
    known of its lines or rows."""
    told = file.told_by
    if changed or (told == BY_ROW and not any(is_whole(location, file.key) for location in locations)):
        told = BY_RANGE
    return InFile(file, file.site(told), tuple(dict.fromkeys(map(span_of, locations))))


def asked_span(file: File, id: RecordId) -> Span:
    """The bytes of a record that somebody else tells by this identity."""
    if len(id) == 3 and isinstance(id[1], int) and isinstance(id[2], int):
        return id[1], 2**62 if id[2] == TO_THE_END else id[1] + id[2]
    assert isinstance(id[1], int)
    return file.line_span(id[1]) if file.told_by == BY_BYTE else (id[1], id[1] + 1)
