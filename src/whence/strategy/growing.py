"""The best choice, put together operator by operator from partial ones (a dynamic programme with bounds).

All choices are looked for whose goal lies at most `gap` above the bound of core.py: partial choices that provably end
higher or outside a limit are dropped, and so are those that another beats in goal and in every size. One that is found
is the best there is, since all better ones lie within the gap too. The gap begins small and grows, as the work grows
with it much faster. Where there are too many partial choices, an integer programme takes over (solve.py)."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from whence.strategy.core import Bound, Floats, Options

Places = NDArray[np.intp]

_MOST = 200_000
"""Partial choices, of all passes together: somewhat more than what the integer programme would take."""
_MOST_AT_ONCE = 2_000_000
_FAST, _SLOW, _SOME = 1.3, 1.12, 5
"""How the gap grows: fast until there is some work, since the work grows much faster than the gap then."""
_PRICES = (1.0, 0.6, 1.6, 0.3, 3.0)
"""Every price gives a bound. What is best for the whole is not for the operators that are left in the end."""


def grown(options: Options, known: Bound) -> list[int] | None:
    """The places of the best choice, within the limits up to rounding; None: it was not found, or there is none."""
    above = np.sort(known.regret[known.regret > 0])
    gap = float(above[min(10, len(above) - 1)]) if len(above) else 1.0
    most = _most_gap(options, known)
    left = _MOST
    while left > 0:
        found, seen = _within(options, known, gap, left)
        if found is not None or gap > most:
            return found
        left -= seen
        gap *= _FAST if seen < _SOME else _SLOW
    return None


def _most_gap(options: Options, known: Bound) -> float:
    starts, _ = _groups(options.owner)
    highest = float(np.maximum.reduceat(known.regret, starts).sum())
    return highest + float(known.prices @ options.room) + known.slack


def _within(options: Options, known: Bound, gap: float, most: int) -> tuple[list[int] | None, int]:
    """The best choice within the gap, if one is there; and how many partial choices were seen."""
    places = np.flatnonzero(known.regret <= gap + known.slack)
    goal, sizes = options.goal[places], options.sizes[places]
    starts, ends = _groups(options.owner[places])
    alone = ends - starts == 1
    lowest, highest = np.minimum.reduceat(sizes, starts), np.maximum.reduceat(sizes, starts)
    free = np.flatnonzero(~alone)
    free = free[np.argsort(-((highest - lowest)[free] @ known.prices), kind="stable")]  # what decides most comes first

    prices = np.array(list(product(*([part * price for part in _PRICES] for price in known.prices))))
    priced = np.minimum.reduceat(goal[:, None] + sizes @ prices.T, starts)
    goals_left, sizes_left = _sums_behind(priced[free]), _sums_behind(lowest[free])
    room = options.room + 1e-12 * np.abs(options.room)
    highest_goal = known.least + gap + known.slack

    goals = np.array([goal[starts[alone]].sum()])
    taken = sizes[starts[alone]].sum(axis=0)[None, :]
    steps: list[tuple[Places, Places]] = []
    seen = 0
    for number, group in enumerate(free, start=1):
        first, last = starts[group], ends[group]
        if len(goals) * (last - first) > _MOST_AT_ONCE:
            return None, most
        goals = (goals[:, None] + goal[first:last]).ravel()
        taken = (taken[:, None, :] + sizes[first:last]).reshape(-1, sizes.shape[1])
        left = room - taken
        kept = np.flatnonzero((left >= sizes_left[number]).all(axis=1))
        for price, spent in zip(prices, goals_left[number], strict=True):
            kept = kept[goals[kept] + (spent - left[kept] @ price) <= highest_goal]
        kept = kept[_unbeaten(goals[kept], taken[kept])]
        goals, taken = goals[kept], taken[kept]
        steps.append((kept // (last - first), first + kept % (last - first)))
        seen += len(kept)
        if not len(kept) or seen > most:
            return None, seen
    if not ((room >= taken).all(axis=1) & (goals <= highest_goal)).any():
        return None, seen
    here = int(np.argmin(goals))
    chosen = list(starts[alone])
    for before, option in reversed(steps):
        chosen.append(option[here])
        here = before[here]
    return sorted(int(place) for place in places[chosen]), seen


def _groups(owner: NDArray[np.intp]) -> tuple[Places, Places]:
    """Where each operator's options begin and end."""
    starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    return starts, np.r_[starts[1:], len(owner)]


def _sums_behind(values: Floats) -> Floats:
    """At n: the sum of the rows from n on."""
    return np.vstack([np.cumsum(values[::-1], axis=0)[::-1], np.zeros((1, values.shape[1]))])


def _unbeaten(goals: Floats, sizes: Floats) -> Places:
    """Those that no other beats or equals in goal and all sizes, of one or two limits; in order."""
    if len(goals) < 30 or sizes.shape[1] > 2:
        return np.arange(len(goals))
    order = np.lexsort((goals, sizes[:, -1], sizes[:, 0]))
    if sizes.shape[1] == 1:
        return np.sort(order[_falling(goals[order])])
    goals, others = goals[order], sizes[order, 1]
    kept = np.ones(len(goals), dtype=bool)
    front_goals, front_others = goals[:0], others[:0]  # unbeaten ones of what is smaller in the first size
    block = max(16, int(len(goals) ** 0.5))
    for start in range(0, len(goals), block):
        part = slice(start, start + block)
        if len(front_goals):
            place = np.searchsorted(front_goals, goals[part], side="right") - 1
            kept[part] = (place < 0) | (front_others[np.maximum(place, 0)] > others[part])
        front_goals = np.r_[front_goals, goals[part][kept[part]]]
        front_others = np.r_[front_others, others[part][kept[part]]]
        sort = np.lexsort((front_others, front_goals))
        sort = sort[_falling(front_others[sort])]
        front_goals, front_others = front_goals[sort], front_others[sort]
    return np.sort(order[kept])


def _falling(values: Floats) -> NDArray[np.bool_]:
    """Which are less than all before them."""
    return np.asarray(np.r_[True, values[1:] < np.minimum.accumulate(values)[:-1]])
