"""Ways through programs of RDDs: from DataFrames into RDDs and back, and over files, in one process and in several."""

from __future__ import annotations

from datetime import date
from operator import add
from pathlib import Path
from typing import Any

import pytest

import whence
from whence.model.flow import RecordId

pytestmark = pytest.mark.usefixtures("interpreted")

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


def test_from_a_dataframe_whose_rdd_was_shuffled(w: whence.Session, text: Path) -> None:
    sums = pairs(w.context, text).reduceByKey(add, 2)
    dated = sums.map(lambda kv: (kv[0], date(2020, 1, 10 + kv[1]), [kv[1]]))  # Spark holds a date as a number
    df = w.spark.createDataFrame(dated, "k string, d date, v array<int>")
    for _ in range(2):  # each time the tables that count are the same
        t = w.backward(df.where("k = 'b'"))
        assert ends(t) == of_bytes(text, 4, 16)
        assert t.notes == ()
    assert t.verify().ok
    touched = w.forward(w.context.textFile(str(text), 2).filter(lambda x: x == "c 4"), to=df.select("k", "d"))
    assert [tuple(r) for r in touched.rows.collect()] == [("c", date(2020, 1, 14))]
    assert touched.notes == ()


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
    assert t.exact is False
    assert "equal" in t.widened[0]
    ones = w.spark.createDataFrame(w.context.parallelize([1, 1, 2], 3).repartition(2).map(lambda n: (n,)), "n int")
    seed = w.context.parallelize([7], 1)
    with pytest.raises(whence.WhenceError, match="reads none of their sources"):
        w.forward(seed, to=ones)


def test_plain_rdds_of_dataframes_end_with_a_sentence(w: whence.Session, text: Path) -> None:
    df = w.spark.read.text(str(text))
    lc = w.context
    mixed = lc.parallelize(["z 1"], 1).union(df.rdd.map(lambda r: r.value))
    t = w.backward(mixed.filter(lambda x: x == "a 1"))
    assert any("lc.of(df)" in note for note in t.ended)
    whole = lc.parallelize([("z 1",)], 1).union(df.rdd).filter(lambda r: r[0] == "a 1")
    assert ends(w.backward(whole)) == of_bytes(text, 0)


def test_rdds_go_on_through_files_that_rdds_saved(w: whence.Session, text: Path, tmp_path: Path) -> None:
    lc = w.context
    lines = pairs(lc, text).reduceByKey(add, 2).map(lambda kv: f"{kv[0]},{kv[1]}")
    lines.saveAsTextFile(str(tmp_path / "sums"))
    read = lc.textFile(str(tmp_path / "sums")).filter(lambda x: x.startswith("a"))
    assert ends(w.backward(read)) == of_bytes(text, 0, 8)
    lines.saveAsPickleFile(str(tmp_path / "pickled"))
    read = lc.pickleFile(str(tmp_path / "pickled"), 1).filter(lambda x: x.startswith("c"))
    assert ends(w.backward(read)) == of_bytes(text, 12)
