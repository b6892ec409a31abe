"""Making sure that an RDD's associations are in the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from whence.rdd.lineage_rdd import LineageRDD
from whence.rdd.stages import StageInfo, View
from whence.rdd.tables import LineageMissing

if TYPE_CHECKING:
    from whence.rdd.context import LineageContext


def captured(rdd: LineageRDD, wanted: Sequence[int] | None = None) -> list[tuple[int, int, int]]:
    """The tables of an RDD's partitions, in order. What was never computed under capture is computed now."""
    context = rdd.ctx
    with context.book.asked():
        info, view = rdd._recording_view()
        parts = range(info.partitions) if wanted is None else wanted
        for again in (True, False):
            context.book.take_commits()
            found: list[tuple[int, int, int]] = []
            missing: list[int] = []
            reasons: list[str] = []
            for part in parts:
                attempts = context.book.committed.get((info.id, part), {})
                good = [a for a, (_, _, error) in attempts.items() if error is None]
                reasons.extend(error for _, _, error in attempts.values() if error is not None)
                if good:
                    found.append((info.id, part, good[-1]))
                else:
                    missing.append(part)
            if not missing:
                return found
            if again:
                with context.book.job("making lineage"):
                    context.spark.runJob(_in_known_order(context, info, view, missing), _drain, missing)
    raise LineageMissing(
        f"The lineage of {rdd.node.name} is not complete: partitions {missing} could not be written"
        f" ({'; '.join(sorted(set(reasons))) or 'their function stopped before its input ended'})."
        " Make room in the store and run the action again."
    )


def _in_known_order(context: LineageContext, info: StageInfo, view: View, parts: list[int]) -> View:
    """Where another stage has read the same inputs, they arrive as they did there: positions then mean the same."""
    if not info.base.tagged:
        return view
    order = {}
    for other in list(context.book.stages.values()):
        if other.base is not info.base:
            continue
        for part in parts:
            for attempt, (_, _, error) in context.book.committed.get((other.id, part), {}).items():
                if error is None and part not in order:
                    order[part] = context.book.tables[other.id, part, attempt].arrival
    if not order:
        return view
    stage: Any = copy(view.func)
    stage.order = order
    return view.running(stage)


def _drain(records: Iterable[Any]) -> list[Any]:
    for _ in records:
        pass
    return []
