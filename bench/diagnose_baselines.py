"""What diagnose is measured against, on the same pipelines, with the same history and number of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from bench.diagnose_cases import Case
from whence.debug.diagnose.causes import Box
from whence.debug.diagnose.pairs import Coded, minimal_pairs
from whence.debug.diagnose.simplify import simplify
from whence.debug.diagnose.trees import build, debugging_trees, failing_paths
from whence.debug.explain.search import Coded as Rows
from whence.debug.explain.search import rules

Answer = tuple[list[Box], int]
Baseline = Callable[[Case, Sequence[Coded], int, Sequence[Coded]], Answer]


def _run(case: Case) -> Callable[[tuple[int, ...]], bool]:
    return lambda codes: not case.fails(codes)


def debugging_tree(case: Case, begin: Sequence[Coded], budget: int, made: Sequence[Coded]) -> Answer:
    """BugDoc's own order: minimal pairs first, debugging decision trees when they find nothing."""
    pairs = minimal_pairs(_run(case), case.space, begin, (budget - len(begin)) // 2, seed=case.seed, tries=10)
    if pairs.definitive:
        return [((p, frozenset([v])),) for p, v in pairs.definitive], len(pairs.runs)
    found = debugging_trees(_run(case), case.space, pairs.runs, budget - len(pairs.runs), seed=case.seed)
    return list(found.causes), len(found.runs)


def pairs_alone(case: Case, begin: Sequence[Coded], budget: int, made: Sequence[Coded]) -> Answer:
    found = minimal_pairs(_run(case), case.space, begin, budget - len(begin), seed=case.seed, tries=10)
    return [((p, frozenset([v])),) for p, v in (*found.definitive, *found.suspects)], len(found.runs)


def random_and_tree(case: Case, begin: Sequence[Coded], budget: int, made: Sequence[Coded]) -> Answer:
    rng = np.random.default_rng(case.seed)
    runs = list(begin)
    while len(runs) < budget:
        codes = tuple(int(rng.integers(s)) for s in case.space.sizes)
        runs.append((codes, not case.fails(codes)))
    return simplify(failing_paths(build(runs, case.space), case.space), case.space.sizes), len(runs)


def tree_of_our_runs(case: Case, begin: Sequence[Coded], budget: int, made: Sequence[Coded]) -> Answer:
    runs = list(made[:budget])
    return simplify(failing_paths(build(runs, case.space), case.space), case.space.sizes), len(runs)


def slices_of_our_runs(case: Case, begin: Sequence[Coded], budget: int, made: Sequence[Coded]) -> Answer:
    """The best slices, level by level, of the runs that diagnose chose (after SliceLine)."""
    runs = list(made[:budget])
    codes = np.array([c for c, _ in runs], dtype=np.uint8) + 1  # code 0 is null
    bad = np.array([not ok for _, ok in runs])
    if not bad.any() or bad.all():
        return [], len(runs)
    sizes = tuple(s + 1 for s in case.space.sizes)
    data = Rows(
        codes, bad, sizes, tuple(p.ordinal for p in case.space.parameters), tuple(np.arange(s) > 0 for s in sizes)
    )
    found = rules(data, 3, 6, 1.0, certain=False)
    return [
        tuple(
            (column, frozenset(v - 1 for v in inside if v > 0))
            for column, inside in rule.conditions
            if len(inside - {0}) < case.space.sizes[column]
        )
        for rule in found
    ], len(runs)


BASELINES: dict[str, Baseline] = {
    "BugDoc (pairs, then trees)": debugging_tree,
    "minimal pairs alone": pairs_alone,
    "random search + tree": random_and_tree,
    "tree of whence's runs": tree_of_our_runs,
    "slices of whence's runs": slices_of_our_runs,
}
