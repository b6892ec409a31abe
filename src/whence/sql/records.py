"""Rows of a query on the waist: asked ones, witnesses, those that came from elsewhere, those at a step."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from whence.model import WhenceError
from whence.model.flow import RecordId, Site
from whence.model.once import once
from whence.sql import found_rows, given
from whence.sql.blocks import ReadingPlace
from whence.sql.evaluation import FEW
from whence.sql.forward import Found, Seeds
from whence.sql.lineage import SqlLineage
from whence.sql.question import SqlQuestion
from whence.sql.record_ids import apart, told_in_files
from whence.sql.sources import FILE, ROW
from whence.store.producers import file_key

# As the query itself tells rows: numbers only.
Told: TypeAlias = "Sequence[tuple[int, ...]]"


class SqlAsked:
    """Rows of a query's result."""

    def __init__(self, site: Site, question: SqlQuestion) -> None:
        self.site = site
        self.question = question

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.question.lineage.frame.columns)

    def frame(self) -> DataFrame:
        return self.question.rows

    def count(self) -> int:
        with self.question.lineage.c.quietly():
            return self.question.rows.count()

    def ids(self, most: int | None = None) -> list[RecordId]:
        raise WhenceError("The rows of a query's result have no identity of their own: ask for what they came from.")

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        frame = self.question.rows
        with self.question.lineage.c.quietly():
            return [tuple(row) for row in (frame if most is None else frame.limit(most)).collect()]


class SqlRecords:
    """Witnesses among the rows of one dataset, at all the places of the query that read it."""

    def __init__(
        self, site: Site, question: SqlQuestion, places: list[ReadingPlace], only: Collection[str] | None = None
    ) -> None:
        """`only`: those that lie in these files, by their keys."""
        self.site = site
        self.question = question
        self.places = places
        self._only = only

    @once
    def columns(self) -> tuple[str, ...]:
        return tuple(str(a.name()) for a in self.question.lineage.c.output(self.places[0].leaf.plan))

    @property
    def full_name(self) -> str:
        return self.places[0].dataset.full_name

    @once
    def _frame(self) -> DataFrame:
        return self.question.rows_of(self.places, self._condition)

    def frame(self) -> DataFrame:
        return self._frame

    def others(self) -> DataFrame:
        """The rows of the dataset that are no witnesses."""
        return self.question.others_of(self.places)

    def in_files(self, keys: Collection[str]) -> SqlRecords:
        return SqlRecords(self.site, self.question, self.places, keys)

    @property
    def _condition(self) -> Column | None:
        if self._only is None:
            return None
        c = self.question.lineage.c
        paths = {path for place in self.places for path in c.files(place.leaf.plan) if file_key(path) in self._only}
        return F.col(FILE).isin(*[c.hash64_of_text(path) for path in sorted(paths)])

    def identities(self) -> DataFrame:
        """As the query itself tells them."""
        return self._ids()

    def _ids(self) -> DataFrame:
        ids = self.question.ids_of(self.places)
        return ids if self._condition is None else ids.where(self._condition)

    def count(self) -> int:
        if self._only is None:
            return self.question.count_of(self.places)
        with self.question.lineage.c.quietly():
            return self._ids().distinct().count()

    def ids(self, most: int | None = None) -> list[RecordId]:
        c = self.question.lineage.c
        with c.quietly():
            found = self._ids()
            rows = (found if most is None else found.limit(most)).collect()
        if found.columns[-1:] == [ROW] and len(found.columns) == 1 and not self.places[0].dataset.by_contents:
            return [apart(row[0]) for row in rows]
        if found.columns[-2:] != [FILE, ROW]:
            return [tuple(row) for row in rows]
        return told_in_files(self.question.lineage, self.places, [(row[FILE], row[ROW]) for row in rows])

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        with self.question.lineage.c.quietly():
            return [tuple(row) for row in self.first_rows(most)]

    def first_rows(self, most: int | None) -> list[Row]:
        """Read by their position where that is possible, without a scan."""
        question = self.question
        with question.lineage.c.quietly():
            try:
                rows = None if most is None else question.rows_at(self.places, self._first(most))
                if rows is not None:
                    return rows
                return (self.frame() if most is None else self.frame().limit(most)).collect()
            except (ValueError, OverflowError, NotImplementedError):
                # Spark has values that Python has not, such as years beyond 9999: then all of them as texts.
                frame = self.frame() if most is None else self.frame().limit(most)
                names = [f"c{i}" for i in range(len(frame.columns))]
                texts = frame.toDF(*names).select(*[F.col(name).cast("string") for name in names])
                return [Row(*frame.columns)(*row) for row in texts.collect()]

    def first_placed(self, most: int) -> list[tuple[Row, str]] | None:
        """Some rows, each with its file and line; None where they are not lines of files."""
        return self.question.placed_at(self.places, self._first(most), self._ids)

    def _first(self, most: int) -> list[tuple[int, ...]]:
        if self._only is None:
            return self.question.first_ids(self.places, most)
        with self.question.lineage.c.quietly():
            return [tuple(row) for row in self._ids().limit(most).collect()]

    def first_records(self, most: int) -> list[str]:
        return self.question.first_records(self.places, self._ids(), most)


class SqlTaken:
    """Rows of a dataset that this query reads, by identities that came from elsewhere."""

    def __init__(
        self, site: Site, lineage: SqlLineage, places: Sequence[ReadingPlace], ids: Sequence[RecordId], told: Told
    ) -> None:
        """`told`: the same identities as this query tells them."""
        self.site = site
        self.places = places
        self._lineage = lineage
        self._given = ids
        self._told = told

    @once
    def _identities(self) -> DataFrame:
        schema = ", ".join(f"`{name}` bigint" for name in self.places[0].dataset.id_columns)
        return self._lineage.c.spark.createDataFrame([tuple(row) for row in self._told], schema)

    def identities(self) -> DataFrame:
        """As the query itself tells them."""
        return self._identities

    def seeds(self) -> Seeds:
        return Seeds(lambda: Found(lambda: self._identities, self._told if len(self._told) <= FEW else None))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.frame().columns)

    @once
    def _frame(self) -> DataFrame:
        place = self.places[0]
        c = self._lineage.c
        rows, at = found_rows.told_leaf_rows(c, place, self._identities, "leftsemi")
        return given.give(c, place.leaf, rows, at, place.dataset.name)

    def frame(self) -> DataFrame:
        return self._frame

    def count(self) -> int:
        return len(self._given)

    def ids(self, most: int | None = None) -> list[RecordId]:
        return list(self._given[:most])

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        with self._lineage.c.quietly():
            return [tuple(row) for row in (self._frame if most is None else self._frame.limit(most)).collect()]


class SqlStepRecords:
    """The rows at one operator that lie on the way."""

    def __init__(self, site: Site, rows: DataFrame) -> None:
        self.site = site
        self._rows = rows

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._rows.columns)

    def frame(self) -> DataFrame:
        return self._rows

    def count(self) -> int:
        return self._rows.count()

    def ids(self, most: int | None = None) -> list[RecordId]:
        raise WhenceError(f"The rows at {self.site} have no identity of their own: ask for what they came from.")

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in (self._rows if most is None else self._rows.limit(most)).collect()]
