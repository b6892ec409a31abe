"""Exact search over conjunctions: the most plausible terms that hold one failing run and no succeeding one.

A term must shut out every succeeding run. Take one that is still let in: some condition of the term has to shut it
out, so branch over those (a hitting-set tree). The cost of a term (the negative log of its plausibility) only grows
with conditions, so a branch dearer than what is already found is cut. Unlike a decision tree it never commits to a
first split.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whence.debug.diagnose.shapes import Shapes
from whence.debug.diagnose.space import Codes


@dataclass(frozen=True)
class Term:
    cost: float
    shape: tuple[int, ...]  # one shape per parameter, 0 where the parameter does not matter

    def holds(self, codes: Sequence[int], shapes: Sequence[Shapes]) -> bool:
        return all(not s or shapes[p].members[s, codes[p]] for p, s in enumerate(self.shape))


def _choices(shapes: Shapes, value: int, passed: Sequence[int]) -> list[tuple[float, int, int]]:
    """(cost, shut out runs as bits, shape) of shapes that hold the value; of equal effect only the cheapest."""
    column = np.array(passed, dtype=np.int64)
    best: dict[int, tuple[float, int, int]] = {}
    cost = shapes.log_prior[0] - shapes.log_prior
    for s in np.flatnonzero(shapes.members[:, value]):
        if s == 0:
            continue
        out = ~shapes.members[s, column]
        if not out.any():
            continue
        bits = int.from_bytes(np.packbits(out, bitorder="little").tobytes(), "little")
        if bits not in best or cost[s] < best[bits][0]:
            best[bits] = (float(cost[s]), bits, int(s))
    return sorted(best.values())


def terms_for(
    shapes: Sequence[Shapes], failing: Codes, passed: Sequence[Codes], *, keep: int = 30, steps: int = 20_000
) -> list[Term]:
    """The `keep` cheapest terms, cheapest first. Exact unless more than `steps` branches had to be looked at."""
    n = len(shapes)
    choices = [_choices(shapes[p], failing[p], [g[p] for g in passed]) for p in range(n)]
    order = itertools.count()
    queue: list[tuple[float, int, int, tuple[int, ...]]] = [(0.0, next(order), (1 << len(passed)) - 1, (0,) * n)]
    found: list[Term] = []
    seen: set[tuple[int, ...]] = set()
    finished: list[
        float
    ] = []  # the `keep` lowest costs of whole terms in the queue, negated: dearer ones need no place
    while queue and len(found) < keep and steps > 0:
        cost, _, left, shape = heapq.heappop(queue)
        steps -= 1
        if not left:
            found.append(Term(cost, shape))
            continue
        lowest = left & -left
        for p in range(n):
            if shape[p]:
                continue
            for price, bits, s in choices[p]:
                if len(finished) == keep and cost + price >= -finished[0]:
                    break  # the choices are sorted by price
                if not bits & lowest:
                    continue
                grown = (*shape[:p], s, *shape[p + 1 :])
                if grown in seen:
                    continue
                seen.add(grown)
                rest = left & ~bits
                if not rest:
                    heapq.heappush(finished, -cost - price)
                    if len(finished) > keep:
                        heapq.heappop(finished)
                heapq.heappush(queue, (cost + price, next(order), rest, grown))
    return found


def held(terms: Sequence[Term], runs: Sequence[Codes], shapes: Sequence[Shapes]) -> npt.NDArray[np.bool_]:
    """[term, run]: does the term hold the run."""
    found = np.ones((len(terms), len(runs)), dtype=bool)
    if not len(terms) or not len(runs):
        return found
    drawn, codes = np.array([t.shape for t in terms]), np.array(runs)
    for p, s in enumerate(shapes):
        found &= s.members[drawn[:, p]][:, codes[:, p]]
    return found


def cover(terms: Sequence[Term], failing: Sequence[Codes], shapes: Sequence[Shapes], extra: float) -> list[Term]:
    """A cheap set of terms that together hold every failing run: greedy by cost per run, then without the redundant."""
    holds = held(terms, failing, shapes)
    cost = np.array([t.cost + extra for t in terms])
    left, chosen = np.ones(len(failing), dtype=bool), list[int]()
    while left.any() and len(terms):
        gains = (holds & left).sum(axis=1)
        if not gains.any():
            break
        best = int(np.argmin(np.where(gains > 0, cost / np.maximum(gains, 1), np.inf)))
        chosen.append(best)
        left &= ~holds[best]
    for c in sorted(chosen, key=lambda c: -terms[c].cost):
        rest = [o for o in chosen if o != c]
        if rest and not (holds[c] & ~holds[rest].any(axis=0)).any():
            chosen = rest
    return [terms[c] for c in chosen]


def explain(
    shapes: Sequence[Shapes], failing: Sequence[Codes], passed: Sequence[Codes], extra: float, most: int | None = None
) -> list[Term]:
    """The most plausible disjunction of conjunctions that agrees with all of the runs; with `most`, none at all when it
    would plainly need more terms than that."""
    pool: dict[tuple[int, ...], Term] = {}
    everything = list(dict.fromkeys(failing))
    left = everything
    seeds = 0
    while left:
        if most is not None and seeds == 2 * most:
            return []
        seeds += 1
        new = terms_for(shapes, left[0], passed, keep=300)
        pool.update((term.shape, term) for term in new)
        if not new:
            break
        hit = set(np.flatnonzero(held(new, left, shapes).any(axis=0)).tolist())
        left = [f for i, f in enumerate(left) if i not in hit]
    return cover(list(pool.values()), everything, shapes, extra)
