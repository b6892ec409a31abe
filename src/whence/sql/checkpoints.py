"""What stands below a checkpoint. Spark cuts the plan there; whoever saw the checkpoint being made can put it back."""

from __future__ import annotations

from pyspark.sql import DataFrame

from whence.model.quiet import FACTS
from whence.sql.catalyst import Catalyst, Plan, class_name
from whence.sql.exchange import original


def remember(c: Catalyst, made: DataFrame, below: Plan) -> None:
    """`made` is a checkpoint of what `below` gives."""
    plan = c.plan_of(made)
    if class_name(plan) == "LogicalRDD":
        c.memory.checkpoints[int(plan.rdd().id())] = below


def put_back(c: Catalyst, plan: Plan) -> Plan:
    """`plan` with every remembered checkpoint, and everything that was written down, as the user wrote it."""
    if not c.memory.checkpoints and not c.memory.facts:
        return plan
    written = original(c, plan)
    if written is not None:
        return put_back(c, written)
    if class_name(plan) == "LogicalRDD":
        below = c.memory.checkpoints.get(int(plan.rdd().id()))
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


def why_copied(c: Catalyst, scan: Plan) -> str | None:
    """Of a scan of a stream's batch that was written down: why that is not followed to the stream's own input."""
    roots = c.roots(scan) if c.is_file_scan(scan) else []
    if len(roots) != 1 or f"/{FACTS}/stream-" not in roots[0]:
        return None
    return (c.read_bytes(f"{roots[0]}.why") or b"it was captured by another version of whence").decode()
