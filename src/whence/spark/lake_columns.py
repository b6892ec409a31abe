"""Columns of Delta and Iceberg tables that have values without being written: what was there before a column was
added, a type that was widened since, what the table computes by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from whence.spark.catalyst import Catalyst, Expr, Plan, class_name, to_list

_GENERATED = "delta.generationExpression"


def is_null_before(leaf: Plan, column: str) -> bool:
    """Whether rows that were there before an Iceberg table got a column (by its id) have NULL in it."""
    table: Any = leaf.table().table()
    found = table.schema().findField(int(column))
    return found is not None and found.initialDefault() is None


def is_promoted(then: str, now: str) -> bool:
    """Whether the second of two types of Iceberg's is wider, and holds each value of the first as it was."""
    both_decimal = then.startswith("decimal(") and now.startswith("decimal(")
    return then != now and ({"int": "long", "float": "double"}.get(then) == now or both_decimal)


def generated(c: Catalyst, leaf: Plan) -> dict[str, str]:
    """The columns of a Delta table that are computed from its others, and how, as SQL. Delta takes nothing for that
    which may come out otherwise. What a plan has of its columns does not tell it."""
    if c.snapshots_of(leaf) is None:
        return {}
    fields = json.loads(str(leaf.relation().location().snapshotAtAnalysis().metadata().schemaString()))["fields"]
    told = {str(one["name"]): one.get("metadata", {}).get(_GENERATED) for one in fields}
    return {name: str(text) for name, text in told.items() if text is not None}


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
