"""A query run again without the witnesses of a trace that goes through other flows: these run again first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whence.debug.crossing import Crossing
from whence.debug.legs import Leg
from whence.model import WhenceError
from whence.model.flow import BY_BYTE, Queried, Records, Site, told_by
from whence.rdd.flow import RddFlow
from whence.rdd.worker import text_lines
from whence.sql.written_files import WrittenFlow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def without(spark: SparkSession, leg: Leg, query: DataFrame | None, only: Site | None) -> DataFrame:
    """The leg's query without the witnesses at the ends of the trace, or at one of them."""
    flow = leg.flow
    if not isinstance(flow, Queried):
        raise WhenceError(f"{flow.name} is no query, so it cannot be asked without some of its rows.")
    if query is not None:
        raise WhenceError(
            "Another DataFrame can be asked without the witnesses where the trace stays within queries; this one goes "
            "through other flows. Ask exclude() without a DataFrame, or through=False."
        )
    instead: dict[Site, Any] = {}
    for site, some in leg.next.items():
        if len(some) > 1 or set(getattr(flow, "files", lambda _: ())(site)) - set(some[0][0].files):
            raise WhenceError(f"{site.name} was made by several runs, which are not run again together.")
        crossing, behind = some[0]
        instead[site] = _read_as(spark, leg, site, _given(leg, site, crossing, behind, only))
    kept = [site for site in leg.answer.found if site not in instead and (only is None or site == only)]
    found: DataFrame = flow.run_again(leg.asked, drop=True, sites=kept, instead=instead)
    return found


def _given(leg: Leg, site: Site, crossing: Crossing, behind: Leg, only: Site | None) -> Any:
    """What made this input, made again without the witnesses: an RDD."""
    flow = behind.flow
    if isinstance(flow, WrittenFlow):
        raise WhenceError(
            f"{site.name} was written by a query and is read as lines: what would stand in these without the witnesses "
            "is not made again."
        )
    rows = leg.flow.frame_of(site) if isinstance(leg.flow, RddFlow) else None
    if rows is not None and isinstance(flow, Queried):
        if behind.crossed:
            raise WhenceError(f"{site.name}: other flows lie behind the DataFrame that it is; these are not run again.")
        kept = [one for one in behind.answer.found if only is None or one == only]
        found: DataFrame = flow.run_again(behind.asked, drop=True, query=rows, sites=kept)
        return found.rdd
    if not isinstance(flow, RddFlow):
        raise WhenceError(f"{flow.name} cannot be run again from here without some of its records.")
    instead = {}
    for below, some in behind.next.items():
        if len(some) > 1 or set(flow.files(below)) - set(some[0][0].files):
            raise WhenceError(f"{below.name} was made by several runs, which are not run again together.")
        made = _given(behind, below, *some[0], only)
        instead[below] = made.flatMap(text_lines) if told_by(below) == BY_BYTE else made
    drop: dict[Site, Records] = {
        s: r for s, r in behind.answer.found.items() if s not in instead and (only is None or s == only)
    }
    return flow.replay(drop=drop, output=crossing.output, instead=instead)


def _read_as(spark: SparkSession, leg: Leg, site: Site, made: Any) -> DataFrame:
    """What a flow made now, as the query reads what it made then."""
    reader = getattr(leg.flow, "read_as", None)
    if reader is None:
        raise WhenceError(f"What {site.name} would be cannot be read by {leg.flow.name}.")
    found: DataFrame = reader(site, made)
    return found
