"""A trace goes on through tables that another process wrote under capture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import whence

ORDERS = [(i, f"c{i % 3}", i * 10) for i in range(12)]


@pytest.fixture
def home(tiny: SparkSession, tmp_path: Path) -> Path:
    frame = tiny.createDataFrame(ORDERS, "rid bigint, customer string, amount bigint").repartition(2, "rid")
    frame.write.parquet(str(tmp_path / "orders"))
    return tmp_path


@pytest.fixture
def session(tiny: SparkSession, home: Path) -> Iterator[whence.Session]:
    with whence.attach(tiny, store=home / "store") as w:
        yield w


def rids(df: DataFrame) -> set[int]:
    return {row.rid for row in df.select("rid").collect()}


def test_through_two_tables_of_another_process(session: whence.Session, home: Path) -> None:
    folders = [str(Path(whence.__file__).parents[1]), str(Path(__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    call = [sys.executable, "-m", "sql.write_chain", str(home)]
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    chosen = {tuple(row[:2]) for row in json.loads(done.stdout.splitlines()[-1])}
    totals = session.spark.read.parquet(str(home / "totals"))
    trace = session.backward(totals.where("customer = 'c1'"))
    assert list(trace.sources) == ["orders"], trace.notes
    assert rids(trace["orders"]) == {rid for rid, c, a in ORDERS if c == "c1" and (c, a) in chosen}
    assert trace.exact
    assert not trace.notes
    assert trace.verify().ok
    # What was chosen from C is known by its place in C: the trace ends there.
    two = session.spark.read.parquet(str(home / "two"))
    assert {row.customer for row in session.backward(two)["totals"].collect()} == {
        row.customer for row in two.collect()
    }
    lucky = session.backward(session.spark.read.parquet(str(home / "lucky")))
    assert rids(lucky["orders"]) == {rid for rid, c, a in ORDERS if (c, a) in chosen}
    # The way to stop at a written table stays.
    near = session.backward(totals.where("customer = 'c1'"), through=False)
    assert list(near.sources) == ["totals"]
    # B is overwritten by somebody else: what C was made from is known all the same.
    session.spark.range(3).write.mode("overwrite").parquet(str(home / "lucky"))
    again = session.backward(session.spark.read.parquet(str(home / "totals")).where("customer = 'c1'"))
    assert rids(again["orders"]) == rids(trace["orders"])
    gone = session.backward(session.spark.read.parquet(str(home / "lucky")))
    assert list(gone.sources) == ["lucky"]
    assert "outside of any capture" in gone.notes[0]
