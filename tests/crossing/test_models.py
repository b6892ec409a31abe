"""From a model, or from what it predicted, to the rows that it was trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.regression import LinearRegression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import whence

pytestmark = pytest.mark.usefixtures("tiny")

SCHEMA = "x int, label double"


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.csv"
    path.write_text("".join(f"{x},{3 * x}.0\n" for x in range(8)))
    return path


def fit(rows: DataFrame) -> Any:
    stages = [VectorAssembler(inputCols=["x"], outputCol="features"), LinearRegression(maxIter=1)]
    return Pipeline(stages=stages).fit(rows)


def test_what_a_model_was_trained_on(w: whence.Session, numbers: Path, tmp_path: Path) -> None:
    rows = w.spark.read.schema(SCHEMA).csv(str(numbers))
    model = fit(rows.where("x < 5"))
    path = str(tmp_path / "a model")
    model.write().overwrite().save(path)
    trace = w.backward(path)
    assert sorted(row.x for row in trace["numbers.csv"].collect()) == [0, 1, 2, 3, 4]
    assert (trace.exact, trace.notes) == (True, ())
    assert sorted(row.x for row in w.backward(path, where="label > 9")["numbers.csv"].collect()) == [4]

    # a prediction has its own witness, and the model's training beside it
    fresh = w.spark.createDataFrame([(7, 0.0), (9, 0.0)], SCHEMA)
    fresh.createOrReplaceTempView("fresh")
    fresh = w.spark.table("fresh")
    asked = w.backward(model.transform(fresh).where("x = 9").select("prediction"))
    assert [row.x for row in asked["fresh"].collect()] == [9]
    assert list(asked.models) == [path]
    assert sorted(row.x for row in asked.models[path]["numbers.csv"].collect()) == [0, 1, 2, 3, 4]
    assert w.backward(fresh).models == {}
    drawn = model.transform(fresh.withColumn("x", (F.col("x") + F.rand() * 2).cast("int")))
    with pytest.raises(whence.NonDeterministic, match="rand"):  # what a model is given may still be uncertain
        w.backward(drawn)

    loaded = PipelineModel.load(path)
    (behind,) = w.backward(loaded.transform(fresh)).models.values()
    assert behind.witness_counts == {"numbers.csv": 5}

    # saved again where nobody watched: not guessed
    (metadata,) = Path(path, "metadata").glob("part-*")
    metadata.write_text(metadata.read_text() + "\n")
    with pytest.raises(whence.WhenceError, match="it was saved again, or changed, outside of any session"):
        w.backward(path)


def test_training_that_cannot_be_told_says_why(w: whence.Session, numbers: Path, tmp_path: Path) -> None:
    rows = w.spark.read.schema(SCHEMA).csv(str(numbers))
    path = str(tmp_path / "sampled")
    fit(rows.where("rand() < 0.9 or x < 3")).save(path)
    with pytest.raises(whence.WhenceError, match="may come out otherwise each time"):
        w.backward(path)
    other = str(tmp_path / "changed")
    fit(rows).save(other)
    numbers.write_text("1,1.0\n")
    with pytest.raises(whence.WhenceError, match=r"was trained on cannot be told: .*numbers.csv"):
        w.backward(other)
