"""How lineage differs between two times."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from whence.serve.answers.lineage import (
    BACKWARD,
    MOST_EDGES,
    ColumnFound,
    ColumnKey,
    add_columns,
    bounds,
    column_items,
    column_walk,
    dataset_walk,
    edge_items,
    expanded,
    node,
)
from whence.serve.problems import too_costly
from whence.serve.view import Json, View
from whence.store import graph
from whence.store.intervals import Numbers
from whence.store.schema import edges, mapping_columns

_CHUNK = 500
Pair = tuple[int, int, int]
"""Source, target, kind."""


def diff(
    view: View,
    before: datetime,
    after: datetime,
    namespace: str | None = None,
    name: str | None = None,
    level: str = "dataset",
) -> Json:
    """Edges added, removed, and changed: there at both times, with other column links. Of the lineage behind a dataset;
    without a name of the whole catalogue, or of the edges into one namespace."""
    if name is None and namespace is not None:
        return _within(view, diff(view, before, after, level=level), namespace)
    root = None if name is None else view.find(namespace, name, after)
    times = (before.timestamp(), after.timestamp())
    if level == "column":
        return _columns(view, root, times)
    old, new = (_hits(view, root, when) for when in times)
    was, now = _pairs(view, old), _pairs(view, new)
    added = [pair for pair in now if pair not in was]
    removed = [pair for pair in was if pair not in now]
    if len(added) + len(removed) > MOST_EDGES:
        raise too_costly(f"More than {MOST_EDGES:,} edges differ: ask about one dataset.")
    both = [pair for pair in now if pair in was]
    changed = _changed(view, both, was, now)
    depths = {} if root is None else _depths(view, root, times)
    return {
        "nodes": _nodes(view, [*added, *removed, *changed], depths),
        "added": _edges(view, added, now, depths),
        "removed": _edges(view, removed, was, depths),
        "changed": _edges(view, changed, now, depths),
    }


def _within(view: View, found: Json, namespace: str) -> Json:
    ids = {node["id"] for node in found["nodes"] if node.get("namespace") == namespace}
    kept = {key: [e for e in found[key] if e["target"] in ids] for key in ("added", "removed", "changed")}
    ends = {end for some in kept.values() for e in some for end in (e["source"], e["target"])}
    return {"nodes": [node for node in found["nodes"] if node["id"] in ends], **kept}


def _hits(view: View, root: int | None, when: float) -> Numbers:
    """Places of the edges that held at that time: all of them, or those behind a dataset."""
    table = view.snapshot.edges
    if root is None:
        return np.flatnonzero((table.at <= when) & (table.closed_at > when))
    return dataset_walk(view, root, BACKWARD, None, when).hits


def _pairs(view: View, places: Numbers) -> dict[Pair, list[int]]:
    table = view.snapshot.edges
    found: dict[Pair, list[int]] = defaultdict(list)
    columns = (places, table.source[places], table.target[places], table.kind[places])
    for place, source, target, kind in zip(*[column.tolist() for column in columns], strict=True):
        found[source, target, kind].append(place)
    return found


def _changed(view: View, both: list[Pair], was: dict[Pair, list[int]], now: dict[Pair, list[int]]) -> list[Pair]:
    mapping = view.snapshot.edges.mapping
    asked: dict[Pair, tuple[set[int], set[int]]] = {}
    for pair in both:
        if was[pair] != now[pair]:
            old, new = ({int(mapping[place]) for place in held[pair]} for held in (was, now))
            if old != new:
                asked[pair] = (old, new)
    links = _links(view, {number for sides in asked.values() for side in sides for number in side})
    return [
        pair
        for pair, (old, new) in asked.items()
        if set().union(*(links[n, pair[0]] for n in old)) != set().union(*(links[n, pair[0]] for n in new))
    ]


def _links(view: View, numbers: set[int]) -> dict[tuple[int, int], set[tuple[Any, ...]]]:
    """The column links of mappings, by mapping and source."""
    found: dict[tuple[int, int], set[tuple[Any, ...]]] = defaultdict(set)
    wanted = sorted(numbers - {-1})
    with view.catalog.reading() as connection:
        for first in range(0, len(wanted), _CHUNK):
            query = sa.select(mapping_columns).where(mapping_columns.c.mapping.in_(wanted[first : first + _CHUNK]))
            for r in connection.execute(query):
                link = (r.source_column, r.target_column, r.kind, r.subtype, bool(r.masking))
                found[r.mapping, r.source].add(link)
    return found


def _depths(view: View, root: int, times: tuple[float, float]) -> dict[int, int]:
    old, new = (dataset_walk(view, root, BACKWARD, None, when).depths for when in times)
    return {**old, **new}


def _nodes(view: View, pairs: list[Pair], depths: dict[int, int], columns: bool = False) -> list[Json]:
    numbers = {number for pair in pairs for number in pair[:2]}
    ordered = sorted(numbers, key=lambda number: (depths.get(number, 0), *view.order(number)))
    return [node(view, number, depths.get(number, 0), columns) for number in ordered]


def _edges(view: View, pairs: list[Pair], held: dict[Pair, list[int]], depths: dict[int, int]) -> list[Json]:
    told = sorted(pairs, key=lambda pair: (depths.get(pair[1], 0), *view.order(pair[1]), *view.order(pair[0])))
    places = np.array([held[pair][-1] for pair in told], dtype=np.int64)
    return edge_items(view, places, [depths[pair[1]] + 1 if pair[1] in depths else 1 for pair in told])


# --- columns


def _columns(view: View, root: int | None, times: tuple[float, float]) -> Json:
    old, new = (
        column_walk(view, root, BACKWARD, None, when, None) if root is not None else _all_columns(view, when)
        for when in times
    )
    added = {key: held for key, held in new.items() if key not in old}
    removed = {key: held for key, held in old.items() if key not in new}
    depths = {} if root is None else _depths(view, root, times)
    pairs = [(key[0], key[2], 0) for key in (*added, *removed)]
    return {
        "nodes": _nodes(view, pairs, depths, columns=True),
        "added": column_items(view, added),
        "removed": column_items(view, removed),
        "changed": [],
    }


def _all_columns(view: View, when: float) -> dict[ColumnKey, ColumnFound]:
    numbers = view.snapshot.edges.number[_hits(view, None, when)].tolist()
    if len(numbers) > MOST_EDGES:
        raise too_costly(f"The catalogue has more than {MOST_EDGES:,} edges: ask about one dataset.")
    limits = bounds()
    found: dict[ColumnKey, ColumnFound] = {}
    try:
        with view.catalog.reading() as connection:
            for first in range(0, len(numbers), _CHUNK):
                query = sa.select(edges).where(edges.c.id.in_(numbers[first : first + _CHUNK]))
                steps = [graph.step_of(row) for row in connection.execute(query)]
                limits.check(0)
                links = list(graph.columns_of(connection, steps))
                add_columns(found, links, expanded(connection, view, links))
    except graph.TooMuch as error:
        raise too_costly(str(error)) from error
    return found
