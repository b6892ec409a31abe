"""What verify finds out of each flow on the way, and how; and what explain, associations and influence say there."""

from __future__ import annotations

import os
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import whence
from whence.actors import Location
from whence.arrays import Mode, Operator, Workflow, from_frame
from whence.model.verdict import AGAIN, OPEN, PROVEN, REFUTED, STORED, Verdict

pytestmark = pytest.mark.usefixtures("tiny")

LINES = ("ada,20", "bob,35", "ada,-900", "eve,15")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.csv"
    path.write_text("name,price\n" + "".join(f"{line}\n" for line in LINES))
    return path


def outcomes(verdict: Verdict) -> list[str]:
    return [proof.outcome for proof in verdict.proofs]


def save_sums(w: whence.Session, source: Path, saved: str) -> None:
    lines = w.context.textFile(str(source), 1).filter(lambda line: not line.startswith("name"))
    pairs = lines.map(lambda line: (line.split(",")[0], int(line.split(",")[1])))
    pairs.reduceByKey(add, 1).map(lambda kv: f"{kv[0]},{kv[1]}").saveAsTextFile(saved)


def test_a_run_of_before(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    saved, store = str(tmp_path / "saved"), tmp_path / "store"
    with whence.attach(spark, store=store) as w:
        save_sums(w, source, saved)
    with whence.attach(spark, store=store) as w:
        trace = w.backward(spark.read.schema("name string, total int").csv(saved).where("total < 0"))
        assert outcomes(trace.verify()) == [PROVEN, STORED]
        assert not trace.verify().ok
        assert "NOT proven as a whole; nothing speaks against the witnesses" in str(trace.verify())
        assert "3 lines at both ends were read again" in str(trace.verify())
        why = trace.explain()
        assert (why.bad_rows, why.good_rows, why.columns) == (2, 2, ("name", "price"))
    tables = [path for path in (store / "rdd").rglob("*-*") if path.is_file() and path.suffix == ""]
    assert tables
    for table in tables:
        data = bytearray(table.read_bytes())
        data[0] ^= 1
        table.write_bytes(data)
    with whence.attach(spark, store=store) as w:
        damaged = w.backward(spark.read.schema("name string, total int").csv(saved).where("total < 0"))
        with pytest.raises(whence.WhenceError, match="was changed since it was written"):
            damaged.verify()


def test_a_source_that_changed_since(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    saved, store = str(tmp_path / "saved"), tmp_path / "store"
    with whence.attach(spark, store=store) as w:
        save_sums(w, source, saved)
    source.write_text("gone\n")
    with whence.attach(spark, store=store) as w:
        trace = w.backward(spark.read.schema("name string, total int").csv(saved).where("total < 0"))
        assert outcomes(trace.verify()) == [PROVEN, OPEN]
        assert "source.csv was changed" in str(trace.verify())


def copied(w: whence.Session, source: Path, target: Path) -> None:
    copy = w.register("copy")
    target.write_text(source.read_text())
    at = 0
    for line in source.read_text().splitlines(keepends=True):
        copy.capture(Location(str(source), at, len(line)), Location(str(target), at, len(line)))
        at += len(line)
    copy.commit()


def test_operators_that_go_by_the_places_of_records(w: whence.Session) -> None:
    """On the witnesses alone a record has another number, and another is drawn; that speaks against nothing."""
    numbers = w.context.parallelize(range(20), 2)
    programs = [
        (numbers.zipWithIndex(), "zipWithIndex"),
        (numbers.zipWithUniqueId().map(lambda pair: pair), "zipWithUniqueId"),
        (numbers.sample(False, 0.5, 7), "sample"),
        (numbers.zip(numbers.map(str)), "zip"),
    ]
    for rdd, name in programs:
        last = rdd.collect()[-1]
        trace = w.backward(rdd.filter(lambda record, last=last: record == last))
        assert trace.exact
        verdict = trace.verify()
        assert not verdict.refuted, verdict
        assert verdict.ok or f"{name} goes by the places of records" in str(verdict)


def test_keys_that_are_equal_are_the_same(w: whence.Session) -> None:
    """Of 1, 1.0 and True a group shows the one that came first; on the witnesses alone that is another one."""
    pairs = w.context.parallelize([(True, "a"), (1.0, "b"), (1, "c")], 1)
    joined = pairs.join(pairs, 1)
    joined.collect()
    trace = w.backward(joined.filter(lambda record: record[1] == ("c", "c")))
    assert sum(trace.witness_counts.values()) == 1
    assert trace.verify().ok


@pytest.mark.parametrize("now", ["no pair\n", "eve,30\n"], ids=["fails", "other lines"])
def test_a_program_on_what_its_source_is_now(w: whence.Session, source: Path, now: str) -> None:
    """Neither the user's error nor a refutation: the lines are not those that were read."""
    pairs = w.context.textFile(str(source), 1).map(lambda line: tuple(line.split(",", 1)))
    sums = pairs.reduceByKey(add, 1)
    sums.collect()
    trace = w.backward(sums)
    assert sum(trace.witness_counts.values()) == 5
    source.write_text(now)
    with pytest.raises(whence.WhenceError, match="was changed"):
        trace.verify()


def test_what_actors_captured(w: whence.Session, source: Path, tmp_path: Path) -> None:
    copied(w, source, tmp_path / "copy.csv")
    rows = w.spark.read.option("header", True).schema("name string, price int").csv(str(tmp_path / "copy.csv"))
    trace = w.backward(rows.where("price < 0"))
    assert outcomes(trace.verify()) == [PROVEN, STORED]
    assert not trace.verify().refuted
    why = trace.explain()
    assert (why.bad_rows, why.good_rows, why.columns) == (1, 3, ("name", "price"))
    (log,) = (path for path in (tmp_path / "store").rglob("*.parquet") if "logs" in path.parts)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with whence.attach(w.spark, store=tmp_path / "store") as other:
        ended = other.backward(rows.where("price < 0"))
        assert list(ended.sources) == ["copy.csv"]
        assert "its contents were changed" in ended.ended[0]


class Sorted(Operator):
    """Says which cell each one was; once TURNED, it says the opposite."""

    def supported_modes(self) -> set[Mode]:
        return {Mode.FULL}

    def run(self, x: Any, cur_modes: Any) -> Any:
        order = np.argsort(x)
        for to, at in enumerate(order.tolist()):
            self.lwrite([(to,)], [(len(x) - 1 - at if "TURNED" in os.environ else at,)])
        return x[order]


def test_arrays_run_again(w: whence.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(i, float((i * 2) % 5)) for i in range(5)]
    w.spark.createDataFrame(rows, "i int, v double").createOrReplaceTempView("cells")
    wf = Workflow()
    wf.add(Sorted(), wf.input("x"), name="sorted")
    run = w.execute(wf, {"x": from_frame(w.spark.table("cells"), "i", "v")}, strategies={"sorted": "FullOne"})
    trace = w.backward(run.frame("sorted").where("value >= 3"))
    assert sorted(map(tuple, trace["cells"].collect())) == [(2, 4.0), (4, 3.0)]
    assert outcomes(trace.verify()) == [PROVEN, AGAIN, PROVEN]
    assert "run again, made the same arrays and tell the same cells" in str(trace.verify())
    assert (trace.verify().ok, trace.verify().refuted) == (False, False)
    with pytest.raises(whence.WhenceError, match="cannot be run again from here"):
        trace.exclude()
    with pytest.raises(whence.WhenceError, match="lies between"):
        trace.influence("value", "cells")
    why = trace.explain("cells", with_keys=True)
    assert (why.bad_rows, why.good_rows, why.columns) == (2, 3, ("i", "v"))

    monkeypatch.setenv("TURNED", "1")
    turned = w.backward(run.frame("sorted").where("value = 3"))
    assert outcomes(turned.verify()) == [PROVEN, REFUTED, PROVEN]
    assert turned.verify().refuted


def test_associations_of_records_that_went_over_by_value(w: whence.Session, source: Path) -> None:
    """After a shuffle an RDD's order is not certain: rows of the DataFrame made from it are told by what they hold."""
    lines = w.context.textFile(str(source), 2).filter(lambda line: "," in line and not line.startswith("name"))
    sums = lines.map(lambda line: (line.split(",")[0], int(line.split(",")[1]))).reduceByKey(add, 2)
    frame = sums.toDF(["name", "total"])
    trace = w.backward(frame.where("name <> 'eve'"))
    names = {row.output: row.name for row in trace.outputs().collect()}
    at = {line: source.read_text().index(line) for line in LINES}
    found = sorted(
        (names[row.output], row.source, row.record.rpartition("#")[2]) for row in trace.associations().collect()
    )
    assert found == sorted((line.split(",")[0], "source.csv", str(at[line])) for line in LINES[:3])


def test_without_through_a_dataframe_behind_an_rdd(w: whence.Session, source: Path) -> None:
    rows = w.spark.read.option("header", True).schema("name string, price int").csv(str(source)).where("price < 100")
    sums = w.context.of(rows).map(lambda r: (r.name, r.price)).reduceByKey(add, 2)
    report = sums.toDF(["name", "total"]).orderBy("total").limit(1)
    trace = w.backward(report)
    assert [tuple(row) for row in report.collect()] == [("ada", -880)]
    assert [tuple(row) for row in trace.exclude().collect()] == [("eve", 15)]
    assert [tuple(row) for row in trace.exclude(source="source.csv").collect()] == [("eve", 15)]
    with pytest.raises(whence.WhenceError, match="lies between"):
        trace.influence("total", "source.csv")


def test_records_that_only_an_rdd_has(w: whence.Session) -> None:
    given = [("a", n, "odd" if n % 2 else "even") for n in range(40)]
    kept = w.context.parallelize(given, 2).filter(lambda r: r[1] % 2 == 1).map(lambda r: (r[0], r[1]))
    trace = w.backward(kept)
    why = trace.explain()
    assert (why.bad_rows, why.good_rows) == (20, 20)
    assert why.sql == "_3 = 'odd'"
