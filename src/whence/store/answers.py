"""Turns what the graph gave, numbers of datasets and versions, into the values that are answered."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from whence.model import Dataset
from whence.model.lineage import EVERY_COLUMN, ColumnEdge, Edge
from whence.store import graph
from whence.store.rows import dataset_of, is_current, moment
from whence.store.schema import datasets, versions


def datasets_of(connection: sa.Connection, numbers: Iterable[int]) -> list[Dataset]:
    wanted = list(numbers)
    query = sa.select(datasets, versions.c.columns).outerjoin(versions, is_current())
    found: dict[int, Dataset] = {}
    for first in range(0, len(wanted), 500):
        chunk = wanted[first : first + 500]
        for row in connection.execute(query.where(datasets.c.id.in_(chunk))):
            found[row.id] = dataset_of(row)
    return [found[number] for number in wanted]


def edges_of(connection: sa.Connection, steps: list[graph.Step]) -> list[Edge]:
    numbers = list({n: None for s in steps for n in (s.source, s.target)})
    known = dict(zip(numbers, datasets_of(connection, numbers), strict=True))
    return [
        Edge(
            known[s.source],
            known[s.target],
            s.run,
            s.kind,
            s.source_version,
            s.target_version,
            moment(s.at),
            s.depth,
        )
        for s in steps
    ]


def column_edges_of(connection: sa.Connection, found: list[graph.ColumnStep], expand: bool = True) -> list[ColumnEdge]:
    numbers = list({n: None for c in found for n in (c.step.source, c.step.target)})
    known = dict(zip(numbers, datasets_of(connection, numbers), strict=True))
    every = {c.step.target for c in found if c.target_column == EVERY_COLUMN}
    columns = _columns(connection, every)
    result = []
    for c in found:
        s = c.step
        names: Iterable[str] = (c.target_column,)
        if c.target_column == EVERY_COLUMN and expand:
            names = columns.get((s.target, s.target_version)) or known[s.target].columns or (EVERY_COLUMN,)
        for name in names:
            result.append(
                ColumnEdge(
                    known[s.source],
                    c.source_column,
                    known[s.target],
                    name,
                    s.run,
                    c.kind,
                    c.subtype,
                    c.masking,
                    s.source_version,
                    s.target_version,
                    moment(s.at),
                    s.depth,
                )
            )
    return result


def _columns(connection: sa.Connection, numbers: set[int]) -> dict[tuple[int, int], tuple[str, ...]]:
    found: dict[tuple[int, int], tuple[str, ...]] = {}
    wanted = list(numbers)
    for first in range(0, len(wanted), 500):
        query = sa.select(versions.c.dataset, versions.c.number, versions.c.columns)
        for row in connection.execute(query.where(versions.c.dataset.in_(wanted[first : first + 500]))):
            found[(row.dataset, row.number)] = tuple(c[0] for c in row.columns)
    return found
