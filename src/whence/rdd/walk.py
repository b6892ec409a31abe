"""Walking tables: from positions in one space to positions in the next. No Spark here; a driver or a later process can
do this with the store alone."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from whence.model import StoreError
from whence.rdd.codec import Ints
from whence.rdd.tables import Table
from whence.rdd.wire import Origin


class Place(NamedTuple):
    """A space of a table; or, with attempt -1, a partition of the source node `stage`."""

    stage: int
    part: int
    attempt: int
    space: int


State = dict[Place, Ints]


class LineageMissing(StoreError):
    """Associations that a trace needs are not in the store."""


class Tables:
    """Opens tables, and keeps them open: a second trace is warm."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.errors: dict[tuple[int, int, int], str] = {}  # why a table was not written
        self._open: dict[tuple[int, int, int], Table] = {}

    def __getitem__(self, key: tuple[int, int, int]) -> Table:
        found = self._open.get(key)
        if found is None:
            path = os.path.join(self.directory, str(key[0]), f"{key[1]}-{key[2]}")
            try:
                found = self._open[key] = Table(path)
            except (OSError, ValueError) as failed:
                if key in self.errors:
                    raise LineageMissing(
                        f"The associations of partition {key[1]} (stage {key[0]}) are missing: they could not be "
                        f"written when the job ran ({self.errors[key]}). Make room in the store and run the job again."
                    ) from failed
                raise LineageMissing(
                    f"The associations of partition {key[1]} (stage {key[0]}) cannot be read: {failed}. The store "
                    "may have been moved or removed since the job ran; run the action again to make them anew."
                ) from failed
        return found

    def of(self, place: Place | Origin) -> Table:
        return self[place.stage, place.part, place.attempt]

    def node(self, place: Place) -> int | None:
        return place.stage if place.attempt < 0 else self.of(place).node(place.space)

    # Backward

    def _one_back(self, place: Place, positions: Ints, note: Callable[[str], None]) -> Iterator[tuple[Place, Ints]]:
        table = self.of(place)
        if place.space:
            link = table.links[place.space - 1]
            if link["kind"] == "prefix" and link["note"]:
                note(link["note"])
            yield place._replace(space=place.space - 1), table.back(place.space, positions)
            return
        for origin, numbers in table.arrived_from(positions):
            if origin.attempt < 0:
                yield Place(origin.stage, origin.part, -1, 0), numbers
                continue
            writer = self.of(origin)
            found, ranks = writer.left_as(origin, numbers)
            if writer.element_space is not None:
                yield Place(*origin[:3], writer.element_space), writer.left_elements(found, ranks)
            else:
                yield Place(*origin[:3], writer.last), np.unique(found)

    def back(self, state: State, note: Callable[[str], None]) -> State:
        """One step: to the records of the program that these came from directly. Sources stay."""
        done: dict[Place, list[Ints]] = defaultdict(list)
        todo = [(place, positions, self.node(place)) for place, positions in state.items()]
        while todo:
            place, positions, start = todo.pop()
            if place.attempt < 0:
                done[place].append(positions)
                continue
            for before, found in self._one_back(place, positions, note):
                if not len(found):
                    continue
                node = self.node(before)
                if node is not None and node != start:
                    done[before].append(found)
                else:
                    todo.append((before, found, start))
        return merged(done)

    def back_all(self, state: State, note: Callable[[str], None]) -> State:
        while any(place.attempt >= 0 for place in state):
            state = self.back(state, note)
        return state

    # Forward

    def readers(self, results: Iterable[tuple[int, int, int]]) -> dict[Origin, list[tuple[int, int, int]]]:
        """Who read what, among the tables that the results were made from."""
        found: dict[Origin, list[tuple[int, int, int]]] = defaultdict(list)
        seen: set[tuple[int, int, int]] = set()
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

    def _one_forth(
        self,
        place: Place,
        positions: Ints,
        readers: dict[Origin, list[tuple[int, int, int]]],
        note: Callable[[str], None],
    ) -> Iterator[tuple[Place, Ints]]:
        if place.attempt < 0:
            leaving: Iterable[tuple[Origin, Ints]] = [(Origin(place.stage, place.part, -1, -1), positions)]
        else:
            table = self.of(place)
            if place.space == table.element_space:
                leaving = table.leaving_elements(positions)
            elif place.space < table.last:
                link = table.links[place.space]
                if link["kind"] == "prefix" and link["note"]:
                    note(link["note"])
                yield place._replace(space=place.space + 1), table.forth(place.space, positions)
                return
            else:
                leaving = table.leaves_as(positions)
        for origin, numbers in leaving:
            for key in readers.get(origin, ()):
                yield Place(*key, 0), self[key].arrivals_of(origin, np.unique(numbers))

    def forth(
        self, state: State, readers: dict[Origin, list[tuple[int, int, int]]], note: Callable[[str], None]
    ) -> State:
        """One step on; what nobody read stays where it is."""
        done: dict[Place, list[Ints]] = defaultdict(list)
        todo = [(place, positions, self.node(place)) for place, positions in state.items()]
        while todo:
            place, positions, start = todo.pop()
            went = False
            for after, found in self._one_forth(place, positions, readers, note):
                went = True
                if not len(found):
                    continue
                node = self.node(after)
                if node is not None and node != start:
                    done[after].append(found)
                else:
                    todo.append((after, found, start))
            if not went and place.attempt >= 0 and place.space == self.of(place).last:
                done[place].append(positions)
        return merged(done)

    def forth_all(
        self,
        state: State,
        readers: dict[Origin, list[tuple[int, int, int]]],
        results: set[tuple[int, int, int]],
        note: Callable[[str], None],
    ) -> State:
        """On to every result. A result that others were computed from is one of them, and the way goes on from it."""
        done: dict[Place, list[Ints]] = defaultdict(list)
        seen: dict[Place, Ints] = {}
        while state:
            ahead: dict[Place, list[Ints]] = defaultdict(list)
            for place, positions in state.items():
                if place in seen:
                    positions = np.setdiff1d(positions, seen[place])
                    if not len(positions):
                        continue
                    seen[place] = np.union1d(seen[place], positions)
                else:
                    seen[place] = positions
                if place.attempt >= 0 and place[:3] in results and place.space == self.of(place).last:
                    done[place].append(positions)
                for after, found in self._one_forth(place, positions, readers, note):
                    if len(found):
                        ahead[after].append(found)
            state = merged(ahead)
        return merged(done)


def merged(found: dict[Place, list[Ints]]) -> State:
    return {
        place: parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))
        for place, parts in sorted(found.items())
    }
