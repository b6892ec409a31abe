"""Makes a choice small before it is solved: what provably stands in no best choice is left out.

Each limit gets a price (the dual of the linear relaxation). With prices, every operator chooses for itself, and the sum
of what they choose less the price of the limits is a lower bound for the goal. An option's *regret* is what it lies
above its operator's choice; where bound and regret together lie above a choice that is already at hand, the option
stands in no better one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Options:
    """The options of all operators: whose each is, its goal, its sizes (options x limits), and the limits."""

    owner: NDArray[np.intp]
    goal: Floats
    sizes: Floats
    room: Floats

    def only(self, kept: Mask) -> Options:
        return Options(self.owner[kept], self.goal[kept], self.sizes[kept], self.room)


@dataclass(frozen=True)
class Bound:
    least: float
    regret: Floats
    prices: Floats
    slack: float

    def within(self, best: float) -> Mask:
        """The options that a choice better than `best` may have."""
        return np.asarray(self.least + self.regret <= best + self.slack)

    def nearest(self, count: int) -> Mask:
        """The `count` options with the least regret; every operator's own choice is among them, since it has none."""
        if count >= len(self.regret):
            return np.ones(len(self.regret), dtype=bool)
        return np.asarray(self.regret <= np.partition(self.regret, count)[count])


def bound(options: Options) -> Bound:
    prices = _prices(options)
    priced = options.goal + options.sizes @ prices
    starts = np.flatnonzero(np.r_[True, options.owner[1:] != options.owner[:-1]])
    lows = np.minimum.reduceat(priced, starts)
    least = float(lows.sum() - prices @ options.room)
    slack = 1e-9 * (abs(least) + float(np.abs(priced).max(initial=0.0)))
    return Bound(least, priced - np.repeat(lows, np.diff(np.r_[starts, len(priced)])), prices, slack)


def _prices(options: Options) -> Floats:
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    count = len(options.goal)
    operators = int(options.owner[-1]) + 1
    one_each = csr_array((np.ones(count), (options.owner, np.arange(count))), (operators, count))
    solved = linprog(
        options.goal, A_ub=options.sizes.T, b_ub=options.room, A_eq=one_each, b_eq=np.ones(operators), method="highs-ds"
    )
    if solved.x is None:  # any prices give a bound; these give a poor one
        return np.zeros(len(options.room))
    duals: Floats = np.maximum(-np.asarray(solved.ineqlin.marginals, dtype=float), 0.0)
    return duals
