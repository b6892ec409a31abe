"""Runs the cases that need Hive or Kafka in a Spark session of their own, and prints what was found as JSON.

A session cannot change its catalogue or its jars once it runs, so this is a program; test_world.py has it run twice:
`world.py <home> embedded` for Hive with its metastore inside, Kafka, and other sources that are asked for rows;
`world.py <home> remote` with a server.
"""

from __future__ import annotations

import json
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

# ruff: noqa: E402
import kafka_cases
import row_cases
from cases import CASES, Case, clean, run, short
from pyspark.sql import SparkSession

import hive_metastore
import kafka_broker
import maven
import whence
from sql import at_start
from whence.serve import atlas, openlineage


def session(home: str, jars: list[Path], metastore: str = "") -> SparkSession:
    builder = (
        SparkSession.builder.master("local[2]").appName("whence-tests")
        .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", f"{home}/warehouse").config("spark.sql.catalogImplementation", "hive")
        .config("spark.hadoop.javax.jdo.option.ConnectionURL", f"jdbc:derby:;databaseName={home}/metastore;create=true")
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home}")
    )  # fmt: skip
    if jars:
        builder = builder.config("spark.sql.catalog.mem", row_cases.CATALOG)
    if metastore:
        builder = builder.config("spark.hadoop.hive.metastore.uris", metastore)
    if jars:
        builder = builder.config("spark.jars", ",".join(map(str, jars)))
    return builder.getOrCreate()


def name(dataset: Any) -> str:
    return dataset.name if dataset.kind == "topic" else short(dataset.name)


def found(spark: SparkSession, home: str, action: Any) -> dict[str, Any]:
    place = tempfile.mkdtemp(dir=home)
    try:
        with whence.attach(spark, store=f"{place}/store") as w:
            action(place)
            return {
                "edges": sorted(
                    [name(e.source), name(e.target)] for e in w.catalog.edges() if e.source.kind != "memory"
                ),
                "namespaces": sorted(
                    {d.namespace for e in w.catalog.edges() for d in (e.source, e.target) if d.kind == "table"}
                ),
                "kinds": sorted({e.kind for e in w.catalog.edges()}),
                "columns": sorted(
                    [name(e.source), e.source_column, e.target_column, e.kind, e.subtype]
                    for e in w.catalog.edges("column", expand=False)
                ),
                "schemas": {name(d): list(d.columns) for d in w.catalog.datasets()},
                "gaps": [r.details["gaps"] for r in w.catalog.runs() if "gaps" in r.details],
                "failed": w._watcher.counts["failed"],
            }
    except Exception:
        return {"error": traceback.format_exc()}


def each(spark: SparkSession, home: str, cases: list[Case]) -> dict[str, Any]:
    results = {}
    for case in cases:
        clean(spark)
        place = tempfile.mkdtemp(dir=home)
        run(spark, case.setup, place)
        results[case.name] = found(spark, home, lambda _, c=case, p=place: run(spark, c.run, p))
    return results


HIVE = [case for case in CASES if case.needs == "hive"]
REMOTE = HIVE[::3]  # only the names are other ones there


def exports(spark: SparkSession, home: str, servers: str) -> dict[str, Any]:
    """A real run, sent to topics by both exports and read back from the broker."""
    from confluent_kafka import Producer
    from openlineage.client import OpenLineageClient
    from openlineage.client.transport.kafka import KafkaConfig, KafkaTransport

    kafka_broker.create_topics(servers, "lineage", atlas.HOOK_TOPIC)
    clean(spark)
    spark.sql("CREATE TABLE t1 (id INT, name STRING) USING parquet")
    with whence.attach(spark, store=f"{home}/exports") as w:
        spark.sql("CREATE TABLE t2 USING parquet AS SELECT id, upper(name) AS name FROM t1 WHERE id > 0")
        config = KafkaConfig(config={"bootstrap.servers": servers}, topic="lineage", flush=True)
        openlineage.emit(w.catalog, OpenLineageClient(transport=KafkaTransport(config)))
        sent = atlas.notify(w.catalog, Producer({"bootstrap.servers": servers}))
        columns = sorted([e.source_column, e.target_column, e.kind, e.subtype] for e in w.catalog.edges("column"))
    return {
        "columns": columns,
        "events": kafka_broker.messages(servers, "lineage", 2),
        "notifications": kafka_broker.messages(servers, atlas.HOOK_TOPIC, sent),
    }


def embedded(home: str) -> dict[str, Any]:
    results: dict[str, Any] = {}
    connector: list[Path] = []
    try:
        connector = maven.jars(*kafka_broker.CONNECTOR, alone=True)
        maven.jars(kafka_broker.BROKER)
    except maven.Unavailable as reason:
        results["no kafka"] = str(reason)
    rows: list[Path] = []
    try:
        rows = maven.jars(row_cases.JAR, alone=True)
    except maven.Unavailable as reason:
        results["no rows"] = str(reason)
    spark = session(home, [*connector, *rows, *at_start.jars()])
    spark.sparkContext.setLogLevel("ERROR")
    results["hive"] = each(spark, home, HIVE)
    if rows:
        results["rows"] = each(spark, home, row_cases.ROWS)
    if connector:
        with kafka_broker.kafka_broker() as servers:
            kafka_broker.create_topics(servers, *kafka_cases.TOPICS)
            kafka_cases.prepare(spark, servers)
            results["kafka"] = {}
            for case in kafka_cases.KAFKA:
                clean(spark)
                results["kafka"][case.__name__] = found(spark, home, lambda p, c=case: c(spark, p, servers))
            results["exports"] = exports(spark, home, servers)
    clean(spark)
    results["sources"] = at_start.told(spark, Path(tempfile.mkdtemp(dir=home)))
    return results


def remote(home: str) -> dict[str, Any]:
    try:
        with hive_metastore.hive_metastore(Path(home, "server"), Path(home, "warehouse")) as uri:
            spark = session(home, [], uri)
            spark.sparkContext.setLogLevel("ERROR")
            results = {"server": uri, "hive": each(spark, home, REMOTE)}
            spark.stop()
            return results
    except hive_metastore.Unavailable as reason:
        return {"no metastore": str(reason)}


if __name__ == "__main__":
    print(json.dumps({"embedded": embedded, "remote": remote}[sys.argv[2]](sys.argv[1])))
