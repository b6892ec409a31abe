"""History from files, Optuna, MLflow, Spark ML and the catalogue; results written back; the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import whence
from whence.debug.diagnose import BadSpace, DiagnoseError, Run
from whence.debug.diagnose.script import Script
from whence.debug.diagnose.sources import (
    OptunaCallback,
    from_catalog,
    from_cross_validator,
    from_cross_validator_model,
    from_file,
    from_mlflow,
    from_optuna,
    tag_mlflow,
    write_file,
)
from whence.serve.cli import app
from whence.serve.diagnose import read_space

CSV = """lr,solver,shuffle,status
0.1,sgd,true,FAILED
0.1,adam,true,ok
0.01,sgd,false,succeeded
0.01,adam,true,COMPLETE
0.1,sgd,false,failed
"""


def test_csv_with_words_for_outcomes(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(CSV)
    runs = from_file(tmp_path / "runs.csv")
    assert runs[0] == Run({"lr": 0.1, "solver": "sgd", "shuffle": True}, False)
    assert [r.succeeded for r in runs] == [False, True, True, True, False]


def test_runs_and_causes_written_as_csv_and_parquet(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(CSV)
    space = {"lr": [0.01, 0.1], "solver": ["adam", "sgd"], "shuffle": [True, False]}
    d = whence.diagnose(
        lambda c: not (c["lr"] == 0.1 and c["solver"] == "sgd"), space, from_file(tmp_path / "runs.csv"), seed=0
    )
    assert [str(c) for c in d.causes] == ["lr == 0.1 and solver == 'sgd'"]
    for name in ("out.csv", "out.parquet"):
        again = from_file(write_file(d, tmp_path / name))
        assert [r.succeeded for r in again] == [r.succeeded for r in d.runs]
        assert {r.config["cause"] for r in again if not r.succeeded} == {"lr == 0.1 and solver == 'sgd'"}


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("a,a,ok\n1,2,1\n", BadSpace, "'a' stands twice"),
        ("a,b\n1,2\n", DiagnoseError, "no column"),
        ("a,ok\n1,perhaps\n", DiagnoseError, "neither success nor failure"),
    ],
)
def test_files_that_cannot_be_read_as_runs(tmp_path: Path, text: str, error: type[Exception], words: str) -> None:
    (tmp_path / "runs.csv").write_text(text)
    with pytest.raises(error, match=words):
        from_file(tmp_path / "runs.csv")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DiagnoseError, match="no file"):
        from_file(tmp_path / "none.csv")


def test_optuna_study_with_failed_trials() -> None:
    optuna = pytest.importorskip("optuna", reason="optuna is not installed")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    callback = OptunaCallback(every=10)

    def objective(trial: object) -> float:
        depth = trial.suggest_int("depth", 1, 12)  # type: ignore[attr-defined]
        kind = trial.suggest_categorical("kind", ["a", "b", "c"])  # type: ignore[attr-defined]
        trial.suggest_float("lr", 1e-4, 1.0)  # type: ignore[attr-defined]
        if depth >= 8 and kind == "b":
            raise RuntimeError("too deep")
        return float(depth)

    study.optimize(objective, n_trials=120, catch=(RuntimeError,), callbacks=[callback])
    space, runs = from_optuna(study)
    assert len(runs) == 120
    assert len(space.parameters[space.names.index("lr")].values) == 64
    assert callback.diagnosis is not None
    assert study.user_attrs["whence.causes"] == [str(c) for c in callback.diagnosis.causes]
    d = whence.diagnose(None, space, runs, budget=0, seed=0)
    assert [str(c) for c in d.causes] == ["depth >= 8 and kind == 'b'"]


def test_mlflow_experiment_and_tags(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    try:
        experiment = client.create_experiment("tuning", artifact_location=str(tmp_path))
    except Exception as error:
        pytest.skip(f"this MLflow has no database store: {error}")
    for lr in (0.1, 0.2, 0.3):
        for solver in ("sgd", "adam"):
            run = client.create_run(experiment)
            client.log_param(run.info.run_id, "lr", lr)
            client.log_param(run.info.run_id, "solver", solver)
            client.set_terminated(run.info.run_id, "FAILED" if solver == "sgd" else "FINISHED")
    space, runs, ids = from_mlflow("tuning", client)
    d = whence.diagnose(None, space, runs, budget=0, seed=0)
    assert [str(c) for c in d.causes] == ["solver == 'sgd'"]
    assert tag_mlflow(d, ids, client) == 3
    tags = {client.get_run(i).data.tags.get("whence.cause") for i in ids}
    assert tags == {None, "solver == 'sgd'"}
    with pytest.raises(DiagnoseError, match="no experiment 'other'"):
        from_mlflow("other", client)


def test_cross_validator(spark: SparkSession) -> None:
    from pyspark.ml.evaluation import RegressionEvaluator
    from pyspark.ml.linalg import Vectors
    from pyspark.ml.regression import LinearRegression
    from pyspark.ml.tuning import CrossValidator, ParamGridBuilder

    rows = spark.createDataFrame([(Vectors.dense([float(i)]), 2.0 * i) for i in range(30)], ["features", "label"])
    regression = LinearRegression()
    grid = (
        ParamGridBuilder().addGrid(regression.regParam, [0.0, 1000.0]).addGrid(regression.fitIntercept, [True, False])
    )
    validator = CrossValidator(
        estimator=regression, estimatorParamMaps=grid.build(), evaluator=RegressionEvaluator(), numFolds=2, seed=1
    )
    pipeline, space = from_cross_validator(validator, rows, rows, good=lambda rmse: rmse < 1.0)
    d = whence.diagnose(pipeline, space, budget=4, seed=0)
    assert [str(c) for c in d.causes] == ["regParam == 1000.0"]
    history = from_cross_validator_model(validator.fit(rows), good=lambda rmse: rmse < 1.0)
    assert [str(c) for c in whence.diagnose(None, space, history, budget=0, seed=0).causes] == ["regParam == 1000.0"]


@dataclass(frozen=True)
class Job:
    status: str
    error: str | None = None
    details: dict[str, object] = field(default_factory=dict)


def test_runs_of_the_catalogue() -> None:
    jobs = [
        Job(
            "failed" if n > 4 else "completed",
            "OutOfMemoryError: heap" if n > 4 else None,
            {"partitions": n, "plan": []},
        )
        for n in range(8)
    ]
    space, runs = from_catalog([*jobs, Job("running")])
    assert space.names == ("partitions",)
    d = whence.diagnose(None, space, runs, budget=0, seed=0)
    assert [(str(c), c.kind) for c in d.causes] == [("partitions >= 5", "OutOfMemoryError: heap")]


def test_fits_that_an_attached_session_saw(w: whence.Session, spark: SparkSession) -> None:
    from pyspark.ml.linalg import Vectors
    from pyspark.ml.regression import LinearRegression

    rows = spark.createDataFrame([(Vectors.dense([float(i)]), 2.0 * i) for i in range(8)], ["features", "label"])
    for loss in ("squaredError", "huber"):
        for solver in ("l-bfgs", "normal"):
            with suppress(Exception):  # Spark has no normal equations for the huber loss
                LinearRegression(loss=loss, solver=solver, maxIter=1).fit(rows)
    space, runs = from_catalog(r for r in w.catalog.runs() if r.kind == "train")
    assert len(runs) == 4
    assert space.parameters[space.names.index("maxIter")].values == (1,)
    (cause,) = whence.diagnose(None, space, runs, budget=0, seed=0).causes
    assert {tuple(c) for c in cause.conditions} == {("loss", "==", "huber"), ("solver", "==", "normal")}


SCRIPT = """import argparse
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float)
p.add_argument("--solver")
a = p.parse_args()
assert not (a.lr > 0.5 and a.solver == "sgd"), "diverged"
"""


def test_the_command_line_runs_a_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "space.yaml").write_text("lr: [0.1, 0.4, 0.7, 1.0]\nsolver: [sgd, adam, lbfgs]\n")
    (tmp_path / "runs.csv").write_text("lr,solver,ok\n1.0,sgd,false\n0.1,adam,true\n")
    command = [
        "diagnose", "--history", str(tmp_path / "runs.csv"), "--space", str(tmp_path / "space.yaml"),
        "--script", f"{sys.executable} {tmp_path / 'train.py'} {{params}}", "--budget", "10", "--seed", "0",
        "--html", str(tmp_path / "why.html"), "--out", str(tmp_path / "all.csv"),
    ]  # fmt: skip
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "It fails when lr is at least 0.7 and solver is sgd." in done.output
    assert "AssertionError: diverged" in done.output
    assert (tmp_path / "why.html").exists()
    assert len(from_file(tmp_path / "all.csv")) <= 12


def test_an_interrupted_command_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text("lr: [0.1, 0.4, 0.7, 1.0]\nsolver: [sgd, adam, lbfgs]\n")
    (tmp_path / "stop.py").write_text("import os, signal\nos.kill(os.getppid(), signal.SIGINT)\n")
    command = [
        sys.executable, "-m", "whence.serve.cli", "diagnose", "--space", str(tmp_path / "space.yaml"), "--seed", "0",
        "--script", f"{sys.executable} {tmp_path / 'stop.py'} {{params}}", "--store", str(tmp_path / "kept"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": "src"})
    assert done.returncode == 130
    assert f"the same command goes on from {tmp_path / 'kept'}" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "kept").exists()


def test_a_history_with_very_many_values_is_put_on_a_grid(tmp_path: Path) -> None:
    rows = "".join(f"{i / 1000},{'failed' if i >= 700 else 'ok'}\n" for i in range(0, 1000, 7))
    (tmp_path / "runs.csv").write_text("lr,status\n" + rows)
    done = CliRunner().invoke(app, ["diagnose", "--history", str(tmp_path / "runs.csv")])
    assert done.exit_code == 0, done.output
    assert "It fails when lr is at least 0.7" in done.output


def test_the_command_line_explains_a_history_alone(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(CSV)
    done = CliRunner().invoke(app, ["diagnose", "--history", str(tmp_path / "runs.csv"), "--outcome", "status"])
    assert done.exit_code == 0, done.output
    assert "Observation only" in done.output


def test_bad_commands_end_with_a_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "whence.serve.cli", "diagnose", "--script", "true {params}"],
        capture_output=True, text=True, check=False, env={"PYTHONPATH": "src", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 1
    assert "add --space" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("space.yaml", "a: [1, 2]\na: [3]\n", "stands twice"),
        ("space.json", '{"a": [1], "a": [2]}', "stands twice"),
        ("space.yaml", "- a\n- b\n", "must map each parameter"),
        ("space.json", "{", "is not JSON"),
        ("space.yaml", "a: [", "is not YAML"),
    ],
)
def test_space_files(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadSpace, match=words):
        whence.Diagnosis(read_space(tmp_path / name))


def test_space_files_that_are_fine(tmp_path: Path) -> None:
    (tmp_path / "space.json").write_text(json.dumps({"a": [1, 2], "b": ["x"]}))
    assert whence.Diagnosis(read_space(tmp_path / "space.json")).space.names == ("a", "b")
    with pytest.raises(BadSpace, match="cannot be read"):
        read_space(tmp_path / "none.yaml")


def test_places_in_a_script() -> None:
    script = Script("train --rate={lr} {params}", ("lr", "solver"))
    assert script.line({"lr": 0.1, "solver": "sgd"}) == ["train", "--rate=0.1", "--solver", "sgd"]
    with pytest.raises(DiagnoseError, match=r"no parameter of the space"):
        Script("train {nope} {params}", ("lr",))
    with pytest.raises(DiagnoseError, match=r"no place for the parameter 'solver'"):
        Script("train {lr}", ("lr", "solver"))
