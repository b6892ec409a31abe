"""Walking tables: from positions in one space to positions in the next. No Spark here; a driver or a later process can
do this with the store alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from whence.rdd.codec import Ints
from whence.rdd.tables import LineageMissing, Table
from whence.rdd.wire import Origin
from whence.store import Files, files_at


class Place(NamedTuple):
    """A space of a table; or, with attempt -1, a partition of the source node `stage`."""

    stage: int
    part: int
    attempt: int
    space: int


State = dict[Place, Ints]
Key = tuple[int, int, int]  # a table: (stage, partition, attempt)


class Item(NamedTuple):
    """Positions to go on from within one table: in a space of it; or, `at` being an origin, numbers of what left the
    table (backward) or arrived at it (forward). `start`: the node where the step began."""

    at: int | Origin
    positions: Ints
    start: int | None


@dataclass
class Moved:
    """What came of walking within one table."""

    stopped: list[tuple[Place, Ints]] = field(default_factory=list)
    left: list[tuple[Origin, Ints, int | None]] = field(default_factory=list)
    ended: list[tuple[Place, Ints, list[Origin]]] = field(default_factory=list)  # forward: what left, and as whose
    notes: list[str] = field(default_factory=list)


Todo = dict[Key, list[Item]]
Seen = dict[Place, list[Ints]]  # everything that a walk came through


def _together(found: Iterable[tuple[int, int | None, Ints]]) -> list[tuple[int, int | None, Ints]]:
    parts: dict[tuple[int, int | None], list[Ints]] = defaultdict(list)
    for space, start, positions in found:
        if len(positions):
            parts[space, start].append(positions)
    return [(*k, x[0] if len(x) == 1 else np.unique(np.concatenate(x))) for k, x in parts.items()]


def _noted(table: Table, link: int, notes: list[str]) -> None:
    said = table.links[link].get("note")
    if said and said not in notes:
        notes.append(said)


def back_inside(table: Table, key: Key, items: list[Item], whole: bool, seen: Seen | None = None) -> Moved:
    """Back to the nearest records of the program, or (`whole`) to what arrived at the table."""
    moved = Moved()

    def entered(item: Item) -> tuple[int, int | None, Ints]:
        if not isinstance(item.at, Origin):
            return item.at, item.start, item.positions
        space, found = table.stood(item.at, item.positions)
        return space, item.start, np.unique(found)

    def walk(space: int, start: int | None, positions: Ints, arrived: bool) -> None:
        while len(positions):
            if seen is not None:
                seen.setdefault(Place(*key, space), []).append(positions)
            if arrived and not whole and table.node(space) not in (None, start):
                moved.stopped.append((Place(*key, space), positions))
                return
            if not space:
                moved.left.extend((o, numbers, start) for o, numbers in table.arrived_from(positions))
                return
            _noted(table, space - 1, moved.notes)
            positions = table.back(space, positions)
            space, arrived = space - 1, True

    for came in (False, True):
        for found in _together(entered(i) for i in items if isinstance(i.at, Origin) == came):
            walk(*found, came)
    return moved


def forth_inside(table: Table, key: Key, items: list[Item], whole: bool, seen: Seen | None = None) -> Moved:
    """On to the nearest records of the program, or (`whole`) to what left the table."""
    moved = Moved()

    def entered(item: Item) -> tuple[int, int | None, Ints]:
        if not isinstance(item.at, Origin):
            return item.at, item.start, item.positions
        return 0, item.start, table.arrivals_of(item.at, np.unique(item.positions))

    def walk(space: int, start: int | None, positions: Ints, arrived: bool) -> None:
        while len(positions):
            if seen is not None:
                seen.setdefault(Place(*key, space), []).append(positions)
            if arrived and not whole and table.node(space) not in (None, start):
                moved.stopped.append((Place(*key, space), positions))
                return
            if space in (table.element_space, table.last):
                grouped = space == table.element_space
                leaving = list(table.leaving_elements(positions) if grouped else table.leaves_as(positions))
                moved.left.extend((o, numbers, start) for o, numbers in leaving)
                if space == table.last:
                    moved.ended.append((Place(*key, space), positions, [o for o, _ in leaving]))
                return
            _noted(table, space, moved.notes)
            positions = table.forth(space, positions)
            space, arrived = space + 1, True

    for came in (False, True):
        for found in _together(entered(i) for i in items if isinstance(i.at, Origin) == came):
            walk(*found, came)
    return moved


class Tables:
    """Opens tables, and keeps them open: a second trace is warm. `elsewhere` runs large levels of a walk: all that is
    to be done within each table, a level being one stage of the program."""

    def __init__(self, files: str | Files) -> None:
        self.files = files_at(files)
        self.errors: dict[Key, str] = {}  # why a table was not written
        self.elsewhere: Callable[[Todo, bool, bool], list[Moved]] | None = None
        self.large = 0  # positions, above which `elsewhere` is asked
        self._open: dict[Key, Table] = {}

    def __getitem__(self, key: Key) -> Table:
        found = self._open.get(key)
        if found is None:
            try:
                found = self._open[key] = Table(self.files.local(str(key[0]), f"{key[1]}-{key[2]}"))
            except (OSError, ValueError, KeyError, TypeError) as failed:
                if key in self.errors:
                    raise LineageMissing(
                        f"The associations of partition {key[1]} (stage {key[0]}) are missing: they could not be "
                        f"written when the job ran ({self.errors[key]}). Make room in the store and run the job again."
                    ) from failed
                raise LineageMissing.of(key, failed) from failed
        return found

    def of(self, place: Place | Origin) -> Table:
        return self[place.stage, place.part, place.attempt]

    def node(self, place: Place) -> int | None:
        return place.stage if place.attempt < 0 else self.of(place).node(place.space)

    def _level(
        self, todo: Todo, forward: bool, whole: bool, note: Callable[[str], None], seen: Seen | None = None
    ) -> list[Moved]:
        if (
            self.elsewhere is not None
            and seen is None
            and sum(len(i.positions) for items in todo.values() for i in items) > self.large
        ):
            moved = self.elsewhere(todo, forward, whole)
        else:
            inside = forth_inside if forward else back_inside
            moved = [inside(self[key], key, items, whole, seen) for key, items in todo.items()]
        for said in dict.fromkeys(text for m in moved for text in m.notes):
            note(said)
        return moved

    # Backward

    def back(self, state: State, note: Callable[[str], None], whole: bool = False, seen: Seen | None = None) -> State:
        """One step: to the records of the program that these came from directly; or, `whole`, to the sources. Sources
        stay. `seen` gets all positions on the way."""
        done: dict[Place, list[Ints]] = defaultdict(list)
        todo: Todo = defaultdict(list)
        for place, positions in state.items():
            if place.attempt < 0:
                done[place].append(positions)
            else:
                todo[place[:3]].append(Item(place.space, positions, None if whole else self.node(place)))
        while todo:
            moved, todo = self._level(todo, False, whole, note, seen), defaultdict(list)
            for m in moved:
                for place, positions in m.stopped:
                    done[place].append(positions)
                for origin, numbers, start in m.left:
                    if origin.attempt < 0:
                        done[Place(origin.stage, origin.part, -1, 0)].append(numbers)
                    else:
                        todo[origin[:3]].append(Item(origin, numbers, start))
        return merged(done)

    def back_all(self, state: State, note: Callable[[str], None], seen: Seen | None = None) -> State:
        return self.back(state, note, True, seen)

    def arrivals(self, place: Place, positions: Ints) -> list[tuple[Place, Ints]]:
        """Where what arrived at a table (its space 0) had been before."""
        found: list[tuple[Place, Ints]] = []
        for origin, numbers in self.of(place).arrived_from(positions):
            if origin.attempt < 0:
                found.append((Place(origin.stage, origin.part, -1, 0), numbers))
                continue
            space, at = self.of(origin).stood(origin, numbers)
            found.append((Place(*origin[:3], space), np.unique(at)))
        return found

    # Forward

    def readers(self, results: Iterable[Key]) -> dict[Origin, list[Key]]:
        """Who read what, among the tables that the results were made from."""
        found: dict[Origin, list[Key]] = defaultdict(list)
        seen: set[Key] = set()
        todo = list(results)
        while todo:
            key = todo.pop()
            if key in seen:
                continue
            seen.add(key)
            for origin in self[key].origins:
                found[origin].append(key)
                if origin.attempt >= 0:
                    todo.append(origin[:3])
        return found

    def forth(self, state: State, readers: dict[Origin, list[Key]], note: Callable[[str], None]) -> State:
        """One step on; what nobody read stays where it is."""
        return self._forth(state, readers, None, note)

    def forth_all(
        self,
        state: State,
        readers: dict[Origin, list[Key]],
        results: set[Key],
        note: Callable[[str], None],
        seen: Seen | None = None,
    ) -> State:
        """On to every result. A result that others were computed from is one of them, and the way goes on from it."""
        return self._forth(state, readers, results, note, seen)

    def _forth(
        self,
        state: State,
        readers: dict[Origin, list[Key]],
        results: set[Key] | None,
        note: Callable[[str], None],
        through: Seen | None = None,
    ) -> State:
        done: dict[Place, list[Ints]] = defaultdict(list)
        seen: dict[tuple[Key, Origin], Ints] = {}
        todo: Todo = defaultdict(list)

        def goes_on(origin: Origin, numbers: Ints, start: int | None) -> None:
            for key in readers.get(origin, ()):
                fresh = numbers
                if results is not None:
                    before = seen.get((key, origin))
                    fresh = numbers if before is None else np.setdiff1d(numbers, before)
                    seen[key, origin] = fresh if before is None else np.union1d(before, fresh)
                if len(fresh):
                    todo[key].append(Item(origin, fresh, start))

        for place, positions in state.items():
            start = self.node(place) if results is None else None
            if place.attempt < 0:
                goes_on(Origin(place.stage, place.part, -1, -1), positions, start)
            else:
                todo[place[:3]].append(Item(place.space, positions, start))
        while todo:
            moved = self._level(todo, True, results is not None, note, through)
            todo = defaultdict(list)
            for m in moved:
                for place, positions in m.stopped:
                    done[place].append(positions)
                for place, positions, origins in m.ended:
                    if place[:3] in results if results is not None else not any(o in readers for o in origins):
                        done[place].append(positions)
                for origin, numbers, start in m.left:
                    goes_on(origin, numbers, start)
        return merged(done)


def merged(found: dict[Place, list[Ints]]) -> State:
    return {
        place: parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))
        for place, parts in sorted(found.items())
    }


def merged_states(*states: State) -> State:
    found: dict[Place, list[Ints]] = defaultdict(list)
    for state in states:
        for place, positions in state.items():
            found[place].append(positions)
    return merged(found)
