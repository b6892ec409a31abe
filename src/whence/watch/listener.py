"""What is asked of the listener in the JVM; Watcher.java, with the classes beside it, is its other half.

The listener runs inside the JVM on a queue of its own, so that no query waits for Python. It is compiled by Janino,
which is part of Spark, the first time a version of whence meets a version of Spark; after that its class files come
from a cache.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.model.quiet import tagged
from whence.spark.handles import execution_of, hadoop_setting
from whence.spark.listening import bus_of, context_of, watcher
from whence.spark.rdds import java_rdd, number_of
from whence.watch.parent import parent_of
from whence.watch.sources import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CAPACITY = 20_000
MOST_CHARACTERS = 16_000_000
MOST_MILLIS = 3_000
MOST_LEVELS = 450
"""Nodes and expressions inside each other; Python reads JSON of twice as many levels, and not many more."""
SETTLE_MILLIS = 200
LONGEST_MILLIS = 3_000
"""Lines wait for a moment in which no query runs, but not longer than this."""
QUEUE = "whence"


class Listener:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._bus: Any = bus_of(spark)
        sources = [path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("*.java"))]
        self._watcher: Any = watcher(spark, sources, CAPACITY, MOST_CHARACTERS, MOST_MILLIS, MOST_LEVELS)
        self.place = self._place()  # before it listens: what fails here leaves nothing behind
        self._bus.addToQueue(self._watcher, QUEUE)

    def take(self, most: int, millis: int) -> list[str]:
        """The next lines; the JVM holds them back while queries follow each other, so that whence works in between."""
        text: str = self._watcher.take(most, millis, SETTLE_MILLIS, LONGEST_MILLIS)
        return text.split("\n") if text else []

    def mark(self, line: str) -> None:
        """Like `put`, and this line and all before it are given out at once."""
        self._watcher.mark(line)

    def put(self, line: str) -> None:
        self._watcher.put(line)

    @property
    def lost(self) -> int:
        return int(self._watcher.dropped()) + int(self._watcher.failed())

    def wait(self, millis: int) -> None:
        """Wait until Spark has handed over every event that has happened so far."""
        with contextlib.suppress(Exception):  # a stopped context has handed over everything already
            self._bus.waitUntilEmpty(millis)

    def stop(self) -> None:
        with contextlib.suppress(Exception):  # the JVM may be gone
            self._bus.removeListener(self._watcher)
            self._watcher.close()

    def plan(self, df: DataFrame) -> str:
        """The snapshot of a DataFrame's plan as JSON."""
        return str(self._watcher.plan(execution_of(df)))

    def leaf_ids(self, df: DataFrame) -> tuple[list[int], list[int]]:
        """The attributes of a DataFrame's leaves, and the RDDs that these read."""
        attributes, _, rdds = str(self._watcher.leafIds(execution_of(df))).partition("|")
        return [int(number) for number in attributes.split()], [int(number) for number in rdds.split()]

    def output_ids(self, df: DataFrame) -> list[int]:
        return [int(number) for number in self._watcher.outputIds(execution_of(df)).split()]

    def qualified(self, path: str) -> str:
        """A path as Hadoop completes it: with its file system, and from the root."""
        return str(self._watcher.qualified(path, context_of(self._spark)))

    @contextlib.contextmanager
    def tagged(self, name: str) -> Iterator[None]:
        with contextlib.ExitStack() as block:
            with contextlib.suppress(Exception):  # the context may be stopped; the user's call says so itself
                block.enter_context(tagged(self._spark.sparkContext, name))
            yield

    def rdds(self, rdd: Any, stop: str) -> list[list[str]]:
        """What an RDD was computed from: [id, name, class, path] of each RDD behind it."""
        text: str = self._watcher.rdds(java_rdd(rdd), stop)
        return [line.split("\t") for line in text.splitlines()]

    def rdd_id(self, rdd: Any) -> int:
        return number_of(rdd)

    def note_rdd(self, number: int) -> None:
        self._watcher.note(number)

    def _place(self) -> Place:
        context: Any = self._spark.sparkContext
        warehouse = str(self._spark.conf.get("spark.sql.warehouse.dir", "spark-warehouse"))
        if "://" not in warehouse and not warehouse.startswith("file:"):
            warehouse = f"file:{os.path.abspath(warehouse)}"
        metastore = None
        if self._spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "hive":
            uris = hadoop_setting(self._spark, "hive.metastore.uris")
            uris = uris or context._conf.get("spark.hive.metastore.uris", "")
            if uris:
                metastore = uris.split(",")[0].replace("thrift://", "hive://")
        parent = parent_of(context._conf.get, os.environ)
        return Place(warehouse.rstrip("/"), metastore, context.appName, context.applicationId, parent=parent)
