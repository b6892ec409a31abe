"""Raw records at traced positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark import RDD

from whence.model import NonDeterministic
from whence.rdd.codec import Ints
from whence.rdd.narrow import Enumerate, Sample
from whence.rdd.stages import StageInfo, Step
from whence.rdd.tables import Table
from whence.rdd.textfiles import check_unchanged, lines_at
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
    info = context._stages[place.stage]
    table = context._open.of(place)
    if place.space == 1 and _can_run_again(info, table):
        inputs = table.back(1, positions)
        if len(inputs) <= _BY_HAND:
            return _run_again(context, info, table, inputs, positions)
    steps = steps_until(info, table, place.space)
    return _by_job(context, info, steps, place.part, positions)


def source_records(context: LineageContext, place: Place, positions: Ints) -> list[Any]:
    found = text_lines(context, place, positions)
    if found is not None:
        source = context._sources[place.stage]
        if source._base.deserializer.use_unicode:  # type: ignore[attr-defined]
            return [str(line, "utf-8") for _, line in found]
        return [line for _, line in found]
    return _selected(context._sources[place.stage]._captured_view(), place.part, positions)


def text_lines(context: LineageContext, place: Place, positions: Ints) -> list[tuple[int, bytes]] | None:
    """(offset, line) of a text file's records; None where they have to be read through Spark."""
    splits = context._splits.get(place.stage)
    if splits is None:
        return None
    split = splits[place.part]
    check_unchanged(split)
    table = _reader_of(context, place)
    if table is None or table.measures is None or len(positions) > _BY_HAND:
        return None
    return lines_at(split, table.measures, positions)


def _reader_of(context: LineageContext, place: Place) -> Table | None:
    """Any table of a stage that read this partition of a source: it knows how long the lines were."""
    for info in context._stages.values():
        if info.base.sources is None:
            continue
        try:
            part = info.base.sources().index((place.stage, place.part))
        except ValueError:
            continue
        for attempt, (_, _, error) in context._tables.get((info.id, part), {}).items():
            if error is None:
                return context._open[info.id, part, attempt]
    return None


def _can_run_again(info: StageInfo, table: Table) -> bool:
    """Narrow steps over a source, each record for itself."""
    segment = info.segments[0]
    return (
        info.base.sources is not None
        and info.base.node.source
        and not info.base.pair
        and table.links[0]["kind"] in ("counts", "identity")
        and not any(isinstance(op, (Sample, Enumerate)) for op in segment.ops)
    )


def _run_again(context: LineageContext, info: StageInfo, table: Table, inputs: Ints, positions: Ints) -> list[Any]:
    """The stage's first steps, on the inputs of the wanted records only."""
    ops = info.segments[0].ops
    for op in ops:
        op.start(table.origin.part)
    wanted = np.unique(table.forth(0, inputs))
    records: list[Any] = []
    for origin, numbers in table.arrived_from(inputs):
        place = Place(origin.stage, origin.part, -1, 0)
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


def steps_until(info: StageInfo, table: Table, space: int) -> tuple[Step, ...]:
    """The steps whose records a space of the stage's table holds."""
    kinds = [link["kind"] for link in table.links]
    at = 1 if info.base.pair else 0
    taken = 0
    for segment in info.segments:
        if at >= space:
            break
        if segment.ops:
            taken += len(segment.ops)
            at += 1
            if at >= space:
                break
        if segment.barrier is not None:
            taken += 1
            at += 1
            if at < len(kinds) and kinds[at] == "lists" and kinds[at - 1] == "groups":
                at += 1
    return info.steps[:taken]


def _by_job(context: LineageContext, info: StageInfo, steps: tuple[Step, ...], part: int, positions: Ints) -> list[Any]:
    from whence.rdd.lineage_rdd import LineageRDD

    with context._asked():
        view = LineageRDD(context, info.base, steps, lambda: context.spark.emptyRDD())._auxiliary_view()
        return _selected(view, part, positions)


def _selected(view: RDD[Any], part: int, positions: Ints) -> list[Any]:
    steps = np.diff(positions, prepend=-1) - 1

    def pick(given: Iterable[Any]) -> Iterator[Any]:
        records = iter(given)
        for skip in steps.tolist():
            yield from islice(records, skip, skip + 1)

    return view.ctx.runJob(view, pick, [part])
