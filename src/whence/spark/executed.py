"""What the user's own queries have computed, taken again by questions about them: the driver's half of Executed.java.

Whoever asks about a number has mostly just seen it: the query has run in this session, and Spark still has what it
shuffled. Nothing is kept for that which Spark would not keep anyway, and nothing is done while the query runs."""

from __future__ import annotations

import contextlib
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from whence.spark.janino import object_of
from whence.spark.listening import bus_of

_QUEUE = "whence"


class ExecutedQueries:
    def __init__(self, spark: SparkSession) -> None:
        self._session: Any = spark._jsparkSession
        self._bus: Any = bus_of(spark)
        self._listener: Any = object_of(spark, "Executed", self._bus)
        self._bus.addToQueue(self._listener, _QUEUE)

    def taken(self, plan: JavaObject) -> JavaObject:
        """The same rows, with groups that a query of the user's has computed taken from there."""
        found: JavaObject = self._listener.reused(self._session, plan)
        return found

    def close(self) -> None:
        with contextlib.suppress(Py4JError):  # the JVM may be gone
            self._bus.removeListener(self._listener)


def listen(spark: SparkSession) -> ExecutedQueries | None:
    """From now on. None where classes of whence's own are not allowed: then questions compute everything themselves."""
    try:
        return ExecutedQueries(spark)
    except Py4JError:
        return None
