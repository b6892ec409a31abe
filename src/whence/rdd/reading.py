"""What a source of RDDs reads: files, as Hadoop cut them; a DataFrame; a trace's records; or what only Spark knows.

Asked of the JVM when first needed: most sources are never traced."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any
from urllib.parse import urlparse

from py4j.protocol import Py4JError
from pyspark import RDD

from whence.model.flow import BY_BYTE, BY_NUMBER
from whence.rdd.books import Source
from whence.rdd.textfiles import Split, is_compressed, is_readable, split_of
from whence.spark.rdds import DELIMITER, pieces_of
from whence.store.producers import file_key

LINES, OBJECTS = ("textFile",), ("pickleFile", "sequenceFile")


class Reading:
    """`why`: what a trace cannot say of these records, though it is known that they came from elsewhere."""

    def __init__(self, plain: RDD[Any], name: str, frame: Any = None, why: str | None = None) -> None:
        self._plain = plain
        self.lines = name in LINES
        self._files = self.lines or name in OBJECTS
        self.frame = frame  # the DataFrame whose rows these are
        self._why = why
        self._found: tuple[Split, ...] | None = None
        self._source: Source | None = None
        self._delimited = False  # records are cut at something else than line ends

    def load(self) -> tuple[Split, ...]:
        """The state of the files is noted now."""
        if self._found is None:
            self._found = self._asked() if self._files else ()
        return self._found

    def _asked(self) -> tuple[Split, ...]:
        if not self.lines:
            try:
                return self._cut()
            except Py4JError:  # of what is read in another way than this, nothing is told about files
                return ()
        return self._cut()

    def _cut(self) -> tuple[Split, ...]:
        pieces, delimited = pieces_of(self._plain)
        self._delimited = self.lines and delimited
        return tuple(split_of(*piece) for piece in pieces)

    def source(self, name: str) -> Source:
        if self._source is None:
            self._source = self._told(name)
        return self._source

    def _told(self, name: str) -> Source:
        try:
            splits = self.load()
        except Exception as problem:  # the action that read it has raised this; questions about others go on
            reason = next(iter(str(problem).splitlines()), type(problem).__name__)
            return Source(name, why=f"{name} could not be read ({reason}), so the way ends at the RDD's records")
        if self.frame is not None:
            return Source(name, frame=True)
        if not splits:
            return Source(name, why=self._why)
        root = self._root(splits)
        why = self._not_lines(splits) if self.lines else _not_whole(splits)
        if why is not None:
            return Source(name, splits, None, root, f"{name} of {root}: {why}, so the way ends at the RDD's records")
        return Source(name, splits, BY_BYTE if self.lines else BY_NUMBER, root)

    def _root(self, splits: tuple[Split, ...]) -> str:
        given = str(self._plain.name() or splits[0].path)
        local = all(split.local is not None for split in splits)
        if given.startswith("file:/"):  # as the user wrote it, for Hadoop: no URL with escapes
            return os.path.normpath("/" + given.removeprefix("file:").lstrip("/"))
        if urlparse(given).scheme or local:
            return file_key(given)
        return splits[0].path.rsplit("/", 1)[0]

    def _not_lines(self, splits: tuple[Split, ...]) -> str | None:
        """Why the bytes at which lines begin are not known."""
        if self._delimited:
            return f"its records are cut at {DELIMITER}, not at line ends"
        return next(filter(None, map(is_readable, splits)), None) or _not_whole(
            tuple(s for s in splits if is_compressed(s.path))
        )


def _not_whole(splits: tuple[Split, ...]) -> str | None:
    """Why the numbers of records in their files are not known."""
    pieces = Counter(split.path for split in splits)
    cut = next((path for path, n in pieces.items() if n > 1), None)
    return f"{cut} was read in {pieces[cut]} pieces" if cut is not None else None
