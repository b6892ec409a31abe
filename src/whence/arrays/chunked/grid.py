"""Where the chunks of an array lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whence.arrays.cells import Coordinates, Numbers, Shape, coordinates, distinct, flat, inside, size_of

Region = tuple[tuple[int, int], ...]
"""(first, one past the last) along each axis."""


@dataclass(frozen=True)
class Grid:
    """An array of this shape, cut every `step` cells along each axis."""

    shape: Shape
    step: int

    @property
    def counts(self) -> Shape:
        return tuple(-(-length // self.step) for length in self.shape)

    def __len__(self) -> int:
        return size_of(self.counts)

    def core(self, chunk: int) -> Region:
        """The cells of one chunk; chunks are numbered in C order."""
        at = coordinates(np.array([chunk], np.int64), self.counts)[0].tolist()
        return tuple((c * self.step, min((c + 1) * self.step, n)) for c, n in zip(at, self.shape, strict=True))

    def widened(self, chunk: int, halo: int) -> Region:
        """The same with a border, clipped at the array's own."""
        return tuple(
            (max(a - halo, 0), min(b + halo, n)) for (a, b), n in zip(self.core(chunk), self.shape, strict=True)
        )

    def chunk_of(self, cells: Numbers) -> Numbers:
        return flat(coordinates(cells, self.shape) // self.step, self.counts)

    def near(self, cells: Numbers, halo: int) -> Numbers:
        """The chunks whose widened region has one of these cells."""
        at = distinct(flat(coordinates(cells, self.shape) // self.step, self.counts))
        if not halo or not self.shape:
            return at
        reach = -(-halo // self.step)
        middle = coordinates(at, self.counts)
        offsets = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * len(self.shape), indexing="ij"), axis=-1)
        around: Coordinates = (middle[:, None, :] + offsets.reshape(1, -1, len(self.shape))).reshape(
            -1, len(self.shape)
        )
        return distinct(flat(around[inside(around, self.counts)], self.counts))


def slices(region: Region, origin: Region | None = None) -> tuple[slice, ...]:
    """To index with; `origin`: counted from the start of this region."""
    starts = (0,) * len(region) if origin is None else tuple(a for a, _ in origin)
    return tuple(slice(a - o, b - o) for (a, b), o in zip(region, starts, strict=True))


def shape_of(region: Region) -> Shape:
    return tuple(b - a for a, b in region)


def shifted(local: Numbers, region: Region, shape: Shape) -> Numbers:
    """Numbers within a region become numbers in the whole array."""
    return flat(coordinates(local, shape_of(region)) + np.array([a for a, _ in region], np.int64), shape)


def within(local: Numbers, region: Region, core: Region) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which cells of a region are of its core."""
    cells = coordinates(local, shape_of(region))
    good = np.ones(len(local), bool)
    for axis, ((a, b), (o, _)) in enumerate(zip(core, region, strict=True)):
        good &= (cells[:, axis] >= a - o) & (cells[:, axis] < b - o)
    return good
