"""Tables become arrays: `from_frame` says which columns of a DataFrame are coordinates and which are values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from whence.arrays.errors import ArrayError
from whence.spark.sessions import is_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WHOLE = ("ByteType", "ShortType", "IntegerType", "LongType")


@dataclass(frozen=True, eq=False)
class FrameInput:
    """A DataFrame as an input of a workflow; read when the workflow is executed."""

    frame: DataFrame
    index: tuple[str, ...]
    values: tuple[str, ...]
    adds_axis: bool
    fill: Any

    def __repr__(self) -> str:
        return f"<from_frame index={', '.join(self.index)} values={', '.join(self.values)}>"


def from_frame(df: DataFrame, index: str | Sequence[str], values: str | Sequence[str], fill: Any = None) -> FrameInput:
    """An array with a cell for each row: at the coordinates in the columns `index`, with the value in `values`.

    A list of k value columns adds a last axis of length k. A cell that has no row is `fill`; without one it is an
    error, like two rows for one cell."""
    if not is_frame(df):
        raise TypeError(f"from_frame takes a DataFrame of a classic Spark session, not {type(df).__name__}.")
    coordinates = (index,) if isinstance(index, str) else tuple(index)
    adds_axis = not isinstance(values, str)
    told = (values,) if isinstance(values, str) else tuple(values)
    kinds = {field.name: type(field.dataType).__name__ for field in df.schema.fields}
    if not coordinates or not told:
        raise ArrayError("from_frame needs at least one column for index= and one for values=.")
    for name in (*coordinates, *told):
        if name not in kinds:
            raise ArrayError(f"The DataFrame has no column {name!r}; its columns are {', '.join(df.columns)}.")
        if df.columns.count(name) > 1:
            raise ArrayError(f"The DataFrame has several columns {name!r}: rename them first.")
    for name in coordinates:
        if kinds[name] not in _WHOLE:
            raise ArrayError(f"The column {name!r} cannot hold coordinates: it is of {kinds[name]}, not whole numbers.")
    return FrameInput(df, coordinates, told, adds_axis, fill)
