"""A stream's batch, as `foreachBatch` gives it, is the stream's own query over the files that this batch read.

Where it is not (the stream keeps state over its batches, reads something else than files, or may come out otherwise
each time) the batch's rows are written down, since they are gone when the batch is, and a trace that ends at them says
why."""

from __future__ import annotations

from whence.model import operators
from whence.model.quiet import FACTS
from whence.spark.paths import literal
from whence.spark.streams import batch_plan, execution_of
from whence.sql import plans
from whence.sql.catalyst import Catalyst, Plan, class_name
from whence.sql.checkpoints import why_copied
from whence.sql.exchange import in_place_of
from whence.sql.tree import Node, rebuild, tree_of
from whence.sql.writes import unsettled

_BATCH, _QUERY = "streaming.sql.batchId", "sql.streaming.queryId"
# What these give for the rows of a batch does not depend on the rows of others.
_ROW_BY_ROW = (
    *("Project", "Filter", "SubqueryAlias", "View", "ResolvedHint", "Union", "Generate", "Repartition"),
    *("RepartitionByExpression", "RebalancePartitions", *operators.PYTHON_BATCHES, "EventTimeWatermark"),
    *("LogicalRelation", "LocalRelation"),
)


class NotByFiles(Exception):
    """A stream's rows cannot be told from its input files; says why, as the end of a sentence."""


def keep_batch(c: Catalyst, plan: Plan) -> Plan:
    """`plan` as it is, where the query behind its batch is known from now on; else reading its batch from the store,
    where each batch is written once. As it is outside of a batch, too."""
    context = c.spark.sparkContext
    number, query = context.getLocalProperty(_BATCH), context.getLocalProperty(_QUERY)
    if number is None or c.memory.folder is None:
        return plan

    def kept(node: Node) -> Plan | None:
        if node.kind != "LogicalRDD":
            return None
        rdd = int(node.plan.rdd().id())
        if rdd not in c.memory.checkpoints:
            try:
                c.memory.checkpoints[rdd] = _own_query(c, query, int(number), node.plan)
            except NotByFiles as why:
                c.memory.checkpoints[rdd] = _copied(c, node.plan, f"stream-{query}/batch-{number}", str(why))
        below = c.memory.checkpoints[rdd]
        if not is_copy(c, below):
            return None
        pairs = zip(c.output(below), c.output(node.plan), strict=True)
        return in_place_of(c, node.plan, c.project([c.alias_as(one, other) for one, other in pairs], below))

    return rebuild(c, tree_of(c, plan), kept)


def is_copy(c: Catalyst, plan: Plan) -> bool:
    return class_name(plan) == "LogicalRelation" and why_copied(c, plan) is not None


def _copied(c: Catalyst, batch: Plan, name: str, why: str) -> Plan:
    path = f"{c.memory.folder}/{FACTS}/{name}"
    frame = c.frame(batch)
    with c.quietly(first=True):
        frame.write.mode("overwrite").parquet(path)
    c.write_bytes(f"{path}.why", why.encode())
    return c.plan_of(c.spark.read.schema(frame.schema).parquet(literal(path)))


def _own_query(c: Catalyst, query: str | None, number: int, batch: Plan) -> Plan:
    execution = None if query is None else execution_of(c.spark, query)
    plan = None if execution is None else batch_plan(execution, number)
    if plan is None or len(c.output(plan)) != len(c.output(batch)):
        raise NotByFiles("Spark does not tell which query the batch is of")
    made = over_files(c, tree_of(c, plan))
    tree = tree_of(c, c.normalise(made))
    why = unsettled(c, tree, expressions=True)
    if why is not None:
        raise NotByFiles(f"the stream's {why.removeprefix('its ')}")
    pairs = list(zip(c.output(made), c.output(batch), strict=True))
    if all(old.exprId().equals(new.exprId()) for old, new in pairs):
        return made
    return c.project([c.alias_as(old, new) for old, new in pairs], made)


def over_files(c: Catalyst, tree: Node) -> Plan:
    """A stream's query over the files of some batches, as a query that is no stream."""
    require_row_by_row(tree)

    def replaced(node: Node) -> Plan | None:
        if node.kind == "EventTimeWatermark":
            return rebuild(c, node.children[0], replaced)
        if node.children or not node.plan.isStreaming():
            return None
        if node.kind == "LocalRelation":
            return c.empty_like(node.plan)
        leaf = plans.files_leaf(c, node)
        if leaf is None:
            raise NotByFiles("the stream reads something else than files")
        return plans.reading(c, leaf, c.output(node.plan))

    return rebuild(c, tree, replaced)


def require_row_by_row(tree: Node) -> None:
    for node in tree.walk():
        if not node.plan.isStreaming():
            continue
        joins = node.kind == "Join" and sum(bool(child.plan.isStreaming()) for child in node.children) < 2
        if node.children and node.kind not in _ROW_BY_ROW and not joins:
            raise NotByFiles(f"the stream keeps state over its batches ({node.kind})")
