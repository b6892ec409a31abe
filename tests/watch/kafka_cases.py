"""Kafka: batch and streaming, with other sources and sinks; a case is a function and the edges that must follow."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

Run = Callable[[Any, str, str], None]


def _options(servers: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, **more}


def _send(spark: Any, servers: str, topic: str, *values: str) -> None:
    frame = spark.createDataFrame([(v,) for v in values], "value STRING")
    frame.write.format("kafka").options(**_options(servers, topic=topic)).save()


def _read(spark: Any, servers: str, **how: str) -> Any:
    return (
        spark.read.format("kafka")
        .options(**_options(servers, **how))
        .load()
        .selectExpr("CAST(value AS STRING) AS value")
    )


def _stream(spark: Any, servers: str, **how: str) -> Any:
    reader = spark.readStream.format("kafka").options(**_options(servers, startingOffsets="earliest", **how))
    return reader.load().selectExpr("CAST(value AS STRING) AS value")


def _files(spark: Any, home: str) -> Any:
    os.makedirs(f"{home}/in", exist_ok=True)
    with open(f"{home}/in/1.txt", "w") as file:
        file.write("a\n")
    return spark.readStream.text(f"{home}/in")


def _start(frame: Any, home: str, **to: str) -> None:
    name = to.pop("format")
    writer = frame.writeStream.format(name).options(checkpointLocation=f"{home}/check", **to)
    writer.trigger(availableNow=True).start().awaitTermination(180)


def table_to_topic(spark: Any, home: str, servers: str) -> None:
    spark.range(2).selectExpr("CAST(id AS STRING) AS value").write.saveAsTable("k1")
    spark.table("k1").write.format("kafka").options(**_options(servers, topic="Out")).save()


def subscribe_to_table(spark: Any, home: str, servers: str) -> None:
    _read(spark, servers, subscribe="In").write.saveAsTable("k1")


def assign_to_table(spark: Any, home: str, servers: str) -> None:
    _read(spark, servers, assign='{"In": [0]}').write.saveAsTable("k1")


def pattern_to_table(spark: Any, home: str, servers: str) -> None:
    _read(spark, servers, subscribePattern="Pat.*").write.saveAsTable("k1")


def topic_to_topic(spark: Any, home: str, servers: str) -> None:
    _read(spark, servers, subscribe="In").write.format("kafka").options(**_options(servers, topic="Out")).save()


def topic_named_by_a_column(spark: Any, home: str, servers: str) -> None:
    frame = _read(spark, servers, subscribe="In").selectExpr("value", "'Out' AS topic")
    frame.write.format("kafka").options(**_options(servers)).save()


def stream_topic_to_topic(spark: Any, home: str, servers: str) -> None:
    _start(_stream(spark, servers, subscribe="In"), home, format="kafka", **_options(servers, topic="Out"))


def stream_topics_active_by_turns(spark: Any, home: str, servers: str) -> None:
    for topic in ("In", "In2"):
        _send(spark, servers, topic, "again")
        _start(_stream(spark, servers, subscribe="In,In2"), home, format="kafka", **_options(servers, topic="Out"))


def stream_pattern_to_file(spark: Any, home: str, servers: str) -> None:
    _start(_stream(spark, servers, subscribePattern="Pat.*"), home, format="parquet", path=f"{home}/out")


def stream_topic_to_file(spark: Any, home: str, servers: str) -> None:
    _start(_stream(spark, servers, subscribe="In"), home, format="parquet", path=f"{home}/out")


def stream_file_to_topic(spark: Any, home: str, servers: str) -> None:
    _start(_files(spark, home), home, format="kafka", **_options(servers, topic="Out"))


def stream_file_and_topic_to_file(spark: Any, home: str, servers: str) -> None:
    both = _files(spark, home).select("value").union(_stream(spark, servers, subscribe="In"))
    _start(both, home, format="parquet", path=f"{home}/out")


def stream_file_and_topic_to_topic(spark: Any, home: str, servers: str) -> None:
    both = _files(spark, home).select("value").union(_stream(spark, servers, subscribe="In"))
    _start(both, home, format="kafka", **_options(servers, topic="Out"))


KAFKA: dict[Run, set[tuple[str, str]]] = {
    table_to_topic: {("k1", "Out")},
    subscribe_to_table: {("In", "k1")},
    assign_to_table: {("In", "k1")},
    pattern_to_table: {("PatA", "k1"), ("PatB", "k1")},
    topic_to_topic: {("In", "Out")},
    topic_named_by_a_column: {("In", "Out")},
    stream_topic_to_topic: {("In", "Out")},
    stream_topics_active_by_turns: {("In", "Out"), ("In2", "Out")},
    stream_pattern_to_file: {("PatA", "out"), ("PatB", "out")},
    stream_topic_to_file: {("In", "out")},
    stream_file_to_topic: {("in", "Out")},
    stream_file_and_topic_to_file: {("in", "out"), ("In", "out")},
    stream_file_and_topic_to_topic: {("in", "Out"), ("In", "Out")},
}

TOPICS = ("In", "In2", "Out", "PatA", "PatB")


def prepare(spark: Any, servers: str) -> None:
    for topic in TOPICS[:2] + TOPICS[3:]:
        _send(spark, servers, topic, "a", "b")
