"""Every kind of source: two equal rows stay two, names are as the query says, and what changed is told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from sql.told import Told, check

# The last two rows are equal, and so are the contents of the second and third but for where the NULL is.
ROWS = [(0, 1, "a", None), (1, None, "b", 1), (1, 1, "b", None), (2, 1, "x\ny", 7), (2, 1, "x\ny", 7)]
SCHEMA = "rid bigint, k bigint, s string, n bigint"
DERBY = {"driver": "org.apache.derby.jdbc.EmbeddedDriver"}


@pytest.fixture(scope="module")
def w(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[whence.Session]:
    with whence.attach(spark, store=tmp_path_factory.mktemp("store")) as session:
        yield session


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, SCHEMA).coalesce(1)


def together(frames: dict[str, DataFrame]) -> tuple[DataFrame, Told]:
    """One query over all of them, and what each row of it must come from."""
    parts = [df.where("k = 1").select(F.lit(name).alias("source"), "rid") for name, df in frames.items()]
    kept = [row[0] for row in ROWS if row[1] == 1]
    return reduce(DataFrame.unionAll, parts), [((name, rid), {name: {rid}}) for name in frames for rid in kept]


def check_together(w: whence.Session, frames: dict[str, DataFrame]) -> None:
    df, expected = together(frames)
    trace = check(w, df, expected)
    assert list(trace.sources) == list(frames)
    counts = reduce(
        DataFrame.unionAll, [rows.select(F.lit(name).alias("source"), "rid") for name, rows in trace.sources.items()]
    )
    assert {tuple(r) for r in counts.groupBy("source", "rid").count().collect()} == {
        (name, rid, 2 if rid == 2 else 1) for name in frames for rid in (0, 1, 2)
    }
    for name, frame in frames.items():
        touched = w.forward(frame.where("rid = 2"), to=df).rows.collect()
        assert [tuple(r) for r in touched] == [(name, 2), (name, 2)]
        break  # forward goes the same way from each


def test_files(w: whence.Session, rows: DataFrame, tmp_path: Path) -> None:
    """Partitioned directories with awkward names, several files, headers, records over many lines, blank lines."""
    spark = w.spark
    partitioned = rows.withColumn("p", F.concat(F.lit("a=b/ü %20 "), F.col("rid")))
    for kind in ("parquet", "orc"):
        partitioned.write.partitionBy("p").format(kind).save(str(tmp_path / f"some {kind}"))
    rows.write.option("header", True).option("quoteAll", True).csv(str(tmp_path / "comma"))
    spark.createDataFrame(ROWS, SCHEMA).repartition(3).write.json(str(tmp_path / "json"))
    with next((tmp_path / "json").glob("*.json")).open("a") as file:
        file.write("\n\n")
    for checksum in (tmp_path / "json").glob(".*.crc"):
        checksum.unlink()
    csv = spark.read.option("header", True).option("multiLine", True).schema(SCHEMA).csv(str(tmp_path / "comma"))
    frames = {
        "some parquet": spark.read.parquet(str(tmp_path / "some parquet")).where("p <> 'a=b/ü %20 9'"),
        "some orc": spark.read.orc(str(tmp_path / "some orc")).where("p like 'a=b/ü %'"),
        "comma": csv,
        "json": spark.read.schema(SCHEMA).json(str(tmp_path / "json")),
    }
    check_together(w, frames)
    told = [row.record for row in w.backward(frames["some orc"].where("rid = 0")).associations().collect()]
    assert len(told) == 1
    assert told[0].startswith("file:/")
    assert ".orc#" in told[0]


def test_text_and_positions_that_stay(w: whence.Session, tmp_path: Path) -> None:
    """Positions are the same however the session cuts its scans, and equal lines stay two."""
    for name, lines in {"one.txt": ["a", "b", "", "b"], "two.txt": ["b", "c"]}.items():
        (tmp_path / name).write_text("\n".join(lines))
    text = w.spark.read.text(str(tmp_path))
    trace = w.backward(text.groupBy("value").count().where("value in ('b', '')"))
    assert trace.verify().ok
    before = w.spark.conf.get("spark.sql.files.maxPartitionBytes")
    w.spark.conf.set("spark.sql.files.maxPartitionBytes", "3")
    try:
        assert sorted(r.value for r in trace[tmp_path.name].collect()) == ["", "b", "b", "b"]
    finally:
        w.spark.conf.set("spark.sql.files.maxPartitionBytes", before)


def test_data_made_in_python(w: whence.Session) -> None:
    spark, context = w.spark, w.spark.sparkContext
    frame = pd.DataFrame([r for r in ROWS if r[1] is not None], columns=["rid", "k", "s", "n"])
    frames = {"listed": spark.createDataFrame(ROWS, SCHEMA), "pandas": spark.createDataFrame(frame)}
    spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", True)
    try:
        frames["arrow"] = spark.createDataFrame(frame)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.pyspark.enabled")
    # Not RDD.toDF: it makes the DataFrame in whichever session was made last.
    frames["rdd"] = spark.createDataFrame(context.parallelize(ROWS, 3), SCHEMA)
    # After a shuffle an RDD's order is not certain: its rows are told by their contents.
    frames["shuffled"] = spark.createDataFrame(context.parallelize(ROWS, 3).repartition(2), SCHEMA)
    for name, df in frames.items():
        df.createOrReplaceTempView(name)
    check_together(w, {name: spark.table(name) for name in frames})


def test_values_and_range(w: whence.Session) -> None:
    df = w.spark.sql(
        "SELECT r.id, v.s FROM range(2, 5, 1, 3) r JOIN VALUES (3, 'a'), (4, 'b'), (3, 'a') AS v(id, s) USING (id)"
    )
    trace = w.backward(df.where("s = 'a'"))
    assert [(name, sorted(tuple(r) for r in rows.collect())) for name, rows in trace.sources.items()] == [
        ("r", [(3,)]),
        ("v", [(3, "a"), (3, "a")]),
    ]
    assert trace.verify().ok


def test_tables_views_and_jdbc(w: whence.Session, rows: DataFrame) -> None:
    spark = w.spark
    url = "jdbc:derby:memory:sources;create=true"
    rows.write.jdbc(url, "derby_rows", properties=DERBY)
    spark.sql("CREATE DATABASE IF NOT EXISTS shop")
    try:
        rows.write.mode("overwrite").bucketBy(2, "rid").format("orc").saveAsTable("shop.buckets")
        rows.write.mode("overwrite").partitionBy("k").saveAsTable("shop.parts")
        spark.read.jdbc(url, "derby_rows", properties=DERBY).createOrReplaceTempView("remote")
        spark.sql("CREATE OR REPLACE TEMP VIEW far AS SELECT rid, k, s, n FROM remote WHERE rid < 9")
        frames = {
            "buckets": spark.table("shop.buckets"),
            "parts": spark.sql("SELECT * FROM shop.parts"),
            "remote": spark.sql("SELECT * FROM far"),
        }
        check_together(w, frames)
        again = spark.read.jdbc(url, "derby_rows", properties=DERBY)
        assert w.forward(again.where("rid = 0"), to=frames["remote"]).rows.count() == 1
        # Joined on its bucket key the table is read bucket by bucket, yet its rows keep their identities.
        one, other = spark.table("shop.buckets").alias("a"), spark.table("shop.buckets").alias("b")
        joined = one.join(other, "rid").where("a.k = 1 and b.k is null").select("rid", "a.s")
        check(w, joined, [((1, "b"), {"buckets": {1}})])
    finally:
        spark.sql("DROP DATABASE shop CASCADE")


def test_two_sources_of_one_name_get_their_full_names(w: whence.Session, rows: DataFrame, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        rows.write.parquet(str(tmp_path / folder / "orders"))
    one, other = (w.spark.read.parquet(str(tmp_path / folder / "orders")) for folder in ("a", "b"))
    names = list(w.backward(one.join(other, "rid")).sources)
    assert names == [f"file:{tmp_path}/a/orders", f"file:{tmp_path}/b/orders"]


def test_several_paths_have_the_name_of_their_folder(w: whence.Session, rows: DataFrame, tmp_path: Path) -> None:
    for day in ("monday", "tuesday"):
        rows.write.parquet(str(tmp_path / "days" / day))
    every = w.spark.read.parquet(str(tmp_path / "days" / "*"))
    assert list(w.backward(every).witness_counts.items()) == [("days", 2 * rows.count())]
    one = w.spark.read.parquet(str(tmp_path / "days" / "mon*"))
    assert list(w.backward(one).sources) == ["monday"]


def test_cached_and_checkpointed(w: whence.Session, rows: DataFrame, tmp_path: Path) -> None:
    """Traced through where the plan below is known; otherwise the checkpoint is the source."""
    rows.write.parquet(str(tmp_path / "orders"))
    orders = w.spark.read.parquet(str(tmp_path / "orders"))
    cached = orders.where("k = 1").cache()
    cached.count()
    expected: Told = [((0, 1), {"orders": {0}}), ((1, 1), {"orders": {1}}), ((2, 2), {"orders": {2}})]
    check(w, cached.groupBy("rid").count(), expected)
    cached.unpersist()

    w.spark.sparkContext.setCheckpointDir(str(tmp_path / "checkpoints"))
    with w.capture():
        near = orders.where("k = 1").localCheckpoint()
        far = near.groupBy("rid").count().checkpoint()
    unseen = orders.where("k = 1").localCheckpoint()
    check(w, far.where("rid > 0"), expected[1:])
    self_join = near.alias("a").join(near.alias("b"), "rid").select("a.rid").distinct()
    check(w, self_join, [((rid,), {"orders": {rid}}) for rid in (0, 1, 2)])
    trace = w.backward(unseen.where("rid = 2"))
    assert list(trace.sources) == ["dataframe"]
    assert trace["dataframe"].count() == 2


def removed(path: Path) -> None:
    path.unlink()


def changed(path: Path) -> None:
    path.write_text(path.read_text().replace("1", "3") + "\n5")


def replaced(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_text(path.read_text())
    os.utime(other, (1, 1))
    other.replace(path)


@pytest.mark.parametrize("change", [removed, changed, replaced])
def test_a_changed_source_is_told(w: whence.Session, tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "a b.csv"
    path.write_text("1\n2\n")
    df = w.spark.read.csv(str(path)).where("_c0 = 1")
    trace = w.backward(df)
    change(path)
    with pytest.raises(whence.SourceChanged, match=r"a b\.csv"):
        trace.sources["a b.csv"].collect()
    with pytest.raises(whence.SourceChanged, match="Read the source again"):
        w.backward(df)
