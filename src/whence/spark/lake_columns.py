"""Columns of Delta and Iceberg tables that have values without being written: what was there before a column was
added, a type that was widened since, what the table computes by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from whence.spark.catalyst import Catalyst, Expr, Plan, class_name, to_list

NULL = "NULL"
_GENERATED, _IDENTITY, _DEFAULT = "delta.generationExpression", "delta.identity.", "CURRENT_DEFAULT"
# Values of columns that a write may leave out, and which are not NULL then.
_FILLED_IN = (_GENERATED, _IDENTITY, _DEFAULT)


def value_before(c: Catalyst, leaf: Plan, column: str) -> str | None:
    """What rows have in a column, which is told as the format itself tells it, that were there before the table got it:
    NULL, or the default that it got it with (Iceberg), as SQL; None where that is not told."""
    if not c.is_iceberg(leaf):
        return NULL
    found = leaf.table().table().schema().findField(int(column))
    if found is None:
        return None
    value = found.initialDefault()
    if value is None:
        return NULL
    kind = str(found.type().toString())
    if kind in ("boolean", "int", "long"):
        return str(value).lower()
    # Other types have a form of Iceberg's own, and how a text is quoted is a setting.
    return f"'{value}'" if kind == "string" and "'" not in value and "\\" not in value else None


def is_promoted(then: str, now: str) -> bool:
    """Whether the second of two types of Iceberg's is wider, and holds each value of the first as it was."""
    both_decimal = then.startswith("decimal(") and now.startswith("decimal(")
    return then != now and ({"int": "long", "float": "double"}.get(then) == now or both_decimal)


def generated(c: Catalyst, leaf: Plan) -> dict[str, str]:
    """The columns of a Delta table that are computed from its others, and how, as SQL. Delta takes nothing for that
    which may come out otherwise."""
    told = {name: about.get(_GENERATED) for name, about in _told(c, leaf).items()}
    return {name: str(text) for name, text in told.items() if text is not None}


def numbered(c: Catalyst, leaf: Plan) -> list[str]:
    """The columns of a Delta table by which it numbers its rows (GENERATED ... AS IDENTITY)."""
    return [name for name, about in _told(c, leaf).items() if any(key.startswith(_IDENTITY) for key in about)]


def filled_in(c: Catalyst, leaf: Plan) -> list[str]:
    """Columns of the table that get a value of their own when a write leaves them out."""
    return [name for name, about in _told(c, leaf).items() if any(key.startswith(_FILLED_IN) for key in about)]


def _told(c: Catalyst, leaf: Plan) -> dict[str, dict[str, Any]]:
    """What the table says of its columns beside their types. Of Delta's, what a plan has of them tells only a part."""
    is_delta = c.snapshots_of(leaf) is not None
    schema = leaf.relation().location().snapshotAtAnalysis().metadata().schemaString() if is_delta else None
    fields = json.loads(str(leaf.schema().json() if schema is None else schema))["fields"]
    return {str(one["name"]): one.get("metadata", {}) for one in fields}


def computed(c: Catalyst, text: str, column: Callable[[str], Expr | None]) -> Expr | None:
    """What a generated column is computed as; `column` gives the value of each column that it names. None where that
    gives none for one of them, or where it names what is inside of a column."""
    lacking = False

    def value(part: Expr) -> Expr | None:
        nonlocal lacking
        if class_name(part) != "UnresolvedAttribute":
            return None
        parts = [str(one) for one in to_list(part.nameParts())]
        found = column(parts[0]) if len(parts) == 1 else None
        lacking = lacking or found is None
        return found

    made = c.exchanged_in(c.parse(text), value)
    return None if lacking else made


def partition_columns(c: Catalyst, leaf: Plan) -> list[str]:
    """Of a Delta table, whose partition columns have no empty texts."""
    if c.snapshots_of(leaf) is None:
        return []
    return [str(name) for name in list(leaf.relation().partitionSchema().fieldNames())]


def identity_partitions(c: Catalyst, leaf: Plan) -> list[str]:
    """Columns that an Iceberg table is partitioned by, if it is by nothing else."""
    if not c.is_iceberg(leaf):
        return []
    table: Any = leaf.table().table()
    fields = list(table.spec().fields())
    if any(str(one.transform().toString()) != "identity" for one in fields):
        return []
    return [str(table.schema().findColumnName(one.sourceId())) for one in fields]
