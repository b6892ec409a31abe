"""A few witness rows by their position, without a scan: Parquet on a local disk, read row group by row group.

A scan with all columns takes seconds where the reader wants to see five rows, or to run a query on nine. Whatever is
out of the ordinary here (other file systems, partition columns, nested types, old calendars) is left to Spark: `None`
says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType, _parse_datatype_json_string

from whence.sql.blocks import ReadingPlace
from whence.sql.catalyst import Attr, Catalyst, Plan
from whence.sql.sources import FILE, ROW, has_row_index

_MOST_FILES = 200
_MOST_BYTES = 128 * 2**20
# Types that mean the same to Arrow and to Spark, whoever wrote them.
_SAME = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "date")
_OLD_CALENDAR = b"org.apache.spark.legacyDateTime"


def rows_at(c: Catalyst, place: ReadingPlace, ids: Sequence[tuple[int, ...]]) -> list[Row] | None:
    """The rows of a reading with these identities."""
    if not _by_position(c, place):
        return None
    table = _read(c, place, ids)
    if table is None:
        return None
    names = table.column_names
    columns = table.to_pydict().values()
    return [Row(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]


def few_rows(c: Catalyst, place: ReadingPlace, ids: DataFrame) -> Plan | None:
    """The rows of a reading with these identities, on the driver, where Spark needs no job to read them.

    None where the identities are not on the driver themselves, or where much would be read for few rows."""
    if not hasattr(ids, "toArrow"):  # Spark before 4.0 takes no tables of Arrow
        return None
    if not _by_position(c, place) or (wanted := c.local_rows(ids)) is None:
        return None
    table = _read(c, place, wanted, _MOST_BYTES)
    if table is None:
        return None
    found = c.plan_of(c.spark.createDataFrame(table))
    columns = zip(c.output(found), c.output(place.leaf.plan), strict=True)
    return c.project([c.alias_as(new, old) for new, old in columns], found)


def _type_of(attr: Attr) -> DataType:
    return _parse_datatype_json_string(attr.dataType().json())


def _by_position(c: Catalyst, place: ReadingPlace) -> bool:
    leaf = place.leaf
    by_row = place.dataset.id_columns == (FILE, ROW) and has_row_index(c, leaf)
    return by_row and _plain(c, place) and _named_as_in_files(c, leaf.plan)


def _named_as_in_files(c: Catalyst, scan: Plan) -> bool:
    """Whether a column is in the files what it is called. Delta may keep one under another name, and leave there a
    column of the same name that was dropped."""
    if c.snapshots_of(scan) is None:
        return True
    told = c.columns_told(scan)
    return all(str(a.name()) in told and told[str(a.name())][0] == str(a.name()) for a in c.output(scan))


def _read(
    c: Catalyst, place: ReadingPlace, wanted: Sequence[tuple[int, ...]], most: int | None = None
) -> pa.Table | None:
    """`wanted`: identities. `most`: bytes of the row groups that hold them."""
    paths = c.files(place.leaf.plan)
    if len(paths) > _MOST_FILES or not all(path.startswith("file:") for path in paths):
        return None
    by_hash = {c.hash64_of_text(path): unquote(urlsplit(path).path) for path in paths}
    rows: dict[str, list[int]] = defaultdict(list)
    for file, row in wanted:
        if file not in by_hash:
            return None
        rows[by_hash[file]].append(row)
    columns = c.output(place.leaf.plan)
    names = [a.name() for a in columns]
    schema = to_arrow_schema(StructType([StructField(a.name(), _type_of(a)) for a in columns]))
    parts: list[pa.Table] = []
    left = most
    for path, some in sorted(rows.items()):
        with pq.ParquetFile(path) as file:
            groups = _groups(file, names, sorted(some))
            if groups is None:
                return None
            if left is not None:
                left -= sum(file.metadata.row_group(group).total_byte_size for group in groups)
                if left < 0:
                    return None
            parts += [
                file.read_row_group(group, columns=names).take(here).select(names) for group, here in groups.items()
            ]
    if not parts or any(part.schema.types != schema.types for part in parts):  # Spark reads them as other types
        return None
    return pa.concat_tables([part.cast(schema) for part in parts])  # one file may allow NULL where another does not


def _plain(c: Catalyst, place: ReadingPlace) -> bool:
    kinds = [c.type_of(a) for a in c.output(place.leaf.plan)]
    names = {a.name() for a in c.output(place.leaf.plan)}
    return len(names) == len(kinds) and all(kind in _SAME or kind.startswith("decimal(") for kind in kinds)


def _groups(file: pq.ParquetFile, names: Sequence[str], rows: Sequence[int]) -> dict[int, list[int]] | None:
    """The row groups that hold these rows, and the rows' places in each."""
    metadata = file.metadata
    if not set(names) <= set(file.schema_arrow.names) or _OLD_CALENDAR in (metadata.metadata or {}):
        return None
    ends = np.cumsum([metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)])
    found: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        group = int(np.searchsorted(ends, row, side="right"))
        found[group].append(row - (int(ends[group - 1]) if group else 0))
    return found
