"""Lineage of RDDs (Titian): `w.context` is a LineageContext, and its RDDs answer getLineage()."""

from whence.rdd.context import LineageContext
from whence.rdd.lineage_rdd import LineageRDD
from whence.rdd.trace import Traced
from whence.rdd.walk import LineageMissing

__all__ = ["LineageContext", "LineageMissing", "LineageRDD", "Traced"]
