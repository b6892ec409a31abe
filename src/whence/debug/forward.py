"""Questions that need the lineage of two queries, or of many rows one by one."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from whence.debug.trace import Trace
from whence.model import WhenceError
from whence.sql import SqlLineage
from whence.sql import forward as forwarding
from whence.sql.catalyst import Attr, Catalyst
from whence.sql.matching import matches, names_of
from whence.sql.verify import Verdict, require_same_rows


def forward(seeds: SqlLineage, to: SqlLineage) -> Trace:
    """The rows of `to` that have a witness among the rows of `seeds`."""
    shared = matches(to.c, seeds.readings, to.readings)
    if not shared:
        raise WhenceError(
            "These rows cannot touch that result: it reads none of their sources. The rows come from "
            f"{names_of(seeds.readings)}, the result reads {names_of(to.readings)}."
        )
    require_same_rows(seeds)
    require_same_rows(to)
    touched = forwarding.forward(to, forwarding.seeds_of(seeds, shared))
    if touched is None:  # read only to decide which rows are kept, as by an anti join: nobody's witnesses
        touched = to.c.filter(to.c.parse("false"), to.root.annotated.plan)
    return Trace(to, direction="forward", root=touched, seeds=seeds)


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
    try:
        return _verify_picked(c, plain, odd, rows)
    except (ValueError, OverflowError):  # a date beyond the year 9999, which Python does not have
        return _verify_picked(c, plain, own, rows)


def _verify_picked(c: Catalyst, plain: DataFrame, odd: Sequence[Attr], rows: int) -> Verdict:
    left_out = {a.name() for a in odd}
    hashes = [c.alias(h, f"h{i}") for i, h in enumerate(c.content_hashes(odd))] if odd else []
    told = c.frame(c.extend(c.plan_of(plain), hashes)) if hashes else plain
    names = [*(n for n in plain.columns if n not in left_out), *(f"h{i}" for i in range(len(hashes)))]
    picked = told.select(*names).distinct().orderBy(F.xxhash64(*names)).limit(rows).collect()
    for row in picked:
        condition = F.lit(True)
        for name, value in zip(names, row, strict=True):
            condition = condition & told[name].eqNullSafe(F.lit(value))
        verdict = Trace(SqlLineage(c, told.where(condition).select(*plain.columns))).verify()
        if not verdict.ok:
            return verdict
    return Verdict(True)
