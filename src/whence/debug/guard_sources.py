"""The rows, in the query as the user wrote it, on which a function fails: what `backward` is asked about."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from whence.debug.guard_spark import PythonNode
from whence.sql import Catalyst

_ATOMIC = (bool, int, float, str, bytes, bytearray, type(None))


def culprit_rows(c: Catalyst, frame: DataFrame, node: PythonNode, found: dict[str, Any]) -> DataFrame | None:
    wanted = c.identity(node.handle)
    for plan in _walk(c.plan_of(frame)):
        if node.kind in ("frames", "group"):
            if plan.getClass().getSimpleName() not in ("MapInPandas", "FlatMapGroupsInPandas"):
                continue
            if c.identity(plan.functionExpr().func()) == wanted:
                rows = [list(row) for row in found["batch"].itertuples(index=False, name=None)]
                return _matching(c, plan, c.items(plan.functionExpr().children()), rows)
            continue
        for expression in c.items(plan.expressions().toSeq()):
            udf = _find(c, expression, wanted)
            if udf is not None and plan.children().size() == 1:
                args = [a.value() if a.getClass().getSimpleName() == "NamedArgumentExpression" else a
                        for a in c.items(udf.children())]  # fmt: skip
                if "batch" in found:
                    rows = [list(row) for row in found["batch"].itertuples(index=False, name=None)]
                else:
                    rows = [[*found["args"], *found["kwargs"].values()]]
                return _matching(c, plan, args, rows)
    return None


def _matching(c: Catalyst, plan: Any, args: list[Any], rows: list[list[Any]]) -> DataFrame:
    names = [f"whence_arg_{n}" for n in range(len(args))]
    child = c.frame(c.extend(plan.child(), [c.alias(a, n) for a, n in zip(args, names, strict=True)]))
    return _where(child, [F.col(n) for n in names], rows)


def _where(frame: DataFrame, columns: list[Any], rows: list[list[Any]]) -> DataFrame:
    """Rows equal to one of these, in the columns that can be compared with a literal."""
    chosen = F.lit(False)
    for row in rows:
        same = F.lit(True)
        for column, value in zip(columns, row, strict=True):
            plain = value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value
            if isinstance(plain, _ATOMIC) or type(plain).__module__ in ("datetime", "decimal"):
                same = same & column.eqNullSafe(F.lit(None if plain != plain else plain))
        chosen = chosen | same
    return frame.where(chosen)


def _walk(plan: Any) -> Any:
    yield plan
    children = plan.children()
    for n in range(children.size()):
        yield from _walk(children.apply(n))


def _find(c: Catalyst, expression: Any, wanted: str) -> Any:
    if expression.getClass().getSimpleName() == "PythonUDF" and c.identity(expression.func()) == wanted:
        return expression
    for child in c.children(expression):
        found = _find(c, child, wanted)
        if found is not None:
            return found
    return None
