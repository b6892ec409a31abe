"""Which Python functions a query or an RDD runs, on what input. Guarding touches private JVM classes here only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import cloudpickle as _cloudpickle
from pyspark.core.rdd import RDD
from pyspark.serializers import CPickleSerializer

from whence.sql import Catalyst

cloudpickle: Any = _cloudpickle  # untyped
_pickle: Any = CPickleSerializer()

ROW_UDFS = {100, 101}  # pickled and Arrow-optimised plain UDFs
SERIES_UDFS = {200}
SERIES_ITERATOR_UDFS = {204}
_EVALUATING = ("BatchEvalPython", "ArrowEvalPython")
_FRAMES = ("MapInPandas",)
_GROUPS = ("FlatMapGroupsInPandas",)


@dataclass(frozen=True, eq=False)
class PythonNode:
    """A user's function, and the plan or RDD whose records it is given."""

    kind: str  # row, series, series iterator, frames, group, pipeline
    function: Any
    handle: JavaObject  # the JVM's PythonFunction, by which the node is recognised in other forms of the plan
    input: JavaObject
    args: tuple[JavaObject, ...] = ()
    arg_names: tuple[str | None, ...] = ()
    deserializer: Any = None
    keys: tuple[JavaObject, ...] = ()

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))


def command_of(context: Any, function: JavaObject) -> Any:
    """What was pickled for the workers: (function, return type) of a UDF, (function, profiler, ...) of an RDD."""
    numbers = function.command().mkString(",")
    data = bytes(int(n) & 255 for n in numbers.split(","))
    try:
        loaded = _pickle.loads(data)
    except Exception:
        _find_broadcasts()
        loaded = _pickle.loads(data)
    value = getattr(loaded, "value", None)  # a large command travels as a broadcast
    return loaded if value is None or isinstance(loaded, tuple) else _pickle.loads(value)


def _find_broadcasts() -> None:
    """Functions that hold broadcast variables unpickle where those are registered: in workers, not in the driver."""
    import gc

    from pyspark.core import broadcast

    for found in gc.get_objects():
        if type(found) is broadcast.Broadcast and getattr(found, "_jbroadcast", None) is not None:
            broadcast._broadcastRegistry[found._jbroadcast.id()] = found


def set_command(context: Any, function: JavaObject, command: Any) -> None:
    """Exchange what the workers will run. The JVM's field is final; reflection may write it, and plans keep it."""
    data = cloudpickle.dumps(command)
    field = function.getClass().getDeclaredField("command")
    field.setAccessible(True)
    field.set(function, _byte_seq(context, data))


def raw_command(function: JavaObject) -> JavaObject:
    return function.command()


def put_back(function: JavaObject, command: JavaObject) -> None:
    field = function.getClass().getDeclaredField("command")
    field.setAccessible(True)
    field.set(function, command)


def _byte_seq(context: Any, data: bytes) -> JavaObject:
    # a SimplePythonFunction made the ordinary way has the sequence in the right class
    made = context._jvm.SimplePythonFunction(
        bytearray(data), {}, [], context.pythonExec, context.pythonVer, [], context._javaAccumulator
    )
    return made.command()


def _walk(plan: JavaObject) -> Iterator[JavaObject]:
    """Inputs before what they feed."""
    children = plan.children()
    for n in range(children.size()):
        yield from _walk(children.apply(n))
    yield plan


def _items(seq: JavaObject) -> list[JavaObject]:
    return [seq.apply(n) for n in range(seq.size())]


def plan_nodes(c: Catalyst, plan: JavaObject) -> Iterator[PythonNode]:
    """The Python functions of an optimised plan, those nearest the sources first."""
    context = c.spark.sparkContext
    for node in _walk(plan):
        name = node.getClass().getSimpleName()
        if name in _EVALUATING:
            for udf in _items(node.udfs()):
                yield from _udf_nodes(c, context, udf, node.child())
        elif name in _FRAMES:
            handle = node.functionExpr().func()
            yield PythonNode("frames", command_of(context, handle)[0], handle, node.child())
        elif name in _GROUPS:
            handle = node.functionExpr().func()
            groups, args = tuple(_items(node.groupingAttributes())), tuple(_items(node.functionExpr().children()))
            yield PythonNode("group", command_of(context, handle)[0], handle, node.child(), args, keys=groups)


def _udf_nodes(c: Catalyst, context: Any, udf: JavaObject, child: JavaObject) -> Iterator[PythonNode]:
    args = _items(udf.children())
    for arg in args:
        if arg.getClass().getSimpleName() == "PythonUDF":  # f(g(x)): g is its own node, and comes first
            yield from _udf_nodes(c, context, arg, child)
    kind = _kind(int(udf.evalType()))
    if kind is None:
        return
    names = tuple(a.key() if a.getClass().getSimpleName() == "NamedArgumentExpression" else None for a in args)
    values = tuple(a.value() if n is not None else a for a, n in zip(args, names, strict=True))
    handle = udf.func()
    yield PythonNode(kind, command_of(context, handle)[0], handle, child, values, names)


def _kind(evaluation: int) -> str | None:
    if evaluation in ROW_UDFS:
        return "row"
    return "series" if evaluation in SERIES_UDFS else "series iterator" if evaluation in SERIES_ITERATOR_UDFS else None


def python_functions(c: Catalyst, plan: JavaObject) -> Iterator[tuple[str, JavaObject]]:
    """(kind, function) of everything in an analysed plan that runs Python, of the kinds that are understood."""
    for node in _walk(plan):
        name = node.getClass().getSimpleName()
        if name in _FRAMES or name in _GROUPS:
            yield "frames" if name in _FRAMES else "group", node.functionExpr().func()
            continue
        for expression in c.items(node.expressions().toSeq()):
            yield from _functions_in(c, expression)


def _functions_in(c: Catalyst, expression: JavaObject) -> Iterator[tuple[str, JavaObject]]:
    if expression.getClass().getSimpleName() == "PythonUDF":
        kind = _kind(int(expression.evalType()))
        if kind is not None:
            yield kind, expression.func()
    for child in c.children(expression):
        yield from _functions_in(c, child)


def rdd_nodes(context: Any, rdd: JavaObject) -> Iterator[PythonNode]:
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
            function, _, deserializer, _ = command_of(context, handle)
            yield PythonNode("pipeline", function, handle, below[0], deserializer=deserializer)

    yield from visit(rdd)


def rdd_over(context: Any, node: PythonNode) -> RDD[Any]:
    return RDD(node.input.toJavaRDD(), context, node.deserializer)


def failed_partition(context: Any) -> int | None:
    """Which task of the last failed stage gave up, from the status store; None where it cannot be told."""
    try:
        bus = context._jsc.sc().listenerBus()
        bus.waitUntilEmpty()
        reasons: list[tuple[int, int]] = []
        stages = context._jsc.sc().statusStore().stageList(None, False, False, context._gateway.new_array(
            context._jvm.double, 0), context._jvm.java.util.ArrayList())  # fmt: skip
        for n in range(stages.size()):
            stage = stages.apply(n)
            if stage.failureReason().isDefined():
                match = re.search(r"Task (\d+) in stage", str(stage.failureReason().get()))
                if match:
                    reasons.append((stage.stageId(), int(match.group(1))))
        return max(reasons)[1] if reasons else None
    except Exception:
        return None


def input_split(node: PythonNode, partition: int) -> tuple[str, int, int] | None:
    """(file, start, length) that a partition of an RDD read, when it comes straight from a file."""
    rdd = node.input
    while rdd.getClass().getSimpleName() in ("MapPartitionsRDD", "PythonRDD"):
        rdd = rdd.dependencies().apply(0).rdd()
    if rdd.getClass().getSimpleName() not in ("HadoopRDD", "NewHadoopRDD"):
        return None
    part = rdd.partitions()[partition]
    split = (
        part.inputSplit() if rdd.getClass().getSimpleName() == "HadoopRDD" else part.serializableHadoopSplit()
    ).value()
    return str(split.getPath().toString()), int(split.getStart()), int(split.getLength())
