"""A trace goes on through tables that captured writes made, to the first sources, across jobs and processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence

ORDERS = [(i, f"c{i % 3}", i * 10) for i in range(12)]


@pytest.fixture
def home(tmp_path: Path, tiny: SparkSession) -> Path:
    frame = tiny.createDataFrame(ORDERS, "rid bigint, customer string, amount bigint").repartition(2, "rid")
    frame.write.parquet(str(tmp_path / "orders"))
    return tmp_path


@pytest.fixture
def session(tiny: SparkSession, home: Path) -> Iterator[whence.Session]:
    with whence.attach(tiny, store=home / "store") as w:
        yield w


def rids(df: DataFrame) -> set[int]:
    return {row.rid for row in df.select("rid").collect()}


def of(customer: str) -> set[int]:
    return {rid for rid, c, _ in ORDERS if c == customer}


def test_through_two_tables_of_another_process(session: whence.Session, home: Path) -> None:
    folders = [str(Path(whence.__file__).parents[1]), str(Path(__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    call = [sys.executable, "-m", "sql.write_chain", str(home)]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    chosen = {tuple(row[:2]) for row in json.loads(done.stdout.splitlines()[-1])}
    totals = session.spark.read.parquet(str(home / "totals"))
    trace = session.backward(totals.where("customer = 'c1'"))
    assert list(trace.sources) == ["orders"], trace.notes
    assert rids(trace["orders"]) == {rid for rid, c, a in ORDERS if c == "c1" and (c, a) in chosen}
    assert trace.exact
    assert not trace.notes
    assert trace.verify().ok
    # What was chosen from C is known by its place in C: the trace ends there.
    two = session.spark.read.parquet(str(home / "two"))
    assert {row.customer for row in session.backward(two)["totals"].collect()} == {
        row.customer for row in two.collect()
    }
    lucky = session.backward(session.spark.read.parquet(str(home / "lucky")))
    assert rids(lucky["orders"]) == {rid for rid, c, a in ORDERS if (c, a) in chosen}
    # The way to stop at a written table stays.
    near = session.backward(totals.where("customer = 'c1'"), through=False)
    assert list(near.sources) == ["totals"]
    # B is overwritten by somebody else: what C was made from is known all the same.
    session.spark.range(3).write.mode("overwrite").parquet(str(home / "lucky"))
    again = session.backward(session.spark.read.parquet(str(home / "totals")).where("customer = 'c1'"))
    assert rids(again["orders"]) == rids(trace["orders"])
    gone = session.backward(session.spark.read.parquet(str(home / "lucky")))
    assert list(gone.sources) == ["lucky"]
    assert "outside of any capture" in gone.notes[0]


def test_append_overwrite_and_what_others_wrote(session: whence.Session, home: Path) -> None:
    spark = session.spark
    orders = spark.read.parquet(str(home / "orders"))
    target = str(home / "kept")

    def read() -> DataFrame:
        return spark.read.parquet(target)

    with session.capture():
        orders.where("customer = 'c0'").write.parquet(target)
        orders.where("customer = 'c1'").select("rid", "customer", F.col("amount") * 2).toDF(
            "rid", "customer", "amount"
        ).write.mode("append").parquet(target)
    trace = session.backward(read().where("amount >= 40"))
    assert rids(trace["orders"]) == {rid for rid, c, a in ORDERS if (c == "c0" and a >= 40) or (c == "c1" and a >= 20)}
    assert trace.verify().ok
    touched = session.forward(orders.where("rid = 4"), to=read())
    assert [tuple(row) for row in touched.rows.collect()] == [(4, "c1", 80)]
    with session.capture():
        orders.where("customer = 'c2'").write.mode("overwrite").parquet(target)
    assert rids(session.backward(read())["orders"]) == of("c2")
    orders.limit(1).write.mode("append").parquet(target)  # not captured
    trace = session.backward(read().where("customer = 'c2'"))
    assert list(trace.sources) == ["kept"]
    assert "1 of its" in trace.notes[0]


def test_tables_and_partitions(session: whence.Session, home: Path) -> None:
    spark = session.spark
    orders = spark.read.parquet(str(home / "orders"))
    try:
        with session.capture():
            orders.write.saveAsTable("whence_kept")
            spark.sql("create table whence_parts using parquet partitioned by (customer) as select * from whence_kept")
            spark.sql("insert into whence_kept select rid + 100, customer, amount from whence_kept where rid < 2")
        assert rids(session.backward(spark.table("whence_kept").where("rid >= 100"))["orders"]) == {0, 1}
        assert rids(session.backward(spark.table("whence_parts").where("amount > 90"))["orders"]) == {10, 11}
        spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
        with session.capture():
            orders.where("rid = 5").select("rid", "amount", F.lit("c1").alias("customer")).write.mode(
                "overwrite"
            ).insertInto("whence_parts")
        trace = session.backward(spark.table("whence_parts").where("customer <> 'c0'"))
        assert rids(trace["orders"]) == of("c2") | {5}
        assert trace.verify().ok
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
        spark.sql("drop table if exists whence_kept")
        spark.sql("drop table if exists whence_parts")


@pytest.mark.parametrize("kind", ["orc", "json", "csv"])
def test_other_formats(session: whence.Session, home: Path, kind: str) -> None:
    orders = session.spark.read.parquet(str(home / "orders"))
    with session.capture():
        df = orders.groupBy("customer").agg(F.avg("amount").alias("mean"), F.min("rid").alias("rid"))
        df.write.format(kind).save(str(home / "other"))
    reader = session.spark.read.format(kind).schema("customer string, mean double, rid bigint")
    trace = session.backward(reader.load(str(home / "other")).where("mean > 50"))
    assert rids(trace["orders"]) == {rid for c in ("c0", "c1", "c2") if sum(of(c)) * 10 / 4 > 50 for rid in of(c)}
    assert trace.verify().ok


def test_a_source_that_changed_ends_the_trace_at_the_table(session: whence.Session, home: Path) -> None:
    spark = session.spark
    with session.capture():
        spark.read.parquet(str(home / "orders")).groupBy("customer").count().write.parquet(str(home / "counts"))
    spark.createDataFrame(ORDERS[:5], "rid bigint, customer string, amount bigint").write.mode("overwrite").parquet(
        str(home / "orders")
    )
    trace = session.backward(spark.read.parquet(str(home / "counts")))
    assert list(trace.sources) == ["counts"]
    assert "changed since" in trace.notes[0]
    assert trace.exact


def test_the_catalogue_sees_what_the_user_wrote(session: whence.Session, home: Path) -> None:
    with session.capture():
        df = session.spark.read.parquet(str(home / "orders")).selectExpr("customer", "rand() r")
        df.write.parquet(str(home / "random"))
    edges = {(edge.source.name, edge.target.name) for edge in session.catalog.edges()}
    assert edges == {(str(home / "orders"), str(home / "random"))}


def test_a_streams_batch(session: whence.Session, home: Path) -> None:
    """The batch's rows are written down: they are the first source, in this process and in others."""
    spark = session.spark
    schema = "rid bigint, customer string, amount bigint"

    def keep(batch: DataFrame, number: int) -> None:
        batch.groupBy("customer").agg(F.sum("amount").alias("total")).write.mode("append").parquet(str(home / "sums"))

    stream = spark.readStream.schema(schema).parquet(str(home / "orders"))
    with session.capture():
        query = stream.writeStream.foreachBatch(keep).trigger(availableNow=True).start()
        query.awaitTermination()
    trace = session.backward(spark.read.parquet(str(home / "sums")).where("customer = 'c2'"))
    assert [name.split("-")[0] for name in trace.sources] == ["batch"]
    (rows,) = trace.sources.values()
    assert rids(rows) == of("c2")
    assert trace.verify().ok
