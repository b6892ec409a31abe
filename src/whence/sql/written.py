"""What a captured write made of the values that its query gave.

Most values are read as they were written. Some are not, and these are made here as the file has them: an empty text in
a partition is NULL when it is read, timestamps may have lost their microseconds, a column of the type CHAR is padded.
Where that is not certain, the rows of the table are compared with those that the query gives (sql/verify.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from whence.sql.catalyst import Attr, Catalyst, Expr, Plan
from whence.sql.plans import NotRestored

Files = Mapping[str, tuple[int, int]]

# Written and read again, values of these types are the same to the bit, and so they are when they are computed again.
_SAME_AGAIN = ("boolean", "tinyint", "smallint", "int", "bigint", "string", "date", "timestamp", "binary")
_KEEP_VALUES = ("parquet", "orc")
# The same for the name of a directory.
_SAME_IN_NAMES = ("boolean", "tinyint", "smallint", "int", "bigint", "string", "date")
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_NESTED = ("array", "struct", "map")
_WITHOUT_NESTED_CONSTANTS = ("json", "avro")
_CHAR = re.compile(r"char\((\d+)\)")
_RAW_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_MILLIS = "TIMESTAMP_MILLIS"
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


@dataclass(frozen=True, eq=False)
class Written:
    """One write: its files, what was told of it, and the query's attributes by the names they were written under."""

    c: Catalyst
    place: str
    files: Files
    told: Mapping[str, Any]
    columns: Mapping[str, Attr]
    # Columns of the table that are CHAR or VARCHAR, or hold such, and how they are declared.
    chars: Mapping[str, str]

    def column(self, name: str) -> Attr | None:
        if name in self.columns or self.told["case_sensitive"]:
            return self.columns.get(name)
        alike = [found for other, found in self.columns.items() if other.lower() == name.lower()]
        if len(alike) > 1:
            raise NotRestored(f"it has several columns that {name} may mean")
        return alike[0] if alike else None

    def may_break(self, attr: Attr) -> bool:
        """Whether a condition on this column, which the table's own format can meet, may fail in a scan below it: Spark
        gives `<=>` with an array or struct to readers that have no such constants, and then cannot read at all."""
        if not self.c.type_of(attr).startswith(_NESTED):
            return False
        leaves = [*self.told.get("leaves", ()), self.told.get("stream", {})]
        return any(leaf.get("format") in _WITHOUT_NESTED_CONSTANTS for leaf in leaves)

    def steps(self, path: str) -> list[tuple[str, str]]:
        """The partition columns of a file and their values, as the names of its directories have them."""
        inside = path.rsplit("/", 1)[0].removeprefix(self.place.rstrip("/")).strip("/")
        steps = [step.partition("=") for step in inside.split("/") if step]
        return [(unquote(name), value) for name, _, value in steps]

    def is_partition(self, name: str) -> bool:
        if "partitions" in self.told:
            return name.lower() in {str(partition).lower() for partition in self.told["partitions"]}
        names = {step for path in list(self.files)[:1] for step, _ in self.steps(path)}
        return name in names or (not self.told["case_sensitive"] and name.lower() in {step.lower() for step in names})


def char_types(c: Catalyst, leaf: Plan) -> dict[str, str]:
    """How columns of the types CHAR and VARCHAR are declared; to Spark's readers they are texts."""
    fields = c.declared_fields(leaf)
    return {f["name"]: f["metadata"][_RAW_TYPE] for f in fields if _RAW_TYPE in f.get("metadata", {})}


def settings(c: Catalyst) -> dict[str, Any]:
    """What decides how values are written, as it is now."""
    conf = c.spark.conf
    return {
        "case_sensitive": conf.get("spark.sql.caseSensitive", "false") == "true",
        "timestamps": conf.get(_TIMESTAMPS, "TIMESTAMP_MICROS"),
    }


def as_written(written: Written, attr: Attr) -> tuple[Expr, bool]:
    """The value of a column as the table has it, and whether that is certain."""
    source = written.column(attr.name())
    if source is None and attr.name() not in written.told.get("filled_in", (attr.name(),)):
        return written.c.null(attr), False  # the table has got the column since, or the write left it out
    if source is None:
        raise NotRestored(f"its column {attr.name()} is not one that was written")
    c = written.c
    value, same = _kept(written, source, written.is_partition(attr.name()))
    declared = written.chars.get(attr.name())
    if declared is not None and (padded := _CHAR.fullmatch(declared)) is not None:
        value = c.expression("StringRPad", value, c.parse(padded[1]), c.parse("' '"))
    elif declared is not None:
        same = False
    if not source.dataType().equals(attr.dataType()):
        if not c.can_cast(source, attr):
            raise NotRestored(f"its column {attr.name()} has other fields by now")
        return c.cast(value, attr), False
    return value, same


def _kept(written: Written, source: Attr, in_name: bool) -> tuple[Expr, bool]:
    c = written.c
    kind = c.type_of(source)
    if in_name and kind == "string":
        return c.expression("If", c.equal(source, c.parse("''")), c.null(source), source), True
    if in_name:
        return source, kind in _SAME_IN_NAMES
    if "timestamp" in kind and written.told["timestamps"] == _MILLIS:
        if kind != "timestamp":
            raise NotRestored("its timestamps were written without their microseconds")
        return c.expression("MillisToTimestamp", c.expression("UnixMillis", source)), False
    return source, True


def in_partitions(written: Written, left: set[str]) -> Expr:
    """Of a write whose partitions were overwritten in part: the rows of those that are left."""
    c = written.c
    folders: dict[str, set[str]] = {}
    for path in written.files:
        folders.setdefault(path.rsplit("/", 1)[0], set()).add(path)
    conditions = []
    for paths in folders.values():
        if paths.isdisjoint(left):
            continue
        steps = written.steps(next(iter(paths)))
        if not paths <= left or not steps or any(not value or written.column(name) is None for name, value in steps):
            raise NotRestored("a part of what was written there was changed or removed since")
        tests = []
        for name, value in steps:
            source = written.column(name)
            assert source is not None
            kept, _ = _kept(written, source, in_name=True)
            tests.append(c.text_is(kept, None if value == _NO_PARTITION else unquote(value)))
        conditions.append(c.conjunction(tests))
    return c.disjunction(conditions)


def same_again(c: Catalyst, leaf: Plan) -> bool:
    """Whether the files of this leaf hold each value as it is computed."""
    kinds = [a.dataType().catalogString() for a in c.output(leaf)]
    keeps = c.is_iceberg(leaf) or c.format_of(leaf) in _KEEP_VALUES
    return keeps and all(k in _SAME_AGAIN or k.startswith("decimal(") for k in kinds)
