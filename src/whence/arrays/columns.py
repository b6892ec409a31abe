"""Columns of whole numbers on disk, looked up without being unpacked: of a mapped file only what is asked for is read.

A column that counts up evenly is three numbers; any other is as narrow as its values allow. Columns that are equal are
written once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Numbers
from whence.model import StoreError
from whence.store.private import make_file

_MAGIC = b"whence columns 1\n"
_SMALL = 1 << 20  # bytes up to which a file is read at once


class Column:
    """Whole numbers that stay packed. Indexing gives int64."""

    def __len__(self) -> int:
        raise NotImplementedError

    def take(self, places: NDArray[Any]) -> Numbers:
        raise NotImplementedError

    def part(self, start: int, stop: int) -> Numbers:
        raise NotImplementedError

    def find(self, values: Numbers, side: str = "left") -> Numbers:
        """searchsorted, of a column that is sorted."""
        raise NotImplementedError

    def all(self) -> Numbers:
        return self.part(0, len(self))


class Even(Column):
    """start, start + step, start + 2 step, ..."""

    def __init__(self, start: int, step: int, length: int) -> None:
        self.start, self.step, self.length = start, step, length

    def __len__(self) -> int:
        return self.length

    def take(self, places: NDArray[Any]) -> Numbers:
        return np.asarray(places, np.int64) * self.step + self.start

    def part(self, start: int, stop: int) -> Numbers:
        return np.arange(start, min(stop, self.length), dtype=np.int64) * self.step + self.start

    def find(self, values: Numbers, side: str = "left") -> Numbers:
        if not self.length:
            return np.zeros(len(values), np.int64)
        last = self.start + self.step * (self.length - 1)
        if self.step == 0:  # all are equal
            places = np.where(values == self.start, self.length if side == "right" else 0, 0)
        else:
            whole, rest = np.divmod(_above(np.clip(values, self.start, last), self.start), np.uint64(self.step))
            places = whole.astype(np.int64) + (1 if side == "right" else rest > 0)
        places[values < self.start] = 0
        places[values > last] = self.length
        return places


class Narrow(Column):
    """An unsigned array of 1, 2, 4 or 8 bytes a value, and what to add to each."""

    def __init__(self, base: int, packed: NDArray[Any]) -> None:
        self.base, self.packed = base, packed

    def __len__(self) -> int:
        return len(self.packed)

    def take(self, places: NDArray[Any]) -> Numbers:
        return self._wide(self.packed[places])

    def part(self, start: int, stop: int) -> Numbers:
        return self._wide(self.packed[start:stop])

    def find(self, values: Numbers, side: str = "left") -> Numbers:
        # The needles are narrowed, not the column widened: that would read and copy all of it.
        top = min(self.base + int(np.iinfo(self.packed.dtype).max), int(np.iinfo(np.int64).max))
        right: Literal["left", "right"] = "right" if side == "right" else "left"
        if len(values) and self.packed.itemsize < 8 and values.min() >= self.base and values.max() <= top:
            return np.searchsorted(self.packed, np.subtract(values, self.base).astype(self.packed.dtype), right)
        low, high = values < self.base, values > top
        needles = _above(np.clip(values, self.base, top), self.base).astype(self.packed.dtype)
        places: Numbers = np.searchsorted(self.packed, needles, right)
        places[low] = 0
        places[high] = len(self.packed)
        return places

    def _wide(self, packed: NDArray[Any]) -> Numbers:
        wide: Numbers = packed.astype(np.int64)
        if self.base:
            wide += self.base
        return wide


def _above(values: Numbers, base: int) -> NDArray[np.uint64]:
    """How far values lie above one that none is below: without a sign, since that may take all 64 bits."""
    above: NDArray[np.uint64] = values.astype(np.uint64) - np.int64(base).astype(np.uint64)
    return above


def pack(values: NDArray[Any] | Column) -> Column:
    if isinstance(values, Column):
        return values
    count = len(values)
    if count == 0:
        return Even(0, 1, 0)
    first = int(values[0])
    step = int(values[1]) - first if count > 1 else 1
    if step >= 0 and int(values[-1]) == first + step * (count - 1):
        head = values[: min(count, 64)]
        if (np.diff(head) == step).all() and (np.diff(values) == step).all():
            return Even(first, step, count)
    low, high = int(values.min()), int(values.max())
    for kind in (np.uint8, np.uint16, np.uint32, np.uint64):
        if high - low <= np.iinfo(kind).max:
            break
    return Narrow(low, np.subtract(values, low).astype(kind))


class Columns:
    """Some columns and a little about them, in memory or in one file."""

    def __init__(self, columns: Mapping[str, Column], about: Mapping[str, Any] | None = None) -> None:
        self._columns = dict(columns)
        self.about = dict(about or {})

    @classmethod
    def of(cls, values: Mapping[str, NDArray[Any] | Column], about: Mapping[str, Any] | None = None) -> Columns:
        packed: dict[int, Column] = {}  # the same array twice is packed once
        return cls({n: packed.setdefault(id(v), pack(v)) for n, v in values.items()}, about)

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def items(self) -> Mapping[str, Column]:
        return self._columns

    # --- one file

    def _laid_out(self) -> tuple[bytes, list[NDArray[Any]], int]:
        """The header, the blocks behind it in their order, and the bytes of all."""
        told: dict[str, Any] = {}
        places: dict[int, int] = {}
        blocks: list[NDArray[Any]] = []
        end = 0
        for name, column in self._columns.items():
            if isinstance(column, Even):
                told[name] = {"even": [column.start, column.step, column.length]}
                continue
            assert isinstance(column, Narrow)
            block = np.ascontiguousarray(column.packed)
            number = next((n for n, known in enumerate(blocks) if _same(known, block)), len(blocks))
            if number == len(blocks):
                places[number] = end
                blocks.append(block)
                end += -(-block.nbytes // 8) * 8
            told[name] = {"at": places[number], "type": block.dtype.str, "base": column.base, "count": len(block)}
        header = json.dumps({"columns": told, "about": self.about}).encode()
        return header, blocks, len(_MAGIC) + 8 + len(header) + end

    def size(self) -> int:
        return self._laid_out()[2]

    def write(self, path: Path) -> int:
        """Bytes written."""
        header, blocks, size = self._laid_out()
        make_file(path)
        with path.open("r+b") as file:
            file.write(_MAGIC + len(header).to_bytes(8, "little") + header)
            for block in blocks:
                file.write(block.data)
                file.write(b"\0" * (-block.nbytes % 8))
        return size

    @classmethod
    def read(cls, path: Path) -> Columns:
        try:
            small = os.path.getsize(path) <= _SMALL
            # A plain view: numpy's own class for mapped files makes every look-up some microseconds longer.
            raw: NDArray[np.uint8] = (
                np.fromfile(path, np.uint8) if small else np.memmap(path, np.uint8, "r").view(np.ndarray)
            )
        except OSError as error:
            raise StoreError(f"The lineage in {path} cannot be read: {error}.") from error
        start = len(_MAGIC) + 8
        if raw[: len(_MAGIC)].tobytes() != _MAGIC:
            raise StoreError(f"The lineage in {path} cannot be read: it was not written by this version of whence.")
        end = start + int.from_bytes(raw[len(_MAGIC) : start].tobytes(), "little")
        told = json.loads(raw[start:end].tobytes())
        columns: dict[str, Column] = {}
        for name, how in told["columns"].items():
            if "even" in how:
                columns[name] = Even(*how["even"])
            else:
                kind = np.dtype(how["type"])
                at = end + how["at"]
                packed = raw[at : at + how["count"] * kind.itemsize].view(kind)
                if len(packed) != how["count"]:
                    raise StoreError(f"The lineage in {path} is shorter than it was written.")
                columns[name] = Narrow(how["base"], packed)
        return cls(columns, told["about"])


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a is b or (a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b))
