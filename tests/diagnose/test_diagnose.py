"""whence.diagnose end to end, on pipelines whose causes are known."""

from __future__ import annotations

import decimal
import os
import signal
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from rich.console import Console

import whence
from whence.debug.diagnose import Diagnosis, Run, Space
from whence.debug.diagnose.causes import Box, box_of
from whence.debug.diagnose.lattice import explain, terms_for
from whence.debug.diagnose.progress import Bar
from whence.debug.diagnose.shapes import shapes_of

SPACE = {
    "lr": [0.001, 0.01, 0.1, 1.0, 10.0],
    "depth": list(range(1, 13)),
    "solver": ["sgd", "adam", "lbfgs", "newton"],
    "shuffle": [True, False],
    "batch": [16, 32, 64, 128, 256],
    "folds": [2, 3, 5, 10],
}


def boxes(d: Diagnosis) -> set[Box]:
    return {box_of(c.conditions, d.space) for c in d.causes}


def wanted(*causes: list[tuple[str, str, object]]) -> set[Box]:
    return {box_of(c, Space.of(SPACE)) for c in causes}


def overlapping(c: dict[str, object]) -> bool:
    """Two conjunctions that share a parameter and overlap."""
    return not ((c["lr"] >= 1.0 and c["solver"] == "sgd") or (c["lr"] >= 0.1 and c["depth"] > 9 and c["shuffle"]))  # type: ignore[operator]


OVERLAPPING = wanted(
    [("lr", ">=", 1.0), ("solver", "==", "sgd")], [("lr", ">=", 0.1), ("depth", ">", 9), ("shuffle", "==", True)]
)


def test_overlapping_conjunctions_are_told_apart_and_confirmed() -> None:
    d = whence.diagnose(overlapping, SPACE, seed=1)
    assert boxes(d) == OVERLAPPING
    assert {c.status for c in d.causes} == {"confirmed"}
    for cause in d.causes:
        assert cause.evidence.failed > 3
        assert cause.evidence.succeeded == 0
        assert cause.evidence.values_tried == 1.0
        for condition, run in cause.evidence.near_misses:
            assert run is not None
            config, ok = d.history[run]
            assert ok
            assert not condition.holds(config)
            assert all(c.holds(config) for c in cause.conditions if c.parameter != condition.parameter)


def test_it_makes_no_run_twice_and_keeps_to_the_budget() -> None:
    d = whence.diagnose(overlapping, SPACE, budget=40, seed=2)
    assert d.executions == len(d.history) == 40
    assert len({tuple(c.values()) for c, _ in d.history}) == 40


def test_the_same_seed_gives_the_same_runs() -> None:
    first, second = (whence.diagnose(overlapping, SPACE, budget=25, seed=5) for _ in range(2))
    assert first.history == second.history
    assert first.causes == second.causes


def test_exceptions_results_and_evaluate() -> None:
    def raising(c: dict[str, object]) -> None:
        if c["solver"] == "newton":
            raise ZeroDivisionError("singular matrix")

    d = whence.diagnose(raising, SPACE, budget=60, seed=0)
    assert boxes(d) == wanted([("solver", "==", "newton")])
    assert d.causes[0].kind == "ZeroDivisionError: singular matrix"
    scored = whence.diagnose(
        lambda c: 0.2 if c["solver"] == "newton" else 0.9, SPACE, evaluate=lambda score: score >= 0.6, budget=60, seed=0
    )
    assert boxes(scored) == wanted([("solver", "==", "newton")])


def test_budget_0_explains_the_history_and_says_that_nothing_was_tested() -> None:
    rng = np.random.default_rng(0)
    space = Space.of(SPACE)
    configs = [space.decode([int(rng.integers(s)) for s in space.sizes]) for _ in range(150)]
    d = whence.diagnose(None, SPACE, [(c, c["depth"] <= 8) for c in configs], budget=0, seed=0)  # type: ignore[operator]
    assert boxes(d) == wanted([("depth", ">", 8)])
    assert d.executions == 0
    assert d.observation_only
    assert {c.status for c in d.causes} == {"consistent"}
    assert "Observation only" in str(d.report())


def test_kinds_of_failure_are_told_apart_by_their_errors() -> None:
    """Data Polygamy (section 4.5): R.1 to R.4 as the code checks them, percentage first. That the percentage is in
    order is no part of the other causes: without it the run fails too, only earlier (definition 5)."""

    def polygamy(c: dict[str, int]) -> None:
        if c["percentage"] < 0 or c["percentage"] > 50:
            raise ValueError(f"percentage {c['percentage']} is out of range")
        if c["diff"] < 0:
            raise IndexError("diff before the start")
        if c["diff"] > 100:
            raise IndexError("diff past the end")

    space = {"percentage": list(range(-20, 80, 5)), "diff": list(range(-40, 160, 10)), "sync": [True, False]}
    d = whence.diagnose(polygamy, space, budget=150, seed=0)
    found = {(c.kind, box_of(c.conditions, d.space)) for c in d.causes}
    assert found == {
        ("ValueError: percentage # is out of range", box_of([("percentage", "<", 0)], d.space)),
        ("ValueError: percentage # is out of range", box_of([("percentage", ">", 50)], d.space)),
        ("IndexError: diff before the start", box_of([("diff", "<", 0)], d.space)),
        ("IndexError: diff past the end", box_of([("diff", ">", 100)], d.space)),
    }


def test_a_failure_without_an_error_among_kinds_that_have_one() -> None:
    """A history often says only that a run failed: such a run is no cause of its own when a known one holds it."""

    def pipeline(c: dict[str, float]) -> None:
        if c["depth"] > 6:
            raise MemoryError("no room")
        assert not (c["lr"] > 0.5 and c["solver"] == "sgd"), "diverged"

    space = {"lr": [0.1, 0.4, 0.7, 1.0], "solver": ["sgd", "adam", "lbfgs"], "depth": [2, 4, 6, 8, 10]}
    history = [({"lr": 1.0, "solver": "sgd", "depth": 2}, False), ({"lr": 0.1, "solver": "adam", "depth": 2}, True)]
    d = whence.diagnose(pipeline, space, history, budget=50, seed=1)
    assert {(str(c), c.kind, c.status) for c in d.causes} == {
        ("depth >= 8", "MemoryError: no room", "confirmed"),
        ("lr >= 0.7 and solver == 'sgd'", "AssertionError: diverged", "confirmed"),
    }
    assert all(c.evidence.values_tried == 1.0 for c in d.causes)


def test_a_cause_shows_an_error_only_where_a_run_did() -> None:
    """Results that are wrong stand beside one kind of error: no run of theirs raised it."""

    def job(c: dict[str, object]) -> int:
        if c["ansi"]:
            raise ArithmeticError("overflow")
        return 5 if c["zone"] == "west" else 19

    space = {"ansi": [True, False], "zone": ["east", "mid", "west"], "parts": [1, 2, 4], "aqe": [True, False]}
    d = whence.diagnose(job, space, evaluate=lambda total: total == 19, seed=3)
    assert {(str(c), c.kind) for c in d.causes} == {
        ("ansi == True", "ArithmeticError: overflow"),
        ("zone == 'west'", None),
    }


def test_too_many_errors_become_fewer_kinds() -> None:
    words = iter("abcdefghijklmnopqrstuvwxyz" * 40)

    def noisy(c: dict[str, object]) -> None:
        if c["solver"] == "sgd":
            raise ValueError(f"trace {next(words)}")

    d = whence.diagnose(noisy, SPACE, budget=60, seed=0)
    assert d.kinds == ("ValueError",)
    assert boxes(d) == wanted([("solver", "==", "sgd")])


def test_flaky_pipelines() -> None:
    rng = np.random.default_rng(3)

    def flaky(c: dict[str, object]) -> bool:
        ok = not (c["lr"] >= 1.0 and c["solver"] == "sgd")  # type: ignore[operator]
        return ok if rng.random() > 0.05 else not ok

    d = whence.diagnose(flaky, SPACE, budget=200, flaky=True, seed=0)
    assert boxes(d) == wanted([("lr", ">=", 1.0), ("solver", "==", "sgd")])
    assert 0.5 < d.causes[0].confidence <= 1


def test_constraints_are_kept_and_cost_nothing() -> None:
    def valid(c: dict[str, object]) -> bool:
        return not (c["solver"] == "newton" and c["batch"] < 64)  # type: ignore[operator]

    tried: list[dict[str, object]] = []

    def pipeline(c: dict[str, object]) -> bool:
        tried.append(c)
        return not (c["solver"] == "newton" and c["depth"] >= 6)  # type: ignore[operator]

    d = whence.diagnose(pipeline, SPACE, budget=80, valid=valid, seed=0)
    assert all(valid(c) for c in tried)
    assert len(tried) == d.executions <= 80
    assert wanted([("solver", "==", "newton"), ("depth", ">=", 6)]) == boxes(d)


def test_cheap_runs_are_preferred() -> None:
    def cost(c: dict[str, object]) -> float:
        return 50.0 if c["folds"] == 10 else 1.0

    dear = whence.diagnose(overlapping, SPACE, budget=40, seed=1, cost=cost)
    plain = whence.diagnose(overlapping, SPACE, budget=40, seed=1)
    assert sum(c["folds"] == 10 for c, _ in dear.history) < sum(c["folds"] == 10 for c, _ in plain.history)


def test_goal_one_stops_at_the_first_confirmed_cause() -> None:
    d = whence.diagnose(overlapping, SPACE, budget=300, goal="one", seed=1)
    everything = whence.diagnose(overlapping, SPACE, budget=300, seed=1)
    assert boxes(d) <= OVERLAPPING
    assert any(c.status == "confirmed" for c in d.causes)
    assert d.executions < everything.executions


def test_workers_make_the_same_discoveries() -> None:
    d = whence.diagnose(overlapping, SPACE, budget=120, workers=2, seed=1)
    assert boxes(d) == OVERLAPPING
    assert d.executions <= 120


def test_a_run_that_takes_too_long_or_kills_its_process_is_a_failure() -> None:
    def pipeline(c: dict[str, object]) -> bool:
        if c["solver"] == "sgd":
            signal.pause()  # it hangs until it is ended
        if c["solver"] == "newton":
            os._exit(3)
        return True

    d = whence.diagnose(pipeline, {k: SPACE[k] for k in ("solver", "shuffle")}, timeout=3, workers=2, budget=8, seed=0)
    errors = {run.config["solver"]: run.error for run in d.runs}
    assert errors["adam"] is None
    assert str(errors["sgd"]).startswith("TimeOut")
    assert "exit code 3" in str(errors["newton"])


def test_runs_that_a_refuted_cause_no_longer_needs_are_cancelled() -> None:
    """Three runs are asked for at a time; when the first refutes a cause, those that would test it are dropped."""
    d = Diagnosis(SPACE, [({**{n: v[0] for n, v in SPACE.items()}, "solver": "adam"}, True)], seed=0, budget=100)
    fail = {n: v[-1] for n, v in SPACE.items()}
    d.tell(fail, False)
    cancelled = []
    for _ in range(60):
        asked = d.ask(3)
        if not asked:
            break
        d.tell(asked[0], overlapping(asked[0]))
        for config in d.obsolete():
            assert config in asked[1:]
            d.drop(config)
            cancelled.append(config)
        for config in asked[1:]:
            if config not in cancelled:
                d.tell(config, overlapping(config))
    assert cancelled
    assert d.cancelled == len(cancelled)


def test_runs_on_spark(spark: SparkSession) -> None:
    def pipeline(c: dict[str, object]) -> bool:  # sent by value: executors cannot import a test's module
        return not (c["lr"] >= 1.0 and c["solver"] == "sgd")  # type: ignore[operator]

    d = whence.diagnose(pipeline, SPACE, budget=12, workers=2, spark=spark, seed=0)
    assert d.executions == 12
    assert all(ok == pipeline(config) for config, ok in d.history)


def test_ask_and_tell() -> None:
    d = whence.Diagnosis(SPACE, budget=60, seed=4)
    while configs := d.ask(2):
        assert len(configs) <= 2
        for config in configs:
            d.tell(config, overlapping(config))
    assert d.executions == 60
    assert d.ask() == []


def test_told_runs_that_were_not_asked_for_count_too() -> None:
    d = whence.Diagnosis(SPACE, seed=0)
    config = d.space.decode([0] * 6)
    d.tell(config, True, seconds=1.5)
    assert d.runs == (Run(config, True, None, 1.5, "told", ""),)


def test_an_interrupted_diagnosis_goes_on_where_it_was(tmp_path: Path) -> None:
    store = tmp_path / "deep" / "runs.jsonl"
    first = whence.diagnose(overlapping, SPACE, budget=30, seed=1, store=store)
    calls: list[object] = []

    def counted(c: dict[str, object]) -> bool:
        calls.append(c)
        return overlapping(c)

    second = whence.diagnose(counted, SPACE, budget=100, seed=1, store=store)
    assert second.executions <= 100
    assert len(calls) == second.executions - 30
    assert second.history[:30] == first.history
    assert boxes(second) == OVERLAPPING


def test_the_report_tells_the_evidence_in_words_and_as_a_page(tmp_path: Path) -> None:
    d = whence.diagnose(overlapping, SPACE, budget=90, seed=1)
    text = str(d.report())
    assert "It fails when lr is at least 1.0 and solver is sgd." in text
    assert "Without solver is sgd it succeeded: run" in text
    assert "Decision tree of the runs:" in text
    page = d.report().save(tmp_path / "why.html").read_text()
    assert page.count("<tr>") == len(d.history) + 1
    assert "It fails when lr is at least 1.0 and solver is sgd." in page
    assert page.count("<polyline") == 2, "hypotheses left, and bits"
    assert max(left for _, _, left in d.progress) > d.progress[-1][2], "the hypotheses became fewer"
    assert "http" not in page, "one file, nothing fetched"


def test_the_terminal_says_how_far_it_is() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=160)
    with Bar(console) as bar:
        d = whence.diagnose(overlapping, SPACE, budget=12, seed=1, progress=bar.show)
    failed = sum(not ok for _, ok in d.history)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"12 runs ({failed} failed), 0 left in the budget, {d.progress[-1][2]} hypotheses" in shown
    assert whence.diagnose(overlapping, SPACE, budget=3, seed=1, progress=True).executions == 3


def test_a_threshold_is_found_by_bisection() -> None:
    space = {"size": list(range(60)), "on": [True, False]}
    history = [({"size": 0, "on": True}, True), ({"size": 59, "on": True}, False)]
    d = whence.diagnose(lambda c: c["size"] < 23, space, history, budget=11, seed=0)
    assert {box_of(c.conditions, d.space) for c in d.causes} == {box_of([("size", ">=", 23)], d.space)}


def test_a_single_configuration_that_fails_is_a_cause() -> None:
    space = {"a": [f"a{i}" for i in range(15)], "b": list(range(26)), "c": [f"c{i}" for i in range(9)]}
    culprit = {"a": "a8", "b": 22, "c": "c6"}
    good = {"a": "a3", "b": 13, "c": "c1"}
    d = whence.diagnose(lambda config: config != culprit, space, [(culprit, False), (good, True)], budget=200, seed=1)
    (cause,) = d.causes
    assert {str(condition) for condition in cause.conditions} == {"a == 'a8'", "b == 22", "c == 'c6'"}


def test_fifty_parameters() -> None:
    space = {f"p{i}": list(range(6)) for i in range(50)}
    d = whence.diagnose(lambda c: not (c["p7"] >= 3 and c["p33"] == 2), space, budget=60, seed=0)
    assert {box_of(c.conditions, d.space) for c in d.causes} == {box_of([("p7", ">=", 3), ("p33", "==", 2)], d.space)}


def test_exact_search_returns_the_most_plausible_terms_first() -> None:
    space = Space.of({"a": [1, 2, 3, 4, 5], "b": ["x", "y", "z"], "c": [True, False]})
    shapes = [shapes_of(p, 0.3) for p in space.parameters]
    passed = [(0, 0, 0), (1, 1, 0), (2, 2, 0)]
    found = terms_for(shapes, (4, 0, 0), passed)
    costs = [t.cost for t in found]
    assert costs == sorted(costs)
    assert all(t.holds((4, 0, 0), shapes) and not any(t.holds(g, shapes) for g in passed) for t in found)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 40))
def test_exact_search_agrees_with_every_run(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    space = Space.of({"a": list(range(6)), "b": ["x", "y", "z"], "c": [True, False], "d": list(range(4))})
    shapes = [shapes_of(p, 0.3) for p in space.parameters]
    runs = {tuple(int(rng.integers(s)) for s in space.sizes) for _ in range(count)}
    failing = [c for c in sorted(runs) if (c[0] >= 3 and c[1] == 0) or c[3] == 1]
    passed = [c for c in sorted(runs) if c not in failing]
    terms = explain(shapes, failing, passed, 2.0)
    for codes in runs:
        assert any(t.holds(codes, shapes) for t in terms) == (codes in failing)


def test_lists_dates_and_booleans_as_values() -> None:
    space = {"layers": [[8], [8, 8], [16, 16, 16]], "on": [True, False], "n": [1, 2, 3]}
    d = whence.diagnose(lambda c: not (c["layers"] == [8, 8] and c["on"]), space, seed=0)
    (cause,) = d.causes
    assert {(c.parameter, c.op, str(c.value)) for c in cause.conditions} == {
        ("layers", "==", "[8, 8]"),
        ("on", "==", "True"),
    }


def test_values_and_outcomes_of_numpy_and_pandas() -> None:
    """A comparison of numpy's numbers is numpy's False; two NaN are one value; a dict has no order."""
    d = whence.diagnose(lambda c: c["a"] < 3, {"a": np.arange(6), "b": np.array([True, False])}, seed=1)
    assert [str(c) for c in d.causes] == ["a >= 3"]
    space = {
        "x": [1.0, float("nan"), decimal.Decimal("sNaN")],
        "on": [True, False],
        "how": [{"p": 1, "q": 2}, {"p": 2}],
    }
    runs = [
        ({"x": np.float64("nan"), "on": np.True_, "how": {"q": 2, "p": 1}}, np.False_),
        ({"x": 1, "on": np.True_, "how": {"q": 2, "p": 1}}, np.True_),
        ({"x": np.nan, "on": np.False_, "how": {"p": 2}}, 0),
    ]
    assert [str(c) for c in whence.diagnose(None, space, runs, budget=0).causes] == ["x == nan"]
    missing = whence.diagnose(lambda c: c["a"] is not pd.NA, {"a": [pd.NA, 1, 2], "b": [1, 2]}, seed=1)
    assert [str(c) for c in missing.causes] == ["a == <NA>"]


def test_ways_to_fail_that_are_no_exception() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def pipeline(config: dict[str, int]) -> None:
        if config["a"] == 1:
            sys.exit(3)
        if config["a"] == 2:
            raise Unspeakable
        if config["a"] == 3:
            sys.exit()

    d = whence.diagnose(pipeline, {"a": [1, 2, 3, 4], "b": [1, 2]}, seed=1)
    errors = {(run.config["a"], run.error) for run in d.runs}
    assert errors == {(1, "SystemExit: 3"), (2, "Unspeakable: (its message cannot be shown)"), (3, None), (4, None)}
    assert all(run.succeeded == (run.config["a"] > 2) for run in d.runs)


def test_a_parameter_with_one_value_is_never_a_cause() -> None:
    d = whence.diagnose(lambda c: c["a"] != 2, {"a": [1, 2, 3], "fixed": ["only"]}, seed=0)
    assert [str(c) for c in d.causes] == ["a == 2"]


@pytest.mark.parametrize("bad", ["maybe", ""])
def test_unknown_outcome_words(bad: str) -> None:
    from whence.debug.diagnose.sources import succeeded

    with pytest.raises(whence.WhenceError, match="neither success nor failure"):
        succeeded(bad, "status")


@pytest.mark.parametrize("fails", [lambda c: c["p3"] != "v17", lambda c: c["p3"] == "v17"])
@pytest.mark.parametrize("seed", range(2))
def test_until_both_outcomes_are_known_each_run_tries_values_that_none_has_tried(
    fails: Callable[[dict[str, str]], bool], seed: int
) -> None:
    """Of 30 values a single one may be all that succeeds, or all that fails: 30 runs meet it, whatever else they do."""
    space = {f"p{i}": [f"v{v}" for v in range(30)] for i in range(5)}
    d = Diagnosis(space, budget=30, seed=seed)
    while len({ok for _, ok in d.history}) < 2 and (asked := d.ask()):
        d.tell(asked[0], not fails(asked[0]))
    assert len({ok for _, ok in d.history}) == 2
