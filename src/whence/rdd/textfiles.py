"""Lines of text files by their number in a split, read at their offset. No Spark here.

Hadoop's reader gives lines without their ends. What some lines together measure without them is noted at capture; the
ends are one byte each (\\n or \\r) or two (\\r\\n), and if the whole split adds up with one width for all, every offset
in it is known. Where it does not add up, nothing is guessed: the caller reads the split through Spark.
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from operator import itemgetter
from typing import IO
from urllib.parse import unquote, urlparse

import numpy as np

from whence.model import SourceChanged
from whence.rdd.codec import Ints
from whence.store.lines import UNREAD, Offsets, content_of, line_starts

_COMPRESSED = (".gz", ".bz2", ".deflate", ".lz4", ".snappy", ".zst", ".lzo", ".xz", ".zstd")


@dataclass(frozen=True)
class Split:
    """A piece of a file as Hadoop cut it. `size` and `changed` (mtime): what the file was when it was first read."""

    path: str
    start: int
    length: int
    size: int | None
    changed: int | None

    @property
    def local(self) -> str | None:
        parsed = urlparse(self.path)
        return unquote(parsed.path) if parsed.scheme in ("", "file") else None


def split_of(path: str, start: int, length: int) -> Split:
    found = Split(path, start, length, None, None)
    local = found.local
    if local is None:
        return found
    try:
        status = os.stat(local)
    except OSError:
        return found
    return Split(path, start, length, status.st_size, status.st_mtime_ns)


def is_compressed(path: str) -> bool:
    return path.endswith(_COMPRESSED)


def is_readable(split: Split) -> str | None:
    """None, or why the lines of this file cannot be found by their byte from here."""
    if split.local is None:
        return f"{split.path} is on no file system of this machine"
    return "its compression is not read here" if split.path.endswith(UNREAD) else None


def starts_in(split: Split) -> Offsets:
    """The byte at which each line of a piece begins, in the order of its records; of a compressed file, the byte of
    what it holds."""
    assert split.local is not None
    content = content_of(split.local)
    if is_compressed(split.path):
        return line_starts(content)
    end = split.start + split.length
    # One byte more tells whether \r and \n at the piece's end are one line end.
    found = line_starts(content[split.start : end + 1]) + split.start
    # A line that begins where the piece does is of the piece before: only there it was seen that another one ended.
    return found if split.start == 0 else found[found > split.start]


def check_unchanged(split: Split) -> None:
    local = split.local
    if local is None or split.size is None:
        return
    try:
        status = os.stat(local)
    except OSError as gone:
        raise SourceChanged(local, "was removed") from gone
    if (status.st_size, status.st_mtime_ns) != (split.size, split.changed):
        raise SourceChanged(local, "was changed")


def lines_at(split: Split, measures: tuple[Ints, Ints], numbers: Ints) -> list[tuple[int, bytes]] | None:
    """(offset, line) of each number, ascending; None where the offsets are not certain."""
    local = split.local
    counts, sizes = measures
    if local is None or local.endswith(_COMPRESSED) or (sizes < 0).any() or not os.path.exists(local):
        return None
    with open(local, "rb") as f:
        first = _line_start(f, split.start)
        last = _line_start(f, split.start + split.length)
        n = int(counts.sum())
        ends = last - first - int(sizes.sum())
        closed = _ends_with_newline(f, last)
        width = next((w for w in (1, 2) if ends == w * n - (0 if closed else w)), None)
        if width is None:
            return None
        starts = np.concatenate(([0], np.cumsum(counts)))
        offsets = first + np.concatenate(([0], np.cumsum(sizes))) + width * starts
        found: list[tuple[int, bytes]] = []
        piece = np.searchsorted(starts, numbers, side="right") - 1
        wanted = zip(piece.tolist(), (numbers - starts[piece]).tolist(), strict=True)
        for p, inside in itertools.groupby(wanted, key=itemgetter(0)):
            at = int(offsets[p])
            lines = os.pread(f.fileno(), int(min(offsets[p + 1], last)) - at, at).splitlines()
            if len(lines) != counts[p]:
                return None
            before = list(itertools.accumulate(map(len, lines), initial=0))
            found += [(at + before[i] + width * i, lines[i]) for _, i in inside]
        return found


def _line_start(f: IO[bytes], position: int) -> int:
    """Where the first line begins that Hadoop counts to a split beginning here: after the line end at or behind it."""
    if position == 0:
        f.seek(0)
        return 3 if f.read(3) == b"\xef\xbb\xbf" else 0
    f.seek(position)
    at = position
    while block := f.read(1 << 16):
        ends = [i for i in (block.find(b"\n"), block.find(b"\r")) if i >= 0]
        if ends:
            end = min(ends)
            if block[end : end + 1] == b"\r":
                f.seek(at + end + 1)
                return at + end + (2 if f.read(1) == b"\n" else 1)
            return at + end + 1
        at += len(block)
    return at


def _ends_with_newline(f: IO[bytes], position: int) -> bool:
    if position == 0:
        return True
    f.seek(position - 1)
    return f.read(1) in (b"\n", b"\r")
