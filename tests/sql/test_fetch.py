"""The first witness rows, read by position, are those that Spark's own scan gives."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

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
    return fetch.rows_at(w._plans(), place, records.question.first_ids([place], count))


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


def leaves(frame: DataFrame) -> set[str]:
    """What the optimised query reads."""
    found: set[str] = set()

    def visit(node: Any) -> None:
        if node.children().isEmpty():
            found.add(node.nodeName().split(" ")[0])
        for i in range(node.children().size()):
            visit(node.children().apply(i))

    visit(frame._jdf.queryExecution().optimizedPlan())
    return found


def test_columns_that_are_read_as_other_types_are_left_to_spark(w: whence.Session, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    pq.write_table(pa.table({"id": pa.array([1, 2, 3], pa.int32())}), f"{path}.parquet")
    wide = w.spark.read.schema("id double").parquet(f"{path}.parquet")
    trace = w.backward(wide.where("id > 1.5"))
    (name,) = trace.sources
    assert by_position(w, trace, name, 5) is None
    assert "2.0" in str(trace)


def test_files_of_which_one_allows_null(w: whence.Session, tmp_path: Path) -> None:
    folder = tmp_path / "goods"
    folder.mkdir()
    for name, null in [("a", False), ("b", True)]:
        schema = pa.schema([pa.field("id", pa.int64(), nullable=null), pa.field("day", pa.int32(), nullable=null)])
        pq.write_table(
            pa.table({"id": [1, 2], "day": [1, None if null else 2]}, schema=schema), folder / f"{name}.parquet"
        )
    trace = w.backward(w.spark.read.parquet(str(folder)).groupBy("id").count().where("id = 2"))
    assert sorted(trace["goods"].collect(), key=str) == [(2, 2), (2, None)]
    assert trace.verify().ok
    assert by_position(w, trace, "goods", 5) is not None


def test_a_query_runs_again_on_few_rows_without_reading_the_source(w: whence.Session, tmp_path: Path) -> None:
    write(tmp_path / "goods")
    goods = w.spark.read.parquet(str(tmp_path / "goods"))
    other = goods.selectExpr("id + 1 as next", "name as before")
    joined = goods.join(other, goods.id == other.next).where("id % 50 = 7")
    trace = w.backward(joined)
    assert trace.witness_counts["goods"] == 12
    again = trace.replay()
    assert leaves(again) == {"LocalRelation"}
    assert sorted(again.collect()) == sorted(joined.collect())
    assert trace.verify().ok


def test_rows_that_a_query_only_chooses_are_chosen_again(w: whence.Session, tmp_path: Path) -> None:
    write(tmp_path / "goods")
    goods = w.spark.read.parquet(str(tmp_path / "goods")).withColumn("tenth", F.col("id") % 10).where("half < 100")
    report = goods.where("100 / (half + 1) > 0").groupBy("tenth").agg(F.sum("price").alias("total"))
    trace = w.backward(report.where("tenth = 3"))
    rows = trace["goods"]
    assert "Join" not in rows._jdf.queryExecution().optimizedPlan().toString()
    assert sorted(row.id for row in rows.collect()) == [n for n in range(200) if n % 10 == 3]
    assert rows.columns == ["id", "name", "price", "day", "half"]
    assert trace.witness_counts["goods"] == 20
    again = w.backward(rows.where("id = 13"))  # they are rows of the source still
    assert [row.id for row in again["goods"].collect()] == [13]
    assert w.forward(rows.where("id = 13"), to=report).rows.collect() == report.where("tenth = 3").collect()


def test_a_test_that_fails_on_rows_shut_out_below_is_not_made_on_them(w: whence.Session, tmp_path: Path) -> None:
    write(tmp_path / "goods")
    goods = w.spark.read.parquet(str(tmp_path / "goods"))
    kept = goods.where("id <> 5").where("1 / (id - 5) > 0").where("id < 9")
    trace = w.backward(kept.groupBy("day").count())
    assert sorted(row.id for row in trace["goods"].collect()) == [6, 7, 8]
