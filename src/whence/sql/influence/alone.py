"""Whether the witnesses of rows are all that these rows can come from, whatever is left out."""

from __future__ import annotations

from whence.sql import Catalyst, Node
from whence.sql.catalyst import class_name, id_of
from whence.sql.influence.one_by_one import ROW_BY_ROW

_CHOOSING = ("SubqueryAlias", "View", "ResolvedHint", "Sort", "Filter", "GlobalLimit", "LocalLimit", "Project")


def alone(c: Catalyst, node: Node) -> bool:
    """Whether the witnesses are all that the asked rows can come from in any world. Not so under a window or a limit,
    where other rows move up, nor where what was aggregated decides what is filtered, joined or grouped above."""
    while node.kind in _CHOOSING and node.children:
        node = node.children[0]
    if node.kind not in ("Aggregate", "Distinct"):
        return False
    below = node.children[0]
    renamed: dict[int, int] = {}
    while below.kind in ("Project", "SubqueryAlias", "View") and not below.subqueries:
        if below.kind == "Project":
            for e in c.items(below.plan.projectList()):
                if class_name(e) == "Alias" and class_name(e.child()) == "AttributeReference":
                    renamed[id_of(e)] = id_of(e.child())
        if below.children[0].kind not in ("Project", "SubqueryAlias", "View", "Aggregate"):
            break
        below = below.children[0]
    if node.kind == below.kind == "Aggregate":
        keys = {id_of(e) for e in c.items(below.plan.groupingExpressions()) if class_name(e) == "AttributeReference"}
        for key in c.items(node.plan.groupingExpressions()):
            for a in c.references(key):
                while a in renamed:
                    a = renamed[a]
                if a not in keys:
                    return False
        below = below.children[0]
    return all(
        not n.subqueries
        and (
            n.kind in ROW_BY_ROW
            or not n.children
            or (n.kind == "Join" and str(n.plan.joinType().toString()) in ("Inner", "Cross", "LeftOuter", "RightOuter"))
        )
        for n in below.walk()
    )
