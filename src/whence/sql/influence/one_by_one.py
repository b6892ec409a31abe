"""The value of one output without each of its witnesses, by running the query again: for queries that cannot be
computed in all worlds at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from whence.model import WhenceError
from whence.model.text import readable
from whence.progress import working
from whence.sql import Evaluation, Lookup, Node, ReadingPlace, SqlLineage
from whence.sql.catalyst import Attr, Catalyst, Plan, class_name, id_of
from whence.sql.evaluation import OUTPUT
from whence.sql.influence.worlds import NO_WORLD
from whence.sql.replay import Restriction, restricted

MOST_RUNS = 200
WORLD = "whence_world"
ROW_BY_ROW = ("SubqueryAlias", "View", "ResolvedHint", "Sort", "Filter", "Project", "Generate", "Expand")

_SCHEMA = f"output bigint, {WORLD} bigint, without double, outcome string"
_NAMING = ("SubqueryAlias", "View", "ResolvedHint", "Project")
_LIMITS = ("Sort", "GlobalLimit", "LocalLimit")


def asked_values(found: Evaluation, positions: Mapping[str, int]) -> DataFrame:
    """The asked rows by number, with these of their columns."""
    c = found.c
    assert found.output is not None
    assert found.rows is not None
    columns = c.output(found.lineage.tree.plan)
    own = [c.alias(columns[position], name) for name, position in positions.items()]
    return c.frame(c.project([found.output, *own], c.plan_of(found.rows)))


def one_by_one(
    lineage: SqlLineage,
    found: Evaluation,
    position: int,
    name: str,
    places: Sequence[ReadingPlace],
    numbered: DataFrame,
) -> DataFrame:
    """output, world, without, outcome; an output that is gone in a world is missing."""
    c = lineage.c
    keys = _keys(lineage)
    hidden = _hidden_keys(found) if keys is None else []
    if keys is None:
        own = [c.alias(a, f"asked{n}") for n, a in enumerate(hidden)]
        assert found.rows is not None
        asked = c.frame(c.project([found.output, *own], c.plan_of(found.rows)))
        keys = [len(lineage.frame.columns) + n for n in range(len(hidden))]
    else:
        asked = asked_values(found, {f"asked{n}": at for n, at in enumerate(keys)})
    rows = [row for row in numbered.collect() if row[WORLD] != NO_WORLD]
    outputs = [row[0] for row in asked.collect()]
    if not rows:
        return c.spark.createDataFrame([], _SCHEMA)
    if len(rows) > MOST_RUNS or len(outputs) > 1:
        raise WhenceError(
            f"The influence of {len(rows):,} rows of {name} on {len(outputs):,} output rows would need as many runs of "
            f"the query: it has an operator ({_hindrance(lineage)}) that whence cannot compute without each of many "
            f"rows at once. Ask about one output row with at most {MOST_RUNS} witnesses."
        )
    told = []
    for i, row in enumerate(rows):
        with working(f"leaving out row {i + 1} of {len(rows)} of {name}"):
            one = c.frame(c.plan_of(numbered.where(F.col(WORLD) == row[WORLD]).drop(WORLD)))
            plan = c.plan_of(restricted(lineage, None, Restriction("leftanti", {p.number: one for p in places})))
            plan = _with_keys(c, plan)[0] if hidden else plan
            values = _value(c, _chosen_by(c, plan, filters=not keys and not _grouped(lineage)), position, keys, asked)
            kept = not values or not keys or bool(_value(c, _chosen_by(c, plan, filters=True), position, keys, asked))
        if len(values) > 1:
            raise WhenceError(
                "Without one of its witnesses the asked row becomes several rows, so there is no one value to compare "
                "with. Ask about a column of an aggregate."
            )
        if values:
            outcome = "filtered" if not kept else "null" if values[0] is None else "value"
            told.append((outputs[0], row[WORLD], values[0], outcome))
    return c.spark.createDataFrame(told, _SCHEMA)


def _value(c: Catalyst, plan: Plan, position: int, keys: Sequence[int], asked: DataFrame) -> list[float | None]:
    attrs = c.output(plan)
    own = [c.alias(attrs[at], f"own{n}") for n, at in enumerate(keys)]
    rows = c.frame(c.project([c.alias(attrs[position], "x"), *own], plan))
    if keys:
        same = [F.col(f"own{n}").eqNullSafe(F.col(f"asked{n}")) for n in range(len(keys))]
        rows = rows.join(asked.drop(OUTPUT), reduce(lambda a, b: a & b, same))
    return [row[0] for row in rows.select(F.col("x").cast("double")).head(2)]


def _chosen_by(c: Catalyst, plan: Plan, *, filters: bool) -> Plan:
    """The query without what only chooses among its rows at the top."""
    kind = class_name(plan)
    if kind in _LIMITS or (kind == "Filter" and not filters):
        return _chosen_by(c, plan.child(), filters=filters)
    if kind in (*_NAMING, "Filter"):
        return c.with_children(plan, [_chosen_by(c, plan.child(), filters=filters)])
    return plan


def _top(lineage: SqlLineage) -> tuple[list[Node], Node]:
    """What only names and chooses rows, from the top, and what makes them."""
    node, above = lineage.tree, []
    while node.kind in (*_NAMING, *_LIMITS, "Filter") and len(node.children) == 1:
        above.append(node)
        node = node.children[0]
    return above, node


def _grouped(lineage: SqlLineage) -> bool:
    return _top(lineage)[1].kind == "Aggregate"


def _keys(lineage: SqlLineage) -> list[int] | None:
    """The columns of the result that tell the asked row in every world: the keys of its group; None where these are not
    all among the columns. No columns where the query has one row, or where nothing that changes with the witnesses
    chooses the row."""
    c = lineage.c
    above, node = _top(lineage)
    if node.kind != "Aggregate":
        fixed = {id_of(a) for a in c.output(node.plan)} if not node.children else set()
        for one in above:
            if one.kind in _LIMITS[1:] or (
                one.kind == "Filter" and (one.subqueries or not c.references(one.plan.condition()) <= fixed)
            ):
                raise WhenceError(
                    f"Influence must run this query again without each witness ({_hindrance(lineage)}), and then "
                    f"{one.text} may choose another row than the one asked about. Ask about the query without it."
                )
        return []
    grouping = c.items(node.plan.groupingExpressions())
    known: dict[int, int] = {}
    for e in c.items(node.plan.aggregateExpressions()):
        made = e.child() if class_name(e) == "Alias" else e
        known |= {id_of(e): n for n, g in enumerate(grouping) if made.semanticEquals(g)}
    for one in reversed(above):
        if one.kind == "Project":
            for e in c.items(one.plan.projectList()):
                made = e.child() if class_name(e) == "Alias" else e
                if class_name(made) == "AttributeReference" and id_of(made) in known:
                    known[id_of(e)] = known[id_of(made)]
    found = {known[id_of(a)]: at for at, a in enumerate(c.output(lineage.tree.plan)) if id_of(a) in known}
    return [found[n] for n in range(len(grouping))] if len(found) == len(grouping) else None


def _hidden_keys(found: Evaluation) -> Sequence[Attr]:
    """The keys of the asked rows' groups, which the rows carry to find what they came from."""
    node = _top(found.lineage)[1]
    count = len(found.c.items(node.plan.groupingExpressions()))
    for link in found.lineage.root.annotated.links:
        if isinstance(link, Lookup) and link.node is node and not link.when:
            return link.asked[:count]
    raise WhenceError(
        f"Influence must run this query again without each witness ({_hindrance(found.lineage)}), and finds the asked "
        "row there by the keys of its group. Let the result have these as columns too."
    )


def _with_keys(c: Catalyst, plan: Plan) -> tuple[Plan, list[Attr]]:
    """The query with the keys of its groups behind its own columns."""
    kind = class_name(plan)
    if kind == "Aggregate":
        named = [c.alias(key, "whence_key") for key in c.items(plan.groupingExpressions())]
        all_of_it = c.seq([*c.items(plan.aggregateExpressions()), *named])
        return c.copy(plan, aggregateExpressions=all_of_it), [name.toAttribute() for name in named]
    below, keys = _with_keys(c, plan.child())
    plan = c.with_children(plan, [below])
    if kind == "Project":
        plan = c.copy(plan, projectList=c.seq([*c.items(plan.projectList()), *keys]))
    return plan, keys


def _hindrance(lineage: SqlLineage) -> str:
    plain = (*ROW_BY_ROW, *_LIMITS, "Settled", "Aggregate", "Window", "Distinct", "Union", "Join")
    found = next((n for n in lineage.tree.walk() if n.children and n.kind not in plain), None)
    return "a subquery or LIMIT" if found is None else readable(found.text)
