"""Names of PySpark that are not public, from wherever this release keeps them. Workers import this too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.core import broadcast
    from pyspark.core.rdd import Partitioner, PipelinedRDD, _wrap_function, portable_hash
    from pyspark.sql.udtf import SkipRestOfInputTableException
    from pyspark.util import PythonEvalType
else:
    try:
        from pyspark.core import broadcast
        from pyspark.core.rdd import Partitioner, PipelinedRDD, _wrap_function, portable_hash
        from pyspark.sql.udtf import SkipRestOfInputTableException
        from pyspark.util import PythonEvalType
    except ModuleNotFoundError:  # before 4.0
        from pyspark import broadcast
        from pyspark.rdd import Partitioner, PipelinedRDD, PythonEvalType, _wrap_function, portable_hash

        class SkipRestOfInputTableException(Exception):
            """With this a table function asks for no more rows; before 4.0 none can."""


__all__ = [
    "Partitioner",
    "PipelinedRDD",
    "PythonEvalType",
    "SkipRestOfInputTableException",
    "_wrap_function",
    "broadcast",
    "portable_hash",
]
