"""Output multiplicity, as mining wants it: how many outputs each input of an operator had, from the stored tables.

An operator is a link of a stage's tables: one operator that regroups, or a chain of narrow ones, named by its steps
and the RDD that it makes. Its instances are the partitions. What gives one output for each input by its nature (a
combiner's slots, a shuffle's buckets) is left out: nothing can stand out there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whence.model import NonDeterministic, WhenceError
from whence.rdd.capture import captured
from whence.rdd.codec import Ints
from whence.rdd.inside import same_arrivals
from whence.rdd.lineage_rdd import LineageRDD
from whence.rdd.records import lengths, records_at
from whence.rdd.tables import Table
from whence.rdd.walk import Key, Place, Seen, merged

Visited = dict[tuple[Key, int], Ints]  # positions in a space of a table


class NotOfTheResult(WhenceError):
    pass


@dataclass(frozen=True, eq=False)
class Multiplicity:
    """`counts[n]` outputs came from the n-th of these inputs of one operator in one partition."""

    operator: str
    partition: int
    counts: Ints
    order: int  # along the dataflow
    considered: bool  # whether the bad records came through here
    records: Callable[[Sequence[int]], list[Any]]  # the inputs themselves
    without: Callable[[Sequence[tuple[Multiplicity, Ints]]], Ints]  # counts without what led from such inputs
    place: tuple[Key, int]
    inputs: Ints  # their positions


def multiplicities(rdd: LineageRDD, bad: Any, good: Any) -> list[Multiplicity]:
    """`bad`: a record of the RDD, or an RDD with lineage of several, made from it; `good`: records, or such an RDD.

    With bad ones, only operators and partitions that they came through are considered; with good ones too, only inputs
    in the lineage of a bad or a good one count, though all their outputs do."""
    if rdd.node.source:
        raise NotOfTheResult(f"{rdd.node.name} is a source: nothing was computed that could be mined.")
    program = _Program(rdd)
    bad_seen = None if bad is None else program.back(_positions(rdd, bad, (bad,)))
    few = isinstance(good, LineageRDD) or len(good)
    good_seen = program.back(_positions(rdd, good, good)) if bad_seen is not None and few else None
    return list(program.found(bad_seen, good_seen))


def _positions(rdd: LineageRDD, asked: Any, records: Iterable[Any]) -> dict[Key, Ints]:
    """Where these records stand in the tables of the RDD."""
    if not isinstance(asked, LineageRDD):
        wanted = list(records)
        asked = rdd.filter(lambda record: record in wanted)
    traced = asked.getLineage()
    if asked is not rdd:
        traced = traced.goBack(to=rdd)
    tables, own = rdd.ctx.book.tables, {key[1]: key for key in captured(rdd)}
    found: dict[Key, Ints] = {}
    for place, positions in traced.state.items():
        key = own[place.part]
        if place[:3] != key and not same_arrivals(tables.of(place), tables[key]):
            raise NonDeterministic(
                f"The records of {rdd.node.name} were computed anew to find the bad or good ones, and its shuffled "
                "input arrived in another order. Ask with rdd.filter(...).getLineage() made before the action ran."
            )
        found[key] = positions
    if not found:
        raise NotOfTheResult(f"{rdd.node.name} has no such records, so there is no lineage to look at.")
    return found


class _Program:
    """All tables that an RDD was computed from."""

    def __init__(self, rdd: LineageRDD) -> None:
        self._context = rdd.ctx
        self._tables = rdd.ctx.book.tables
        self._depth: dict[Key, int] = {}
        results = captured(rdd)
        self._readers = self._tables.readers(results)
        for key in results:
            self._visit(key)
        self._order = sorted(self._depth, key=lambda k: self._depth[k])  # what feeds others comes first

    def _visit(self, key: Key) -> int:
        if key not in self._depth:
            origins = self._tables[key].origins
            below = [self._visit(o[:3]) for o in dict.fromkeys(o for o in origins if o.attempt >= 0)]
            self._depth[key] = 1 + max(below, default=0)
        return self._depth[key]

    def found(self, bad: Visited | None, good: Visited | None) -> Iterable[Multiplicity]:
        for key in self._order:
            table, info = self._tables[key], self._context.book.stages[key[0]]
            passed = lengths(info, table)
            for space in range(table.last):
                counts = table.multiplicity(space)
                if counts is None or not len(counts) or space + 1 >= len(passed):
                    continue
                steps = [s.node for s in info.steps[passed[space] : passed[space + 1]]] or [info.base.node]
                inputs = np.arange(len(counts))
                if bad is not None and good is not None:
                    none = inputs[:0]
                    inputs = np.union1d(bad.get((key, space), none), good.get((key, space), none))
                    if not len(inputs):
                        continue
                yield self._one(table, key, space, _name(steps), counts, inputs, bad)

    def _one(
        self, table: Table, key: Key, space: int, name: str, counts: Ints, inputs: Ints, bad: Visited | None
    ) -> Multiplicity:
        def without(causes: Sequence[tuple[Multiplicity, Ints]]) -> Ints:
            """An input that itself comes from a cause keeps its count: how many outputs it has is this operator's. One
            that has no other outputs is left out: it says nothing about the operator."""
            led = self.forth({c.place: c.inputs[positions] for c, positions in causes})
            gone = led.get((key, space + 1))
            if gone is None:
                return counts[inputs]
            less: Ints = counts - np.bincount(table.back_listed(space + 1, gone)[1], minlength=len(counts))
            own = led.get((key, space), inputs[:0])
            less[own] = counts[own]
            kept = inputs[(less[inputs] > 0) | (counts[inputs] == 0)]
            return np.asarray(less[kept], dtype=np.int64)

        place = Place(*key, space)
        return Multiplicity(
            name, key[1], counts[inputs], 1000 * self._depth[key] + space, bad is None or (key, space) in bad,
            lambda chosen: self._records(place, inputs[np.asarray(chosen, dtype=np.int64)]), without, (key, space),
            inputs,
        )  # fmt: skip

    def _records(self, place: Place, positions: Ints) -> list[Any]:
        """The records; where a space holds none of the program (values on their way to a join), those before."""
        distinct, which = np.unique(positions, return_inverse=True)
        if self._tables.node(place) is not None:
            found = records_at(self._context, place, distinct)
        else:
            found = []
            for position in distinct:
                state = self._tables.back({place: np.array([position])}, lambda said: None)
                came = [record for at, where in state.items() for record in records_at(self._context, at, where)]
                found.append(came[0] if len(came) == 1 else tuple(came))
        return [found[n] for n in which.tolist()]

    def back(self, start: dict[Key, Ints]) -> Visited:
        """Everything, in every space, that these results came from."""
        seen: Seen = {}
        state = {Place(*key, self._tables[key].last): positions for key, positions in start.items()}
        self._tables.back_all(state, lambda _: None, seen)
        return {(place[:3], place.space): positions for place, positions in merged(seen).items()}

    def forth(self, start: Visited) -> Visited:
        """Everything, in every space, that came of these."""
        seen: Seen = {}
        state = {Place(*key, space): np.unique(positions) for (key, space), positions in start.items()}
        self._tables.forth_all(state, self._readers, set(), lambda _: None, seen)
        return {(place[:3], place.space): positions for place, positions in merged(seen).items()}


def _name(steps: Sequence[Any]) -> str:
    shown = [s for s in steps if not s.hidden] or steps
    return " > ".join(dict.fromkeys(s.name for s in shown)) + f" (RDD {shown[-1].id})"
