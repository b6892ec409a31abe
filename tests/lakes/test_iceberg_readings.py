"""What of an Iceberg table is read may be said by options of the reading, or by a setting: what is shown is what is
traced, through captured writes too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import whence
from releases import has, since

TABLE = "ice.shop.read"
# Iceberg 1.12 for Spark 4.1 no longer takes options of its own for what Spark has options for.
SNAPSHOT, TAG = ("versionAsOf", "versionAsOf") if has("4.1") else ("snapshot-id", "tag")
pytestmark = pytest.mark.parametrize("kind", ["iceberg"])


@pytest.fixture(params=["2", "3"])
def table(request: pytest.FixtureRequest, w: whence.Session, tmp_path: Path) -> Iterator[str]:
    """Three captured appends of one row each; with and without ids of rows."""
    spark = w.spark
    spark.sql(f"DROP TABLE IF EXISTS {TABLE}")
    spark.sql(
        f"CREATE TABLE {TABLE} (id bigint, v string) USING iceberg "
        f"TBLPROPERTIES ('format-version' = '{request.param}', 'write.wap.enabled' = 'true')"
    )
    for number, name in enumerate(("one", "two", "three"), 1):
        spark.createDataFrame([(number, name)], "id bigint, v string").write.parquet(str(tmp_path / name))
        df = spark.read.parquet(str(tmp_path / name))
        df.createOrReplaceTempView(name)
        with w.capture():
            df.writeTo(TABLE).append()
    yield TABLE
    spark.sql(f"DROP TABLE {TABLE}")


def snapshots(spark: SparkSession) -> list[str]:
    return [str(row.snapshot_id) for row in spark.table(f"{TABLE}.snapshots").orderBy("committed_at").collect()]


def rows(df: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in df.collect())


def told(trace: whence.Trace) -> dict[str, list[tuple[object, ...]]]:
    """The witnesses of a trace that is exact and proven."""
    verdict = trace.verify()
    assert verdict.ok, verdict
    assert trace.exact
    return {name: found for name, df in trace.sources.items() if (found := rows(df))}


def test_a_snapshot_that_options_name(w: whence.Session, spark: SparkSession, table: str, kind: str) -> None:
    first, second, _ = snapshots(spark)
    spark.sql(f"ALTER TABLE {table} CREATE TAG then AS OF VERSION {second}")
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH old AS OF VERSION {first}")
    at = spark.table(f"{table}.snapshots").where(f"snapshot_id = {second}")
    time = ("timestampAsOf", "STRING(committed_at)") if has("4.1") else ("as-of-timestamp", "unix_millis(committed_at)")
    ways = {
        (SNAPSHOT, first): 1,
        ("branch", "old"): 1,
        (TAG, "then"): 2,
        (time[0], str(at.selectExpr(time[1]).first()[0])): 2,
    }
    for (name, value), count in ways.items():
        for df in (
            spark.read.option(name, value).table(table),
            spark.read.option(name, value).format("iceberg").load(table),
        ):
            trace = w.backward(df)
            expected = {"one": [(1, "one")], "two": [(2, "two")]}
            assert told(trace) == dict(list(expected.items())[:count]), name
            assert trace.notes == ()
    both = spark.read.option(SNAPSHOT, first).table(table).unionAll(spark.table(table).where("id = 3"))
    assert told(w.backward(both)) == {"one": [(1, "one")], "three": [(3, "three")]}
    # A captured query that read it so reads it so again.
    with w.capture():
        spark.read.option("branch", "old").table(table).selectExpr("count(*) AS n").createOrReplaceTempView("counted")
        spark.sql("CREATE TABLE read_count USING parquet AS SELECT * FROM counted")
    spark.sql(f"INSERT INTO {table}.branch_old VALUES (7, 'later')")
    trace = w.backward(spark.table("read_count"))
    assert (told(trace), trace.notes) == ({"one": [(1, "one")]}, ())
    spark.sql("DROP TABLE read_count")


@since("4.0", "options in SQL")
def test_a_snapshot_that_sql_names(w: whence.Session, spark: SparkSession, table: str, kind: str) -> None:
    df = spark.sql(f"SELECT * FROM {table} WITH (`{SNAPSHOT}` = {snapshots(spark)[0]})")
    assert told(w.backward(df)) == {"one": [(1, "one")]}


def test_what_was_appended_between_two_snapshots(
    w: whence.Session, spark: SparkSession, table: str, kind: str, tmp_path: Path
) -> None:
    first, second, _ = snapshots(spark)

    def read(**options: str) -> DataFrame:
        return spark.read.format("iceberg").option("start-snapshot-id", first).options(**options).load(table)

    middle, rest = read(**{"end-snapshot-id": second}), read()
    now = spark.table(table)
    trace = w.backward(middle)
    assert told(trace) == {"read": [(2, "two")]}
    assert "only a part of its rows is read" in trace.ended[0]
    assert told(w.backward(middle.unionAll(now.where("id = 1")))) == {"one": [(1, "one")], "read": [(2, "two")]}
    assert rows(w.forward(rest, to=middle).rows) == [(2, "two")]
    with w.capture():
        rest.selectExpr("max(id) AS id").write.mode("overwrite").parquet(f"{tmp_path}/newest")
    spark.sql(f"INSERT INTO {table} VALUES (4, 'later')")
    captured = w.backward(spark.read.parquet(f"{tmp_path}/newest"))
    assert told(captured) == {"newest": [(3,)]}
    assert "only a part of the rows" in captured.ended[0]
    # What has an end stays as it is.
    assert told(w.backward(middle)) == {"read": [(2, "two")]}
    shown = rows(rest)
    try:
        assert told(w.backward(rest)) == {"read": shown}
    except whence.SourceChanged:
        assert len(shown) == 3


def test_a_branch_that_the_session_names(w: whence.Session, spark: SparkSession, table: str, kind: str) -> None:
    """Write, audit, publish."""
    spark.conf.set("spark.wap.branch", "audit")
    try:
        with w.capture():
            spark.sql(f"INSERT INTO {table} SELECT id + 10, v FROM two")
        audited = w.backward(spark.table(table).where("id in (1, 12)"))
        assert (told(audited), audited.notes) == ({"one": [(1, "one")], "two": [(2, "two")]}, ())
    finally:
        spark.conf.unset("spark.wap.branch")
    assert list(told(w.backward(spark.table(table)))) == ["three", "two", "one"]
    spark.sql(f"CALL ice.system.fast_forward('{table.removeprefix('ice.')}', 'main', 'audit')")
    published = w.backward(spark.table(table).where("id = 12"))
    assert (told(published), published.notes) == ({"two": [(2, "two")]}, ())
    (dataset,) = [d for d in w.catalog.datasets() if d.name.endswith("shop.read")]
    made = [v.external for v in w.catalog.versions(dataset) if v.how == "append"]
    assert made == snapshots(spark)


def test_the_catalogue_names_the_snapshot_that_was_read(
    w: whence.Session, spark: SparkSession, table: str, kind: str, tmp_path: Path
) -> None:
    first = snapshots(spark)[0]
    spark.read.option(SNAPSHOT, first).table(table).write.parquet(str(tmp_path / "copy"))
    (edge,) = [e for e in w.catalog.edges() if e.target.name.endswith("/copy")]
    known = {v.number: v.external for v in w.catalog.versions(edge.source)}
    assert known[edge.source_version] == first
