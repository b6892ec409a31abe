"""Where given source rows dropped out on their way to a result, also where other flows lie between."""

from __future__ import annotations

from pyspark.sql import Row

from whence.debug.crossing import Crossings, Seeds, arriving
from whence.debug.legs import Leg
from whence.model import WhenceError
from whence.model.flow import Flow, RecordId, Records, Site, told_by
from whence.sql.flow import SqlFlow
from whence.sql.lineage import SqlLineage
from whence.sql.matching import matches
from whence.sql.why_not import MOST_ROWS, Dropped, Fates
from whence.sql.why_not import why_not as within_a_query


def why_not(rows: Leg, to: SqlFlow, crossings: Crossings) -> Fates:
    between = [site for site in to.inputs if crossings.behind(to, site)[0]]
    if isinstance(rows.flow, SqlFlow):
        told = [place for place in to.lineage.readings if not place.auxiliary]
        if not between or matches(to.lineage.c, rows.flow.lineage.readings, told):
            return within_a_query(rows.flow.lineage, to.lineage)
    answers: list[Dropped] = []
    for site, records in rows.answer.found.items():
        if records.count() > MOST_ROWS:
            raise WhenceError(f"why_not tells up to {MOST_ROWS} rows one by one; ask about fewer rows.")
        for one in records.ids():
            answers.append(_fate(rows.flow, site, one, to, between, crossings))
    return Fates(answers)


def _fate(flow: Flow, site: Site, one: RecordId, to: SqlFlow, between: list[Site], crossings: Crossings) -> Dropped:
    record = flow.take(site, [one])
    row = _row(record)
    seeds = _seeds(site, one)
    lost: list[str] = []
    for reading in between:
        notes: list[str] = []
        ids = arriving(crossings, to, reading, seeds, notes, notes)
        if not ids:
            lost += [crossing.flow.name for crossing in crossings.behind(to, reading)[0]]
            continue
        arrived = SqlLineage(to.lineage.c, to.take(reading, ids).frame(), through=False)
        fates = within_a_query(arrived, to.lineage)
        if any(fate.operator is None for fate in fates):
            return Dropped(row, site.name, None, "")
        last = fates[-1]
        return Dropped(row, site.name, last.operator, f"{last.reason} (as {tuple(last.row)} of {reading.name})")
    where = ", ".join(dict.fromkeys(lost)) or "another flow"
    return Dropped(row, site.name, where, "none of the records that it put out came from this row")


def _seeds(site: Site, one: RecordId) -> Seeds:
    told = told_by(site)
    if told is not None:
        return Seeds({}, {told: (one,)})
    return Seeds({site.key: (one,)}, {})


def _row(record: Records) -> Row:
    values = record.values(1)
    names = record.columns
    make = Row(*names) if names and len(set(names)) == len(names) else Row
    return make(*values[0]) if values else Row(*record.ids(1)[0])
