"""Causes that nobody has seen fail yet: a bank of plausible terms that no succeeding run has refuted.

A run that satisfies many of them is the best place to look for a further cause (a covering array weighted by how
plausible each combination is). It is also how a search starts when there is no history.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from whence.debug.diagnose.beliefs import Ints
from whence.debug.diagnose.shapes import Shapes, stacked

_SIZES = (0.35, 0.4, 0.25)  # how many conditions a plausible cause has: 1, 2, 3


class Unseen:
    def __init__(self, shapes: list[Shapes], rng: np.random.Generator, terms: int = 1000) -> None:
        self.shapes, self.rng, self.terms = shapes, rng, terms
        self.n = len(shapes)
        self._members, self._offset = stacked(shapes)
        self._draw: list[npt.NDArray[np.float64]] = []
        for s in shapes:
            chance = np.exp(s.log_prior.astype(float))
            chance[0] = 0.0
            self._draw.append(np.cumsum(chance / chance.sum()) if chance.sum() else np.ones(1))
        self._usable = np.array([p for p, s in enumerate(shapes) if len(s.members) > 1], dtype=np.int64)
        self.params, self.ids = self._sample(terms)
        self.passed: list[Ints] = []
        self.surviving = 1.0  # share of the first, unrefuted weight that no succeeding run has refuted

    def _sample(self, count: int) -> tuple[Ints, Ints]:
        width = min(3, len(self._usable))
        if not width:
            return np.zeros((count, 1), dtype=np.int64), np.zeros((count, 1), dtype=np.int64)
        order = self.rng.random((count, len(self._usable))).argsort(axis=1)[:, :width]
        params = self._usable[order]
        size = 1 + self.rng.choice(width, size=count, p=np.array(_SIZES[:width]) / sum(_SIZES[:width]))
        ids = np.zeros((count, width), dtype=np.int64)
        for p in self._usable:
            at = params == p
            drawn = np.searchsorted(self._draw[p], self.rng.random(int(at.sum())))
            ids[at] = self._offset[p] + np.minimum(drawn, len(self._draw[p]) - 1)
        for j in range(width):
            unused = size <= j
            ids[unused, j] = self._offset[params[unused, j]]  # shape 0: every value
        return params, ids

    def _inside(self, params: Ints, ids: Ints, configs: Ints) -> npt.NDArray[np.bool_]:
        inside = np.ones((len(params), len(configs)), dtype=bool)
        for j in range(params.shape[1]):
            inside &= self._members[ids[:, j, None], configs[:, params[:, j]].T]
        return inside

    def refute(self, passed: Ints) -> None:
        """Replace what this succeeding run refutes by fresh terms that none of them refutes."""
        self.passed.append(passed)
        dead = np.flatnonzero(self._inside(self.params, self.ids, passed[None])[:, 0])
        self.surviving *= 1 - len(dead) / len(self.ids)
        for _ in range(3):
            if not len(dead):
                return
            params, ids = self._sample(len(dead))
            self.params[dead], self.ids[dead] = params, ids
            dead = dead[self._inside(params, ids, np.array(self.passed[-400:])).any(axis=1)]
        alive = np.setdiff1d(np.arange(len(self.ids)), dead)
        if len(dead) and len(alive):  # refuted too often to be worth more draws: double a living one
            take = self.rng.choice(alive, size=len(dead))
            self.params[dead], self.ids[dead] = self.params[take], self.ids[take]

    def configs(self, count: int, sizes: Ints) -> Ints:
        """Random configurations, each inside one of the terms."""
        made = (self.rng.random((count, self.n)) * sizes).astype(np.int64)
        for i, t in enumerate(self.rng.integers(len(self.ids), size=count)):
            for p, s in zip(self.params[t], self.ids[t], strict=True):
                allowed = np.flatnonzero(self._members[s][: sizes[p]])
                if len(allowed) and len(allowed) < sizes[p]:
                    made[i, p] = self.rng.choice(allowed)
        return made

    def chance(self, before: float) -> float:
        """How likely a further cause still is, when it was `before` at the start."""
        return before * self.surviving / (1 - before + before * self.surviving)

    def share(self, configs: Ints) -> npt.NDArray[np.float64]:
        return np.asarray(self._inside(self.params, self.ids, configs).mean(axis=0), dtype=np.float64)
