"""A session of Spark Connect, with a real server: what needs no JVM works there, and all else says why it does not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import maven
import whence
from whence.connect import NEEDS_JVM

ROOT = Path(__file__).resolve().parents[2]


def server_jar() -> list[str]:
    """The server's jar, where PySpark does not bring it."""
    jars = Path(pyspark.__file__).parent / "jars"
    if any(jars.glob("spark-connect_*.jar")):
        return []
    scala = next(jars.glob("scala-library-*.jar")).stem.split("-")[-1].rpartition(".")[0]
    line = pyspark.__version__.rpartition(".")[0]
    try:  # the newest of the same line, which need not be there for the newest patch of Spark
        (jar,) = maven.jars(f"org.apache.spark:spark-connect_{scala}:[{line}.0,{line}.999]", alone=True)
    except maven.Unavailable as reason:
        pytest.skip(f"the server of Spark Connect cannot be had: {reason}")
    return [str(jar)]


def test_what_needs_no_jvm_works_and_the_rest_says_why(
    spark: SparkSession, tmp_path: Path, neighbour: Callable[..., subprocess.Popen[str]]
) -> None:
    pytest.importorskip("grpc", reason="the packages of pyspark[connect] are not installed here")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = neighbour("connect_server", port, *server_jar())
    store, orders, totals = tmp_path / "store", str(tmp_path / "orders"), str(tmp_path / "totals")
    spark.createDataFrame([(1, 20), (1, 35), (2, 40)], "customer int, amount int").write.parquet(orders)
    with whence.attach(spark, store=store):
        made = spark.read.parquet(orders).groupBy("customer").sum("amount").withColumnRenamed("sum(amount)", "total")
        made.write.parquet(totals)
    program = Path(__file__).parent / "programs" / "connect.py"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable}
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    done = subprocess.run(
        [sys.executable, str(program), str(store), str(port)], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    refused = found.pop("refused")
    assert found == {
        "kind": "ConnectSession",
        "datasets": ["orders", "totals"],
        "edges": [["amount", "total"], ["customer", "customer"]],
        "explained": [["shop"]],
        "not a DataFrame": "This is not a DataFrame of the Spark Connect session that whence is attached to. "
        "Attach to its own session: whence.attach(df.sparkSession).",
        "traced": ["line 2", "line 3"],
        "doubled": [0, 2, 4],
        "warned": True,
        "traced in a UDF": [2],
        "cells": [[1, 0]],
        "works": 3,
        "diagnosed": found["diagnosed"],
    }
    assert any("n" in condition for condition in found["diagnosed"])
    assert set(refused) == (NEEDS_JVM.keys() - {"lineage"}) | {"mine", "clean", "chunks"}
    for name, sentence in refused.items():
        assert sentence.startswith((name, "execute")), sentence
        assert "needs a classic Spark session" in sentence
    assert "Spark Connect has no RDDs" in refused["context"]
    assert "plan" in refused["backward"]


def test_every_method_of_a_session_works_there_or_says_why() -> None:
    public = {name for name in vars(whence.Session) if not name.startswith("_")}
    works = {"spark", "catalog", "show", "explain", "actors", "register", "flow_link", "trace", "mine", "clean"}
    assert public - set(NEEDS_JVM) == works | {"execute", "reopen", "close"}
    assert set(NEEDS_JVM) <= public
