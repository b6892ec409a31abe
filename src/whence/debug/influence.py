"""How much each witness moved a number of the result.

Where the number is a sum, count, average, minimum or maximum over rows that hold the witnesses themselves, this is
worked out in one query. Elsewhere each witness is left out in turn and the query run again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from whence.debug.replay import Restriction, restricted
from whence.model import WhenceError
from whence.model.progress import working
from whence.sql import Evaluation, Lookup, Reading, ReadingPlace, SqlLineage, evaluation
from whence.sql.catalyst import Expr, class_name, id_of
from whence.sql.evaluation import OUTPUT
from whence.sql.tree import Node

MOST_RUNS = 200

_CLOSED = ("Sum", "Count", "Average", "Min", "Max")
_AS_IT_IS = ("SubqueryAlias", "View", "ResolvedHint", "Sort", "Filter", "GlobalLimit", "LocalLimit", "Settled")
_SCHEMA = "output bigint, source string, record string, influence double"


@dataclass(frozen=True, eq=False)
class _Aggregated:
    """The aggregate function behind a column, and the lookup of the grouping it stands in."""

    function: str
    value: Expr
    link: Lookup


def influence(lineage: SqlLineage, found: Evaluation, column: str, names: Mapping[int, str]) -> DataFrame:
    columns = lineage.frame.columns
    if column not in columns:
        raise WhenceError(f"The result has no column {column!r}; its columns are {', '.join(columns)}.")
    closed = _aggregate_behind(lineage, columns.index(column))
    parts: list[DataFrame] = []
    done: set[int] = set()
    with lineage.c.quietly():
        if closed is not None:
            for link in closed.link.block.annotated.links:
                if isinstance(link, Reading) and link.place.number in names:
                    parts.append(_closed_form(found, closed, link, names))
                    done.add(link.place.number)
        for place in lineage.readings:
            if place.number in names and place.number not in done:
                parts.append(_one_by_one(lineage, found, place, column, names))
    if not parts:
        return lineage.c.spark.createDataFrame([], _SCHEMA)
    result = parts[0]
    for part in parts[1:]:
        result = result.union(part)
    return result.orderBy(F.abs("influence").desc_nulls_last(), OUTPUT, "source", "record")


def _aggregate_behind(lineage: SqlLineage, position: int) -> _Aggregated | None:
    c = lineage.c
    node: Node = lineage.tree
    wanted = id_of(c.output(node.plan)[position])
    while node.kind != "Aggregate":
        if node.subqueries or node.kind not in (*_AS_IT_IS, "Project"):
            return None
        if node.kind == "Project":
            by_id = {id_of(e): e for e in c.items(node.plan.projectList())}
            inner = by_id[wanted]
            if class_name(inner) == "Alias":
                inner = inner.child()
            if class_name(inner) != "AttributeReference":
                return None
            wanted = id_of(inner)
        node = node.children[0]
    links = [link for link in lineage.root.annotated.links if isinstance(link, Lookup) and link.node is node]
    named = next((e for e in c.items(node.plan.aggregateExpressions()) if id_of(e) == wanted), None)
    if not links or named is None or class_name(named) != "Alias":
        return None
    call = named.child()
    if class_name(call) != "AggregateExpression" or call.isDistinct() or call.filter().isDefined():
        return None
    function = class_name(call.aggregateFunction())
    arguments = c.children(call.aggregateFunction())
    if function not in _CLOSED or len(arguments) != 1:
        return None
    return _Aggregated(function, arguments[0], links[0])


def _closed_form(found: Evaluation, closed: _Aggregated, link: Reading, names: Mapping[int, str]) -> DataFrame:
    c = found.c
    assert found.output is not None
    value = c.alias(closed.value, "value")
    rows = c.frame(c.project([found.output, value, *link.attrs], found.plan_at(closed.link.block.number)))
    ids = rows.columns[2:]
    number = F.col("value").cast("double")
    each = rows.groupBy(OUTPUT, *ids).agg(
        F.sum(number).alias("s"), F.count("value").alias("n"), F.min(number).alias("low"), F.max(number).alias("high")
    )
    record = evaluation.record_of(c, link.place, each.select(OUTPUT, *ids))
    moved = _moved(closed.function)
    return each.select(
        OUTPUT, F.lit(names[link.place.number]).alias("source"), record.alias("record"), moved.alias("influence")
    )


def _moved(function: str) -> Column:
    output = Window.partitionBy(OUTPUT)
    if function == "Sum":
        return F.coalesce("s", F.lit(0.0))
    if function == "Count":
        return F.col("n").cast("double")
    if function == "Average":
        total, count = F.sum("s").over(output), F.sum("n").over(output)
        mine = F.coalesce("s", F.lit(0.0))
        without = F.when(count > F.col("n"), (total - mine) / (count - F.col("n"))).otherwise(F.lit(0.0))
        return total / count - without
    name, best, order = ("low", F.min, F.asc_nulls_last) if function == "Min" else ("high", F.max, F.desc_nulls_last)
    now = best(name).over(output)
    # Without the best witness the next best counts; without any other nothing changes.
    place = F.row_number().over(Window.partitionBy(OUTPUT).orderBy(order(name)))
    following = F.lead(name).over(Window.partitionBy(OUTPUT).orderBy(order(name)))
    return F.when(place == 1, now - F.coalesce(following, F.lit(0.0))).otherwise(F.lit(0.0))


def _one_by_one(
    lineage: SqlLineage, found: Evaluation, place: ReadingPlace, column: str, names: Mapping[int, str]
) -> DataFrame:
    """Run the asked query once without each witness."""
    c = lineage.c
    spark = c.spark
    ids = found.witnesses[place.number]
    records = ids.withColumn("record", evaluation.record_of(c, place, ids)).collect()
    if not records:
        return spark.createDataFrame([], _SCHEMA)
    outputs = {row[OUTPUT] for row in records}
    if len(records) > MOST_RUNS or len(outputs) > 1:
        raise WhenceError(
            f"The influence of {len(records)} rows of {names[place.number]} on {len(outputs)} output rows would need "
            f"as many runs of the query, since {column} is no plain sum, count, average, minimum or maximum of them. "
            f"Ask about one output row with at most {MOST_RUNS} witnesses."
        )
    value = _number(lineage.frame, column)
    rows = []
    for i, row in enumerate(records):
        with working(f"leaving out row {i + 1} of {len(records)}"):
            one = c.frame(c.plan_of(ids.where(_is(row, ids.columns))))
            without = _number(restricted(lineage, None, Restriction("leftanti", {place.number: one})), column)
        moved = None if value is None else value - (without or 0.0)
        rows.append((row[OUTPUT], names[place.number], row["record"], moved))
    return spark.createDataFrame(rows, _SCHEMA)


def _is(row: object, columns: list[str]) -> Column:
    condition = F.lit(True)
    for i, name in enumerate(columns):
        condition = condition & F.col(name).eqNullSafe(F.lit(row[i]))  # type: ignore[index]
    return condition


def _number(df: DataFrame, column: str) -> float | None:
    first = df.select(F.col(column).cast("double")).first()
    return None if first is None else first[0]
