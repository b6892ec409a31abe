"""A few witness rows by their position, without a scan: Parquet on a local disk, read row group by row group.

A scan with all columns takes seconds where the reader wants to see five rows. Whatever is out of the ordinary here
(other file systems, partition columns, nested types, old calendars) is left to Spark: `None` says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row

from whence.sql.blocks import ReadingPlace
from whence.sql.catalyst import Catalyst
from whence.sql.sources import FILE, ROW, has_row_index

_MOST_FILES = 200
# Types that mean the same to Arrow and to Spark, whoever wrote them.
_SAME = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "date")
_OLD_CALENDAR = b"org.apache.spark.legacyDateTime"


def first_rows(c: Catalyst, place: ReadingPlace, ids: DataFrame, count: int) -> list[Row] | None:
    if ids.columns[-2:] != [FILE, ROW] or not has_row_index(c, place.leaf) or not _plain(c, place):
        return None
    paths = c.files(place.leaf.plan)
    if len(paths) > _MOST_FILES or not all(path.startswith("file:") for path in paths):
        return None
    by_hash = {c.hash64_of_text(path): unquote(urlsplit(path).path) for path in paths}
    wanted: dict[str, list[int]] = defaultdict(list)
    for row in ids.limit(count).collect():
        if row[FILE] not in by_hash:
            return None
        wanted[by_hash[row[FILE]]].append(row[ROW])
    names = [a.name() for a in c.output(place.leaf.plan)]
    found: list[Row] = []
    for path, rows in sorted(wanted.items()):
        table = _rows_of_file(path, names, sorted(rows))
        if table is None:
            return None
        found += [
            Row(**dict(zip(names, values, strict=True))) for values in zip(*table.to_pydict().values(), strict=True)
        ]
    return found


def _plain(c: Catalyst, place: ReadingPlace) -> bool:
    kinds = [a.dataType().catalogString() for a in c.output(place.leaf.plan)]
    names = {a.name() for a in c.output(place.leaf.plan)}
    return len(names) == len(kinds) and all(kind in _SAME or kind.startswith("decimal(") for kind in kinds)


def _rows_of_file(path: str, names: Sequence[str], rows: Sequence[int]) -> pa.Table | None:
    with pq.ParquetFile(path) as file:
        metadata = file.metadata
        if not set(names) <= set(file.schema_arrow.names) or _OLD_CALENDAR in (metadata.metadata or {}):
            return None
        ends = np.cumsum([metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)])
        parts = []
        for group in sorted({int(np.searchsorted(ends, row, side="right")) for row in rows}):
            start = int(ends[group - 1]) if group else 0
            here = [row - start for row in rows if start <= row < int(ends[group])]
            parts.append(file.read_row_group(group, columns=list(names)).take(here))
        return pa.concat_tables(parts).select(list(names))
