"""Questions that need the lineage of two queries, or of many rows one by one."""

from __future__ import annotations

from pyspark.sql import functions as F

from whence.debug.trace import Trace
from whence.debug.verify import Verdict, require_same_rows
from whence.model import WhenceError
from whence.sql import SqlLineage
from whence.sql import touched as forwarding
from whence.sql.matching import matches, names_of


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
    assert touched is not None
    return Trace(to, direction="forward", root=touched, seeds=seeds)


def verify_rows(lineage: SqlLineage, rows: int) -> Verdict:
    """Each of the first `rows` rows, in hash order, traced and proven on its own."""
    df = lineage.frame
    c = lineage.c
    names = [f"c{i}" for i in range(len(df.columns))]
    plain = df.toDF(*names)
    picked = plain.distinct().orderBy(F.xxhash64(*names)).limit(rows).collect()
    for row in picked:
        condition = F.lit(True)
        for name, value in zip(names, row, strict=True):
            condition = condition & plain[name].eqNullSafe(F.lit(value))
        verdict = Trace(SqlLineage(c, plain.where(condition))).verify()
        if not verdict.ok:
            return verdict
    return Verdict(True)
