"""What the catalogue answers: a sequence of frozen values that is also a table."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from whence.model import Dataset

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


class Results(Sequence[T], Generic[T]):
    """Compares and iterates like a tuple; `toPandas()` and `toDF(spark)` give the same rows as DataFrames."""

    def __init__(self, rows: Sequence[T], kind: type[T]) -> None:
        self._rows = tuple(rows)
        self._kind = kind

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[T]: ...
    def __getitem__(self, place: int | slice) -> T | Sequence[T]:
        return self._rows[place]

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return self._rows == (other._rows if isinstance(other, Results) else other)

    def __hash__(self) -> int:
        return hash(self._rows)

    def __repr__(self) -> str:
        shown = ",\n ".join(repr(row) for row in self._rows[:20])
        return f"[{shown}{', ...' if len(self) > 20 else ''}]"

    def _repr_html_(self) -> str:
        from html import escape

        names, rows = self.table()
        head = "".join(f"<th>{escape(n)}</th>" for n in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape('' if v is None else str(v))}</td>" for v in row) + "</tr>"
            for row in rows[:100]
        )
        return f"<table><tr>{head}</tr>{body}</table>"

    @property
    def datasets(self) -> tuple[Dataset, ...]:
        """The datasets on these edges, in the order in which they first stand."""
        found: dict[Dataset, None] = {}
        for row in self._rows:
            for name in ("source", "target"):
                value = getattr(row, name, None)
                if isinstance(value, Dataset):
                    found[value] = None
        return tuple(found)

    def table(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of plain values; a dataset becomes its namespace and its name."""
        names: list[str] = []
        for field in dataclasses.fields(self._kind):  # type: ignore[arg-type]
            names += [f"{field.name}_namespace", field.name] if _holds_dataset(field) else [field.name]
        rows = []
        for row in self._rows:
            values: list[Any] = []
            for field in dataclasses.fields(self._kind):  # type: ignore[arg-type]
                value = getattr(row, field.name)
                if _holds_dataset(field):
                    values += [value.namespace, value.name]
                else:
                    values.append(_plain(value))
            rows.append(tuple(values))
        return names, rows

    def toPandas(self) -> pd.DataFrame:
        import pandas as pd

        names, rows = self.table()
        return pd.DataFrame.from_records(rows, columns=names)

    def toDF(self, spark: Any = None) -> Any:
        """A Spark DataFrame, made in the given session or in the active one."""
        # no import: who has no Spark session has no use for this, and the server must start without pyspark
        module = sys.modules.get("pyspark.sql")
        session = spark or (module.SparkSession.getActiveSession() if module else None)
        if session is None:
            raise ValueError("There is no active Spark session: give one, toDF(spark).")
        names, rows = self.table()
        kinds = {str: "string", int: "bigint", bool: "boolean", float: "double", datetime: "timestamp"}
        fields = []
        for place, name in enumerate(names):
            first = next((row[place] for row in rows if row[place] is not None), "")
            fields.append(f"`{name}` {kinds.get(type(first), 'string')}")
        return session.createDataFrame(rows, ", ".join(fields))


def _holds_dataset(field: dataclasses.Field[Any]) -> bool:
    return field.type == "Dataset"


def _plain(value: Any) -> Any:
    if isinstance(value, (Mapping, tuple, list)):
        import json

        return json.dumps(value, default=str, ensure_ascii=False)
    return value
