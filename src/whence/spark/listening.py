"""Listeners in the JVM: a class of whence's own on a queue of Spark's bus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from whence.spark.janino import driver_loader, made, together


def bus_of(spark: SparkSession) -> JavaObject:
    context: Any = spark.sparkContext
    return context._jsc.sc().listenerBus()


def context_of(spark: SparkSession) -> JavaObject:
    """The SparkContext of the JVM."""
    context: Any = spark.sparkContext
    return context._jsc.sc()


def watcher(
    spark: SparkSession, sources: Sequence[str], capacity: int, characters: int, millis: int, levels: int
) -> JavaObject:
    """A Watcher (watch/Watcher.java; `sources`: that and the classes beside it)."""
    context: Any = spark.sparkContext
    jvm = context._jvm
    loader = driver_loader(spark, "watcher", together(sources))
    return made(
        spark, loader, "whence.Watcher", capacity, characters, getattr(jvm, "java.lang.Long").valueOf(millis), levels
    )
