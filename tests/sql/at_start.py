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
