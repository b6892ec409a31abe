"""What is known about a query for the choice of what a capture keeps of it."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame

from whence.sql import facts
from whence.sql.catalyst import Catalyst, Plan
from whence.sql.certainty import certain, may_be_uncertain, uncertain
from whence.sql.checkpoints import put_back
from whence.sql.sources import SCANS, dataset_of
from whence.sql.taps import tappable
from whence.sql.tree import Node, tree_of
from whence.strategy import Kept
from whence.strategy.steps import GROUPS, Query

# For queries that have not run under capture yet: what Spark reads of columnar files in a second, and what a row takes.
_BYTES_A_SECOND = 5e7
_ROW = 40


def query_of(c: Catalyst, df: DataFrame, *, written: bool = False, asked: bool = True) -> Query:
    plan = put_back(c, c.plan_of(df))
    tree = tree_of(c, c.normalise(plan))
    size = sum(length for _, length, _ in facts.file_versions(c, plan))
    rows = size // _ROW
    seconds = _timed(c, plan)
    target = tappable(c, tree)
    kept = []
    if target is not None:
        fact = facts.known(c, target.kind, target.plan)
        if fact is not None and fact.files:
            kept.append(Kept(GROUPS, sum(length for length, _ in fact.files.values()), 0.3 * (seconds or 0.0)))
    expressions = not certain(tree.plan)
    return Query(
        seconds=0.3 + size / _BYTES_A_SECOND if seconds is None else seconds,
        rows=rows,
        groups=target is not None,
        uncertain=any(_uncertain(c, node, expressions) for node in tree.walk()),
        written=written,
        asked=asked,
        kept=tuple(kept),
    )


def _uncertain(c: Catalyst, node: Node, expressions: bool) -> bool:
    return may_be_uncertain(node, expressions) and uncertain(c, node) is not None


def _timed(c: Catalyst, plan: Plan) -> float | None:
    """What the last action under capture took that computed this query."""
    return next((seconds for known, seconds in reversed(c.memory.timed) if known.sameResult(plan)), None)


def datasets_of(c: Catalyst, df: DataFrame) -> tuple[tuple[str, str], ...]:
    """What the query reads: the name of each, and where it is."""
    tree = tree_of(c, c.normalise(put_back(c, c.plan_of(df))))
    return tuple(dict.fromkeys(_read(c, tree)))


def _read(c: Catalyst, tree: Node) -> Iterable[tuple[str, str]]:
    for node in tree.walk():
        if node.kind in SCANS:
            found = dataset_of(c, node, None)
            yield found.name, found.where
        elif node.kind == "View":
            yield str(node.plan.desc().identifier().table()), ""


def same(c: Catalyst, one: DataFrame, other: Plan) -> bool:
    """Whether the DataFrame is this query, or says the same."""
    return bool(put_back(c, c.plan_of(one)).sameResult(other))
