"""Run by test_sources_at_start.py in a Python of its own: sources for which Spark must be told when its JVM starts.

Arguments: kinds of sources, a folder to work in, jars (or nothing), a JDBC URL (or nothing).
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import whence
from sql.told import check

ROWS = [(0, 1, None), (1, None, 1), (1, 1, None), (2, 1, 7), (2, 1, 7)]
ICEBERG = {
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
}
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def session(kind: str, home: Path, jars: str) -> SparkSession:
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home}")
    )
    if jars:
        builder = builder.config("spark.jars", jars)
    for name, value in {"iceberg": ICEBERG, "delta": DELTA}.get(kind, {}).items():
        builder = builder.config(name, value)
    if kind == "iceberg":
        builder = builder.config("spark.sql.catalog.ice.warehouse", str(home / "ice"))
    if kind == "hive":
        builder = builder.enableHiveSupport()
    return builder.getOrCreate()


def check_source(w: whence.Session, df: DataFrame, name: str) -> None:
    kept = [rid for rid, k, _ in ROWS if k == 1]
    trace = check(w, df.where("k = 1").select("rid"), [((rid,), {name: {rid}}) for rid in kept])
    assert sorted(r.rid for r in trace[name].collect()) == kept
    check(w, df.groupBy("rid").count().where("rid = 1"), [((1, 2), {name: {1}})])
    assert [tuple(r) for r in w.forward(df.where("rid = 0"), to=df.select("rid")).rows.collect()] == [(0,)]


def hive(w: whence.Session, rows: DataFrame, home: Path) -> None:
    w.spark.sql("CREATE TABLE plain (rid bigint, k bigint, n bigint) STORED AS TEXTFILE")
    rows.write.insertInto("plain")
    w.spark.sql("CREATE TABLE cut (rid bigint, n bigint) PARTITIONED BY (k bigint) STORED AS PARQUET")
    w.spark.sql("SET hive.exec.dynamic.partition.mode=nonstrict")
    rows.select("rid", "n", "k").write.insertInto("cut")
    for name in ("plain", "cut"):
        check_source(w, w.spark.table(name), name)


def avro(w: whence.Session, rows: DataFrame, home: Path) -> None:
    rows.write.format("avro").save(str(home / "birds"))
    check_source(w, w.spark.read.format("avro").load(str(home / "birds")), "birds")


def postgresql(w: whence.Session, rows: DataFrame, home: Path) -> None:
    options = {"driver": "org.postgresql.Driver"}
    url = sys.argv[4]
    rows.write.jdbc(url, "public.orders", properties=options)
    check_source(w, w.spark.read.jdbc(url, "public.orders", properties=options), "orders")


def delta(w: whence.Session, rows: DataFrame, home: Path) -> None:
    path = str(home / "orders")
    rows.write.format("delta").save(path)
    rows.where("false").write.format("delta").mode("append").save(path)
    check_source(w, w.spark.read.format("delta").load(path), "orders")
    # An older snapshot is a source like any other, whatever was written since.
    w.spark.range(3).selectExpr("id rid", "id k", "id n").write.format("delta").mode("overwrite").save(path)
    check_source(w, w.spark.read.format("delta").option("versionAsOf", 0).load(path), "orders")


def iceberg(w: whence.Session, rows: DataFrame, home: Path) -> None:
    rows.writeTo("ice.shop.orders").create()
    check_source(w, w.spark.table("ice.shop.orders"), "orders")
    snapshot = w.spark.table("ice.shop.orders.snapshots").first().snapshot_id
    w.spark.range(3).selectExpr("id rid", "id k", "id n").writeTo("ice.shop.orders").overwritePartitions()
    old = w.spark.read.option("versionAsOf", snapshot).table("ice.shop.orders")
    check_source(w, old, "orders")


if __name__ == "__main__":
    kinds, home = sys.argv[1].split(","), Path(sys.argv[2])
    spark = session(kinds[0], home, sys.argv[3])
    spark.sparkContext.setLogLevel("ERROR")
    with whence.attach(spark, store=home / "store") as w:
        made = spark.createDataFrame(ROWS, "rid bigint, k bigint, n bigint").coalesce(1)
        for kind in kinds:
            globals()[kind](w, made, home)
            print(f"{kind}: right", flush=True)
    spark.stop()
