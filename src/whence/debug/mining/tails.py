"""Which counts are too far out for the distribution that the others follow.

How often an input leads to many outputs differs by nature: lines of words are about geometric, keys of a join follow
Zipf's law, a parser's fields hardly vary. Beyond a high threshold all of these are close to a generalised Pareto
distribution (Pickands, Balkema and de Haan), whose shape says how heavy the tail is. It is fitted to the counts under
suspicion as censored (there are that many, of unknown size), so that they cannot excuse themselves, and a shape other
than the exponential one must win its price in likelihood. What the fit leaves open is decided in favour of the
suspects: of all parameters that are about as likely, those count under which the suspects are least strange.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whence.debug.mining.outliers import NONE_FOUND, Outliers, repeated_grubbs

Floats = npt.NDArray[np.float64]

_SHAPES = np.linspace(0.0, 2.0, 21)
_SCALES = np.geomspace(0.02, 50.0, 60)
_OPEN = 1.0  # by so much log likelihood parameters may differ and still be about as likely
_PRICE = 2.0  # what a heavy tail must win to be believed
_TAILS = (0.25, 0.06)  # shares of the counts that a tail is fitted to: of two modes, the upper one may be as small
_ENOUGH = 15  # counts for a tail that is not the largest
_PRIOR = 4.0
_FEW = 0.02  # more of an instance's inputs than this are its nature, unless its peers have fewer of them
_TRIES = 12  # so many sizes of the group of outliers are tried


def improbable(counts: Any, alpha: float, tests: int, peers: Sequence[Any] = ()) -> Outliers:
    """Outliers among these counts; `tests`: how many times the question is asked in all. `peers`: counts of others that
    should be alike."""
    values = np.asarray(counts, dtype=np.float64)
    screened = repeated_grubbs(values, alpha)
    if not screened.found:
        return NONE_FOUND
    level = math.log(alpha / (2 * max(tests, 1)))
    low, high, score = -math.inf, math.inf, 0.0
    others = np.concatenate([np.asarray(p, dtype=np.float64) for p in peers]) if len(peers) else values[:0]
    if screened.high < math.inf:
        found = _upper(values, screened.high, level, others)
        high, score = (found[0], found[1]) if found else (high, score)
    if screened.low > -math.inf:
        found = _upper(-values, -screened.low, level, -others)
        low, score = (-found[0], max(score, found[1])) if found else (low, score)
    return Outliers(low, high, score) if score > 0 else NONE_FOUND


def _upper(values: Floats, screened: float, level: float, others: Floats) -> tuple[float, float] | None:
    """From which value on counts are improbable, and how much so: times the critical value, in logarithms."""
    distinct, weight = np.unique(values, return_counts=True)
    above = np.cumsum(weight[::-1])[::-1]  # how many counts are at least so large
    few = max(2.0, _FEW * len(values))

    def possible(i: int) -> bool:
        return bool(above[i] <= few) or rarer_there(
            int(above[i]), len(values), int((others >= distinct[i]).sum()), len(others), level
        )

    candidates = [i for i in range(len(distinct) - 1, 0, -1) if distinct[i] >= screened and 5 * above[i] <= len(values)]
    candidates = [i for i in candidates if possible(i)]
    if len(candidates) > _TRIES:
        candidates = [candidates[n] for n in np.unique(np.geomspace(1, len(candidates), _TRIES).astype(int) - 1)]
    best: tuple[float, float] | None = None
    every, times = np.unique(np.concatenate([values, others]), return_counts=True)
    level -= math.log(max(1, len(candidates) * len(_TAILS)))
    for i in candidates:
        at = int(np.searchsorted(every, distinct[i]))
        strange = min(_log_probability(every, times, at, share) for share in _TAILS)
        if strange < level:
            best = float(distinct[i]), max(strange / level, best[1] if best else 0.0)
    return best


def rarer_there(here: int, total: int, there: int, others: int, level: float) -> bool:
    """Whether so many of all counts here would be strange at the rate that the peers have."""
    return others > 0 and _bound((there + 1) / (others + 2) * total, here) < level


def _bound(expected: float, seen: int) -> float:
    """A bound on the log probability of seeing so many."""
    if expected >= seen:
        return 0.0
    log = math.log(max(expected, 1e-300))
    return min(seen * (1.0 + log - math.log(seen)) - expected, seen * log - math.lgamma(seen + 1))


def _log_probability(distinct: Floats, weight: Any, at: int, share: float) -> float:
    """A bound on the log probability that so many of all counts reach this value, judged by the tail of those below."""
    below, suspects = np.cumsum(weight[:at]), int(weight[at:].sum())
    threshold = min(int(np.searchsorted(below, (1 - share) * below[-1])), at - 1)
    beyond = slice(threshold + 1, at)
    over, times = distinct[beyond] - distinct[threshold], weight[beyond].astype(np.float64)
    if share < max(_TAILS) and times.sum() < _ENOUGH:
        return 0.0
    tail = _Tail.fitted(over, times, float(over[-1]) + 1 if len(over) else 1.0, suspects)
    further = math.exp(tail.log_share(float(distinct[at] - distinct[threshold])))
    return _bound((times.sum() + suspects) * further, suspects)


@dataclass(frozen=True)
class _Tail:
    """Parameters that are about as likely; shape 0 is the exponential tail."""

    shapes: Floats
    scales: Floats

    @classmethod
    def fitted(cls, over: Floats, times: Floats, censored_at: float, censored: int) -> _Tail:
        # A few counts of one step more: where all counts are equal, a tail is still not known to be infinitely thin.
        over, times = np.append(over, 1.0), np.append(times, _PRIOR)
        mean = float(over @ times / times.sum())
        shapes, scales = (m.ravel() for m in np.meshgrid(_SHAPES, _SCALES * mean, indexing="ij"))
        within = -np.expm1(_log_share(over[None, :] + 1, shapes, scales) - _log_share(over[None, :], shapes, scales))
        each = _log_share(over[None, :], shapes, scales) + np.log(np.maximum(within, 1e-300))
        likely = each @ times + censored * _log_share(np.array([[censored_at]]), shapes, scales)[:, 0]
        plain = shapes == 0.0
        if likely.max() - likely[plain].max() <= _PRICE:
            shapes, scales, likely = shapes[plain], scales[plain], likely[plain]
        kept = likely >= likely.max() - _OPEN
        return cls(shapes[kept], scales[kept])

    def log_share(self, over: float) -> float:
        """Of the tail, the share that is at least this far beyond the threshold, in logarithms."""
        return float(_log_share(np.array([[over]]), self.shapes, self.scales).max())


def _log_share(over: Floats, shapes: Floats, scales: Floats) -> Floats:
    steps = (over - 1.0) / scales[:, None]
    shape = shapes[:, None]
    heavy = -np.log1p(shape * steps) / np.where(shape > 0, shape, 1.0)
    return np.asarray(np.where(shape > 0, heavy, -steps), dtype=np.float64)
