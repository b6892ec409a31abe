"""What one operator could keep: one strategy, or two where one answers backward and the other forward.

More than two never help: a query step takes the least time among those kept, and there are two directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from whence.strategy.costs import Cost


@dataclass(frozen=True, slots=True)
class Config:
    """A choice for one operator, with what it costs; `query` is weighted by how often the workload passes."""

    strategies: tuple[str, ...]
    disk: float
    runtime: float
    query: float

    @property
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
                query = weights[0] * min(first.backward, second.backward) + weights[1] * min(
                    first.forward, second.forward
                )
                found.append(Config((a, b), first.disk + second.disk, first.runtime + second.runtime, query))
    return found


def worthwhile(configs: Sequence[Config], disk: bool, runtime: bool) -> list[Config]:
    """Those that no other beats in everything that counts; `disk` and `runtime` say what is limited."""
    kept: list[Config] = []
    sizes: list[tuple[float, float]] = []
    for one in sorted(configs, key=lambda c: (c.query, *c.order)):
        mine = (one.disk if disk else 0.0, one.runtime if runtime else 0.0)
        for other in sizes:
            if other[0] <= mine[0] and other[1] <= mine[1]:
                break
        else:
            kept.append(one)
            sizes.append(mine)
    return kept
