"""Files by way of Spark's own file systems, on the one that every machine has, `file:`. Servers: tests/cluster."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import files_contract
import whence
from whence.rdd import LineageContext
from whence.rdd.tables import LineageMissing
from whence.spark.hadoop_files import HadoopFiles
from whence.store.relay import Relay


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Iterator[HadoopFiles]:
    relay = Relay()
    yield HadoopFiles(spark, f"file://{tmp_path}/store", relay)
    relay.close()


def test_the_contract(files: HadoopFiles, tmp_path: Path) -> None:
    files_contract.check(files)
    assert stat.S_IMODE(os.stat(tmp_path / "store").st_mode) == 0o700
    assert stat.S_IMODE(os.stat(tmp_path / "store" / "a" / "empty").st_mode) == 0o600


def test_a_store_that_was_made_for_a_group_stays_shared(files: HadoopFiles, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store").chmod(0o770)
    files.write(b"", "a", "file")
    assert stat.S_IMODE(os.stat(tmp_path / "store" / "a").st_mode) == 0o770
    assert stat.S_IMODE(os.stat(tmp_path / "store" / "a" / "file").st_mode) == 0o660


def test_executors_carry_tables_to_the_store(spark: SparkSession, files: HadoopFiles, tmp_path: Path) -> None:
    lc = LineageContext(spark.sparkContext, files)
    lines = lc.parallelize(["a b", "b", "c"], 2)
    counts = lines.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(lambda a, b: a + b)
    assert sorted(counts.collect()) == [("a", 1), ("b", 2), ("c", 1)]
    assert sorted(counts.filter(lambda kv: kv[0] == "b").getLineage().goBackAll().collect()) == ["a b", "b"]
    tables = [path for path in (tmp_path / "store" / "rdd").rglob("*-*") if path.is_file()]
    assert tables
    assert {stat.S_IMODE(path.stat().st_mode) for path in tables if path.suffix != ".crc"} == {0o600}
    lc.close()
    (run,) = lc.runs()
    assert {site.name for site in run.outputs}


def test_a_store_that_takes_nothing_does_not_fail_the_job(
    spark: SparkSession, files: HadoopFiles, tmp_path: Path
) -> None:
    lc = LineageContext(spark.sparkContext, files)
    (tmp_path / "store" / "rdd").mkdir(parents=True)
    (tmp_path / "store" / "rdd" / lc.book.run).write_text("in the way")
    doubled = lc.parallelize([1, 2], 2).map(lambda n: 2 * n)
    assert doubled.collect() == [2, 4]
    with pytest.raises(LineageMissing, match="could not be written"):
        doubled.getLineage().goBackAll().collect()


def test_a_url_that_spark_does_not_reach_is_refused(spark: SparkSession) -> None:
    with pytest.raises(whence.WhenceError, match=r"spark\.jars\.packages=org\.apache\.hadoop:hadoop-azure"):
        whence.attach(spark, store="abfss://container@account.dfs.core.windows.net/lineage")
