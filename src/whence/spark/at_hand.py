"""Few rows that the driver has, or is to have: the driver's half of AtHand.java.

A question looks at its own few rows again and again: which keys are asked for, which rows are in which branch. Through
a DataFrame each look would be an analysis, an optimizer's run, a plan and a socket."""

from __future__ import annotations

from decimal import Decimal
from threading import Lock
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from whence.spark.janino import object_of

# Where a connection to a JVM keeps the AtHand of that JVM.
_AT_HAND = "whence_at_hand"
_PLAIN: dict[str, object] = {"n": None, "t": True, "f": False}

_making = Lock()


class AtHand:
    def __init__(self, java: Any) -> None:
        self._java = java

    def rows(self, plan: JavaObject) -> JavaObject | None:
        """The rows of a plan that only chooses and names rows which stand in it."""
        found: JavaObject | None = self._java.rows(plan)
        return found

    def told(self, plan: JavaObject) -> list[tuple[object, ...]] | None:
        """The same, as Python has them."""
        text = self._java.told(plan)
        return None if text is None else _rows(str(text))

    def few(self, query: JavaObject, most: int, size: int) -> JavaObject | None:
        """The rows that are kept of a query, if they are so few and so small: computed and fetched in one job."""
        found: JavaObject | None = self._java.few(query, most, size)
        return found

    def first(self, query: JavaObject, most: int) -> JavaObject | None:
        """The rows of a query, if they are so few."""
        found: JavaObject | None = self._java.first(query, most)
        return found


def at_hand_of(spark: SparkSession) -> AtHand | None:
    """None where classes of whence's own are not allowed: then Spark reads these rows as all others."""
    client: Any = spark._sc._gateway._gateway_client  # type: ignore[union-attr]
    with _making:
        if not hasattr(client, _AT_HAND):
            try:
                setattr(client, _AT_HAND, AtHand(object_of(spark, "AtHand")))
            except Py4JError:
                setattr(client, _AT_HAND, None)
        found: AtHand | None = getattr(client, _AT_HAND)
        return found


def _rows(text: str) -> list[tuple[object, ...]]:
    values: list[object] = []
    at = text.index(";") + 1
    columns = int(text[: at - 1])
    while at < len(text):
        kind, end = text[at], text.index(";", at)
        told, at = text[at + 1 : end], end + 1
        if kind == "s":
            values.append(text[at : at + int(told)])
            at += int(told)
        elif kind == "i":
            values.append(int(told))
        else:
            values.append(Decimal(told) if kind == "d" else _PLAIN[kind])
    return [tuple(values[i : i + columns]) for i in range(0, len(values), columns)]
