"""Sources for which Spark must be told when its JVM starts: asked by tests/watch/world.py, in its session with Hive."""

from __future__ import annotations

import os
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import postgres_server
import whence
from sql.told import check

MAVEN = "https://repo1.maven.org/maven2"
AVRO = "org/apache/spark/spark-avro_2.13/4.1.1/spark-avro_2.13-4.1.1.jar"
POSTGRESQL = "org/postgresql/postgresql/42.7.14/postgresql-42.7.14.jar"
ROWS = [(0, 1, None), (1, None, 1), (1, 1, None), (2, 1, 7), (2, 1, 7)]


class Missing(Exception):
    """Why a source cannot be tried here."""


def jars() -> list[Path]:
    """Downloads from Maven what is not here yet; nothing where that cannot be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "whence-tests"
    cache.mkdir(parents=True, exist_ok=True)
    for path in (AVRO, POSTGRESQL):
        file = cache / Path(path).name
        if not file.exists():
            part = file.with_suffix(f".{os.getpid()}")
            try:
                with urllib.request.urlopen(f"{MAVEN}/{path}", timeout=60) as answer:
                    part.write_bytes(answer.read())
            except (urllib.error.URLError, TimeoutError):
                return []
            part.replace(file)
    return [cache / Path(path).name for path in (AVRO, POSTGRESQL)]


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
    if not jars():
        raise Missing("Avro: its jar cannot be had from Maven")
    rows.write.format("avro").save(str(home / "birds"))
    check_source(w, w.spark.read.format("avro").load(str(home / "birds")), "birds")


def postgresql(w: whence.Session, rows: DataFrame, home: Path) -> None:
    if not jars():
        raise Missing("PostgreSQL: its jar cannot be had from Maven")
    if postgres_server.find_initdb() is None:
        raise Missing("PostgreSQL: initdb was not found (Debian: apt install postgresql)")
    options = {"driver": "org.postgresql.Driver"}
    with postgres_server.postgres_server() as server:
        user, host = server.removeprefix("postgresql://").split("@")
        url = f"jdbc:postgresql://{host}?user={user.split(':')[0]}&password=secret"
        rows.write.jdbc(url, "public.orders", properties=options)
        check_source(w, w.spark.read.jdbc(url, "public.orders", properties=options), "orders")


SOURCES: dict[str, Callable[[whence.Session, DataFrame, Path], None]] = {
    "hive": hive,
    "avro": avro,
    "postgresql": postgresql,
}


def told(spark: SparkSession, home: Path) -> dict[str, str]:
    """Of each kind "right", or why it is not, or why it was not tried."""
    found = {}
    with whence.attach(spark, store=home / "store") as w:
        made = spark.createDataFrame(ROWS, "rid bigint, k bigint, n bigint").coalesce(1)
        for kind, source in SOURCES.items():
            try:
                source(w, made, home)
                found[kind] = "right"
            except Missing as reason:
                found[kind] = f"missing: {reason}"
            except Exception:
                found[kind] = traceback.format_exc()
    return found
