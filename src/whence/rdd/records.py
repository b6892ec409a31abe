"""Raw records at traced positions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark import RDD

from whence.rdd.codec import Ints
from whence.rdd.stages import StageInfo, Step
from whence.rdd.tables import Table
from whence.rdd.walk import Place

if TYPE_CHECKING:
    from whence.rdd.context import LineageContext


def records_at(context: LineageContext, place: Place, positions: Ints) -> list[Any]:
    """The records at ascending positions of a place, in that order."""
    if not len(positions):
        return []
    if place.attempt < 0:
        return _source_records(context, place, positions)
    info = context._stages[place.stage]
    steps = _steps_until(info, context._open.of(place), place.space)
    return _by_job(context, info, steps, place.part, positions)


def _source_records(context: LineageContext, place: Place, positions: Ints) -> list[Any]:
    source = context._sources[place.stage]
    return _selected(source._captured_view(), place.part, positions)


def _steps_until(info: StageInfo, table: Table, space: int) -> tuple[Step, ...]:
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

    was, context.capture = context.capture, True
    try:
        view = LineageRDD(context, info.base, steps, lambda: context.spark.emptyRDD())._auxiliary_view()
        return _selected(view, part, positions)
    finally:
        context.capture = was


def _selected(view: RDD[Any], part: int, positions: Ints) -> list[Any]:
    steps = np.diff(positions, prepend=-1) - 1

    def pick(records: Iterator[Any]) -> Iterator[Any]:
        records = iter(records)
        for skip in steps.tolist():
            yield from islice(records, skip, skip + 1)

    return view.ctx.runJob(view, pick, [part])
