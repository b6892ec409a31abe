"""The answer to a lineage question about RDDs. A Traced is an RDD of the raw records at the traced point, evaluated
when an action asks for it; goBack and goNext move the point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark import RDD

from whence.model import WhenceError
from whence.model.once import once
from whence.model.text import visible
from whence.rdd.books import Result, kept_of
from whence.rdd.capture import captured
from whence.rdd.inside import back_to, on_the_way
from whence.rdd.jobs import records_of
from whence.rdd.lineage_rdd import LineageRDD
from whence.rdd.propagate import stored_whole
from whence.rdd.reading import Reading
from whence.rdd.records import records_at, whereabouts
from whence.rdd.stages import Base, Node
from whence.rdd.walk import Key, Place, State, Tables, merged_states
from whence.rdd.wire import Origin

if TYPE_CHECKING:
    from whence.rdd.context import LineageContext


class Traced(LineageRDD):
    def __init__(self, context: LineageContext, evaluate: Callable[[Traced], State], origin: LineageRDD | None) -> None:
        node = Node(next(context.book.ids), "trace", (), source=True)
        context.book.source_rdds[node.id] = self
        serializer = context.spark.serializer
        base = Base(
            node,
            self._load,
            serializer,
            lambda: [(node.id, i) for i in range(base.jrdd.partitions().size())],
        )
        self._evaluate, self._origin = evaluate, origin
        self._fetched: list[Any] | None = None
        self._notes: list[str] = []
        super().__init__(context, base, (), lambda: RDD(base.jrdd, context.spark, serializer))
        why = f"trace {node.id}: the records are those of a trace, so the way ends at them; ask that trace itself"
        context.book.readings[node.id] = Reading(self, "trace", why=why)

    @classmethod
    def start(cls, rdd: LineageRDD) -> Traced:
        """All records of an RDD, as the place to trace from."""

        def whole(traced: Traced) -> State:
            context = rdd.ctx
            if isinstance(rdd, Traced):
                traced._notes.extend(rdd._notes)
                return rdd.state
            if rdd.node.source:
                return whole_source(context, rdd)
            return {
                Place(*key, context.book.tables[key].last): np.arange(context.book.tables[key].n_out)
                for key in captured(rdd)
                if context.book.tables[key].n_out
            }

        return cls(rdd.ctx, whole, rdd)

    # The question

    def getLineage(self) -> Traced:
        return self

    def goBack(self, to: LineageRDD | None = None) -> Traced:
        """One operator or one stage back, to the records there that these came from; at a source, the same records.
        With `to`: back to that RDD, wherever in a stage it is."""
        if to is None:
            return self._moved(lambda tables, state, note: tables.back(state, note))
        wanted = to

        def move(tables: Tables, state: State, note: Callable[[str], None]) -> State:
            return back_to(self.ctx, state, wanted.node, note)

        return self._moved(move)

    def goBackAll(self, source: LineageRDD | None = None) -> Traced:
        """To the sources, or to one of them."""

        def move(tables: Tables, state: State, note: Callable[[str], None]) -> State:
            found = stored_whole(self.ctx.book, state, note) or tables.back_all(state, note)
            if source is None:
                return found
            return {p: x for p, x in found.items() if p.stage == source.node.id}

        return self._moved(move)

    def goNext(self) -> Traced:
        def move(tables: Tables, state: State, note: Callable[[str], None]) -> State:
            nodes, limits, readers = self._readers()
            at, ahead = on_the_way(self.ctx, state, nodes, _read(limits, readers), note)
            unseen = {p: x for p, x in ahead.items() if tables.node(p) is None}
            found = tables.forth({**at, **unseen}, readers, note)
            return merged_states(found, {p: x for p, x in ahead.items() if p not in unseen})

        return self._moved(move, forward=True)

    def goNextAll(self) -> Traced:
        """To every result that an action computed from these records."""

        def move(tables: Tables, state: State, note: Callable[[str], None]) -> State:
            nodes, limits, readers = self._readers()
            start = merged_states(*on_the_way(self.ctx, state, nodes, _read(limits, readers), note))
            found = tables.forth_all(start, readers, set(limits), note)
            found = {p: x[x < limits[p[:3]]] for p, x in found.items()}
            return {p: x for p, x in found.items() if len(x)}

        return self._moved(move, forward=True)

    def _moved(self, move: Callable[[Tables, State, Callable[[str], None]], State], forward: bool = False) -> Traced:
        def evaluate(traced: Traced) -> State:
            before = self.state
            traced._notes.extend(self._notes)
            return move(self.ctx.book.tables, before, traced._note)

        return Traced(self.ctx, evaluate, self._origin if forward else None)

    def _note(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)

    def _readers(self) -> tuple[list[Node], dict[Key, int], dict[Origin, list[Key]]]:
        """The results, their tables, each with how many of its records an action computed, and who read what for them.
        The RDD that the way forward began at is none of its own results."""
        book = self.ctx.book
        own = self._origin.node.id if self._origin is not None and len(book.computed) > 1 else None
        results = [(rdd, limit) for node, (rdd, limit) in list(book.computed.items()) if node != own]
        kept = kept_of(book.tables, [Result(rdd.node.id, tuple(captured(rdd)), limit) for rdd, limit in results])
        return [rdd.node for rdd, _ in results], kept, book.tables.readers(kept)

    # The answer

    def trace(self) -> Any:
        """The same question as a Trace, which goes on to whatever made the sources, and can be shown and proven."""
        if self.ctx.tracing is None:
            raise WhenceError("A Trace is made by a session: ask an RDD of w.context, with w = whence.attach(spark).")
        return self.ctx.tracing(self)

    @once
    def state(self) -> State:
        return self._evaluate(self)

    @property
    def exact(self) -> bool:
        return not self.notes

    @property
    def notes(self) -> tuple[str, ...]:
        """Which operators widened the answer, and why."""
        _ = self.state
        return tuple(self._notes)

    @property
    def _large(self) -> bool:
        return self.count() > self.ctx.large

    def _records(self) -> list[Any]:
        if self._fetched is None:
            at = self.state.items()
            self._fetched = [r for place, positions in at for r in records_at(self.ctx, place, positions)]
        return self._fetched

    def _load(self) -> Any:
        if self._large:
            return records_of(self.ctx, self.state)._jrdd
        records = self._records()
        slices = max(1, min(len(self.state), self.ctx.defaultParallelism, len(records)))
        return self.ctx.spark.parallelize(records, slices)._jrdd

    # A small trace's records are fetched by the driver: these need no Spark job.

    def collect(self) -> list[Any]:
        if self._large:
            with self.ctx.book.job("reading"):
                found: list[Any] = records_of(self.ctx, self.state).collect()
            return found
        return list(self._records())

    def count(self) -> int:
        return sum(map(len, self.state.values()))

    def take(self, num: int) -> list[Any]:
        if self._fetched is not None:
            return self._fetched[:num]
        found: list[Any] = []
        for place, positions in self.state.items():
            if len(found) >= num:
                break
            found.extend(records_at(self.ctx, place, positions[: num - len(found)]))
        return found

    def isEmpty(self) -> bool:
        return self.count() == 0

    def show(self, n: int = 20) -> None:
        """Print the first records, with where each was read."""
        left = n
        for place, positions in self.state.items():
            some = positions[:left]
            for position, record in zip(some.tolist(), records_at(self.ctx, place, some), strict=True):
                print(f"{visible(whereabouts(self.ctx, place, position))}\t{visible(record, tabs=True)}")
            left -= len(some)
            if left <= 0:
                break


def _read(limits: Iterable[Key], readers: Mapping[Any, list[Key]]) -> set[Key]:
    """All tables that results were made from."""
    return {*limits, *(key for keys in readers.values() for key in keys)}


def whole_source(context: LineageContext, rdd: LineageRDD) -> State:
    with context.book.job("counting"):
        counts = rdd._captured_view().mapPartitions(lambda it: [sum(1 for _ in it)]).collect()
    return {Place(rdd.node.id, i, -1, 0): np.arange(n) for i, n in enumerate(counts) if n}
