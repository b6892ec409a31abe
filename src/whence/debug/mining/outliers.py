"""Grubbs' test, repeated: the generalised form (Rosner's ESD) finds several outliers that would mask each other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function (Lentz's method)."""
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    result = d
    for m in range(1, 300):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + numerator / c
            c = c if abs(c) > tiny else tiny
            result *= c * d
        if abs(c * d - 1.0) < 1e-12:
            break
    return result


def _log_tail(t: float, freedom: float) -> float:
    """log P(T > t) of Student's distribution, for t > 0."""
    x = freedom / (freedom + t * t)
    a, b = freedom / 2.0, 0.5
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1.0) / (a + b + 2.0):
        log_inc = log_front + math.log(_beta_fraction(a, b, x) / a)
    else:
        log_inc = math.log(max(1.0 - math.exp(log_front) * _beta_fraction(b, a, 1.0 - x) / b, 1e-300))
    return log_inc - math.log(2.0)


@lru_cache(maxsize=100_000)
def student_quantile(tail: float, freedom: float) -> float:
    """t with P(T > t) = tail < 1/2."""
    wanted, low, high = math.log(tail), 0.0, 1.0
    while _log_tail(high, freedom) > wanted:
        high *= 2.0
    for _ in range(80):
        middle = (low + high) / 2.0
        if _log_tail(middle, freedom) > wanted:
            low = middle
        else:
            high = middle
    return high


def grubbs_critical(n: int, alpha: float = 0.05) -> float:
    """How many standard deviations the most extreme of n values may lie from their mean."""
    if n < 3:
        return math.inf
    n_rounded = n if n < 2000 else int(float(f"{n:.3g}"))  # the critical value moves slowly; the cache stays small
    t = student_quantile(alpha / (2.0 * n_rounded), n_rounded - 2.0)
    return (n - 1) / math.sqrt(n) * math.sqrt(t * t / (n - 2.0 + t * t))


@dataclass(frozen=True)
class Outliers:
    """values <= low or >= high are outliers; score: how far the most extreme one passes the critical value."""

    low: float
    high: float
    score: float

    @property
    def found(self) -> bool:
        return self.score > 0


NONE_FOUND = Outliers(-math.inf, math.inf, 0.0)


def repeated_grubbs(values: Any, alpha: float = 0.05, most: int = 500) -> Outliers:
    """Outliers among many values, at most a fifth of them. Equal values cost nothing: they are counted first."""
    import numpy as np

    values = np.asarray(values, dtype=np.float64)
    n = len(values)
    if n < 3:
        return NONE_FOUND
    distinct, weight = np.unique(values, return_counts=True)
    if len(distinct) == 1:
        return NONE_FOUND
    shift = float(distinct[len(distinct) // 2])
    shifted = distinct - shift
    total, squares, left = float(shifted @ weight), float((shifted**2) @ weight), n
    low, high = 0, len(distinct) - 1
    weight = weight.copy()
    best, best_cut = 0.0, (-1, len(distinct))
    for _ in range(min(max(1, n // 5), most)):
        if left < 3 or low >= high:
            break
        mean = total / left
        deviation = math.sqrt(max(squares - left * mean * mean, 0.0) / (left - 1))
        if deviation <= 1e-12 * (abs(mean + shift) + 1.0):
            break
        upper = shifted[high] - mean >= mean - shifted[low]
        extreme = float(shifted[high] if upper else shifted[low])
        strength = abs(extreme - mean) / deviation / grubbs_critical(left, alpha)
        at = high if upper else low
        weight[at] -= 1
        total, squares, left = total - extreme, squares - extreme * extreme, left - 1
        if weight[at] == 0:
            low, high = (low, high - 1) if upper else (low + 1, high)
        if strength > 1.0:  # ESD: everything removed so far is an outlier, whatever the tests in between said
            best = max(best, strength)
            best_cut = (low - 1 if weight[low] else low, high + 1 if weight[high] else high)
            if weight[at] > 0:
                best_cut = (best_cut[0], at) if upper else (at, best_cut[1])
    if best <= 0.0:
        return NONE_FOUND
    below = float(distinct[best_cut[0]]) if best_cut[0] >= 0 else -math.inf
    above = float(distinct[best_cut[1]]) if best_cut[1] < len(distinct) else math.inf
    return Outliers(below, above, best)
