"""What the watcher makes of commands over Delta and Iceberg tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

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


def committed(spark: SparkSession, table: str) -> list[str]:
    """The versions of a table, as its own log has them."""
    if table.startswith("ice."):
        return [str(row.snapshot_id) for row in spark.table(f"{table}.snapshots").orderBy("committed_at").collect()]
    return [str(row.version) for row in reversed(spark.sql(f"DESCRIBE HISTORY {table}").collect())]


@pytest.mark.parametrize("kind", list(TABLES))
def test_each_version_is_the_one_that_was_made(
    w: whence.Session, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    table = TABLES[kind]
    spark.sql(f"DROP TABLE IF EXISTS {table}")
    spark.createDataFrame([(1, "a"), (2, "b")], "id bigint, v string").coalesce(1).write.parquet(str(tmp_path / "one"))
    one = spark.read.parquet(str(tmp_path / "one"))
    one.writeTo(table).using(kind).partitionedBy(F.col("id")).create()
    one.writeTo(table).overwritePartitions()
    one.writeTo(table).using(kind).createOrReplace()
    spark.sql(f"UPDATE {table} SET v = 'x' WHERE id = 1")
    hows = ["overwrite", "append", "overwrite", "update"]
    if kind == "delta":  # which keeps what it knew of the table when it was made
        from delta.tables import DeltaTable

        held = DeltaTable.forName(spark, table)
        held.update("id = 1", {"v": "'y'"})
        held.delete("id = 2")
        hows += ["update", "delete"]
    else:
        whole = "options => map('rewrite-all', 'true')"
        spark.sql(f"CALL ice.system.rewrite_data_files(table => '{table.removeprefix('ice.')}', {whole})")
        spark.sql(f"ALTER TABLE {table} CREATE BRANCH later")
        one.writeTo(f"{table}.branch_later").append()
        hows += ["append"]
    (dataset,) = [d for d in w.catalog.datasets() if d.name.endswith("watched")]
    versions = [v for v in w.catalog.versions(dataset) if v.how not in ("drop", "alter")]
    made = [v for v in committed(spark, table) if kind == "delta" or v != rewritten(spark, table)]
    assert [(v.how, v.external) for v in versions] == list(zip(hows, made, strict=True))
    others = {d.name for d in w.catalog.datasets() if d.kind != "memory"} - {dataset.name, f"{dataset.name}.snapshots"}
    assert {name.rsplit("/", 1)[-1] for name in others} == {"one"}
    spark.sql(f"DROP TABLE {table}")


def test_restore_is_an_event(w: whence.Session, spark: SparkSession, tmp_path: Path) -> None:
    """The table is what an older version of it was: what came in since does not count, what went out counts again."""
    table = TABLES["delta"]
    for name, rows in {"first": [(1, "a"), (2, "b")], "second": [(3, "c")], "third": [(4, "d")]}.items():
        spark.createDataFrame(rows, "id bigint, v string").coalesce(1).write.parquet(str(tmp_path / name))
        spark.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    spark.sql(f"DROP TABLE IF EXISTS {table}")
    spark.sql(f"CREATE TABLE {table} (id bigint, v string) USING delta")
    spark.sql(f"INSERT INTO {table} SELECT * FROM first")
    spark.sql(f"INSERT INTO {table} SELECT * FROM second")
    spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM third")
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 1")
    from delta.tables import DeltaTable

    (dataset,) = [d for d in w.catalog.datasets() if d.name.endswith("watched")]

    def inputs() -> set[str]:
        edges = w.catalog.lineage(dataset, "backward")
        return {e.source.name.rsplit("/", 1)[-1] for e in edges if e.source != dataset == e.target}

    assert inputs() == {"first"}
    columns = w.catalog.lineage(dataset, "backward", level="column")
    assert {(e.source_column, e.target_column) for e in columns if e.source != dataset == e.target} == {
        ("id", "id"),
        ("v", "v"),
    }
    DeltaTable.forName(spark, table).restoreToVersion(2)
    assert inputs() == {"first", "second"}
    found = [(v.how, v.external) for v in w.catalog.versions(dataset) if v.how in ("append", "overwrite", "restore")]
    assert found == [("append", "1"), ("append", "2"), ("overwrite", "3"), ("restore", "4"), ("restore", "5")]
    assert all(
        [name for name, _ in v.columns] == ["id", "v"] for v in w.catalog.versions(dataset) if v.how == "restore"
    )
    restored = [e for e in w.catalog.edges() if e.kind == "restore"]
    assert [(e.source, e.target) for e in restored] == [(dataset, dataset)] * 2
    spark.sql(f"DROP TABLE {table}")
    path = str(tmp_path / "by_path")
    for mode in ("append", "overwrite"):
        spark.range(3).write.format("delta").mode(mode).save(path)
    spark.sql(f"RESTORE delta.`{path}` TO VERSION AS OF 0")
    (dataset,) = [d for d in w.catalog.datasets() if d.name == path]
    assert [(v.how, v.external) for v in w.catalog.versions(dataset)][-1] == ("restore", "2")


def rewritten(spark: SparkSession, table: str) -> str:
    """The snapshot that has the rows of the one before in other files."""
    (row,) = spark.table(f"{table}.snapshots").where("operation = 'replace'").collect()
    return str(row.snapshot_id)


def test_a_path_of_delta(w: whence.Session, spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "by_path")
    spark.range(3).write.format("delta").save(path)
    spark.range(3).write.format("delta").mode("append").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    (dataset,) = w.catalog.datasets()
    assert (dataset.namespace, dataset.name) == ("file", path)
    found = [(v.how, v.external) for v in w.catalog.versions(dataset)]
    assert found == [("overwrite", "0"), ("append", "1"), ("delete", "2")]
