"""Synthetic pipelines with known causes, after section 4 of the BugDoc paper, and how an answer is scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from whence.debug.diagnose.causes import Box, Condition, box_of
from whence.debug.diagnose.space import Codes, Config, Space

KINDS = ("single", "disjunction", "conjunction", "dnf")


@dataclass(frozen=True)
class Case:
    name: str
    space: Space
    truth: tuple[Box, ...]
    seed: int
    forbidden: tuple[Box, ...] = ()  # configurations that may not be run
    noise: float = 0.0
    texts: tuple[str, ...] = field(default=(), compare=False)

    def fails(self, codes: Sequence[int]) -> bool:
        return any(inside(box, codes) for box in self.truth)

    def valid(self, config: Config) -> bool:
        codes = self.space.encode(config)
        return not any(inside(box, codes) for box in self.forbidden)

    def allowed(self, codes: Sequence[int]) -> bool:
        return not any(inside(box, codes) for box in self.forbidden)


def inside(box: Box, codes: Sequence[int]) -> bool:
    return all(codes[p] in values for p, values in box)


def covered(box: Box, others: Sequence[Box], sizes: Sequence[int]) -> bool:
    """Is every configuration of `box` in one of `others`? Exact: cut the box along the first of them, recurse."""
    if not others:
        return False
    first, rest = others[0], others[1:]
    mine = dict(box)
    for p, values in first:
        here = mine.get(p, frozenset(range(sizes[p])))
        if not here & values:
            return covered(box, rest, sizes)
    left = dict(mine)
    for p, values in first:
        here = left.get(p, frozenset(range(sizes[p])))
        outside = here - values
        if outside and not covered(tuple(sorted({**left, p: outside}.items())), rest, sizes):
            return False
        left[p] = here & values
    return True


def _condition(rng: np.random.Generator, space: Space, p: int) -> Condition:
    parameter = space.parameters[p]
    size = len(parameter.values)
    ops = ["==", "!=", "<", "<=", ">", ">="] if parameter.ordinal else ["==", "!="]
    op = str(rng.choice(ops))
    low = 1 if op in ("<", ">=") else 0
    high = size - 1 if op in ("<=", ">") else size
    return Condition(parameter.name, op, parameter.values[int(rng.integers(low, high))])


def make_space(rng: np.random.Generator, count: int, values: tuple[int, int] = (5, 40)) -> Space:
    lists: dict[str, list[object]] = {}
    for i in range(count):
        size = int(rng.integers(values[0], values[1] + 1))
        if rng.random() < 0.5:
            start, step = int(rng.integers(-20, 20)), float(rng.choice([0.5, 1, 2, 10]))
            lists[f"p{i}"] = [start + step * j for j in range(size)]
        else:
            lists[f"p{i}"] = [f"p{i}v{j}" for j in range(size)]
    return Space.of(lists)


def _sizes(rng: np.random.Generator, kind: str, count: int) -> list[int]:
    if kind == "single":
        return [1]
    if kind == "disjunction":
        return [1] * int(rng.integers(2, 4))
    if kind == "conjunction":
        return [min(count, int(rng.choice([2, 3, 4], p=[0.45, 0.4, 0.15])))]
    while True:
        sizes = [min(count, int(rng.choice([1, 2, 3], p=[0.2, 0.5, 0.3]))) for _ in range(int(rng.integers(2, 4)))]
        if max(sizes) > 1:
            return sizes


def make_case(
    kind: str,
    seed: int,
    *,
    parameters: int | None = None,
    values: tuple[int, int] = (5, 40),
    noise: float = 0.0,
    rules: int = 0,
) -> Case:
    rng = np.random.default_rng([KINDS.index(kind), seed])
    while True:
        count = parameters or int(rng.integers(3, 16))
        space = make_space(rng, count, values)
        causes = [
            [_condition(rng, space, int(p)) for p in rng.choice(count, size=size, replace=False)]
            for size in _sizes(rng, kind, count)
        ]
        truth = tuple(box_of(c, space) for c in causes)
        forbidden: tuple[Box, ...] = ()
        if rules:
            forbidden = tuple(
                box_of([_condition(rng, space, int(p)) for p in rng.choice(count, size=2, replace=False)], space)
                for _ in range(rules)
            )
        if _is_canonical(truth, space) and _leaves_room(truth, forbidden, space, rng):
            texts = tuple(" and ".join(map(str, c)) for c in causes)
            return Case(f"{kind}-{seed}", space, truth, seed, forbidden, noise, texts)


def _is_canonical(truth: tuple[Box, ...], space: Space) -> bool:
    """Every cause is minimal (no condition can go, nor be widened by a value) and no two are one cause."""
    sizes = space.sizes
    for box in truth:
        for p, values in box:
            for v in set(range(sizes[p])) - values:
                wider = tuple((q, values | {v}) if q == p else (q, inner) for q, inner in box)
                if covered(wider, truth, sizes):
                    return False
        if covered(box, [other for other in truth if other is not box], sizes):
            return False
    return len(set(truth)) == len(truth)


def _leaves_room(truth: tuple[Box, ...], forbidden: tuple[Box, ...], space: Space, rng: np.random.Generator) -> bool:
    if not forbidden:
        return not covered((), truth, space.sizes)
    case = Case("", space, truth, 0, forbidden)
    drawn = [tuple(int(rng.integers(s)) for s in space.sizes) for _ in range(300)]
    if sum(case.allowed(c) for c in drawn) < 90:
        return False
    for box in truth:  # the cause must be told from its neighbours by runs that may be made
        for p, values in box:
            for v in set(range(space.sizes[p])) - values:
                ring = tuple((q, frozenset({v})) if q == p else (q, inner) for q, inner in box)
                if covered(ring, truth + forbidden, space.sizes):
                    return False
            for v in values:
                face = tuple((q, frozenset({v})) if q == p else (q, inner) for q, inner in box)
                if covered(face, forbidden, space.sizes):
                    return False
    return True


def draw(case: Case, rng: np.random.Generator, wanted: Callable[[Codes], bool], within: Box = ()) -> Codes | None:
    sizes = np.array(case.space.sizes)
    for _ in range(200):
        block = (rng.random((1000, len(sizes))) * sizes).astype(int)
        for p, values in within:
            block[:, p] = rng.choice(sorted(values), size=1000)
        for i in range(1000):
            codes = tuple(int(c) for c in block[i])
            if wanted(codes) and case.allowed(codes):
                return codes
    return None


def history(case: Case, how: str, rng: np.random.Generator) -> list[tuple[Codes, bool]]:
    """ "each": one failing run for each true cause (the bugs already uncovered) and three succeeding ones;
    "one": one failing run and one succeeding run; "none": nothing."""
    if how == "none":
        return []
    runs: list[tuple[Codes, bool]] = []
    boxes = case.truth if how == "each" else [case.truth[int(rng.integers(len(case.truth)))]]
    for box in boxes:
        others = [o for o in case.truth if o is not box]
        codes = draw(case, rng, lambda c, o=others: not any(inside(x, c) for x in o), box)  # type: ignore[misc]
        assert codes is not None
        runs.append((codes, False))
    for _ in range(3 if how == "each" else 1):
        codes = draw_passing(case, rng)
        if codes is not None:
            runs.append((codes, True))
    return runs


def draw_passing(case: Case, rng: np.random.Generator) -> Codes | None:
    for _ in range(5000):
        codes = [int(rng.integers(s)) for s in case.space.sizes]
        for box in case.truth:
            if inside(box, codes):  # step out of it through one condition
                p, values = box[int(rng.integers(len(box)))]
                codes[p] = int(rng.choice(sorted(set(range(case.space.sizes[p])) - values)))
        if not case.fails(codes) and case.allowed(codes):
            return tuple(codes)
    return None


def same(a: Box, b: Box, case: Case) -> bool:
    if a == b:
        return True
    if not case.forbidden:
        return False
    sizes = case.space.sizes
    return covered(a, (b, *case.forbidden), sizes) and covered(b, (a, *case.forbidden), sizes)


def score(reported: Iterable[Box], case: Case) -> tuple[int, int, int]:
    """(right, reported, true)."""
    boxes = set(reported)
    right = sum(any(same(box, t, case) for t in case.truth) for box in boxes)
    return right, len(boxes), len(case.truth)


def polygamy(seed: int) -> Case:
    """Section 4.5: seven parameters (table 3) and the four root causes found there, R.1 to R.4."""
    rng = np.random.default_rng([99, seed])
    step = int(rng.choice([5, 10]))
    space = Space.of(
        {
            "Diff": list(range(-10 * step, 100 + 10 * step, step))[:40],
            "Percentage": list(range(-50, 110, 5)),
            "Varying Size": [True, False],
            "Time Resolution": ["daily", "weekly", "monthly", "random"],
            "Permutations": [10, 50, 100, 500, 1000],
            "Complete": [True, False],
            "Sync": [True, False],
        }
    )
    # By definition 5 the condition Percentage >= 0 of R.3 and R.4 is not minimal: below 0 the run fails by R.1.
    causes = [[("Percentage", "<", 0)], [("Percentage", ">", 50)], [("Diff", "<", 0)], [("Diff", ">", 100)]]
    return Case(f"polygamy-{seed}", space, tuple(box_of(c, space) for c in causes), seed)
