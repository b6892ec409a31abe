"""The paper's integer programme (section VII): one configuration for each operator, least query time, within limits.

The programme's variables are configurations (configs.py), not strategies: what a query step takes is then a number of
the variable, where the paper has a minimum, and the relaxation is tight. Its bound mostly leaves so few choices that
the best of them is found without more (core.py, growing.py). Else the programme is solved first for the options that
the relaxation likes most; when its answer proves that no other can be part of a better one, that is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

import numpy as np

from whence.model import WhenceError
from whence.strategy.configs import Config
from whence.strategy.core import Floats, Mask, Options, bound
from whence.strategy.growing import grown

Size = Callable[[Config], float]

_LIKED = 40
_MOST_CUTS = 100


@dataclass(frozen=True)
class Limit:
    """The sum of `size` over the chosen configurations is at most `most`."""

    name: str
    size: Size
    most: float

    def holds(self, chosen: Sequence[Config]) -> bool:
        return fsum(self.size(c) for c in chosen) <= self.most


def solve(options: Sequence[Sequence[Config]], limits: Sequence[Limit], goal: Size) -> list[Config] | None:
    """For each operator one of its options, so that the sum of `goal` is least within the limits; None: nothing is.

    `options[i]` must not be empty. Equal arguments give equal answers."""
    best = [min(group, key=lambda c: (goal(c), *c.order)) for group in options]
    if all(limit.holds(best) for limit in limits):
        return best
    least = [(limit, [min(limit.size(c) for c in group) for group in options]) for limit in limits]
    if any(fsum(sizes) > limit.most * (1 + 1e-9) for limit, sizes in least):
        return None
    kept = _not_hopeless(options, least)
    if any(not group for group in kept):
        return None
    chosen = _Programme(kept, limits, goal).solved()
    return None if chosen is None else _polished(chosen, kept, limits, goal)


def _not_hopeless(
    options: Sequence[Sequence[Config]], least: Sequence[tuple[Limit, list[float]]]
) -> list[list[Config]]:
    """Without what does not fit even when all others take their least."""
    rooms = [(limit, limit.most * (1 + 1e-9) - fsum(sizes), sizes) for limit, sizes in least]
    return [
        [c for c in group if all(limit.size(c) - sizes[i] <= room for limit, room, sizes in rooms)]
        for i, group in enumerate(options)
    ]


class _Programme:
    """Goals and sizes are scaled as the solver likes them: each operator's least goal is 0, since it is spent whatever
    is chosen, and the largest is a million, since the solver takes differences of a millionth for none.
    Sizes are scaled likewise."""

    def __init__(self, options: Sequence[Sequence[Config]], limits: Sequence[Limit], goal: Size) -> None:
        self._limits = limits
        self._columns = [(i, c) for i, group in enumerate(options) for c in group]
        least = [min(goal(c) for c in group) for group in options]
        goals = np.array([goal(c) - least[i] for i, c in self._columns], dtype=float)
        goals *= 1e6 / (goals.max(initial=0.0) or 1.0)
        sizes = np.array([[limit.size(c) for limit in limits] for _, c in self._columns], dtype=float)
        room = np.array([limit.most for limit in limits], dtype=float)
        scale = np.maximum(np.abs(room), sizes.max(axis=0, initial=0.0))
        scale[scale == 0] = 1.0
        owner = np.array([i for i, _ in self._columns], dtype=np.intp)
        scale /= 1e6
        self._options = Options(owner, goals, sizes / scale, room / scale)
        self._cuts: list[tuple[Floats, float]] = []

    def solved(self) -> list[Config] | None:
        _require_scipy()
        known = bound(self._options)
        few = grown(self._options, known)
        if few is not None:
            chosen = [self._columns[n][1] for n in few]
            if all(limit.holds(chosen) for limit in self._limits):
                return chosen
        operators = int(self._options.owner[-1]) + 1
        liked = _LIKED
        taken = known.nearest(operators + liked)
        while True:
            liked *= 3
            found = self._best(taken)
            if found is None:
                if taken.all():
                    return None
                taken = known.nearest(operators + liked)
                continue
            needed = known.within(float(self._options.goal[found].sum())) & ~taken
            if not needed.any():
                return [self._columns[n][1] for n in found]
            # a few more, which may give a better choice, for which fewer are needed
            some = needed & known.nearest(operators + liked)
            taken = taken | (some if some.any() else needed)

    def _best(self, taken: Mask) -> list[int] | None:
        """The places of the best choice among the options taken, exactly within the limits."""
        tightened = False
        while True:
            found = self._milp(taken, 1 - 4e-6 if tightened else 1.0)
            if found is None:
                return None
            chosen = [self._columns[n][1] for n in found]
            broken = next((limit for limit in self._limits if not limit.holds(chosen)), None)
            if broken is None:
                return found
            # Within the solver's tolerance, yet over the limit. Where ruling such choices out does not come to an end,
            # the limits are lowered by that tolerance instead.
            tightened = len(self._cuts) > _MOST_CUTS
            self._cuts += self._ruling_out(chosen, broken)

    def _ruling_out(self, chosen: Sequence[Config], broken: Limit) -> list[tuple[Floats, float]]:
        """Inequalities that hold for every choice within the limit, and not for this one."""
        sizes = np.array([broken.size(c) for _, c in self._columns], dtype=float)
        mine = np.array([broken.size(c) for c in chosen], dtype=float)
        as_large = (sizes >= mine[self._options.owner]).astype(float)
        cuts = [(as_large, len(chosen) - 1.0)]
        for unit in np.unique(mine[mine > 0])[:10]:  # whole multiples of a size, rounded down (Chvatal and Gomory)
            most = np.floor(broken.most / unit)
            if np.floor(mine / unit).sum() > most:
                cuts.append((np.floor(sizes / unit), float(most)))
        return cuts

    def _milp(self, taken: Mask, part: float) -> list[int] | None:
        """What the solver finds within that part of the limits. An operator with one option left is no variable."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        counts = np.bincount(self._options.owner[taken])
        alone = taken & (counts[self._options.owner] == 1)
        free = taken & ~alone
        if not free.any():
            return list(np.flatnonzero(alone)) if self._fits(alone) else None
        options = self._options.only(free)
        _, owner = np.unique(options.owner, return_inverse=True)
        count, groups = len(owner), int(owner[-1]) + 1
        one_each = csr_array((np.ones(count), (owner, np.arange(count))), (groups, count))
        room = part * options.room - self._options.sizes[alone].sum(axis=0)
        constraints: list[Any] = [
            LinearConstraint(one_each, 1, 1),
            LinearConstraint(options.sizes.T, -np.inf, room),
        ]
        for sizes, most in self._cuts:
            constraints.append(LinearConstraint(sizes[free][None, :], -np.inf, most - sizes[alone].sum()))
        answer = milp(
            options.goal,
            integrality=np.ones(count),
            bounds=Bounds(0, 1),
            constraints=constraints,
            options={"mip_rel_gap": 0.0, "presolve": False},
        )
        if answer.x is None:
            if answer.status == 2:
                return None
            raise WhenceError(f"The choice of strategies could not be computed: {answer.message}")
        chosen = np.concatenate([np.flatnonzero(alone), np.flatnonzero(free)[answer.x > 0.5]])
        return sorted(int(n) for n in chosen)

    def _fits(self, taken: Mask) -> bool:
        chosen = [self._columns[n][1] for n in np.flatnonzero(taken)]
        return all(limit.holds(chosen) for limit in self._limits)


def _polished(
    chosen: list[Config], options: Sequence[Sequence[Config]], limits: Sequence[Limit], goal: Size
) -> list[Config]:
    """No operator has another option that is as good or better, smaller, and within the limits."""
    for i, group in enumerate(options):
        for other in sorted(group, key=lambda c: (goal(c), *c.order)):
            if (goal(other), *other.order) >= (goal(chosen[i]), *chosen[i].order):
                break
            tried = [*chosen[:i], other, *chosen[i + 1 :]]
            if all(limit.holds(tried) for limit in limits):
                chosen = tried
                break
    return chosen


def _require_scipy() -> None:
    try:
        import scipy.optimize  # noqa: F401
    except ImportError as error:
        raise WhenceError(
            "Choosing strategies within limits needs scipy, which is not installed: pip install 'whence[arrays]'."
        ) from error
