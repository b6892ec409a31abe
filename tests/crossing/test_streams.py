"""Through streams: from what a stream wrote to the rows of its own input files, batch by batch, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import whence

pytestmark = pytest.mark.usefixtures("interpreted")

SCHEMA = "id int, name string"


@pytest.fixture
def arriving(tmp_path: Path) -> Path:
    path = tmp_path / "arriving"
    path.mkdir()
    (path / "1.json").write_text('{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n')
    (path / "2.json").write_text('{"id": 3, "name": "a"}\n')
    return path


def stream(w: whence.Session, path: Path) -> DataFrame:
    return w.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(path)).where("id > 0")


def run(writer: Any, tmp_path: Path, *where: str) -> None:
    query = writer.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True).start(*where)
    assert query.awaitTermination(300)


def ids(rows: DataFrame) -> list[int]:
    return sorted(row.id for row in rows.collect())


def test_foreach_batch_goes_back_to_the_streams_files(w: whence.Session, arriving: Path, tmp_path: Path) -> None:
    def save(batch: DataFrame, number: int) -> None:
        batch.groupBy("name").agg(F.sum("id").alias("total")).write.mode("append").parquet(str(tmp_path / "sums"))

    with w.capture():
        run(stream(w, arriving).withColumn("name", F.upper("name")).writeStream.foreachBatch(save), tmp_path)
    (arriving / "3.json").write_text('{"id": 9, "name": "a"}\n')  # what arrives later changes nothing of the past
    sums = w.spark.read.parquet(str(tmp_path / "sums"))
    assert sorted(map(tuple, sums.collect())) == [("A", 1), ("A", 3), ("B", 2)]
    trace = w.backward(sums.where("name = 'A' and total = 3"))
    assert list(trace.sources) == ["arriving"]
    assert ids(trace["arriving"]) == [3]
    assert (trace.exact, trace.notes) == (True, ())
    assert trace.verify().ok
    seeds = w.spark.read.schema(SCHEMA).json(str(arriving)).where("id = 2")
    assert [tuple(row) for row in w.forward(seeds, to=sums).rows.collect()] == [("B", 2)]
    assert not list((tmp_path / "store").rglob("stream-*")), "nothing is copied"


@pytest.fixture
def written(w: whence.Session, arriving: Path, tmp_path: Path) -> DataFrame:
    with w.capture():
        run(stream(w, arriving).selectExpr("id * 10 AS tens", "name").writeStream.partitionBy("name").format("parquet"),
            tmp_path, str(tmp_path / "out"))  # fmt: skip
    return w.spark.read.parquet(str(tmp_path / "out"))


def test_a_file_sink_goes_back_to_the_streams_files(
    w: whence.Session, written: DataFrame, arriving: Path, tmp_path: Path
) -> None:
    trace = w.backward(written.where("tens >= 20"))
    assert list(trace.sources) == ["arriving"]
    assert ids(trace["arriving"]) == [2, 3]
    assert (trace.exact, trace.notes) == (True, ())
    assert trace.verify().ok
    seeds = w.spark.read.schema(SCHEMA).json(str(arriving)).where("id = 3")
    assert [tuple(row) for row in w.forward(seeds, to=written).rows.collect()] == [(30, "a")]
    with whence.attach(w.spark, store=tmp_path / "store") as other:  # knows no more than the store does
        assert ids(other.backward(written.where("name = 'b'"))["arriving"]) == [2]
    (arriving / "2.json").write_text('{"id": 4, "name": "a"}\n')
    ended = w.backward(w.spark.read.parquet(str(tmp_path / "out")))
    assert list(ended.sources) == ["out"]
    assert "2.json that the stream read was changed or removed since" in ended.ended[0]


def test_streams_that_keep_state_say_so(w: whence.Session, arriving: Path, tmp_path: Path) -> None:
    def save(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(tmp_path / "counts"))

    counts = stream(w, arriving).groupBy("name").count()
    with w.capture():
        run(counts.writeStream.outputMode("complete").foreachBatch(save), tmp_path)
    trace = w.backward(w.spark.read.parquet(str(tmp_path / "counts")).where("name = 'a'"))
    assert list(trace.sources) == ["batch-1"]
    assert trace.ended == ("the trace ends at batch-1: the stream keeps state over its batches (Aggregate)",)
    assert "keeps state" in str(trace)


def test_duplicates_within_a_watermark(w: whence.Session, arriving: Path, tmp_path: Path) -> None:
    """Which row is the first of its kind depends on batches that are gone."""
    first = stream(w, arriving).withColumn("at", F.timestamp_seconds(F.col("id") * 60)).withWatermark("at", "1 hour")
    with w.capture():
        run(
            first.dropDuplicatesWithinWatermark(["name"]).writeStream.format("parquet"), tmp_path, str(tmp_path / "out")
        )
    trace = w.backward(w.spark.read.parquet(str(tmp_path / "out")))
    assert (list(trace.sources), ids(trace["out"])) == (["out"], [1, 2])
    state = "the stream keeps state over its batches (DeduplicateWithinWatermark)"
    assert trace.ended == (f"the trace ends at out: {state}",)
    batch = w.spark.read.schema(SCHEMA).json(str(arriving)).dropDuplicatesWithinWatermark(["name"])
    with pytest.raises(AnalysisException, match="not supported with batch"):
        batch.collect()
    with pytest.raises(whence.UnsupportedOperator, match="DeduplicateWithinWatermark"):
        w.backward(batch)
