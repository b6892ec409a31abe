"""Flows of this session that made what another one reads: DataFrames made from RDDs, RDDs made from DataFrames, and
(array_runs.py) arrays made from DataFrames.

From DataFrames to RDDs, records go over by partition and number (sql/handed.py). From RDDs to DataFrames, rows go over
by what they hold: where that brings in more rows than were asked for, because others are equal, it is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from whence.debug.crossing import Crossing
from whence.model.flow import Flow, RecordId, Records, Site, equal_records
from whence.rdd.flow import RddFlow
from whence.rdd.opening import handed_over
from whence.sql.flow import SqlFlow, SqlRecords, equal_to
from whence.sql.handed import pairs_of, records_of, told_of
from whence.sql.lineage import SqlLineage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from whence.debug.array_runs import ArrayRuns
    from whence.rdd.context import LineageContext


class Living:
    def __init__(
        self,
        lineage: Callable[[DataFrame], SqlLineage],
        context: Callable[[], LineageContext | None],
        arrays: Callable[[], ArrayRuns | None] = lambda: None,
    ) -> None:
        self._lineage = lineage
        self._context = context
        self._arrays = arrays

    def behind(self, flow: Flow, site: Site) -> Crossing | None:
        if isinstance(flow, SqlFlow):
            return self._rdd_behind(flow, site)
        if isinstance(flow, RddFlow):
            return self._query_behind(flow, site)
        arrays = self._arrays()
        return None if arrays is None else arrays.behind(flow, site)

    def _rdd_behind(self, query: SqlFlow, site: Site) -> Crossing | None:
        context = self._context()
        below = query.rdd_below(site)
        if context is None or below is None:
            return None
        handed = handed_over(below, context)
        if handed is None:
            return None
        flow = RddFlow(context.book, context, handed.rdd)
        if not query.by_contents(site):
            return Crossing(site, flow, handed.site)
        c, place = query.lineage.c, query.places(site)[0]

        def ask(records: Records) -> tuple[Flow, Records, tuple[str, ...]]:
            # Equal rows are witnesses together: whatever one of them made, the others made too.
            assert isinstance(records, SqlRecords)
            return flow, flow.take(handed.site, records_of(c, handed, place, records.identities())), ()

        def each(records: Records) -> dict[RecordId, list[RecordId]]:
            assert isinstance(records, SqlRecords)
            return pairs_of(c, handed, place, records.identities())

        def arrive(records: Records) -> tuple[list[RecordId], tuple[str, ...]]:
            ids = records.ids()
            told, equal = told_of(c, handed, place, ids)
            return list(told), equal_records(site, equal, len(ids))

        return Crossing(site, flow, handed.site, ask=ask, each=each, arrive=arrive)

    def _query_behind(self, program: RddFlow, site: Site) -> Crossing | None:
        frame = program.frame_of(site)
        if frame is None:
            return None
        flow = SqlFlow(self._lineage(frame))

        def ask(records: Records) -> tuple[Flow, Records, tuple[str, ...]]:
            values = records.values()
            picked = SqlFlow(self._lineage(equal_to(flow.lineage.c, frame, values)))
            found = picked.all()
            return picked, found, equal_records(site, found.count(), len(values))

        def arrive(records: Records) -> tuple[list[RecordId], tuple[str, ...]]:
            values = records.values()
            ids = program.take_values(site, values).ids()
            return ids, equal_records(site, len(ids), len(values))

        return Crossing(site, flow, flow.outputs[0], ask=ask, arrive=arrive)
