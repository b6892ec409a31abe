"""Lineage questions over the copy in memory: the same walk as graph.py, all versions of a step at once.

Version v of a dataset holds what the edges into it with `target_version <= v < closed` brought. Backward goes to the
versions that were read, those exactly; forward is its mirror.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whence.store.copy import EdgeTable
from whence.store.intervals import Intervals, Numbers, difference, intervals, union


@dataclass(frozen=True, eq=False)
class Walked:
    """`edges`: the latest of each (source, target, kind), nearest first, with its depth; `depths`: of each dataset
    reached; `hits`: every single edge on the way."""

    edges: Numbers
    edge_depths: Numbers
    depths: dict[int, int]
    hits: Numbers


def walk(
    table: EdgeTable, start: int, low: int, high: int, backward: bool, depth: int | None, as_of: float | None
) -> Walked:
    ends = [np.array([n], dtype=np.int64) for n in (start, low, high)]
    frontier = intervals(*ends)
    seen = Intervals(np.empty(0, np.int64), np.empty(0, np.int64))
    depths = {start: 0}
    hits: list[Numbers] = []
    levels: list[Numbers] = []
    level = 0
    while len(frontier.first) and (depth is None or level < depth):
        level += 1
        places = _at(table, frontier, backward, as_of)
        hits.append(places)
        levels.append(np.full(len(places), level))
        seen = union(seen, frontier)
        if backward:
            read = table.source_version[places]
            reached = intervals(table.source[places], read, read)
        else:
            reached = intervals(table.target[places], table.target_version[places], table.closed[places] - 1)
        frontier = difference(reached, seen)
        for dataset in np.unique(frontier.datasets).tolist():
            depths.setdefault(dataset, level)
    return _told(table, hits, levels, depths)


def both(one: Walked, other: Walked, table: EdgeTable) -> Walked:
    """What either found; a dataset or an edge that both did is as near as the nearer says."""
    depths = dict(one.depths)
    for dataset, depth in other.depths.items():
        depths[dataset] = min(depth, depths.get(dataset, depth))
    hits = np.concatenate([one.edges, other.edges])
    levels = np.concatenate([one.edge_depths, other.edge_depths])
    order = np.argsort(levels, kind="stable")
    told = _told(table, [hits[order]], [levels[order]], depths)
    return Walked(told.edges, told.edge_depths, depths, np.unique(np.concatenate([one.hits, other.hits])))


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
    return np.unique(places[kept])


def _told(table: EdgeTable, hits: list[Numbers], levels: list[Numbers], depths: dict[int, int]) -> Walked:
    if not any(len(some) for some in hits):
        none = np.empty(0, np.int64)
        return Walked(none, none, depths, none)
    places, depth = np.concatenate(hits).astype(np.int64), np.concatenate(levels)
    keys = table.source[places].astype(np.int64) << 36 | table.target[places].astype(np.int64) << 8 | table.kind[places]
    # stable sorts: by place within a group, the first in order of depth
    by_key = np.argsort(keys, kind="stable")
    sorted_keys = keys[by_key]
    first = np.append(True, sorted_keys[1:] != sorted_keys[:-1])
    starts = np.flatnonzero(first)
    least = depth[by_key[starts]]
    latest = np.maximum.reduceat(places[by_key], starts)
    order = np.lexsort((latest, least))
    return Walked(latest[order], least[order], depths, np.unique(places))
