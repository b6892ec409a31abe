"""Answers lookups from what taps have written down, without running the query."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from whence.sql.associations import Found, Longs, look_up
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
    asked = c.small_frame(c.project([*hashes, *carried], there)).limit(MOST_KEYS + 1).collect()
    if len(asked) > MOST_KEYS:
        return None
    needed = list(dict.fromkeys(tuple(row) for row in asked))
    readings = [below for below in link.block.annotated.links if isinstance(below, Reading)]
    if [c.roots(reading.place.leaf.plan) for reading in readings] != fact.tapped["roots"]:
        return None
    keys = list(dict.fromkeys((row[0], row[1]) for row in needed))
    try:
        found = look_up(f"{fact.folder}/associations", fact.tapped["parts"], fact.tapped["readings"], keys)
    except Exception as problem:
        log.warning("whence works out the lineage anew: %s", problem)
        return None
    if len(found) != len(readings):
        return None
    places = {key: place for place, key in enumerate(keys)}
    outputs = [(places[row[0], row[1]], row[2]) for row in needed] if carried else None
    names = [carried[0].name(), FILE, ROW] if carried else [FILE, ROW]
    return {
        reading.place.number: _frame(c, names, _columns(one, outputs))
        for reading, one in zip(readings, found, strict=True)
    }


def _columns(found: Found, outputs: Sequence[tuple[int, int]] | None) -> list[Longs]:
    """File and row of each witness, behind the number of the output where these are asked for."""
    if outputs is None:
        return [found.file, found.row]
    order = np.argsort(found.group, kind="stable")
    sorted_groups = found.group[order]
    groups = np.array([group for group, _ in outputs], dtype=np.int64)
    starts = np.searchsorted(sorted_groups, groups, side="left")
    counts = np.searchsorted(sorted_groups, groups, side="right") - starts
    numbers = np.repeat(np.array([output for _, output in outputs], dtype=np.int64), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    picked = order[np.repeat(starts, counts) + within]
    return [numbers, found.file[picked], found.row[picked]]


def _frame(c: Catalyst, names: Sequence[str], columns: Sequence[Longs]) -> DataFrame:
    """Each combination once: chunks and tasks may tell of a row again."""
    order = np.lexsort(columns[::-1])
    values = [column[order] for column in columns]
    if len(order):
        new = np.ones(len(order), dtype=bool)
        new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in values])
        values = [column[new] for column in values]
    return c.spark.createDataFrame(pa.table({name: pa.array(v) for name, v in zip(names, values, strict=True)}))
