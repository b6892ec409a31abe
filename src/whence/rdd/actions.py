"""Actions, and transformations that PySpark puts together from others: PySpark's own code runs them, here over the RDD
that stands for the LineageRDD under capture."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from pyspark import RDD

from whence.rdd.physical import Computed
from whence.rdd.saves import attempts, bound, note_save

if TYPE_CHECKING:
    from whence.rdd.lineage_rdd import LineageRDD


def _action(name: str, stops_early: bool) -> Callable[..., Any]:
    plain = getattr(RDD, name)

    @wraps(plain)
    def act(self: LineageRDD, *args: Any, **kwargs: Any) -> Any:
        with self.ctx._computing(self, whole=not stops_early):
            return computed(self, *args, **kwargs)

    def computed(self: LineageRDD, *args: Any, **kwargs: Any) -> Any:
        context = self.ctx
        limit = None if not stops_early else (args[0] if args else kwargs.get("num", 1))
        if not context.capturing:
            result = getattr(RDD, name)(self._plain(), *args, **kwargs)
            if context.capture and name not in ("takeSample", "lookup"):  # the strategy is to run again when asked
                context._computed(self, limit)
            return result
        view = self._auxiliary_view() if stops_early else self._captured_view()
        result = getattr(RDD, name)(view, *args, **kwargs)
        if name not in ("takeSample", "lookup"):
            context._computed(self, limit)
        return result

    return act


def _save(name: str) -> Callable[..., Any]:
    """What is written is told to others: these files are that RDD's records."""
    plain = getattr(RDD, name)

    @wraps(plain)
    def save(self: LineageRDD, *args: Any, **kwargs: Any) -> Any:
        with self.ctx._computing(self):
            return saved(self, *args, **kwargs)

    def saved(self: LineageRDD, *args: Any, **kwargs: Any) -> Any:
        context = self.ctx
        if not context.capturing:
            result = getattr(RDD, name)(self._plain(), *args, **kwargs)
            if context.capture:
                context._computed(self, None, shown=False)
            return result
        info, view = self._recording_view()  # also of what there is nothing to run for: the files have its order
        before = attempts(context.book, info)
        result = getattr(RDD, name)(view, *args, **kwargs)
        context._computed(self, None, shown=False)
        note_save(context, self.node.id, info, before, name, bound(plain, self, args, kwargs))
        return result

    return save


def _composite(name: str) -> Callable[..., Any]:
    """Transformations that PySpark puts together from others: their inner steps are not RDDs of the program."""
    plain = getattr(RDD, name)

    @wraps(plain)
    def made(self: LineageRDD, *args: Any, **kwargs: Any) -> Any:
        with self.ctx.book.inside():
            result = plain(self, *args, **kwargs)
        if isinstance(result, Computed) and result is not self and result.node.hidden:
            result.node.hidden = False
            result.node.name = name
        return result

    return made


_ACTIONS = [
    "collect",
    "collectWithJobGroup",
    "reduce",
    "treeReduce",
    "fold",
    "aggregate",
    "treeAggregate",
    "max",
    "min",
    "sum",
    "count",
    "stats",
    "histogram",
    "mean",
    "variance",
    "stdev",
    "sampleStdev",
    "sampleVariance",
    "countByValue",
    "top",
    "takeOrdered",
    "collectAsMap",
    "reduceByKeyLocally",
    "countByKey",
    "foreach",
    "foreachPartition",
    "countApprox",
    "sumApprox",
    "meanApprox",
    "countApproxDistinct",
    "toLocalIterator",
]
_SAVES = [
    "saveAsNewAPIHadoopDataset",
    "saveAsNewAPIHadoopFile",
    "saveAsHadoopDataset",
    "saveAsHadoopFile",
    "saveAsSequenceFile",
    "saveAsPickleFile",
    "saveAsTextFile",
]
_EARLY_ACTIONS = ["take", "first", "isEmpty", "takeSample", "lookup"]
_COMPOSITES = [
    "distinct",
    "intersection",
    "sortBy",
    "groupBy",
    "keys",
    "values",
    "reduceByKey",
    "aggregateByKey",
    "foldByKey",
    "subtract",
    "keyBy",
    "repartition",
    "sample",
    "sampleByKey",
]


def add_to(rdds: type[LineageRDD]) -> None:
    for name in _ACTIONS:
        setattr(rdds, name, _action(name, stops_early=False))
    for name in _SAVES:
        setattr(rdds, name, _save(name))
    for name in _EARLY_ACTIONS:
        setattr(rdds, name, _action(name, stops_early=True))
    for name in _COMPOSITES:
        setattr(rdds, name, _composite(name))
