"""DataFrames among RDDs: which RDD is `df.rdd` of which DataFrame. Neither Spark nor PySpark can tell that afterwards:
the property is wrapped for as long as a LineageContext is open."""

from __future__ import annotations

import functools
from typing import Any

from pyspark import RDD

from whence.spark.frames import ClassicDataFrame as DataFrame
from whence.spark.names import PipelinedRDD

_FRAME = "_whence_frame"


class _Told(property):
    """`DataFrame.rdd`, each RDD of which says of which DataFrame it is. One for all contexts that are open."""

    def __init__(self, original: Any) -> None:
        def get(frame: Any) -> Any:
            rdd = original.__get__(frame, DataFrame)
            if self.contexts:
                setattr(rdd, _FRAME, frame)
            return rdd

        super().__init__(get, doc=original.__doc__)
        self.original: Any = original
        self.contexts = 0


class Frames:
    def __init__(self) -> None:
        there = DataFrame.__dict__.get("rdd")
        self._told: _Told | None = there if isinstance(there, _Told) else None
        if isinstance(there, property | functools.cached_property) and self._told is None:
            self._told = _Told(there)
            setattr(DataFrame, "rdd", self._told)  # noqa: B010  it is a cached property for mypy
        if self._told is not None:
            self._told.contexts += 1

    def close(self) -> None:
        told = self._told
        if told is None:
            return
        self._told = None
        told.contexts -= 1
        original = told.original
        if not told.contexts and DataFrame.__dict__.get("rdd") is told:  # else it is wrapped again, and passes on
            setattr(DataFrame, "rdd", original)  # noqa: B010


def frame_of(rdd: RDD[Any]) -> tuple[Any, bool]:
    """The DataFrame that an RDD's records are rows of, and whether they were made from its rows by further steps."""
    derived = False
    while True:
        frame = vars(rdd).get(_FRAME)
        if frame is not None or not isinstance(rdd, PipelinedRDD):
            return frame, derived
        rdd, derived = rdd.prev, True
