"""A program of plain RDDs run again on some of the records of its sources.

PySpark keeps no graph of its RDDs in Python: what is known are the JVM's RDDs and the functions in them. They are put
together anew above other sources; the user's own are left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import RDD
from pyspark.serializers import BatchedSerializer, NoOpSerializer, UTF8Deserializer

from whence.model import WhenceError
from whence.rdd import LineageContext, LineageRDD, Program
from whence.spark.python_functions import command_of
from whence.spark.rdds import java_rdd, python_rdd, shuffled_by

_LEAVES = ("ParallelCollectionRDD", "HadoopRDD", "NewHadoopRDD", "BinaryFileRDD", "WholeTextFileRDD")
_UNIONS = ("UnionRDD", "PartitionerAwareUnionRDD")
_REFUSED = (
    "minimize cannot run this RDD again on fewer records: it has a {kind}, and of plain RDDs only functions, unions "
    "and shuffles over textFile and parallelize can be put together anew. Make the same program with w.context in the "
    "place of the SparkContext: its RDDs have the same methods, and all of them can."
)


class PlainProgram(Program):
    """Without lineage, every record of every source may be to blame."""

    def __init__(self, context: LineageContext, rdd: RDD[Any]) -> None:
        self._context, self._plain = context, rdd
        self._sources: dict[int, LineageRDD] = {}
        self._leaves: dict[int, int] = {}  # number of the JVM's RDD -> of the source
        self._rebuilt(java_rdd(rdd), rdd._jrdd_deserializer, None)

    def witnesses(self, position: int | None) -> Any:
        return {place: x for source in self._sources.values() for place, x in self.all_of(source).items()}

    def _above(self, sources: Mapping[int, RDD[Any]]) -> RDD[Any]:
        deserializer = self._plain._jrdd_deserializer
        return RDD(self._rebuilt(java_rdd(self._plain), deserializer, sources), self._context.spark, deserializer)

    def _rebuilt(self, rdd: JavaObject, deserializer: Any, sources: Mapping[int, RDD[Any]] | None) -> Any:
        """The JavaRDD like this one above other sources; without any, the sources are found."""
        kind = rdd.getClass().getSimpleName()
        below = [rdd.dependencies().apply(n).rdd() for n in range(rdd.dependencies().size())]
        context = self._context.spark
        if _is_leaf(rdd):
            return self._leaf(rdd, deserializer, sources)
        if rdd.isBarrier():
            raise WhenceError(_REFUSED.format(kind="barrier"))
        if kind == "PythonRDD":
            field = rdd.getClass().getDeclaredField("func")
            field.setAccessible(True)
            function = field.get(rdd)
            made = self._rebuilt(below[0], command_of(function)[2], sources)
            return python_rdd(context, made.rdd(), function, rdd.partitioner().isDefined())
        if kind in _UNIONS:
            first, *others = [self._rebuilt(b, deserializer, sources) for b in below]
            for other in others:
                first = first.union(other)
            return first
        if kind == "MapPartitionsRDD" and below[0].getClass().getSimpleName() == "ShuffledRDD":
            pairs = below[0].dependencies().head().rdd()
            if pairs.getClass().getSimpleName() == "PairwiseRDD":  # how PySpark shuffles
                made = self._rebuilt(pairs.dependencies().head().rdd(), deserializer, sources)
                return shuffled_by(context, made.rdd(), below[0].partitioner().get())
        raise WhenceError(_REFUSED.format(kind=kind))

    def _leaf(self, rdd: JavaObject, deserializer: Any, sources: Mapping[int, RDD[Any]] | None) -> Any:
        if sources is None:
            text = isinstance(deserializer, UTF8Deserializer)
            if not text and not isinstance(deserializer, BatchedSerializer):
                raise WhenceError(_REFUSED.format(kind=f"source read by {type(deserializer).__name__}"))
            if rdd.id() not in self._leaves:
                plain: RDD[Any] = RDD(rdd.toJavaRDD(), self._context.spark, deserializer)
                source = self._context._source("textFile" if _is_text(rdd) else "parallelize", plain)
                self._sources[source.node.id] = source
                self._leaves[rdd.id()] = source.node.id
            return rdd.toJavaRDD()
        records = sources[self._leaves[rdd.id()]]
        if not isinstance(deserializer, UTF8Deserializer):
            return records._jrdd
        raw = records.map(lambda line: line.encode() if isinstance(line, str) else line)
        raw._jrdd_deserializer = NoOpSerializer()
        return raw._jrdd


def _is_leaf(rdd: JavaObject) -> bool:
    if rdd.getClass().getSimpleName() == "MapPartitionsRDD":
        return _is_leaf(rdd.dependencies().head().rdd())
    return rdd.getClass().getSimpleName() in _LEAVES


def _is_text(rdd: JavaObject) -> bool:
    return bool(
        rdd.getClass().getSimpleName() == "MapPartitionsRDD"
        and rdd.dependencies().head().rdd().getClass().getSimpleName() == "HadoopRDD"
    )
