"""Operators as users write them, for tests."""

from __future__ import annotations

import numpy as np

from whence.arrays import Mode, Operator


class CosmicRays(Operator):
    """The paper's example: a bright cell depends on all within 1, any other on itself."""

    halo = 1

    def __init__(self, modes=(Mode.FULL, Mode.PAY, Mode.COMP), limit=8.0):
        self.modes, self.limit = set(modes), limit

    def supported_modes(self):
        return self.modes

    def run(self, image, cur_modes):
        mask = image > self.limit
        for cell in np.ndindex(image.shape):
            bright = bool(mask[cell])
            if Mode.FULL in cur_modes:
                self.lwrite([cell], self.around(cell, int(bright), image.shape))
            if Mode.PAY in cur_modes:
                self.lwrite([cell], int(bright))
            if Mode.COMP in cur_modes and bright:
                self.lwrite([cell], 1)
        return mask.astype(np.int8)

    def around(self, cell, radius, shape):
        steps = np.stack(np.meshgrid(*[np.arange(-radius, radius + 1)] * len(cell), indexing="ij"), -1)
        cells = steps.reshape(-1, len(cell)) + np.array(cell)
        return cells[((cells >= 0) & (cells < np.array(shape))).all(axis=1)]

    def map_p(self, outcell, payload, i):
        return self.around(outcell, payload, self.input_shapes[i])

    def map_b(self, outcell, i):
        return [outcell]


class Silent(Operator):
    """Says nothing about its lineage."""

    def run(self, x, cur_modes):
        return x[::-1]


class Broken(Operator):
    def run(self, x, cur_modes):
        raise ZeroDivisionError("the user's own")


class Transposed(Operator):
    """With map functions cell by cell."""

    def supported_modes(self):
        return {Mode.MAP}

    def run(self, x, cur_modes):
        return x.T

    def map_b(self, outcell, i):
        a, b = outcell
        return [(b, a)]

    map_f = map_b


class Total(Operator):
    """The sum of all cells, as the paper's all-to-all operators: said by entire_array alone."""

    entire_array = True

    def supported_modes(self):
        return {Mode.FULL}

    def run(self, x, cur_modes):
        if Mode.FULL in cur_modes:
            self.lwrite([()], ...)
        return x.sum()


def around_bright(image, limit=8.0):
    """What CosmicRays' cells depend on, by hand."""
    made = {}
    for r, c in np.ndindex(image.shape):
        k = int(image[r, c] > limit)
        made[r, c] = {
            (a, b)
            for a in range(max(r - k, 0), min(r + k + 1, image.shape[0]))
            for b in range(max(c - k, 0), min(c + k + 1, image.shape[1]))
        }
    return made
