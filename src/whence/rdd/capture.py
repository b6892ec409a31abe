"""Making sure that an RDD's associations are in the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from whence.rdd.lineage_rdd import LineageRDD
from whence.rdd.walk import LineageMissing


def captured(rdd: LineageRDD, wanted: Sequence[int] | None = None) -> list[tuple[int, int, int]]:
    """The tables of an RDD's partitions, in order. What was never computed under capture is computed now."""
    context = rdd.ctx
    with context._asked():
        info, view = rdd._recording_view()
        parts = range(info.partitions) if wanted is None else wanted
        for again in (True, False):
            context._take_commits()
            found: list[tuple[int, int, int]] = []
            missing: list[int] = []
            reasons: list[str] = []
            for part in parts:
                attempts = context._tables.get((info.id, part), {})
                good = [a for a, (_, _, error) in attempts.items() if error is None]
                reasons.extend(error for _, _, error in attempts.values() if error is not None)
                if good:
                    found.append((info.id, part, good[-1]))
                else:
                    missing.append(part)
            if not missing:
                return found
            if again:
                context.spark.runJob(view, _drain, missing)
    raise LineageMissing(
        f"The lineage of {rdd.node.name} is not complete: partitions {missing} could not be written"
        f" ({'; '.join(sorted(set(reasons))) or 'their function stopped before its input ended'})."
        " Make room in the store and run the action again."
    )


def _drain(records: Iterable[Any]) -> list[Any]:
    for _ in records:
        pass
    return []
