"""Ways through programs of RDDs: from DataFrames into RDDs and back, and over files, in one process and in several."""

from __future__ import annotations

import subprocess
import sys
from operator import add
from pathlib import Path
from typing import Any

import pytest

import whence
from whence.model.flow import RecordId
from whence.rdd import RddFlow
from whence.rdd.opening import open_flow

TEXT = "a 1\nb 2\na 3\nc 4\nb -9\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def pairs(lc: Any, path: Path) -> Any:
    return lc.textFile(str(path), 2).map(str.split).map(lambda kv: (kv[0], int(kv[1])))


def ends(trace: Any) -> dict[str, list[RecordId]]:
    return {site.key: sorted(records.ids()) for _, site, records in trace._ends.values()}


def of_bytes(path: Path, *starts: int) -> dict[str, list[RecordId]]:
    return {f"files by byte: {path}": [(str(path), start) for start in starts]}


def test_from_a_dataframe_into_the_rdd_it_was_made_from(w: whence.Session, text: Path) -> None:
    df = pairs(w.context, text).toDF(["k", "v"])
    report = df.groupBy("k").sum("v").toDF("k", "total")
    t = w.backward(report.where("total < 0"))
    assert ends(t) == of_bytes(text, 4, 16)
    assert (t.exact, t.notes) == (True, ())
    assert sorted(r.value for r in t["text.txt"].collect()) == ["b -9", "b 2"]
    assert "textFile" in str(t)
    assert "Aggregate" in str(t)
    assert t.verify().ok
    touched = w.forward(w.context.textFile(str(text), 2).filter(lambda x: x == "a 3"), to=report)
    assert [tuple(r) for r in touched.rows.collect()] == [("a", 4)]


def test_from_a_dataframe_whose_rdd_was_shuffled(w: whence.Session, text: Path) -> None:
    sums = pairs(w.context, text).reduceByKey(add, 2)
    df = w.spark.createDataFrame(sums, "k string, v bigint")
    for _ in range(2):  # each time the tables that count are the same
        t = w.backward(df.where("k = 'b'"))
        assert ends(t) == of_bytes(text, 4, 16)
        assert t.notes == ()
    touched = w.forward(w.context.textFile(str(text), 2).filter(lambda x: x == "c 4"), to=df.selectExpr("k", "v + 1"))
    assert [tuple(r) for r in touched.rows.collect()] == [("c", 5)]


@pytest.mark.parametrize("shuffled", [False, True])
def test_from_an_rdd_into_the_dataframe_behind_it(w: whence.Session, text: Path, shuffled: bool) -> None:
    df = w.spark.read.text(str(text)).selectExpr("split(value, ' ')[0] AS k", "int(split(value, ' ')[1]) AS v")
    df = df.groupBy("k").sum("v").toDF("k", "v") if shuffled else df
    lc = w.context
    doubled = lc.of(df).map(lambda r: (r.k, 2 * r.v)).reduceByKey(add, 2)
    assert dict(doubled.collect()) == {"a": 8, "b": -14, "c": 8}
    t = w.backward(doubled.filter(lambda kv: kv[0] == "b"))
    assert ends(t) == of_bytes(text, 4, 16)
    assert t.notes == ()
    again = doubled.filter(lambda kv: kv[0] == "b").getLineage().trace()
    assert ends(again) == ends(t)
    touched = w.forward(w.spark.read.text(str(text)).where("value = 'a 3'"), to=doubled)
    assert [record for (record,) in touched._leg.asked.values()] == [("a", 8)]


def test_sql_to_rdd_to_sql_and_back(w: whence.Session, text: Path) -> None:
    lines = w.spark.read.text(str(text)).where("value NOT LIKE 'c%'")
    made = w.context.of(lines).map(lambda r: tuple(r.value.split())).toDF(["k", "v"])
    report = made.groupBy("k").agg({"v": "max"})
    t = w.backward(report.where("k = 'a'"))
    assert ends(t) == of_bytes(text, 0, 8)
    assert t.notes == ()
    assert t.verify().ok
    touched = w.forward(w.spark.read.text(str(text)).where("value = 'b 2'"), to=report)
    assert [r[0] for r in touched.rows.collect()] == ["b"]


def test_equal_rows_are_told(w: whence.Session) -> None:
    df = w.spark.createDataFrame([("x", 1), ("x", 1), ("y", 2)], "k string, v int")
    kept = w.context.of(df).zipWithIndex().filter(lambda rn: rn[1] == 0)
    t = w.backward(kept)
    assert any("equal" in note for note in t.widened)


def test_plain_rdds_of_dataframes_end_with_a_sentence(w: whence.Session, text: Path) -> None:
    df = w.spark.read.text(str(text))
    lc = w.context
    mixed = lc.parallelize(["z 1"], 1).union(df.rdd.map(lambda r: r.value))
    t = w.backward(mixed.filter(lambda x: x == "a 1"))
    assert any("lc.of(df)" in note for note in t.ended)
    whole = lc.parallelize([("z 1",)], 1).union(df.rdd).filter(lambda r: r[0] == "a 1")
    assert ends(w.backward(whole)) == of_bytes(text, 0)


def test_files_an_rdd_saved_are_gone_on_through(w: whence.Session, text: Path, tmp_path: Path) -> None:
    lc = w.context
    lines = pairs(lc, text).reduceByKey(add, 2).map(lambda kv: f"{kv[0]},{kv[1]}")
    lines.saveAsTextFile(str(tmp_path / "sums"))
    df = w.spark.read.schema("k string, v int").csv(str(tmp_path / "sums"))
    t = w.backward(df.where("v < 0"))
    assert ends(t) == of_bytes(text, 4, 16)
    assert t.notes == ()
    read = lc.textFile(str(tmp_path / "sums")).filter(lambda x: x.startswith("a"))
    assert ends(w.backward(read)) == of_bytes(text, 0, 8)
    lines.saveAsPickleFile(str(tmp_path / "pickled"))
    read = lc.pickleFile(str(tmp_path / "pickled"), 1).filter(lambda x: x.startswith("c"))
    assert ends(w.backward(read)) == of_bytes(text, 12)
    touched = w.forward(w.spark.read.text(str(text)).where("value = 'c 4'"), to=df)
    assert [tuple(r) for r in touched.rows.collect()] == [("c", 4)]


OTHER = """
import sys
from operator import add
from pyspark.sql import SparkSession
import whence
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
with whence.attach(spark, store=sys.argv[1]) as w:
    lines = w.context.textFile(sys.argv[2], 2).map(str.split).map(lambda kv: (kv[0], int(kv[1])))
    lines.reduceByKey(add, 2).map(lambda kv: f"{kv[0]},{kv[1]}").saveAsTextFile(sys.argv[3])
"""


def test_what_another_process_saved_is_gone_on_through(w: whence.Session, text: Path, tmp_path: Path) -> None:
    saved = tmp_path / "sums"
    done = subprocess.run(
        [sys.executable, "-c", OTHER, str(tmp_path / "store"), str(text), str(saved)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    df = w.spark.read.schema("k string, v int").csv(str(saved))
    t = w.backward(df.where("k = 'b'"))
    assert ends(t) == of_bytes(text, 4, 16)
    assert t.notes == ()
    assert not t.verify().ok  # the other process's program is not here, and that is said
    assert ends(w.backward(w.context.textFile(str(saved)).filter(lambda x: x.startswith("c")))) == of_bytes(text, 12)
    part = str(next(p for p in saved.glob("part-*") if p.stat().st_size))
    (product,) = w._store.producers.of([part]).values()
    assert isinstance(open_flow(product, w.context), RddFlow)
    touched = w.forward(w.spark.read.text(str(text)).where("value = 'a 3'"), to=df)
    assert [tuple(r) for r in touched.rows.collect()] == [("a", 4)]
    text.write_text(TEXT.replace("a 3", "a 5"))
    with pytest.raises(whence.WhenceError, match="changed"):
        ends(w.backward(df.where("k = 'a'")))
