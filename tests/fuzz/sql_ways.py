"""More that is asked of a generated query, and what the oracle says to it: several rows forward, why a row is missing,
witnesses of one column, pairs of output and source rows, rows at each step, influence, one source left out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fuzz import sql_oracle as oracle
from fuzz.sql_oracle import Oracle, Rows, Tied

if TYPE_CHECKING:
    from fuzz.sql_queries import Check

# Tables whose rows have their number in a column.
_NUMBERED = ("values", "python", "parquet", "parted", "orc", "json", "csv")


def several(check: Check, expected: Rows) -> None:
    """Forward from every other row of a table at once."""
    table, row = check.case.seed
    if not check.tables[table] or check.in_two_ways(table):
        return
    number = check.case.tables[table].number
    seeds = check.w.spark.table(table).where(f"{number} % 2 = {row % 2}")
    touched = check.w.forward(seeds, to=check.df).rows
    name = check.source(table)
    wanted = [v for v, ids in expected if any(t == name and r % 2 == row % 2 for t, r in check.by_table(ids))]
    if check.case.tables[table].format == "before" or f"{table}_before" in check.read:
        return  # the table itself has rows that it had not
    assert check.counted(tuple(r) for r in touched.collect()) == check.counted(iter(wanted)), "forward from several"


def why_not(check: Check, expected: Rows) -> None:
    """A row has reached the result if it is a witness of any of its rows; all others dropped out."""
    table, _ = check.case.seed
    if check.case.tables[table].format not in _NUMBERED or not check.tables[table] or check.in_two_ways(table):
        return
    if any(check.source(name) == table and name != table for name in check.read):
        return  # another state of it
    fates = check.w.why_not(check.w.spark.table(table), to=check.df)
    reached = {int(fate.row.rid) for fate in fates if fate.operator is None}
    wanted = {row for name, row in check.by_table(oracle.merged(expected)) if name == table}
    assert reached == wanted, "why_not"
    assert {int(fate.row.rid) for fate in fates} == set(range(len(check.tables[table]))), "why_not of every row"


def columns(check: Check, expected: Rows) -> None:
    """The witnesses of one column are among those of the row, and give the column again."""
    at = check.case.asked % len(check.query.kinds)
    trace = check.w.backward(check.df, columns=[f"c{at}"])
    found: Counter[str] = Counter()
    for name, frame in trace.sources.items():
        found[check.source(name)] += frame.count()
    every = Counter(name for name, _ in check.by_table(oracle.merged(expected)))
    assert all(found[name] <= every[name] for name in found), "columns: more than the row's witnesses"
    assert trace.exact, f"columns: {trace.notes}"
    if not check.gives_again(oracle.merged(expected)):
        return
    assert trace.verify().ok, "verify of a column"
    kind = check.query.kinds[at]
    again = Counter(oracle.key(kind, row[0]) for row in trace.replay().collect())
    assert again == Counter(oracle.key(kind, values[at]) for values, _ in expected), "replay of a column"


def associations(check: Check, expected: Rows) -> None:
    """As many pairs of each output row and a source as it has witnesses there, and no pair twice."""
    trace = check.w.backward(check.df)
    rows = {row[0]: check.key(tuple(row)[1:]) for row in trace.outputs().collect()}
    pairs = [(row.output, check.source(row.source), row.record) for row in trace.associations().collect()]
    assert len(set(pairs)) == len(pairs), "a pair twice"
    by_output = {output: Counter(source for o, source, _ in pairs if o == output) for output in rows}
    found = Counter((rows[output], frozenset(counts.items())) for output, counts in by_output.items())
    wanted: Counter[Any] = Counter()
    for values, ids in expected:
        counts = Counter(name for name, _ in check.by_table(ids))
        wanted[check.key(values), frozenset(counts.items())] += 1
    assert found == wanted, f"associations {found - wanted}, not {wanted - found}"


def steps(check: Check, expected: Rows) -> None:
    """What is printed beside a step is the number of rows there."""
    trace = check.w.backward(check.df)
    counts = trace.step_counts()
    assert len(counts) == len(trace.steps), "a number for each step"
    if counts:
        at = check.case.asked % len(counts)
        assert trace.at(at).count() == counts[at], f"rows at {trace.steps[at]}"


def influence(check: Check, expected: Rows) -> None:
    """Of a count or a sum: what it is when each witness in turn is not in its source."""
    q = check.query
    if not isinstance(q, oracle.Aggregate) or q.having is not None or check.looked_through:
        return
    named = [i for i, call in enumerate(q.calls) if call.function in ("count", "sum", "max", "min")]
    named = [i for i in named if q.calls[i].kind(q.child.kinds) == "int"]
    if not named or any(check.case.tables[name].format not in _NUMBERED for name in check.read):
        return
    at, width = len(q.keys) + named[0], len(q.keys)
    wanted = Counter(_worlds(check, expected, at, width))
    if not wanted or None in wanted:
        return
    found: Counter[Any] = Counter()
    trace = check.w.backward(check.df)
    outputs = {row[0]: check.key(tuple(row)[1:]) for row in trace.outputs().collect()}
    for row in trace.influence(f"c{at}").collect():
        rid = int(json.loads(row.row)["rid"])
        without = None if row.without is None else int(row.without)
        found[outputs[row.output], check.source(row.source), rid, row.outcome, without] += 1
    assert found == wanted, f"influence {found - wanted}, not {wanted - found}"


def _worlds(check: Check, expected: Rows, at: int, width: int) -> list[Any]:
    told: list[Any] = []
    table = {scan.number: check.source(scan.table) for scan in check.scans}
    for values, ids in expected:
        for name, row in check.by_table(ids):
            judge = Oracle(check.tables, lambda number, r, name=name, row=row: (table[number], r) != (name, row))  # type: ignore[misc]
            try:
                rows = judge.rows(check.query)
            except Tied:
                return []
            if judge.widened:
                return []
            same = [v for v, _ in rows if check.key(v)[:width] == check.key(values)[:width]]
            value = same[0][at] if same else None
            outcome = "gone" if not same else "null" if value is None else "value"
            told.append((check.key(values), name, row, outcome, value))
    return told


def source(check: Check, expected: Rows) -> None:
    """The result without the witnesses that a row has in one of its sources."""
    name = check.source(check.case.seed[0])
    if not expected or check.looked_through or any(check.in_two_ways(q.table) for q in check.scans):
        return
    asked, ids = check.one(expected)
    trace = check.w.backward(asked)
    if name not in trace.sources or not check.tells_readings(trace):
        return
    numbers = {scan.number for scan in check.scans if check.source(scan.table) == name}
    without = trace.exclude(check.df, source=name)
    check.run_without(without, lambda number, row: number not in numbers or (number, row) not in ids, "exclude source")


MORE: dict[str, Callable[[Check, Rows], None]] = {
    "several": several,
    "why_not": why_not,
    "columns": columns,
    "associations": associations,
    "steps": steps,
    "influence": influence,
    "source": source,
}
