"""Python functions as the JVM has them: what was pickled for the workers, and exchanging that."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import Broadcast
from pyspark.serializers import CPickleSerializer

from whence.spark.names import broadcast

_pickle: Any = CPickleSerializer()


def function_like(spark: Any, original: JavaObject, command: bytes) -> JavaObject:
    """Another command in the place of a function's own; its environment, files, broadcast variables and interpreter
    stay."""
    return getattr(spark._jvm, "org.apache.spark.api.python.SimplePythonFunction")(
        bytearray(command),
        original.envVars(),
        original.pythonIncludes(),
        original.pythonExec(),
        original.pythonVer(),
        original.broadcastVars(),
        original.accumulator(),
    )


def command_of(function: JavaObject) -> Any:
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

    for found in gc.get_objects():
        if type(found) is broadcast.Broadcast and getattr(found, "_jbroadcast", None) is not None:
            broadcast._broadcastRegistry[found._jbroadcast.id()] = found


def set_command(context: Any, function: JavaObject, command: bytes) -> None:
    """Exchange what the workers will run. The JVM's field is final; reflection may write it, and plans keep it."""
    put_back(function, _byte_seq(context, command))


def raw_command(function: JavaObject) -> JavaObject:
    return function.command()


def put_back(function: JavaObject, command: JavaObject) -> None:
    field = function.getClass().getDeclaredField("command")
    field.setAccessible(True)
    field.set(function, command)


def _byte_seq(context: Any, data: bytes) -> JavaObject:
    # a SimplePythonFunction made the ordinary way has the sequence in the right class
    made = getattr(context._jvm, "org.apache.spark.api.python.SimplePythonFunction")(
        bytearray(data), {}, [], context.pythonExec, context.pythonVer, [], context._javaAccumulator
    )
    return made.command()
