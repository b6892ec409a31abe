"""DataFrames among RDDs: which RDD is `df.rdd` of which DataFrame. Neither Spark nor PySpark can tell that afterwards:
the property is wrapped for as long as a LineageContext is open."""

from __future__ import annotations

import functools
from typing import Any

from pyspark import RDD
from pyspark.core.rdd import PipelinedRDD
from pyspark.sql.classic.dataframe import DataFrame

_FRAME = "_whence_frame"


class Frames:
    def __init__(self) -> None:
        original = DataFrame.__dict__.get("rdd")
        self._wrapper: property | None = None
        if not isinstance(original, property | functools.cached_property):
            return

        def get(frame: Any) -> Any:
            rdd = original.__get__(frame, DataFrame)
            if self._wrapper is not None:
                setattr(rdd, _FRAME, frame)
            return rdd

        self._original = original
        self._wrapper = property(get, doc=original.__doc__)
        setattr(DataFrame, "rdd", self._wrapper)  # noqa: B010  it is a cached property for mypy

    def close(self) -> None:
        if self._wrapper is not None and DataFrame.__dict__.get("rdd") is self._wrapper:
            setattr(DataFrame, "rdd", self._original)  # noqa: B010
        self._wrapper = None  # if somebody wrapped it again, ours just passes on


def frame_of(rdd: RDD[Any]) -> tuple[Any, bool]:
    """The DataFrame that an RDD's records are rows of, and whether they were made from its rows by further steps."""
    derived = False
    while True:
        frame = vars(rdd).get(_FRAME)
        if frame is not None or not isinstance(rdd, PipelinedRDD):
            return frame, derived
        rdd, derived = rdd.prev, True


def in_certain_order(rdd: RDD[Any]) -> bool:
    """Whether an RDD gives its records in the same order each time; after a shuffle it need not."""
    return str(rdd._jrdd.rdd().outputDeterministicLevel().toString()) == "DETERMINATE"
