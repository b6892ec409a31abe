"""Branches of unions that no asked row can be from: `everything.where("day = 7")` over a union of what each day gave is
about one branch, and the lineage of the others need not be worked out.

Only what the query says counts, never what its sources hold: then the branch gives none of the asked rows either when
the query is run again on some rows of a source (replay, exclude)."""

from __future__ import annotations

from collections.abc import Sequence

from whence.spark.barren import barren
from whence.sql.catalyst import Catalyst
from whence.sql.tree import Node

# Of fewer branches nothing is spared.
MANY = 4
# Where a tree has other nodes below it than its plan.
_OTHERWISE = ("Settled", "Given")


def mark_barren(c: Catalyst, tree: Node) -> None:
    """Marks them in the tree of a query all rows of which are asked about."""
    unions = [node for node in tree.walk() if node.kind == "Union" and len(node.children) >= MANY]
    if not unions:
        return
    for way in barren(c, tree.plan):
        branch = _at(tree, way)
        if branch is not None:
            branch.barren = True
    for union in unions:
        if all(branch.barren for branch in union.children):  # one stays, for what its rows would look like
            union.children[0].barren = False


def _at(node: Node, way: Sequence[int]) -> Node | None:
    for number in way:
        if node.kind in _OTHERWISE:
            return None
        node = node.children[number]
    return node
