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
        spark.sql(f"CREATE TABLE mem.db.{name} (id INT, name STRING) PARTITIONED BY (name)")
        spark.sql(f"INSERT INTO mem.db.{name} VALUES (1, 'a'), (2, 'b')")
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
        {("m1", "m2")},
        [_tables],
    ),
    Case(
        "UPDATE from a subquery",
        ["UPDATE mem.db.m2 SET name = 'x' WHERE id IN (SELECT id FROM mem.db.m1)"],
        {("m1", "m2")},
        [_tables],
    ),
    Case(
        "DELETE from a subquery",
        ["DELETE FROM mem.db.m2 WHERE id IN (SELECT id FROM mem.db.m1)"],
        {("m1", "m2")},
        [_tables],
    ),
    Case("writeTo", [_write_to], {("m1", "m2"), ("m1", "m3")}, [_tables]),
]
