"""Listeners in the JVM: a class of whence's own on a queue of Spark's bus."""

from __future__ import annotations

import threading
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from whence.spark.janino import jar_of, made

_loading = threading.Lock()


def bus_of(spark: SparkSession) -> JavaObject:
    context: Any = spark.sparkContext
    return context._jsc.sc().listenerBus()


def context_of(spark: SparkSession) -> JavaObject:
    """The SparkContext of the JVM."""
    context: Any = spark.sparkContext
    return context._jsc.sc()


def watcher(spark: SparkSession, source: str, capacity: int, characters: int, millis: int, levels: int) -> JavaObject:
    """A Watcher (watch/Watcher.java, its `source`)."""
    context: Any = spark.sparkContext
    jvm = context._jvm
    loader = loader_of(spark, "watcher", source)
    return made(
        spark, loader, "whence.Watcher", capacity, characters, getattr(jvm, "java.lang.Long").valueOf(millis), levels
    )


def loader_of(spark: SparkSession, stem: str, source: str) -> JavaObject:
    """A class loader with the classes of this source, for the driver alone."""
    context: Any = spark.sparkContext
    gateway, jvm = context._gateway, context._jvm
    # py4j remembers methods by the name of their class, so one JVM must see the class only once, also if threads
    # attach at the same moment: the gateway, which lives as long as its JVM, keeps the loader.
    with _loading:
        loaders: dict[str, JavaObject] = vars(gateway).setdefault("_whence_loaders", {})
        if stem not in loaders:
            parent = getattr(jvm, "java.lang.Thread").currentThread().getContextClassLoader()
            urls = gateway.new_array(getattr(jvm, "java.net.URL"), 1)
            urls[0] = getattr(jvm, "java.io.File")(jar_of(spark, stem, source)).toURI().toURL()
            loaders[stem] = getattr(jvm, "java.net.URLClassLoader")(urls, parent)
        return loaders[stem]
