"""Lineage over generated catalogues, compared with a walk too simple to be wrong.

The naive model keeps, for every version of every dataset, the set of edges it holds: an append copies the set of the
version before, an overwrite or a drop starts anew. It knows neither ranges nor SQL.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from whence.model import COMPLETED, Run
from whence.model.lineage import DIRECT, Change, ColumnLink, Link, Observation, Seen
from whence.store import Store
from whence.store.catalog import Catalog
from whence.store.copy import Copy
from whence.store.finding import meant
from whence.store.schema import OPEN
from whence.store.walking import walk

START = datetime(2026, 3, 1, tzinfo=timezone.utc)
COLUMNS = ("p", "q")
NAMES = "abcde"
_numbers = itertools.count()

names = st.sampled_from(NAMES)
externals = st.sampled_from([None, None, None, "1", "2"])
links = st.tuples(st.sampled_from(COLUMNS), st.sampled_from([*COLUMNS, "*"]))
writes = st.tuples(
    st.just("write"),
    st.sampled_from(["append", "append", "overwrite"]),
    st.lists(
        st.tuples(names, externals, st.lists(links, max_size=2, unique=True)), max_size=2, unique_by=lambda s: s[0]
    ),
    names,
    externals,
)
programs = st.lists(
    st.one_of(writes, writes, writes, st.tuples(st.just("drop"), names), st.tuples(st.just("rename"), names, names)),
    min_size=2,
    max_size=14,
)


def at(hour: float) -> datetime:
    return START + timedelta(hours=hour)


@dataclass(frozen=True)
class Edge:
    run: str
    source: int
    source_version: int
    target: int
    target_version: int
    hour: int
    columns: tuple[tuple[str, str], ...]


@dataclass
class Held:
    """A dataset: its name, and for each version when it was made, what it holds, and its format's own number."""

    name: str
    versions: list[tuple[int, frozenset[Edge], str | None]] = field(default_factory=list)

    def add(self, hour: int, edges: frozenset[Edge], external: str | None = None) -> int:
        self.versions.append((hour, edges, external))
        return len(self.versions)

    def last(self) -> frozenset[Edge]:
        return self.versions[-1][1] if self.versions else frozenset()


class Model:
    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.held: list[Held] = []
        self.meant: dict[str, int] = {}
        self.meant_at: list[dict[str, int]] = [{}]
        self.observations: list[Observation] = []

    def resolve(self, name: str) -> int:
        if name not in self.meant:
            self.meant[name] = len(self.held)
            self.held.append(Held(name))
        return self.meant[name]

    def run(self, program: list[tuple]) -> None:  # type: ignore[type-arg]
        for hour, (what, *rest) in enumerate(program, 1):
            run = Run(f"{self.namespace}-{hour}", "query", what, COMPLETED, None, at(hour), at(hour))
            self.observations.append(getattr(self, what)(hour, run, *rest))
            self.meant_at.append(dict(self.meant))

    def seen(self, name: str, external: str | None = None) -> Seen:
        return Seen(self.namespace, name, "table", tuple((c, "int") for c in COLUMNS), (), external)

    def write(self, hour, run, how, sources, target, external) -> Observation:  # type: ignore[no-untyped-def]
        numbers = [self.resolve(name) for name, _, _ in sources]
        into = self.resolve(target)
        read = [self.read(number, wanted, hour) for number, (_, wanted, _) in zip(numbers, sources, strict=True)]
        new = len(self.held[into].versions) + 1
        edges = frozenset(
            Edge(run.id, number, version, into, new, hour, tuple(columns))
            for number, version, (_, _, columns) in zip(numbers, read, sources, strict=True)
        )
        kept = self.held[into].last() if how == "append" else frozenset()
        self.held[into].add(hour, kept | edges, external)
        last = len(sources)
        return Observation(
            run,
            (*(self.seen(name, wanted) for name, wanted, _ in sources), self.seen(target, external)),
            (Change(last, how),),
            tuple(Link(place, last, "write") for place in range(last)),
            tuple(
                ColumnLink(place, source, last, column, DIRECT, "IDENTITY")
                for place, (_, _, columns) in enumerate(sources)
                for source, column in columns
            ),
        )

    def read(self, number: int, external: str | None, hour: int) -> int:
        held = self.held[number]
        found = [v for v, (_, _, label) in enumerate(held.versions, 1) if external is not None and label == external]
        if found:
            return found[-1]
        if external is not None or not held.versions:
            return held.add(hour, held.last(), external)
        return len(held.versions)

    def drop(self, hour: int, run: Run, name: str) -> Observation:
        self.held[self.resolve(name)].add(hour, frozenset())
        return Observation(run, (self.seen(name),), (Change(0, "drop"),))

    def rename(self, hour: int, run: Run, old: str, new: str) -> Observation:
        number = self.resolve(old)
        if self.meant.get(new, number) != number:
            self.held[self.meant[new]].name = f"{new} (until {at(hour).timestamp():.3f})"
        del self.meant[old]
        self.meant[new] = number
        self.held[number].name = new
        self.held[number].add(hour, self.held[number].last())
        return Observation(run, (self.seen(old), self.seen(new)), (Change(0, "rename", 1),))

    # ---- the naive walks

    def start(self, number: int, backward: bool, until: float) -> set[tuple[int, int]]:
        made = [v for v, (hour, _, _) in enumerate(self.held[number].versions, 1) if hour <= until]
        return {(number, v) for v in (made[-1:] if backward else made)}

    def edges_at(self, state: tuple[int, int], backward: bool, until: float) -> set[tuple[Edge, tuple[int, int]]]:
        """The edges at a version, each with a version on its other side."""
        if backward:
            held = self.held[state[0]].versions
            own = held[state[1] - 1][1] if 0 < state[1] <= len(held) else ()
            return {(e, (e.source, e.source_version)) for e in own if e.hour <= until}
        return {
            (e, (number, v))
            for number, held in enumerate(self.held)
            for v, (_, edges, _) in enumerate(held.versions, 1)
            for e in edges
            if (e.source, e.source_version) == state and e.hour <= until
        }

    def lineage(self, number: int, backward: bool, depth: int | None, until: float) -> set[tuple[object, ...]]:
        frontier, seen, level = self.start(number, backward, until), set(), 0
        found: dict[tuple[int, int], tuple[int, Edge]] = {}
        while frontier and (depth is None or level < depth):
            level += 1
            seen |= frontier
            after = set()
            for state in frontier:
                for e, other in self.edges_at(state, backward, until):
                    least, latest = found.get((e.source, e.target), (level, e))
                    found[e.source, e.target] = (least, max(latest, e, key=lambda e: e.hour))
                    after.add(other)
            frontier = after - seen
        return {(self.held[s].name, self.held[t].name, e.run, least) for (s, t), (least, e) in found.items()}

    def columns(self, number: int, column: str | None, backward: bool, until: float) -> set[tuple[object, ...]]:
        frontier = {(*state, column) for state in self.start(number, backward, until)}
        seen: set[tuple[int, int, str | None]] = set()
        found: dict[tuple[int, str, int, str], int] = {}
        level = 0
        while frontier:
            level += 1
            seen |= frontier
            after = set()
            for n, v, asked in frontier:
                for e, other in self.edges_at((n, v), backward, until):
                    for source, target in e.columns:
                        if asked is not None and (target if backward else source) not in (asked, "*"):
                            continue
                        told = asked if backward and target == "*" and asked is not None else target
                        found.setdefault((e.source, source, e.target, told), level)
                        after.add((*other, source if backward else None if target == "*" else target))
            frontier = {s for s in after if s not in seen and (s[0], s[1], None) not in seen}
        return {
            (self.held[s].name, sc, self.held[t].name, name, level)
            for (s, sc, t, tc), level in found.items()
            for name in (COLUMNS if tc == "*" else [tc])
        }


def check(catalog: Catalog, program: list[tuple], hours: list[int]) -> None:  # type: ignore[type-arg]
    model = Model(f"n{next(_numbers)}")
    model.run(program)
    for observation in model.observations:
        catalog.record(observation, observation)  # recorded twice is recorded once
    end = len(program)
    copy = copies.setdefault(id(catalog), Copy(catalog.reading))  # one copy sees all programs come
    for backward, hour in itertools.product([True, False], [None, *hours]):
        until = end + 1 if hour is None else hour + 0.5
        when = None if hour is None else at(until)
        meant = model.meant if hour is None else model.meant_at[hour]
        way = "backward" if backward else "forward"
        for name, number in meant.items():
            for depth in (None, 2):
                walked = catalog.lineage((model.namespace, name), way, depth, as_of=when)
                told = [(e.source.name, e.target.name, e.run, e.depth) for e in walked]
                assert len(told) == len(set(told))
                assert set(told) == model.lineage(number, backward, depth, until)
                assert [e[3] for e in told] == sorted(e[3] for e in told)
                assert set(in_memory(copy, catalog, (model.namespace, name), backward, depth, when)) == set(told)
            for column in (None, "p"):
                walked = catalog.lineage((model.namespace, name), way, level="column", column=column, as_of=when)
                columns = {(e.source.name, e.source_column, e.target.name, e.target_column, e.depth) for e in walked}
                assert columns == model.columns(number, column, backward, until)


copies: dict[int, Copy] = {}


def in_memory(
    copy: Copy, catalog: Catalog, named: tuple[str, str], backward: bool, depth: int | None, when: datetime | None
) -> list[tuple[object, ...]]:
    """The same question to the copy that the server holds."""
    snapshot = copy.snapshot()
    at_time = None if when is None else when.timestamp()
    with catalog.reading() as connection:
        (number,) = meant(connection, *named, at_time)
        last = catalog._start(connection, number, True, at_time)[0]
    low, high = (last, last) if backward else (0, OPEN - 1 if when is None else last)
    table = snapshot.edges
    found = walk(table, number, low, high, backward, depth, at_time)
    known = snapshot.datasets
    ends = {n for e in found.edges.tolist() for n in (int(table.source[e]), int(table.target[e]))}
    assert ends <= set(found.depths) or depth is not None
    return [
        (known[int(table.source[e])].name, known[int(table.target[e])].name, table.runs[e], d)
        for e, d in zip(found.edges.tolist(), found.edge_depths.tolist(), strict=True)
    ]


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    store = Store.at(tmp_path_factory.mktemp("walk"))
    yield store.catalog
    store.close()


@pytest.fixture(scope="module")
def on_postgres(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    store = Store.at(f"{postgres}?tables={tmp_path_factory.mktemp('tables')}")
    yield store.catalog
    store.close()


QUICK = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])


@settings(QUICK, max_examples=25)
@given(programs, st.data())
def test_generated_catalogues(sqlite: Catalog, program: list[tuple], data: st.DataObject) -> None:  # type: ignore[type-arg]
    check(sqlite, program, [data.draw(st.integers(1, len(program)))])


@settings(QUICK, max_examples=3, derandomize=True)
@given(programs)
def test_a_handful_on_postgresql(on_postgres: Catalog, program: list[tuple]) -> None:  # type: ignore[type-arg]
    check(on_postgres, program, [len(program) // 2])


def _w(how: str, sources: str, target: str) -> tuple:  # type: ignore[type-arg]
    return ("write", how, [(s, None, [("p", "p"), ("q", "*")]) for s in sources], target, None)


STORIES = {
    "forward goes on through an append": [_w("append", "a", "c"), _w("append", "b", "c"), _w("append", "c", "d")],
    "versions between those read": [
        _w("overwrite", "a", "b"), _w("append", "b", "c"), _w("overwrite", "d", "b"), _w("overwrite", "e", "b"),
        _w("append", "b", "c"),
    ],
    "a cycle": [_w("append", "a", "b"), _w("append", "b", "c"), _w("append", "c", "a"), _w("overwrite", "a", "b")],
    "a name given on": [_w("append", "a", "b"), ("rename", "b", "c"), _w("append", "d", "b"), _w("append", "bc", "e")],
    "dropped and made again": [_w("append", "a", "b"), ("drop", "b"), _w("append", "c", "b"), _w("append", "b", "d")],
    "renamed onto another": [
        _w("append", "a", "b"), _w("append", "c", "d"), ("rename", "b", "d"), _w("append", "d", "e"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_stories(sqlite: Catalog, story: str) -> None:
    check(sqlite, STORIES[story], list(range(1, len(STORIES[story]))))
