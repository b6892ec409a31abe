"""What another process saved is followed, and what this one saved is followed in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.ml import Pipeline
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.regression import LinearRegression
from pyspark.sql import SparkSession

import whence
from whence.debug.trace import Trace

pytestmark = pytest.mark.usefixtures("interpreted")


def lines_of(trace: Trace) -> list[str]:
    return sorted(row.value for row in trace["in.txt"].collect())


PROGRAM = """
import sys
from operator import add
from pyspark.sql import SparkSession
import whence
store, text, saved = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
with whence.attach(spark, store=store) as w:
    pairs = w.context.textFile(text, 1).map(lambda line: (line.split()[0], int(line.split()[1])))
    pairs.reduceByKey(add, 1).map(lambda pair: f"{pair[0]},{pair[1]}").saveAsTextFile(saved)
spark.stop()
"""


def test_files_that_another_process_saved(spark: SparkSession, tmp_path: Path) -> None:
    text = tmp_path / "in.txt"
    text.write_text("a 1\nb 2\na 3\nc 4\nb -9\n")
    saved, store = str(tmp_path / "saved"), str(tmp_path / "store")
    subprocess.run([sys.executable, "-c", PROGRAM, store, str(text), saved], check=True, capture_output=True)
    with whence.attach(spark, store=store) as w:
        report = spark.read.schema("k string, total int").csv(saved)
        trace = w.backward(report.where("total < 0"))
        assert lines_of(trace) == ["b -9", "b 2"]
        assert trace.notes == ()
        verdict = trace.verify()
        assert not verdict.ok, "a program that is not here cannot be run again"
        assert "another process" in str(verdict) or "not here" in str(verdict)
        with pytest.raises(whence.WhenceError, match="run again"):
            trace.exclude()
        words = w.context.textFile(saved).filter(lambda line: line.startswith("c"))
        assert lines_of(w.backward(words)) == ["c 4"]


def test_a_model_that_was_trained_here(w: whence.Session, tmp_path: Path) -> None:
    numbers, path = tmp_path / "numbers.csv", str(tmp_path / "a model")
    numbers.write_text("".join(f"{x},{3 * x}.0\n" for x in range(8)))
    rows = w.spark.read.schema("x int, label double").csv(str(numbers)).where("x < 5")
    stages = [VectorAssembler(inputCols=["x"], outputCol="features"), LinearRegression(maxIter=1)]
    Pipeline(stages=stages).fit(rows).write().overwrite().save(path)
    program = Path(__file__).with_name("model_elsewhere.py")
    ran = subprocess.run(
        [sys.executable, str(program), str(tmp_path / "store"), path],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert "ROWS [0, 1, 2, 3, 4] ()" in ran.stdout, ran.stderr
