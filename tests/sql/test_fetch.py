"""The first witness rows, read by position, are those that Spark's own scan gives."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row

import whence
from whence.debug.trace import Trace
from whence.sql import fetch
from whence.sql.flow import SqlRecords


def write(folder: Path) -> None:
    folder.mkdir()
    for part in range(3):
        numbers = range(part * 100, part * 100 + 100)
        table = pa.table(
            {
                "id": pa.array(numbers, pa.int64()),
                "name": [None if n % 7 == 0 else f"n{n}" for n in numbers],
                "price": pa.array([Decimal(n) / 4 for n in numbers], pa.decimal128(9, 2)),
                "day": [date(2024, 1, 1 + n % 28) for n in numbers],
                "half": [n / 2 for n in numbers],
            }
        )
        pq.write_table(table, folder / f"part {part}.parquet", row_group_size=16)


def by_position(w: whence.Session, trace: Trace, source: str, count: int) -> list[Row] | None:
    records = trace._end(source)[2]
    assert isinstance(records, SqlRecords)
    (place,) = records.places
    return fetch.first_rows(w._plans(), place, records.question.ids_of([place]), count)


def test_rows_by_position_are_the_rows_of_the_scan(w: whence.Session, tmp_path: Path) -> None:
    write(tmp_path / "goods")
    goods = w.spark.read.parquet(str(tmp_path / "goods"))
    trace = w.backward(goods.groupBy("day").count().where("day = date'2024-01-08'"))
    found = by_position(w, trace, "goods", 50)
    assert found is not None, "nothing here is out of the ordinary"
    assert sorted(found) == sorted(goods.where("day = date'2024-01-08'").collect())
    assert len(found) == trace.witness_counts["goods"] == 11
    assert found[0].asDict().keys() == {"id", "name", "price", "day", "half"}


@pytest.mark.parametrize("case", ["partitioned", "timestamps"])
def test_what_is_out_of_the_ordinary_is_left_to_spark(w: whence.Session, tmp_path: Path, case: str) -> None:
    frame = w.spark.range(20).selectExpr("id", "id % 2 as half", "timestamp'2024-01-01 00:00:00' as at")
    where = str(tmp_path / "t")
    if case == "partitioned":
        frame.drop("at").write.partitionBy("half").parquet(where)
    else:
        frame.write.parquet(where)
    read = w.spark.read.parquet(where)
    trace = w.backward(read.where("id = 7"))
    assert by_position(w, trace, "t", 5) is None
    assert trace.first_rows("t", 5) == read.where("id = 7").collect()
