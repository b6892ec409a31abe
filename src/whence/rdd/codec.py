"""How associations are laid out in bytes. Numpy and zlib only: executors write these, the driver reads them.

Groups (slot -> ascending element positions) are kept in Elias-Fano form: per slot, the low bits of each position as
they are and the high bits in unary, about log2(n / count) + 2.5 bits a position. One slot is read without the others.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
AnyInts = NDArray[np.integer]

_DTYPES = (np.uint8, np.uint16, np.uint32, np.int64)
_SLICE = 1 << 14
_ZLIB_FROM = 64  # bytes; below that a zlib header costs more than it saves


def ints(values: object) -> Ints:
    return np.asarray(values, dtype=np.int64)


def pack(values: AnyInts) -> bytes:
    """Any integers. The smallest type that holds them, bits where all are 0 or 1, and zlib where that helps."""
    n = len(values)
    low, high = (int(values.min()), int(values.max())) if n else (0, 0)
    if low == high:
        return b"=" + n.to_bytes(8, "little") + low.to_bytes(8, "little", signed=True)
    if low == 0 and high == 1:
        kind, raw = b"b", np.packbits(values.astype(np.uint8)).tobytes()
    else:
        size = 3 if low < 0 else next(i for i, top in enumerate((1 << 8, 1 << 16, 1 << 32, 1 << 63)) if high < top)
        kind, raw = b"0123"[size : size + 1], values.astype(_DTYPES[size]).tobytes()
    if len(raw) >= _ZLIB_FROM:
        small = zlib.compress(raw, 1)
        if len(small) < 0.9 * len(raw):
            return b"z" + kind + n.to_bytes(8, "little") + small
    return kind + n.to_bytes(8, "little") + raw


def unpack(data: bytes) -> Ints:
    return _unpack_raw(data).astype(np.int64, copy=False)


def _unpack_raw(data: bytes) -> AnyInts:
    """In the type that they were written in."""
    if data[:1] == b"z":
        data = data[1:10] + zlib.decompress(data[10:])
    kind, n = data[:1], int.from_bytes(data[1:9], "little")
    if kind == b"=":
        return np.full(n, int.from_bytes(data[9:17], "little", signed=True), dtype=np.int64)
    raw = np.frombuffer(data, dtype=np.uint8, offset=9)
    if kind == b"b":
        return np.unpackbits(raw, count=n)
    return raw.view(_DTYPES[int(kind)])


def stable_order(slots: AnyInts) -> Ints:
    """A stable argsort; numpy sorts 16-bit integers by radix, so wider ones go in two passes."""
    top = int(slots.max()) if len(slots) else 0
    if top < 1 << 16:
        return np.argsort(slots.astype(np.uint16), kind="stable")
    order = np.argsort((slots & 0xFFFF).astype(np.uint16), kind="stable")
    if top < 1 << 32:
        then: Ints = np.argsort((slots[order] >> 16).astype(np.uint16), kind="stable")
        return np.take(order, then)
    return np.argsort(slots, kind="stable")


def ragged(starts: AnyInts, counts: AnyInts) -> Ints:
    """start, start + 1, ... (count of them) for each pair, one after the other."""
    total = int(counts.sum())
    if not total:
        return np.zeros(0, dtype=np.int64)
    ends = np.cumsum(counts)
    result: Ints = np.arange(total, dtype=np.int64) + np.repeat(ints(starts) - (ends - counts), counts)
    return result


def _low_bits(counts: AnyInts, n: int) -> Ints:
    """The whole part of log2(n / count), at least 0: where a float's leading bit stands."""
    width = ints(np.frexp(n / counts)[1]) - 1
    np.maximum(width, 0, out=width)
    return width


def _narrow(values: Ints) -> AnyInts:
    """Ascending integers in 32 bits, if all are below the largest of these: many blocks are held at a time."""
    return values.astype(np.int32) if not len(values) or int(values[-1]) < (1 << 31) - 1 else values


def _pack_fixed(values: AnyInts, offsets: AnyInts, total_bits: int) -> NDArray[np.uint64]:
    """Values of varying width at ascending bit offsets. The bits are disjoint, so adding is or-ing."""
    words = np.zeros((total_bits >> 6) + 2, dtype=np.uint64)
    for at in range(0, len(values), _SLICE):  # a task's memory is not ours: few numbers are 64 bits wide at a time
        place = offsets[at : at + _SLICE] >> 6
        shift = (offsets[at : at + _SLICE] & 63).astype(np.uint64)
        unsigned = values[at : at + _SLICE].astype(np.uint64)
        first = np.flatnonzero(np.concatenate(([True], place[1:] != place[:-1])))
        words[place[first]] += np.add.reduceat(unsigned << shift, first)
        # A shift by 64 is undefined in C, hence the two steps.
        spill = (unsigned >> (np.uint64(63) - shift)) >> np.uint64(1)
        over = np.flatnonzero(spill)
        words[place[over] + 1] |= spill[over]  # at most one value spills from each word
    return words


def _read_fixed(words: NDArray[np.uint64], offsets: Ints, widths: AnyInts) -> Ints:
    place = offsets >> 6
    shift = (offsets & 63).astype(np.uint64)
    low = words[place] >> shift
    high = (words[place + 1] << (np.uint64(63) - shift)) << np.uint64(1)
    mask = (np.uint64(1) << widths.astype(np.uint64)) - np.uint64(1)
    result: Ints = ((low | high) & mask).astype(np.int64)
    return result


def pack_sorted(values: AnyInts) -> bytes:
    """Ascending integers."""
    n = len(values)
    if not n:
        return pack(values)
    base, top = int(values[0]), int(values[-1])
    if top - base + 1 <= 8 * n:  # dense: a bitmap, or nothing at all
        if top - base + 1 == n and (n == 1 or bool(np.all(np.diff(values) == 1))):
            return b"r" + base.to_bytes(8, "little", signed=True) + n.to_bytes(8, "little")
        if n == 1 or bool(np.all(np.diff(values) > 0)):
            bits = np.zeros(top - base + 1, dtype=np.int64)
            bits[ints(values) - base] = 1
            return b"m" + base.to_bytes(8, "little", signed=True) + pack(bits)
    return b"d" + base.to_bytes(8, "little", signed=True) + pack(np.diff(values, prepend=values[:1]))


def unpack_sorted(data: bytes) -> Ints:
    kind = data[:1]
    if kind not in (b"r", b"m", b"d"):
        return unpack(data)
    base = int.from_bytes(data[1:9], "little", signed=True)
    if kind == b"r":
        return np.arange(base, base + int.from_bytes(data[9:17], "little"), dtype=np.int64)
    if kind == b"m":
        return np.flatnonzero(_unpack_raw(data[9:])) + base
    return np.cumsum(unpack(data[9:])) + base


@dataclass(frozen=True)
class GroupBlock:
    """Some elements, grouped by slot: which slots occur, how often, and where."""

    n: int
    slots: AnyInts
    counts: AnyInts
    _low: NDArray[np.uint64]
    _high: NDArray[np.uint8]

    @cached_property
    def _layout(self) -> tuple[AnyInts, AnyInts, AnyInts]:
        """Of each slot: how many low bits a position has, and where its low and its high bits begin."""
        width, counts = _low_bits(self.counts, self.n), ints(self.counts)
        low, span = counts * width, counts + (self.n >> width) + 1
        return width.astype(np.uint8), _narrow(np.cumsum(low) - low), _narrow(np.cumsum(span) - span)

    def positions_of(self, wanted: Ints) -> tuple[Ints, Ints]:
        """Positions in this block of the wanted slots (ascending, distinct): (index into wanted, position), ordered."""
        kind = self.slots.dtype  # of the same type, or all slots would be copied
        wanted = np.minimum(wanted, np.iinfo(kind).max).astype(kind)
        at = np.searchsorted(self.slots, wanted)
        here = (at < len(self.slots)) & (self.slots[np.minimum(at, len(self.slots) - 1)] == wanted)
        which, at = np.flatnonzero(here), at[here]
        if not len(at):
            return which, at
        width, low_at, high_at = self._layout
        if len(at) * 4 > len(self.slots):
            owner, positions = self._all(width, low_at, high_at)
            lookup = np.full(len(self.slots), -1, dtype=np.int64)
            lookup[at] = which
            keep = lookup[owner] >= 0
            return lookup[owner[keep]], positions[keep]
        counts = ints(self.counts[at])
        highs = []
        for i, c in zip(at.tolist(), counts.tolist(), strict=True):
            start = int(high_at[i])
            stop = start + c + (self.n >> int(width[i])) + 1
            bits = np.unpackbits(self._high[start >> 3 : (stop + 7) >> 3])[start & 7 :]
            highs.append(np.flatnonzero(bits)[:c] - np.arange(c))
        widths = np.repeat(width[at], counts)
        offsets = np.repeat(low_at[at], counts) + ragged(np.zeros(len(at), dtype=np.int64), counts) * widths
        low = _read_fixed(self._low, offsets, widths)
        return np.repeat(which, counts), (np.concatenate(highs) << widths) | low

    def _all(self, width: AnyInts, low_at: AnyInts, high_at: AnyInts) -> tuple[Ints, Ints]:
        owner = np.repeat(np.arange(len(self.slots)), self.counts)
        rank = ragged(np.zeros(len(self.slots), dtype=np.int64), ints(self.counts))
        high = np.flatnonzero(np.unpackbits(self._high)) - high_at[owner] - rank
        widths = width[owner]
        low = _read_fixed(self._low, low_at[owner] + rank * widths, widths)
        return owner, (high << widths) | low

    def slot_of_each(self) -> Ints:
        """The slot of element 0, 1, ... of the block."""
        owner, positions = self._all(*self._layout)
        result = np.empty(self.n, dtype=np.int64)
        result[positions] = self.slots[owner]
        return result


def pack_groups(slots: AnyInts) -> bytes:
    """`slots[i]` is the slot of element i. The inverse of `unpack_groups(...).slot_of_each()`."""
    n = len(slots)
    small = np.int32 if n < 1 << 24 else np.int64  # bit offsets stay below 2 ** 31 then
    order = stable_order(slots).astype(small)
    low, high = (int(slots.min()), int(slots.max()))
    if high - low < 4 * n:
        dense = np.bincount(slots - low if low else slots, minlength=1)
        present = np.flatnonzero(dense)
        counts = dense[present]
        present = present + low
    else:
        present, counts = np.unique(slots, return_counts=True)
    counts = ints(counts)
    width = _low_bits(counts, n)
    span = counts + (n >> width) + 1
    total_high = int(span.sum())
    starts = np.cumsum(counts) - counts
    widths = np.repeat(width.astype(small), counts)
    bits = np.zeros(total_high, dtype=np.uint8)
    top = order >> widths
    top += np.repeat((np.cumsum(span) - span - starts).astype(small), counts)
    top += np.arange(n, dtype=small)
    bits[top] = 1
    del top
    high_bytes = np.packbits(bits).tobytes()
    del bits
    order &= (1 << widths) - 1
    widths *= np.arange(n, dtype=small)
    widths += np.repeat((np.cumsum(counts * width) - counts * width - starts * width).astype(small), counts)
    low_words = _pack_fixed(order, widths, int((counts * width).sum()))
    parts = (pack_sorted(present), pack(counts), low_words.tobytes(), high_bytes)
    sizes = np.array([n, *(len(p) for p in parts)], dtype=np.int64).tobytes()
    return sizes + b"".join(parts)


def unpack_groups(data: bytes) -> GroupBlock:
    head = np.frombuffer(data, dtype=np.int64, count=5)
    at = 40
    parts = []
    for size in head[1:].tolist():
        parts.append(data[at : at + size])
        at += size
    return GroupBlock(
        n=int(head[0]),
        slots=_narrow(unpack_sorted(parts[0])),
        counts=_unpack_raw(parts[1]),
        _low=np.frombuffer(parts[2], dtype=np.uint64),
        _high=np.frombuffer(parts[3], dtype=np.uint8),
    )
