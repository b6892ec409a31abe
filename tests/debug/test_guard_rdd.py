"""Culprits and quarantine of RDDs, plain ones and those with lineage."""

from __future__ import annotations

import operator
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf, udtf

import whence
from whence.debug.guard import worker as guard_worker
from whence.debug.guard.culprit import Culprit


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{n % 4} {'six' if n == 26 else n}\n" for n in range(40)))
    return path


def guarded(w: whence.Session, action: Callable[[], Any]) -> Culprit:
    with pytest.raises(Exception) as caught, w.guard() as guard:  # noqa: PT011
        action()
    assert guard.culprit is not None, getattr(caught.value, "__notes__", ())
    return guard.culprit


def pair(line: str) -> tuple[str, str]:
    key, value = line.split()
    return key, value


def add(one: Any, other: Any) -> Any:
    return int(one) + int(other)


def longest(found: tuple[str, list[str]]) -> int:
    return max(int(value) for value in found[1])


def test_rdds_with_lineage_name_function_record_and_lines(w: whence.Session, text: Path) -> None:
    lines = w.context.textFile(str(text), 2)
    culprit = guarded(w, lines.map(pair).mapValues(int).collect)
    assert (culprit.function, culprit.record) == ("int", "six")
    assert culprit.sources[0].rows == ("2 six",)

    culprit = guarded(w, lines.map(pair).reduceByKey(add, 2).collect)  # the two values that were to be combined
    assert culprit.function == "add"
    assert culprit.record[1] == "six"
    assert len(culprit.record) == 2
    assert "2 six" in culprit.sources[0].rows

    culprit = guarded(w, lines.map(pair).groupByKey(2).mapValues(list).map(longest).collect)  # after a shuffle
    assert culprit.function == "longest"
    assert culprit.record[0] == "2"
    assert "2 six" in culprit.sources[0].rows
    assert {line.split()[0] for line in culprit.sources[0].rows} == {"2"}
    assert culprit.sources[0].source == "textFile"
    assert "lines.txt, byte" in culprit.sources[0].records[0]


def test_plain_rdds_tell_the_element(w: whence.Session, spark: SparkSession) -> None:
    given = spark.sparkContext.parallelize(["1", "2", "3", "six"], 2)
    culprit = guarded(w, given.map(lambda text: text.strip()).map(int).collect)
    (source,) = culprit.sources
    assert source.rows == ("six",)
    assert source.records == ("partition 1, record 1",)
    shuffled = given.map(lambda text: (1, text)).reduceByKey(operator.add).mapValues(int)
    culprit = guarded(w, shuffled.collect)
    assert culprit.sources == ()
    assert any("source" in note for note in culprit.notes)


def test_quarantine_of_rdds_with_lineage(w: whence.Session, text: Path) -> None:
    lines = w.context.textFile(str(text), 2)
    numbers = lines.map(pair).flatMap(lambda kv: [(kv[0], int(kv[1]))]).filter(lambda kv: 1 // (kv[1] - 7) < 9)
    totals = numbers.reduceByKey(operator.add, 2)
    added = lines.map(pair).reduceByKey(add, 2)
    wanted = {str(k): sum(n for n in range(40) if n % 4 == k and n not in (7, 26)) for k in range(4)}
    with w.guard(on_error="quarantine") as guard:
        assert dict(totals.collect()) == wanted
        found = dict(added.collect())
    assert {key: int(value) for key, value in found.items()} == {**wanted, "3": wanted["3"] + 7}
    assert sorted(str(q.record) for q in guard.records if q.function != "add") == ["('2', 'six')", "('3', 7)"]
    assert [q.record[1] for q in guard.records if q.function == "add"] == ["six"]


class Halves:
    def eval(self, amount: str) -> Any:
        yield (float(amount) / 2,)


def test_quarantine_of_a_lateral_join(w: whence.Session, spark: SparkSession) -> None:
    halves = udtf(Halves, returnType="half: double")
    rows = spark.createDataFrame([("1",), ("six",), ("3",)], "amount string")
    if not hasattr(rows, "lateralJoin"):
        pytest.skip("PySpark before 4.0 has no lateralJoin")
    with w.guard(on_error="quarantine") as guard:
        joined = rows.lateralJoin(halves(col("amount").outer()))
        assert sorted(row.half for row in joined.collect()) == [0.5, 1.5]
    assert [q.record for q in guard.records] == [("six",)]


def test_a_plain_udf_without_pandas(w: whence.Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = spark.createDataFrame([("1",), ("six",)], "amount string").select(udf(float, "double")("amount"))
    monkeypatch.setitem(sys.modules, "pandas", None)  # the import fails
    assert guarded(w, parsed.collect).record == "six"


def test_a_plain_udf_on_executors_without_arrow(
    w: whence.Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver has it, so Spark lets a function have Arrow's batches there, which then cannot be had."""

    def lacking(*_: Any) -> Any:
        def locate(batches: Any) -> Any:
            raise ModuleNotFoundError("No module named 'pyarrow'")

        return locate

    monkeypatch.setattr(guard_worker, "arrow_locator", lacking)
    parsed = spark.createDataFrame([("1",), ("six",)], "amount string").select(udf(float, "double")("amount"))
    assert guarded(w, parsed.collect).record == "six"


def test_nothing_that_is_told_afterwards_fails_the_job(w: whence.Session, spark: SparkSession, tmp_path: Path) -> None:
    parsed = spark.createDataFrame([("1",), ("six",)], "amount string").select(udf(float, "double")("amount"))
    with w.guard(on_error="quarantine") as guard:
        values = [row[0] for row in parsed.collect()]
        shutil.rmtree(tmp_path / "store" / "actors")
        (tmp_path / "store" / "actors").write_text("the store is gone, and something else stands in its place")
    assert values == [1.0, None]
    assert guard.records == ()
    assert "could not read what was put aside" in guard.notes[0]
