from __future__ import annotations

from whence.model import NonDeterministic
from whence.sql.blocks import Annotated, repeated
from whence.sql.builder import Builder
from whence.sql.tree import Node, place_of

# Between a sample and what it reads these leave rows where they are; any other operator may change their order.
_IN_PLACE = (
    *("Project", "Filter", "SubqueryAlias", "View", "ResolvedHint", "Union", "Generate", "Expand", "Sample"),
    *("LogicalRelation", "LocalRelation", "LogicalRDD", "ExternalRDD", "Range", "HiveTableRelation", "OneRowRelation"),
)


def sample(node: Node, build: Builder) -> Annotated:
    """The row itself: Spark draws by seed, partition and position, which the identities do not move."""
    for below in node.children[0].walk():
        if below.kind not in _IN_PLACE:
            raise NonDeterministic(
                f"A sample of what {below.kind} gives depends on the order in which rows arrive, so which rows it drew "
                f"cannot be worked out afterwards.\nIt stands here in the query:\n{place_of(build.root, node)}"
            )
    c = build.c
    with build.ordered(True):
        child = build.annotate(node.children[0])
    build.freeze(node)
    return Annotated(c.with_children(node.plan, [child.plan]), repeated(child.links))
