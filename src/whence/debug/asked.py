"""What is asked, as a flow and records of its output; what is no question about rows, said in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import RDD

from whence.actors.flow import ActorFlow
from whence.actors.trace import TracingDataflow
from whence.model import ForeignDataFrame, WhenceError
from whence.model.flow import Flow, Records
from whence.model.text import visible
from whence.rdd import LineageRDD
from whence.rdd.flow import RddFlow
from whence.spark.sessions import is_frame
from whence.sql.flow import SqlFlow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from whence.sql import SqlLineage


class NotAsked(ForeignDataFrame):
    """What was given is no DataFrame."""


def flow_of(
    asked: Any, where: str | None, columns: Sequence[str] | None, lineage: Callable[[DataFrame], SqlLineage]
) -> tuple[Flow, Records]:
    if isinstance(asked, TracingDataflow | RDD) and (where is not None or columns is not None):
        raise WhenceError("`where` and `columns` pick rows and columns of tables; of an RDD ask about rdd.filter(...).")
    if isinstance(asked, TracingDataflow):
        return ActorFlow.of(asked)
    if isinstance(asked, LineageRDD):
        return RddFlow.of(asked)
    if isinstance(asked, RDD):
        raise WhenceError("This RDD has no lineage: make it from w.context, as in w.context.textFile(path).")
    require_frame(asked)
    flow = SqlFlow(lineage(asked if where is None else asked.where(where)))
    return flow, flow.all()


def require_frame(asked: Any) -> None:
    """A DataFrame of Spark, of whichever session; other things get a sentence that says what to give."""
    if is_frame(asked) or hasattr(asked, "_plan"):
        return
    kind = type(asked)
    if kind.__module__.startswith("pandas."):
        raise NotAsked(
            f"This is a pandas {kind.__name__}, which does not know the query that made it: ask the Spark DataFrame "
            "that it came from, as in w.backward(report.where(...)), where it is report.toPandas()."
        )
    if hasattr(asked, "__fields__"):
        raise NotAsked(
            "This is a Row, a copy of what the result held: ask for it as rows of the DataFrame that it came from, as "
            f"in w.backward(report.where({_condition(asked)!r}))."
        )
    raise NotAsked(
        f"Rows are asked about as a DataFrame, an RDD with lineage, or a table's or path's name; this is of the type "
        f"{kind.__name__}. Pick the rows from the result, as in w.backward(report.where('total < 0'))."
    )


def _condition(row: Any) -> str:
    """One that picks this row, of the values that SQL has words for."""
    parts = []
    for name, value in zip(row.__fields__, row, strict=True):
        quoted = name if name.isidentifier() else "`" + name.replace("`", "``") + "`"
        if value is None:
            parts.append(f"{quoted} IS NULL")
        elif isinstance(value, bool | int):
            parts.append(f"{quoted} = {str(value).lower()}")
        elif isinstance(value, str):
            parts.append(f"{quoted} = '" + value.replace("\\", "\\\\").replace("'", "\\'") + "'")
    return visible(" AND ".join(parts[:4]) or "...")
