"""Trace points inside a stage (the paper's remark in section 4.1), in both directions.

An RDD between two boundaries has no space in the table of the stage that computed it. Where a trace stops or starts
there, the stage's steps up to the next boundary are run again on the partitions needed, unfused, so that every step has
a space; positions then go over by their number. That is sound because the same steps over the same arrivals give the
same records. What may differ is the order in which shuffled records arrive: then the answer is widened and says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from whence.model import NonDeterministic, WhenceError
from whence.rdd.barriers import Sort
from whence.rdd.capture import captured
from whence.rdd.codec import Ints
from whence.rdd.lineage_rdd import LineageRDD
from whence.rdd.narrow import Enumerate, Filter, Map, MapValues, Sample
from whence.rdd.records import lengths
from whence.rdd.stages import Node, StageInfo, Step, one_to_one
from whence.rdd.tables import Table
from whence.rdd.walk import Key, Place, State, merged

if TYPE_CHECKING:
    from whence.rdd.context import LineageContext

Note = Callable[[str], None]

_SAME_RECORD = (Map, MapValues, Filter, Enumerate, Sample, Sort)  # what these give stands for the record they took


class NotOnTheWay(WhenceError):
    """A trace was asked to go to an RDD that its records did not come through."""


def back_to(context: LineageContext, state: State, node: Node, note: Note) -> State:
    tables = context.book.tables
    done: dict[Place, list[Ints]] = defaultdict(list)
    todo = list(state.items())
    while todo:
        place, positions = todo.pop()
        if tables.node(place) == node.id:
            done[place].append(positions)
            continue
        if place.attempt < 0:
            continue
        info, table = context.book.stages[place.stage], tables.of(place)
        passed = lengths(info, table)
        inner = next((i for i in range(passed[place.space], 0, -1) if info.steps[i - 1].node is node), None)
        if inner is not None:
            parts = [place.part, *(p.part for p, _ in todo if p.stage == place.stage)]
            at, found = _inner(context, place, positions, inner, parts, note)
            done[at].append(found)
            continue
        todo.extend((p, x) for p, x in _to_arrivals(context, place, positions, note) if len(x))
    if not done and state:
        raise NotOnTheWay(
            f"These records did not come through {node.name} (RDD {node.id}): it is not an input of the traced RDD, or "
            "the trace has already gone past it. Ask goBackAll() for the sources that there are."
        )
    return merged(done)


def _to_arrivals(context: LineageContext, place: Place, positions: Ints, note: Note) -> list[tuple[Place, Ints]]:
    return context.book.tables.arrivals(place, _back(context.book.tables.of(place), place.space, 0, positions, note))


def _back(table: Table, space: int, until: int, positions: Ints, note: Note) -> Ints:
    while space > until:
        said = table.links[space - 1].get("note")
        if said:
            note(said)
        positions = table.back(space, positions)
        space -= 1
    return positions


def _space_of(passed: list[int], steps: int) -> int | None:
    """The space that holds the records of the first `steps` steps."""
    return next((s for s in range(len(passed) - 1, -1, -1) if passed[s] == steps), None)


def _inner(
    context: LineageContext, place: Place, positions: Ints, steps: int, parts: Iterable[int], note: Note
) -> tuple[Place, Ints]:
    """Back, within the stage, to the records after its first `steps` steps."""
    table, info = context.book.tables.of(place), context.book.stages[place.stage]
    passed = lengths(info, table)
    here = _space_of(passed[: place.space + 1], steps)
    if here is not None:
        return place._replace(space=here), _back(table, place.space, here, positions, note)
    boundary = next(s for s in range(place.space + 1) if passed[s] > steps)
    found = _back(table, place.space, boundary, positions, note)
    key, fine = _fine(context, info, passed[boundary], place.part, parts)
    spaces = lengths(context.book.stages[key[0]], fine)
    end, inner = _space_of(spaces, passed[boundary]), _space_of(spaces, steps)
    assert end is not None
    assert inner is not None
    if same_arrivals(table, fine):
        _check_size(info, table.size_of(boundary), fine.size_of(end))
        return Place(*key, inner), _back(fine, end, inner, found, note)
    note(_other_order(info.steps[steps - 1]))
    arrived = _arrivals_in(table, _back(table, boundary, 0, found, note), fine)
    return Place(*key, inner), _forth(fine, 0, inner, arrived)


def _forth(table: Table, space: int, until: int, positions: Ints) -> Ints:
    for s in range(space, until):
        positions = table.forth(s, positions)
    return positions


def _fine(context: LineageContext, info: StageInfo, steps: int, part: int, parts: Iterable[int]) -> tuple[Key, Table]:
    """The table of a partition in which every narrow step has a space. `parts`: others that will be asked for too, so
    that one job makes them all."""
    chain = info.steps[:steps]
    name = (id(info.base), *map(id, chain))
    if name not in context.book.inner:
        made = LineageRDD(context, info.base, chain, context.spark.emptyRDD)
        made._fine = True
        context.book.inner[name] = made
    wanted = sorted({part, *parts})
    key = captured(context.book.inner[name], wanted)[wanted.index(part)]
    return key, context.book.tables[key]


def same_arrivals(a: Table, b: Table) -> bool:
    if a is b:
        return True
    alike = [o._replace(attempt=0) for o in a.origins] == [o._replace(attempt=0) for o in b.origins]
    return alike and a.n_in == b.n_in and all(np.array_equal(x, y) for x, y in zip(a.runs, b.runs, strict=True))


def _arrivals_in(a: Table, positions: Ints, b: Table) -> Ints:
    """What arrived at `a`, where it arrived at `b`: another run of the same inputs."""
    same = {o._replace(attempt=0): o for o in b.origins}
    found = [positions[:0]]
    for origin, numbers in a.arrived_from(positions):
        other = same.get(origin._replace(attempt=0))
        if other is not None:
            found.append(b.arrivals_of(other, numbers))
    return np.unique(np.concatenate(found))


def _check_size(info: StageInfo, then: int, now: int) -> None:
    if then != now:
        raise NonDeterministic(
            f"Running {info.steps[-1].node.name} again gave {now} records where the job had {then}. A function of this "
            "stage does not give the same again, so no trace can stop or start inside it; go to its ends instead."
        )


def _other_order(step: Step) -> str:
    return (
        f"{step.node.name}: its shuffled input arrived in another order when it was run again, so the answer is of all "
        "records that the same inputs became"
    )


class _Ways:
    """From records anywhere in the program to the tables of the stages that led to results."""

    def __init__(self, context: LineageContext, results: Iterable[Node], read: Iterable[Key], note: Note) -> None:
        self.context, self.note = context, note
        self._program = _with_inputs(results)
        self.tables = context.book.tables
        self.at: dict[Place, list[Ints]] = defaultdict(list)
        self.ahead: dict[Place, list[Ints]] = defaultdict(list)
        self._read: dict[tuple[int, int], list[Key]] = defaultdict(list)
        for key in read:
            self._read[id(context.book.stages[key[0]].base), key[1]].append(key)

    def go(self, state: State) -> None:
        todo = list(state.items())
        while todo:
            place, positions = todo.pop()
            if place.attempt < 0:
                self.at[place].append(positions)
            else:
                parts = [p.part for p, _ in todo if p.stage == place.stage]
                todo.extend((p, x) for p, x in self._one(place, positions, parts) if len(x))

    def _one(self, place: Place, positions: Ints, parts: list[int]) -> list[tuple[Place, Ints]]:
        """Notes where this leads; gives what has to be looked at further back."""
        info, table = self.context.book.stages[place.stage], self.tables.of(place)
        steps = info.steps[: lengths(info, table)[place.space]]
        shared = {
            key: _shared(steps, self.context.book.stages[key[0]].steps)
            for key in self._read.get((id(info.base), place.part), ())
        }
        most = max(shared.values(), default=-1)
        used = max((i for i, s in enumerate(steps, 1) if s.node in self._program), default=0)
        if used > max(most, 0) or (most < 0 and not info.base.node.source and info.base.node in self._program):
            return []  # a result was computed from here, but nothing of this partition reached it
        if most < 0 or (not most and info.base.node.source):
            self._aside(steps)
            if info.base.pair:
                self._say_aside(info.base.node)
            return _to_arrivals(self.context, place, positions, self.note)
        self._aside(steps[most:])
        at, found = _inner(self.context, place, positions, most, parts, self.note)
        for key, n in shared.items():
            if n == most:
                self._into(key, at, found, steps[:most], parts)
        if steps or info.base.pair:
            return []
        # A cached RDD is also what its own stage made: others may have read it there.
        before = self.tables.arrivals(place, positions)
        return [(p, x) for p, x in before if self.tables.node(p) == self.tables.node(place)]

    def _aside(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            if not isinstance(step.op, _SAME_RECORD):
                self._say_aside(step.node)

    def _say_aside(self, node: Node) -> None:
        self.note(
            f"{node.name}: no result was computed from these records, so the answer is of the records they came from"
        )

    def _into(self, key: Key, at: Place, positions: Ints, steps: tuple[Step, ...], parts: list[int]) -> None:
        """Records after `steps`, found at one table, at another one of a stage that begins with the same steps."""
        table, other, info = self.tables.of(at), self.tables[key], self.context.book.stages[key[0]]
        passed, n = lengths(info, other), len(steps)
        here = _space_of(passed, n)
        if not same_arrivals(table, other):
            arrived = _arrivals_in(table, _back(table, at.space, 0, positions, self.note), other)
            if n:
                self.note(_other_order(steps[-1]))
            self.at[Place(*key, 0)].append(arrived)
            return
        if here is not None:
            self.at[Place(*key, here)].append(positions)
            return
        boundary = next(s for s in range(len(passed)) if passed[s] > n)
        there = Place(*key, boundary)
        if all(one_to_one(s.op) for s in info.steps[n : passed[boundary]]):
            where = self.at if other.node(boundary) == steps[-1].node.shown else self.ahead
            where[there].append(positions)
            return
        fine_key, fine = _fine(self.context, info, passed[boundary], key[1], parts)
        spaces = lengths(self.context.book.stages[fine_key[0]], fine)
        inner, end = _space_of(spaces, n), _space_of(spaces, passed[boundary])
        assert inner is not None
        assert end is not None
        if not same_arrivals(other, fine):
            self.note(_other_order(steps[-1]))
            arrived = _arrivals_in(table, _back(table, at.space, 0, positions, self.note), other)
            self.at[Place(*key, 0)].append(arrived)
            return
        _check_size(info, other.size_of(boundary), fine.size_of(end))
        self.ahead[there].append(_forth(fine, inner, end, positions))


def _with_inputs(nodes: Iterable[Node]) -> set[Node]:
    found: set[Node] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo.extend(node.inputs)
    return found


def _shared(a: tuple[Step, ...], b: tuple[Step, ...]) -> int:
    n = 0
    while n < min(len(a), len(b)) and a[n] is b[n]:
        n += 1
    return n


def on_the_way(
    context: LineageContext, state: State, results: Iterable[Node], read: Iterable[Key], note: Note
) -> tuple[State, State]:
    """The same records in the tables that results were made from: those that stand in them, and (second) those inside
    a stage, already moved on to what they became at its next boundary.

    An RDD made only to ask (a filter over the input, say) led to no result: its records stand for those they came from.
    """
    ways = _Ways(context, results, read, note)
    ways.go(state)
    at, ahead = ({p: x for p, x in merged(found).items() if len(x)} for found in (ways.at, ways.ahead))
    return at, ahead
