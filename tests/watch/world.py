"""Runs the cases that need Hive or Kafka in a Spark session of their own, and prints what was found as JSON.

A session cannot change its catalogue or its jars once it runs, so this is a program; test_world.py starts it once.
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
from cases import CASES, clean, run, short
from pyspark.sql import SparkSession

import kafka_broker
import maven
import whence


def session(home: str, jars: list[Path]) -> SparkSession:
    builder = (
        SparkSession.builder.master("local[2]").appName("whence-tests")
        .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", f"{home}/warehouse").config("spark.sql.catalogImplementation", "hive")
        .config("spark.hadoop.javax.jdo.option.ConnectionURL", f"jdbc:derby:;databaseName={home}/metastore;create=true")
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home}")
    )  # fmt: skip
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
                "gaps": [r.details["gaps"] for r in w.catalog.runs() if "gaps" in r.details],
                "failed": w._watcher.counts["failed"],
            }
    except Exception:
        return {"error": traceback.format_exc()}


def main(home: str) -> None:
    results: dict[str, Any] = {"hive": {}, "kafka": {}}
    connector: list[Path] = []
    try:
        connector = maven.jars(*kafka_broker.CONNECTOR, alone=True)
        maven.jars(kafka_broker.BROKER)
    except maven.Unavailable as reason:
        results["no kafka"] = str(reason)
    spark = session(home, connector)
    spark.sparkContext.setLogLevel("ERROR")
    for case in CASES:
        if case.needs == "hive":
            clean(spark)
            place = tempfile.mkdtemp(dir=home)
            run(spark, case.setup, place)
            results["hive"][case.name] = found(spark, home, lambda _, c=case, p=place: run(spark, c.run, p))
    if connector:
        with kafka_broker.kafka_broker() as servers:
            kafka_broker.create_topics(servers, *kafka_cases.TOPICS)
            kafka_cases.prepare(spark, servers)
            for case in kafka_cases.KAFKA:
                clean(spark)
                results["kafka"][case.__name__] = found(spark, home, lambda p, c=case: c(spark, p, servers))
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
