"""Samples for mining from the lineage of a query: how many rows of the result each source row led to, and how many
rows of each join or generator on the way.

An operator is the way from one source to such a step, its instances are the source's files: a join that fans out too
far, or a file with odd rows, stands out where it first does so. Rows stay in Spark; the driver gets histograms, and the
few that are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from whence.debug.attached import Attached
from whence.debug.mining.mined import Cause, Mined, Sample, mine_samples
from whence.sql import Catalyst

_ALL = "all rows"
_FANNING = ("Join", "Generate", "Expand", "LateralJoin")
_SAME_ROWS = ("Project", "SubqueryAlias", "View", "Sort", "RepartitionByExpression", "Repartition", "ResolvedHint")
STEPS = 8  # traces of inner steps that one call makes, those nearest the sources first


def mine_frame(session: Attached, df: DataFrame, bad: DataFrame | None, good: Any) -> Mined:
    """With bad rows, only files that they came from are considered; with good ones too, only their rows count."""
    return mine_samples(_Samples(session, df, bad, good))


def _associations(session: Attached, df: DataFrame) -> DataFrame:
    file = F.regexp_extract("record", r"^(.+)#\d+$", 1)
    return session.backward(df).associations().withColumn("file", F.when(file == "", _ALL).otherwise(file))


@dataclass(frozen=True, eq=False)
class _Point:
    """Rows of the query at one step; `name` is empty for the result."""

    name: str
    order: int
    pairs: DataFrame  # associations of the rows there with source rows
    counts: DataFrame  # source, file, record, count


@dataclass(frozen=True, eq=False)
class _Instance:
    point: _Point
    source: str
    file: str
    values: Any  # ascending


class _Samples:
    def __init__(self, session: Attached, df: DataFrame, bad: DataFrame | None, good: Any) -> None:
        self._session = session
        self._df = df
        self._considered: set[tuple[str, str]] | None = None
        self._lineage: DataFrame | None = None
        self._instances: dict[int, _Instance] = {}
        if bad is not None:
            traced = _associations(session, bad)
            self._considered = {(row.source, row.file) for row in traced.select("source", "file").distinct().collect()}
            if isinstance(good, DataFrame):
                both = traced.union(_associations(session, good))
                self._lineage = both.select("source", "record").distinct().localCheckpoint()

    def __iter__(self) -> Iterator[Sample]:
        points = inner_points(Catalyst(self._session.spark), self._df)
        for order, (name, frame) in enumerate([*points, ("", self._df)]):
            yield from self._at(name, order, frame)

    def _at(self, name: str, order: int, frame: DataFrame) -> Iterator[Sample]:
        import numpy as np

        pairs = _associations(self._session, frame)
        if self._lineage is not None:
            pairs = pairs.join(self._lineage, ["source", "record"], "leftsemi")
        point = _Point(name, order, pairs, _counted(pairs).localCheckpoint())
        found: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for row in point.counts.groupBy("source", "file", F.col("count").alias("outputs")).count().collect():
            found.setdefault((row.source, row.file), []).append((row.outputs, row["count"]))
        for (source, file), bins in sorted(found.items()):
            bins.sort()
            values = np.repeat([outputs for outputs, _ in bins], [number for _, number in bins])
            instance = _Instance(point, source, file, values)
            self._instances[id(values)] = instance
            yield Sample(
                f"{source} at {name}" if name else source, file, values, _Records(instance),
                self._considered is None or (source, file) in self._considered, order, _Recount(self, instance),
            )  # fmt: skip

    def without(self, instance: _Instance, causes: Sequence[Cause]) -> Any:
        """Counts of the other rows, without result rows that odd source rows of the causes had a part in."""
        import numpy as np

        odd: DataFrame | None = None
        for cause in causes:
            at = self._instances[id(cause.sample.counts)]
            outputs = [int(v) for v in np.unique(at.values[cause.positions])]
            rows = at.point.counts.where(
                (F.col("source") == at.source) & (F.col("file") == at.file) & F.col("count").isin(outputs)
            ).select("source", "record")
            odd = rows if odd is None else odd.union(rows)
        assert odd is not None
        pairs = instance.point.pairs
        spoiled = pairs.join(odd.distinct(), ["source", "record"], "leftsemi").select("output").distinct()
        rest = pairs.join(spoiled, "output", "leftanti").where(
            (F.col("source") == instance.source) & (F.col("file") == instance.file)
        )
        bins = sorted((row["count"], row.number) for row in _histogram(_counted(rest)).collect())
        return np.repeat([outputs for outputs, _ in bins], [number for _, number in bins]) if bins else np.zeros(1, int)


def _counted(pairs: DataFrame) -> DataFrame:
    return pairs.groupBy("source", "file", "record").count()


def _histogram(counts: DataFrame) -> DataFrame:
    return counts.groupBy("count").agg(F.count("*").alias("number"))


class _Recount:
    def __init__(self, samples: _Samples, instance: _Instance) -> None:
        self._samples, self._instance = samples, instance

    def __call__(self, causes: Sequence[Cause]) -> Any:
        return self._samples.without(self._instance, causes)


def inner_points(c: Catalyst, df: DataFrame) -> list[tuple[str, DataFrame]]:
    """The steps of a query that may give several rows for one, those nearest the sources first. One above which nothing
    changes the number of rows is the result itself."""
    found: list[Any] = []

    def visit(plan: Any, counted: bool) -> None:
        kind = plan.getClass().getSimpleName()
        for child in c.children(plan):
            visit(child, counted and kind in _SAME_ROWS)
        if kind in _FANNING and not counted:
            found.append(plan)

    visit(c.normalise(c.plan_of(df)), True)
    names = [re.sub(r"#\d+L?", "", str(plan.simpleString(25))).strip() for plan in found[:STEPS]]
    several = [name if names.count(name) == 1 else f"{name} ({n})" for n, name in enumerate(names, 1)]
    return [(name, c.frame(plan)) for name, plan in zip(several, found, strict=False)]


class _Records:
    """Names the n-th input in the order of the histogram; asks Spark only for those that are shown."""

    def __init__(self, instance: _Instance) -> None:
        here = (F.col("source") == instance.source) & (F.col("file") == instance.file)
        self._counts = instance.point.counts.where(here)
        self._values = instance.values
        self._known: dict[int, Sequence[str]] = {}

    def __call__(self, n: int) -> str:
        import numpy as np

        outputs = int(self._values[n])
        first = int(np.searchsorted(self._values, outputs))
        if outputs not in self._known:
            rows = self._counts.where(F.col("count") == outputs).orderBy("record").limit(50).collect()
            self._known[outputs] = [row.record for row in rows]
        records = self._known[outputs]
        return records[n - first] if n - first < len(records) else f"one of {len(records)} and more"
