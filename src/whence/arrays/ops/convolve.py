from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.cells import Shape
from whence.arrays.errors import ArrayError
from whence.arrays.operator import Mode
from whence.arrays.ops.links import Ints, Table
from whence.arrays.ops.mapped import Mapped, takes
from whence.arrays.ops.relation import Found, once

MODES = ("constant", "nearest", "wrap", "reflect")
AT_ONCE = 1 << 22  # pairs in memory at a time


class Convolve(Mapped):
    """scipy.ndimage.convolve: a cell depends on those under the kernel's entries that are not zero."""

    def __init__(self, kernel: Any, mode: str = "constant") -> None:
        self.kernel = np.asarray(kernel)
        self.mode = mode
        if mode not in MODES:
            raise ArrayError(f"Convolve knows the modes {', '.join(MODES)}, not {mode!r}.")
        if self.kernel.size == 0:
            raise ArrayError(f"Convolve takes a kernel with cells, not one of shape {self.kernel.shape}.")
        # At the far side of the array, wrap reads what a chunk does not have.
        self.halo = None if mode == "wrap" else max((length // 2 for length in self.kernel.shape), default=0)

    def run(self, *inputs: NDArray[Any], cur_modes: frozenset[Mode]) -> NDArray[Any]:
        takes(self, inputs, 1)
        x = inputs[0]
        if x.ndim != self.kernel.ndim:
            raise ArrayError(
                f"Convolve has a kernel of {self.kernel.ndim} axes and an input of {x.ndim} (shape {x.shape}): "
                "they must be as many."
            )
        try:
            from scipy import ndimage
        except ImportError as error:
            raise ArrayError("Convolve needs scipy: pip install 'whence[arrays]'.") from error
        return np.asarray(ndimage.convolve(x, self.kernel, mode=self.mode, cval=0))

    def relations(self, input_shapes: tuple[Shape, ...], output_shape: Shape) -> list[Neighbours]:
        # The kernel is turned around: its entry k meets the cell at output + centre - k.
        centre = np.array([length // 2 for length in self.kernel.shape], dtype=np.int64)
        return [Neighbours(output_shape, centre - np.argwhere(self.kernel != 0), self.mode)]


@dataclass(frozen=True)
class Neighbours:
    """The cells at these offsets, beyond the border as the mode says."""

    shape: Shape
    offsets: Ints
    mode: str

    @property
    def output_shape(self) -> Shape:
        return self.shape

    @property
    def input_shape(self) -> Shape:
        return self.shape

    def many_backward(self, outcells: Ints) -> Ints:
        """The cells that any of these depend on: marked in an array, offset by offset."""
        if self.mode == "constant":
            return self._shifted(outcells, 1)
        marked = np.zeros(self.shape, dtype=bool)
        for offset in self.offsets if len(outcells) else ():
            near = [bordered(outcells[:, k] + offset[k], n, self.mode) for k, n in enumerate(self.shape)]
            marked[tuple(near)] = True
        return np.argwhere(marked)

    def many_forward(self, incells: Ints) -> Ints:
        if self.mode == "constant":
            return self._shifted(incells, -1)
        given = self._marked(incells)
        marked = np.zeros(self.shape, dtype=bool)
        for offset in self.offsets:
            places = [bordered(np.arange(n) + offset[k], n, self.mode) for k, n in enumerate(self.shape)]
            marked |= given[np.ix_(*places)]
        return np.argwhere(marked)

    def _shifted(self, cells: Ints, sign: int) -> Ints:
        given = self._marked(cells)
        marked = np.zeros(self.shape, dtype=bool)
        for offset in (sign * self.offsets).tolist():
            if all(abs(step) < length for step, length in zip(offset, self.shape, strict=True)):
                ends = list(zip(offset, self.shape, strict=True))
                there = tuple(slice(max(step, 0), length + min(step, 0)) for step, length in ends)
                here = tuple(slice(max(-step, 0), length + min(-step, 0)) for step, length in ends)
                marked[there] |= given[here]
        return np.argwhere(marked)

    def _marked(self, cells: Ints) -> NDArray[np.bool_]:
        given = np.zeros(self.shape, dtype=bool)
        if len(cells):
            given[tuple(cells.T)] = True
        return given

    def backward(self, outcells: Ints) -> Found:
        return self._found(outcells, 1)

    def forward(self, incells: Ints) -> Found:
        return self._found(incells, -1)

    def _found(self, cells: Ints, sign: int) -> Found:
        step = max(AT_ONCE // max(len(self.offsets), 1), 1)
        parts = [self._some(cells[start : start + step], sign) for start in range(0, max(len(cells), 1), step)]
        rows = np.concatenate([part[0] + number * step for number, part in enumerate(parts)])
        return rows, np.concatenate([part[1] for part in parts])

    def _some(self, cells: Ints, sign: int) -> Found:
        if self.mode == "constant":
            return self._plain(cells, sign)
        # Away from the border no two offsets meet in one cell, and none has to be folded back.
        low, high = self._reach
        lengths = np.array(self.shape, dtype=np.int64)
        away = ((cells + low >= 0) & (cells + high < lengths)).all(axis=1)
        if sign < 0:  # and what lies beyond the border is folded onto cells that are not far from it
            away &= ((cells - high >= 0) & (cells - low < lengths)).all(axis=1)
            away &= ((cells >= high - low) & (cells < lengths - (high - low))).all(axis=1)
        inner, outer = np.flatnonzero(away), np.flatnonzero(~away)
        if not len(outer):
            return self._plain(cells, sign)
        rows, found = self._plain(cells[inner], sign)
        border_rows, border = self._folded(cells[outer], sign)
        return np.concatenate([inner[rows], outer[border_rows]]), np.concatenate([found, border])

    @cached_property
    def _reach(self) -> tuple[Ints, Ints]:
        around = np.concatenate([self.offsets, np.zeros((1, len(self.shape)), dtype=np.int64)])
        return around.min(axis=0), around.max(axis=0)

    def _plain(self, cells: Ints, sign: int) -> Found:
        rows = np.repeat(np.arange(len(cells)), len(self.offsets))
        near = (cells[:, None, :] + sign * self.offsets[None]).reshape(len(rows), len(self.shape))
        inside = ((near >= 0) & (near < np.array(self.shape, dtype=np.int64))).all(axis=1)
        return (rows, near) if inside.all() else (rows[inside], near[inside])

    def _folded(self, cells: Ints, sign: int) -> Found:
        rows = np.repeat(np.arange(len(cells)), len(self.offsets))
        columns: list[Ints] = []
        which = np.tile(np.arange(len(self.offsets)), len(cells))
        taken = np.arange(len(rows))
        for axis, length in enumerate(self.shape):
            at = cells[rows[taken], axis]
            offset = self.offsets[which[taken], axis]
            if sign > 0:
                columns.append(bordered(at + offset, length, self.mode))
                continue
            places, found = self._reached(axis, length, at, offset)
            columns = [column[places] for column in columns]
            columns.append(found)
            taken = taken[places]
        found_cells = np.stack(columns, axis=1) if columns else np.empty((len(taken), 0), dtype=np.int64)
        return once(rows[taken], found_cells, self.shape)

    def _reached(self, axis: int, length: int, at: Ints, offset: Ints) -> tuple[Ints, Ints]:
        """The coordinates whose neighbour at this offset is `at`: beyond the border there may be several."""
        kinds, kind = np.unique(offset, return_inverse=True)
        sources = np.arange(length)
        meets = [number * length + bordered(sources + each, length, self.mode) for number, each in enumerate(kinds)]
        table = Table.single(len(kinds) * length, np.concatenate([*meets, sources[:0]]))
        starts, counts, items = table.forth(kind * length + at)
        assert items is not None
        places = np.repeat(np.arange(len(at)), counts)
        within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        return places, items[starts[places] + within] % length


def bordered(at: Ints, length: int, mode: str) -> Ints:
    """Where scipy looks instead of a coordinate beyond the border."""
    if mode == "nearest":
        return np.clip(at, 0, length - 1)
    if mode == "wrap":
        return at % length
    folded = at % (2 * length)
    return np.where(folded < length, folded, 2 * length - 1 - folded)
