"""A scan of the files that were at a place earlier: the driver's half of Earlier.java."""

from __future__ import annotations

from collections.abc import Iterable

from py4j.protocol import Py4JError

from whence.spark.catalyst import Catalyst, Plan
from whence.spark.janino import object_of


def earlier(c: Catalyst, scan: Plan, paths: Iterable[str]) -> Plan | None:
    """The scan with these of its files alone, whatever else is at its place by now; None where that cannot be had."""
    try:
        relation = object_of(c.spark, "Earlier").reading(scan.relation(), "\n".join(paths))
    except Py4JError:  # whence's own classes may not be compiled here
        return None
    return None if relation is None else c.copy(scan, relation=relation)
