"""Cleaning, the full circle (Newt, sections 4.2 and 7.3.2).

Rank the outputs by quality; trace the worst and the best; find the stage where the two lineages overlap least, as early
as possible; run again from there without what the worst came from; compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from whence.actors import ActorStore, RecordSet, TracingDataflow
from whence.actors.read import matches
from whence.debug.attached import Attached
from whence.debug.minimize.minimize import only_row
from whence.debug.trace import Step, Trace
from whence.model import WhenceError
from whence.model.text import visible


class NothingToClean(WhenceError):
    pass


@dataclass(frozen=True)
class Stage:
    """One actor on the way of the worst outputs: how much of what they took there the best outputs took too."""

    path: str
    records: int
    overlap: float


@dataclass(frozen=True)
class Cleaned:
    stages: tuple[Stage, ...]  # from the sources on
    chosen: Stage
    bad: tuple[Any, ...]
    before: Mapping[Any, float]  # output -> quality
    after: Mapping[Any, float]
    result: Any  # what the restarted actors gave

    def __str__(self) -> str:
        lines = [f"{len(self.bad)} bad outputs of {len(self.before)}; excluded {self.chosen.records} records at "
                 f"{self.chosen.path}, of which the best outputs share {self.chosen.overlap:.0%}"]  # fmt: skip
        lines += [f"  {s.path:40} {s.records:8} records, overlap {s.overlap:.0%}" for s in self.stages]
        for name, found in (("before", self.before), ("after", self.after)):
            mean = sum(found.values()) / max(len(found), 1)
            lines.append(f"  {name}: {len(found)} outputs, mean quality {mean:.3f}, worst {min(found.values()):.3f}")
        return "\n".join(map(visible, lines))


def clean(
    store: ActorStore,
    root: Any,
    outputs: Mapping[Any, Any],
    quality: Callable[[Any], float],
    bad: Callable[[float], bool] | None = None,
    best: int = 1,
    at: Any = None,
) -> Cleaned:
    """`outputs`: output record of `root` -> its value, as restarts give it too; `quality(value)`: more is better.

    `bad(quality)` marks outputs to clean away; by default those in the lowest tenth. `best`: how many outputs stand for
    the good ones. `at`: the stage to exclude at, instead of the one with the least overlap.
    """
    before = {record: quality(value) for record, value in outputs.items()}
    ranked = sorted(before, key=lambda r: before[r])
    worst = [r for r in ranked if bad(before[r])] if bad else ranked[: max(1, len(ranked) // 10)]
    rest = [r for r in ranked if r not in set(worst)]
    if not worst or not rest:
        raise NothingToClean(f"{len(worst)} of {len(ranked)} outputs are bad; there must be bad and good ones.")
    trace = store.trace(worst, root=root)
    stages = _stages(trace, store.trace(rest[-best:], root=root))
    if at is None:
        chosen = min(stages, key=lambda s: s.overlap)  # the first of several: as early as possible
    else:
        path = trace.at(at).actor.path
        chosen = next(s for s in stages if s.path == path)
    result = trace.exclude(at=chosen.path).result
    after = {record: quality(value) for record, value in result.items()}
    return Cleaned(stages, chosen, tuple(worst), before, after, result)


def _stages(worst: TracingDataflow, best: TracingDataflow) -> tuple[Stage, ...]:
    good: dict[str, RecordSet] = {}
    for step in best.steps:
        good[step.actor.path] = good.get(step.actor.path, RecordSet()) | step.inputs
    stages = []
    for step in reversed(worst.steps):
        if step.actor.kind == "ghost" or not len(step.inputs):
            continue
        other = good.get(step.actor.path, RecordSet())
        shared = sum(int(matches(array, other).sum()) for array in step.inputs.arrays.values())
        stages.append(Stage(step.actor.path, len(step.inputs), shared / len(step.inputs)))
    return tuple(stages)


@dataclass(frozen=True, eq=False)
class CleanedFrame:
    """A query without what its bad rows came from, at the stage that was chosen."""

    stages: tuple[Stage, ...]  # from the sources on
    chosen: Stage
    step: Step
    before: DataFrame
    after: DataFrame


def clean_frame(session: Attached, df: DataFrame, quality: str, bad: str, best: int = 1) -> CleanedFrame:
    """`quality`: an expression over the columns of the result, more is better; `bad`: a condition for rows to clean."""
    worst = df.where(bad)
    good = df.where(~F.coalesce(F.expr(bad), F.lit(False))).orderBy(F.expr(quality).desc()).limit(best).collect()
    if not good or worst.isEmpty():
        raise NothingToClean(f"{'No' if good else 'Every'} row of the result is bad; there must be bad and good ones.")
    trace, other = session.backward(worst), [session.backward(only_row(df, row)) for row in good]
    stages: list[tuple[Stage, Step]] = []
    # The queries differ only in the filters on top, so that steps are the same counted from the sources.
    for back, step in enumerate(reversed(trace.steps), 1):
        if any(len(t.steps) < back or t.steps[-back].operator != step.operator for t in other):
            break
        stages.append((_frame_stage(trace, step, [t.at(t.steps[-back]) for t in other]), step))
    chosen, step = min(stages, key=lambda s: s[0].overlap)
    return CleanedFrame(tuple(s for s, _ in stages), chosen, step, df, trace.exclude(df, at=step))


def _frame_stage(trace: Trace, step: Step, good: list[DataFrame]) -> Stage:
    rows = trace.at(step).distinct()
    shared = rows
    for number, frame in enumerate(good):
        shared = rows.intersect(frame) if number == 0 else shared.union(rows.intersect(frame)).distinct()
    total = rows.count()
    return Stage(step.text, total, shared.count() / total if total else 1.0)
