"""The only Python file that touches Spark's private classes for listening; Watcher.java is its other half.

The listener runs inside the JVM on a queue of its own, so that no query waits for Python. It is compiled by Janino,
which is part of Spark, the first time a version of whence meets a version of Spark; after that its class files come
from a cache.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.model.quiet import tagged
from whence.spark.janino import jar_of
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
_loading = threading.Lock()


class Listener:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        context: Any = spark.sparkContext
        self._jvm: Any = context._jvm
        self._gateway: Any = context._gateway
        self._bus: Any = context._jsc.sc().listenerBus()
        self._watcher = self._make()
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
        frame: Any = df
        return str(self._watcher.plan(frame._jdf.queryExecution()))

    def leaf_ids(self, df: DataFrame) -> tuple[list[int], list[int]]:
        """The attributes of a DataFrame's leaves, and the RDDs that these read."""
        frame: Any = df
        attributes, _, rdds = str(self._watcher.leafIds(frame._jdf.queryExecution())).partition("|")
        return [int(number) for number in attributes.split()], [int(number) for number in rdds.split()]

    def output_ids(self, df: DataFrame) -> list[int]:
        frame: Any = df
        return [int(number) for number in self._watcher.outputIds(frame._jdf.queryExecution()).split()]

    def qualified(self, path: str) -> str:
        """A path as Hadoop completes it: with its file system, and from the root."""
        context: Any = self._spark.sparkContext
        return str(self._watcher.qualified(path, context._jsc.sc()))

    @contextlib.contextmanager
    def tagged(self, name: str) -> Iterator[None]:
        with contextlib.ExitStack() as block:
            with contextlib.suppress(Exception):  # the context may be stopped; the user's call says so itself
                block.enter_context(tagged(self._spark.sparkContext, name))
            yield

    def rdds(self, rdd: Any, stop: str) -> list[list[str]]:
        """What an RDD was computed from: [id, name, class, path] of each RDD behind it."""
        text: str = self._watcher.rdds(rdd._jrdd.rdd(), stop)
        return [line.split("\t") for line in text.splitlines()]

    def rdd_id(self, rdd: Any) -> int:
        return int(rdd._jrdd.rdd().id())

    def note_rdd(self, number: int) -> None:
        self._watcher.note(number)

    def _place(self) -> Place:
        context: Any = self._spark.sparkContext
        hadoop = context._jsc.hadoopConfiguration()
        warehouse = str(self._spark.conf.get("spark.sql.warehouse.dir", "spark-warehouse"))
        if "://" not in warehouse and not warehouse.startswith("file:"):
            warehouse = f"file:{os.path.abspath(warehouse)}"
        metastore = None
        if self._spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "hive":
            uris = hadoop.get("hive.metastore.uris") or context._conf.get("spark.hive.metastore.uris", "")
            if uris:
                metastore = uris.split(",")[0].replace("thrift://", "hive://")
        parent = parent_of(context._conf.get, os.environ)
        return Place(warehouse.rstrip("/"), metastore, context.appName, context.applicationId, parent=parent)

    def _loader(self) -> Any:
        # py4j remembers methods by the name of their class, so one JVM must see the class only once, also if threads
        # attach at the same moment: the gateway, which lives as long as its JVM, keeps the loader.
        with _loading:
            loader = vars(self._gateway).get("_whence_loader")
            if loader is None:
                source = Path(__file__).with_name("Watcher.java").read_text(encoding="utf-8")
                parent = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
                urls = self._gateway.new_array(self._jvm.java.net.URL, 1)
                urls[0] = self._jvm.java.io.File(jar_of(self._spark, "watcher", source)).toURI().toURL()
                loader = self._gateway._whence_loader = self._jvm.java.net.URLClassLoader(urls, parent)
            return loader

    def _make(self) -> Any:
        loader = self._loader()
        (constructor, *_) = loader.loadClass("whence.Watcher").getConstructors()
        arguments = self._gateway.new_array(self._jvm.java.lang.Object, 4)
        arguments[0], arguments[1] = CAPACITY, MOST_CHARACTERS
        arguments[2], arguments[3] = self._jvm.java.lang.Long.valueOf(MOST_MILLIS), MOST_LEVELS
        return constructor.newInstance(arguments)
