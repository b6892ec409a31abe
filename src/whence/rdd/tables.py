"""Association tables: one file for each partition that a captured stage computed, written once, when its task ends.

A table is a chain of *links*. Link i takes positions in space i + 1 back to positions in space i, and forth. Space 0 is
what arrived, in order of arrival; its *runs* say which origin's records those are. The last space is what left. A space
that is a set of records of the program carries that RDD's node; the others (combiner slots, say) carry None.

| kind     | what it relates |
|---|---|
| counts   | each input to the next `count` outputs (map, filter, flatMap chains); order is kept |
| groups   | each output (slot) to its inputs, in order (combiners, groupings) |
| columns  | each output to one input per column, -1 for none (joins, zip, cartesian, sort) |
| prefix   | each output to all inputs read before it left (opaque functions over partitions) |
| lists    | each output to any inputs (what a spilled combiner put together) |
| buckets  | each input to its shuffle bucket; an output is named by (bucket, number in the bucket) |
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from whence.model import StoreError
from whence.model.once import once
from whence.rdd.codec import GroupBlock, Ints, ints, ragged, unpack, unpack_groups, unpack_sorted
from whence.rdd.links import MAGIC, is_whole
from whence.rdd.wire import Origin


class LineageMissing(StoreError):
    """Associations that a trace needs are not in the store."""

    @classmethod
    def of(cls, key: tuple[int, int, int], why: object) -> LineageMissing:
        return cls(
            f"The associations of partition {key[1]} (stage {key[0]}) cannot be read: {why}. The store may have been "
            "moved or removed, or this file damaged, since the job ran; run the action again to make it anew."
        )


class Table:
    """One committed table, read as far as a look-up needs."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as f:
            f.seek(0, os.SEEK_END)
            self.bytes = f.tell()
            f.seek(max(0, self.bytes - 65536))
            tail = f.read()
            if tail[-8:] != MAGIC:
                raise ValueError(f"{path} is not an association table of this version of whence")
            size = int.from_bytes(tail[-16:-12], "little")
            if size + 16 > self.bytes:
                raise ValueError(f"{path} was changed since it was written")
            if size + 16 > len(tail):
                f.seek(self.bytes - 16 - size)
                tail = f.read()
            head = tail[-16 - size : -16]
            if not is_whole(head, tail[-16:-8]):
                raise ValueError(f"{path} was changed since it was written")
            footer = json.loads(head)
        self.origin = Origin(*footer["origin"])
        self.origins = [Origin(*o) for o in footer["origins"]]
        self.base: int | None = footer["base"]
        self.n_in: int = footer["n_in"]
        self.n_out: int = footer["n_out"]
        self.links: list[dict[str, Any]] = footer["links"]
        self._measures_at = footer["measures"]
        self._runs_at = footer["runs"]
        self._sums: dict[int, int] = dict(footer.get("sums", ()))
        self._footer_at = self.bytes - 16 - size
        self._kept: dict[int, Any] = {}

    def read(self, where: list[int]) -> bytes:
        at, size = where
        try:
            with open(self.path, "rb") as f:
                f.seek(at)
                data = f.read(size)
        except OSError as failed:
            raise LineageMissing.of(self.origin[:3], failed) from failed
        if len(data) != size or (size and at in self._sums and zlib.crc32(data) != self._sums[at]):
            raise LineageMissing.of(self.origin[:3], f"{self.path} was changed since it was written")
        return data

    def check(self) -> bool:
        """Every section against its checksum; False for a table of before there were any."""
        starts = [*sorted(self._sums), self._footer_at]
        for at, end in pairwise(starts):
            self.read([at, end - at])
        return bool(self._sums) or self._footer_at == 0

    def _ints(self, where: list[list[int]]) -> Ints:
        """A column, in as many pieces as it was written in."""
        if not where:
            return np.zeros(0, dtype=np.int64)
        key = where[0][0]
        if key not in self._kept:
            pieces = [unpack(self.read(w)) for w in where]
            self._kept[key] = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        found: Ints = self._kept[key]
        return found

    @once
    def runs(self) -> tuple[Ints, Ints, Ints]:
        start, origin, first = self._runs_at
        return unpack_sorted(self.read(start)), unpack(self.read(origin)), unpack(self.read(first))

    @once
    def measures(self) -> tuple[Ints, Ints] | None:
        """Of the lines of text that were read, some at a time: how many, and their bytes."""
        if self._measures_at is None:
            return None
        lines, sizes = self._measures_at
        return unpack(self.read(lines)), unpack(self.read(sizes))

    def node(self, space: int) -> int | None:
        """The RDD whose records a space holds."""
        found: int | None = self.links[space - 1]["node"] if space else self.base
        return found

    @property
    def last(self) -> int:
        """The space of what left, before it was put into buckets."""
        return len(self.links) - int(self.shuffled)

    # Space 0 and the origins

    @property
    def arrival(self) -> list[tuple[Origin, int, int]]:
        """In what order records arrived: of which origin (whatever its attempt), from which number, how many."""
        starts, origins, firsts = self.runs
        counts = np.diff(starts, append=self.n_in)
        who = [o._replace(attempt=0) for o in self.origins]
        return [(who[o], f, n) for o, f, n in zip(origins.tolist(), firsts.tolist(), counts.tolist(), strict=True)]

    def arrived_from(self, positions: Ints) -> Iterator[tuple[Origin, Ints]]:
        starts, origins, firsts = self.runs
        if not len(positions):
            return
        run = np.searchsorted(starts, positions, side="right") - 1
        number = firsts[run] + positions - starts[run]
        owner = origins[run]
        for index in np.unique(owner).tolist():
            yield self.origins[index], np.unique(number[owner == index])

    def arrivals_of(self, origin: Origin, numbers: Ints) -> Ints:
        if origin not in self.origins:
            return np.zeros(0, dtype=np.int64)
        starts, origins, firsts = self.runs
        lengths = np.diff(starts, append=self.n_in)
        found = []
        for i in np.flatnonzero(origins == self.origins.index(origin)).tolist():
            low, high = np.searchsorted(numbers, (firsts[i], firsts[i] + lengths[i]))
            found.append(numbers[low:high] - firsts[i] + starts[i])
        return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)

    # Links

    def size_of(self, space: int) -> int:
        """How many positions a space has (not for the space after buckets)."""
        for link in self.links[space:]:
            if link["kind"] in ("identity", "counts", "groups"):
                return int(link["n"])
            if link["kind"] == "buckets":
                return len(self._ints(link["parts"]))
            if link["kind"] in ("columns", "prefix", "lists"):
                break
        if space == len(self.links):
            return self.n_out
        if space == 0:
            return self.n_in
        link = self.links[space - 1]
        if link["kind"] == "columns":
            return len(self._ints(link["columns"][0]))
        if link["kind"] == "prefix":
            return len(unpack_sorted(self.read(link["read"])))
        return len(self._ints(link["sizes"]))

    def back(self, space: int, positions: Ints) -> Ints:
        """Positions in `space` (ascending) to those in `space - 1`."""
        return np.unique(self.back_listed(space, positions)[1])

    def back_listed(self, space: int, positions: Ints) -> tuple[Ints, Ints]:
        """As pairs (index into positions, position before), each index's in order."""
        link = self.links[space - 1]
        kind = link["kind"]
        every = np.arange(len(positions))
        if kind == "identity":
            return every, positions
        if kind == "counts":
            return every, np.searchsorted(self._ends(link), positions, side="right")
        if kind == "groups":
            return self._back_groups(link, positions)
        if kind == "columns":
            owners, found = [], []
            for where in link["columns"]:
                column = self._cumulated(where)[positions]
                owners.append(every[column >= 0])
                found.append(column[column >= 0])
            return np.concatenate(owners), np.concatenate(found)
        if kind == "prefix":
            read = unpack_sorted(self.read(link["read"]))[positions]
            return np.repeat(every, read), ragged(np.zeros(len(read), dtype=np.int64), read)
        if kind == "lists":
            sizes = self._ints(link["sizes"])
            starts = np.cumsum(sizes) - sizes
            flat = self._ints(link["flat"])
            return np.repeat(every, sizes[positions]), flat[ragged(starts[positions], sizes[positions])]
        raise AssertionError(kind)

    def multiplicity(self, space: int) -> Ints | None:
        """How many of the next space each position of a space became; None where that is one for each by nature. What
        an opaque function gave counts for the record that it had read last."""
        link = self.links[space]
        if link["kind"] == "counts":
            return self._ints(link["counts"])
        if link["kind"] not in ("columns", "prefix"):
            return None
        if link["kind"] == "prefix":
            last = [unpack_sorted(self.read(link["read"])) - 1]
        else:
            last = [self._cumulated(where) for where in link["columns"]]
        found = np.zeros(self.size_of(space), dtype=np.int64)
        for positions in last:
            found += np.bincount(positions[positions >= 0], minlength=len(found))
        return found

    def forth(self, space: int, positions: Ints) -> Ints:
        """Positions in `space` (ascending) to those in `space + 1`."""
        link = self.links[space]
        kind = link["kind"]
        if kind in ("identity", "counts"):  # what was not read of the arrivals became nothing
            positions = positions[: np.searchsorted(positions, link["n"])]
        if kind == "identity":
            return positions
        if kind == "counts":
            ends = self._ends(link)
            counts = self._ints(link["counts"])[positions]
            return ragged(ends[positions] - counts, counts)
        if kind == "groups":
            return self._forth_groups(link, positions)
        if kind == "columns":
            wanted = np.zeros(max(int(positions[-1]) + 1 if len(positions) else 0, 0) + 1, dtype=bool)
            wanted[positions] = True
            hit: Any = False
            for where in link["columns"]:
                column = self._cumulated(where)
                hit = hit | ((column >= 0) & wanted[np.minimum(np.maximum(column, 0), len(wanted) - 1)])
            return np.flatnonzero(hit)
        if kind == "prefix":
            read = unpack_sorted(self.read(link["read"]))
            return (
                np.arange(np.searchsorted(read, positions[0], side="right"), len(read)) if len(positions) else read[:0]
            )
        if kind == "lists":
            sizes = self._ints(link["sizes"])
            owner = np.repeat(np.arange(len(sizes)), sizes)
            return np.unique(owner[np.isin(self._ints(link["flat"]), positions)])
        raise AssertionError(kind)

    def _ends(self, link: dict[str, Any]) -> Ints:
        return self._cumulated(link["counts"])

    def _cumulated(self, where: list[list[int]]) -> Ints:
        if not where:
            return np.zeros(0, dtype=np.int64)
        key = -1 - where[0][0]
        if key not in self._kept:
            self._kept[key] = np.cumsum(self._ints(where))
        found: Ints = self._kept[key]
        return found

    def _blocks(self, link: dict[str, Any]) -> Iterator[tuple[int, int, int, int, list[int]]]:
        base = 0
        for at, size, low, high, n in link["blocks"]:
            yield base, n, low, high, [at, size]
            base += n

    def _block(self, where: list[int]) -> GroupBlock:
        if where[0] not in self._kept:
            self._kept[where[0]] = unpack_groups(self.read(where))
        found: GroupBlock = self._kept[where[0]]
        return found

    def _back_groups(self, link: dict[str, Any], positions: Ints) -> tuple[Ints, Ints]:
        owners, found = [positions[:0]], [positions[:0]]
        for base, _n, low, high, where in self._blocks(link):
            first, last = np.searchsorted(positions, (low, high + 1))
            if first < last:
                owner, position = self._block(where).positions_of(positions[first:last])
                owners.append(owner + first)
                found.append(position + base)
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        return owner[order], np.concatenate(found)[order]

    def _forth_groups(self, link: dict[str, Any], positions: Ints) -> Ints:
        found = [positions[:0]]
        for base, n, _low, _high, where in self._blocks(link):
            first, last = np.searchsorted(positions, (base, base + n))
            if first < last:
                found.append(np.unique(self._block(where).slot_of_each()[positions[first:last] - base]))
        return np.unique(np.concatenate(found))

    # What left

    @property
    def shuffled(self) -> bool:
        return bool(self.links) and self.links[-1]["kind"] == "buckets"

    def left_as(self, origin: Origin, numbers: Ints) -> tuple[Ints, Ints]:
        """Numbers of an origin to positions in the last space before the buckets: (position, element in it or -1)."""
        nothing = np.full(len(numbers), -1, dtype=np.int64)
        if not self.shuffled:
            return numbers, nothing
        link = self.links[-1]
        members = np.flatnonzero(self._ints(link["parts"]) == origin.bucket)
        if link["sizes"] is None:
            return members[numbers], nothing
        sizes = self._ints(link["sizes"])[members]
        ends = np.cumsum(sizes)
        which = np.searchsorted(ends, numbers, side="right")
        return members[which], numbers - (ends[which] - sizes[which])

    @property
    def element_space(self) -> int | None:
        """Where grouped values are shuffled: the space of the single values."""
        if not self.shuffled or self.links[-1]["sizes"] is None:
            return None
        return self.last - (2 if self.links[self.last - 1]["kind"] == "lists" else 1)

    def elements_of(self, positions: Ints) -> tuple[Ints, Ints]:
        """The single values of groups in the last space: (index into positions, position of the value), in order."""
        owner, found = self.back_listed(self.last, positions)
        if self.links[self.last - 1]["kind"] == "lists":
            distinct, where = np.unique(found, return_inverse=True)
            inner, elements = self.back_listed(self.last - 1, distinct)
            counts = np.bincount(inner, minlength=len(distinct))
            starts = np.cumsum(counts) - counts
            found = elements[ragged(starts[where], counts[where])]
            owner = np.repeat(owner, counts[where])
        return owner, found

    def stood(self, origin: Origin, numbers: Ints) -> tuple[int, Ints]:
        """Where what left as these numbers of an origin had been: the space, and of each number its position there."""
        positions, ranks = self.left_as(origin, numbers)
        if self.element_space is None:
            return self.last, positions
        distinct, where = np.unique(positions, return_inverse=True)
        owner, elements = self.elements_of(distinct)
        counts = np.bincount(owner, minlength=len(distinct))
        return self.element_space, elements[(np.cumsum(counts) - counts)[where] + ranks]

    def leaving_elements(self, elements: Ints) -> Iterator[tuple[Origin, Ints]]:
        """Positions in the element space to (origin, numbers)."""
        assert self.element_space is not None
        groups = elements
        for space in range(self.element_space, self.last):
            groups = self.forth(space, groups)
        owner, listed = self.elements_of(groups)
        counts = np.bincount(owner, minlength=len(groups))
        rank = np.arange(len(listed)) - np.repeat(np.cumsum(counts) - counts, counts)
        hit = np.isin(listed, elements)
        chosen: dict[int, Ints] = {}
        for index in np.unique(owner[hit]).tolist():
            chosen[int(groups[index])] = rank[hit & (owner == index)]
        yield from self.leaves_as(ints(sorted(chosen)), chosen)

    def leaves_as(self, positions: Ints, elements: dict[int, Ints] | None = None) -> Iterator[tuple[Origin, Ints]]:
        """Positions in the last space to (origin, numbers). `elements`: only these elements of a position."""
        if not self.shuffled:
            yield self.origin, positions
            return
        link = self.links[-1]
        parts = self._ints(link["parts"])
        sizes = None if link["sizes"] is None else self._ints(link["sizes"])
        for bucket in np.unique(parts[positions]).tolist():
            members = np.flatnonzero(parts == bucket)
            wanted = positions[parts[positions] == bucket]
            rank = np.searchsorted(members, wanted)
            if sizes is not None:
                starts = np.cumsum(sizes[members]) - sizes[members]
                if elements is None:
                    rank = ragged(starts[rank], sizes[wanted])
                else:
                    rank = np.concatenate(
                        [starts[r] + elements[p] for r, p in zip(rank.tolist(), wanted.tolist(), strict=True)]
                    )
            yield self.origin._replace(bucket=bucket), rank
