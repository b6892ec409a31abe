"""Pipelines and models: trained, saved, loaded, scored and stored; each step is one run."""

from __future__ import annotations

from pathlib import Path

from cases import clean, short
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.regression import LinearRegression

import whence


def test_a_model_from_training_to_scores(spark, tmp_path: Path) -> None:
    clean(spark)
    spark.sql("CREATE TABLE training USING parquet AS SELECT id AS x, id * 2 AS y, id * 3.0 AS label FROM range(20)")
    spark.sql("CREATE TABLE fresh USING parquet AS SELECT id AS x, id + 5 AS y FROM range(5)")
    model_path = str(tmp_path / "model")
    try:
        with whence.attach(spark, store=tmp_path / "store") as w:
            assembler = VectorAssembler(inputCols=["x", "y"], outputCol="features")
            pipeline = Pipeline(stages=[assembler, LinearRegression(maxIter=2)])
            pipeline.save(str(tmp_path / "pipeline"))
            model = pipeline.fit(spark.table("training"))
            model.write().overwrite().save(model_path)
            loaded = PipelineModel.load(model_path)
            loaded.transform(spark.table("fresh")).select("x", "prediction").write.saveAsTable("scores")
            catalog = w.catalog
            edges = {(short(e.source.name), short(e.target.name), e.kind) for e in catalog.edges()}
            assert edges == {
                ("training", "model", "train"),
                ("pipeline", "model", "train"),
                ("model", "scores", "score"),
                ("fresh", "scores", "create"),
            }
            assert {short(s.name) for s in catalog.lineage("scores").datasets} == {
                "scores", "fresh", "model", "training", "pipeline",
            }  # fmt: skip
            (load,) = catalog.runs(kind="load")
            assert [u.dataset.name for u in catalog.inputs(load)] == [model_path]
            found = catalog.dataset(model_path)
            assert (found.kind, found.name) == ("model", model_path)
            columns = {
                (short(e.source.name), e.source_column, e.target_column)
                for e in catalog.edges("column")
                if e.kind == "DIRECT"
            }
            assert {("training", c, "model") for c in ("x", "y", "label")} <= columns
            assert {("fresh", c, "prediction") for c in ("x", "y")} <= columns
            (train,) = catalog.runs(kind="train")
            assert [s["class"] for s in train.details["stages"]] == ["VectorAssembler", "LinearRegression"]
            assert train.details["stages"][1]["parameters"]["maxIter"] == "2"
            assert [r.kind for r in catalog.runs()] == ["save", "train", "save", "load", "query"]
    finally:
        clean(spark)
