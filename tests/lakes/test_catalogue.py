"""What the watcher makes of commands over Delta and Iceberg tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence

TABLES = {"delta": "default.watched", "iceberg": "ice.shop.watched"}


@pytest.mark.parametrize("kind", list(TABLES))
def test_commands(w: whence.Session, spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = TABLES[kind]
    spark.sql(f"DROP TABLE IF EXISTS {table}")
    spark.createDataFrame([(1, "a"), (2, "b")], "id bigint, v string").coalesce(1).write.parquet(
        str(tmp_path / "fixes")
    )
    spark.read.parquet(str(tmp_path / "fixes")).createOrReplaceTempView("fixes")
    spark.sql(f"CREATE TABLE {table} (id bigint, v string) USING {kind}")
    spark.sql(f"INSERT INTO {table} SELECT * FROM fixes")
    spark.sql(f"UPDATE {table} SET v = upper(v) WHERE id = 1")
    spark.sql(f"DELETE FROM {table} WHERE id = 2")
    spark.sql(
        f"MERGE INTO {table} t USING fixes s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    (dataset,) = [d for d in w.catalog.datasets() if d.name.endswith("watched")]
    versions = [v for v in w.catalog.versions(dataset) if v.how not in ("create", "seen", "drop")]
    assert [v.how for v in versions] == ["append", "update", "delete", "merge"]
    if kind == "delta":
        assert [v.external for v in versions] == ["1", "2", "3", "4"]
    else:
        made = spark.table(f"{table}.snapshots").orderBy("committed_at").collect()
        assert [v.external for v in versions] == [str(row.snapshot_id) for row in made]
    assert all([name for name, _ in v.columns] == ["id", "v"] for v in versions)
    edges = [e for e in w.catalog.edges(level="column") if e.target == dataset]
    hidden = ("_metadata", "_file", "_pos", "_spec_id", "_partition", "_row_id", "__row_operation")
    assert not [e for e in edges if e.source_column in hidden or e.target_column in hidden]
    merged = {e.run for e in w.catalog.edges() if e.target == dataset and e.kind == "merge"}
    direct = {(e.source.name.rsplit("/", 1)[-1], e.source_column, e.target_column) for e in edges
              if e.run in merged and e.kind == "DIRECT"}  # fmt: skip
    assert direct == {("fixes", "v", "v"), ("fixes", "id", "id")}
    spark.sql(f"DROP TABLE {table}")
