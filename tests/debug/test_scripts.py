"""What fails is written as a script of its own, which needs nothing but itself: here it runs in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

import whence
from whence.debug.guard.culprit import Culprit


@pytest.fixture(scope="module")
def orders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path = str(tmp_path_factory.mktemp("orders") / "orders")
    rows = [(n, "5x7" if n == 13 else str(n)) for n in range(20)]
    spark.createDataFrame(rows, "id long, amount string").coalesce(1).write.parquet(path)
    return spark.read.parquet(path)


def guarded(w: whence.Session, action: Callable[[], Any]) -> Culprit:
    with pytest.raises(Exception, match=r"5x7|died|exited") as caught, w.guard() as guard:
        action()
    assert guard.culprit is not None
    assert caught.value.culprit is guard.culprit  # type: ignore[attr-defined]
    return guard.culprit


def run(culprit: Culprit) -> subprocess.CompletedProcess[str]:
    assert culprit.script is not None
    return subprocess.run([sys.executable, str(culprit.script)], capture_output=True, text=True, check=False)


def parse(amount: str) -> float:
    return float(amount)


def test_the_script_of_a_udf(w: whence.Session, orders: DataFrame) -> None:
    culprit = guarded(w, orders.select(udf(parse, "double")("amount")).collect)
    assert culprit.record == "5x7"
    ran = run(culprit)
    assert ran.returncode != 0
    assert "could not convert string to float: '5x7'" in ran.stderr


def test_the_script_of_a_row_that_sql_fails_on(
    w: whence.Session, orders: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    from releases import has  # here, since workers import this file and have no other of the tests

    # What users have, and the suite leaves out (jvm.py): the place of each operation.
    monkeypatch.setattr("pyspark.errors.utils._enable_debugging_cache", True, raising=False)
    w.spark.conf.set("spark.sql.dataFrameQueryContext.enabled", "true")
    culprit = guarded(w, orders.select(orders.amount.cast("int")).toPandas)
    w.spark.conf.set("spark.sql.dataFrameQueryContext.enabled", "false")
    assert culprit.record.amount == "5x7"
    # Where it stands in the program, which older Spark does not note.
    assert ("cast" in culprit.traceback) == has("4.0")
    ran = run(culprit)
    assert ran.returncode != 0
    assert "CAST_INVALID_INPUT" in ran.stderr
    assert "'5x7'" in ran.stderr


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
    assert run(culprit).returncode == 3
