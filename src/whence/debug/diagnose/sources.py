"""Runs from where people have them: files, Optuna, MLflow, Spark ML and whence's own catalogue."""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.debug.diagnose.definitions import universe
from whence.debug.diagnose.diagnosis import Diagnosis
from whence.debug.diagnose.errors import BadSpace, DiagnoseError
from whence.debug.diagnose.runs import Run
from whence.debug.diagnose.space import Config, Space

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_OUTCOMES = ("succeeded", "success", "ok", "passed", "failed", "outcome", "status", "state", "result")
_GOOD = {
    "true",
    "1",
    "succeeded",
    "succeed",
    "success",
    "ok",
    "passed",
    "pass",
    "complete",
    "completed",
    "finished",
    "done",
}
_BAD = {"false", "0", "failed", "fail", "failure", "error", "crashed", "killed", "timeout"}
_MOST = 64  # values of a number that the search can weigh one by one


def succeeded(value: object, column: str) -> bool:
    """What a word such as FAILED or 1 in an outcome column means."""
    word = str(value).strip().lower()
    if word not in _GOOD | _BAD:
        raise DiagnoseError(f"The outcome {value!r} in column {column!r} says neither success nor failure.")
    return (word in _GOOD) != (column.lower() == "failed")


def from_file(path: str | Path, outcome: str | None = None, error: str | None = None) -> list[Run]:
    """Runs from a CSV or Parquet file: one column says how the run ended, `error` may name one with its message; all
    others are parameters."""
    table = _table(Path(path))
    names = table.column_names
    twice = [n for n in names if names.count(n) > 1]
    if twice:
        raise BadSpace(f"The column {twice[0]!r} stands twice in {path}. Each parameter needs one column.")
    column = outcome or next((n for n in names if n.lower() in _OUTCOMES), None)
    if column is None or column not in names:
        raise DiagnoseError(
            f"{path} has no column {outcome or 'that says how a run ended'!r}; it has {', '.join(names)}. Name it with "
            "outcome= (on the command line --outcome)."
        )
    said = error if error is not None else next((n for n in names if n.lower() == "error"), None)
    runs = []
    for row in table.to_pylist():
        ok = succeeded(row.pop(column), column)
        message = row.pop(said, None) if said else None
        runs.append(Run(row, ok, None if ok or not message else str(message)))
    return runs


def _table(path: Path) -> pa.Table:
    if not path.exists():
        raise DiagnoseError(f"There is no file {path}.")
    if path.is_dir() or path.suffix in (".parquet", ".pq"):
        import pyarrow.parquet as pq

        return pq.read_table(path)
    import pyarrow.csv

    return pyarrow.csv.read_csv(path)


def write_file(d: Diagnosis, path: str | Path) -> Path:
    """All runs of a diagnosis as CSV or Parquet, with the causes that hold for each."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    rows = [
        {**run.config, "succeeded": run.succeeded, "error": run.error, "cause": tag_of(d, run.config, run.succeeded)}
        for run in d.runs
    ]
    target = Path(path)
    table = pa.Table.from_pylist(rows)
    (pyarrow.parquet.write_table if target.suffix in (".parquet", ".pq") else pyarrow.csv.write_csv)(table, target)
    return target


def tag_of(d: Diagnosis, config: Mapping[str, Any], ok: bool) -> str:
    """The causes that explain this run; empty when it succeeded or none does."""
    return "" if ok else "; ".join(str(c) for c in d.causes if c.holds(config))


def gridded(configs: Sequence[Config], outcomes: Sequence[bool]) -> tuple[Space, list[Config]]:
    """The space of the values that were used; a number with very many values is rounded down to a grid of them, which
    has a line wherever the outcome changes, as far as there are lines enough."""
    names = list(dict.fromkeys(n for c in configs for n in c))
    full = [{n: c.get(n) for n in names} for c in configs]
    for name in names:
        values = [c[name] for c in full]
        numbers = sorted({v for v in values if isinstance(v, int | float) and not isinstance(v, bool)})
        if len(numbers) > _MOST and len(numbers) == len(set(map(str, values))):
            ends: dict[Any, set[bool]] = {}
            for value, ok in zip(values, outcomes, strict=True):
                ends.setdefault(value, set()).add(ok)
            lines = {0} | {i for i in range(1, len(numbers)) if ends[numbers[i]] != ends[numbers[i - 1]]}
            if len(lines) > _MOST:
                lines = {0}
            for i in np.linspace(0, len(numbers) - 1, _MOST).astype(int):
                if len(lines) < _MOST:
                    lines.add(int(i))
            grid = [numbers[i] for i in sorted(lines)]
            for c in full:
                c[name] = grid[bisect.bisect_right(grid, float(c[name] or 0)) - 1]
    return universe(full), full


# Optuna


def from_optuna(study: Any, fails: Callable[[float], bool] | None = None) -> tuple[Space, list[Run]]:
    """Space and runs of a study. A failed trial failed; with `fails`, so did one whose value it says True to."""
    trials = [t for t in study.trials if t.state.name in ("COMPLETE", "FAIL")]
    good = [t.state.name == "COMPLETE" and not (fails is not None and fails(t.value)) for t in trials]
    space, configs = gridded([dict(t.params) for t in trials], good)
    return space, [
        Run(config, ok, None if ok else trial.user_attrs.get("error"))
        for trial, config, ok in zip(trials, configs, good, strict=True)
    ]


def explain_study(study: Any, fails: Callable[[float], bool] | None = None) -> Diagnosis:
    """Explain a study's failures without new trials, and note the causes on the study (user attributes)."""
    space, runs = from_optuna(study, fails)
    d = Diagnosis(space, runs, budget=0, flaky=_disagree(runs, space), seed=0)
    study.set_user_attr("whence.causes", [str(c) for c in d.causes])
    return d


def _disagree(runs: Sequence[Run], space: Space) -> bool:
    seen: dict[tuple[int, ...], bool] = {}
    return any(seen.setdefault(space.encode(r.config), r.succeeded) != r.succeeded for r in runs)


class OptunaCallback:
    """For `study.optimize(..., callbacks=[OptunaCallback()], catch=(Exception,))`: notes the causes known so far on the
    study after every `every` trials that failed."""

    def __init__(self, fails: Callable[[float], bool] | None = None, every: int = 5) -> None:
        self.fails, self.every, self.failed = fails, every, 0
        self.diagnosis: Diagnosis | None = None

    def __call__(self, study: Any, trial: Any) -> None:
        bad = trial.state.name == "FAIL" or (
            self.fails is not None and trial.value is not None and self.fails(trial.value)
        )
        self.failed += bad
        finished = [t for t in study.trials if t.state.name in ("COMPLETE", "FAIL")]
        if bad and self.failed % self.every == 0 and len(finished) > self.failed:
            self.diagnosis = explain_study(study, self.fails)


# MLflow


def from_mlflow(experiment: str, client: Any = None) -> tuple[Space, list[Run], list[str]]:
    """Space, runs and run ids of an experiment; a run of status FAILED or KILLED failed."""
    client = client if client is not None else _mlflow()
    found = client.get_experiment_by_name(experiment)
    if found is None:
        raise DiagnoseError(f"MLflow has no experiment {experiment!r}.")
    ended, token = [], None
    while True:
        page = client.search_runs([found.experiment_id], page_token=token)
        ended += [r for r in page if r.info.status in ("FINISHED", "FAILED", "KILLED")]
        token = page.token
        if not token:
            break
    good = [r.info.status == "FINISHED" for r in ended]
    space, configs = gridded([{k: _parsed(v) for k, v in r.data.params.items()} for r in ended], good)
    runs = [Run(c, ok, r.data.tags.get("error")) for c, ok, r in zip(configs, good, ended, strict=True)]
    return space, runs, [r.info.run_id for r in ended]


def tag_mlflow(d: Diagnosis, ids: Sequence[str], client: Any = None) -> int:
    """Write the cause of each failed run back as its tag `whence.cause`; how many were tagged. `ids` are those that
    from_mlflow gave with the runs that the diagnosis began with."""
    client = client if client is not None else _mlflow()
    tagged = 0
    for run_id, run in zip(ids, d.runs, strict=False):
        tag = tag_of(d, run.config, run.succeeded)
        if tag:
            client.set_tag(run_id, "whence.cause", tag)
            tagged += 1
    return tagged


def _mlflow() -> Any:
    from mlflow import MlflowClient

    return MlflowClient()


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text.lower() if text in ("True", "False") else text)
    except (ValueError, AttributeError):
        return text
    return value if isinstance(value, bool | int | float) else text


# Spark ML


def from_cross_validator(
    validator: Any, train: DataFrame, test: DataFrame, good: Callable[[float], bool]
) -> tuple[Callable[[Config], bool], Space]:
    """A pipeline and a space from a Spark ML CrossValidator or TrainValidationSplit: one run fits its estimator on
    `train` with one setting of its parameter grid and succeeds when `good(metric on test)`."""
    params = {p.name: p for grid in validator.getEstimatorParamMaps() for p in grid}
    space = universe([{p.name: v for p, v in grid.items()} for grid in validator.getEstimatorParamMaps()])
    estimator, evaluator = validator.getEstimator(), validator.getEvaluator()

    def pipeline(config: Config) -> bool:
        model = estimator.fit(train, {params[name]: value for name, value in config.items()})
        return good(evaluator.evaluate(model.transform(test)))

    return pipeline, space


def from_cross_validator_model(model: Any, good: Callable[[float], bool]) -> list[Run]:
    """The runs that a fitted CrossValidator has behind it: one for each setting, by its average metric."""
    return [
        Run({p.name: v for p, v in grid.items()}, good(metric))
        for grid, metric in zip(model.getEstimatorParamMaps(), model.avgMetrics, strict=True)
    ]


# whence's own runs


def _details(run: Any) -> Mapping[str, Any]:
    """The parameters of a fit as the watcher noted them; of other runs the simple values among the details."""
    noted = run.details.get("parameters")
    if isinstance(noted, Mapping) and noted:
        return {k: _parsed(str(v)) for k, v in noted.items()}
    return {k: v for k, v in run.details.items() if isinstance(v, str | bool | int | float)}


def from_catalog(
    runs: Iterable[Any], parameters: Callable[[Any], Mapping[str, Any]] = _details
) -> tuple[Space, list[Run]]:
    """Runs of the catalogue (`w.catalog.runs()`): `parameters(run)` says with which settings a Spark job ran; by
    default they are the parameters of a Spark ML fit, else the simple values among the run's details."""
    ended = [r for r in runs if r.status in ("completed", "failed")]
    space, configs = gridded([dict(parameters(r)) for r in ended], [r.status == "completed" for r in ended])
    return space, [
        Run(c, r.status == "completed", getattr(r, "error", None)) for c, r in zip(configs, ended, strict=True)
    ]
