"""Crash culprits: whatever Python code fails, the record, its source rows and a script that fails alone are found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, pandas_udf, udf

import whence
from whence.debug.culprit import Culprit


@pytest.fixture(scope="module")
def orders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path = str(tmp_path_factory.mktemp("orders") / "orders")
    rows = [(n, f"{n}.5" if n != 613 else "six", n % 5) for n in range(1000)]
    spark.createDataFrame(rows, "id long, amount string, shop long").repartition(3, "id").write.parquet(path)
    return spark.read.parquet(path)


def parse(amount: str) -> float:
    amount = amount.strip()  # the argument's name is used again: the record must be the one that came in
    return float(amount)


def parse_all(amounts: pd.Series) -> pd.Series:
    return amounts.map(float)


def parse_frames(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield frame.assign(amount=frame["amount"].map(float))


def parse_group(group: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"shop": [group["shop"][0]], "total": [group["amount"].map(float).sum()]})


def parse_keyed(key: Any, group: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"shop": [key[0]], "total": [group["amount"].map(float).sum()]})


def guarded(w: whence.Session, action: Callable[[], Any]) -> Culprit:
    with pytest.raises(Exception, match=r"six|died|exited") as caught, w.guard() as guard:
        action()
    assert guard.culprit is not None
    assert caught.value.culprit is guard.culprit  # type: ignore[attr-defined]
    if sys.version_info >= (3, 11):
        assert "fails alone with" in "".join(caught.value.__notes__)
    return guard.culprit


def fails_alone(culprit: Culprit, why: str) -> None:
    assert culprit.script is not None
    ran = subprocess.run([sys.executable, str(culprit.script)], capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert why in ran.stderr


def test_plain_udf(w: whence.Session, orders: DataFrame) -> None:
    value = udf(parse, "double")
    report = orders.where("id % 2 = 1").withColumn("value", value(col("amount"))).groupBy("shop").sum("value")
    culprit = guarded(w, report.collect)
    assert culprit.record == "six"
    assert culprit.function == "parse"
    assert culprit.error.startswith("ValueError")
    assert "float(amount)" in culprit.traceback
    (source,) = culprit.sources
    assert [row.id for row in source.rows] == [613]
    assert ".parquet#" in source.records[0]
    fails_alone(culprit, "could not convert string to float: 'six'")


def test_udf_of_two_arguments_in_a_filter_of_a_write(w: whence.Session, orders: DataFrame, tmp_path: Path) -> None:
    cheap = udf(lambda amount, shop: float(amount) < shop, "boolean")
    chosen = orders.where(cheap("amount", "shop"))
    culprit = guarded(w, lambda: chosen.write.parquet(str(tmp_path / "out")))
    assert culprit.record == ("six", 3)
    assert [row.id for row in culprit.sources[0].rows] == [613]


@pytest.mark.parametrize("kind", ["pandas_udf", "mapInPandas", "applyInPandas", "applyInPandas with key"])
def test_functions_of_batches(w: whence.Session, orders: DataFrame, kind: str) -> None:
    frames = {
        "pandas_udf": lambda: orders.select(pandas_udf(parse_all, "double")("amount")),
        "mapInPandas": lambda: orders.mapInPandas(parse_frames, "id long, amount double, shop long"),
        "applyInPandas": lambda: orders.groupBy("shop").applyInPandas(parse_group, "shop long, total double"),
        "applyInPandas with key": lambda: orders.groupBy("shop").applyInPandas(parse_keyed, "shop long, total double"),
    }
    culprit = guarded(w, frames[kind]().collect)
    assert len(culprit.record) == 1  # the smallest failing batch
    assert "six" in culprit.record.iloc[0].tolist()
    assert [row.id for row in culprit.sources[0].rows] == [613]
    fails_alone(culprit, "could not convert string to float: 'six'")


def test_records_that_fail_only_together(w: whence.Session, spark: SparkSession) -> None:
    def no_pair(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            if {17, 400} <= set(frame["id"]):
                raise ValueError("six and seven")
            yield frame

    culprit = guarded(w, spark.range(0, 500, 1, 1).mapInPandas(no_pair, "id long").collect)
    assert sorted(culprit.record["id"]) == [17, 400]


def test_rdd_functions(w: whence.Session, spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{n if n != 70 else 'six'},{n % 3}\n" for n in range(100)))
    lines = spark.sparkContext.textFile(str(path), 2)
    totals = lines.map(lambda line: line.split(",")).map(lambda p: (p[1], int(p[0]))).reduceByKey(lambda a, b: a + b)
    culprit = guarded(w, totals.collect)
    assert culprit.record == ["six", "1"]
    (source,) = culprit.sources
    assert source.source == "lines.txt"
    assert source.rows == ("six,1",)
    assert "of bytes" in source.records[0]
    fails_alone(culprit, "invalid literal for int")


def test_an_opaque_function_of_a_partition(w: whence.Session, spark: SparkSession) -> None:
    def work(records: Iterator[str]) -> Iterator[float]:
        for record in records:
            yield float(record)

    culprit = guarded(w, spark.sparkContext.parallelize(["1", "2", "six", "4"], 2).mapPartitions(work).count)
    assert culprit.record == "six"
    assert culprit.index == 0
    fails_alone(culprit, "could not convert")


def die(n: int) -> int:
    if n == 55:
        os._exit(3)
    return n


@pytest.mark.parametrize("kind", ["rdd", "udf", "mapInPandas"])
def test_a_process_that_dies(w: whence.Session, spark: SparkSession, kind: str) -> None:
    def die_in_batch(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield pd.DataFrame({"id": [die(n) for n in frame["id"]]})

    numbers = spark.range(0, 100, 1, 4)
    actions = {
        "rdd": lambda: spark.sparkContext.parallelize(range(100), 4).map(die).sum(),
        "udf": lambda: numbers.select(udf(die, "long")("id")).collect(),
        "mapInPandas": lambda: numbers.mapInPandas(die_in_batch, "id long").collect(),
    }
    culprit = guarded(w, actions[kind])
    record = culprit.record if kind != "mapInPandas" else culprit.record["id"].iloc[0]
    assert record == 55
    assert "died" in culprit.error
    assert culprit.script is not None
    assert subprocess.run([sys.executable, str(culprit.script)], capture_output=True, check=False).returncode == 3


def test_other_errors_pass_untouched(w: whence.Session) -> None:
    with pytest.raises(KeyError) as caught, w.guard() as guard:
        raise KeyError("six")
    assert guard.culprit is None
    assert not hasattr(caught.value, "culprit")


def test_a_job_that_goes_well_is_left_alone(w: whence.Session, orders: DataFrame) -> None:
    with w.guard() as guard:
        assert orders.where("id != 613").select(udf(parse, "double")("amount")).count() == 999
    assert guard.culprit is None


# -- quarantine --------------------------------------------------------------------------------------------------------


def test_quarantine_of_a_udf(w: whence.Session, orders: DataFrame) -> None:
    report = orders.select("id", udf(parse, "double")("amount").alias("value"))  # made before the block
    with w.guard(on_error="quarantine") as guard:
        rows = {row.id: row.value for row in report.collect()}
    assert len(rows) == 1000
    assert rows[613] is None
    assert rows[612] == 612.5
    (aside,) = guard.records
    assert aside.record == ("six",)
    assert aside.error.startswith("ValueError")
    assert len(aside.sources) == 1
    assert ".parquet#" in aside.sources[0]
    (row,) = guard.table().collect()
    assert row.function == "parse"
    (again,) = guard.replay(lambda amount: 6.0 if amount == "six" else float(amount))
    assert again.result == 6.0
    assert guard.replay(parse)[0].error is not None
    with pytest.raises(Exception, match="six"):
        report.collect()  # outside the block the function is as it was


@pytest.mark.parametrize("kind", ["pandas_udf", "mapInPandas", "applyInPandas"])
def test_quarantine_of_batches(w: whence.Session, orders: DataFrame, kind: str) -> None:
    frames = {
        "pandas_udf": lambda: orders.select("id", pandas_udf(parse_all, "double")("amount").alias("value")),
        "mapInPandas": lambda: orders.mapInPandas(parse_frames, "id long, amount double, shop long"),
        "applyInPandas": lambda: orders.groupBy("shop").applyInPandas(parse_group, "shop long, total double"),
    }
    with w.guard(on_error="quarantine") as guard:
        rows = frames[kind]().collect()
    assert len(rows) == {"pandas_udf": 1000, "mapInPandas": 999, "applyInPandas": 5}[kind]
    (aside,) = guard.records
    assert "six" in aside.record
    assert len(aside.sources) == 1
    if kind == "applyInPandas":
        totals = {row.shop: row.total for row in rows}
        assert totals[3] == sum(n + 0.5 for n in range(1000) if n % 5 == 3 and n != 613)


def test_quarantine_of_rdd_functions(w: whence.Session, spark: SparkSession) -> None:
    lines = spark.sparkContext.parallelize(["1", "2", "six", "4", "", "7"], 2)
    with w.guard(on_error="quarantine") as guard:
        pairs = lines.map(int).filter(lambda n: 10 // (n - 4) != 0).flatMap(lambda n: [(n % 2, n)] * 2)
        assert sorted(pairs.reduceByKey(lambda a, b: a + b).collect()) == [(0, 4), (1, 16)]
    assert sorted(str(q.record) for q in guard.records) == ["", "4", "six"]
    assert {q.error.split(":")[0] for q in guard.records} == {"ValueError", "ZeroDivisionError"}
    assert sorted(r.result for r in guard.replay(lambda text: len(str(text)))) == [0, 1, 3]


def test_what_cannot_go_on_fails_with_its_culprit(w: whence.Session, spark: SparkSession) -> None:
    def work(records: Iterator[str]) -> Iterator[float]:
        for record in records:
            yield float(record)

    with pytest.raises(Exception, match="six"), w.guard(on_error="quarantine") as guard:
        spark.sparkContext.parallelize(["1", "six"], 1).mapPartitions(work).collect()
    assert guard.culprit is not None
    assert guard.culprit.record == "six"
    with pytest.raises(ValueError, match="on_error"):
        w.guard(on_error="ignore")
