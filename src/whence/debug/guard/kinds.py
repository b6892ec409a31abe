"""The kinds of Python functions that Spark runs, by evaluation type (pyspark.util.PythonEvalType): plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LOOKING = "whence.looking"  # a local property of jobs in which nothing is put aside


@dataclass(frozen=True)
class Kind:
    """form: what one call is for.

    | form | given | gives |
    |---|---|---|
    | row | the values of a row | a value |
    | scalar | columns of a batch | a column |
    | rows | batches of whole rows | batches |
    | group | one group as a table | a table |
    | cogroup | two groups as tables | a table |
    | aggregate | columns of a group | a value |
    | window | columns of a frame of rows | a value |
    | table function | the values of a row | rows |
    """

    form: str
    iterator: bool = False  # takes its batches one by one from an iterator

    @property
    def of_columns(self) -> bool:
        return self.form in ("scalar", "aggregate", "window")


KINDS: Mapping[int, Kind] = {
    100: Kind("row"),
    101: Kind("row"),  # a plain UDF whose rows travel as Arrow
    200: Kind("scalar"),
    204: Kind("scalar", iterator=True),
    250: Kind("scalar"),  # from 250 on: Arrow's arrays where 200 has pandas' series
    251: Kind("scalar", iterator=True),
    205: Kind("rows", iterator=True),
    207: Kind("rows", iterator=True),
    201: Kind("group"),
    209: Kind("group"),
    215: Kind("group", iterator=True),
    216: Kind("group", iterator=True),
    206: Kind("cogroup"),
    210: Kind("cogroup"),
    202: Kind("aggregate"),
    217: Kind("aggregate", iterator=True),
    252: Kind("aggregate"),
    254: Kind("aggregate", iterator=True),
    203: Kind("window"),
    253: Kind("window"),
    300: Kind("table function"),
    301: Kind("table function"),
    302: Kind("table function"),
}
