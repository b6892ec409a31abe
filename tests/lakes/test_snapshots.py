"""Tables with snapshots: rows told by file and position, several states in one query, and what comes afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import whence
from sql.at_start import check_source

SCHEMA = "rid bigint, k bigint, n bigint"
ROWS = [(0, 1, None), (1, None, 1), (1, 1, None), (2, 1, 7), (2, 1, 7)]
TABLES = {"delta": "default.orders", "iceberg": "ice.shop.orders"}


@pytest.fixture(params=list(TABLES))
def table(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """A table of five rows, and of one snapshot."""
    name = TABLES[request.param]
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.createDataFrame(ROWS, SCHEMA).coalesce(1).createOrReplaceTempView("first_rows")
    spark.sql(f"CREATE TABLE {name} USING {request.param} AS SELECT * FROM first_rows")
    yield name
    spark.sql(f"DROP TABLE {name}")


def first_version(spark: SparkSession, table: str) -> str:
    if table.startswith("ice."):
        return str(spark.table(f"{table}.snapshots").orderBy("committed_at").first().snapshot_id)
    return "0"


def rows(df: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in df.collect()), key=repr)


def seen(trace: whence.Trace) -> list[tuple[object, ...]]:
    """The rows of the trace's only source, as many as are counted; and the trace is proven."""
    ((name, shown),) = trace.sources.items()
    found = rows(shown)
    assert trace.witness_counts == {name: len(found)}
    assert trace.verify().ok, trace.verify()
    return found


def test_rows_of_now_and_of_an_older_snapshot(w: whence.Session, table: str) -> None:
    check_source(w, w.spark.table(table), "orders")
    w.spark.sql(f"INSERT OVERWRITE {table} SELECT id, id, id FROM range(3)")
    # An older snapshot is a source like any other, whatever was written since.
    old = w.spark.sql(f"SELECT * FROM {table} VERSION AS OF {first_version(w.spark, table)}")
    assert seen(w.backward(old.where("rid = 2"))) == [(2, 1, 7), (2, 1, 7)]


def test_two_states_in_one_query(w: whence.Session, table: str) -> None:
    w.spark.sql(f"INSERT INTO {table} VALUES (7, 7, 7)")
    was = w.spark.sql(f"SELECT * FROM {table} VERSION AS OF {first_version(w.spark, table)}")
    now = w.spark.table(table)
    both = was.where("rid = 0").unionAll(now.where("rid = 7"))
    assert [row[0] for row in seen(w.backward(both))] == [0, 7]
    # The row that is in both is one row.
    assert [row[0] for row in seen(w.backward(was.unionAll(now).where("rid = 0")))] == [0]
    assert [row[0] for row in rows(w.forward(was.where("rid = 0"), to=now).rows)] == [0]
    assert [row[0] for row in rows(w.backward(was.where("rid < 2")).exclude(now))] == [2, 2, 7]


def test_a_row_that_was_deleted_since(w: whence.Session, table: str) -> None:
    w.spark.sql(f"DELETE FROM {table} WHERE rid = 0")
    was = w.spark.sql(f"SELECT * FROM {table} VERSION AS OF {first_version(w.spark, table)}")
    now = w.spark.table(table)
    assert [row[0] for row in seen(w.backward(was.where("rid = 0").unionAll(now.where("rid = 9"))))] == [0]
    assert rows(w.forward(was.where("rid = 0"), to=now).rows) == []


def test_a_row_whose_file_was_rewritten_since(w: whence.Session, table: str) -> None:
    """It is there, but told by another file: that it is not found is said to be no answer."""
    was = w.spark.sql(f"SELECT * FROM {table} VERSION AS OF {first_version(w.spark, table)}")
    w.spark.sql(f"INSERT INTO {table} VALUES (7, 7, 7)")
    added = w.forward(was.where("rid = 0"), to=w.spark.table(table))
    assert ([row[0] for row in rows(added.rows)], added.ended) == ([0], ())
    w.spark.sql(f"UPDATE {table} SET n = 0 WHERE rid = 2")
    rewritten = w.forward(was.where("rid = 0"), to=w.spark.table(table))
    (note,) = rewritten.ended
    assert (rows(rewritten.rows), "keeps no row ids" in note) == ([], True)


def test_a_table_that_is_written_after_the_dataframe_was_made(w: whence.Session, table: str) -> None:
    df = w.spark.table(table)
    report = df.groupBy("k").count()
    trace = w.backward(df.where("rid = 0"))
    assert seen(trace) == [(0, 1, None)]
    w.spark.sql(f"INSERT INTO {table} VALUES (7, 1, 7)")
    for asked in (df, report):
        with pytest.raises(whence.SourceChanged, match="orders"):
            w.backward(asked)
    with pytest.raises(whence.SourceChanged, match="Read the source again"):
        trace.exclude()
    assert len(seen(w.backward(w.spark.table(table)))) == 6


def test_a_column_of_the_same_name_is_another_one(w: whence.Session, spark: SparkSession, table: str) -> None:
    """Iceberg makes no snapshot of it, so what one question has computed must not be taken for the next one's."""
    if not table.startswith("ice."):
        versions = "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', {versions})")
    report = f"SELECT k, count(n) AS n FROM {table} WHERE k = 1 GROUP BY k ORDER BY k LIMIT 1"
    assert [row[0] for row in seen(w.backward(spark.sql(report).where("n = 2")))] == [0, 1, 2, 2]
    assert rows(w.forward(spark.table(table).where("n = 7"), to=spark.sql(report)).rows) == [(1, 2)]
    spark.sql(f"ALTER TABLE {table} DROP COLUMN n")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN n bigint")
    assert rows(spark.sql(report)) == [(1, 0)]
    assert rows(w.forward(spark.table(table).where("n = 7"), to=spark.sql(report)).rows) == []
    assert rows(w.forward(spark.table(table).where("rid = 2"), to=spark.sql(report)).rows) == [(1, 0)]
    assert seen(w.backward(spark.sql(report).where("n = 0"))) == [
        (0, 1, None),
        (1, 1, None),
        (2, 1, None),
        (2, 1, None),
    ]


def test_rows_are_found_by_their_values(w: whence.Session, table: str) -> None:
    """A question from one source row reads what may hold it, and finds the very row among equal ones."""
    spark = w.spark
    spark.sql(f"INSERT INTO {table} VALUES (2, 1, 7), (3, 2, 8)")
    totals = spark.table(table).groupBy("k").agg({"n": "sum"}).withColumnRenamed("sum(n)", "n")
    shown = spark.table(table).where("n IS NOT NULL").select("rid", "n")
    for _ in range(2):  # the second question of a session knows what the first one has computed
        assert rows(w.forward(spark.table(table).where("rid = 3"), to=totals).rows) == [(2, 8)]
        assert rows(w.forward(spark.table(table).where("rid = 2 AND n = 7"), to=totals).rows) == [(1, 21)]
        assert len(rows(w.forward(spark.table(table).where("rid = 2"), to=shown).rows)) == 3
        assert rows(w.forward(spark.table(table).where("n = 8"), to=shown).rows) == [(3, 8)]


def test_delta_tables_that_are_gone_or_have_other_columns(w: whence.Session, spark: SparkSession) -> None:
    """Delta raises errors of its own where the columns of a plan are not in the table any more."""
    for change, said in (
        ("CREATE OR REPLACE TABLE other (b string) USING delta", "went on"),
        ("DROP TABLE other", "is gone"),
    ):
        spark.sql("CREATE OR REPLACE TABLE other USING delta AS SELECT id AS a FROM range(3)")
        df = spark.table("other")
        spark.sql(change)
        with pytest.raises(whence.SourceChanged, match=said):
            w.backward(df.where("a = 1"))


def test_a_path_of_delta(w: whence.Session, spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "by_path")
    spark.createDataFrame(ROWS, SCHEMA).coalesce(1).write.format("delta").save(path)
    df = spark.read.format("delta").load(path)
    check_source(w, df, "by_path")
    spark.createDataFrame([(7, 1, 7)], SCHEMA).write.format("delta").mode("append").save(path)
    with pytest.raises(whence.SourceChanged, match="went on from version 0 to 1"):
        w.backward(df.where("rid = 0"))
    old = spark.read.format("delta").option("versionAsOf", 0).load(path)
    # The files of a Delta table, read as they are, have the same rows.
    assert rows(w.forward(old.where("rid = 0"), to=spark.read.parquet(*old.inputFiles())).rows) == [(0, 1, None)]


def test_deletion_vectors(w: whence.Session, spark: SparkSession) -> None:
    """They leave out rows of a file: what is its second row must not depend on the version."""
    spark.sql("CREATE TABLE vectors (rid bigint) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
    spark.range(0, 5, 1, 1).selectExpr("id AS rid").write.insertInto("vectors")
    spark.sql("DELETE FROM vectors WHERE rid = 1")
    was, now = spark.sql("SELECT * FROM vectors VERSION AS OF 1"), spark.table("vectors")
    assert was.inputFiles() == now.inputFiles()
    for state in (now, was):
        assert rows(w.backward(state.where("rid = 3"))["vectors"]) == [(3,)]
    assert seen(w.backward(was.where("rid = 1").unionAll(now.where("rid = 4")))) == [(1,), (4,)]
    assert rows(w.forward(was.where("rid in (1, 3)"), to=now).rows) == [(3,)]
    spark.sql("DROP TABLE vectors")
