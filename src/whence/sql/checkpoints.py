"""What stands below a checkpoint. Spark cuts the plan there; whoever saw the checkpoint being made can put it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame

from whence.sql.catalyst import Catalyst, Plan, class_name

_METHODS = ("checkpoint", "localCheckpoint")
# Which rows these keep is certain only below a sort; a checkpoint of them is itself the surest source.
_UNSURE = ("GlobalLimit", "Offset", "Sample", "Tail")


@contextmanager
def remembered(c: Catalyst) -> Iterator[None]:
    """Within the block, what every `checkpoint` and `localCheckpoint` is made from is remembered."""
    kind = type(c.spark.range(0))
    before = {name: getattr(kind, name) for name in _METHODS}
    for name, method in before.items():
        setattr(kind, name, _remembering(c, method))
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(kind, name, method)


def _remembering(c: Catalyst, method: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    def call(df: Any, *args: Any, **options: Any) -> DataFrame:
        made = method(df, *args, **options)
        plan, below = c.plan_of(made), c.plan_of(df)
        if class_name(plan) == "LogicalRDD" and _can_run_again(below):
            c.checkpoints[int(plan.rdd().id())] = below
        return made

    return call


def _can_run_again(plan: Plan) -> bool:
    text = plan.toString()
    return bool(plan.deterministic()) and ("Sort" in text or not any(name in text for name in _UNSURE))


def put_back(c: Catalyst, plan: Plan) -> Plan:
    """`plan` with every remembered checkpoint exchanged for what it was made from."""
    if not c.checkpoints:
        return plan
    if class_name(plan) == "LogicalRDD":
        below = c.checkpoints.get(int(plan.rdd().id()))
        if below is None:
            return plan
        below = put_back(c, below)
        pairs = list(zip(c.output(below), c.output(plan), strict=True))
        if all(old.exprId().equals(new.exprId()) for old, new in pairs):
            return below
        return c.project([c.alias_as(old, new) for old, new in pairs], below)
    children = c.children(plan)
    new = [put_back(c, child) for child in children]
    if all(one is other for one, other in zip(children, new, strict=True)):
        return plan
    return c.with_children(plan, new)
