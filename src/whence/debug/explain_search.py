"""Which few conditions set bad rows apart from good ones: the search, on coded rows in numpy.

A column is coded into few bins; code 0 is null. A rule is one set of codes per column; the search goes level by level
(one condition more each time, the most promising rules kept), as SliceLine does, but asks for conjunctions that single
out *bad* rows rather than for large slices, and takes as many rules as the bad rows need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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


def _sets(size: int, ordinal: bool, usable: Bools) -> Bools:
    """Every set of codes that one condition can pick: [set, code]."""
    codes = np.arange(size)
    rows = [codes == v for v in codes if usable[v]] + [codes != v for v in codes if usable[v]]
    if ordinal:  # null (code 0) is in no range
        rows += [(codes >= 1) & (codes < t) for t in range(2, size)] + [codes >= t for t in range(2, size)]
    if not rows:
        return np.zeros((0, size), dtype=bool)
    return np.unique(np.array(rows), axis=0)


def candidates(data: Coded, strictness: float, depth: int, keep: int = 20) -> list[Rule]:
    """The best rules for the rows given, best first."""
    bad_rows, good_rows = np.flatnonzero(data.bad), np.flatnonzero(~data.bad)
    if not len(bad_rows):
        return []
    sets = [_sets(s, o, u) for s, o, u in zip(data.sizes, data.ordinal, data.usable, strict=True)]
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
                g = choices @ np.bincount(data.codes[good_in, column], minlength=size) / max(1, len(good_rows))
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


def rules(data: Coded, depth: int, most: int, enough: float) -> list[Rule]:
    """A small set of rules that together hold the bad rows (a share `enough` of them) and few good ones."""
    chosen: list[Rule] = []
    masks: list[Bools] = []
    for strictness in STRICTNESS:
        left = data.bad.copy()
        while len(chosen) < most and left.sum() > (1 - enough) * data.bad.sum():
            rule = next_rule(data, left, strictness, depth)
            if rule is None:
                break
            chosen.append(rule)
            masks.append(rule.mask(data.codes))
            left &= ~masks[-1]
        if chosen:
            break
    return [chosen[i] for i in needed(masks, data.bad, [len(r.conditions) for r in chosen])]


def next_rule(data: Coded, left: Bools, strictness: float, depth: int) -> Rule | None:
    """The best rule for the bad rows that are left, without conditions that it does not need."""
    rows = left | ~data.bad
    part = Coded(data.codes[rows], data.bad[rows], data.sizes, data.ordinal, data.usable)
    found = candidates(part, strictness, depth, keep=1)
    if not found:
        return None
    rule = shortened(found[0], part)
    return rule if (rule.mask(data.codes) & left).sum() >= max(1, 0.01 * data.bad.sum()) else None


def shortened(rule: Rule, data: Coded) -> Rule:
    inside = rule.mask(data.codes)
    good, bad = int((inside & ~data.bad).sum()), int((inside & data.bad).sum())
    for i in range(len(rule.conditions)):
        less = Rule(rule.conditions[:i] + rule.conditions[i + 1 :])
        without = less.mask(data.codes)
        if less.conditions and (without & ~data.bad).sum() <= good and (without & data.bad).sum() >= bad:
            return shortened(less, data)
    return rule


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
