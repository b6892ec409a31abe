"""UPDATE, DELETE and MERGE that are said in Python: Delta's `DeltaTable`, and `df.mergeInto` of Spark 4."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, SparkSession

from whence.sql.catalyst import Catalyst, Expr, Plan, class_name
from whence.sql.row_changes import (
    Change,
    Clause,
    Command,
    Delete,
    Merge,
    NotFollowed,
    Set,
    Update,
    change_by,
    clauses_of,
    quoted,
    table_leaf,
)

_METHODS = ("merge", "delete", "update", "execute")


def methods(spark: SparkSession) -> Mapping[tuple[type, str], str]:
    """Those that change rows, with what is called instead: of the classes that this process has."""
    found: dict[tuple[type, str], str] = {}
    with contextlib.suppress(ImportError):  # before Spark 4
        from pyspark.sql.merge import MergeIntoWriter

        found[MergeIntoWriter, "merge"] = "merge_into"
    if "delta.tables" in sys.modules or "delta" in (spark.conf.get("spark.sql.extensions", None) or "").lower():
        with contextlib.suppress(Exception):  # only its jars are there, or a package that needs what is not
            from delta.tables import DeltaMergeBuilder, DeltaTable  # type: ignore[import-not-found,unused-ignore]

            found[DeltaTable, "delete"] = "delta_delete"
            found[DeltaTable, "update"] = "delta_update"
            found[DeltaMergeBuilder, "execute"] = "delta_merge"
    return found


def change_said(c: Catalyst, holder: Any, method: str, given: Mapping[str, Any]) -> Change | None:
    """What a call of one of these methods was to do, from the names that it was given; None of any other method."""
    for (owner, name), said in methods(c.spark).items() if method in _METHODS else ():
        if name != method or not isinstance(holder, owner):
            continue
        if said == "merge_into":
            return merged_into(c, holder)
        if said == "delta_merge":
            return delta_merged(c, holder)
        if said == "delta_delete":
            return delta_deleted(c, holder, given.get("condition"))
        return delta_updated(c, holder, given.get("condition"), given.get("set"))
    return None


def merged_into(c: Catalyst, writer: Any) -> Change | None:
    """`df.mergeInto(table, condition)...merge()`"""
    java = writer._jwriter
    parts = [str(part) for part in c.items(c.field_of(java, "tableName"))]
    leaf = table_leaf(c, quoted(parts))
    if leaf is None:
        return None

    def said() -> Merge:
        return Merge(
            c.field_of(java, "logicalPlan"),
            c.said_by(c.field_of(java, "on")),
            clauses_of(c, java.matchedActions().toSeq()),
            clauses_of(c, java.notMatchedActions().toSeq()),
            clauses_of(c, java.notMatchedBySourceActions().toSeq()),
            evolves=bool(java.schemaEvolutionEnabled()),
        )

    return change_by(c, leaf, c.plan_of(c.spark.table(quoted(parts))), parts, [], "merge", said)


def delta_deleted(c: Catalyst, table: Any, condition: str | Column | None = None) -> Change | None:
    """`DeltaTable.delete(condition)`"""
    return _of_delta(c, table._jdt, "delete", lambda: Delete(c.true if condition is None else _said(c, condition)))


def delta_updated(
    c: Catalyst,
    table: Any,
    condition: str | Column | None = None,
    set: Mapping[str, str | Column] | None = None,
) -> Change | None:
    """`DeltaTable.update(condition, set)`"""

    def said() -> Update:
        sets: list[Set] = [(c.name_parts(name), _said(c, value)) for name, value in (set or {}).items()]
        return Update(None if condition is None else _said(c, condition), sets)

    return _of_delta(c, table._jdt, "update", said)


def delta_merged(c: Catalyst, builder: Any) -> Change | None:
    """`DeltaTable.merge(source, condition)...execute()`"""
    java = builder._jbuilder

    def said() -> Merge:
        clauses: dict[str, list[Clause]] = {"Matched": [], "NotMatched": [], "NotMatchedBySource": []}
        for one in c.items(c.field_of(java, "whenClauses")):
            kind = class_name(one).removeprefix("DeltaMergeInto").removesuffix("Clause")
            when = next((w for w in clauses if kind in (f"{w}Update", f"{w}Insert", f"{w}Delete")), None)
            if when is None:
                raise NotFollowed(f"its MERGE has a {kind}")
            clauses[when].append(_clause(c, one, deletes=kind.endswith("Delete")))
        return Merge(
            c.field_of(java, "source").queryExecution().analyzed(),
            c.said_by(c.field_of(java, "onCondition")),
            clauses["Matched"],
            clauses["NotMatched"],
            clauses["NotMatchedBySource"],
            evolves=_evolves(c, java),
        )

    return _of_delta(c, c.field_of(java, "targetTable"), "merge", said)


def _clause(c: Catalyst, said: Any, *, deletes: bool) -> Clause:
    condition = c.said(said.condition().get()) if said.condition().isDefined() else None
    if deletes:
        return Clause(condition, deletes=True)
    sets: list[Set] = []
    for action in c.items(said.actions()):
        if class_name(action) == "UnresolvedStar":
            return Clause(condition)
        sets.append(([str(part) for part in c.items(action.targetColNameParts())], c.said(action.expr())))
    return Clause(condition, sets)


def _evolves(c: Catalyst, builder: Any) -> bool:
    names = [str(field.getName()) for field in builder.getClass().getDeclaredFields()]
    return "schemaEvolutionEnabled" in names and bool(c.field_of(builder, "schemaEvolutionEnabled"))


def _of_delta(c: Catalyst, table: Any, operation: str, said: Callable[[], Command]) -> Change | None:
    """What is done to the table as it is now: a DeltaTable has it as it was when it was opened."""
    plan: Plan = table.toDF().queryExecution().analyzed()
    aliases: list[Plan] = []
    while class_name(plan) == "SubqueryAlias":
        aliases.append(plan)
        plan = plan.child()
    version = None if c.children(plan) else c.version_of(plan)
    leaf = None if version is None else c.open_newest(version)
    if leaf is None:
        return None
    name = aliases[-1].identifier() if aliases else None
    parts = [] if name is None else [*(str(part) for part in c.items(name.qualifier())), str(name.name())]
    return change_by(c, leaf, leaf, parts, aliases, operation, said)


def _said(c: Catalyst, value: str | Column) -> Expr:
    """As Delta takes it: a text is SQL."""
    return c.parse(value) if isinstance(value, str) else c.said_by(value._jc)
