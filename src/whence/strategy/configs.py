"""What one operator could keep: one strategy, or two where one answers backward and the other forward.

More than two never help: a query step takes the least time among those kept, and there are two directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from whence.strategy.costs import Cost


@dataclass(frozen=True)
class Config:
    """A choice for one operator, with what it costs; `query` is weighted by how often the workload passes."""

    strategies: tuple[str, ...]
    disk: float
    runtime: float
    query: float

    @cached_property
    def order(self) -> tuple[float, int, tuple[str, ...]]:
        """Among equals: the least of disk and run time (a second counts as much as 100 MB), then the shortest."""
        return (self.disk + 1e8 * self.runtime, len(self.strategies), self.strategies)


def together(strategies: Sequence[str], costs: Mapping[str, Cost], weights: tuple[float, float]) -> Config:
    """These strategies kept side by side; `weights` are the workload's for backward and forward."""
    kept = [costs[s] for s in strategies]
    query = weights[0] * min(c.backward for c in kept) + weights[1] * min(c.forward for c in kept)
    return Config(tuple(strategies), sum(c.disk for c in kept), sum(c.runtime for c in kept), query)


def all_configs(
    costs: Mapping[str, Cost], weights: tuple[float, float], kinds: Mapping[str, str] | None = None
) -> list[Config]:
    """`kinds`: strategies of different kinds cannot be kept of one run; those without a kind go with all."""
    names, kinds = sorted(costs), kinds or {}
    found = [together((name,), costs, weights) for name in names]
    if weights[0] > 0 and weights[1] > 0:
        for a, b in combinations(names, 2):
            if kinds.get(a, kinds.get(b)) != kinds.get(b, kinds.get(a)):
                continue
            first, second = costs[a], costs[b]
            if (first.backward < second.backward) != (first.forward < second.forward):
                found.append(together((a, b), costs, weights))
    return found


def worthwhile(configs: Sequence[Config], disk: bool, runtime: bool) -> list[Config]:
    """Those that no other beats in everything that counts; `disk` and `runtime` say what is limited."""
    kept: list[Config] = []
    for one in sorted(configs, key=lambda c: (c.query, *c.order)):
        if not any(
            (not disk or other.disk <= one.disk) and (not runtime or other.runtime <= one.runtime) for other in kept
        ):
            kept.append(one)
    return kept
