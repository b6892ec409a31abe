"""Flows of this session that made what another one reads: DataFrames made from RDDs, and RDDs made from DataFrames.

Where both tell records by partition and number, these go over as they are. Where a query tells rows by what they hold
(after a shuffle an RDD need not give them in the same order again) the values go over: equal rows are one record then,
and it is said if that brings in more than was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from whence.debug.crossing import Crossing
from whence.model.flow import Flow, RecordId, Records, Site
from whence.rdd.flow import RddFlow
from whence.rdd.opening import flow_behind
from whence.sql.flow import SqlFlow, equal_to
from whence.sql.lineage import SqlLineage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from whence.rdd.context import LineageContext


class Living:
    def __init__(
        self, lineage: Callable[[DataFrame], SqlLineage], context: Callable[[], LineageContext | None]
    ) -> None:
        self._lineage = lineage
        self._context = context

    def behind(self, flow: Flow, site: Site) -> Crossing | None:
        if isinstance(flow, SqlFlow):
            return self._rdd_behind(flow, site)
        if isinstance(flow, RddFlow):
            return self._query_behind(flow, site)
        return None

    def _rdd_behind(self, query: SqlFlow, site: Site) -> Crossing | None:
        context = self._context()
        below = query.rdd_below(site)
        if context is None or below is None:
            return None
        flow = flow_behind(below, context)
        if flow is None or flow.result is None:
            return None
        output = flow.site_of(flow.result.node.id)
        if not query.by_contents(site):
            return Crossing(site, flow, output)

        def ask(records: Records) -> tuple[Flow, Records, tuple[str, ...]]:
            values = records.values()
            found = flow.take_values(output, [*values, *(value[0] for value in values if len(value) == 1)])
            return flow, found, _more(found.count(), len(values), site)

        def arrive(records: Records) -> list[RecordId]:
            return query.take_values(site, [_row(value) for value in records.values()]).ids()

        return Crossing(site, flow, output, ask=ask, arrive=arrive)

    def _query_behind(self, program: RddFlow, site: Site) -> Crossing | None:
        frame = program.frame_of(site)
        if frame is None:
            return None
        flow = SqlFlow(self._lineage(frame))

        def ask(records: Records) -> tuple[Flow, Records, tuple[str, ...]]:
            values = records.values()
            picked = SqlFlow(self._lineage(equal_to(frame, values)))
            found = picked.all()
            return picked, found, _more(found.count(), len(values), site)

        def arrive(records: Records) -> list[RecordId]:
            return program.take_values(site, records.values()).ids()

        return Crossing(site, flow, flow.outputs[0], ask=ask, arrive=arrive)


def _row(value: tuple[Any, ...]) -> tuple[Any, ...]:
    """A record of an RDD as the row that a DataFrame made of it."""
    if len(value) == 1 and isinstance(value[0], tuple | list):
        return tuple(value[0])
    return value


def _more(found: int, asked: int, site: Site) -> tuple[str, ...]:
    if found <= asked:
        return ()
    return (
        f"{site.name}: {found} records there are equal to the {asked} that were asked for, which cannot be told apart",
    )
