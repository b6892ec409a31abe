"""Debugging decision trees (section 3.2): paths that only failed become suspects, which new runs put to the test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whence.debug.diagnose.causes import Box, box_from_masks
from whence.debug.diagnose.pairs import Coded
from whence.debug.diagnose.simplify import simplify
from whence.debug.diagnose.space import Codes, Mask, Space

Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class Node:
    """A leaf has no branches; its outcome is "succeed", "fail" or "mixed". `inside` is the split's set of values."""

    succeeded: int
    failed: int
    parameter: int = -1
    inside: frozenset[int] = frozenset()
    yes: Node | None = None
    no: Node | None = None

    @property
    def outcome(self) -> str:
        return "mixed" if self.succeeded and self.failed else "fail" if self.failed else "succeed"


def _gini(failed: Numbers, total: Numbers) -> Numbers:
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(total > 0, failed / total, 0.0)
    return np.asarray(total * 2 * p * (1 - p))


def build(runs: Sequence[Coded], space: Space) -> Node:
    """Grown until pure: each split is one comparison (= for categorical, <= for ordinal values, else its opposite)."""
    x = np.array([c for c, _ in runs], dtype=np.int64).reshape(len(runs), len(space.sizes))
    return _grow(x, np.array([not ok for _, ok in runs], dtype=bool), space)


def _grow(x: Numbers, failed: Numbers, space: Space) -> Node:
    bad = int(failed.sum())
    leaf = Node(len(failed) - bad, bad)
    if leaf.outcome != "mixed":
        return leaf
    best: tuple[float, int, frozenset[int]] | None = None
    for p, parameter in enumerate(space.parameters):
        size = len(parameter.values)
        total = np.bincount(x[:, p], minlength=size)
        hurt = np.bincount(x[:, p], weights=failed, minlength=size)
        for cumulative in (True, False) if parameter.ordinal else (False,):
            t, h = (total.cumsum(), hurt.cumsum()) if cumulative else (total, hurt)
            worth = _gini(h, t) + _gini(bad - h, len(failed) - t)
            worth = np.where((t > 0) & (t < len(failed)), worth, np.inf)
            v = int(worth.argmin())
            if np.isfinite(worth[v]) and (best is None or worth[v] < best[0] - 1e-12):
                best = (float(worth[v]), p, frozenset(range(v + 1)) if cumulative else frozenset([v]))
    if best is None:
        return leaf
    _, p, inside = best
    yes = np.isin(x[:, p], list(inside))
    return Node(leaf.succeeded, bad, p, inside, _grow(x[yes], failed[yes], space), _grow(x[~yes], failed[~yes], space))


def failing_paths(node: Node, space: Space) -> list[Box]:
    """The conjunctions that lead to leaves where every run failed, the shortest first."""
    found = [box_from_masks(masks) for leaf, masks in _leaves(node, space, {}) if leaf.outcome == "fail"]
    return sorted(found, key=len)


def _leaves(node: Node, space: Space, masks: dict[int, Mask]) -> Iterator[tuple[Node, dict[int, Mask]]]:
    if node.yes is None or node.no is None:
        yield node, masks
        return
    size = space.sizes[node.parameter]
    inside = np.isin(np.arange(size), list(node.inside))
    before = masks.get(node.parameter, np.ones(size, dtype=bool))
    yield from _leaves(node.yes, space, {**masks, node.parameter: before & inside})
    yield from _leaves(node.no, space, {**masks, node.parameter: before & ~inside})


@dataclass(frozen=True)
class Explained:
    causes: tuple[Box, ...]
    tree: Node
    runs: tuple[Coded, ...]


def debugging_trees(
    run: Callable[[Codes], bool],
    space: Space,
    history: Iterable[Coded],
    budget: int,
    *,
    seed: int | None = None,
    tries: int = 10,
) -> Explained:
    """`tries` runs inside a suspect path, all failing, make it a cause; one that succeeds makes the tree grow anew."""
    rng = np.random.default_rng(seed)
    runs = list(history)
    known = dict(runs)
    believed: set[Box] = set()
    tree = build(runs, space)
    while budget > 0:
        suspects = [box for box in failing_paths(tree, space) if box not in believed]
        if not suspects:
            break
        refuted = False
        for _ in range(tries):
            codes = tuple(
                int(rng.choice(sorted(dict(suspects[0]).get(p, range(size))))) for p, size in enumerate(space.sizes)
            )
            if codes not in known:
                if budget <= 0:
                    break
                budget -= 1
                known[codes] = run(codes)
                runs.append((codes, known[codes]))
            if known[codes]:
                refuted = True
                break
        if refuted:
            tree = build(runs, space)
        else:
            believed.add(suspects[0])
    return Explained(tuple(simplify(failing_paths(tree, space), space.sizes)), tree, tuple(runs))
