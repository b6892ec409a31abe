"""Branches of unions that no row of a query can be from: the driver's half of Barren.java."""

from __future__ import annotations

from py4j.protocol import Py4JError

from whence.spark.catalyst import Catalyst, Plan
from whence.spark.janino import object_of


def barren(c: Catalyst, plan: Plan) -> list[list[int]]:
    """Each such branch by the numbers of the inputs on the way to it, from the top; a union of unions counts as one.

    None where whence's own classes may not be compiled."""
    try:
        told = str(object_of(c.spark, "Barren").branches(plan))
    except Py4JError:
        return []
    return [[int(number) for number in line.split()] for line in told.splitlines()]
