"""The minimal pairs algorithm (section 3.1): single parameter-value pairs that fail with whatever they are combined."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from whence.debug.diagnose.space import Codes, Space

Pair = tuple[int, int]  # parameter, code
Coded = tuple[Codes, bool]  # codes, succeeded


@dataclass(frozen=True)
class Lists:
    """Algorithm 1."""

    good: frozenset[Pair]
    bad: frozenset[Pair]

    @classmethod
    def of(cls, runs: Iterable[Coded]) -> Lists:
        good: set[Pair] = set()
        bad: set[Pair] = set()
        for codes, succeeded in runs:
            (good if succeeded else bad).update(enumerate(codes))
        return cls(frozenset(good), frozenset(bad))

    @property
    def pure_good(self) -> frozenset[Pair]:
        return self.good - self.bad

    @property
    def pure_bad(self) -> frozenset[Pair]:
        return self.bad - self.good

    @property
    def mixed(self) -> frozenset[Pair]:
        return self.good & self.bad


@dataclass(frozen=True)
class Pairs:
    definitive: tuple[Pair, ...]  # every combination was tried
    suspects: tuple[Pair, ...]  # not refuted when the budget ended
    runs: tuple[Coded, ...]


def minimal_pairs(
    run: Callable[[Codes], bool],
    space: Space,
    history: Iterable[Coded],
    budget: int,
    *,
    seed: int | None = None,
    tries: int | None = None,
) -> Pairs:
    """`run` says whether a configuration succeeds. `tries`: runs per suspect before it is believed (None: all of them,
    which is the only safe way)."""
    rng = np.random.default_rng(seed)
    runs = list(history)
    known = dict(runs)
    lists = Lists.of(runs)
    # Heuristic 2: the parameter with the most values first, since the fewest combinations are left beside it.
    suspects = sorted(lists.pure_bad, key=lambda pair: (-space.sizes[pair[0]], pair))
    definitive: list[Pair] = []
    open_: list[Pair] = []
    for pair in suspects:
        refuted, spent = any(c[pair[0]] == pair[1] and ok for c, ok in runs), 0
        exhausted = True
        for codes in () if refuted else _combinations(pair, space, Lists.of(runs), rng):
            if codes not in known:
                if budget <= 0 or (tries is not None and spent >= tries):
                    exhausted = tries is not None and spent >= tries
                    break
                budget, spent = budget - 1, spent + 1
                known[codes] = run(codes)
                runs.append((codes, known[codes]))
            if known[codes]:
                refuted = True
                break
        if not refuted:
            (definitive if exhausted else open_).append(pair)
    return Pairs(tuple(definitive), tuple(open_), tuple(runs))


def _combinations(pair: Pair, space: Space, lists: Lists, rng: np.random.Generator) -> Iterator[Codes]:
    """Heuristic 1: values that only succeeded come first, then mixed ones, then the rest."""

    def rank(p: int, v: int) -> int:
        return 0 if (p, v) in lists.pure_good else 1 if (p, v) in lists.mixed else 2

    columns = []
    for p, size in enumerate(space.sizes):
        values = [pair[1]] if p == pair[0] else sorted(range(size), key=lambda v, p=p: (rank(p, v), rng.random()))  # type: ignore[misc]
        columns.append(values)
    widest = max(len(c) for c in columns)
    seen: set[Codes] = set()
    for i in range(widest):  # first change everything at once: the quickest way to a refutation
        codes = tuple(c[min(i, len(c) - 1)] for c in columns)
        if codes not in seen:
            seen.add(codes)
            yield codes
    for codes in itertools.product(*columns):
        if codes not in seen:
            yield codes
