"""Samples for mining from the lineage of a query: how many result rows each source row led to.

An operator is the way from one source to the result, its instances are the source's files: a join that fans out too
far, or a file with odd rows, stands out. Rows stay in Spark; the driver gets histograms, and the few that are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from whence.debug.attached import Attached
from whence.debug.mining import Mined, Sample, mine_samples

_ALL = "all rows"


def mine_frame(session: Attached, df: DataFrame, bad: DataFrame | None, good: Any) -> Mined:
    """With bad rows, only files that they came from are considered; with good ones too, only their rows count."""
    return mine_samples(_samples(session, df, bad, good))


def _associations(session: Attached, df: DataFrame) -> DataFrame:
    file = F.regexp_extract("record", r"^(.+)#\d+$", 1)
    return session.backward(df).associations().withColumn("file", F.when(file == "", _ALL).otherwise(file))


def _samples(session: Attached, df: DataFrame, bad: DataFrame | None, good: Any) -> Iterator[Sample]:
    import numpy as np

    pairs = _associations(session, df)
    considered: set[tuple[str, str]] | None = None
    if bad is not None:
        traced = _associations(session, bad)
        considered = {(row.source, row.file) for row in traced.select("source", "file").distinct().collect()}
        if isinstance(good, DataFrame):
            lineage = traced.union(_associations(session, good)).select("source", "record").distinct()
            pairs = pairs.join(lineage, ["source", "record"], "leftsemi")
    counts = pairs.groupBy("source", "file", "record").count().localCheckpoint()
    histogram = counts.groupBy("source", "file", F.col("count").alias("outputs")).count()
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for row in histogram.collect():
        found.setdefault((row.source, row.file), []).append((row.outputs, row["count"]))
    for (source, file), bins in sorted(found.items()):
        bins.sort()
        values = np.repeat([outputs for outputs, _ in bins], [number for _, number in bins])
        yield Sample(source, file, values, _Records(counts, source, file, values), considered is None or (
            source, file) in considered)  # fmt: skip


class _Records:
    """Names the n-th input in the order of the histogram; asks Spark only for those that are shown."""

    def __init__(self, counts: DataFrame, source: str, file: str, values: Any) -> None:
        self._counts = counts.where((F.col("source") == source) & (F.col("file") == file))
        self._values = values
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
