"""A population of hypotheses that agree with the runs so far.

Each hypothesis is a disjunction of terms, each term one shape per parameter (shapes.py). A run fails under it when some
term holds all of the run's values. Hypotheses are drawn by Gibbs sampling, all in step: for one term and one parameter,
only runs that every other parameter lets in and that no other term covers can tell shapes apart, so two small matrix
products score every shape of every hypothesis at once. `noise` is the chance that a run lies; near zero unless flaky.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from whence.debug.diagnose.causes import Box, box_from_masks
from whence.debug.diagnose.lattice import explain
from whence.debug.diagnose.shapes import Shapes, shapes_of, stacked
from whence.debug.diagnose.space import Space

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_SURE = 1e-24  # that a run lies must be less likely than any cause: a failure that only one configuration shows is one
_TERM_COST = 2.0  # nats for each further cause


class Beliefs:
    def __init__(
        self,
        space: Space,
        rng: np.random.Generator,
        *,
        noise: float = 0.0,
        chains: int = 48,
        most_terms: int = 6,
    ) -> None:
        self.space = space
        self.rng = rng
        self.noise = max(noise, _SURE)
        n = len(space.parameters)
        self.relevant = min(0.3, 2.0 / n)
        self.shapes: list[Shapes] = [shapes_of(p, self.relevant) for p in space.parameters]
        self.chains, self.slots, self.n = chains, most_terms, n
        self._members, self._offset = stacked(self.shapes)
        self._log_prior: Floats = np.concatenate([s.log_prior - s.log_prior[0] for s in self.shapes]).astype(float)
        self.shape = np.zeros((chains, most_terms, n), dtype=np.int32)
        self.on = np.zeros((chains, most_terms), dtype=bool)
        self._gain = math.log((1 - self.noise) / self.noise)
        self.runs = 0
        self._grow(64)

    def _grow(self, capacity: int) -> None:
        def wider(old: Any, shape: tuple[int, ...], dtype: Any) -> Any:
            new = np.zeros(shape, dtype=dtype)
            if old is not None:
                new[tuple(slice(0, s) for s in old.shape)] = old
            return new

        b, k, n = self.chains, self.slots, self.n
        old = self.__dict__
        self.capacity = capacity
        self.x: Ints = wider(old.get("x"), (capacity, n), np.int64)
        self.failed: npt.NDArray[np.bool_] = wider(old.get("failed"), (capacity,), bool)
        self.made: npt.NDArray[np.bool_] = wider(old.get("made"), (capacity,), bool)
        self.weight: npt.NDArray[np.float32] = wider(old.get("weight"), (capacity,), np.float32)
        self.onehot: list[npt.NDArray[np.float32]] = [
            wider(old["onehot"][p] if "onehot" in old else None, (capacity, size), np.float32)
            for p, size in enumerate(self.space.sizes)
        ]
        self.sat: npt.NDArray[np.bool_] = wider(old.get("sat"), (b, k, n, capacity), bool)
        self.broken: npt.NDArray[np.int16] = wider(old.get("broken"), (b, k, capacity), np.int16)
        self.cover: npt.NDArray[np.int16] = wider(old.get("cover"), (b, capacity), np.int16)

    def add(self, codes: Sequence[int], failed: bool, made: bool = True) -> None:
        """`made`: the run was chosen by this search; a history shows what fails, but not that it was put to a test."""
        if self.runs == self.capacity:
            self._grow(2 * self.capacity)
        i = self.runs
        self.x[i] = codes
        self.failed[i] = failed
        self.made[i] = made
        self.weight[i] = self._gain if failed else -self._gain
        for p, c in enumerate(codes):
            self.onehot[p][i, c] = 1
            self.sat[:, :, p, i] = self.shapes[p].members[self.shape[:, :, p], c]
        self.broken[:, :, i] = self.n - self.sat[:, :, :, i].sum(axis=2)
        self.cover[:, i] = ((self.broken[:, :, i] == 0) & self.on).sum(axis=1)
        self.runs += 1

    # Moves

    def sweep(self, share: float = 1.0, in_step: float = 1.0) -> None:
        """Redraw every parameter of every term once, or a random share of them, each in a share of the hypotheses."""
        self._births()
        for k in range(self.slots):
            rows = np.flatnonzero(self.on[:, k])
            if len(rows):
                for p in self.rng.permutation(self.n)[: max(1, round(self.n * share))]:
                    some = rows if in_step == 1 else rows[self.rng.random(len(rows)) < in_step]
                    if len(some):
                        self._redraw(k, int(p), some)
        self._deaths()

    def _redraw(self, k: int, p: int, rows: Ints) -> None:
        shapes, runs = self.shapes[p], self.runs
        limit = len(shapes.log_prior)
        if limit > shapes.plain and self.rng.random() > 0.15:
            limit = shapes.plain
            rows = rows[self.shape[rows, k, p] < limit]
            if not len(rows):
                return
        held = self.sat[rows, k, p, :runs]
        broken = self.broken[rows, k, :runs]
        own = broken == 0
        elsewhere = self.cover[rows, :runs] - own
        telling = ((broken - ~held) == 0) & (elsewhere == 0)
        per_value = (telling * self.weight[:runs]) @ self.onehot[p][:runs]
        score = per_value @ shapes.weights[:, :limit] + shapes.log_prior[:limit]
        score -= score.max(axis=1, keepdims=True)
        mass = np.cumsum(np.exp(score), axis=1)
        drawn = (mass > self.rng.random((len(rows), 1), dtype=np.float32) * mass[:, -1:]).argmax(axis=1)
        moved = np.flatnonzero(drawn != self.shape[rows, k, p])
        if not len(moved):
            return
        at = rows[moved]
        self.shape[at, k, p] = drawn[moved]
        now = shapes.members[drawn[moved]][:, self.x[:runs, p]]
        after = broken[moved] + held[moved] - now
        self.sat[at, k, p, :runs] = now
        self.broken[at, k, :runs] = after
        self.cover[at, :runs] += (after == 0).astype(np.int16) - own[moved]

    def _births(self) -> None:
        """A failing run that no term covers gets a term of its own, which starts as that very run."""
        open_ = self.failed[: self.runs] & (self.cover[:, : self.runs] == 0)
        rows = np.flatnonzero(open_.any(axis=1))
        if self.noise > 1e-3 and len(rows):  # a lie needs no cause: try now and then only
            rows = rows[self.rng.random(len(rows)) < 0.3]
        for b in rows:
            free = np.flatnonzero(~self.on[b])
            k = int(free[0]) if len(free) else int(self.rng.integers(self.slots))
            run = int(self.rng.choice(np.flatnonzero(open_[b])))
            self._put(int(b), k, [int(self.shapes[p].single[c]) for p, c in enumerate(self.x[run])])

    def _put(self, b: int, k: int, shape: Sequence[int]) -> None:
        self.shape[b, k] = shape
        self.on[b, k] = True
        members = self._members[self._offset + self.shape[b, k]]
        self.sat[b, k, :, : self.runs] = np.take_along_axis(members, self.x[: self.runs].T, axis=1)
        self._recount(np.array([b]))

    def _recount(self, rows: Ints) -> None:
        sat = self.sat[rows, :, :, : self.runs]
        self.broken[rows, :, : self.runs] = self.n - sat.sum(axis=2)
        covered = (self.broken[rows, :, : self.runs] == 0) & self.on[rows][:, :, None]
        self.cover[rows, : self.runs] = covered.sum(axis=1)

    def _deaths(self) -> None:
        """Drop a term when the runs that it alone covers are worth less than the term costs."""
        if not self.runs:
            return
        for k in range(self.slots):
            rows = np.flatnonzero(self.on[:, k])
            if not len(rows):
                continue
            own = (self.broken[rows, k, : self.runs] == 0) & (self.cover[rows, : self.runs] == 1)
            worth = own @ self.weight[: self.runs] + self._term_log_prior(rows, k)
            gone = rows[self.rng.random(len(rows)) > 1 / (1 + np.exp(-np.clip(worth, -30, 30)))]
            if len(gone):
                self.on[gone, k] = False
                self._recount(gone)

    def _term_log_prior(self, rows: Ints, k: int) -> Floats:
        return np.asarray(self._log_prior[self._offset + self.shape[rows, k]].sum(axis=1) - _TERM_COST)

    def log_posterior(self) -> Floats:
        rows = np.arange(self.chains)
        total = np.zeros(self.chains)
        for k in range(self.slots):
            total += np.where(self.on[:, k], self._term_log_prior(rows, k), 0.0)
        wrong = (self.cover[:, : self.runs] > 0) != self.failed[: self.runs]
        return np.asarray(total - self._gain * wrong.sum(axis=1))

    def refresh(self, share: float = 0.25) -> None:
        """Let hypotheses that are far behind start again from better ones, with one term grown anew."""
        score = self.log_posterior()
        order = np.argsort(score)
        behind = order[: int(self.chains * share)]
        better = order[int(self.chains * share) :]
        chance = np.exp(np.clip(score[better] - score[better].max(), -12, 0) / 2)
        chance /= chance.sum()
        worst = [int(b) for b in behind if score[b] < score[better].max() - 3]
        for b in worst:
            source = int(self.rng.choice(better, p=chance))
            for name in ("shape", "on", "sat", "broken", "cover"):
                values = getattr(self, name)
                values[b] = values[source]
            terms = np.flatnonzero(self.on[b])
            if len(terms):
                self.on[b, int(self.rng.choice(terms))] = False
        if worst:
            self._recount(np.array(worst))

    def propose(self) -> None:
        """Set the exact search's answer against the population: it takes the place of the worst hypothesis."""
        runs = [tuple(int(c) for c in row) for row in self.x[: self.runs]]
        failing = [r for r, f in zip(runs, self.failed, strict=False) if f]
        passed = list(dict.fromkeys(r for r, f in zip(runs, self.failed, strict=False) if not f))
        if self.noise > 1e-3 or not failing:
            return
        terms = explain(self.shapes, failing, passed, _TERM_COST, self.slots)
        if 0 < len(terms) <= self.slots:
            b = int(self.log_posterior().argmin())
            self.on[b] = False
            for k, term in enumerate(terms):
                self._put(b, k, term.shape)

    # Questions

    def predict(self, candidates: Ints) -> npt.NDArray[np.bool_]:
        """[hypothesis, candidate]: does it say that the candidate fails."""
        fails = np.zeros((self.chains, len(candidates)), dtype=bool)
        for k in range(self.slots):
            rows = np.flatnonzero(self.on[:, k])
            if not len(rows):
                continue
            inside = np.ones((len(rows), len(candidates)), dtype=bool)
            for p in range(self.n):
                used = np.flatnonzero(self.shape[rows, k, p])
                if len(used):
                    inside[used] &= self.shapes[p].members[self.shape[rows[used], k, p]][:, candidates[:, p]]
            fails[rows] |= inside
        return fails

    def box(self, b: int, k: int) -> Box:
        return box_from_masks(
            {p: self.shapes[p].members[s] for p, s in enumerate(self.shape[b, k]) if s}  # shape 0 restricts nothing
        )

    def boxes(self, b: int) -> tuple[Box, ...]:
        return tuple(sorted({self.box(b, int(k)) for k in np.flatnonzero(self.on[b])}, key=repr))

    def shares(self) -> dict[Box, float]:
        """How many of the hypotheses, weighed by their probability, hold each cause."""
        found: dict[Box, float] = {}
        score = self.log_posterior()
        weight = np.where(score > score.max() - 12, 1.0, 0.0)
        weight /= weight.sum()
        for b in np.flatnonzero(weight):
            for box in self.boxes(int(b)):
                found[box] = found.get(box, 0.0) + float(weight[b])
        return found

    def different(self) -> int:
        """How many different hypotheses of the population are still worth hearing."""
        score = self.log_posterior()
        heard = np.flatnonzero(score > score.max() - 12)
        return len({frozenset(self.shape[b, k].tobytes() for k in np.flatnonzero(self.on[b])) for b in heard})

    def best(self) -> int:
        return int(self.log_posterior().argmax())

    def observable(self, b: int, k: int) -> list[npt.NDArray[np.bool_]]:
        """For each parameter, the values where this term can be seen: elsewhere another term fails the run anyway."""
        mine = [self.shapes[p].members[s] for p, s in enumerate(self.shape[b, k])]
        seen = [np.ones(size, dtype=bool) for size in self.space.sizes]
        for j in np.flatnonzero(self.on[b]):
            if j == k:
                continue
            other = [self.shapes[p].members[s] for p, s in enumerate(self.shape[b, j])]
            short = [p for p in range(self.n) if (mine[p] & ~other[p]).any()]  # where the other term is narrower
            if len(short) <= 1:
                for p in short or range(self.n):
                    seen[p] &= ~other[p]
        return seen

    def certainty(self, b: int, k: int, visible: Sequence[npt.NDArray[np.bool_]]) -> float:
        """The chance that every condition of the term is exactly right, as far as runs can show it."""
        total = 1.0
        for p, (mass, seen) in enumerate(zip(self.local(b, k), visible, strict=True)):
            members = self.shapes[p].members
            alike = (members[:, seen] == members[self.shape[b, k, p], seen]).all(axis=1)
            total *= float(mass[alike].sum())
        return total

    def untried(self, b: int, k: int, visible: Sequence[npt.NDArray[np.bool_]]) -> list[npt.NDArray[np.bool_]]:
        """For each parameter, the values that the term allows and that no run of ours has shown to fail with it and it
        alone."""
        own = (self.broken[b, k, : self.runs] == 0) & (self.cover[b, : self.runs] == 1)
        at = np.flatnonzero(own & self.failed[: self.runs] & self.made[: self.runs])
        found = []
        for p, seen in enumerate(visible):
            open_ = seen & self.shapes[p].members[self.shape[b, k, p]]
            open_[self.x[at, p]] = False
            found.append(open_)
        return found

    def local(self, b: int, k: int) -> list[npt.NDArray[np.float32]]:
        """For one term, the probability of every shape of every parameter, all else in the hypothesis being right."""
        runs = self.runs
        elsewhere = self.cover[b, :runs] - (self.broken[b, k, :runs] == 0)
        found = []
        for p, shapes in enumerate(self.shapes):
            telling = ((self.broken[b, k, :runs] - ~self.sat[b, k, p, :runs]) == 0) & (elsewhere == 0)
            per_value = (telling * self.weight[:runs]) @ self.onehot[p][:runs]
            score = per_value @ shapes.weights + shapes.log_prior
            mass = np.exp(score - score.max())
            found.append(mass / mass.sum())
        return found
