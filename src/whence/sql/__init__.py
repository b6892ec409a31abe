"""Lineage of DataFrames and SQL: reads the plan, one rule per operator, nothing captured beforehand."""

from whence.sql.blocks import Block, Lookup, Place, Reading, ReadingPlace
from whence.sql.catalyst import Catalyst
from whence.sql.evaluation import Evaluation
from whence.sql.lineage import SqlLineage
from whence.sql.tree import Node, rebuild

__all__ = [
    "Block",
    "Catalyst",
    "Evaluation",
    "Lookup",
    "Node",
    "Place",
    "Reading",
    "ReadingPlace",
    "SqlLineage",
    "rebuild",
]
