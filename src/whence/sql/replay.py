"""Runs a query again on the witnesses alone, or on everything but them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TypeAlias

from pyspark.sql import DataFrame, functions

from whence.model import WhenceError
from whence.sql import Evaluation, Node, Place, ReadingPlace, SqlLineage, found_rows, rebuild
from whence.sql.catalyst import Attr, Catalyst, Plan
from whence.sql.matching import matches, names_of
from whence.sql.row_changes import is_as_it_was

# Up to this many identities are sent to every executor.
_BROADCAST = 1_000_000

# The readings of a query by their nodes, and what gives the identities that restrict each, if any do.
_ByLeaf: TypeAlias = "dict[Node, tuple[ReadingPlace, Callable[[], DataFrame | None]]]"


@dataclass(frozen=True, eq=False)
class Restriction:
    """`kind`: leftsemi keeps the given identities, leftanti drops them. `ids` are by reading number, and so are `rows`:
    what is kept of readings whose rows are at hand, so that their identities are not asked for.

    `at` restricts the rows of one operator instead of those of the readings."""

    kind: str
    ids: Mapping[int, DataFrame]
    rows: Mapping[int, Plan] = field(default_factory=dict)
    at: tuple[Place, Evaluation] | None = None
    # Operators that cannot be run again on a part of their rows, with what takes their place.
    frozen: Mapping[Node, Plan] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Alike:
    """Another query, and those of its operators that hold the same pairs as the trace's own, with these."""

    query: SqlLineage
    nodes: Mapping[Node, Node]


def restricted(
    lineage: SqlLineage, df: DataFrame | None, restriction: Restriction, alike: Alike | None = None
) -> DataFrame:
    """`alike`: what is known of the other query, where it pairs rows with the branches of a union as this one does."""
    c = lineage.c
    if restriction.at is not None:
        return _at_place(lineage, df, restriction)
    if df is None:
        by_leaf = _own(lineage, restriction)
        tree = lineage.tree
    else:
        other = SqlLineage(c, df, alike=lineage.alike) if alike is None else alike.query
        tree = other.tree
        by_leaf = _matched(lineage, other, restriction)
    if restriction.kind == "leftanti" and any(is_as_it_was(node) for node in tree.walk()):
        raise WhenceError(
            "What the result would be without these rows cannot be told through a table that a MERGE changed: without "
            "them the MERGE would have met other rows. Ask w.backward(df, through=False) and exclude from that, which "
            "leaves out rows of the table itself."
        )

    def replace(node: Node) -> Plan | None:
        if node in restriction.frozen:
            return restriction.frozen[node]
        if alike is not None and node in alike.nodes:
            return under(c, restriction.frozen[alike.nodes[node]], c.output(node.plan))
        if node not in by_leaf:
            return None
        place, of_place = by_leaf[node]
        if df is None and place.number in restriction.rows:
            return restriction.rows[place.number]
        ids = of_place()
        if ids is None:
            return None
        if not lineage.exactness.exact and ids.limit(_BROADCAST + 1).count() <= _BROADCAST:
            # The rows stay in their partitions, in order: a function over whole partitions gets what it got.
            ids = functions.broadcast(ids)
        return found_rows.leaf_rows(c, place, ids, restriction.kind)

    return c.frame(rebuild(c, tree, replace))


def not_on_the_way(lineage: SqlLineage, found: Callable[[], Evaluation]) -> dict[Node, Plan]:
    """Operators that give rows of nothing, though none of these lie on the way of the trace, with what takes their
    place on the witnesses alone: an aggregate without keys, and whatever shuts rows out (an anti join's other side)."""
    c = lineage.c
    nothing = [node for node in lineage.tree.walk() if node.barren]
    nothing += [node.children[1] for node in lineage.tree.walk() if _shuts_out(node)]
    places = [place for place in lineage.places if place.node.kind == "Aggregate"]
    one_row = [p for p in places if not p.barren and not c.items(p.node.plan.groupingExpressions())]
    nothing += [place.node for place in one_row if not found_rows.is_on_the_way(found(), place)]
    return {node: c.filter(c.parse("false"), node.plan) for node in nothing}


def _shuts_out(node: Node) -> bool:
    return node.kind == "Except" or (node.kind == "Join" and str(node.plan.joinType().toString()) == "LeftAnti")


@dataclass(frozen=True, eq=False)
class ReplayedStep:
    """One operator of a replay: what it took in, from each of its inputs, and what it put out."""

    operator: str
    text: str
    inputs: tuple[DataFrame, ...]
    output: DataFrame


def stepwise(lineage: SqlLineage, restriction: Restriction, hidden: Sequence[str]) -> Iterator[ReplayedStep]:
    """The operators of a restricted query, sources first. Nothing runs before a DataFrame is asked for its rows."""
    c = lineage.c
    replace = _replacing(lineage, restriction)

    def visit(node: Node) -> Iterator[ReplayedStep]:
        for child in (*node.children, *node.subqueries.values()):
            yield from visit(child)
        if node.kind not in hidden:
            inputs = tuple(c.frame(rebuild(c, child, replace)) for child in node.children)
            yield ReplayedStep(node.kind, node.text, inputs, c.frame(rebuild(c, node, replace)))

    yield from visit(lineage.tree)


def restricted_at(lineage: SqlLineage, restriction: Restriction, node: Node) -> DataFrame:
    """The rows of one operator of the restricted query. What is frozen of the operator itself does not count."""
    replace = _replacing(lineage, restriction)
    return lineage.c.frame(rebuild(lineage.c, node, lambda n: None if n is node else replace(n)))


def _replacing(lineage: SqlLineage, restriction: Restriction) -> Callable[[Node], Plan | None]:
    c = lineage.c
    by_leaf = _own(lineage, restriction)

    def replace(node: Node) -> Plan | None:
        if node in restriction.frozen:
            return restriction.frozen[node]
        if node not in by_leaf:
            return None
        place, of_place = by_leaf[node]
        if place.number in restriction.rows:
            return restriction.rows[place.number]
        ids = of_place()
        return None if ids is None else found_rows.leaf_rows(c, place, ids, restriction.kind)

    return replace


def under(c: Catalyst, plan: Plan, attrs: Sequence[Attr]) -> Plan:
    """The same rows under these attributes."""
    return c.project([c.alias_as(old, new) for old, new in zip(c.output(plan), attrs, strict=True)], plan)


def _own(lineage: SqlLineage, restriction: Restriction) -> _ByLeaf:
    places = [place for place in lineage.readings if place.number in restriction.ids]
    return {place.leaf: (place, partial(restriction.ids.__getitem__, place.number)) for place in places}


def _matched(lineage: SqlLineage, other: SqlLineage, restriction: Restriction) -> _ByLeaf:
    """Readings of the other query with the identities that restrict them.

    A dataset read equally often in both queries is matched place by place, so that a self join keeps its sides apart;
    otherwise every place that reads it is restricted to all its witnesses."""
    found = matches(lineage.c, lineage.readings, other.readings)
    if not found:
        raise WhenceError(
            "The given DataFrame reads none of this trace's sources, so there is nothing to replay or exclude. "
            f"The trace read {names_of(lineage.readings)}, the DataFrame reads {names_of(other.readings)}."
        )
    result: _ByLeaf = {}
    # Those with the same readings of this one, in order: of a thousand branches, a thousand.
    groups: dict[tuple[int, ...], list[ReadingPlace]] = {}
    for there, here in found.items():
        groups.setdefault(tuple(map(id, here)), []).append(there)
    turns = {there: turn for same in groups.values() for turn, there in enumerate(same)}
    for place in other.readings:
        ours = found.get(place, [])
        if ours and len(ours) == len(groups[tuple(map(id, ours))]):
            ours = [ours[turns[place]]]
        result[place.leaf] = (place, partial(_together, restriction, ours))
    return result


def _together(restriction: Restriction, places: Sequence[ReadingPlace]) -> DataFrame | None:
    frames = [restriction.ids[place.number] for place in places if place.number in restriction.ids]
    return reduce(DataFrame.union, frames) if frames else None


def has_step(c: Catalyst, df: DataFrame, node: Node) -> bool:
    """Whether a query has a step that gives the same as this one."""
    return bool(_like(SqlLineage(c, df).tree, node))


def _like(tree: Node, node: Node) -> list[Node]:
    return [other for other in tree.walk() if other.plan.sameResult(node.plan)]


def node_like(tree: Node, node: Node, other: Node) -> Node:
    """The node of another tree at the place that `node` has in this one."""
    if node is tree:
        return other
    for ours, theirs in zip(_below(tree), _below(other), strict=False):
        if any(below is node for below in ours.walk()):
            return node_like(ours, node, theirs)
    raise WhenceError(f"The given DataFrame has no step like this one: {node.text}")


def _below(node: Node) -> list[Node]:
    return [*node.children, *node.subqueries.values()]


def _at_place(lineage: SqlLineage, df: DataFrame | None, restriction: Restriction) -> DataFrame:
    assert restriction.at is not None
    place, found = restriction.at
    c = lineage.c
    tree = lineage.tree
    target = place.node
    if df is not None:
        tree = SqlLineage(c, df, alike=lineage.alike, merges=lineage.merged).tree
        matches = _like(tree, place.node)
        if not matches:
            raise WhenceError(f"The given DataFrame has no step like this one: {place.node.text}")
        target = matches[0]
    plan = found_rows.rows_at(found, place, restriction.kind)
    if df is not None:
        plan = under(c, plan, c.output(target.plan))
    return c.frame(rebuild(c, tree, lambda node: plan if node is target else None))
