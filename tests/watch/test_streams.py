"""Streaming: one run for each query, whose sources and sinks gather over its batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import short

import whence


def lines(path: Path, name: str, *values: str) -> None:
    path.mkdir(exist_ok=True)
    (path / name).write_text("\n".join(values) + "\n")


def stream(spark, path: Path):
    return spark.readStream.schema("id INT, name STRING").json(str(path))


def finish(query) -> None:
    query.awaitTermination(120)


def test_file_to_file(spark, tmp_path: Path) -> None:
    lines(tmp_path / "in", "1.json", '{"id": 1, "name": "a"}')
    lines(tmp_path / "in", "2.json", '{"id": 2, "name": "b"}')
    with whence.attach(spark, store=tmp_path / "store") as w:
        writer = (
            stream(spark, tmp_path / "in").selectExpr("id + 1 AS next").writeStream.format("parquet").queryName("files")
            .option("checkpointLocation", str(tmp_path / "check")).option("maxFilesPerTrigger", 1)
        )  # fmt: skip
        finish(writer.trigger(availableNow=True).start(str(tmp_path / "out")))
        (run,) = w.catalog.runs(kind="stream")
        assert (run.status, run.name, run.details["rows"]) == ("completed", "files", 2)
        edges = w.catalog.edges()
        assert {(short(e.source.name), short(e.target.name), e.kind) for e in edges} == {("in", "out", "stream")}
        assert len(edges) == 1, "a batch like the last adds nothing"
        columns = {(e.source_column, e.target_column, e.subtype) for e in w.catalog.edges("column")}
        assert columns == {("id", "next", "TRANSFORMATION")}


def test_foreach_batch_is_tied_to_the_streams_sources(spark, tmp_path: Path) -> None:
    lines(tmp_path / "in", "1.json", '{"id": 1, "name": "a"}')

    def save(batch, number: int) -> None:
        batch.selectExpr("upper(name) AS name").write.mode("append").parquet(str(tmp_path / "one"))
        batch.write.mode("append").json(str(tmp_path / "two"))

    with whence.attach(spark, store=tmp_path / "store") as w:
        writer = stream(spark, tmp_path / "in").where("id > 0").writeStream.foreachBatch(save)
        finish(writer.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True).start())
        assert {(short(e.source.name), short(e.target.name)) for e in w.catalog.edges()} == {
            ("in", "one"),
            ("in", "two"),
        }
        columns = {
            (e.source_column, e.target_column, e.subtype)
            for e in w.catalog.edges("column")
            if short(e.target.name) == "one"
        }
        assert columns == {("name", "name", "TRANSFORMATION"), ("id", "name", "FILTER")}
        assert [r.kind for r in w.catalog.runs()] == ["stream"]


def test_a_stream_that_fails_says_so(spark, tmp_path: Path) -> None:
    lines(tmp_path / "in", "1.json", '{"id": 1, "name": "a"}')

    def broken(batch, number: int) -> None:
        raise RuntimeError("the sink is on fire")

    with whence.attach(spark, store=tmp_path / "store") as w:
        writer = stream(spark, tmp_path / "in").writeStream.foreachBatch(broken)
        query = writer.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True).start()
        with pytest.raises(Exception, match="on fire"):
            finish(query)
        (run,) = w.catalog.runs(kind="stream")
        assert run.status == "failed"
        assert "on fire" in run.error
