"""Catalyst with what a session knows of its queries beyond their plans."""

from __future__ import annotations

from pyspark.sql import SparkSession

from whence.spark.catalyst import Attr, Expr, Kept, Plan, class_name, id_of, remembered, to_list
from whence.spark.catalyst import Catalyst as Plans
from whence.sql.memory import Memory

__all__ = ["Attr", "Catalyst", "Expr", "Kept", "Plan", "class_name", "id_of", "remembered", "to_list"]


class Catalyst(Plans):
    """Builds and takes apart plans of one Spark session, and remembers what was written down of them."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self.memory = Memory()

    def release(self) -> None:
        self.memory.recent.clear()
        self.memory.few.clear()
        super().release()
