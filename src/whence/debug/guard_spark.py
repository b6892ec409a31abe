"""Which Python functions a query or an RDD runs, on what input. Guarding touches private JVM classes here only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import cloudpickle as _cloudpickle
from pyspark.core.broadcast import Broadcast
from pyspark.core.rdd import RDD
from pyspark.serializers import CPickleSerializer

from whence.debug.guard_kinds import KINDS, Kind
from whence.sql import Catalyst

cloudpickle: Any = _cloudpickle  # untyped
_pickle: Any = CPickleSerializer()

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


def command_of(context: Any, function: JavaObject) -> Any:
    """What was pickled for the workers: (function, return type) of a UDF, the class of a table function, (function,
    profiler, ...) of an RDD."""
    numbers = function.command().mkString(",")
    data = bytes(int(n) & 255 for n in numbers.split(","))
    try:
        loaded = _pickle.loads(data)
    except Exception:
        _find_broadcasts()
        loaded = _pickle.loads(data)
    return _pickle.loads(loaded.value) if isinstance(loaded, Broadcast) else loaded  # a large one is a broadcast


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


def row_nodes(c: Catalyst, plan: JavaObject) -> Iterator[PythonNode]:
    """The Python functions of single rows in an optimised plan, those nearest the sources first."""
    for node in _walk(plan):
        if node.getClass().getSimpleName() in _EVALUATING:
            for udf in _items(node.udfs()):
                yield from _row_nodes(c.spark.sparkContext, udf, node.child())


def _row_nodes(context: Any, udf: JavaObject, child: JavaObject) -> Iterator[PythonNode]:
    args = _items(udf.children())
    for arg in args:
        if arg.getClass().getSimpleName() == "PythonUDF":  # f(g(x)): g is its own node, and comes first
            yield from _row_nodes(context, arg, child)
    kind = KINDS.get(int(udf.evalType()))
    if kind is None or kind.form != "row":
        return
    names = tuple(a.key() if _is_named(a) else None for a in args)
    values = tuple(a.value() if n is not None else a for a, n in zip(args, names, strict=True))
    handle = udf.func()
    yield PythonNode(command_of(context, handle)[0], handle, child, values, names)


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
            yield PythonNode(function, handle, below[0], deserializer=deserializer)

    yield from visit(rdd)


def rdd_over(context: Any, node: PythonNode) -> RDD[Any]:
    return RDD(node.input.toJavaRDD(), context, node.deserializer)


def failed_partition(context: Any) -> int | None:
    """Which task of the last failed stage gave up, from the status store; None where it cannot be told."""
    try:
        bus = context._jsc.sc().listenerBus()
        bus.waitUntilEmpty()
        store, nothing = context._jsc.sc().statusStore(), context._jvm.java.util.ArrayList()
        quantiles = context._gateway.new_array(context._jvm.double, 0)
        stages = _items(store.stageList(None, False, False, quantiles, nothing))
        last = max((s for s in stages if s.failureReason().isDefined()), key=lambda s: int(s.stageId()), default=None)
        if last is None:
            return None
        match = re.search(r"Task (\d+) in stage", str(last.failureReason().get()))
        return int(match.group(1)) if match else _failed_task(context, store, last)
    except Exception:
        return None


def _failed_task(context: Any, store: JavaObject, stage: JavaObject) -> int | None:
    """Some releases of Spark give the user's error as the reason, and nothing else."""
    told = context._jvm.org.apache.spark.status.api.v1
    failed = context._jvm.java.util.ArrayList()
    failed.add(told.TaskStatus.FAILED)
    tasks = _items(store.taskList(stage.stageId(), stage.attemptId(), 0, 100, told.TaskSorting.ID, failed))
    return int(tasks[-1].index()) if tasks else None


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
