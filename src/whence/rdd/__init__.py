"""Lineage of RDDs (Titian): `w.context` is a LineageContext, and its RDDs answer getLineage()."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whence.rdd.again import Program
    from whence.rdd.context import LineageContext
    from whence.rdd.flow import RddFlow
    from whence.rdd.lineage_rdd import LineageRDD
    from whence.rdd.tables import LineageMissing
    from whence.rdd.trace import Traced

_WHERE = {
    "LineageContext": "context",
    "LineageMissing": "tables",
    "LineageRDD": "lineage_rdd",
    "Program": "again",
    "RddFlow": "flow",
    "Traced": "trace",
}


def __getattr__(name: str) -> object:
    """Executors import `whence.rdd.worker` and what it needs, and not the driver's side with it."""
    if name not in _WHERE:
        raise AttributeError(f"module 'whence.rdd' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"whence.rdd.{_WHERE[name]}"), name)


__all__ = ["LineageContext", "LineageMissing", "LineageRDD", "Program", "RddFlow", "Traced"]
