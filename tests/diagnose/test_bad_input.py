"""Every bad input is a sentence that says what to do, and no run is lost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import whence
from whence.debug.diagnose import (
    AlwaysFails,
    BadSpace,
    Contradiction,
    DiagnoseError,
    Interrupted,
    NothingToCompare,
    OutsideSpace,
)
from whence.model import StoreError

SPACE = {"a": [1, 2, 3], "b": ["x", "y"]}
GOOD, BAD = ({"a": 1, "b": "x"}, True), ({"a": 2, "b": "y"}, False)


def fine(config: dict[str, object]) -> bool:
    return config["a"] != 2


@pytest.mark.parametrize(("history", "word"), [([GOOD], "failing"), ([BAD], "succeeding"), ([], "failing")])
def test_nothing_to_compare_and_no_budget(history: list[object], word: str) -> None:
    with pytest.raises(NothingToCompare, match=f"no {word} run and the budget is 0.*give a budget"):
        whence.diagnose(fine, SPACE, history, budget=0)


def test_a_history_that_contradicts_itself() -> None:
    with pytest.raises(Contradiction, match=r"Runs 0 and 2 .*'a': 1.*flaky=True"):
        whence.diagnose(fine, SPACE, [GOOD, BAD, (GOOD[0], False)], budget=5)


def test_a_contradiction_is_no_error_for_a_flaky_pipeline() -> None:
    d = whence.diagnose(fine, SPACE, [GOOD, BAD, (GOOD[0], False)], budget=5, flaky=True, seed=0)
    assert d.executions == 5


def test_a_run_that_contradicts_an_earlier_one() -> None:
    d = whence.Diagnosis(SPACE, [GOOD])
    with pytest.raises(Contradiction):
        d.tell(GOOD[0], False)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"a": 7, "b": "x"}, "value 7 of parameter 'a' is not in the space"),
        ({"a": 1}, "no value for the parameter 'b'"),
        ({"a": 1, "b": "x", "c": 0}, "parameter 'c', which is not in the space"),
    ],
)
def test_values_outside_the_space(config: dict[str, object], words: str) -> None:
    with pytest.raises(OutsideSpace, match=words):
        whence.diagnose(fine, SPACE, [(config, True)], budget=1)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({}, "no parameters"),
        ([("a", [1, 2]), ("a", [3])], "'a' stands twice"),
        ({"a": [1, 1, 2]}, "lists a value twice"),
        ({"a": []}, "has no values"),
        ({"a": "xyz"}, "must be a list"),
        ({"a": range(5000)}, "5000 values"),
        ({"a": [float("nan"), 1.0, float("nan")]}, "lists a value twice"),
        (None, "is a dict of parameter name"),
        ("abc", "is a dict of parameter name"),
        ([1, 2], "is a dict of parameter name"),
        ({1: [1, 2]}, "a text"),
    ],
)
def test_spaces_that_cannot_be_used(space: object, words: str) -> None:
    with pytest.raises(BadSpace, match=words):
        whence.diagnose(fine, space, budget=1)  # type: ignore[arg-type]


def test_a_pipeline_that_always_fails_keeps_its_runs() -> None:
    with pytest.raises(AlwaysFails, match=r"All 6 runs failed.*Check the pipeline") as caught:
        whence.diagnose(lambda config: False, SPACE, budget=50, seed=0)
    assert len(caught.value.diagnosis.history) == 6  # every configuration of the space


def test_a_pipeline_that_never_fails_has_no_cause() -> None:
    d = whence.diagnose(lambda config: True, SPACE, budget=50, seed=0)
    assert d.causes == ()
    assert "No run failed" in str(d.report())


def test_an_interrupt_keeps_the_runs_and_says_how_to_go_on(tmp_path: Path) -> None:
    calls: list[object] = []

    def pipeline(config: dict[str, object]) -> bool:
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(config)
        return fine(config)

    store = tmp_path / "runs.jsonl"
    with pytest.raises(Interrupted, match=r"after 3 runs. Nothing is lost.*runs.jsonl") as caught:
        whence.diagnose(pipeline, SPACE, budget=6, seed=0, store=store)
    assert len(caught.value.diagnosis.history) == 3
    again = whence.diagnose(fine, SPACE, budget=6, seed=0, store=store)
    assert again.executions <= 6
    assert [config for config, _ in again.history][:3] == calls


def test_a_store_of_another_space_is_refused(tmp_path: Path) -> None:
    whence.diagnose(fine, SPACE, budget=2, seed=0, store=tmp_path / "runs")
    with pytest.raises(StoreError, match="another parameter space"):
        whence.diagnose(fine, {"a": [1, 2]}, budget=2, store=tmp_path / "runs")


def test_a_half_written_last_line_is_left_out(tmp_path: Path) -> None:
    whence.diagnose(fine, SPACE, budget=3, seed=0, store=tmp_path / "runs")
    with (tmp_path / "runs").open("a") as file:
        file.write('{"codes": [0')
    d = whence.Diagnosis(SPACE, store=tmp_path / "runs")
    assert d.executions == 3


def test_evaluate_that_raises_is_no_failure_of_the_pipeline() -> None:
    with pytest.raises(DiagnoseError, match="evaluate function raised KeyError"):
        whence.diagnose(lambda config: {}, SPACE, evaluate=lambda result: result["score"] > 0.6, budget=3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, "workers must be at least 1"),
        ({"workers": "2"}, "workers is a whole number"),
        ({"budget": -1}, "budget must be at least 0"),
        ({"budget": 1.5}, "budget is a whole number"),
        ({"goal": "some"}, "goal must be"),
        ({"history": [1]}, "must be a pair"),
        ({"history": 5}, "history is a list of pairs"),
        ({"history": [(GOOD[0], "failed")]}, "says neither success nor failure"),
        ({"history": [(GOOD[0], None)]}, "says neither success nor failure"),
        ({"history": [(GOOD[0], float("nan"))]}, "says neither success nor failure"),
        ({"timeout": -1}, "seconds above 0"),  # every run would count as failed
        ({"timeout": "1"}, "seconds above 0"),
        ({"flaky": 2}, "how often a run lies"),
        ({"seed": -1}, "seed is a whole number"),
        ({"valid": 5}, "valid is a function"),
        ({"cost": 5}, "cost is a function"),
        ({"evaluate": 5}, "evaluate is a function"),
        ({"progress": 5}, "progress is a function"),
        ({"store": 5}, "store is the path"),
        ({"spark": 5}, "spark is a Spark session"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], words: str) -> None:
    with pytest.raises(DiagnoseError, match=words):
        whence.diagnose(fine, SPACE, **options)  # type: ignore[arg-type]


def test_no_pipeline_needs_no_budget() -> None:
    with pytest.raises(DiagnoseError, match="no pipeline"):
        whence.diagnose(None, SPACE, [GOOD, BAD], budget=3)
    assert whence.diagnose(None, SPACE, [GOOD, BAD], budget=0).causes


@pytest.mark.parametrize(
    "change",
    [
        lambda row: {**row, "codes": [-1 for _ in row["codes"]]},
        lambda row: {**row, "codes": [99 for _ in row["codes"]]},
        lambda row: {**row, "config": {}},
        lambda row: {**row, "purpose": ["<script>"]},
        lambda row: {"codes": row["codes"]},
        lambda row: [row],
        lambda row: "garbage",
    ],
)
def test_a_line_that_diagnose_has_not_written(tmp_path: Path, change: Any) -> None:
    whence.diagnose(fine, SPACE, budget=2, seed=0, store=tmp_path / "runs")
    head, first, *rest = (tmp_path / "runs").read_text().splitlines()
    (tmp_path / "runs").write_text("\n".join([head, json.dumps(change(json.loads(first))), *rest, ""]))
    with pytest.raises(StoreError, match=r"Line 2 of .* is not a run that diagnose has written there"):
        whence.Diagnosis(SPACE, store=tmp_path / "runs")


def test_runs_are_kept_for_their_owner_and_without_secrets(tmp_path: Path) -> None:
    def failing(config: Any) -> None:
        if config["a"] == 2:
            raise RuntimeError("cannot connect, password: hunter2hunter2")

    before = os.umask(0)
    try:
        d = whence.diagnose(failing, SPACE, budget=6, seed=0, store=tmp_path / "runs")
    finally:
        os.umask(before)
    assert (tmp_path / "runs").stat().st_mode & 0o777 == 0o600
    assert "hunter2" not in (tmp_path / "runs").read_text() + str(d.report()) + d.report().html
    assert "password: ***" in (tmp_path / "runs").read_text()
