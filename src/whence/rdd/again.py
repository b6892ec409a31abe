"""A program of RDDs run again, as plain PySpark would run it, on some of the records of its sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark import RDD

from whence.rdd.capture import captured
from whence.rdd.codec import Ints
from whence.rdd.lineage_rdd import LineageRDD
from whence.rdd.records import records_at, whereabouts
from whence.rdd.trace import Traced, whole_source
from whence.rdd.walk import Place, State

if TYPE_CHECKING:
    from whence.rdd.physical import Computed


class Instead:
    """Other records in the place of sources: every RDD of the program is made anew above them."""

    def __init__(self, sources: Mapping[int, RDD[Any]]) -> None:
        self._sources = sources
        self._made: dict[int, tuple[Computed, RDD[Any]]] = {}

    def twin(self, rdd: Computed) -> RDD[Any]:
        under: list[Computed] = [rdd]
        while under:  # a loop, as for the twins that serve when nothing is exchanged
            made = under[-1]
            first = [i for i in made._inputs if self._known(i) is None] if self._known(made) is None else []
            if first:
                under.extend(first)
                continue
            under.pop()
            if self._known(made) is None:
                self._made[id(made)] = made, made._make_twin()
        found = self._known(rdd)
        assert found is not None
        return found

    def _known(self, rdd: Computed) -> RDD[Any] | None:
        if rdd.node.source and not rdd._steps:
            return self._sources[rdd.node.id]
        return self._made[id(rdd)][1] if id(rdd) in self._made else None


class Program:
    """The way from an RDD's sources to its records."""

    def __init__(self, rdd: LineageRDD) -> None:
        self._rdd = rdd
        self._context = rdd.ctx
        self._sources = {node.id: self._context.book.source_rdds[node.id] for node in _leaves(rdd)}

    def witnesses(self, position: int | None) -> State:
        """Of the record at this position of the whole result, or of all records: the records of the sources."""
        return Traced(self._context, lambda _: self._at(position), None).goBackAll().state

    def _at(self, position: int | None) -> State:
        rdd, context = self._rdd, self._context
        if rdd.node.source:
            return self.all_of(rdd, position)
        found = {
            Place(*key, context.book.tables[key].last): np.arange(context.book.tables[key].n_out)
            for key in captured(rdd)
        }
        return _nth(found, position)

    def all_of(self, source: LineageRDD, position: int | None = None) -> State:
        captured(source)  # which tells where in their files the records stand
        return _nth(whole_source(self._context, source), position)

    def name(self, place: Place) -> str:
        """Of the source: the path of a text file, else how it was made."""
        source = self._sources[place.stage]
        reading = self._context.book.readings.get(place.stage)
        path = source._plain().name() if reading is not None and reading.lines else None
        taken = [number for number, other in self._sources.items() if other.node.name == source.node.name]
        number = taken.index(place.stage) + 1
        return path or (f"{source.node.name} {number}" if len(taken) > 1 else source.node.name)

    def where(self, place: Place, position: int) -> str:
        return whereabouts(self._context, place, position)

    def records(self, place: Place, positions: Ints) -> list[Any]:
        return records_at(self._context, place, positions)

    def run(self, chosen: Mapping[Place, Ints], known: Mapping[Place, list[Any]] | None = None) -> list[Any]:
        """The RDD's records when its sources have these records only, each in its own partition. `known`: the records
        themselves, where the driver has them."""
        sources = {}
        for number, source in self._sources.items():
            plain = source._plain()
            places = {place.part: place for place in chosen if place.stage == number}
            if known is None:
                sources[number] = plain.mapPartitionsWithIndex(_picking({p: chosen[x] for p, x in places.items()}))
            else:
                parts = [known[places[p]] if p in places else [] for p in range(plain.getNumPartitions())]
                sources[number] = _of_parts(self._context.spark, parts)
        with self._context.book.job("does it still fail?"):
            return self._above(sources).collect()

    def above(
        self,
        keep: Mapping[int, Mapping[int, Ints]] | None,
        drop: Mapping[int, Mapping[int, Ints]],
        instead: Mapping[int, RDD[Any]] | None = None,
    ) -> RDD[Any]:
        """The program on some records: of each source in `keep` those, of each in `drop` the others, of the rest all;
        told as partition and numbers. `instead`: others in the place of a source's own."""
        sources = {}
        for number, source in self._sources.items():
            plain = source._plain()
            if instead is not None and number in instead:
                plain = instead[number]
            elif keep is not None and number in keep:
                plain = plain.mapPartitionsWithIndex(_picking(keep[number]))
            elif number in drop:
                plain = plain.mapPartitionsWithIndex(leaving_out(drop[number]))
            sources[number] = plain
        return self._above(sources)

    def _above(self, sources: Mapping[int, RDD[Any]]) -> RDD[Any]:
        """The program with these RDDs in the place of its sources."""
        token = self._context.book.instead.set(Instead(sources))
        try:
            return self._rdd._plain()
        finally:
            self._context.book.instead.reset(token)


def _nth(found: State, position: int | None) -> State:
    if position is None:
        return {place: numbers for place, numbers in found.items() if len(numbers)}
    for place, numbers in found.items():
        if position < len(numbers):
            return {place: numbers[position : position + 1]}
        position -= len(numbers)
    raise IndexError(position)


def _leaves(rdd: LineageRDD) -> Iterator[Any]:
    seen = set()
    left = [rdd.node]
    while left:
        node = left.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.source:
            yield node
        left.extend(node.inputs)


def _of_parts(context: Any, parts: list[list[Any]]) -> RDD[Any]:
    if not parts:
        return context.emptyRDD()  # type: ignore[no-any-return]
    return context.parallelize(parts, len(parts)).flatMap(list)  # type: ignore[no-any-return]


def _picking(chosen: Mapping[int, Ints]) -> Any:
    def pick(part: int, given: Iterable[Any]) -> Iterator[Any]:
        records = iter(given)
        before = -1
        for position in chosen[part].tolist() if part in chosen else ():
            yield from islice(records, position - before - 1, position - before)
            before = position

    return pick


def leaving_out(chosen: Mapping[int, Ints]) -> Any:
    def rest(part: int, given: Iterable[Any]) -> Iterator[Any]:
        out = set(chosen[part].tolist()) if part in chosen else ()
        return (record for number, record in enumerate(given) if number not in out)

    return rest
