"""MERGE, UPDATE, DELETE and writeTo, executed: on the tables in memory that Spark's own tests have (from Maven).

Spark rewrites these commands by itself, the same way for every connector of this kind (Iceberg is one).
"""

from __future__ import annotations

from typing import Any

from cases import Case

JAR = "org.apache.spark:spark-catalyst_2.13:4.2.0:tests"
CATALOG = "org.apache.spark.sql.connector.catalog.InMemoryRowLevelOperationTableCatalog"


def _tables(spark: Any, home: str) -> None:
    for name in ("m1", "m2"):
        spark.sql(f"DROP TABLE IF EXISTS mem.db.{name}")
        spark.sql(f"CREATE TABLE mem.db.{name} (id INT, name STRING, note STRING) PARTITIONED BY (name)")
        spark.sql(f"INSERT INTO mem.db.{name} VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    spark.sql("DROP TABLE IF EXISTS mem.db.m3")


def _write_to(spark: Any, home: str) -> None:
    rows = spark.table("mem.db.m1")
    rows.writeTo("mem.db.m2").append()
    rows.writeTo("mem.db.m2").overwritePartitions()
    rows.writeTo("mem.db.m3").create()


ROWS = [
    Case(
        "MERGE",
        [
            "MERGE INTO mem.db.m2 USING mem.db.m1 ON m1.id = m2.id "
            "WHEN MATCHED THEN UPDATE SET name = upper(m1.name) WHEN NOT MATCHED THEN INSERT *"
        ],
        {("m1", "m2"), ("m2", "m2")},
        [_tables],
    ),
    Case(
        "UPDATE from a subquery",
        ["UPDATE mem.db.m2 SET name = 'x' WHERE id IN (SELECT id FROM mem.db.m1)"],
        {("m1", "m2"), ("m2", "m2")},
        [_tables],
    ),
    Case(
        "UPDATE from its own columns",
        ["UPDATE mem.db.m2 SET name = upper(note) WHERE id > 1"],
        {("m2", "m2")},
        [_tables],
    ),
    Case("UPDATE with a constant", ["UPDATE mem.db.m2 SET name = 'x'"], set(), [_tables]),
    Case(
        "DELETE from a subquery",
        ["DELETE FROM mem.db.m2 WHERE id IN (SELECT id FROM mem.db.m1)"],
        {("m1", "m2"), ("m2", "m2")},
        [_tables],
    ),
    Case(
        "columns that come and go",
        [
            "ALTER TABLE mem.db.m1 ADD COLUMNS (more INT)",
            "ALTER TABLE mem.db.m1 RENAME COLUMN more TO less",
            "ALTER TABLE mem.db.m2 ADD COLUMNS (more INT)",
            "ALTER TABLE mem.db.m2 DROP COLUMN more",
            "ALTER TABLE mem.db.m2 RENAME TO db.m4",
            "DROP TABLE mem.db.m4",
        ],
        set(),
        [_tables],
    ),
    Case("writeTo", [_write_to], {("m1", "m2"), ("m1", "m3")}, [_tables]),
]

_FILTER = ("INDIRECT", "FILTER")
COLUMNS = {
    "MERGE": ("merge", {
        ("m1", "id", "id", "DIRECT", "IDENTITY"), ("m1", "name", "name", "DIRECT", "IDENTITY"),
        ("m1", "name", "name", "DIRECT", "TRANSFORMATION"), ("m1", "note", "note", "DIRECT", "IDENTITY"),
        ("m1", "id", "*", "INDIRECT", "JOIN"), ("m2", "id", "*", "INDIRECT", "JOIN"),
        ("m1", "id", "*", *_FILTER), ("m2", "id", "*", *_FILTER),
    }),
    "UPDATE from a subquery": ("update", {("m1", "id", "*", *_FILTER), ("m2", "id", "*", *_FILTER)}),
    "UPDATE from its own columns": ("update", {
        ("m2", "note", "name", "DIRECT", "TRANSFORMATION"), ("m2", "id", "name", "INDIRECT", "CONDITIONAL"),
        ("m2", "id", "*", *_FILTER),
    }),
    "DELETE from a subquery": ("delete", {("m1", "id", "*", *_FILTER), ("m2", "id", "*", *_FILTER)}),
}  # fmt: skip
"""The kind of every edge, and the column links, with `*` for every column."""
SCHEMAS = {"m1": ["id", "name", "note", "less"], "m4": ["id", "name", "note"]}
"""After "columns that come and go"."""
