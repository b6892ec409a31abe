"""Rows that a trace gives to the user, so that they can be asked about again.

Their plan numbers rows, which no trace may go through, and compares them with identities, which are nobody's source. So
they stand under a name of their own, by which a later question knows them (tree.py): as rows of the operator that they
are of, picked by their identities.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from pyspark.sql import DataFrame

from whence.sql.catalyst import Attr, Catalyst, Plan, id_of
from whence.sql.tree import Given, Node

# A service asks for ever: of older ones only the rows are left.
MOST = 1000


def give(c: Catalyst, node: Node, rows: Plan, ids: Sequence[Attr], name: str | None = None) -> DataFrame:
    """`rows` of `node`, which have its own columns and behind them, somewhere, the identities `ids`."""
    at = {id_of(a): i for i, a in enumerate(c.output(rows))}
    label = f"whence_{uuid4().hex}"
    c.memory.given[label] = Given(node, tuple(at[id_of(a)] for a in ids), name)
    while len(c.memory.given) > MOST:
        del c.memory.given[next(iter(c.memory.given))]
    return c.frame(c.named(label, c.project(c.output(node.plan), rows)))
