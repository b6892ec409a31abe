"""Which rows of an Iceberg table a plan reads. The table that the plan holds says it, or options of the reading do,
which Spark hands on unread (`spark.read.option("branch", ...).table(...)`, `SELECT ... WITH (...)`), or a setting of
the session in force while the plan runs (`spark.wap.branch`)."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from whence.spark.construct import Plan, remembered

# Only what was appended between two snapshots, or files that somebody picked: no version of the table.
_OF_A_PART = ("start-snapshot-id", "end-snapshot-id", "scan-task-set-id")
_WAP_ENABLED, _WAP_BRANCH = "write.wap.enabled", "spark.wap.branch"


def options_of(relation: Plan) -> dict[str, str]:
    def look() -> dict[str, str]:
        given = relation.options()
        if given.isEmpty():
            return {}
        return {str(key).lower(): str(value) for key, value in dict(given.asCaseSensitiveMap()).items()}

    return remembered(relation, "iceberg_options", look)


def part_of(relation: Plan) -> tuple[tuple[str, str], ...]:
    """What picks a part of the table's rows; empty where all rows of a snapshot are read."""
    given = options_of(relation)
    return tuple((name, given[name]) for name in _OF_A_PART if name in given)


def is_fixed(relation: Plan) -> bool:
    """Whether the same rows are read whatever is committed to the table."""
    return snapshot_named(relation) is not None or "end-snapshot-id" in options_of(relation)


def snapshot_named(relation: Plan) -> int | None:
    """The snapshot that is asked for by number, tag or time; None where it is the newest one."""
    own = own_snapshot(relation)
    if own is not None:
        return own
    table: Any = relation.table()
    given = options_of(relation)
    if "snapshot-id" in given:
        return int(given["snapshot-id"])
    if "tag" in given:
        return int(table.table().snapshot(given["tag"]).snapshotId())
    if "as-of-timestamp" in given:
        at = int(given["as-of-timestamp"])
        then = [one for one in list(table.table().history()) if int(one.timestampMillis()) <= at]
        return int(then[-1].snapshotId()) if then else None
    return None


def own_snapshot(relation: Plan) -> int | None:
    """The snapshot that the plan's table is read at by itself."""

    def look() -> int | None:
        table: Any = relation.table()
        number = table.snapshotId()
        if number is None:
            return None
        try:
            asked = table.getClass().getDeclaredField("timeTravel")
        except Py4JJavaError:  # there is one only where it was asked for
            return int(number)
        # From Iceberg 1.12 on Spark 4.1 on a plan holds the snapshot that is the newest one when the plan is made, and
        # Spark exchanges it for the one that is so when the plan is run.
        asked.setAccessible(True)
        return None if asked.get(table) is None else int(number)

    return remembered(relation, "own_snapshot", look)


def branch_named(spark: SparkSession, relation: Plan) -> str | None:
    """The branch that is read; None for the main one."""
    own = own_branch(relation)
    return wap_branch(spark, relation) if own is None else own


def own_branch(relation: Plan) -> str | None:
    """The branch that the plan names by itself."""
    table: Any = relation.table()
    own = table.branch()
    return options_of(relation).get("branch") if own is None else str(own)


def part_of_name(branch: str) -> str:
    """How a branch is named behind the name of its table."""
    return f"branch_{branch}"


def is_named_from_outside(spark: SparkSession, relation: Plan) -> bool:
    """Whether the branch is named by an option or a setting, of which the table that the plan holds knows nothing."""
    return relation.table().branch() is None and branch_named(spark, relation) is not None


def wap_branch(spark: SparkSession, relation: Plan) -> str | None:
    """Where tables are audited before they are published, the session's branch stands for them, once it is there."""
    name = audited_in(spark, relation)
    return name if name is not None and relation.table().table().refs().containsKey(name) else None


def audited_in(spark: SparkSession, relation: Plan) -> str | None:
    """The session's branch, if the table is audited before it is published."""
    name = spark.conf.get(_WAP_BRANCH, None)
    if name is None:
        return None
    table: Any = relation.table().table()
    return name if str(table.properties().get(_WAP_ENABLED)).lower() == "true" else None
