"""Files of lines that a captured write made, for flows that are no queries: an RDD or an actor that reads them.

Such a file's line is a row that the query gave. Which one is told by its values, as the file has them: equal rows are
one record here, and it is said if that brings in more than was asked for."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from whence.model import WhenceError
from whence.model.flow import Answer, RecordId, Records, Site, Step, equal_records
from whence.model.verdict import Verdict
from whence.spark.allowed import names_class, reading_options
from whence.spark.paths import literal
from whence.sql.catalyst import Catalyst, Plan
from whence.sql.flow import SqlFlow, SqlTaken, equal_to
from whence.sql.lineage import SqlLineage
from whence.sql.targets import Target
from whence.store.producers import Product, file_key

KIND = "sql"
_OF_LINES = ("text", "csv", "json")


def products_of(c: Catalyst, target: Target, plan: Plan, files: Mapping[str, tuple[int, int]]) -> list[Product]:
    """What a captured write tells the store; nothing of files that have no lines, which only queries read."""
    if target.format not in _OF_LINES or not files:
        return []
    details = {
        "format": target.format,
        "options": reading_options(target.options),
        "schema": c.frame(plan).schema.json(),
        "place": target.place,
    }
    return [Product(file_key(path), KIND, target.place, *version, details) for path, version in files.items()]


class Lineages(Protocol):
    def __call__(self, df: DataFrame, *, through: bool = True) -> SqlLineage: ...


def open_flow(product: Product, spark: SparkSession, lineage: Lineages) -> WrittenFlow:
    told = str(product.details["schema"])
    kind = product.details["format"]
    options = product.details["options"]
    if kind not in _OF_LINES or names_class(json.loads(told)) or not isinstance(options, dict):
        raise WhenceError(f"What the store says of {product.key} is not a file of lines that a query wrote.")
    reader = spark.read.format(str(kind)).options(**reading_options(options))
    reader = reader.schema(StructType.fromJson(json.loads(told)))
    return WrittenFlow(reader.load(literal(str(product.details["place"]))), lineage)


class WrittenFlow:
    """From what a captured query read to the lines that it wrote."""

    def __init__(self, frame: DataFrame, lineage: Lineages) -> None:
        self._frame = frame
        self._lineage = lineage
        self._lines = SqlFlow(lineage(frame, through=False))
        self._query = SqlFlow(lineage(frame))
        self.outputs: tuple[Site, ...] = self._lines.inputs
        self.name = f"the query that wrote {self.outputs[0].name}"

    @property
    def inputs(self) -> tuple[Site, ...]:
        return self._query.inputs

    @property
    def steps(self) -> tuple[Step, ...]:
        return self._query.steps

    def take(self, site: Site, ids: Iterable[RecordId]) -> SqlTaken:
        return (self._lines if site in self.outputs else self._query).take(site, ids)

    def files(self, site: Site) -> Collection[str]:
        return self._query.files(site)

    def backward(self, asked: Records) -> Answer:
        flow, records, widened = self._asked(asked)
        answer = flow.backward(records)
        return Answer(answer.found, lambda: (*widened, *answer.widened), lambda: answer.ended)

    def forward(self, seeds: Records) -> Answer:
        answer = self._query.forward(seeds)
        (site,) = self.outputs
        values = [value for records in answer.found.values() for value in records.values()]
        rows = SqlFlow(self._lineage(equal_to(self._lines.lineage.c, self._frame, values), through=False))
        (found,) = rows.backward(rows.all()).found.values()
        touched = self._lines.take(site, found.ids())
        widened = equal_records(site, touched.count(), len(values))
        return Answer({site: touched}, (*widened, *answer.widened), answer.ended)

    def verify(self, asked: Records, answer: Answer) -> Verdict:
        """The query on the witnesses alone must give the rows that the lines are."""
        flow, records, _ = self._asked(asked)
        return flow.verify(records, flow.backward(records))

    def at(self, step: Step, asked: Records) -> Records:
        flow, records, _ = self._asked(asked)
        return flow.at(step, records)

    def _asked(self, asked: Records) -> tuple[SqlFlow, Records, tuple[str, ...]]:
        if not isinstance(asked, SqlTaken):
            asked = self.take(asked.site, asked.ids())
        values = asked.values()
        flow = SqlFlow(self._lineage(equal_to(self._lines.lineage.c, self._frame, values)))
        records = flow.all()
        return flow, records, equal_records(asked.site, records.count(), len(values))
