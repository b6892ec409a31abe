"""Where the lines of a text file begin, as Hadoop cuts and counts them: how a line's number and its byte go together.

A line ends with \\n, \\r or \\r\\n. A piece of a file (a split) has the lines that begin in it, behind its first byte;
the first piece has the line at byte 0 too, without a byte order mark."""

from __future__ import annotations

import bz2
import gzip
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from whence.model import WhenceError

Offsets = npt.NDArray[np.int64]

_MARK = b"\xef\xbb\xbf"
_NEWLINE, _RETURN = 10, 13
UNREAD = (".deflate", ".lz4", ".snappy", ".zst", ".lzo", ".xz", ".zstd")


def content_of(path: str) -> npt.NDArray[np.uint8]:
    """The bytes of a file on this machine, as if it were not compressed; a plain one is mapped, not read."""
    if path.endswith(UNREAD):
        raise WhenceError(f"The lines of {path} cannot be told by their byte: this compression is not read here.")
    if path.endswith((".gz", ".bz2")):
        opened = gzip.open if path.endswith(".gz") else bz2.open
        with opened(path, "rb") as file:
            return np.frombuffer(file.read(), dtype=np.uint8)
    if os.path.getsize(path) == 0:
        return np.zeros(0, dtype=np.uint8)
    return np.memmap(Path(path), dtype=np.uint8, mode="r")


def line_starts(content: npt.NDArray[np.uint8]) -> Offsets:
    """The byte at which each line of a file begins, ascending."""
    if not len(content):
        return np.zeros(0, dtype=np.int64)
    newlines = np.flatnonzero(content == _NEWLINE)
    returns = np.flatnonzero(content == _RETURN)
    if len(returns):
        # \r\n is one end, at its \n
        followed = returns[returns + 1 < len(content)]
        paired = followed[content[followed + 1] == _NEWLINE]
        alone = np.setdiff1d(returns, paired, assume_unique=True)
        newlines = np.union1d(newlines, alone)
    first = 3 if bytes(content[:3]) == _MARK else 0
    starts = np.concatenate(([first], newlines + 1)).astype(np.int64)
    return starts[starts < len(content)] if len(content) > first else np.zeros(0, dtype=np.int64)


def piece_of(starts: Offsets, split: int) -> Offsets:
    """For each line the number of the piece that it belongs to, where a file is cut every `split` bytes."""
    # A line that begins exactly where a piece does is read by the piece before: no piece knows that a line ended there.
    return np.maximum(starts - 1, 0) // split


def line_at(content: npt.NDArray[np.uint8], start: int) -> bytes:
    """The line that begins at this byte, without its end."""
    step = 1 << 16
    for at in range(start, len(content), step):
        block = content[at : at + step]
        ends = np.flatnonzero((block == _NEWLINE) | (block == _RETURN))
        if len(ends):
            return bytes(content[start : at + int(ends[0])])
    return bytes(content[start:])
