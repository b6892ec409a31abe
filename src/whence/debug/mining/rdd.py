"""Samples for mining from the tables of an RDD with lineage: its operators, partition by partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whence.debug.mining.mined import Cause, Mined, Sample, mine_samples


def mine_rdd(root: Any, bad: Any = None, good: Any = ()) -> Mined:
    """`bad`: a record, or an RDD with lineage made from the root (`root.filter(...)`); `good`: records, or such an
    RDD."""
    found = {}  # by the identity of the counts, which a Sample keeps
    samples = []
    for one in root.multiplicities(bad, good):
        found[id(one.counts)] = one
        samples.append(
            Sample(
                one.operator, f"partition {one.partition}", one.counts, considered=one.considered, order=one.order,
                recount=_recounter(one, found), names=one.records,
            )
        )  # fmt: skip
    return mine_samples(samples)


def _recounter(one: Any, found: dict[int, Any]) -> Callable[[Sequence[Cause]], Any]:
    def recount(causes: Sequence[Cause]) -> Any:
        return one.without([(found[id(cause.sample.counts)], cause.positions) for cause in causes])

    return recount
