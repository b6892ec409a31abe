"""The choice of how lineage is kept: costs, limits, and the integer programme over them (docs/strategy.md)."""

from whence.strategy.choose import Limits, Question, choose
from whence.strategy.costs import BACKWARD, DIRECTIONS, FORWARD, Answered, Cost, Kept, Observed, Written
from whence.strategy.errors import NoSuchStep, NoWay, Unreachable
from whence.strategy.plan import Plan, Reason

__all__ = [
    "BACKWARD",
    "DIRECTIONS",
    "FORWARD",
    "Answered",
    "Cost",
    "Kept",
    "Limits",
    "NoSuchStep",
    "NoWay",
    "Observed",
    "Plan",
    "Question",
    "Reason",
    "Unreachable",
    "Written",
    "choose",
]
