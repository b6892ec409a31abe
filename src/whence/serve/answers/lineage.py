"""The graph behind a dataset and after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import sqlalchemy as sa

from whence.model.lineage import EVERY_COLUMN
from whence.serve.jsons import dumps
from whence.serve.problems import not_found, too_costly
from whence.serve.view import Json, View
from whence.store import graph, walking
from whence.store.intervals import Numbers
from whence.store.schema import OPEN, versions

BACKWARD, FORWARD, BOTH = "backward", "forward", "both"
SECONDS = 10.0
MOST_LINKS = 300_000
MOST_EDGES = 200_000
_CHUNK = 500
# Threads that all compute take turns anyway: one after the other has most of them done sooner.
_TURN = threading.Lock()

ColumnKey = tuple[int, str, int, str, str, str, bool]
"""Source and its column, target and its column, kind, subtype, masking."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Datasets, nearest first, and edges (places in the snapshot's table), each with its depth."""

    root: int
    numbers: Numbers
    depths: Numbers
    edges: Numbers
    edge_depths: Numbers
    truncated: bool


def lineage(
    view: View,
    name: str,
    namespace: str | None = None,
    direction: str = BACKWARD,
    depth: int = 3,
    level: str = "dataset",
    column: str | None = None,
    indirect: bool = True,
    as_of: datetime | None = None,
    limit: int = 2000,
) -> Json:
    root = view.find(namespace, name, as_of)
    when = None if as_of is None else as_of.timestamp()
    if level == "column" or column is not None:
        require_column(view, root, column)
        found = column_walk(view, root, direction, depth, when, column, indirect)
        return _column_graph(view, root, found, limit)
    graph = dataset_graph(view, root, last_version(view, root, when), direction, depth, when, limit)
    nodes = [node(view, number, at) for number, at in zip(graph.numbers.tolist(), graph.depths.tolist(), strict=True)]
    edges = edge_items(view, graph.edges, graph.edge_depths)
    return {"root": view.id_of(root), "nodes": nodes, "edges": edges, "truncated": graph.truncated}


def lineage_text(view: View, **asked: Any) -> bytes:
    """The same as JSON. What is told of a dataset is put into words once, not for every question that reaches it."""
    if asked.get("level") == "column" or asked.get("column") is not None or not view.sees_all:
        return dumps(lineage(view, **asked))
    as_of = asked.get("as_of")
    root = view.find(asked.get("namespace"), asked["name"], as_of)
    when = None if as_of is None else as_of.timestamp()
    last = last_version(view, root, when)
    # Each without its depth; the slice is also a copy, since orjson's own bytes hold on to a kilobyte each.
    texts = view.service.node_texts(view.snapshot, lambda number: dumps(node(view, number, 0))[:-2])
    with _TURN:
        graph = dataset_graph(view, root, last, asked["direction"], asked["depth"], when, asked["limit"])
        nodes = [
            b"%b%d}" % (texts[number], at)
            for number, at in zip(graph.numbers.tolist(), graph.depths.tolist(), strict=True)
        ]
        return b'{"root":%b,"nodes":[%b],"edges":%b,"truncated":%b}' % (
            dumps(view.id_of(root)),
            b",".join(nodes),
            dumps(edge_items(view, graph.edges, graph.edge_depths)),
            dumps(graph.truncated),
        )


def dataset_graph(
    view: View, root: int, last: int, direction: str, depth: int, when: float | None, limit: int
) -> Graph:
    """`last`: the newest version of the root at that time."""
    table = view.snapshot.edges
    walked = _walk(view, root, last, direction, depth, when)
    kept, depths = _by_name(view, walked) if view.sees_all else _by_order(view, walked)
    truncated = len(kept) > limit
    edges, edge_depths = walked.edges, walked.edge_depths
    if truncated:
        kept, depths = kept[:limit], depths[:limit]
        is_kept = np.zeros(int(max(table.source.max(), table.target.max(), kept.max())) + 1, dtype=bool)
        is_kept[kept] = True
        inside = is_kept[table.source[edges]] & is_kept[table.target[edges]]
        edges, edge_depths = edges[inside], edge_depths[inside]
    return Graph(root, kept, depths, edges, edge_depths, truncated)


def _by_name(view: View, walked: walking.Walked) -> tuple[Numbers, Numbers]:
    """Nearest first, then by name."""
    order = np.lexsort((view.snapshot.rank[walked.numbers], walked.node_depths))
    return walked.numbers[order], walked.node_depths[order]


def _by_order(view: View, walked: walking.Walked) -> tuple[Numbers, Numbers]:
    """The same, with what is masked after the others of its depth, in an order that tells nothing."""
    kept, _ = _nearest(view, walked.depths, len(walked.numbers))
    return np.array(kept, dtype=np.int64), np.array([walked.depths[n] for n in kept], dtype=np.int64)


def node(view: View, number: int, depth: int, columns: bool = False) -> Json:
    if not (view.sees_all or view.sees(number)):
        return {"id": view.masked_id(str(number)), "masked": True, "depth": depth}
    known = view.snapshot.datasets[number]
    told: Json = {
        "id": view.service.dataset_id(number),
        "namespace": known.namespace,
        "name": known.name,
        "kind": known.kind,
        "dropped": None if known.dropped is None else _moment(known.dropped),
        "failed": view.snapshot.failed.get(number),
    }
    if columns:
        told["columns"] = list(known.columns)
    told["depth"] = depth
    return told


def _moment(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, timezone.utc)


def edge_items(view: View, places: Numbers, depths: Numbers | Sequence[int]) -> list[Json]:
    table = view.snapshot.edges
    sources, targets = table.source[places].tolist(), table.target[places].tolist()
    ids = view.ids_of({*sources, *targets})
    kinds, runs, zone = table.kinds, table.runs, timezone.utc
    moments = datetime.fromtimestamp
    return [
        {"source": ids[source], "target": ids[target], "kind": kinds[kind], "run": runs[place],
         "at": moments(at, zone), "depth": depth}
        for place, source, target, kind, at, depth in zip(
            places.tolist(), sources, targets, table.kind[places].tolist(),
            table.at[places].tolist(), np.asarray(depths).tolist(), strict=True,
        )
    ]  # fmt: skip


def dataset_walk(view: View, root: int, direction: str, depth: int | None, when: float | None) -> walking.Walked:
    return _walk(view, root, last_version(view, root, when), direction, depth, when)


def _walk(view: View, root: int, last: int, direction: str, depth: int | None, when: float | None) -> walking.Walked:
    table = view.snapshot.edges
    ways = []
    if direction in (BACKWARD, BOTH):
        ways.append(walking.walk(table, root, last, last, True, depth, when))
    if direction in (FORWARD, BOTH):
        ways.append(walking.walk(table, root, 0, OPEN - 1 if when is None else last, False, depth, when))
    return ways[0] if len(ways) == 1 else walking.both(ways[0], ways[1], table)


def last_version(view: View, number: int, when: float | None) -> int:
    query = sa.select(sa.func.max(versions.c.number)).where(versions.c.dataset == number)
    if when is not None:
        query = query.where(versions.c.at <= when)
    with view.catalog.reading() as connection:
        return int(connection.execute(query).scalar() or 0)


def _nearest(view: View, depths: dict[int, int], limit: int) -> tuple[list[int], bool]:
    """Nearest first, then by name; masked ones after those of their depth, in an order that tells nothing."""
    numbers = sorted(depths, key=lambda number: (depths[number], *view.order(number)))
    return numbers[:limit], len(numbers) > limit


# --- columns


@dataclass(frozen=True)
class ColumnFound:
    run: str
    at: float
    depth: int


def require_column(view: View, number: int, column: str | None) -> None:
    """A column that the dataset has, had, or is known to be linked by."""
    if column is None or column in view.known(number).columns:
        return
    with view.catalog.reading() as connection:
        held = connection.execute(sa.select(versions.c.columns).where(versions.c.dataset == number)).scalars()
        names = {c[0] for columns in held for c in columns}
    if not any(column == name or column.startswith(f"{name}.") for name in names):
        raise not_found("The dataset has no column of this name.")


def bounds() -> graph.Bounds:
    return graph.Bounds(MOST_LINKS, time.monotonic() + SECONDS)


def column_walk(
    view: View,
    root: int,
    direction: str,
    depth: int | None,
    when: float | None,
    column: str | None,
    indirect: bool = True,
) -> dict[ColumnKey, ColumnFound]:
    """Every column link, with its latest run and least depth. Links to every column stand once for each."""
    last = last_version(view, root, when)
    wanted: dict[int, set[str] | None] = {root: None if column is None else {column}}
    limits = bounds()
    found: dict[ColumnKey, ColumnFound] = {}
    try:
        with view.catalog.reading() as connection:
            for backward in (True, False):
                if direction == (FORWARD if backward else BACKWARD):
                    continue
                start = {root: (last, last) if backward else (0, OPEN if when is None else last)}
                steps = graph.walk_columns(connection, start, wanted, backward, depth, when, indirect, limits)
                add_columns(found, steps, expanded(connection, view, steps))
    except graph.TooMuch as error:
        raise too_costly(str(error)) from error
    return found


def expanded(
    connection: sa.Connection, view: View, steps: Sequence[graph.ColumnStep]
) -> dict[tuple[int, int], tuple[str, ...]]:
    """The columns of the versions that a link reaches as a whole."""
    numbers = list({s.step.target for s in steps if s.target_column == EVERY_COLUMN})
    found: dict[tuple[int, int], tuple[str, ...]] = {}
    for first in range(0, len(numbers), _CHUNK):
        query = sa.select(versions.c.dataset, versions.c.number, versions.c.columns)
        for row in connection.execute(query.where(versions.c.dataset.in_(numbers[first : first + _CHUNK]))):
            found[row.dataset, row.number] = tuple(c[0] for c in row.columns)
    for number in numbers:
        found[number, -1] = view.known(number).columns
    return found


def add_columns(
    found: dict[ColumnKey, ColumnFound],
    steps: Iterable[graph.ColumnStep],
    columns: dict[tuple[int, int], tuple[str, ...]],
) -> None:
    for c in steps:
        s = c.step
        names: tuple[str, ...] = (c.target_column,)
        if c.target_column == EVERY_COLUMN:
            names = columns.get((s.target, s.target_version)) or columns[s.target, -1] or (EVERY_COLUMN,)
        for name in names:
            key = (s.source, c.source_column, s.target, name, c.kind, c.subtype, c.masking)
            before = found.get(key)
            if before is None:
                found[key] = ColumnFound(s.run, s.at, s.depth)
            else:
                newer = s.at >= before.at
                found[key] = ColumnFound(
                    s.run if newer else before.run, max(s.at, before.at), min(s.depth, before.depth)
                )
        if len(found) > MOST_LINKS:
            raise graph.TooMuch(f"The answer has more than {MOST_LINKS:,} column links; ask for less of it.")


def column_depths(root: int, found: dict[ColumnKey, ColumnFound]) -> dict[int, int]:
    """How many steps each dataset is away: an edge is one step further than the nearer of its ends."""
    depths = {root: 0}
    for key, held in sorted(found.items(), key=lambda item: item[1].depth):
        for number in (key[0], key[2]):
            depths.setdefault(number, held.depth)
    return depths


def _column_graph(view: View, root: int, found: dict[ColumnKey, ColumnFound], limit: int) -> Json:
    depths = column_depths(root, found)
    kept, truncated = _nearest(view, depths, limit)
    if truncated:
        inside = set(kept)
        found = {key: held for key, held in found.items() if key[0] in inside and key[2] in inside}
    return {
        "root": view.id_of(root),
        "nodes": [node(view, number, depths[number], columns=True) for number in kept],
        "edges": column_items(view, found),
        "truncated": truncated,
    }


def column_items(view: View, found: dict[ColumnKey, ColumnFound]) -> list[Json]:
    """Nearest first. Of a masked end the column is not told, and what is then equal stands once."""
    items: dict[tuple[Any, ...], Json] = {}
    for key, held in sorted(found.items(), key=lambda item: item[1].depth):
        source, source_column, target, target_column, kind, subtype, masking = key
        ends = (view.id_of(source), view.id_of(target))
        columns = (source_column if view.sees(source) else None, target_column if view.sees(target) else None)
        told = (*ends, *columns, kind, subtype, masking)
        at = datetime.fromtimestamp(held.at, timezone.utc)
        if told in items:
            if items[told]["at"] < at:
                items[told].update(run=held.run, at=at)
            continue
        items[told] = {
            "source": ends[0],
            "target": ends[1],
            "kind": kind,
            "run": held.run,
            "at": at,
            "depth": held.depth,
            "source_column": columns[0],
            "target_column": columns[1],
            "subtype": subtype,
            "masking": masking,
        }
    return list(items.values())
