"""Raw records at traced positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark import RDD

from whence.model import NonDeterministic
from whence.model.quiet import again
from whence.rdd.codec import Ints
from whence.rdd.narrow import Enumerate, Narrow, Sample
from whence.rdd.stages import StageInfo
from whence.rdd.tables import Table
from whence.rdd.textfiles import Split, check_unchanged, lines_at
from whence.rdd.walk import Place
from whence.rdd.worker import through

if TYPE_CHECKING:
    from whence.rdd.context import LineageContext


_BY_HAND = 100_000  # inputs; more are better run by Spark


def records_at(context: LineageContext, place: Place, positions: Ints) -> list[Any]:
    """The records at ascending positions of a place, in that order."""
    if not len(positions):
        return []
    if place.attempt < 0:
        return source_records(context, place, positions)
    info = context.book.stages[place.stage]
    table = context.book.tables.of(place)
    ops = _run_again_by(info, table, place.space)
    if ops:
        inputs = positions
        for space in range(place.space, 0, -1):
            inputs = table.back(space, inputs)
        if len(inputs) <= _BY_HAND:
            return _run_again(context, info, table, ops, place.space, inputs, positions)
    return _selected(context, place, positions)


def source_records(context: LineageContext, place: Place, positions: Ints) -> list[Any]:
    found = text_lines(context, place, positions)
    if found is not None:
        source = context.book.source_rdds[place.stage]
        if source._base.deserializer.use_unicode:  # type: ignore[attr-defined]
            return [str(line, "utf-8") for _, line in found]
        return [line for _, line in found]
    return _selected(context, place, positions)


def text_lines(context: LineageContext, place: Place, positions: Ints) -> list[tuple[int, bytes]] | None:
    """(offset, line) of a text file's records; None where they have to be read through Spark."""
    found = measured(context, place)
    if found is None or len(positions) > _BY_HAND:
        return None
    return lines_at(*found, positions)


def measured(context: LineageContext, place: Place) -> tuple[Split, tuple[Ints, Ints]] | None:
    """What is needed to read lines at their offset; None where that cannot be."""
    reading = context.book.readings.get(place.stage) if place.attempt < 0 else None
    if reading is None or not reading.lines:
        return None
    split = reading.load()[place.part]
    check_unchanged(split)
    context.book.take_commits()
    reader = context.book.readers.get((place.stage, place.part))
    table = context.book.tables[reader] if reader is not None else None
    if table is None or table.measures is None or lines_at(split, table.measures, np.zeros(0, dtype=np.int64)) is None:
        return None
    return split, table.measures


def whereabouts(context: LineageContext, place: Place, position: int) -> str:
    """Where a record was read, for people."""
    if place.attempt >= 0:
        return f"partition {place.part}, record {position}"
    found = text_lines(context, place, np.array([position]))
    if found is not None:
        split = context.book.readings[place.stage].load()[place.part]
        return f"{split.local}, byte {found[0][0]}"
    return f"{context.book.source_rdds[place.stage].node.name}, partition {place.part}, record {position}"


def _run_again_by(info: StageInfo, table: Table, space: int) -> list[Narrow]:
    """The narrow steps that lead from a source to a space, where each record can be run for itself; else none."""
    if info.base.sources is None or not info.base.node.source or info.base.pair:
        return []
    ops = [step.op for step in info.steps[: lengths(info, table)[space]]]
    each = [op for op in ops if isinstance(op, Narrow) and not isinstance(op, (Sample, Enumerate))]
    return each if len(each) == len(ops) else []


def _run_again(
    context: LineageContext,
    info: StageInfo,
    table: Table,
    ops: list[Narrow],
    space: int,
    inputs: Ints,
    positions: Ints,
) -> list[Any]:
    """The stage's first steps, on the inputs of the wanted records only."""
    for op in ops:
        op.start(table.origin.part)
    wanted = inputs
    for s in range(space):
        wanted = np.unique(table.forth(s, wanted))
    records: list[Any] = []
    for origin, numbers in table.arrived_from(inputs):
        place = Place(origin.stage, origin.part, -1, 0)
        with again():
            for record in source_records(context, place, numbers):
                for out, _ in through(ops, [record]):
                    records.extend(out)
    if len(records) != len(wanted):
        raise NonDeterministic(
            f"Running {info.steps[-1].node.name} again on its {len(inputs)} inputs gave {len(records)} records where "
            f"the job had {len(wanted)}. A function of this stage does not give the same again; its records "
            "cannot be shown, only traced through."
        )
    return [records[i] for i in np.searchsorted(wanted, positions).tolist()]


def lengths(info: StageInfo, table: Table) -> list[int]:
    """Of each space of a stage's table: how many of the stage's steps its records have passed."""
    kinds = [link["kind"] for link in table.links]
    found = [0, 0] if info.base.pair else [0]
    taken = 0
    for segment in info.segments:
        if segment.ops:
            taken += len(segment.ops)
            found.append(taken)
        if segment.barrier is not None:
            taken += 1
            found.append(taken)
            at = len(found) - 1
            if at < len(kinds) and kinds[at] == "lists" and kinds[at - 1] == "groups":  # a combiner that spilled
                found.append(taken)
    return found


def stage_view(context: LineageContext, places: list[Place]) -> RDD[Any]:
    """A plain RDD of the records of one space of a stage, or of a source, for the partitions of these places: what is
    run again for them arrives in the order in which it arrived when the job ran."""
    from whence.rdd.lineage_rdd import LineageRDD

    first = places[0]
    with context.book.asked():
        if first.attempt < 0:
            return context.book.source_rdds[first.stage]._captured_view()
        info = context.book.stages[first.stage]
        steps = info.steps[: lengths(info, context.book.tables.of(first))[first.space]]
        again = LineageRDD(context, info.base, steps, lambda: context.spark.emptyRDD())
        return again._again_view({p.part: context.book.tables.of(p).arrival for p in places})


def _selected(context: LineageContext, place: Place, positions: Ints) -> list[Any]:
    steps = np.diff(positions, prepend=-1) - 1

    def pick(given: Iterable[Any]) -> Iterator[Any]:
        records = iter(given)
        for skip in steps.tolist():
            yield from islice(records, skip, skip + 1)

    view = stage_view(context, [place])
    with context.book.job("reading"):
        return view.ctx.runJob(view, pick, [place.part])
