"""RDDs of the JVM: how PySpark makes them, which files they read, and which of their partitions are computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import RDD, SparkContext

DELIMITER = "textinputformat.record.delimiter"


def java_rdd(rdd: RDD[Any]) -> JavaObject:
    """The JVM's own, below the one that speaks Java."""
    return rdd._jrdd.rdd()


def number_of(rdd: RDD[Any]) -> int:
    return int(java_rdd(rdd).id())


def in_certain_order(rdd: RDD[Any]) -> bool:
    """Whether an RDD gives its records in the same order each time; after a shuffle it need not."""
    return str(java_rdd(rdd).outputDeterministicLevel().toString()) == "DETERMINATE"


def one_below(rdd: JavaObject) -> JavaObject | None:
    """The RDD that this one is made from, where that is one."""
    below = rdd.dependencies()
    return below.head().rdd() if below.size() == 1 else None


def kind_of(rdd: JavaObject) -> str:
    return str(rdd.getClass().getSimpleName())


def python_rdd(context: SparkContext, below: JavaObject, function: Any, preserves: bool, barrier: bool = False) -> Any:
    """The JavaRDD of what a function of Python's makes of the records of an RDD."""
    jvm: Any = context._jvm
    return getattr(jvm, "org.apache.spark.api.python.PythonRDD")(below, function, preserves, barrier).asJavaRDD()


def shuffled(context: SparkContext, keyed: Sequence[Any], partitions: int, function: Any) -> Any:
    """Spark's own shuffle of (bucket, bytes) pairs, as PySpark's partitionBy does it."""
    joined = keyed[0]
    for other in keyed[1:]:
        joined = joined.union(other)
    partitioner = getattr(context._jvm, "org.apache.spark.api.python.PythonPartitioner")
    return shuffled_by(context, joined.rdd(), partitioner(partitions, id(function)))


def shuffled_by(context: SparkContext, pairs: JavaObject, partitioner: JavaObject) -> Any:
    jvm: Any = context._jvm
    paired = getattr(jvm, "org.apache.spark.api.python.PairwiseRDD")(pairs).asJavaPairRDD()
    return getattr(jvm, "org.apache.spark.api.python.PythonRDD").valueOfPair(paired.partitionBy(partitioner))


def pruned(context: SparkContext, view: RDD[Any], parts: list[int]) -> RDD[Any]:
    """Some partitions of an RDD, ascending. A Scala set of numbers is a function that says which to keep."""
    jvm: Any = context._jvm
    mask = [0] * (max(parts) // 64 + 1)
    for part in parts:
        mask[part // 64] |= 1 << (part % 64)
    words = context._gateway.new_array(jvm.long, len(mask))  # type: ignore[union-attr]
    for i, word in enumerate(mask):
        words[i] = word - (1 << 64) if word >= 1 << 63 else word
    keep = getattr(jvm, "scala.collection.immutable.BitSet").fromBitMask(words)
    some = getattr(jvm, "org.apache.spark.rdd.PartitionPruningRDD").create(java_rdd(view), keep)
    return RDD(some.toJavaRDD(), context, view._jrdd_deserializer)


def pieces_of(rdd: RDD[Any]) -> tuple[list[tuple[str, int, int]], bool]:
    """(file, start, length) of what each partition of an RDD of files reads, and whether records are cut at something
    else than line ends. Nothing for an RDD of no files, as of a path without any."""
    found: JavaObject | None = java_rdd(rdd)
    while found is not None and kind_of(found) != "HadoopRDD":
        found = one_below(found)
    if found is None:
        return [], False
    cut = [part.inputSplit().value() for part in found.partitions()]
    # As URLs, which is how queries name files: in a path of Hadoop's %20 and # stand for themselves.
    pieces = [(str(s.getPath().toUri().toString()), int(s.getStart()), int(s.getLength())) for s in cut]
    return pieces, found.getConf().get(DELIMITER) is not None


def qualified(context: SparkContext, path: str) -> str:
    """A path as Hadoop completes it, as a URL: with its file system, and from the root."""
    folder, system = _at(context, path)
    return str(system.makeQualified(folder).toUri().toString())


def listed(context: SparkContext, path: str) -> Iterator[tuple[str, int, int]]:
    """(file, length, mtime in ms) of what lies there, as Hadoop lists it."""
    folder, system = _at(context, path)
    for status in system.listStatus(folder):
        yield str(status.getPath().toUri().toString()), int(status.getLen()), int(status.getModificationTime())


def _at(context: SparkContext, path: str) -> tuple[JavaObject, JavaObject]:
    jvm: Any = context._jvm
    folder = getattr(jvm, "org.apache.hadoop.fs.Path")(path)
    return folder, folder.getFileSystem(context._jsc.hadoopConfiguration())
