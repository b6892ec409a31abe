"""Large traces as Spark jobs: one task for each table or partition that the trace touches, and none for the others (the
paper's optimal plan, section 4.5). Positions come back to the driver packed; records stay where they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark import RDD, SparkContext

from whence.model import StoreError
from whence.rdd.codec import Ints, pack_sorted, unpack_sorted
from whence.rdd.records import measured, stage_view
from whence.rdd.tables import LineageMissing
from whence.rdd.textfiles import Split, lines_at
from whence.rdd.walk import Item, Moved, Place, State, Tables, Todo, back_inside, forth_inside
from whence.spark.rdds import pruned
from whence.store import Files

if TYPE_CHECKING:
    from whence.rdd.context import LineageContext

Packed = tuple[Any, bytes, Any]


def _packed(positions: Ints) -> bytes:
    return pack_sorted(np.unique(positions))


def walking(context: LineageContext) -> Callable[[Todo, bool, bool], list[Moved]]:
    """Runs one level of a walk as a job."""

    def level(todo: Todo, forward: bool, whole: bool) -> list[Moved]:
        for key in todo:
            if key in context.book.tables.errors:
                _ = context.book.tables[key]  # says what is missing, and why
        work = [(key, [(i.at, _packed(i.positions), i.start) for i in items]) for key, items in todo.items()]
        task = partial(_walk, context.book.files, forward, whole)
        with context.book.job("tracing"):
            answers = context.spark.parallelize(work, len(work)).map(task).collect()
        found = []
        for answer in answers:
            if isinstance(answer, str):
                raise LineageMissing(answer)
            stopped, left, ended, notes = answer
            found.append(
                Moved(
                    [(Place(*p), unpack_sorted(x)) for p, x, _ in stopped],
                    [(o, unpack_sorted(x), start) for o, x, start in left],
                    [(Place(*p), unpack_sorted(x), origins) for p, x, origins in ended],
                    notes,
                )
            )
        return found

    return level


def _walk(files: Files, forward: bool, whole: bool, work: tuple[tuple[int, int, int], list[Packed]]) -> Any:
    """On an executor."""
    key, packed = work
    items = [Item(at, unpack_sorted(x), start) for at, x, start in packed]
    try:
        moved = (forth_inside if forward else back_inside)(Tables(files)[key], key, items, whole)
    except StoreError as failed:
        return str(failed)
    return (
        [(p, _packed(x), None) for p, x in moved.stopped],
        [(o, _packed(x), start) for o, x, start in moved.left],
        [(p, _packed(x), origins) for p, x, origins in moved.ended],
        moved.notes,
    )


def records_of(context: LineageContext, state: State) -> RDD[Any]:
    """The raw records of a state, in its order, read by the tasks of whoever asks."""
    pieces: list[RDD[Any]] = []
    lines: list[tuple[Split, tuple[Ints, Ints], bytes, bool]] = []
    parts: dict[int, bytes] = {}
    view: tuple[tuple[int, ...], RDD[Any]] | None = None

    def close() -> None:
        nonlocal view
        if lines:
            pieces.append(context.spark.parallelize(list(lines), len(lines)).flatMap(_read_lines))
            lines.clear()
        if view is not None:
            pieces.append(_picked(context.spark, view[1], dict(parts)))
            parts.clear()
            view = None

    for place, positions in state.items():
        text = measured(context, place)
        if text is not None:
            if view is not None:
                close()
            reads: Any = context.book.source_rdds[place.stage]._base.deserializer
            lines.append((*text, _packed(positions), reads.use_unicode))
            continue
        name = (place.stage, min(place.attempt, 0), place.space)
        if lines or (view is not None and view[0] != name):
            close()
        if view is None:
            same = [p for p in state if (p.stage, min(p.attempt, 0), p.space) == name]
            view = (name, stage_view(context, same))
        parts[place.part] = _packed(positions)
    close()
    if not pieces:
        return context.spark.emptyRDD()
    plain = [p._reserialize(context.spark.serializer) for p in pieces]
    return plain[0] if len(plain) == 1 else context.spark.union(plain)


def _read_lines(given: tuple[Split, tuple[Ints, Ints], bytes, bool]) -> Iterator[Any]:
    """On an executor."""
    split, measures, packed, decoded = given
    found = lines_at(split, measures, unpack_sorted(packed))
    if found is None:
        raise ValueError(f"The lines of {split.path} from byte {split.start} are not where they were when it was read.")
    return (str(line, "utf-8") if decoded else line for _, line in found)


def _picked(spark: SparkContext, view: RDD[Any], parts: dict[int, bytes]) -> RDD[Any]:
    wanted = [parts[p] for p in sorted(parts)]
    return pruned(spark, view, sorted(parts)).mapPartitionsWithIndex(partial(_pick, wanted))


def _pick(wanted: list[bytes], number: int, given: Iterable[Any]) -> Iterator[Any]:
    """On an executor."""
    records = iter(given)
    for skip in (np.diff(unpack_sorted(wanted[number]), prepend=-1) - 1).tolist():
        yield from islice(records, skip, skip + 1)
