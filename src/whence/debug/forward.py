"""Questions that need the lineage of two queries, or of many rows one by one."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from whence.debug.crossing import Crossings, arriving, reaches, seeds_of, touched
from whence.debug.legs import Leg
from whence.debug.trace import Trace
from whence.model import WhenceError
from whence.model.flow import Flow
from whence.model.verdict import Verdict
from whence.sql import SqlLineage
from whence.sql import forward as forwarding
from whence.sql.catalyst import Attr, Catalyst
from whence.sql.flow import SqlFlow
from whence.sql.matching import matches, names_of
from whence.sql.verify import require_same_rows
from whence.sql.versions import told_anew


def forward(seeds: Leg, to: Flow, crossings: Crossings, spark: SparkSession) -> Trace:
    """The rows of `to` that have a witness among the records of `seeds`, by whatever flows lie between."""
    if isinstance(to, SqlFlow) and isinstance(seeds.flow, SqlFlow):
        return _within_queries(seeds, seeds.flow, to, crossings, spark)
    start = seeds_of(seeds.answer)
    if not reaches(crossings, to, start):
        raise _untouched(seeds.flow, to)
    found = touched(crossings, to, start)
    (records,) = found.found.values() if found.found else (to.take(to.outputs[0], ()),)
    ended = (*seeds.answer.ended, *found.ended)
    widened = (*seeds.answer.widened, *found.widened)
    return Trace(Leg(to, records, crossings), spark, direction="forward", widened=widened, ended=ended)


def _within_queries(seeds: Leg, flow: SqlFlow, to: SqlFlow, crossings: Crossings, spark: SparkSession) -> Trace:
    """Between two queries identities stay in Spark; only what goes through other flows comes to the driver."""
    lineage, other = flow.lineage, to.lineage
    shared = matches(other.c, lineage.readings, other.readings)
    between = [site for site in to.inputs if crossings.behind(to, site)[0]]
    widened: list[str] = []
    ended: list[str] = []
    start = seeds_of(seeds.answer) if between else None
    through = start is not None and reaches(crossings, to, start)
    if not shared and not through:
        raise _untouched(flow, to)
    require_same_rows(lineage)
    require_same_rows(other)
    found = forwarding.seeds_of(lineage, shared) if shared else {}
    ended += told_anew(other.c, lineage.readings, list(found))
    for site in between if start is not None and through else ():
        assert start is not None
        ids = arriving(crossings, to, site, start, widened, ended)
        for place in to.places(site) if ids else ():
            found[place] = to.take(site, ids).seeds()
    answer = to.touched(found, also=lineage)
    (records,) = answer.found.values()
    return Trace(Leg(to, records, crossings), spark, direction="forward", widened=widened, ended=ended)


def _untouched(seeds: Flow, to: Flow) -> WhenceError:
    def names(flow: Flow) -> str:
        if isinstance(flow, SqlFlow):
            return names_of(flow.lineage.readings)
        return ", ".join(sorted(site.name for site in flow.inputs)) or "nothing"

    return WhenceError(
        "These rows cannot touch that result: it reads none of their sources. The rows come from "
        f"{names(seeds)}, the result reads {names(to)}."
    )


# Beside plain types: their values come to Python and back as they were, but for what compares equal anyway.
_COMPARED = ("float", "double", "timestamp")


def verify_rows(lineage: SqlLineage, rows: int) -> Verdict:
    """Each of the first `rows` rows, in hash order, traced and proven on its own."""
    c = lineage.c
    names = [f"c{i}" for i in range(len(lineage.frame.columns))]
    plain = lineage.frame.toDF(*names)
    own = c.output(c.plan_of(plain))
    # Maps cannot be compared, and Python has no values for some types: these are told by their contents.
    odd = [a for a in own if not c.is_plain(a) and c.type_of(a) not in _COMPARED]
    wavering = {names[at] for at in lineage.wavering}  # no row is told by what may be another value the next time
    try:
        return _verify_picked(c, plain, odd, wavering, rows)
    except (ValueError, OverflowError):  # a date beyond the year 9999, which Python does not have
        return _verify_picked(c, plain, own, wavering, rows)


def _verify_picked(c: Catalyst, plain: DataFrame, odd: Sequence[Attr], wavering: set[str], rows: int) -> Verdict:
    odd = [a for a in odd if a.name() not in wavering]
    left_out = wavering.union(a.name() for a in odd)
    hashes = [c.alias(h, f"h{i}") for i, h in enumerate(c.content_hashes(odd))] if odd else []
    told = c.frame(c.extend(c.plan_of(plain), hashes)) if hashes else plain
    names = [*(n for n in plain.columns if n not in left_out), *(f"h{i}" for i in range(len(hashes)))]
    picked = told.select(*names).distinct().orderBy(F.xxhash64(*names)).limit(rows).collect() if names else [Row()]
    for row in picked:
        condition = F.lit(True)
        for name, value in zip(names, row, strict=True):
            condition = condition & told[name].eqNullSafe(F.lit(value))
        flow = SqlFlow(SqlLineage(c, told.where(condition).select(*plain.columns)))
        verdict = Trace(Leg(flow, flow.all(), None), c.spark).verify()
        if not verdict.ok:
            return verdict
    return Verdict(True)
