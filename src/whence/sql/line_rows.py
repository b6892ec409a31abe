"""Rows of text, CSV and JSON files: from the number that a query tells a row by to the byte where its line begins.

By file and byte, rows of such files are the same for everybody: an RDD's line, an actor's Location, a row of a query
that reads the file with other options. Which lines are rows follows Spark's own readers: CSV and JSON skip blank lines,
CSV its comments and the header. Where one line may be several rows, or several lines one, nothing is guessed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from whence.model import WhenceError
from whence.spark.catalyst import SPLIT
from whence.spark.construct import POSITION_BITS
from whence.sql.catalyst import Catalyst, Plan, remembered
from whence.sql.sources import files_apart
from whence.store.lines import Offsets, content_of, line_at, line_starts, piece_of
from whence.store.producers import file_key

_BY_LINES = ("text", "csv", "json")
_ENCODINGS = ("utf-8", "utf8", "us-ascii", "iso-8859-1", "windows-1252")


def why_not_by_byte(c: Catalyst, scan: Plan) -> str | None:
    """Why the rows of this scan cannot be told by the byte of their line; None if they can."""
    kind = c.format_of(scan)
    if kind not in _BY_LINES:
        return f"{kind} files have no lines"
    options = c.options_of(scan, secrets=True)
    if options.get("multiline", "").lower() == "true" or options.get("wholetext", "").lower() == "true":
        return "a row of it may be several lines"
    if options.get("linesep", "\n") != "\n" or options.get("mode", "").upper() == "DROPMALFORMED":
        return "not each of its lines is a row"
    if options.get("encoding", options.get("charset", "utf-8")).lower() not in _ENCODINGS:
        return "its lines are not told by single bytes"
    return None if files_apart(c, scan) else "it has too many files for their rows to be told one by one"


class LineRows:
    """The rows of one file as one scan reads it."""

    def __init__(self, c: Catalyst, scan: Plan, path: str) -> None:
        if not path.startswith("/"):
            raise WhenceError(f"The lines of {path} cannot be told by their byte from here: it is on another system.")
        options = c.options_of(scan, secrets=True)
        content = content_of(path)
        starts = line_starts(content)
        self._content = content
        kind = c.format_of(scan)
        self._numbers = np.arange(1, len(starts) + 1, dtype=np.int64)
        if kind != "text":
            is_row = _rows_among(content, starts, kind, options, path)
            starts, self._numbers = starts[is_row], self._numbers[is_row]
        whole = path.endswith((".gz", ".bz2"))  # not cut into pieces, but for bz2, which Spark may cut
        if path.endswith(".bz2"):
            raise WhenceError(f"The rows of {path} cannot be told by their byte: Spark may cut it where it likes.")
        pieces = np.zeros(len(starts), dtype=np.int64) if whole else piece_of(starts, SPLIT)
        # In its piece a row is told by its number; pieces ascend, so the first of each is where it begins.
        within = np.arange(len(starts)) - np.searchsorted(pieces, pieces)
        self._starts = starts
        self._positions = within + (pieces << POSITION_BITS)

    def bytes_of(self, positions: Sequence[int]) -> Offsets:
        return self._starts[self._at(self._positions, np.asarray(positions, dtype=np.int64))]

    def positions_of(self, offsets: Sequence[int]) -> Offsets:
        return self._positions[self._at(self._starts, np.asarray(offsets, dtype=np.int64))]

    def lines_of(self, positions: Sequence[int]) -> list[bytes]:
        """The lines themselves, without their ends."""
        return [line_at(self._content, int(start)) for start in self.bytes_of(positions).tolist()]

    def numbers_of(self, positions: Sequence[int]) -> Offsets:
        """The numbers of their lines, from 1, as an editor counts them."""
        return self._numbers[self._at(self._positions, np.asarray(positions, dtype=np.int64))]

    def holding(self, first: int, length: int | None) -> Offsets:
        """Positions of the rows whose lines have a byte of this range."""
        begin = max(int(np.searchsorted(self._starts, first, side="right")) - 1, 0)
        end = len(self._starts) if length is None else int(np.searchsorted(self._starts, first + length))
        return self._positions[begin:end]

    @staticmethod
    def _at(known: Offsets, wanted: Offsets) -> Offsets:
        at = np.searchsorted(known, wanted)
        if len(wanted) and (at.max() >= len(known) or (known[at] != wanted).any()):
            missing = wanted[at >= len(known)] if at.max() >= len(known) else wanted[known[at] != wanted]
            raise WhenceError(f"There is no row at {int(missing[0])}: the file was changed, or is read otherwise.")
        return at


def _rows_among(
    content: npt.NDArray[np.uint8], starts: Offsets, kind: str, options: Mapping[str, str], path: str
) -> npt.NDArray[np.bool_]:
    """Which lines are rows. Most lines are told by their first byte; only the others are looked at one by one."""
    first = content[starts] if len(starts) else np.zeros(0, dtype=np.uint8)
    is_row = first > _LAST_BLANK
    lists = bool((first == ord("[")).any())
    for at in np.flatnonzero(~is_row).tolist():
        line = line_at(content, int(starts[at])).lstrip(_BLANK)
        is_row[at] = bool(line)
        lists = lists or line.startswith(b"[")
    if kind == "json" and lists:
        raise WhenceError(f"The rows of {path} cannot be told by their byte: a line of it is a list of several.")
    if kind == "csv":
        comment = options.get("comment", "").encode()
        if comment:
            for at in np.flatnonzero(first == comment[0]).tolist():
                is_row[at] &= not line_at(content, int(starts[at])).startswith(comment)
        if options.get("header", "false").lower() == "true" and is_row.any():
            is_row[int(np.argmax(is_row))] = False
    return is_row


def rows_of_file(c: Catalyst, scan: Plan, path: str) -> LineRows:
    """The same, remembered with the scan: its files must not change while it is asked."""
    return remembered(scan, f"lines of {path}", lambda: LineRows(c, scan, path))


def places_of(
    c: Catalyst, scan: Plan, paths: Mapping[int, str], told: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], str] | None:
    """Where rows stand for people, as file:line; None where they are no lines of files that can be read here.

    `paths`: of files by their hash; `told`: (hash of the file, position)."""
    if why_not_by_byte(c, scan) is not None:
        return None
    by_file: dict[int, list[int]] = {}
    for file, position in told:
        by_file.setdefault(file, []).append(position)
    found: dict[tuple[int, int], str] = {}
    try:
        for file, positions in by_file.items():
            path = file_key(paths[file])
            numbers = rows_of_file(c, scan, path).numbers_of(positions).tolist()
            found.update({(file, at): f"{path}:{number}" for at, number in zip(positions, numbers, strict=True)})
    except (WhenceError, OSError, KeyError):  # elsewhere, packed, or changed by now: told by position, as before
        return None
    return found


def rows_at(
    c: Catalyst, scan: Plan, paths: Mapping[int, str], told: Sequence[tuple[int, int]]
) -> list[tuple[Any, ...]] | None:
    """These rows, parsed from their lines alone, without a scan; None where that cannot be done here."""
    encoding = c.options_of(scan, secrets=True).get("encoding", "utf-8")
    try:
        lines = [
            line.decode(encoding)
            for file, position in told
            for line in rows_of_file(c, scan, file_key(paths[file])).lines_of([position])
        ]
    except (WhenceError, OSError, KeyError, UnicodeDecodeError):
        return None
    if c.format_of(scan) == "text":
        return [(line,) for line in lines]
    frame = c.parsed_lines(scan, lines)
    if frame is None:
        return None
    found = [tuple(row) for row in frame.collect()]
    return found if len(found) == len(lines) else None


_BLANK = bytes(range(33))  # what Java trims
_LAST_BLANK = 32
