"""From queries into programs of RDDs and back; test_elsewhere.py does so in several processes."""

from __future__ import annotations

from operator import add
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence
from whence.debug.trace import Trace

pytestmark = pytest.mark.usefixtures("interpreted")

LINES = ["a 1", "b 2", "a 3", "c 4", "b -9"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


def lines_of(trace: Trace, source: str = "in.txt") -> list[str]:
    return sorted(row.value for row in trace[source].collect())


def totals(w: whence.Session, text: Path) -> object:
    return w.context.textFile(str(text), 2).map(lambda line: (line.split()[0], int(line.split()[1])))


def test_a_dataframe_made_from_an_rdd(w: whence.Session, text: Path) -> None:
    frame = totals(w, text).toDF(["k", "v"])  # type: ignore[attr-defined]
    report = frame.groupBy("k").sum("v").toDF("k", "total")
    trace = w.backward(report.where("total < 0"))
    assert list(trace.sources) == ["in.txt"]
    assert lines_of(trace) == ["b -9", "b 2"]
    assert trace.notes == ()
    assert trace.verify().ok
    assert "textFile" in " ".join(step.text for step in trace.steps)
    assert "b -9" in str(trace)
    assert "exact: these rows and no others" in str(trace)

    lines = w.spark.read.text(str(text))
    touched = w.forward(lines.where("value = 'c 4'"), to=report)
    assert [tuple(row) for row in touched.rows.collect()] == [("c", 4)]
    assert sorted(tuple(row) for row in trace.exclude().collect()) == []
    everything = w.backward(report.where("k = 'a'"))
    assert sorted(tuple(row) for row in everything.exclude().collect()) == []


def test_a_dataframe_made_from_an_rdd_after_a_shuffle(w: whence.Session, text: Path) -> None:
    frame = totals(w, text).reduceByKey(add).toDF(["k", "total"])  # type: ignore[attr-defined]
    trace = w.backward(frame.where("total < 0"))
    assert lines_of(trace) == ["b -9", "b 2"]
    assert trace.notes == ()
    touched = w.forward(w.spark.read.text(str(text)).where("value like 'a%'"), to=frame)
    assert [tuple(row) for row in touched.rows.collect()] == [("a", 4)]


def test_an_rdd_made_from_a_dataframe(w: whence.Session, tmp_path: Path) -> None:
    w.spark.createDataFrame([(i, i % 3) for i in range(9)], "id int, k int").write.parquet(str(tmp_path / "numbers"))
    frame = w.spark.read.parquet(str(tmp_path / "numbers")).where("id > 0").selectExpr("k", "id * 10 AS v")
    sums = w.context.of(frame).map(lambda row: (row.k, row.v)).reduceByKey(add)
    trace = w.backward(sums.filter(lambda pair: pair[0] == 2))
    assert list(trace.sources) == ["numbers"]
    assert sorted(row.id for row in trace["numbers"].collect()) == [2, 5, 8]
    assert trace.notes == ()
    again = sums.toDF(["k", "total"])
    there = w.backward(again.where("k = 1"))
    assert sorted(row.id for row in there["numbers"].collect()) == [1, 4, 7]
    ids = w.spark.read.parquet(str(tmp_path / "numbers")).where("id = 5")
    assert [tuple(row) for row in w.forward(ids, to=again).rows.collect()] == [(2, 150)]


def test_files_that_an_rdd_saved(w: whence.Session, text: Path, tmp_path: Path) -> None:
    saved = str(tmp_path / "saved")
    totals(w, text).reduceByKey(add).map(lambda pair: f"{pair[0]},{pair[1]}").saveAsTextFile(saved)  # type: ignore[attr-defined]
    report = w.spark.read.schema("k string, total int").csv(saved)
    trace = w.backward(report.where("total < 0"))
    assert lines_of(trace) == ["b -9", "b 2"]
    assert trace.notes == ()
    assert [tuple(row) for row in w.backward(report.where("k = 'a'"), through=False)["saved"].collect()] == [("a", 4)]
    touched = w.forward(w.spark.read.text(str(text)).where("value = 'b 2'"), to=report)
    assert [tuple(row) for row in touched.rows.collect()] == [("b", -7)]
    dropped = w.why_not(w.spark.read.text(str(text)).where("value = 'b 2'"), to=report.where("total > 0"))
    assert [one.operator for one in dropped] == ["Filter"]
    pairs = trace.associations().collect()
    assert {row.source for row in pairs} == {"in.txt"}
    assert len(pairs) == 2


def test_lines_that_a_query_wrote(w: whence.Session, tmp_path: Path) -> None:
    w.spark.createDataFrame([(i, i % 3) for i in range(9)], "id int, k int").write.parquet(str(tmp_path / "numbers"))
    numbers = w.spark.read.parquet(str(tmp_path / "numbers"))
    written = str(tmp_path / "sums")
    with w.capture():
        numbers.groupBy("k").sum("id").write.option("header", True).csv(written)
    lines = w.context.textFile(written).filter(lambda line: line.startswith("2,"))
    trace = w.backward(lines)
    assert sorted(row.id for row in trace["numbers"].collect()) == [2, 5, 8]
    assert trace.notes == ()
    touched = w.forward(numbers.where("id = 4"), to=lines.union(w.context.textFile(written)))
    assert {row.value for row in touched.rows.collect()} == {"1,12"}


def test_files_whose_names_a_url_would_escape(w: whence.Session, tmp_path: Path) -> None:
    """In a path of Hadoop's %20 and # stand for themselves, in the names of a query's files they are escaped."""
    lc, spark = w.context, w.spark
    for name in ("a%20b", "a b", "a#b"):
        path = tmp_path / name
        path.write_text(f"x {name}\ny {name}\n")
        words = lc.textFile(str(path), 1).map(lambda line: (line[0], line)).reduceByKey(lambda one, _: one, 1)
        words.saveAsTextFile(str(tmp_path / f"saved {name}"))
        trace = w.backward(words.filter(lambda word: word[0] == "y"))
        (found,) = trace.sources.values()
        assert [row[0] for row in found.collect()] == [f"y {name}"]
        lines = spark.read.text(str(path))
        touched = w.forward(lines.where("value like 'x %'"), to=words).rows.collect()
        assert [row[0][0] for row in touched] == ["x"]
        saved = w.backward(spark.read.text(str(tmp_path / f"saved {name}")).where("value like '%y%'"))
        assert list(saved.witness_counts.values()) == [1]
        assert saved.notes == ()


def test_a_source_that_cannot_be_read_is_in_nobody_elses_way(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "there.txt").write_text("a\nb\n")
    with whence.attach(spark, store=tmp_path / "store") as w:
        gone = w.context.textFile(str(tmp_path / "gone.txt"), 1).map(lambda line: line)
        with pytest.raises(Exception, match="Input path does not exist"):
            gone.collect()
        lines = w.context.textFile(str(tmp_path / "there.txt"), 1).map(str.upper)
        assert lines.collect() == ["A", "B"]
        trace = w.backward(lines.filter(lambda line: line == "B"))
        assert [row[0] for row in trace["there.txt"].collect()] == ["b"]
        assert trace.verify().ok


def test_a_trace_that_ends_at_what_an_earlier_program_had_is_printed(spark: SparkSession, tmp_path: Path) -> None:
    """How many rows there were at its steps is not known any more; how many witnesses, and which, is."""
    saved = str(tmp_path / "saved")
    with whence.attach(spark, store=tmp_path / "store") as w:
        w.context.parallelize([("a", 1), ("b", 2), ("a", 3)], 1).reduceByKey(add, 1).map(
            lambda pair: f"{pair[0]},{pair[1]}"
        ).saveAsTextFile(saved)
    with whence.attach(spark, store=tmp_path / "store") as later:
        trace = later.backward(later.spark.read.text(saved).where("value = 'a,4'"))
        assert list(trace.witness_counts.values()) == [2]
        assert "2 witnesses" in str(trace)
        assert "2 witnesses" in trace._repr_html_()
