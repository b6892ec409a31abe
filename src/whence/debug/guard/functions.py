"""Which Python functions a query or an RDD runs, on what input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import RDD
from pyspark.sql import SparkSession

from whence.debug.guard.kinds import KINDS, LOOKING, Kind
from whence.spark.python_functions import command_of
from whence.sql import Catalyst

_EVALUATING = ("BatchEvalPython", "ArrowEvalPython")
_FUNCTIONS = ("PythonUDF", "PythonUDAF", "PythonUDTF")


@dataclass(frozen=True, eq=False)
class Placed:
    """A Python function where the user put it: in a node of the analysed plan."""

    kind: Kind | None  # None: of a kind that is not understood
    handle: JavaObject  # the JVM's PythonFunction, by which it is recognised in other forms of the plan
    plan: JavaObject
    expression: JavaObject

    def args(self, c: Catalyst) -> list[JavaObject]:
        return [a.value() if _is_named(a) else a for a in c.items(self.expression.children())]


@dataclass(frozen=True, eq=False)
class PythonNode:
    """A user's function of single rows or of an RDD's records, and the plan or RDD that gives them."""

    function: Any
    handle: JavaObject  # the JVM's PythonFunction, by which the node is recognised in other forms of the plan
    input: JavaObject
    args: tuple[JavaObject, ...] = ()
    arg_names: tuple[str | None, ...] = ()
    deserializer: Any = None  # of an RDD's records

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))


def _walk(plan: JavaObject) -> Iterator[JavaObject]:
    """Inputs before what they feed."""
    children = plan.children()
    for n in range(children.size()):
        yield from _walk(children.apply(n))
    yield plan


def _items(seq: JavaObject) -> list[JavaObject]:
    return [seq.apply(n) for n in range(seq.size())]


def row_nodes(c: Catalyst, plan: JavaObject) -> Iterator[PythonNode]:
    """The Python functions of single rows in an optimised plan, those nearest the sources first."""
    for node in _walk(plan):
        if node.getClass().getSimpleName() in _EVALUATING:
            for udf in _items(node.udfs()):
                yield from _row_nodes(udf, node.child())


def _row_nodes(udf: JavaObject, child: JavaObject) -> Iterator[PythonNode]:
    args = _items(udf.children())
    for arg in args:
        if arg.getClass().getSimpleName() == "PythonUDF":  # f(g(x)): g is its own node, and comes first
            yield from _row_nodes(arg, child)
    kind = KINDS.get(int(udf.evalType()))
    if kind is None or kind.form != "row":
        return
    names = tuple(a.key() if _is_named(a) else None for a in args)
    values = tuple(a.value() if n is not None else a for a, n in zip(args, names, strict=True))
    handle = udf.func()
    yield PythonNode(command_of(handle)[0], handle, child, values, names)


def _is_named(arg: JavaObject) -> bool:
    return bool(arg.getClass().getSimpleName() == "NamedArgumentExpression")


def python_functions(c: Catalyst, plan: JavaObject) -> list[Placed]:
    """Everything in a plan that runs Python, each function once, those nearest the sources first."""
    found: dict[str, Placed] = {}
    for placed in _functions(c, plan):
        found.setdefault(c.identity(placed.handle), placed)
    return list(found.values())


def _functions(c: Catalyst, plan: JavaObject) -> Iterator[Placed]:
    for node in _walk(plan):
        for subquery in c.subqueries(node):
            yield from _functions(c, subquery.plan())
        for expression in c.items(node.expressions().toSeq()):
            yield from _functions_in(c, node, expression)


def _functions_in(c: Catalyst, node: JavaObject, expression: JavaObject) -> Iterator[Placed]:
    for child in c.children(expression):
        yield from _functions_in(c, node, child)
    if expression.getClass().getSimpleName() in _FUNCTIONS:
        kind = KINDS.get(int(expression.evalType()))
        if kind is not None and kind.form == "aggregate" and node.getClass().getSimpleName() == "Window":
            kind = Kind("window", kind.iterator)
        yield Placed(kind, expression.func(), node, expression)


def rdd_nodes(rdd: JavaObject) -> Iterator[PythonNode]:
    """The Python stages of an RDD, those nearest the sources first."""
    seen: set[int] = set()

    def visit(rdd: JavaObject) -> Iterator[PythonNode]:
        if rdd.id() in seen:
            return
        seen.add(rdd.id())
        below = [d.rdd() for d in _items(rdd.dependencies())]
        for parent in below:
            yield from visit(parent)
        if rdd.getClass().getSimpleName() == "PythonRDD":
            field = rdd.getClass().getDeclaredField("func")
            field.setAccessible(True)
            handle = field.get(rdd)
            function, _, deserializer, _ = command_of(handle)
            yield PythonNode(function, handle, below[0], deserializer=deserializer)

    yield from visit(rdd)


def rdd_over(context: Any, node: PythonNode) -> RDD[Any]:
    return RDD(node.input.toJavaRDD(), context, node.deserializer)


def source_of(node: PythonNode) -> JavaObject | None:
    """The RDD of files or of given records that a stage reads record for record; None where there is none."""
    rdd = node.input
    while rdd.getClass().getSimpleName() == "MapPartitionsRDD":
        rdd = rdd.dependencies().apply(0).rdd()
    known = ("HadoopRDD", "NewHadoopRDD", "ParallelCollectionRDD")
    return rdd if rdd.getClass().getSimpleName() in known else None


def is_file(source: JavaObject) -> bool:
    return "HadoopRDD" in str(source.getClass().getSimpleName())


def input_split(source: JavaObject, partition: int) -> tuple[str, int, int]:
    """(file, start, length) that a partition of an RDD of files reads."""
    part = source.partitions()[partition]
    old = source.getClass().getSimpleName() == "HadoopRDD"
    split = (part.inputSplit() if old else part.serializableHadoopSplit()).value()
    return str(split.getPath().toString()), int(split.getStart()), int(split.getLength())


@contextmanager
def looking(spark: SparkSession) -> Iterator[None]:
    """Jobs that only look: functions that put failing records aside do not do so in them (quarantine_worker.py)."""
    context = spark.sparkContext
    before = context.getLocalProperty(LOOKING)
    context.setLocalProperty(LOOKING, "true")
    try:
        yield
    finally:
        context.setLocalProperty(LOOKING, before)  # type: ignore[arg-type]
