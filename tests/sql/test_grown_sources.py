"""Files that came to a source after a captured query had read it: the trace goes on to those that it read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import whence

SCHEMA = "rid bigint, day int, shop int, amount bigint"


def rows(first: int, count: int) -> list[tuple[int, int, int, int]]:
    return [(i, i % 3, i % 4, i * 10) for i in range(first, first + count)]


def rids(df: DataFrame) -> list[int]:
    return sorted(row.rid for row in df.select("rid").collect())


@pytest.fixture
def w(tiny: SparkSession, tmp_path: Path) -> Iterator[whence.Session]:
    with whence.attach(tiny, store=tmp_path / "store") as session:
        yield session


class Landing:
    """A directory that gains files, written and read in some format."""

    def __init__(self, spark: SparkSession, place: Path, kind: str, *partitions: str) -> None:
        self.spark, self.place, self.kind, self.partitions = spark, str(place), kind, partitions
        self.there: list[tuple[int, int, int, int]] = []

    def gain(self, count: int) -> None:
        new = rows(len(self.there), count)
        self.there += new
        writer = self.spark.createDataFrame(new, SCHEMA).coalesce(1).write.format(self.kind)
        writer.mode("append").partitionBy(*self.partitions).save(self.place)

    def read(self) -> DataFrame:
        return self.spark.read.format(self.kind).schema(SCHEMA).load(self.place)


LANDINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "parquet": ("parquet", ()),
    "csv": ("csv", ()),
    "partitioned": ("parquet", ("day",)),
    "partitioned twice": ("json", ("day", "shop")),
}


@pytest.mark.parametrize("name", LANDINGS)
def test_the_rows_that_were_read_then(w: whence.Session, tiny: SparkSession, tmp_path: Path, name: str) -> None:
    kind, partitions = LANDINGS[name]
    landing = Landing(tiny, tmp_path / "orders", kind, *partitions)
    landing.gain(8)
    totals = str(tmp_path / "totals")
    with w.capture():
        landing.read().groupBy("shop").sum("amount").toDF("shop", "total").write.parquet(totals)
    first = list(landing.there)
    landing.gain(8)
    with whence.attach(tiny, store=tmp_path / "store") as later:
        asked = tiny.read.parquet(totals).where("shop = 1")
        trace = later.backward(asked)
        assert rids(trace["orders"]) == [rid for rid, _, shop, _ in first if shop == 1]
        assert (trace.exact, trace.notes) == (True, ())
        assert trace.verify().ok
        assert trace.exclude().count() == 0
        # In one query with the directory as it is now: two readings, each of its own state.
        now = landing.read().where("shop = 1").groupBy("shop").sum("amount").toDF("shop", "now")
        both = later.backward(asked.join(now, "shop"))
        then, all_of_it = sorted((rids(reading.rows) for reading in both.readings), key=len)
        assert then == rids(trace["orders"])
        assert all_of_it == [rid for rid, _, shop, _ in landing.there if shop == 1]
        assert rids(both["orders"]) == all_of_it
        assert both.verify().ok
        # Forward from a row of then, and from one that came later.
        touched = later.forward(landing.read().where("rid = 5"), to=asked)
        assert [tuple(row) for row in touched.rows.collect()] == [tuple(row) for row in asked.collect()]
        assert later.forward(landing.read().where("rid = 9"), to=asked).rows.count() == 0


def test_each_day_reads_what_has_come_by_then(w: whence.Session, tiny: SparkSession, tmp_path: Path) -> None:
    landing, report = Landing(tiny, tmp_path / "orders", "parquet"), str(tmp_path / "report")
    seen: dict[int, list[int]] = {}
    for day in range(3):
        landing.gain(4)
        seen[day] = [rid for rid, *_ in landing.there]
        with w.capture():
            of_day = landing.read().selectExpr(f"{day} as run", "amount").groupBy("run").sum("amount")
            of_day.toDF("run", "total").write.mode("append").parquet(report)
    with whence.attach(tiny, store=tmp_path / "store") as later:
        for day, expected in seen.items():
            trace = later.backward(tiny.read.parquet(report).where(f"run = {day}"))
            assert rids(trace["orders"]) == expected
            assert trace.notes == ()
            assert trace.verify().ok
        every = later.backward(tiny.read.parquet(report))
        assert rids(every["orders"]) == seen[2]
        assert sorted(rids(reading.rows) for reading in every.readings) == sorted(seen.values())


@pytest.mark.parametrize("partitions", [(), ("day",)])
def test_a_table_of_the_catalogue(
    w: whence.Session, tiny: SparkSession, tmp_path: Path, partitions: tuple[str, ...]
) -> None:
    def gain(first: int) -> None:
        new = tiny.createDataFrame(rows(first, 6), SCHEMA).coalesce(1)
        new.write.mode("append").partitionBy(*partitions).saveAsTable("whence_landing")

    few = str(tmp_path / "few")
    try:
        gain(0)
        with w.capture():
            tiny.table("whence_landing").where("shop = 2").write.parquet(few)
        gain(6)
        with whence.attach(tiny, store=tmp_path / "store") as later:
            trace = later.backward(tiny.read.parquet(few))
            assert {name: rids(found) for name, found in trace.sources.items()} == {"whence_landing": [2]}
            assert trace.notes == ()
            assert trace.verify().ok
    finally:
        tiny.sql("drop table if exists whence_landing")


@pytest.mark.parametrize("change", ["gone", "rewritten"])
def test_a_file_that_is_not_as_it_was_ends_the_trace(
    w: whence.Session, tiny: SparkSession, tmp_path: Path, change: str
) -> None:
    landing, few = Landing(tiny, tmp_path / "orders", "parquet"), str(tmp_path / "few")
    landing.gain(4)
    landing.gain(4)
    with w.capture():
        landing.read().where("shop = 2").write.parquet(few)
    one, other = (tmp_path / "orders").glob("*.parquet")
    landing.gain(4)
    if change == "gone":
        one.unlink()
    else:
        one.write_bytes(other.read_bytes())
    with whence.attach(tiny, store=tmp_path / "store") as later:
        trace = later.backward(tiny.read.parquet(few))
        assert list(trace.sources) == ["few"]
        (note,) = trace.ended
        assert "was changed since" in note
