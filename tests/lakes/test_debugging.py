"""What is done with a trace works on these tables too: associations, stored groups, culprits, quarantine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import whence
from whence.model import Strategy

TABLES = {"delta": "default.failing", "iceberg": "ice.shop.failing"}


@pytest.fixture(params=list(TABLES), scope="module")
def table(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    name = TABLES[request.param]
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(f"CREATE TABLE {name} (id bigint, amount string) USING {request.param}")
    spark.range(0, 6, 1, 1).selectExpr("id", "IF(id = 3, '5x7', CAST(id AS STRING))").write.insertInto(name)
    yield name
    spark.sql(f"DROP TABLE {name}")


def test_associations_tell_places(w: whence.Session, spark: SparkSession, table: str) -> None:
    groups = spark.sql(f"SELECT id % 2 AS k, count(*) AS n FROM {table} GROUP BY 1")
    trace = w.backward(groups.where("k = 1"))
    told = trace.associations().collect()
    assert sorted(row.record.rsplit("#", 1)[1] for row in told) == ["1", "3", "5"]
    assert len({row.record.rsplit("#", 1)[0] for row in told}) == 1
    assert all(".parquet#" in row.record for row in told)
    assert "failing: 3 witnesses" in str(trace)


def test_groups_are_stored(w: whence.Session, spark: SparkSession, table: str) -> None:
    groups = spark.table(table).groupBy("amount").count()
    with w.capture():
        groups.collect()
    trace = w.backward(groups.where("amount = '5x7'"))
    assert [row.id for row in trace["failing"].collect()] == [3]
    if not table.startswith("ice."):  # taps stand below aggregates over scans of files
        assert trace.strategy is Strategy.STORED


@pytest.mark.usefixtures("ansi")
def test_culprits_and_quarantine(w: whence.Session, spark: SparkSession, table: str) -> None:
    cast = spark.table(table).selectExpr("id", "CAST(amount AS INT) AS n")
    parsed = spark.table(table).select("id", udf(int, "int")("amount").alias("n"))
    for query in (cast, parsed):
        with pytest.raises(Exception, match="5x7"), w.guard() as guard:
            query.collect()
        assert guard.culprit is not None
        (source,) = guard.culprit.sources
        assert [row.id for row in source.rows] == [3]
        assert source.records[0].endswith("#3")
        with w.guard(on_error="quarantine") as aside:
            kept = sorted(row.id for row in query.collect() if row.n is not None)
        assert kept == [0, 1, 2, 4, 5]
        (record,) = aside.records
        assert record.sources[0].endswith("#3")


@pytest.mark.parametrize("table", ["iceberg"], indirect=True)
def test_metadata_tables_are_sources(w: whence.Session, spark: SparkSession, table: str) -> None:
    for about in ("snapshots", "files", "history"):
        trace = w.backward(spark.table(f"{table}.{about}"))
        assert trace.witness_counts == {about: 1}
        assert trace.verify().ok


@pytest.mark.parametrize("table", ["iceberg"], indirect=True)
def test_a_branch_is_a_version_of_its_table(w: whence.Session, spark: SparkSession, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH later")
    spark.sql(f"ALTER TABLE {table} CREATE TAG then")
    spark.sql(f"INSERT INTO {table}.branch_later VALUES (7, 'g')")
    branch, main = spark.sql(f"SELECT * FROM {table} VERSION AS OF 'later'"), spark.table(table)
    tag = spark.sql(f"SELECT * FROM {table} VERSION AS OF 'then'")
    assert w.backward(branch.where("id >= 5")).witness_counts == {"failing": 2}
    both = w.backward(branch.where("id = 7").unionAll(main.where("id = 5")).unionAll(tag.where("id = 5")))
    assert sorted(row.id for row in both["failing"].collect()) == [5, 7]
    assert both.verify().ok
    assert [row.id for row in w.forward(branch.where("id >= 5"), to=main).rows.collect()] == [5]
    spark.sql(f"INSERT INTO {table}.branch_later VALUES (8, 'h')")
    assert w.backward(main.where("id = 5")).verify().ok  # which went on elsewhere
    # Iceberg keeps a table's state or brings it up to date: what is shown is what is traced, or that is refused.
    asked = branch.where("id >= 7")
    try:
        trace = w.backward(asked)
    except whence.SourceChanged:
        return
    assert sorted(row.id for row in trace["failing"].collect()) == sorted(row.id for row in asked.collect())


@pytest.mark.parametrize("table", ["delta"], indirect=True)
def test_the_change_feed(w: whence.Session, spark: SparkSession, table: str) -> None:
    spark.sql("DROP TABLE IF EXISTS fed")
    spark.sql("CREATE TABLE fed (id bigint) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    spark.sql("INSERT INTO fed VALUES (1), (2)")
    spark.sql("DELETE FROM fed WHERE id = 1")
    feed = spark.read.option("readChangeFeed", "true").option("startingVersion", 1).table("fed")
    trace = w.backward(feed.where("_change_type = 'delete'"))
    ((_, found),) = trace.sources.items()
    assert [(row.id, row._change_type) for row in found.collect()] == [(1, "delete")]
    assert trace.verify().ok
    spark.sql("DROP TABLE fed")
