"""Which few conditions set bad rows apart from good ones: the search, on coded rows in numpy.

A column is coded into few bins; code 0 is null. A rule is one set of codes per column; the search goes level by level
(one condition more each time, the most promising rules kept), as SliceLine does, but asks for conjunctions that single
out *bad* rows rather than for large slices, and takes as many rules as the bad rows need. A condition stays only when
the rows that it alone shuts out are less often bad by more than chance: the likelihood that it wins must pay for having
been picked among all conditions there are (minimum description length). So noise adds no conditions and no rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]

_BEAM = 60
_PER_CONDITION = 0.01  # what a further condition must win, as a share of the bad rows
STRICTNESS = (20.0, 5.0, 1.5)  # what letting in a share of the good rows costs, beside the same share of the bad


@dataclass(frozen=True)
class Coded:
    """`codes[row, column]`; `sizes`: codes per column; `ordinal`: may ranges be formed; `usable`: codes that can be
    named in a condition (a string column's rare values share one code that cannot)."""

    codes: Codes
    bad: Bools
    sizes: tuple[int, ...]
    ordinal: tuple[bool, ...]
    usable: tuple[Bools, ...]
    weight: Floats | None = None  # of good rows that stand for more or fewer than themselves
    coarse: tuple[bool, ...] = ()  # columns whose codes are ranges of values: "all but one" has no words there

    def counts(self, rows: Bools) -> tuple[float, float]:
        """Bad and good rows among these."""
        good = rows & ~self.bad
        return float((rows & self.bad).sum()), float(good.sum() if self.weight is None else self.weight[good].sum())

    def among(self, rows: Bools) -> Coded:
        weight = None if self.weight is None else self.weight[rows]
        return Coded(self.codes[rows], self.bad[rows], self.sizes, self.ordinal, self.usable, weight, self.coarse)

    def sets(self, column: int) -> Bools:
        coarse = bool(self.coarse) and self.coarse[column]
        return _sets(self.sizes[column], self.ordinal[column], self.usable[column], coarse)

    def price(self, columns: Sequence[int]) -> float:
        """What picking one condition on each of these columns costs, in nats."""
        return sum(math.log(max(1, len(self.sets(c)) * len(self.sizes))) for c in columns)


def gain(bad_in: float, good_in: float, bad_out: float, good_out: float) -> float:
    """By how much (log likelihood) two groups of rows are better told apart than taken for one."""

    def likelihood(bad: float, good: float) -> float:
        return sum(n * math.log(n / (bad + good)) for n in (bad, good) if n > 0)

    return (
        likelihood(bad_in, good_in) + likelihood(bad_out, good_out) - likelihood(bad_in + bad_out, good_in + good_out)
    )


def tells_apart(bad_in: float, good_in: float, bad_out: float, good_out: float, price: float) -> bool:
    """Is a condition worth its price, which lets in the first group and shuts out the second?"""
    return bad_in * good_out > bad_out * good_in and gain(bad_in, good_in, bad_out, good_out) >= price


@dataclass(frozen=True)
class Rule:
    conditions: tuple[tuple[int, frozenset[int]], ...]  # column, codes let in

    def mask(self, codes: Codes) -> Bools:
        inside = np.ones(len(codes), dtype=bool)
        for column, allowed in self.conditions:
            table = np.zeros(256, dtype=bool)
            table[list(allowed)] = True
            inside &= table[codes[:, column]]
        return inside


def _sets(size: int, ordinal: bool, usable: Bools, coarse: bool) -> Bools:
    """Every set of codes that one condition can pick: [set, code]. Null (code 0) satisfies no comparison."""
    codes = np.arange(size)
    rows = [codes == v for v in codes if usable[v]]
    rows += [(codes != v) & (codes > 0) for v in codes if usable[v] and not (coarse and v)]
    if ordinal:
        rows += [(codes >= 1) & (codes < t) for t in range(2, size)] + [codes >= t for t in range(2, size)]
    if not rows:
        return np.zeros((0, size), dtype=bool)
    return np.unique(np.array(rows), axis=0)


def candidates(data: Coded, strictness: float, depth: int, keep: int = 20) -> list[Rule]:
    """The best rules for the rows given, best first."""
    bad_rows, good_rows = np.flatnonzero(data.bad), np.flatnonzero(~data.bad)
    if not len(bad_rows):
        return []
    weight, all_good = data.weight, max(1.0, data.counts(~data.bad)[1])
    sets = [data.sets(c) for c in range(len(data.sizes))]
    best: dict[Rule, float] = {}
    beam: list[tuple[float, Rule, npt.NDArray[np.int64], npt.NDArray[np.int64]]] = [
        (0.0, Rule(()), bad_rows, good_rows)
    ]
    for level in range(depth):
        grown: dict[Rule, tuple[float, float]] = {}
        for _, rule, bad_in, good_in in beam:
            used = {c for c, _ in rule.conditions}
            for column, choices in enumerate(sets):
                if column in used or not len(choices):
                    continue
                size = data.sizes[column]
                b = choices @ np.bincount(data.codes[bad_in, column], minlength=size) / len(bad_rows)
                heavy = None if weight is None else weight[good_in]
                g = choices @ np.bincount(data.codes[good_in, column], heavy, minlength=size) / all_good
                worth = b - strictness * g - _PER_CONDITION * (level + 1)
                # A parent with some good rows left in can still become clean: rank by what it keeps and what it sheds.
                promise = b - g
                picks = set(np.argsort(-worth)[:3]) | set(np.argsort(-promise)[:3])
                for s in picks:
                    if b[s] < 0.01:
                        continue
                    allowed = frozenset(int(v) for v in np.flatnonzero(choices[s]))
                    made = Rule(tuple(sorted((*rule.conditions, (column, allowed)), key=lambda c: c[0])))
                    grown[made] = (float(worth[s]), float(promise[s]))
        best.update((rule, value) for rule, (value, _) in grown.items())
        ranked = sorted(grown, key=lambda r: -grown[r][1])[: _BEAM // 2]
        ranked += [r for r in sorted(grown, key=lambda r: -grown[r][0])[: _BEAM // 2] if r not in ranked]
        beam = []
        for rule in ranked:
            inside = rule.mask(data.codes)
            beam.append((grown[rule][0], rule, np.flatnonzero(inside & data.bad), np.flatnonzero(inside & ~data.bad)))
    ordered = sorted(best, key=lambda r: (-best[r], len(r.conditions)))
    return [r for r in ordered[:keep] if best[r] > 0]


def rules(data: Coded, depth: int, most: int, enough: float, *, certain: bool = True) -> list[Rule]:
    """A small set of rules that together hold the bad rows (a share `enough` of them) and few good ones; with
    `certain` only such as chance would not give."""
    chosen: list[Rule] = []
    masks: list[Bools] = []
    for strictness in STRICTNESS:
        left = data.bad.copy()
        while len(chosen) < most and left.sum() > (1 - enough) * data.bad.sum():
            rule = next_rule(data, left, strictness, depth, certain=certain)
            if rule is None:
                break
            chosen.append(rule)
            masks.append(rule.mask(data.codes))
            left &= ~masks[-1]
        if chosen:
            break
    return [chosen[i] for i in needed(masks, data.bad, [len(r.conditions) for r in chosen])]


def next_rule(data: Coded, left: Bools, strictness: float, depth: int, *, certain: bool = True) -> Rule | None:
    """The best rule for the bad rows that are left, without conditions that it does not need."""
    part = data.among(left | ~data.bad)
    found = candidates(part, strictness, depth, keep=1)
    if not found:
        return None
    rule = shortened(found[0], part, certain)
    inside = rule.mask(part.codes)
    bad, good = part.counts(inside)
    if bad < max(1, 0.01 * data.bad.sum()):
        return None
    if certain and (good or bad < left.sum()):  # what holds all bad rows and no good one needs no more proof
        bad_out, good_out = part.counts(~inside)
        if not tells_apart(bad, good, bad_out, good_out, part.price([c for c, _ in rule.conditions])):
            return None
    return rule


def shortened(rule: Rule, data: Coded, certain: bool = True) -> Rule:
    """Without conditions that shut out nothing, or rows that are as bad as those inside; the weakest goes first."""
    inside = rule.mask(data.codes)
    bad, good = data.counts(inside)
    worst: tuple[float, Rule] | None = None
    for i, (column, _) in enumerate(rule.conditions):
        less = Rule(rule.conditions[:i] + rule.conditions[i + 1 :])
        if not less.conditions:
            continue
        bad_out, good_out = data.counts(less.mask(data.codes) & ~inside)
        needless = not good_out
        if certain and not needless:
            needless = not tells_apart(bad, good, bad_out, good_out, data.price([column]))
        value = gain(bad, good, bad_out, good_out) if good_out else 0.0
        if needless and (worst is None or value < worst[0]):
            worst = (value, less)
    return rule if worst is None else shortened(worst[1], data, certain)


def needed(masks: Sequence[Bools], bad: Bools, lengths: Sequence[int]) -> list[int]:
    """Which rules stay when those go whose bad rows the others hold; the longest go first."""
    kept = list(range(len(masks)))
    for i in sorted(kept, key=lambda i: -lengths[i]):
        rest = [j for j in kept if j != i]
        if not rest:
            break
        alone = masks[i] & bad & ~np.any([masks[j] for j in rest], axis=0)
        if alone.sum() < max(1, 0.005 * bad.sum()):
            kept = rest
    return kept
