"""What a trace tells, in plain Python, and how tests compare it with what must come out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame

import whence

Values = tuple[object, ...]
# For each output row: its values and, by source, the `rid`s of its witnesses.
Told = list[tuple[Values, dict[str, set[int]]]]


def told(trace: whence.Trace) -> Told:
    names = {reading.number: reading.source for reading in trace.readings}
    found: dict[int, dict[str, set[int]]] = {}
    for reading, frame in trace.witnesses_per_output():
        for row in frame.select("output", "rid").collect():
            found.setdefault(row.output, {}).setdefault(names[reading], set()).add(int(row.rid))
    return [(tuple(row[1:]), found.get(row[0], {})) for row in trace.outputs().collect()]


def bag(rows: Iterable[tuple[Values, Mapping[str, set[int]]]]) -> Counter[str]:
    return Counter(
        repr((values, sorted((name, sorted(ids)) for name, ids in sources.items()))) for values, sources in rows
    )


def check(
    w: whence.Session, df: DataFrame, expected: Told, *, exact: bool = True, seeds: DataFrame | None = None
) -> whence.Trace:
    """Every output row has just these witnesses, they alone give the rows again, and forward says the same.

    `seeds`: one source row whose `rid` is 0, from the source that is named first."""
    trace = w.backward(df)
    assert bag(told(trace)) == bag(expected)
    assert trace.exact is exact, trace.notes
    verdict = trace.verify()
    assert verdict.ok, verdict
    if seeds is not None:
        source = next(iter(trace.sources))
        touched = [values for values, sources in expected if 0 in sources.get(source, ())]
        rows = w.forward(seeds, to=df).rows.collect()
        assert Counter(repr(tuple(r)) for r in rows) == Counter(repr(v) for v in touched)
    return trace
