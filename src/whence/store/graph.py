"""Lineage questions: a walk over the edges, one or two range queries for each step away from the start.

The walk keeps, for each dataset, which of its versions matter. Backward, these are the version at the time asked and
what was read to make it; forward, every version there was.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from whence.model.lineage import EVERY_COLUMN
from whence.store.schema import edges, mapping_columns

Range = tuple[int, int]
_CHUNK = 400  # SQLite allows 32766 parameters, but plans of long OR chains are slow


@dataclass(frozen=True)
class Step:
    """Edges of one kind between two datasets, over the versions that the walk has to do with."""

    source: int
    target: int
    kind: str
    mapping: int | None
    source_versions: Range
    target_versions: Range
    run: str
    at: float
    depth: int


@dataclass(frozen=True)
class ColumnStep:
    step: Step
    source_column: str
    target_column: str
    kind: str
    subtype: str
    masking: bool


def walk(
    connection: sa.Connection, start: dict[int, Range], backward: bool, depth: int | None, as_of: float | None
) -> Iterator[list[Step]]:
    """The edges of each step, nearest first."""
    seen: dict[int, list[Range]] = defaultdict(list)
    frontier = {dataset: [versions] for dataset, versions in start.items()}
    level = 0
    while frontier and (depth is None or level < depth):
        level += 1
        for dataset, ranges in frontier.items():
            seen[dataset] += ranges
        steps = list(_edges(connection, frontier, backward, as_of, level))
        if steps:
            yield steps
        frontier = defaultdict(list)
        for step in steps:
            dataset = step.source if backward else step.target
            versions = step.source_versions if backward else step.target_versions
            if not any(low <= versions[0] and versions[1] <= high for low, high in seen[dataset]):
                frontier[dataset].append(versions)
        frontier = {dataset: _joined(ranges) for dataset, ranges in frontier.items()}


def _joined(ranges: Iterable[Range]) -> list[Range]:
    result: list[Range] = []
    for low, high in sorted(set(ranges)):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return result


def _edges(
    connection: sa.Connection, frontier: dict[int, list[Range]], backward: bool, as_of: float | None, level: int
) -> Iterator[Step]:
    wanted = [(dataset, low, high) for dataset, ranges in frontier.items() for low, high in ranges]
    for first in range(0, len(wanted), _CHUNK):
        chunk = wanted[first : first + _CHUNK]
        values = ", ".join(f"({int(d)}, {int(low)}, {int(high)})" for d, low, high in chunk)
        if backward:
            condition = "e.target = w.d AND e.closed > w.lo AND e.target_version <= w.hi"
        else:
            condition = "e.source = w.d AND e.source_version BETWEEN w.lo AND w.hi"
        # MAX(at) in SQLite and PostgreSQL alike picks no row, so the latest run is read off by its id in a second query
        text = (
            f"WITH w(d, lo, hi) AS (VALUES {values}) "
            "SELECT e.source, e.target, e.kind, e.mapping, min(e.source_version) AS s1, max(e.source_version) AS s2, "
            "min(e.target_version) AS t1, max(e.target_version) AS t2, max(e.id) AS last, max(e.at) AS at "
            f"FROM w JOIN edges e ON {condition} "
            + ("WHERE e.at <= :as_of " if as_of is not None else "")
            + "GROUP BY e.source, e.target, e.kind, e.mapping"
        )
        rows = connection.execute(sa.text(text), {"as_of": as_of} if as_of is not None else {}).all()
        runs = _runs(connection, [row.last for row in rows])
        for row in rows:
            yield Step(
                row.source,
                row.target,
                row.kind,
                row.mapping,
                (row.s1, row.s2),
                (row.t1, row.t2),
                runs[row.last],
                row.at,
                level,
            )


def _runs(connection: sa.Connection, ids: Sequence[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for first in range(0, len(ids), _CHUNK):
        chunk = list(ids[first : first + _CHUNK])
        for row in connection.execute(sa.select(edges.c.id, edges.c.run).where(edges.c.id.in_(chunk))):
            found[row.id] = row.run
    return found


def walk_columns(
    connection: sa.Connection,
    start: dict[int, Range],
    columns: dict[int, set[str] | None],
    backward: bool,
    depth: int | None,
    as_of: float | None,
) -> Iterator[list[ColumnStep]]:
    """Like walk, following only what the wanted columns have to do with; None stands for every column."""
    frontier = {dataset: [versions] for dataset, versions in start.items()}
    wanted = dict(columns)
    seen: set[tuple[int, str, Range]] = set()
    level = 0
    while frontier and (depth is None or level < depth):
        level += 1
        steps = list(_edges(connection, frontier, backward, as_of, level))
        found = list(_columns(connection, steps, wanted, backward))
        if found:
            yield found
        frontier = defaultdict(list)
        wanted = {}
        for column in found:
            step = column.step
            dataset = step.source if backward else step.target
            name = column.source_column if backward else column.target_column
            versions = step.source_versions if backward else step.target_versions
            if (dataset, name, versions) in seen:
                continue
            seen.add((dataset, name, versions))
            frontier[dataset].append(versions)
            if name == EVERY_COLUMN:
                wanted[dataset] = None
            else:
                names = wanted.setdefault(dataset, set())
                if names is not None:
                    names.add(name)
        frontier = {dataset: _joined(ranges) for dataset, ranges in frontier.items()}


def columns_of(connection: sa.Connection, steps: list[Step]) -> Iterator[ColumnStep]:
    """Every column link of these edges."""
    return _columns(connection, steps, {d: None for s in steps for d in (s.source, s.target)}, True)


def _columns(
    connection: sa.Connection, steps: list[Step], wanted: dict[int, set[str] | None], backward: bool
) -> Iterator[ColumnStep]:
    by_mapping: dict[int, list[Step]] = defaultdict(list)
    for step in steps:
        if step.mapping is not None:
            by_mapping[step.mapping].append(step)
    numbers = list(by_mapping)
    own = mapping_columns.c.target_column if backward else mapping_columns.c.source_column
    names: set[str] | None = set()
    for some in wanted.values():
        names = None if some is None or names is None else names | some
    for first in range(0, len(numbers), _CHUNK):
        query = sa.select(mapping_columns).where(mapping_columns.c.mapping.in_(numbers[first : first + _CHUNK]))
        if names is not None and len(names) <= _CHUNK and not any("." in name for name in names):
            plain = [*names, EVERY_COLUMN] if backward else list(names)
            query = query.where(own.in_(plain) if backward else (own.in_(plain) | own.contains(".")))
        for row in connection.execute(query):
            for step in by_mapping[row.mapping]:
                if row.source != step.source:
                    continue
                asked = wanted.get(step.target if backward else step.source)
                for target_column in _matches(row, asked, backward):
                    yield ColumnStep(step, row.source_column, target_column, row.kind, row.subtype, bool(row.masking))


def _matches(row: sa.Row[tuple[object, ...]], asked: set[str] | None, backward: bool) -> Iterable[str]:
    """The target columns under which this link answers the question."""
    if asked is None:
        return (row.target_column,)
    if backward:
        if row.target_column == EVERY_COLUMN:
            return sorted(asked)
        return (row.target_column,) if _touches(row.target_column, asked) else ()
    return (row.target_column,) if _touches(row.source_column, asked) else ()


def _touches(column: str, asked: set[str]) -> bool:
    """`s` and `s.a` have to do with each other: a struct holds its field."""
    if column in asked:
        return True
    if "." in column and any(column.startswith(a + ".") for a in asked):
        return True
    return any("." in a and a.startswith(column + ".") for a in asked)
