"""Which files of a table hold the rows that a question is about, so that of many captured appends only those are opened
that wrote them.

That is asked where a query gives the same rows when the table lacks all other files: what stands above it takes its
rows one by one, or groups them and is asked for groups by their keys. Were a group asked for by its values, the groups
of fewer rows would have other values, which might be asked for too."""

from __future__ import annotations

from typing import cast

from pyspark.errors import PySparkException

from whence.model import WhenceError, operators
from whence.progress import working
from whence.sql.blocks import Reading, is_there
from whence.sql.builder import Builder
from whence.sql.catalyst import Catalyst, Plan
from whence.sql.moments import at_one_moment
from whence.sql.rules import RULES
from whence.sql.selection import asked_by_key
from whence.sql.sources import FILE, files_by_hash
from whence.sql.tree import Node
from whence.sql.versions import require_unchanged

_ROW_BY_ROW = (*operators.LOOKED_THROUGH, *operators.PLACEMENT, "Project", "Filter", "Sort", "Generate", "Union")
# So many asked rows come to the driver before Spark is asked for their files alone.
FEW = 100
# Joins that lose, with a row of this side, only what was made from it.
_KEPT_SIDE = {
    "Inner": (0, 1),
    "Cross": (0, 1),
    "LeftOuter": (0,),
    "RightOuter": (1,),
    "LeftSemi": (0,),
    "LeftAnti": (0,),
}


def asked_files(c: Catalyst, tree: Node, leaf: Node, made: int | None) -> set[str] | None:
    """The files of this leaf that rows of the query come from; None where the other files matter too, or that cannot
    be told. `made`: when the DataFrame was made, in ms."""
    way = _way(tree, leaf)
    if way is None or not all(_takes_rows_alone(node, at) or node.kind == "Aggregate" for node, at in way):
        return None
    # The question itself will be of a later moment, and calls the user's functions by itself.
    if at_one_moment(c, tree)[0] is not tree or c.has_user_functions(tree.plan):
        return None
    try:
        return _found(c, tree, leaf, made, sum(node.kind == "Aggregate" for node, _ in way))
    except (WhenceError, PySparkException):  # what is wrong with the query is said when it is asked itself
        return None


def _found(c: Catalyst, tree: Node, leaf: Node, made: int | None, groupings: int) -> set[str] | None:
    require_unchanged(c, leaf, made)
    build = Builder(c, tree, RULES)
    block, condition = build.block(tree), None
    while groupings and (by_key := asked_by_key(c, block, condition)) is not None:
        block, condition, groupings = by_key[0].block, by_key[1], groupings - 1
    links = [one for one in block.annotated.links if isinstance(one, Reading) and one.place.leaf is leaf]
    if build.deferred or groupings or len(links) != 1:
        return None
    (link,) = links
    if link.place.dataset.by_row_id or link.place.dataset.id_columns[0] != FILE:
        return None
    paths = files_by_hash(c, leaf.plan)
    asked = [is_there(c, link), *([] if condition is None else [condition])]
    rows = c.filter(c.conjunction(asked), block.annotated.plan)
    with working("looking where the rows were written"), c.quietly():
        numbers = _distinct(c, c.project([link.attrs[0]], rows))
    if not numbers <= paths.keys() or set(paths.values()) != set(c.files_of(leaf.plan)):  # spelled in another way
        return None
    return {paths[number] for number in numbers}


def _distinct(c: Catalyst, numbers: Plan) -> set[int]:
    """Mostly few rows are asked about: these come as they are, in one job without a shuffle."""
    few = c.first(numbers, FEW)
    if few is None:
        return {row[0] for row in c.frame(c.distinct(numbers)).collect()}
    return {cast("int", number) for (number,) in c.rows(few.plan)}


def _way(node: Node, leaf: Node) -> list[tuple[Node, int]] | None:
    """The operators above a leaf, each with the number of the input that it is in; None in a subquery."""
    if node is leaf:
        return []
    for at, child in enumerate(node.children):
        below = _way(child, leaf)
        if below is not None:
            return [(node, at), *below]
    return None


def _takes_rows_alone(node: Node, at: int) -> bool:
    if node.kind == "Join":
        return at in _KEPT_SIDE.get(str(node.plan.joinType().toString()), ())
    return node.kind in _ROW_BY_ROW
