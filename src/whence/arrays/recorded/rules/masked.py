from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.arrays.ops.links import Ints
from whence.arrays.ops.relation import Found, Relation


@dataclass(frozen=True, eq=False)
class Masked:
    """Those of a relation's input cells for which the mask, of the input's shape, holds."""

    inner: Relation
    mask: NDArray[np.bool_]

    @property
    def output_shape(self) -> tuple[int, ...]:
        return self.inner.output_shape

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.inner.input_shape

    def backward(self, outcells: Ints) -> Found:
        rows, cells = self.inner.backward(outcells)
        kept = self.mask[tuple(cells.T)]
        return rows[kept], cells[kept]

    def forward(self, incells: Ints) -> Found:
        kept = np.flatnonzero(self.mask[tuple(incells.T)])
        rows, cells = self.inner.forward(incells[kept])
        return kept[rows], cells


def masked(inner: Relation, mask: Any, shape: tuple[int, ...]) -> Relation:
    if mask is True:
        return inner
    return Masked(inner, np.broadcast_to(np.asarray(mask, dtype=bool), shape))
