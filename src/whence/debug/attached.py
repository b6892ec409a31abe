from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from whence.actors import ActorStore
from whence.debug.trace import Trace
from whence.rdd import LineageContext
from whence.sql import SqlLineage


class Attached(Protocol):
    """What debugging needs of a Session, which stands above this room."""

    @property
    def spark(self) -> SparkSession: ...

    @property
    def actors(self) -> ActorStore: ...

    @property
    def context(self) -> LineageContext: ...

    def backward(self, asked: DataFrame, *, through: bool = True) -> Trace: ...

    def lineage(self, df: DataFrame, *, through: bool = True) -> SqlLineage: ...
