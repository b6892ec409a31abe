"""Mining lineage for anomalies (Newt, sections 4.1 and 7.3.1).

What is looked at is *output multiplicity*: how many outputs each input of an operator had. Two phases: within each
instance (task) of an operator, which inputs stand out; and among the instances of an operator, whose mean stands out.
A front end takes part by giving Samples; nothing else about it is known here.

An instance is not suspected for what most of its peers do too: heavy keys are the nature of a join, not a fault. And a
suspect whose oddity vanishes once the outputs of an earlier suspect's odd inputs are left out is a consequence, not a
cause: a join that meets a thousand spurious records gives thousands of outputs without any fault of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from whence.debug.mining.outliers import NONE_FOUND, Outliers, grubbs_critical, repeated_grubbs
from whence.debug.mining.tails import improbable, rarer_there
from whence.model.text import visible

SHOWN_INPUTS = 20


@dataclass(frozen=True)
class Sample:
    """Multiplicities of one instance of an operator; `counts[n]` outputs came from the n-th input.

    `record(n)` names the n-th input. Peers are the instances with the same `operator`. `considered=False`: only a
    baseline for its peers, not under suspicion.
    """

    operator: str
    instance: str
    counts: Any
    record: Callable[[int], Any] = lambda n: n
    considered: bool = True
    order: int = 0  # along the dataflow: causes have a lesser one than their consequences
    recount: Callable[[Sequence[Cause]], Any] | None = None  # counts, without outputs that inputs of causes led to
    names: Callable[[Sequence[int]], Sequence[Any]] | None = None  # of several inputs at once, where that is cheaper


@dataclass(frozen=True)
class Cause:
    """Inputs (by position) of a sample that stand out."""

    sample: Sample
    positions: Any


@dataclass(frozen=True)
class Suspect:
    operator: str
    instance: str
    score: float  # times the critical value
    reasons: tuple[str, ...]
    inputs: tuple[tuple[Any, int], ...]  # (record, multiplicity) of inputs that stand out, worst first


@dataclass(frozen=True)
class InstanceSummary:
    operator: str
    instance: str
    inputs: int
    mean: float
    deviation: float
    least: int
    most: int
    considered: bool


@dataclass(frozen=True)
class Mined:
    """Suspects, most suspicious first, and what they were judged by."""

    suspects: tuple[Suspect, ...]
    instances: tuple[InstanceSummary, ...]
    associations: int
    consequences: tuple[Suspect, ...] = ()

    def plot(self, path: str | Path) -> Path:
        """Multiplicity of every instance, suspects marked: an .html page or a .png picture (needs matplotlib)."""
        from whence.debug.mining.plot import plot

        return plot(self, Path(path))

    def _repr_html_(self) -> str:
        from whence.debug.mining.plot import to_html

        return to_html(self)

    def __str__(self) -> str:
        lines = [f"{len(self.suspects)} suspects among {len(self.instances)} instances"]
        for n, suspect in enumerate(self.suspects, 1):
            lines.append(f"{n}. {suspect.operator} {suspect.instance}  score {suspect.score:.1f}")
            lines += [f"   {reason}" for reason in suspect.reasons]
        return "\n".join(map(visible, lines))


@dataclass
class _Judged:
    sample: Sample
    summary: InstanceSummary
    outliers: Outliers = NONE_FOUND
    reasons: list[str] = field(default_factory=list)
    score: float = 0.0
    odd: Any = None  # positions of the inputs that stand out
    worst: Any = ()  # of those, the ones to show

    def suspect(self) -> Suspect:
        positions = [int(n) for n in self.worst]
        names = self.sample.names(positions) if self.sample.names else [self.sample.record(n) for n in positions]
        shown = tuple((name, int(self.sample.counts[n])) for name, n in zip(names, positions, strict=True))
        return Suspect(self.sample.operator, self.sample.instance, self.score, tuple(self.reasons), shown)


def _summary(sample: Sample) -> InstanceSummary:
    import numpy as np

    counts = np.asarray(sample.counts)
    return InstanceSummary(
        sample.operator, sample.instance, len(counts), float(counts.mean()),
        float(counts.std(ddof=1)) if len(counts) > 1 else 0.0, int(counts.min()), int(counts.max()), sample.considered,
    )  # fmt: skip


def mine_samples(samples: Iterable[Sample], alpha: float = 0.05) -> Mined:
    groups: dict[str, list[_Judged]] = {}
    for sample in samples:
        if len(sample.counts):
            groups.setdefault(sample.operator, []).append(_Judged(sample, _summary(sample)))
    everyone = [j for peers in groups.values() for j in peers]
    tests = sum(j.sample.considered for j in everyone)
    for peers in groups.values():
        _judge(peers, alpha, tests)
    causes: list[_Judged] = []
    consequences: list[_Judged] = []
    for judged in sorted((j for j in everyone if j.reasons), key=lambda j: (j.sample.order, -j.score)):
        explained = _explained(judged, causes, groups[judged.sample.operator], alpha, tests)
        (consequences if explained else causes).append(judged)
    ranked = [sorted(found, key=lambda j: -j.score) for found in (causes, consequences)]
    return Mined(
        tuple(j.suspect() for j in ranked[0]),
        tuple(j.summary for j in everyone),
        sum(int(j.sample.counts.sum()) for j in everyone),
        tuple(j.suspect() for j in ranked[1]),
    )


def _judge(peers: Sequence[_Judged], alpha: float, tests: int) -> None:
    for judged in peers:
        if judged.sample.considered:
            _within(judged, [p for p in peers if p is not judged], alpha, tests)
    _among(peers, alpha / max(tests, 1))


def _explained(judged: _Judged, causes: Sequence[_Judged], peers: Sequence[_Judged], alpha: float, tests: int) -> bool:
    earlier = [
        Cause(c.sample, c.odd) for c in causes if c.odd is not None and c.sample.order < judged.sample.order
    ]  # fmt: skip
    if not earlier or judged.sample.recount is None:
        return False
    sample = replace(judged.sample, counts=judged.sample.recount(earlier))
    again = _Judged(sample, _summary(sample))
    _judge([again, *(_Judged(p.sample, p.summary) for p in peers if p is not judged)], alpha, tests)
    return not again.reasons


def _within(judged: _Judged, peers: Sequence[_Judged], alpha: float, tests: int) -> None:
    """Phase one: inputs of this instance that stand out, unless most peers have the like."""
    import numpy as np

    counts = np.asarray(judged.sample.counts)
    found = improbable(counts, alpha, tests, [p.sample.counts for p in peers])
    if not found.found:
        return
    summary = judged.summary
    half = max(1, (len(peers) + 1) // 2)
    high = summary.most >= found.high
    low = summary.least <= found.low
    # "The like" is half as far from the operator's usual as this instance's extreme.
    usual = float(np.median([p.summary.mean for p in peers] or [summary.mean]))
    if high and sum(p.summary.most - usual >= (summary.most - usual) / 2 for p in peers) >= half:
        high = False
    level = math.log(alpha / max(tests, 1))
    if high and _as_often(int((counts >= found.high).sum()), len(counts), peers, (summary.most + usual) / 2, level):
        high = False
    if low and sum(usual - p.summary.least >= (usual - summary.least) / 2 for p in peers) >= half:
        low = False
    if not high and not low:
        return
    mask = (counts >= found.high) if high else np.zeros(len(counts), bool)
    if low:
        mask |= counts <= found.low
    where = np.flatnonzero(mask)
    worst = where[np.argsort(-np.abs(counts[where] - summary.mean), kind="stable")][:SHOWN_INPUTS]
    judged.odd = where
    judged.worst = worst
    what = f"up to {summary.most}" if high else f"down to {summary.least}"
    judged.reasons.append(
        f"{len(where)} of {summary.inputs} inputs have {what} outputs, the mean is {summary.mean:.3g}"
    )
    judged.score = max(judged.score, found.score)


def _as_often(here: int, total: int, peers: Sequence[_Judged], like: float, level: float) -> bool:
    """Whether inputs of peers are like those that stand out here about as often: then it is the operator's nature."""
    there = sum(int((p.sample.counts >= like).sum()) for p in peers)
    return there > 1 and not rarer_there(here, total, there, sum(p.summary.inputs for p in peers), level)


def _among(peers: Sequence[_Judged], alpha: float) -> None:
    """Phase two: instances whose mean multiplicity stands out among their peers, beyond what chance explains."""
    import numpy as np

    means = np.array([p.summary.mean for p in peers])
    found = repeated_grubbs(means, alpha)
    if not found.found:
        return
    for judged, mean in zip(peers, means, strict=True):
        if found.low < mean < found.high or not judged.sample.considered:
            continue
        rest = [p for p in peers if p is not judged]
        usual = float(np.median([p.summary.mean for p in rest]))
        spread = max([judged.summary.deviation, *(p.summary.deviation for p in rest)])
        error = spread / judged.summary.inputs**0.5
        if abs(mean - usual) > grubbs_critical(max(len(peers), 30), alpha) * error:
            judged.reasons.append(f"its mean multiplicity is {mean:.3g}, that of its peers {usual:.3g}")
            judged.score = max(judged.score, found.score)
