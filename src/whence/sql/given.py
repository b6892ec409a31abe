"""Rows that a trace gives to the user, so that they can be asked about again.

Their plan numbers rows, which no trace may go through, and compares them with identities, which are nobody's source. So
they stand below a mark of their own, by which a later question knows them (tree.py): as rows of the operator that they
are of, picked by their identities.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from pyspark.sql import DataFrame

from whence.sql.catalyst import Catalyst, Plan, class_name
from whence.sql.tree import GIVEN, Given, Node

# A service asks for ever: of older ones only the rows are left.
MOST = 1000


def give(c: Catalyst, node: Node, rows: Plan, ids: Sequence[int], name: str | None = None) -> DataFrame:
    """`rows` of `node`: its own columns, and the identities at the places `ids`."""
    mark = f"{GIVEN}{uuid4().hex}"
    c.memory.given[mark] = Given(node, ids, name)
    while len(c.memory.given) > MOST:
        del c.memory.given[next(iter(c.memory.given))]
    return c.frame(c.marked(mark, c.project(c.output(node.plan), rows)))


def are_same(c: Catalyst, one: DataFrame, other: DataFrame) -> bool:
    """Whether two DataFrames that were given come from the same query, whatever their marks."""
    plans = [c.plan_of(one), c.plan_of(other)]
    if not all(class_name(plan) == "Filter" and GIVEN in str(plan.condition().toString()) for plan in plans):
        return False
    (here,), (there,) = (c.children(plan) for plan in plans)
    return bool(here.sameResult(there))
