"""What a query says of the moment in which it runs (`current_timestamp()`, `date 'today'`), taken once for a trace.

A trace runs parts of a query one after the other, later than the user did. Each part must see the same moment, or the
rows that one of them finds are not those that the next one looks for; and that it is not the user's moment is said.
"""

from __future__ import annotations

import re
from dataclasses import replace

from whence.sql.catalyst import Catalyst, Plan, id_of
from whence.sql.tree import Node

_NAMES = re.compile(r"\b(current_\w+|localtimestamp|now|session_user|user)\(")
# They stay the same for as long as the application runs.
_STAY = {"current_user", "session_user", "user"}


def at_one_moment(c: Catalyst, tree: Node) -> tuple[Node, list[str]]:
    """The tree with such expressions made constants, and a note for each operator that had one.

    What is written down (capture.py) has the user's own moment, and is left alone."""
    plan = c.at_this_moment(tree.plan)
    notes: list[str] = []
    if plan.fastEquals(tree.plan):
        return tree, notes
    return _exchanged(c, tree, plan, notes), notes


def _exchanged(c: Catalyst, node: Node, plan: Plan, notes: list[str]) -> Node:
    if node.fact is not None or node.plan.fastEquals(plan):
        return node
    before = c.expressions_text(node.plan)
    if before != c.expressions_text(plan):
        names = dict.fromkeys(_NAMES.findall(before))
        if not names or not _STAY.issuperset(names):
            notes.append(_note(node, ", ".join(f"{name}()" for name in names) or "the present moment"))
    children = [_exchanged(c, *pair, notes) for pair in zip(node.children, c.children(plan), strict=True)]
    plans = {id_of(expression): expression.plan() for expression in c.subqueries(plan)}
    subqueries = {key: _exchanged(c, below, plans[key], notes) for key, below in node.subqueries.items()}
    return replace(node, plan=plan, children=children, subqueries=subqueries)


def _note(node: Node, what: str) -> str:
    return (
        f"{node.kind}: {what} was taken when this question was asked, not when the result was computed, so the answer "
        "is that of the rows which the query gives now; compute the result under `with w.capture():` to have that of "
        "the rows it gave then"
    )
