"""DataFrames in Python, where releases of PySpark differ."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
else:
    try:
        from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
    except ModuleNotFoundError:  # before 4.0 there is one class, and Connect has its own
        from pyspark.sql import DataFrame as ClassicDataFrame

_ROWS_AT_ONCE = 1 << 20

__all__ = ["ClassicDataFrame", "from_arrow", "of_partitions", "query_context_loggers", "to_arrow"]


def to_arrow(frame: Any) -> Any:
    """The rows of a DataFrame as an Arrow table."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    if not isinstance(frame, ClassicDataFrame):  # of Connect, before 4.0
        return frame._session.client.to_table(frame._plan.to_proto(frame._session.client))[0]
    batches = frame._collect_as_arrow()
    return pa.Table.from_batches(batches) if batches else to_arrow_schema(frame.schema).empty_table()


def from_arrow(spark: Any, table: Any) -> Any:
    """A DataFrame of an Arrow table."""
    if hasattr(ClassicDataFrame, "toArrow"):
        return spark.createDataFrame(table)
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(table.schema)
    if not table.num_rows:
        return spark.createDataFrame([], schema)
    # What createDataFrame does with a frame of pandas, once that is Arrow.
    jvm, batches = spark._jvm, table.to_batches(max_chunksize=_ROWS_AT_ONCE)
    to_jvm = spark._sc._serialize_to_jvm
    utils = getattr(jvm, "org.apache.spark.sql.api.python.PythonSQLUtils")
    read = utils.readArrowStreamFromFile
    server = getattr(jvm, "org.apache.spark.sql.api.python.ArrowIteratorServer")
    stream = to_jvm(batches, ArrowStreamSerializer(), read, server)
    return ClassicDataFrame(utils.toDataFrame(stream, schema.json(), spark._jsparkSession), spark)


def of_partitions(frame: Any, partitions: Sequence[int]) -> tuple[Any, int]:
    """The rows of some partitions of a DataFrame, on the driver, and how many they are: the others are not computed."""
    spark = frame.sparkSession
    numbers = spark._sc._gateway.new_array(spark._jvm.int, len(partitions))
    for n, partition in enumerate(partitions):
        numbers[n] = partition
    rows = getattr(spark._jvm, "java.util.ArrayList")()
    for some in frame._jdf.toJavaRDD().collectPartitions(numbers):
        rows.addAll(some)
    return ClassicDataFrame(spark._jsparkSession.createDataFrame(rows, frame._jdf.schema()), spark), int(rows.size())


def query_context_loggers() -> list[logging.Logger]:
    """Those with which PySpark tells of every error in a query."""
    try:
        from pyspark.logger import PySparkLogger
    except ModuleNotFoundError:  # before 4.0, which tells nothing
        return []
    return [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")]
