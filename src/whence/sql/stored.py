"""Answers lookups from what taps have written down, without running the query."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from whence.sql.associations import Found, look_up
from whence.sql.blocks import Lookup, Reading
from whence.sql.catalyst import Attr, Catalyst, Plan
from whence.sql.sources import FILE, ROW
from whence.sql.taps import key_hashes

log = logging.getLogger("whence.sql")

# More groups than these are worked out by the query: it is quicker then.
MOST_KEYS = 20_000


def answers(c: Catalyst, link: Lookup, there: Plan, carried: Sequence[Attr]) -> dict[int, DataFrame] | None:
    """The identities of the witnesses at each reading below the lookup, by reading number; None if not stored.

    `there` are the rows that look up; `carried` is the number of the output, if it is asked for."""
    fact = link.stored
    if fact is None or fact.tapped is None:
        return None
    hashes = [c.alias(h, "whence_hash") for h in key_hashes(c, link.attrs[1:])]
    needed = c.frame(c.distinct(c.project([*hashes, *carried], there))).limit(MOST_KEYS + 1).collect()
    if len(needed) > MOST_KEYS:
        return None
    readings = [below for below in link.block.annotated.links if isinstance(below, Reading)]
    keys = list(dict.fromkeys((row[0], row[1]) for row in needed))
    try:
        found = look_up(f"{fact.folder}/associations", fact.tapped["parts"], fact.tapped["readings"], keys)
    except Exception as problem:
        log.warning("whence works out the lineage anew: %s", problem)
        return None
    if len(found) != len(readings):
        return None
    outputs = [(keys.index((row[0], row[1])), row[2]) for row in needed] if carried else None
    return {
        reading.place.number: _frame(c, one, None if outputs is None else outputs, carried)
        for reading, one in zip(readings, found, strict=True)
    }


def _frame(c: Catalyst, found: Found, outputs: Sequence[tuple[int, int]] | None, carried: Sequence[Attr]) -> DataFrame:
    columns = {FILE: found.file, ROW: found.row}
    if outputs is not None:
        by_group: dict[int, list[int]] = {}
        for group, output in outputs:
            by_group.setdefault(group, []).append(output)
        places = [(np.flatnonzero(found.group == group), output) for group, some in by_group.items() for output in some]
        picked = np.concatenate([at for at, _ in places]) if places else np.empty(0, dtype=np.int64)
        numbers = [np.full(len(at), output, dtype=np.int64) for at, output in places]
        columns = {
            carried[0].name(): np.concatenate(numbers) if numbers else np.empty(0, dtype=np.int64),
            FILE: found.file[picked],
            ROW: found.row[picked],
        }
    values = np.unique(np.stack(list(columns.values())), axis=1) if len(found.row) else np.stack(list(columns.values()))
    table = pa.table({name: pa.array(values[i]) for i, name in enumerate(columns)})
    return c.spark.createDataFrame(table)
