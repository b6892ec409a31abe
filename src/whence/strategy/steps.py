"""What SQL queries, written tables and programs of RDDs could keep, and what that costs.

The figures are those of docs/benchmarks.md (capture of TPC-H, RDD jobs), as shares of the step's own time and as bytes
an association; where a step was seen keeping something, what it took then counts instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from whence.strategy.costs import Cost, Kept

# What SQL can keep. A question about a table whose write nobody remembers ends there, so that is no choice where one
# passes; and what may come out otherwise the next time has to be written down.
RERUN = "rerun"
GROUPS = "groups"
FACTS = "facts"
NOTHING = "nothing"
WRITE = "write"
# What programs of RDDs can keep.
STORED = "stored"
PROPAGATED = "propagated"

_JOB = 0.1
"""Seconds that any job of Spark takes."""
_QUERY_AGAIN = {"backward": 1.2, "forward": 1.45}
_GROUPS_SHARE = 0.3
_GROUPS_BYTES = 1.5
_GROUPS_ROWS_A_SECOND = 5e7
_PLAN_BYTES = 40_000
_FACT_SHARE = 0.5
_FACT_BYTES = 24.0
_STORED_BYTES = 1.4
_PROPAGATED_SHARE = 4.0
_PROPAGATED_BYTES = 1.6
_TABLES_A_SECOND = 2e8


@dataclass(frozen=True)
class Query:
    """One SQL step: a DataFrame, or the write of a table."""

    seconds: float
    rows: int
    """That it reads."""
    groups: bool
    """Whether its topmost operator is a grouping whose rows can be written down in the same pass."""
    uncertain: bool = False
    written: bool = False
    asked: bool = True
    """Whether a question passes it."""
    kept: Sequence[Kept] = ()


@dataclass(frozen=True)
class Program:
    """One result of RDDs, with all stages behind it."""

    seconds: float
    associations: int
    kept: Sequence[Kept] = ()


def query_costs(query: Query) -> dict[str, Cost]:
    again = {way: _JOB + share * query.seconds for way, share in _QUERY_AGAIN.items()}
    remembered = _PLAN_BYTES if query.written else 0
    writing = _JOB if query.written else 0.0
    found: dict[str, Cost] = {}
    if query.uncertain:
        size = remembered + _FACT_BYTES * query.rows
        found[FACTS] = Cost(size, writing + _JOB + _FACT_SHARE * query.seconds, again["backward"], again["forward"])
    elif query.written:
        if not query.asked:
            found[NOTHING] = Cost(0, 0, 0, 0)
        found[WRITE] = Cost(remembered, writing, again["backward"], again["forward"])
    else:
        found[RERUN] = Cost(0, 0, again["backward"], again["forward"])
    if query.groups and not query.uncertain:
        found[GROUPS] = Cost(
            remembered + _GROUPS_BYTES * query.rows,
            writing + _JOB + _GROUPS_SHARE * query.seconds,
            2 * _JOB + query.rows / _GROUPS_ROWS_A_SECOND,
            2 * _JOB + 0.5 * query.seconds,
        )
    return _as_seen(found, query.kept)


def program_costs(program: Program) -> dict[str, Cost]:
    seconds, count = program.seconds, program.associations
    stored = _STORED_BYTES * count
    walked = 0.02 + stored / _TABLES_A_SECOND
    found = {
        RERUN: Cost(0, 0, _JOB + seconds + walked, _JOB + seconds + walked),
        STORED: Cost(stored, 0.0, walked, walked),
        PROPAGATED: Cost(
            stored + _PROPAGATED_BYTES * count,
            _JOB + _PROPAGATED_SHARE * seconds,
            0.01 + _PROPAGATED_BYTES * count / (4 * _TABLES_A_SECOND),
            walked,
        ),
    }
    return _as_seen(found, program.kept)


def _as_seen(costs: dict[str, Cost], kept: Sequence[Kept]) -> dict[str, Cost]:
    for seen in kept:
        if seen.strategy in costs:
            before = costs[seen.strategy]
            costs[seen.strategy] = Cost(seen.bytes, seen.seconds, before.backward, before.forward)
    return costs
