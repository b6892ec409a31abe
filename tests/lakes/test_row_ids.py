"""Tables that keep ids of their rows: a row is the same wherever its file is rewritten, and tells its versions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence

KEEPING = {
    "delta": ("default.kept", "'delta.enableRowTracking' = 'true'"),
    "iceberg": ("ice.shop.kept", "'format-version' = '3'"),
}


@pytest.fixture(params=list(KEEPING))
def table(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """An empty table that keeps ids of its rows."""
    name, setting = KEEPING[request.param]
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} (id bigint, v string) USING {request.param} TBLPROPERTIES ({setting})")
    yield name
    spark.sql(f"DROP TABLE {name}")


def compact(spark: SparkSession, table: str) -> None:
    if not table.startswith("ice."):
        spark.sql(f"OPTIMIZE {table}")
        return
    options = "options => map('rewrite-all', 'true')"
    spark.sql(f"CALL ice.system.rewrite_data_files(table => '{table.removeprefix('ice.')}', {options})")


def test_a_row_is_the_same_in_a_rewritten_file(w: whence.Session, spark: SparkSession, table: str) -> None:
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'c')")
    before = spark.table(table)
    trace = w.backward(before.where("id = 3"))
    records = [row.record for row in trace.associations().collect()]
    assert [tuple(row) for row in trace["kept"].collect()] == [(3, "c")]
    compact(spark, table)
    now = spark.table(table)
    assert [row.record for row in w.backward(now.where("id = 3")).associations().collect()] == records
    # What was asked before is still true, and a row of then is found among those of now.
    assert w.backward(before.where("id = 3")).verify().ok
    assert [tuple(r) for r in w.forward(before.where("id = 3"), to=now).rows.collect()] == [(3, "c")]
    assert sorted(tuple(r) for r in trace.exclude(now).collect()) == [(1, "a"), (2, "b")]
    spark.sql(f"INSERT INTO {table} VALUES (4, 'd')")
    shown = sorted(row.id for row in before.collect())
    try:
        assert sorted(row.id for row in w.backward(before)["kept"].collect()) == shown == [1, 2, 3]
    except whence.SourceChanged:  # as the format keeps a table's state, or brings it up to date
        assert shown == [1, 2, 3, 4]


def test_a_captured_query_outlives_the_files_that_it_read(
    w: whence.Session, spark: SparkSession, table: str, tmp_path: Path
) -> None:
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'a')")
    with w.capture():
        spark.table(table).groupBy("v").count().write.parquet(str(tmp_path / "report"))
    asked = spark.read.parquet(str(tmp_path / "report")).where("v = 'a'")
    before = w.backward(asked)
    records = sorted(row.record for row in before.associations().collect())
    compact(spark, table)
    with whence.attach(spark, store=tmp_path / "store") as later:
        trace = later.backward(asked)
        assert trace.notes == ()
        assert sorted(tuple(row) for row in trace["kept"].collect()) == [(1, "a"), (3, "a")]
        assert sorted(row.record for row in trace.associations().collect()) == records
        assert trace.verify().ok


def test_the_versions_of_a_row(w: whence.Session, spark: SparkSession, table: str, tmp_path: Path) -> None:
    for name, rows in {"orders": [(1, "a"), (2, "b")], "fixes": [(2, "B"), (3, "c")]}.items():
        spark.createDataFrame(rows, "id bigint, v string").coalesce(1).write.parquet(str(tmp_path / name))
        spark.read.parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    with w.capture():
        spark.sql(f"INSERT INTO {table} SELECT * FROM orders")
        spark.sql(
            f"MERGE INTO {table} t USING fixes s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
        )
    spark.sql(f"UPDATE {table} SET v = 'x' WHERE id = 2")
    compact(spark, table)
    told = w.history(spark.table(table))
    assert told.table == "kept"
    found = {}
    for versions in told.rows.values():
        sources = [{name: [tuple(r) for r in rows] for name, rows in one.sources.items()} for one in versions]
        found[versions[-1].row.id] = [
            (one.what, one.row.v, made_from) for one, made_from in zip(versions, sources, strict=True)
        ]
    assert found == {
        1: [("made", "a", {"orders": [(1, "a")]})],
        2: [("made", "b", {"orders": [(2, "b")]}), ("changed", "B", {"fixes": [(2, "B")]}), ("changed", "x", {})],
        3: [("made", "c", {"fixes": [(3, "c")]})],
    }
    last = next(one for one in told if one.row.v == "x")
    assert last.note is not None
    assert "outside of any capture" in last.note
    assert last.at is not None
    text = str(told)
    assert "kept, row 1" in text
    assert "from fixes: id=2, v=B" in text
    assert "kept" in told._repr_html_()


def test_what_has_no_versions(w: whence.Session, spark: SparkSession, table: str) -> None:
    with pytest.raises(whence.WhenceError, match="reads none"):
        w.history(spark.range(3))
    setting = "'delta.enableRowTracking' = 'false'" if not table.startswith("ice.") else "'format-version' = '2'"
    kind = "iceberg" if table.startswith("ice.") else "delta"
    plain = f"{table}_plain"
    spark.sql(f"CREATE TABLE {plain} (id bigint) USING {kind} TBLPROPERTIES ({setting})")
    spark.sql(f"INSERT INTO {plain} VALUES (1)")
    with pytest.raises(whence.WhenceError, match=r"ALTER TABLE .* SET TBLPROPERTIES"):
        w.history(spark.table(plain))
    spark.sql(f"DROP TABLE {plain}")
    spark.sql(f"INSERT INTO {table} SELECT id, 'a' FROM range(101)")
    assert [one.what for one in w.history(table, where="id = 100")] == ["made"]
    with pytest.raises(whence.WhenceError, match="up to 100 rows"):
        w.history(spark.table(table))
