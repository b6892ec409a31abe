"""Which run to make next: the one whose outcome the hypotheses left disagree about most.

Three sources of candidates are weighed on one scale, the information (in bits) that the outcome is expected to give:
*split* (mixtures of failing and succeeding runs, and runs in and around the terms of single hypotheses; the
population votes), *confirm* (for the best hypothesis, values never tried inside a cause, and values just outside it;
scored exactly, one term at a time) and *explore* (places where unseen causes would show).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whence.debug.diagnose.beliefs import Beliefs, Floats, Ints
from whence.debug.diagnose.causes import Box
from whence.debug.diagnose.shapes import stacked
from whence.debug.diagnose.space import Codes
from whence.debug.diagnose.unseen import Unseen

_FURTHER_CAUSE = 0.5  # how likely it is, before looking, that there is a cause more than those seen
_ENOUGH = 1e-4  # bits
_AGAIN = 4  # failures of one configuration, for which no cause is found, that are worth another run
_FIRST_TRY = 0.02  # bits that a value never tried inside a cause is worth at least
_HIDDEN = 60  # untried values that are looked at one by one: may other causes hide them all?
_SMALL = 512  # configurations; a space that small is looked at whole


@dataclass(frozen=True)
class Plan:
    codes: Codes
    purpose: str  # "split", "confirm", "explore" or "repeat"
    about: Box | None = None  # the cause that is put to the test
    bits: float = 0.0


def entropy(p: npt.ArrayLike) -> Floats:
    q = np.clip(np.asarray(p, dtype=float), 1e-12, 1 - 1e-12)
    return np.asarray(-(q * np.log2(q) + (1 - q) * np.log2(1 - q)))


class Planner:
    def __init__(
        self,
        beliefs: Beliefs,
        unseen: Unseen,
        rng: np.random.Generator,
        *,
        valid: Callable[[Codes], bool] | None = None,
        cost: Callable[[Codes], float] | None = None,
        repeats: bool = False,
        candidates: int = 256,
    ) -> None:
        self.beliefs, self.unseen, self.rng = beliefs, unseen, rng
        self.valid, self.cost, self.repeats, self.count = valid, cost, repeats, candidates
        self.sizes: Ints = np.array(beliefs.space.sizes, dtype=np.int64)
        self.done: set[Codes] = set()
        self._members = stacked(beliefs.shapes)
        self._reachable: dict[tuple[Box, int, int], bool] = {}
        self._avoided: tuple[Box, ...] = ()
        self._all: Ints | None = None
        if np.prod(self.sizes.astype(float)) <= _SMALL:
            self._all = np.indices(tuple(self.sizes)).reshape(len(self.sizes), -1).T.astype(np.int64)

    def _bits(self, chance: npt.ArrayLike) -> Floats:
        """Information of an outcome that fails with this chance, less what the noise alone would give."""
        noise = self.beliefs.noise
        q = np.asarray(chance, dtype=float)
        return np.asarray(np.maximum(entropy(q * (1 - noise) + (1 - q) * noise) - entropy(noise), 0.0))

    def choose(self, pending: Iterable[Codes] = (), *, explore: bool = True) -> Plan | None:
        """The best next run, or None when nothing is left that could tell anything."""
        waiting = list(pending)
        busy = set(waiting) if self.repeats else self.done | set(waiting)
        for _ in range(3):  # candidates are drawn at random: others may be valid and new where these were not
            plan = self._best(waiting, busy, explore)
            if plan is not None:
                return plan
        outcomes = set(self.beliefs.failed[: self.beliefs.runs].tolist())
        return self._anywhere(busy) if len(outcomes) < 2 else None

    def _best(self, waiting: list[Codes], busy: set[Codes], explore: bool) -> Plan | None:
        plans = self._split(waiting) + self._confirm()
        if self.repeats:
            plans += self._again()
        if explore:
            plans += self._explore()
        if max((plan.bits for plan in plans), default=0.0) < _FIRST_TRY:
            plans += self._first_tries()
        if self.cost is not None:
            price = self.cost
            plans.sort(key=lambda plan: -plan.bits / max(price(plan.codes), 1e-9))
        else:
            plans.sort(key=lambda plan: -plan.bits)
        for plan in plans:
            if plan.bits < _ENOUGH:
                break
            if plan.codes not in busy and self._allowed(plan.codes):
                return plan
        return None

    def avoid(self, boxes: Iterable[Box]) -> None:
        """Where failures of other kinds stand: a run there tells nothing about this kind."""
        failing = self.beliefs.x[: self.beliefs.runs][self.beliefs.failed[: self.beliefs.runs]]
        avoided = tuple(
            box for box in sorted(boxes, key=repr) if not any(all(f[p] in v for p, v in box) for f in failing)
        )
        if avoided != self._avoided:
            self._avoided = avoided
            self._reachable.clear()

    @property
    def _free(self) -> bool:
        return self.valid is None and not self._avoided

    def _allowed(self, codes: Codes) -> bool:
        if any(all(codes[p] in values for p, values in box) for box in self._avoided):
            return False
        return self.valid is None or self.valid(codes)

    def _anywhere(self, busy: set[Codes]) -> Plan | None:
        """Any run not yet made: nothing can be told before a failing and a succeeding one are known."""
        if self._all is not None:
            rows = self.rng.permutation(self._all)
        else:
            anything = (self.rng.random((1500, len(self.sizes))) * self.sizes).astype(np.int64)
            rows = np.concatenate([self._least_tried(500), anything])
        for row in rows:
            codes = tuple(int(c) for c in row)
            if codes not in busy and self._allowed(codes):
                return Plan(codes, "explore", None, 1.0)
        return None

    def _least_tried(self, count: int) -> Ints:
        """Of every parameter a value that was tried least: one may be all that fails, or all that does not."""
        runs = self.beliefs.x[: self.beliefs.runs]
        made = np.empty((count, len(self.sizes)), dtype=np.int64)
        for p, size in enumerate(self.sizes):
            tried = np.bincount(runs[:, p], minlength=size)
            made[:, p] = self.rng.choice(np.flatnonzero(tried == tried.min()), size=count)
        return made

    # Split

    def _split(self, waiting: list[Codes]) -> list[Plan]:
        made = self._mixtures()
        if made is None:
            return []
        votes = self.beliefs.predict(made)
        score = self.beliefs.log_posterior()
        heard = score > score.max() - 12
        votes = votes[heard]
        groups = np.zeros(len(votes), dtype=np.int64)
        if waiting:  # what the runs under way will tell is not counted again
            said = self.beliefs.predict(np.array(waiting))[heard]
            groups = np.unique(said, axis=0, return_inverse=True)[1].reshape(-1)
        bits = np.zeros(len(made))
        for g in np.unique(groups):
            at = groups == g
            bits += at.mean() * self._bits(votes[at].mean(axis=0))
        best = np.argsort(-bits)[:12]
        return [Plan(tuple(int(c) for c in made[i]), "split", None, float(bits[i])) for i in best]

    def _mixtures(self) -> Ints | None:
        beliefs, rng = self.beliefs, self.rng
        runs = beliefs.x[: beliefs.runs]
        failed = runs[beliefs.failed[: beliefs.runs]]
        passed = runs[~beliefs.failed[: beliefs.runs]]
        if not len(failed):
            return None
        if self._all is not None:
            return self._all
        count, n = self.count, beliefs.n
        half = count // 2
        anywhere = (rng.random((count, n)) * self.sizes).astype(np.int64)
        other = anywhere.copy()
        if len(passed):
            use = rng.random(count) < 0.7
            other[use] = passed[rng.integers(len(passed), size=int(use.sum()))]
        base = failed[rng.integers(len(failed), size=count)]
        take = rng.random((count, n)) < rng.choice([0.15, 0.3, 0.5, 0.7, 0.85], size=(count, 1))
        made = np.where(take, other, base)
        # The second half stands in or just outside of a term of some hypothesis.
        terms = np.argwhere(beliefs.on)
        if len(terms):
            b, k = terms[rng.integers(len(terms), size=count - half)].T
            made[half:] = np.where(rng.random((count - half, 1)) < 0.7, other[half:], base[half:])
            self._move(made[half:], beliefs.shape[b, k], rng.random(count - half) < 0.6)
        return made

    def _move(self, rows: Ints, shape: npt.NDArray[np.int32], outside: npt.NDArray[np.bool_]) -> None:
        """Change each row, in place and as little as can be, to stand in its term, or outside by one condition."""
        rng, (members, offset) = self.rng, self._members
        ids = offset + shape
        used = shape > 0
        broken = (rng.random(shape.shape) * used).argmax(axis=1)
        wanted = np.ones(shape.shape, dtype=bool)
        wanted[np.arange(len(rows)), broken] = ~outside
        change = used & (members[ids, rows] != wanted)
        i, p = np.nonzero(change)
        allowed = (members[ids[i, p]] == wanted[i, p][:, None]) & (np.arange(members.shape[1]) < self.sizes[p][:, None])
        rows[i, p] = (rng.random(allowed.shape) * allowed).argmax(axis=1)

    # Confirm

    def _confirm(self) -> list[Plan]:
        beliefs = self.beliefs
        b = beliefs.best()
        plans: list[Plan] = []
        for k in np.flatnonzero(beliefs.on[b]):
            box = beliefs.box(b, int(k))
            inside = [mass @ beliefs.shapes[p].members for p, mass in enumerate(beliefs.local(b, int(k)))]
            rest = [int(j) for j in np.flatnonzero(beliefs.on[b]) if j != k]
            for codes, chance, doubted in self._around(inside, self.visible(b, int(k))):
                if not self._free:
                    codes, chance = self._repaired(codes, chance, inside)
                if any(self._holds(b, j, codes) for j in rest):  # it would fail whether this term is right or not
                    codes, chance = self._aside(b, rest, codes, doubted, inside)
                if not any(self._holds(b, j, codes) for j in rest):
                    plans.append(Plan(codes, "confirm", box, float(self._bits(chance))))
        return plans

    def _first_tries(self) -> list[Plan]:
        """For each term of the best hypothesis, a run with values that were never tried with it."""
        beliefs = self.beliefs
        b = beliefs.best()
        plans: list[Plan] = []
        for k in np.flatnonzero(beliefs.on[b]):
            rest = [int(j) for j in np.flatnonzero(beliefs.on[b]) if j != k]
            inside = [mass @ beliefs.shapes[p].members for p, mass in enumerate(beliefs.local(b, int(k)))]
            untried = self._first_try(b, int(k), rest, inside)
            if untried is not None:
                plans.append(Plan(untried, "confirm", beliefs.box(b, int(k)), _FIRST_TRY))
        return plans

    def _first_try(self, b: int, k: int, rest: list[int], inside: list[npt.NDArray[np.float32]]) -> Codes | None:
        """A run inside the term with as many values as can be that were never tried with it."""
        open_ = self.beliefs.untried(b, k, self.visible(b, k))
        if not any(mask.any() for mask in open_):
            return None
        for _ in range(3):
            codes = tuple(
                int(self.rng.choice(np.flatnonzero(mask if mask.any() else likely >= likely.max() - 0.01)))
                for mask, likely in zip(open_, inside, strict=True)
            )
            found = self._stands_alone(b, k, rest, codes, -1, inside, open_)
            if found is not None:
                return found
        return None

    def _stands_alone(
        self, b: int, k: int, rest: list[int], codes: Codes, doubted: int,
        inside: list[npt.NDArray[np.float32]], open_: list[npt.NDArray[np.bool_]],
    ) -> Codes | None:  # fmt: skip
        """This configuration, changed until no other term holds it, if it then still has an open value."""
        codes, _ = self._aside(b, rest, codes, doubted, inside)
        if any(self._holds(b, j, codes) for j in rest) or not self._holds(b, k, codes) or not self._allowed(codes):
            return None
        if codes in self.done or not any(mask[c] for mask, c in zip(open_, codes, strict=True)):
            return None
        return codes

    def is_tried(self, b: int, k: int) -> bool:
        """Was every value that can be tried inside the term, where no other term holds, seen to fail?"""
        open_ = self.beliefs.untried(b, k, self.visible(b, k))
        if sum(int(mask.sum()) for mask in open_) > _HIDDEN:
            return False
        rest = [int(j) for j in np.flatnonzero(self.beliefs.on[b]) if j != k]
        inside = [mass @ self.beliefs.shapes[p].members for p, mass in enumerate(self.beliefs.local(b, k))]
        for p, mask in enumerate(open_):
            for v in np.flatnonzero(mask):
                alone = [m & (np.arange(len(m)) == v) if q == p else np.zeros_like(m) for q, m in enumerate(open_)]
                for _ in range(12):
                    drawn = [int(self.rng.choice(np.flatnonzero(likely > 0.5))) for likely in inside]
                    drawn[p] = int(v)
                    if self._stands_alone(b, k, rest, tuple(drawn), p, inside, alone) is not None:
                        return False
        return True

    def _aside(
        self, b: int, rest: list[int], codes: Codes, doubted: int, inside: list[npt.NDArray[np.float32]]
    ) -> tuple[Codes, float]:
        """The same doubt put where no other term holds: one more value changed for each that did."""
        beliefs, made = self.beliefs, list(codes)
        for j in rest:
            if not self._holds(b, j, tuple(made)):
                continue
            ways = []
            for p in np.flatnonzero(beliefs.shape[b, j]):
                out = ~beliefs.shapes[p].members[beliefs.shape[b, j, p]] & (inside[p] > 0.5)
                if p != doubted and out.any():
                    ways.append((int(p), np.flatnonzero(out)))
            if not ways:
                break
            q, values = ways[int(self.rng.integers(len(ways)))]
            made[q] = int(self.rng.choice(values))
        return tuple(made), float(np.prod([likely[c] for likely, c in zip(inside, made, strict=True)]))

    def visible(self, b: int, k: int) -> list[npt.NDArray[np.bool_]]:
        """The values at which a term can be seen to fail: no other term hides it, and some valid run stands there."""
        seen = self.beliefs.observable(b, k)
        if self._free:
            return seen
        box = self.beliefs.box(b, k)
        for p, mask in enumerate(seen):
            for v in np.flatnonzero(mask):
                key = (box, p, int(v))
                if key not in self._reachable:
                    self._reachable[key] = self._can_reach(b, k, p, int(v))
                mask[v] = self._reachable[key]
        return seen

    def _can_reach(self, b: int, k: int, p: int, v: int) -> bool:
        beliefs = self.beliefs
        runs = beliefs.x[: beliefs.runs]
        if (runs[:, p] == v)[beliefs.broken[b, k, : beliefs.runs] == 0].any():
            return True
        rows = (self.rng.random((25, len(self.sizes))) * self.sizes).astype(np.int64)
        self._move(rows, np.repeat(beliefs.shape[b, k][None], 25, axis=0), np.zeros(25, dtype=bool))
        rows[:, p] = v
        return any(self._allowed(tuple(int(c) for c in row)) for row in rows)

    def _repaired(self, codes: Codes, chance: float, inside: list[npt.NDArray[np.float32]]) -> tuple[Codes, float]:
        """A valid configuration near this one, and its chance to fail."""
        made = np.array(codes)
        for turn in range(30):
            if self._allowed(tuple(int(c) for c in made)):
                if turn:
                    chance = float(np.prod([likely[c] for likely, c in zip(inside, made, strict=True)]))
                return tuple(int(c) for c in made), chance
            made = np.array(codes) if turn % 6 == 5 else made
            p = int(self.rng.integers(len(made)))
            made[p] = self.rng.choice(np.flatnonzero(inside[p] >= 0.5 * inside[p].max()))
        return codes, chance

    def _holds(self, b: int, k: int, codes: Codes) -> bool:
        beliefs = self.beliefs
        return all(beliefs.shapes[p].members[beliefs.shape[b, k, p], c] for p, c in enumerate(codes))

    def _around(
        self, inside: list[npt.NDArray[np.float32]], seen: list[npt.NDArray[np.bool_]]
    ) -> list[tuple[Codes, float, int]]:
        """Configurations with their chance to fail: many suspicious values at once (-1), or one doubtful value of this
        parameter."""
        rng = self.rng
        found: list[tuple[Codes, float, int]] = []
        for _ in range(3):
            codes = np.zeros(len(inside), dtype=np.int64)
            chance = 1.0
            for p in rng.permutation(len(inside)):
                likely = inside[p]
                jitter = likely + rng.random(len(likely)) * 1e-4
                fits = np.flatnonzero((likely * chance >= 0.5) & seen[p])
                codes[p] = fits[jitter[fits].argmin()] if len(fits) else (likely * (0.1 + seen[p])).argmax()
                chance *= float(likely[codes[p]])
            found.append((tuple(int(c) for c in codes), chance, -1))
        clear = [likely * (0.1 + see) for likely, see in zip(inside, seen, strict=True)]
        n = len(inside)
        base = np.empty((n, n), dtype=np.int64)  # a row for each parameter in doubt, filled with values beyond doubt
        for q, likely in enumerate(clear):
            sure = np.flatnonzero(likely >= likely.max() - 0.01)
            base[:, q] = sure[(rng.random(n) * len(sure)).astype(np.int64)]
        doubted = []
        for p, likely in enumerate(inside):
            doubtful = np.abs(likely - 0.5) + ~seen[p]
            v = int((doubtful + rng.random(len(doubtful)) * 1e-3).argmin())
            if 0.001 <= likely[v] <= 0.999 and seen[p][v]:
                base[p, p] = v
                doubted.append(p)
        chances = np.prod([likely[base[:, q]] for q, likely in enumerate(inside)], axis=0)
        found += [(tuple(base[p].tolist()), float(chances[p]), p) for p in doubted]
        return found

    def _again(self) -> list[Plan]:
        """In a flaky pipeline, a failure that no cause explains is a lie or the only sign of a cause: run it again."""
        beliefs = self.beliefs
        runs, failed = beliefs.x[: beliefs.runs], beliefs.failed[: beliefs.runs]
        open_ = np.flatnonzero(failed & (beliefs.cover[beliefs.best(), : beliefs.runs] == 0))
        plans = []
        for row in np.unique(runs[open_], axis=0):
            same = (runs == row).all(axis=1)
            fails = int(failed[same].sum())
            if fails > same.sum() - fails and fails <= _AGAIN:
                plans.append(Plan(tuple(int(c) for c in row), "repeat", None, 0.6))
        return plans

    # Explore

    def _explore(self) -> list[Plan]:
        beliefs = self.beliefs
        alike = beliefs.runs > 0 and bool(beliefs.failed[: beliefs.runs].all())
        made = self._least_tried(24) if alike else self.unseen.configs(24, self.sizes)
        known = self.beliefs.predict(made).mean(axis=0) if self.beliefs.on.any() else np.zeros(len(made))
        free = np.flatnonzero(known < 0.2)
        if not len(free):
            made = np.array([self._escape(m) for m in made[:8]])
            free = np.arange(len(made))
        share = self.unseen.share(made[free])
        bits = self._bits(self.unseen.chance(_FURTHER_CAUSE) * share)
        order = np.argsort(-bits)[:6]
        return [Plan(tuple(int(c) for c in made[free[i]]), "explore", None, float(bits[i])) for i in order]

    def _escape(self, codes: Ints) -> Ints:
        """Move a configuration out of the causes of the best hypothesis, changing one value per cause."""
        beliefs, rng = self.beliefs, self.rng
        b = beliefs.best()
        out: Ints = codes.copy()
        for k in np.flatnonzero(beliefs.on[b]):
            used = np.flatnonzero(beliefs.shape[b, k])
            if len(used) and self._holds(b, int(k), tuple(out)):
                p = int(rng.choice(used))
                out[p] = rng.choice(np.flatnonzero(~beliefs.shapes[p].members[beliefs.shape[b, k, p]]))
        return out
