"""Exchanges the user's Python function in a plan for one that wraps it (see worker.py).

Everything else of the function stays: its environment, files, broadcast variables and interpreter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from pyspark import cloudpickle as untyped_cloudpickle
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, DataType, LongType, StructField, StructType

from whence.spark.handles import type_of_json
from whence.spark.names import PythonEvalType
from whence.spark.python_functions import function_like
from whence.sql import worker
from whence.sql.catalyst import Attr, Catalyst, Expr

cloudpickle: Any = untyped_cloudpickle

_PLAIN = {"byte": "int8", "short": "int16", "integer": "int32", "long": "int64", "boolean": "bool"}

Wrap = Callable[[bytes, worker.Batches, Sequence[str]], worker.Function]


def wrapped(c: Catalyst, function: Expr, wrap: Wrap, extra: Sequence[Attr], inputs: Sequence[Attr]) -> Expr:
    """The PythonUDF `function` wrapped: it takes `inputs` and gives the columns `extra`, of bigint or of lists of it,
    behind its own."""
    names = [attr.name() for attr in extra]
    declared = _python_type(function.dataType())
    assert isinstance(declared, StructType)
    kinds = [ArrayType(LongType()) if name == worker.INPUTS else LongType() for name in names]
    result = StructType([*declared.fields, *map(StructField, names, kinds)])
    command = c.adapter.bytes_of(function.func().command())
    wrapper = wrap(command, _batches(function, declared), names)
    return c.copy(
        function,
        func=_function(c, function.func(), (wrapper, result)),
        dataType=type_of_json(c.spark, result.json()),
        children=c.seq(inputs),
    )


def names_rows(c: Catalyst, function: Expr) -> bool:
    """Whether an actor in the function says which columns name the rows that it captures (actors.RowKeys)."""
    command = c.adapter.bytes_of(function.func().command())
    return b"whence.actors" in command and b"RowKeys" in command


def works_on_pandas(function: Expr) -> bool:
    names = ("MAP_PANDAS_ITER", "GROUPED_MAP_PANDAS", "GROUPED_MAP_PANDAS_ITER", "COGROUPED_MAP_PANDAS")
    return function.evalType() in [getattr(PythonEvalType, f"SQL_{name}_UDF", None) for name in names]


def takes_iterator(function: Expr) -> bool:
    """Grouped functions that get their group batch by batch, which Spark has since 4.1."""
    names = ("SQL_GROUPED_MAP_PANDAS_ITER_UDF", "SQL_GROUPED_MAP_ARROW_ITER_UDF")
    return function.evalType() in [getattr(PythonEvalType, name, None) for name in names]


def _batches(function: Expr, declared: StructType) -> worker.Batches:
    if not works_on_pandas(function):
        return worker.ArrowBatches()
    children = function.children()
    plain = [_PLAIN.get(children.apply(i).dataType().typeName()) for i in range(children.size())]
    return worker.PandasBatches(plain, declared.names, [_arrow(f.dataType) for f in declared.fields])


def _arrow(kind: DataType) -> Any:
    try:
        return to_arrow_type(kind)
    except Exception:  # a type that only PySpark converts; its values are compared as they are
        return None


def _function(c: Catalyst, original: Any, command: tuple[worker.Function, StructType]) -> Any:
    cloudpickle.register_pickle_by_value(worker)
    try:
        pickled = cloudpickle.dumps(command)
    finally:
        cloudpickle.unregister_pickle_by_value(worker)
    return function_like(c.spark, original, pickled)


def _python_type(java_type: Any) -> DataType:
    return StructType.fromJson(json.loads(java_type.json()))
