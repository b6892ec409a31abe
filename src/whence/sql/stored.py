"""Answers lookups from what taps have written down, without running the query."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from whence.spark.frames import from_arrow
from whence.sql.associations import Found, Longs, look_up
from whence.sql.blocks import Lookup, Reading
from whence.sql.catalyst import Attr, Catalyst, Plan
from whence.sql.sources import FILE, ROW
from whence.sql.taps import key_hashes

log = logging.getLogger("whence.sql")

# More groups than these are worked out by the query: it is quicker then.
MOST_KEYS = 20_000


@dataclass(frozen=True, eq=False)
class Answer:
    """The identities of the witnesses at one reading."""

    c: Catalyst
    names: Sequence[str]
    columns: Callable[[], Sequence[Longs]]
    count: int

    def frame(self) -> DataFrame:
        columns = {name: pa.array(values) for name, values in zip(self.names, self.columns(), strict=True)}
        made: DataFrame = from_arrow(self.c.spark, pa.table(columns))
        return made


def answers(c: Catalyst, link: Lookup, there: Plan, carried: Sequence[Attr]) -> dict[int, Answer] | None:
    """The witnesses at each reading below the lookup, by reading number; None if not stored.

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
        found = look_up(
            c.read_bytes, f"{fact.folder}/associations", fact.tapped["parts"], fact.tapped["readings"], keys
        )
    except Exception as problem:
        log.warning("whence works out the lineage anew: %s", problem)
        return None
    if len(found) != len(readings):
        return None
    places = {key: place for place, key in enumerate(keys)}
    outputs = [(places[row[0], row[1]], row[2]) for row in needed] if carried else None
    names = [carried[0].name(), FILE, ROW] if carried else [FILE, ROW]
    return {reading.place.number: _answer(c, names, one, outputs) for reading, one in zip(readings, found, strict=True)}


def _answer(c: Catalyst, names: Sequence[str], found: Found, outputs: Sequence[tuple[int, int]] | None) -> Answer:
    """Each witness once (of each output, where these are asked for): chunks and tasks may tell of a row again."""
    if outputs is None:
        ids = found.id
        if not _ascends(ids):
            ids = _distinct(np.sort(ids, kind="stable"))  # sorted runs one after the other, which this sort merges
        return Answer(c, names, lambda: found.file_and_row(ids), len(ids))
    numbers, ids = _per_output(found, outputs)
    order = np.lexsort((ids, numbers))
    numbers, ids = numbers[order], ids[order]
    new = np.ones(len(ids), dtype=bool)
    new[1:] = (numbers[1:] != numbers[:-1]) | (ids[1:] != ids[:-1])
    numbers, ids = numbers[new], ids[new]
    return Answer(c, names, lambda: (numbers, *found.file_and_row(ids)), len(np.unique(ids)))


def _ascends(values: Longs) -> bool:
    """Whether each is greater than the one before, as where one group is asked for and tasks read file by file."""
    return bool((values[1:] > values[:-1]).all())


def _distinct(values: Longs) -> Longs:
    new = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return values[new]


def _per_output(found: Found, outputs: Sequence[tuple[int, int]]) -> tuple[Longs, Longs]:
    """Output and witness, for each of these pairs of group and output."""
    group = found.group
    order = np.argsort(group, kind="stable")
    sorted_groups = group[order]
    groups = np.array([group for group, _ in outputs], dtype=np.int64)
    starts = np.searchsorted(sorted_groups, groups, side="left")
    counts = np.searchsorted(sorted_groups, groups, side="right") - starts
    numbers = np.repeat(np.array([output for _, output in outputs], dtype=np.int64), counts)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return numbers, found.id[order[np.repeat(starts, counts) + within]]
