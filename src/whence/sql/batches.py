"""A stream's batch, as `foreachBatch` gives it: its rows are gone when the batch is, so they are written down."""

from __future__ import annotations

from whence.model.quiet import FACTS
from whence.sql.catalyst import Catalyst, Plan, class_name
from whence.sql.exchange import in_place_of
from whence.sql.tree import Node, rebuild, tree_of

_BATCH, _QUERY = "streaming.sql.batchId", "sql.streaming.queryId"


def keep_batch(c: Catalyst, plan: Plan) -> Plan:
    """`plan` reading its batch from the store, where each batch is written once. As it is outside of a batch."""
    context = c.spark.sparkContext
    number, query = context.getLocalProperty(_BATCH), context.getLocalProperty(_QUERY)
    if number is None or c.memory.folder is None:
        return plan

    def kept(node: Node) -> Plan | None:
        if node.kind != "LogicalRDD":
            return None
        rdd = int(node.plan.rdd().id())
        if rdd not in c.memory.checkpoints:
            path = f"{c.memory.folder}/{FACTS}/stream-{query}/batch-{number}"
            frame = c.frame(node.plan)
            with c.quietly(first=True):
                frame.write.mode("overwrite").parquet(path)
            c.memory.checkpoints[rdd] = c.plan_of(c.spark.read.schema(frame.schema).parquet(path))
        scan = c.memory.checkpoints[rdd]
        if class_name(scan) != "LogicalRelation":
            return None
        pairs = zip(c.output(scan), c.output(node.plan), strict=True)
        return in_place_of(c, node.plan, c.project([c.alias_as(one, other) for one, other in pairs], scan))

    return rebuild(c, tree_of(c, plan), kept)
