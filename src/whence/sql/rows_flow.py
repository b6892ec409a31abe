"""Rows of files that a query wrote, captured, as what that query put out: how other flows go on into queries.

Another flow read the files and tells their rows by file and row; here these become rows of the query, and the sources
of that are the query's own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from whence.model import WhenceError
from whence.model.flow import Answer, Few, RecordId, Records, Site, Step
from whence.model.once import once
from whence.sql.flow import SqlFlow
from whence.sql.lineage import SqlLineage

Ask = Callable[[DataFrame, bool], SqlLineage]


class RowsAsked:
    """Rows of the files, and the question about the query that they are."""

    def __init__(self, site: Site, ids: Sequence[RecordId], flow: SqlFlow) -> None:
        self.site = site
        self.flow = flow
        self.records = flow.all()
        self._ids = ids

    @property
    def columns(self) -> tuple[str, ...]:
        return self.records.columns

    def frame(self) -> DataFrame:
        return self.records.frame()

    def count(self) -> int:
        return len(self._ids)

    def ids(self, most: int | None = None) -> list[RecordId]:
        return list(self._ids[:most])

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        return self.records.values(most)


class RowsFlow:
    def __init__(
        self,
        frame: DataFrame,
        site: Site,
        ask: Ask,
        keys: Sequence[str],
        told: Callable[[list[Any]], list[RecordId]],
        condition: Callable[[list[RecordId]], str],
    ) -> None:
        """`frame` reads the files, `site` is what others call their rows. `told`: the rows that have these values of
        the columns `keys`; `condition`: on these columns, that these rows alone meet."""
        self._frame, self._ask, self._keys, self._told = frame, ask, list(keys), told
        self._condition = condition
        self.outputs = (site,)
        self.name = f"the query that made {site.name}"

    @once
    def _query(self) -> SqlFlow:
        return SqlFlow(self._ask(self._frame, True))

    @property
    def inputs(self) -> tuple[Site, ...]:
        return self._query.inputs

    @property
    def steps(self) -> tuple[Step, ...]:
        return self._query.steps

    def backward(self, asked: Records) -> Answer:
        taken = self._asked(asked)
        return taken.flow.backward(taken.records)

    def at(self, step: Step, asked: Records) -> Records:
        taken = self._asked(asked)
        more = len(taken.flow.steps) - len(self.steps)  # the filter that picks the rows stands above the query
        return taken.flow.at(taken.flow.steps[step.number + more], taken.records)

    def forward(self, seeds: Records) -> Answer:
        return self.forward_all([seeds])

    def forward_all(self, seeds: Collection[Records]) -> Answer:
        answer = self._query.forward_all(seeds)
        (records,) = answer.found.values()
        found: DataFrame = records.frame()  # type: ignore[attr-defined]
        rows = [tuple(row) for row in found.select(*self._keys).collect()]
        site = self.outputs[0]
        return Answer({site: Few(site, tuple(self._told(rows)))}, lambda: answer.widened, lambda: answer.ended)

    def take(self, site: Site, ids: Iterable[RecordId]) -> Records:
        if site not in self.outputs:
            return self._query.take(site, ids)
        known = list(dict.fromkeys(ids))
        return RowsAsked(site, known, SqlFlow(self._ask(self._frame.where(self._condition(known)), True)))

    def files(self, site: Site) -> Collection[str]:
        return self._query.files(site)

    def _asked(self, asked: Records) -> RowsAsked:
        taken = asked if isinstance(asked, RowsAsked) else self.take(self.outputs[0], asked.ids())
        if not isinstance(taken, RowsAsked):
            raise WhenceError(f"These are no rows of {self.outputs[0]}.")
        return taken
