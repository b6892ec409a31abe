"""What the user's own queries have computed, taken again by questions about them: the driver's half of Executed.java.

Whoever asks about a number has mostly just seen it: the query has run in this session, and Spark still has what it
shuffled, while somebody holds the query. Of what was shown or written the latest few shuffles are held here; nothing is
done while the query runs."""

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
        conf: Any = spark.sparkContext.getConf()
        # An executor whose shuffles somebody holds may never be given back to the cluster.
        holds = str(conf.get("spark.dynamicAllocation.enabled", "false")).lower() != "true"
        self._listener: Any = object_of(spark, "Executed", self._bus, holds, beside=["Grouping"])
        self._bus.addToQueue(self._listener, _QUEUE)

    def taken(self, plan: JavaObject) -> JavaObject:
        """The same rows, with groups that a query of the user's has computed taken from there."""
        found: JavaObject = self._listener.reused(self._session, plan)
        return found

    def says_the_same(self, plan: JavaObject, own: JavaObject) -> None:
        """That a plan without subqueries says what this plan of the user's does: it is the latter that has run."""
        self._listener.saysTheSame(plan, own)

    def close(self) -> None:
        with contextlib.suppress(Py4JError):  # the JVM may be gone
            self._listener.close()


def listen(spark: SparkSession) -> ExecutedQueries | None:
    """From now on. None where classes of whence's own are not allowed: then questions compute everything themselves."""
    try:
        return ExecutedQueries(spark)
    except Py4JError:
        return None
