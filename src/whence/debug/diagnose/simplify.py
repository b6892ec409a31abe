"""Shorter explanations (section 3.3): Quine-McCluskey over conditions with more than two values.

A conjunction is a box (a set of values per parameter). Two boxes that overlap in all parameters but one have a
consensus: their common part, with the union of values in that one. Adding consensus boxes and dropping those inside
of others until nothing changes gives the prime implicants; a small subset of them that covers all of the given boxes
is the answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from whence.debug.diagnose.causes import Box

Wide = tuple[frozenset[int], ...]

_PIECES = 2_000


def _wide(box: Box, sizes: Sequence[int]) -> Wide:
    given = dict(box)
    return tuple(given.get(p, frozenset(range(size))) for p, size in enumerate(sizes))


def _box(wide: Wide, sizes: Sequence[int]) -> Box:
    return tuple((p, values) for p, values in enumerate(wide) if len(values) < sizes[p])


def _within(a: Wide, b: Wide) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))


def _consensus(a: Wide, b: Wide) -> list[Wide]:
    common = [x & y for x, y in zip(a, b, strict=True)]
    empty = [p for p, c in enumerate(common) if not c]
    if len(empty) > 1:
        return []
    places = empty or [p for p in range(len(a)) if a[p] != b[p]]
    return [(*common[:p], a[p] | b[p], *common[p + 1 :]) for p in places]


def primes(boxes: Sequence[Box], sizes: Sequence[int], most: int = 400) -> list[Box]:
    """The prime implicants; with more than `most` boxes on the way the search stops, and what is found still holds."""
    found: list[Wide] = []
    queue = [_wide(b, sizes) for b in boxes]
    while queue:
        new = queue.pop()
        if any(_within(new, old) for old in found):
            continue
        found = [old for old in found if not _within(old, new)]
        if len(found) < most:
            queue.extend(c for old in found for c in _consensus(new, old) if not _within(c, old))
        found.append(new)
    return [_box(w, sizes) for w in found]


def simplify(boxes: Sequence[Box], sizes: Sequence[int]) -> list[Box]:
    """Few, short conjunctions that together say the same as the given ones."""
    if not boxes:
        return []
    candidates = sorted(primes(boxes, sizes), key=len)
    # Dropping one by one from all primes may leave more of them than were given; one prime for each never does.
    wides = [_wide(b, sizes) for b in boxes]
    widened = [next(c for c in candidates if _within(w, _wide(c, sizes))) for w in wides]
    choices = [_needed(candidates, sizes), _needed(list(dict.fromkeys(widened)), sizes)]
    return min(choices, key=lambda some: (len(some), sum(map(len, some))))


def _needed(candidates: list[Box], sizes: Sequence[int]) -> list[Box]:
    chosen = list(candidates)
    for box in sorted(candidates, key=lambda b: -len(b)):  # the longest are the first to go
        rest = [c for c in chosen if c != box]
        if rest and _covered(_wide(box, sizes), [_wide(c, sizes) for c in rest], itertools.count()):
            chosen = rest
    return chosen


def _covered(box: Wide, others: Sequence[Wide], steps: Iterator[int]) -> bool:
    """Is every point of the box in one of the others? Cut off what the first one covers, look at the pieces. Boxes in
    many parameters can be cut very often: after too many pieces the box counts as not covered, and stays."""
    if next(steps) > _PIECES:
        return False
    others = [o for o in others if all(x & y for x, y in zip(box, o, strict=True))]
    if not others:
        return False
    first, rest = others[0], others[1:]
    left = box
    for p in range(len(box)):
        outside = left[p] - first[p]
        if outside and not _covered((*left[:p], outside, *left[p + 1 :]), rest, steps):
            return False
        left = (*left[:p], left[p] & first[p], *left[p + 1 :])
    return True


def count(boxes: Sequence[Box], sizes: Sequence[int]) -> int:
    """Configurations covered, by looking at each of them; for small spaces and tests."""
    wides = [_wide(b, sizes) for b in boxes]
    return sum(
        any(all(c in w[p] for p, c in enumerate(codes)) for w in wides)
        for codes in itertools.product(*(range(s) for s in sizes))
    )
