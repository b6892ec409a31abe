"""Writing association tables: the links of one partition (see `tables`), put into one file when its task ends."""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from whence.rdd.codec import AnyInts, ints, pack, pack_groups, pack_sorted
from whence.rdd.wire import Origin, Tag
from whence.store import private

MAGIC = b"whence02"
BLOCK = 1 << 17  # elements; bounds what a task holds and what a look-up decodes
_PIECES = 1 << 10  # small arrays; each costs some hundred bytes beside what it holds


def ending(head: bytes) -> bytes:
    """The length of what stands before, and its checksum."""
    return len(head).to_bytes(4, "little") + zlib.crc32(head).to_bytes(4, "little")


def is_whole(head: bytes, end: bytes) -> bool:
    """Tables of before there were checksums have none."""
    return end[4:] == bytes(4) or end == ending(head)


class Writer:
    """Collects one partition's links; nothing is visible to others before `commit`."""

    def __init__(self, path: str, origin: Origin, base: int | None = None) -> None:
        self.path = path
        self.origin = origin
        self.base = base  # the node whose records arrive; None for a source (the runs name it) or a hidden one
        self._temporary = f"{path}.{os.getpid()}.tmp"
        self._file: Any = None
        self._at = 0
        self._sums: list[tuple[int, int]] = []  # where each section begins, and its checksum
        self._links: list[Link] = []
        self._nodes: list[int | None] = []
        self.runs = _Runs()
        self.error: str | None = None
        self.measures: list[tuple[int, int]] = []  # text: of some lines at a time, how many and their bytes

    def kept(self, made: Any) -> Any:
        """The link itself, or something that forgets, where nobody will trace."""
        return made

    def link(self, made: Link, node: int | None) -> None:
        made.writer = self
        self._links.append(made)
        self._nodes.append(node)

    def link_after(self, before: Link, made: Link) -> None:
        """A link that turned out to be needed; it leaves what `before` left, and that becomes internal."""
        at = self._links.index(before)
        made.writer = self
        self._links.insert(at + 1, made)
        self._nodes.insert(at + 1, self._nodes[at])
        self._nodes[at] = None

    def section(self, data: bytes) -> list[int]:
        """Where the bytes went. A full disk must not fail the user's job: the error is kept and told to the driver."""
        where = [self._at, len(data)]
        self._sums.append((self._at, zlib.crc32(data)))
        self._at += len(data)
        if self.error is None:
            try:
                if self._file is None:
                    place = Path(self.path).absolute()  # store/rdd/run/stage/partition-attempt
                    private.make_directory(place.parent, place.parents[3])
                    private.make_file(self._temporary)
                    self._file = open(self._temporary, "wb", 1 << 18)  # noqa: SIM115
                self._file.write(data)
            except OSError as failed:
                self._give_up(failed)
        return where

    def _give_up(self, failed: OSError) -> None:
        self.error = f"{type(failed).__name__}: {failed}"
        self.discard()

    def discard(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
        with contextlib.suppress(OSError):
            os.unlink(self._temporary)

    def commit(self, n_out: int) -> int:
        """Bytes written. The rename makes the table appear whole or not at all."""
        footer = {
            "origin": list(self.origin),
            "base": self.base,
            "runs": self.runs.finish(self),
            "origins": [list(o) for o in self.runs.origins],
            "measures": [self.section(pack(c)) for c in ints(self.measures).reshape(-1, 2).T]
            if self.measures
            else None,
            "n_in": self.runs.n,
            "n_out": n_out,
            "links": [{**made.finish(), "node": node} for made, node in zip(self._links, self._nodes, strict=True)],
        }
        data = json.dumps({**footer, "sums": self._sums}, separators=(",", ":")).encode()
        self.section(data + ending(data) + MAGIC)
        if self.error is None:
            try:
                self._file.close()
                os.replace(self._temporary, self.path)
            except OSError as failed:
                self._give_up(failed)
        return self._at


class Link:
    writer: Writer

    def finish(self) -> dict[str, Any]:
        raise NotImplementedError


class _Runs:
    """Who wrote what arrived: positions start, start + 1, ... are `first`, `first` + 1, ... of an origin."""

    def __init__(self) -> None:
        self.n = 0
        self.origins: list[Origin] = []
        self._index: dict[Origin, int] = {}
        self._runs: list[tuple[int, int, int]] = []
        self._expect: tuple[int, int] = (-1, -1)

    def add(self, tag: Tag, count: int) -> int:
        """The position of the first."""
        start = self.n
        index = self._index.get(tag.origin)
        if index is None:
            index = self._index[tag.origin] = len(self.origins)
            self.origins.append(tag.origin)
        if self._expect != (index, tag.first):
            self._runs.append((start, index, tag.first))
        self._expect = (index, tag.first + count)
        self.n += count
        return start

    def finish(self, writer: Writer) -> list[list[int]]:
        columns = ints(self._runs).reshape(-1, 3).T
        return [writer.section(pack_sorted(columns[0])), *(writer.section(pack(c)) for c in columns[1:])]


class Column:
    """Integers that come in small pieces: held as they come, packed and written a block at a time, so that a task never
    holds more than a block. `differences`: of each to the one before, which compress where values run or stand."""

    def __init__(self, differences: bool = False) -> None:
        self._pieces: list[AnyInts] = []
        self._held = 0
        self._where: list[list[int]] = []
        self._last = 0 if differences else None

    def add(self, values: AnyInts, writer: Writer) -> None:
        self._pieces.append(values)
        self._held += len(values)
        if self._held >= BLOCK:
            self._flush(writer)
        elif len(self._pieces) >= _PIECES:
            self._pieces = [np.concatenate(self._pieces)]

    def _flush(self, writer: Writer) -> None:
        if not self._held:
            return
        values = self._pieces[0] if len(self._pieces) == 1 else np.concatenate(self._pieces)
        if self._last is not None:
            before, self._last = self._last, int(values[-1])
            values = ints(np.diff(ints(values), prepend=before))
        self._where.append(writer.section(pack(values)))
        self._pieces, self._held = [], 0

    def finish(self, writer: Writer) -> list[list[int]]:
        self._flush(writer)
        return self._where


class CountsLink(Link):
    def __init__(self) -> None:
        self._column: Column | None = None  # None as long as each input became one output
        self.n_in = 0

    def add(self, n: int, counts: AnyInts | None) -> None:
        if counts is None and self._column is None:
            self.n_in += n
            return
        if self._column is None:
            self._column = Column()
            for at in range(0, self.n_in, BLOCK):
                self._column.add(np.ones(min(BLOCK, self.n_in - at), dtype=np.uint8), self.writer)
        self.n_in += n
        if counts is None:
            counts = np.ones(n, dtype=np.uint8)
        elif counts.dtype != np.uint8:
            counts = counts.astype(np.min_scalar_type(int(counts.max())) if n else np.uint8)
        self._column.add(counts, self.writer)

    def finish(self) -> dict[str, Any]:
        if self._column is None:
            return {"kind": "identity", "n": self.n_in}
        return {"kind": "counts", "n": self.n_in, "counts": self._column.finish(self.writer)}


class GroupsLink(Link):
    def __init__(self) -> None:
        self._pending: list[AnyInts] = []
        self._held = 0
        self._blocks: list[list[int]] = []
        self.n = 0

    def add(self, slots: AnyInts) -> None:
        self._pending.append(slots)
        self._held += len(slots)
        self.n += len(slots)
        if self._held >= BLOCK:
            self._flush()
        elif len(self._pending) >= _PIECES:
            self._pending = [np.concatenate(self._pending)]

    def _flush(self) -> None:
        if not self._held:
            return
        slots = self._pending[0] if len(self._pending) == 1 else np.concatenate(self._pending)
        for at in range(0, len(slots), 2 * BLOCK):
            some = slots[at : at + 2 * BLOCK]
            where = self.writer.section(pack_groups(some))
            self._blocks.append([*where, int(some.min()), int(some.max()), len(some)])
        self._pending, self._held = [], 0

    def finish(self) -> dict[str, Any]:
        self._flush()
        return {"kind": "groups", "n": self.n, "blocks": self._blocks}


class ColumnsLink(Link):
    def __init__(self, width: int) -> None:
        # Differences compress well: the inner side of a product runs, the outer side stands.
        self._columns = [Column(differences=True) for _ in range(width)]

    def add(self, *columns: AnyInts) -> None:
        for held, column in zip(self._columns, columns, strict=True):
            held.add(column, self.writer)

    def finish(self) -> dict[str, Any]:
        return {"kind": "columns", "columns": [c.finish(self.writer) for c in self._columns]}


class PrefixLink(Link):
    def __init__(self, note: str | None) -> None:
        self._read: list[int] = []
        self.note = note  # why this is a superset; None for glom, which does use all

    def add(self, read: int) -> None:
        self._read.append(read)

    def finish(self) -> dict[str, Any]:
        return {"kind": "prefix", "note": self.note, "read": self.writer.section(pack_sorted(ints(self._read)))}


class OpaqueLink(PrefixLink):
    """All that was read before, unless actors in the function told what each output came from."""

    told: tuple[list[list[int]], str | None] | None = None

    def finish(self) -> dict[str, Any]:
        if self.told is None:
            return super().finish()
        lists, note = self.told
        link = ListsLink()
        link.writer = self.writer
        for inputs in lists:
            link.add(inputs)
        return {**link.finish(), "note": note}


class ListsLink(Link):
    def __init__(self) -> None:
        self._sizes, self._flat = Column(), Column()
        self._lists: list[list[int]] = []
        self._held = 0

    def add(self, inputs: list[int]) -> None:
        self._lists.append(inputs)
        self._held += len(inputs)
        if self._held >= BLOCK:
            self._flush()

    def _flush(self) -> None:
        self._sizes.add(ints([len(x) for x in self._lists]), self.writer)
        self._flat.add(ints([i for x in self._lists for i in x]), self.writer)
        self._lists, self._held = [], 0

    def finish(self) -> dict[str, Any]:
        self._flush()
        return {"kind": "lists", "sizes": self._sizes.finish(self.writer), "flat": self._flat.finish(self.writer)}


class BucketsLink(Link):
    """`sizes`: how many elements each record stands for, where grouped values travel together."""

    def __init__(self, elements: bool) -> None:
        self._parts = Column()
        self._sizes = Column() if elements else None

    def add(self, parts: AnyInts, sizes: AnyInts | None) -> None:
        self._parts.add(parts, self.writer)
        if self._sizes is not None:
            assert sizes is not None
            self._sizes.add(sizes, self.writer)

    def finish(self) -> dict[str, Any]:
        return {
            "kind": "buckets",
            "parts": self._parts.finish(self.writer),
            "sizes": None if self._sizes is None else self._sizes.finish(self.writer),
        }
