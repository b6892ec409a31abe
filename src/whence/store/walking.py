"""Lineage questions over the copy in memory: the same walk as graph.py, all versions of a step at once.

Version v of a dataset holds what the edges into it with `target_version <= v < closed` brought. Backward goes to the
versions that were read, those exactly; forward is its mirror.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from whence.store.copy import EdgeTable
from whence.store.intervals import Intervals, Numbers, changes, difference, intervals, union


@dataclass(frozen=True, eq=False)
class Walked:
    """`edges`: the latest of each (source, target, kind), nearest first, with its depth; `numbers`: the datasets
    reached, nearest first, with theirs; `every`: all single edges on the way, some more than once."""

    edges: Numbers
    edge_depths: Numbers
    numbers: Numbers
    node_depths: Numbers
    every: Numbers

    @cached_property
    def depths(self) -> dict[int, int]:
        return dict(zip(self.numbers.tolist(), self.node_depths.tolist(), strict=True))

    @cached_property
    def hits(self) -> Numbers:
        return unique(self.every)


def unique(numbers: Numbers) -> Numbers:
    if len(numbers) < 2:
        return numbers
    ordered = np.sort(numbers)
    found: Numbers = ordered[changes(ordered)]
    return found


def walk(
    table: EdgeTable, start: int, low: int, high: int, backward: bool, depth: int | None, as_of: float | None
) -> Walked:
    ends = [np.array([n], dtype=np.int64) for n in (start, low, high)]
    frontier = intervals(*ends)
    seen = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))
    is_known = np.zeros(max(len(table.target_starts), start + 1), dtype=bool)
    is_known[start] = True
    reached: list[Numbers] = [ends[0]]
    hits: list[Numbers] = []
    level = 0
    while len(frontier.first) and (depth is None or level < depth):
        level += 1
        places = _at(table, frontier, backward, as_of)
        hits.append(places)
        seen = union(seen, frontier)
        if backward:
            read = table.source_version[places]
            found = intervals(table.source[places], read, read)
        else:
            found = intervals(table.target[places], table.target_version[places], table.closed[places] - 1)
        frontier = difference(found, seen)
        datasets = frontier.datasets  # in order, since the ranges are
        fresh = datasets[~is_known[datasets]]
        fresh = fresh[changes(fresh)]
        is_known[fresh] = True
        reached.append(fresh)
    return _told(table, hits, [np.full(len(some), n) for n, some in enumerate(hits, 1)], *_levels(reached))


def _levels(reached: list[Numbers]) -> tuple[Numbers, Numbers]:
    return np.concatenate(reached), np.repeat(np.arange(len(reached)), [len(some) for some in reached])


def both(one: Walked, other: Walked, table: EdgeTable) -> Walked:
    """What either found; a dataset or an edge that both did is as near as the nearer says."""
    numbers = np.concatenate([one.numbers, other.numbers])
    depths = np.concatenate([one.node_depths, other.node_depths])
    order = np.argsort(depths, kind="stable")
    numbers, depths = numbers[order], depths[order]
    _, first = np.unique(numbers, return_index=True)
    first.sort()
    places = np.concatenate([one.edges, other.edges])
    levels = np.concatenate([one.edge_depths, other.edge_depths])
    order = np.argsort(levels, kind="stable")
    told = _told(table, [places[order]], [levels[order]], numbers[first], depths[first])
    every = np.concatenate([one.every, other.every])
    return Walked(told.edges, told.edge_depths, told.numbers, told.node_depths, every)


def _at(table: EdgeTable, frontier: Intervals, backward: bool, as_of: float | None) -> Numbers:
    places, whose = table.at_datasets(frontier.datasets, backward)
    low, high = frontier.low[whose], frontier.high[whose]
    if backward:
        kept = (table.closed[places] > low) & (table.target_version[places] <= high)
    else:
        version = table.source_version[places]
        kept = (version >= low) & (version <= high)
    if as_of is not None:
        kept &= table.at[places] <= as_of
    return unique(places[kept])


def _told(
    table: EdgeTable, hits: list[Numbers], levels: list[Numbers], numbers: Numbers, node_depths: Numbers
) -> Walked:
    if not any(len(some) for some in hits):
        none = np.empty(0, np.int64)
        return Walked(none, none, numbers, node_depths, none)
    places, depth = np.concatenate(hits).astype(np.int64), np.concatenate(levels)
    keys = table.source[places].astype(np.int64) << 36 | table.target[places].astype(np.int64) << 8 | table.kind[places]
    by_key = np.argsort(keys, kind="stable")  # within a group the nearest comes first, as it did before
    ordered = keys[by_key]
    starts = np.flatnonzero(changes(ordered))
    least = depth[by_key[starts]]
    latest = np.maximum.reduceat(places[by_key], starts)
    order = np.lexsort((latest, least))
    return Walked(latest[order], least[order], numbers, node_depths, places)
