"""Where a record of an RDD with lineage came from, when a function failed on it: asked of the RDD's own lineage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whence.debug.guard import worker as guard_worker
from whence.debug.guard.culprit import SHOWN_ROWS, SourceRows
from whence.debug.guard.worker import Found
from whence.rdd import LineageRDD
from whence.rdd.barriers import Combine
from whence.rdd.narrow import FlatMapValues, MapValues
from whence.rdd.records import records_at, whereabouts


def lineage_sources(rdd: LineageRDD, found: Found) -> tuple[SourceRows, ...]:
    """The source records behind what the function was given; behind all records of the key, if it combines them."""
    wanted = found.get("function")
    for stage in reversed(list(_reachable(rdd, set()))):
        for number, step in enumerate(stage._steps):
            if wanted is None or not any(_alike(wanted, f) for f in _functions(step.op)):
                continue
            given = stage._made(stage._base, stage._steps[:number], stage._plain, stage.partitioner)
            if isinstance(step.op, Combine):
                met = given.filter(guard_worker.record_like(found["record"][0], 0))
            else:
                part = 1 if isinstance(step.op, MapValues | FlatMapValues) else None
                met = given.filter(guard_worker.record_like(found["args"][0], part))
            sources = tuple(_told(rdd, met))
            if sources:
                return sources
    return ()


def _told(rdd: LineageRDD, met: LineageRDD) -> Iterator[SourceRows]:
    context = rdd.ctx
    back = met.getLineage().goBackAll()
    places: dict[int, list[tuple[Any, str]]] = {}
    for place, positions in back.state.items():
        some = positions[:SHOWN_ROWS]
        records = records_at(context, place, some)
        where = [whereabouts(context, place, int(n)) for n in some]
        places.setdefault(place.stage, []).extend(zip(records, where, strict=True))
    for stage, rows in places.items():
        name = context.book.source_rdds[stage].node.name
        yield SourceRows(name, tuple(r for r, _ in rows), tuple(w for _, w in rows))


def _reachable(rdd: Any, seen: set[int]) -> Iterator[LineageRDD]:
    """The RDD and those that its stages read, nearest first."""
    if id(rdd) in seen:
        return
    seen.add(id(rdd))
    yield rdd
    for below in _held(rdd._base.build, set()):
        yield from _reachable(below, seen)


def _held(function: Any, seen: set[int]) -> Iterator[LineageRDD]:
    """The RDDs that a function holds in its closure: what it builds an RDD from."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            content = cell.cell_contents
        except ValueError:
            continue
        if id(content) in seen:
            continue
        seen.add(id(content))
        for item in content if isinstance(content, list | tuple) else [content]:
            if isinstance(item, LineageRDD):
                yield item
            elif callable(item):
                yield from _held(item, seen)


def _functions(op: Any) -> list[Any]:
    return [value for value in vars(op).values() if callable(value)]


def _alike(one: Any, other: Any) -> bool:
    """Whether two functions, one of which went through pickle, are the same."""
    codes = [getattr(f, "__code__", None) for f in (one, other)]
    if codes[0] is not None and codes[1] is not None:
        return bool(codes[0].co_code == codes[1].co_code and codes[0].co_firstlineno == codes[1].co_firstlineno)
    names = [(getattr(f, "__module__", ""), getattr(f, "__qualname__", repr(f))) for f in (one, other)]
    return names[0] == names[1]
