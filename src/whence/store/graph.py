"""Lineage questions: a walk over the edges, a few range queries for each step away from the start.

The walk goes from versions to versions. Version v of a dataset holds what the edges into it with
`target_version <= v < closed` brought. Backward starts at the version of the time asked and goes on to the versions
that were read, to these exactly. Forward is its mirror: it starts at every version there was, and goes on to every
version that holds what an edge brought.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from whence.model import WhenceError
from whence.model.lineage import EVERY_COLUMN, INDIRECT
from whence.store.schema import edges, mapping_columns

Range = tuple[int, int]
Ranges = tuple[Range, ...]
"""Versions: ranges with both ends, in order, with a gap between any two."""
_CHUNK = 400  # SQLite allows 32766 parameters, but plans of long OR chains are slow


class TooMuch(WhenceError):
    """A question that costs more than whoever asked is ready to pay."""


@dataclass(frozen=True)
class Bounds:
    """How far a question may go: links looked at, and the moment (time.monotonic) when it must be done."""

    links: int
    until: float

    def check(self, links: int) -> None:
        if links > self.links:
            raise TooMuch(f"This question meets more than {self.links:,} column links; ask for less of it.")
        if links % 1000 == 0 and time.monotonic() > self.until:
            raise TooMuch("This question takes too long; ask for less of it.")


@dataclass(frozen=True)
class Step:
    """Edges of one kind between two datasets; versions, run and time are those of the latest."""

    source: int
    target: int
    kind: str
    mapping: int | None
    source_version: int
    target_version: int
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


def joined(ranges: Iterable[Range]) -> Ranges:
    result: list[Range] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


def without(ranges: Ranges, taken: Ranges) -> Ranges:
    for first, last in taken:
        rest: list[Range] = []
        for low, high in ranges:
            if low < first:
                rest.append((low, min(high, first - 1)))
            if high > last:
                rest.append((max(low, last + 1), high))
        ranges = tuple(r for r in rest if r[0] <= r[1])
    return ranges


def walk(
    connection: sa.Connection, start: dict[int, Range], backward: bool, depth: int | None, as_of: float | None
) -> list[Step]:
    """The edges behind or after these versions, nearest first; those of one kind between the same two stand once."""
    seen: dict[int, Ranges] = {}
    frontier: dict[int, Ranges] = {dataset: (versions,) for dataset, versions in start.items()}
    found: dict[tuple[int, int, str], list[int]] = {}
    level = 0
    while frontier and (depth is None or level < depth):
        level += 1
        for source, target, kind, last in _between(connection, frontier, backward, as_of):
            held = found.setdefault((source, target, kind), [level, last])
            held[1] = max(held[1], last)
        for dataset, ranges in frontier.items():
            seen[dataset] = joined((*seen.get(dataset, ()), *ranges))
        reached: dict[int, list[Range]] = defaultdict(list)
        for dataset, low, high in _reached(connection, frontier, backward, as_of):
            reached[dataset].append((low, high))
        frontier = {}
        for dataset, some in reached.items():
            fresh = without(joined(some), seen.get(dataset, ()))
            if fresh:
                frontier[dataset] = fresh
    latest = _latest(connection, [last for _, last in found.values()])
    return [replace(latest[last], depth=depth_of) for depth_of, last in found.values()]


def _between(
    connection: sa.Connection, frontier: Mapping[int, Ranges], backward: bool, as_of: float | None
) -> Iterator[tuple[int, int, str, int]]:
    """(source, target, kind, number of the latest edge) of the edges that end, or begin, at these versions."""
    what = "e.source, e.target, e.kind, max(e.id)"
    for row in _asked(connection, frontier, backward, as_of, what, "GROUP BY e.source, e.target, e.kind"):
        yield row[0], row[1], row[2], row[3]


def _reached(
    connection: sa.Connection, frontier: Mapping[int, Ranges], backward: bool, as_of: float | None
) -> Iterator[tuple[int, int, int]]:
    """(dataset, first, last) of the versions on the other side of these edges."""
    if backward:
        for row in _asked(connection, frontier, backward, as_of, "DISTINCT e.source, e.source_version"):
            yield row[0], row[1], row[1]
        return
    # edges that end together hold together from the first of them on
    what = "e.target, min(e.target_version), e.closed"
    for row in _asked(connection, frontier, backward, as_of, what, "GROUP BY e.target, e.closed"):
        yield row[0], row[1], row[2] - 1


def _asked(
    connection: sa.Connection,
    frontier: Mapping[int, Ranges],
    backward: bool,
    as_of: float | None,
    what: str,
    grouped: str = "",
) -> Iterator[Any]:
    wanted = [(dataset, low, high) for dataset, ranges in frontier.items() for low, high in ranges]
    if backward:
        condition = "e.target = w.d AND e.closed > w.lo AND e.target_version <= w.hi"
    else:
        condition = "e.source = w.d AND e.source_version BETWEEN w.lo AND w.hi"
    if as_of is not None:
        condition += " AND e.at <= :as_of"
    for first in range(0, len(wanted), _CHUNK):
        chunk = wanted[first : first + _CHUNK]
        values = ", ".join(f"({int(d)}, {int(low)}, {int(high)})" for d, low, high in chunk)
        text = f"WITH w(d, lo, hi) AS (VALUES {values}) SELECT {what} FROM w JOIN edges e ON {condition} {grouped}"
        yield from connection.execute(sa.text(text), {"as_of": as_of} if as_of is not None else {})


def _latest(connection: sa.Connection, ids: Sequence[int]) -> dict[int, Step]:
    found: dict[int, Step] = {}
    for first in range(0, len(ids), _CHUNK):
        chunk = list(ids[first : first + _CHUNK])
        for row in connection.execute(sa.select(edges).where(edges.c.id.in_(chunk))):
            found[row.id] = step_of(row)
    return found


def step_of(r: Any) -> Step:
    """A row of the table of edges."""
    return Step(r.source, r.target, r.kind, r.mapping, r.source_version, r.target_version, r.run, r.at, 0)


@dataclass(frozen=True)
class _Edge:
    """One edge of many that share a source, a target, a kind and a mapping."""

    number: int
    source_version: int
    target_version: int
    closed: int


_Group = tuple[int, int, str, int]
_Link = tuple[int, str, int, str, str, str, bool]


def walk_columns(
    connection: sa.Connection,
    start: dict[int, Range],
    columns: dict[int, set[str] | None],
    backward: bool,
    depth: int | None,
    as_of: float | None,
    indirect: bool = True,
    bounds: Bounds | None = None,
) -> list[ColumnStep]:
    """Like walk, from columns of versions to columns of versions; None stands for every column.

    With indirect=False, links that only decide about values are neither given nor followed."""
    frontier: dict[int, dict[str | None, Ranges]] = {}
    for dataset, versions in start.items():
        names = columns.get(dataset)
        frontier[dataset] = dict.fromkeys([None] if names is None else sorted(names), (versions,))
    seen: dict[tuple[int, str | None], Ranges] = {}
    found: dict[_Link, list[int]] = {}
    level = 0
    while frontier and (depth is None or level < depth):
        level += 1
        for dataset, asked in frontier.items():
            for name, ranges in asked.items():
                seen[dataset, name] = joined((*seen.get((dataset, name), ()), *ranges))
        reached: dict[tuple[int, str | None], set[Range]] = defaultdict(set)
        for link, last, others in _column_links(connection, frontier, backward, as_of, bounds):
            if bounds is not None:
                bounds.check(len(found))
            if link[4] == INDIRECT and not indirect:
                continue
            held = found.setdefault(link, [level, last])
            held[1] = max(held[1], last)
            source, source_column, target, target_column = link[:4]
            other: tuple[int, str | None] = (source, source_column) if backward else (target, target_column)
            reached[(other[0], None) if other[1] == EVERY_COLUMN else other].update(others)
        frontier = defaultdict(dict)
        for (dataset, name), some in reached.items():
            fresh = without(without(joined(some), seen.get((dataset, None), ())), seen.get((dataset, name), ()))
            if fresh:
                frontier[dataset][name] = fresh
    latest = _latest(connection, list({last for _, last in found.values()}))
    return [
        ColumnStep(replace(latest[last], depth=depth_of), link[1], link[3], link[4], link[5], link[6])
        for link, (depth_of, last) in found.items()
    ]


def _column_links(
    connection: sa.Connection,
    frontier: Mapping[int, Mapping[str | None, Ranges]],
    backward: bool,
    as_of: float | None,
    bounds: Bounds | None = None,
) -> Iterator[tuple[_Link, int, Ranges]]:
    """Column links at these versions, each with the number of its latest edge and the versions on its other side."""
    groups: dict[_Group, list[_Edge]] = defaultdict(list)
    every = {dataset: joined(r for some in asked.values() for r in some) for dataset, asked in frontier.items()}
    what = "e.source, e.target, e.kind, e.mapping, e.id, e.source_version, e.target_version, e.closed"
    for row in _asked(connection, every, backward, as_of, what):
        if row[3] is not None:
            groups[row[0], row[1], row[2], row[3]].append(_Edge(row[4], row[5], row[6], row[7]))
    by_mapping: dict[int, list[_Group]] = defaultdict(list)
    for group in groups:
        by_mapping[group[3]].append(group)
    met: dict[tuple[_Group, Ranges], tuple[int, Ranges] | None] = {}
    names = {name for asked in frontier.values() for name in asked}
    for place, row in enumerate(_mapped(connection, list(by_mapping), names, backward)):
        if bounds is not None:
            bounds.check(place)
        for group in by_mapping[row.mapping]:
            source, target = group[0], group[1]
            if row.source != source:
                continue
            asked = frontier[target if backward else source]
            for target_column, ranges in _matches(row, asked, backward):
                key = (group, ranges)
                if key not in met:
                    met[key] = _met(groups[group], ranges, backward)
                hit = met[key]
                if hit is not None:
                    link = (source, row.source_column, target, target_column, row.kind, row.subtype, bool(row.masking))
                    yield link, *hit


def _met(some: list[_Edge], ranges: Ranges, backward: bool) -> tuple[int, Ranges] | None:
    """The latest of the edges that end, or begin, at these versions, and the versions on their other side."""
    if backward:
        hit = [e for e in some if any(e.target_version <= high and e.closed > low for low, high in ranges)]
        versions = joined({(e.source_version, e.source_version) for e in hit})
    else:
        hit = [e for e in some if any(low <= e.source_version <= high for low, high in ranges)]
        versions = joined({(e.target_version, e.closed - 1) for e in hit})
    return (max(e.number for e in hit), versions) if hit else None


def columns_of(connection: sa.Connection, steps: list[Step]) -> Iterator[ColumnStep]:
    """Every column link of these edges."""
    by_mapping: dict[int, list[Step]] = defaultdict(list)
    for step in steps:
        if step.mapping is not None:
            by_mapping[step.mapping].append(step)
    for row in _mapped(connection, list(by_mapping), {None}, True):
        for step in by_mapping[row.mapping]:
            if row.source == step.source:
                yield ColumnStep(step, row.source_column, row.target_column, row.kind, row.subtype, bool(row.masking))


def _mapped(connection: sa.Connection, numbers: list[int], names: set[str | None], backward: bool) -> Iterator[Any]:
    """The column links of these mappings; those that cannot have to do with any of the names may be left out."""
    own = mapping_columns.c.target_column if backward else mapping_columns.c.source_column
    plain = [name for name in names if name is not None]
    for first in range(0, len(numbers), _CHUNK):
        query = sa.select(mapping_columns).where(mapping_columns.c.mapping.in_(numbers[first : first + _CHUNK]))
        if None not in names and len(plain) <= _CHUNK and not any("." in name for name in plain):
            query = query.where(own.in_([*plain, EVERY_COLUMN]) | own.contains("."))
        yield from connection.execute(query)


def _matches(row: Any, asked: Mapping[str | None, Ranges], backward: bool) -> Iterator[tuple[str, Ranges]]:
    """The target columns under which this link answers the question, and the versions that were asked about."""
    if None in asked:
        yield row.target_column, asked[None]
    if backward and row.target_column == EVERY_COLUMN:
        yield from ((name, ranges) for name, ranges in asked.items() if name is not None)
        return
    column = row.target_column if backward else row.source_column
    for name, ranges in asked.items():
        if name is not None and _touches(column, name):
            yield row.target_column, ranges


def _touches(column: str, asked: str) -> bool:
    """`s` and `s.a` have to do with each other: a struct holds its field."""
    return column == asked or column.startswith(f"{asked}.") or asked.startswith(f"{column}.")
