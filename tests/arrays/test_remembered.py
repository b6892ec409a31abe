"""Questions that were asked are tried again on every strategy: a plan is for them, not for cells drawn at random."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrays.operators import CosmicRays, Total, Transposed
from arrays.oracle import Scripted
from whence.arrays import Mode, Workflow, ops, remembered, trial
from whence.arrays import access as accessing
from whence.arrays.access import ENTIRE
from whence.arrays.encodings import FORWARD, Strategy
from whence.arrays.execute import execute
from whence.arrays.folder import Shelf
from whence.arrays.planning import Arrays
from whence.store.seal import Seal
from whence.strategy import Question

IMAGE = np.random.default_rng(3).integers(0, 10, (6, 7)).astype(float)


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path, Seal(["k" * 40]))


def rays():
    wf = Workflow()
    wf.add(CosmicRays(), wf.add(ops.Transpose(), wf.input("x"), name="turned"), name="rays")
    return wf


@given(st.sets(st.integers(0, 1000), min_size=1), st.integers(0, 3))
def test_a_set_comes_back_as_it_was(cells, i):
    numbers = np.array(sorted(cells), np.int64)
    one = remembered.Set.of(numbers, i)
    assert one.cells.tolist() == numbers.tolist()
    assert one == remembered.Set.of(numbers, i) != remembered.Set.of(numbers, i + 1)


def test_a_plan_tries_the_questions_that_were_asked(shelf):
    wf = rays()
    run = execute(shelf, wf, {"x": IMAGE}, strategies="Blackbox")
    for cells in ([(1, 1)], [(1, 1)], [(2, 3), (2, 4), (5, 5)]):
        run.backward("rays", cells, to="x")
    kept = remembered.read(run.folder.path, 2, "backward")
    assert [one.cells.tolist() for one in kept] == [[7], [15, 16, 35]]  # each once, of 7 x 6 cells
    assert remembered.read(run.folder.path, 1, "backward") == []  # map functions: nothing is chosen

    asked = [Question("backward", frozenset({"rays", "turned"}))]
    Arrays(shelf, wf).costs(asked, {})
    tried = trial.read(run.folder.path)["rays"]
    real = [told for told in tried.answered if told.real]
    assert tried.tried == 2
    assert {told.strategy for told in real} >= {"FullOne", "FullMany:forward", "PayOne", "Comp"}
    assert {(told.direction, told.asked) for told in real} == {("backward", 1), ("backward", 3)}
    again = execute(shelf, wf, {"x": IMAGE})
    Arrays(shelf, wf).costs(asked, {})
    assert trial.read(again.folder.path)["rays"] == tried  # what is known goes with the newest run


def test_no_more_than_some_are_kept(shelf):
    run = execute(shelf, rays(), {"x": IMAGE})
    for number in range(3 * remembered.MOST):
        run.backward("rays", [(0, 1), (number % 7, number % 6)], to="x")
    assert len(remembered.read(run.folder.path, 2, "backward")) == remembered.MOST


def lines(run):
    return [json.loads(line) for line in (run.folder.path / "asked.jsonl").read_text().splitlines()]


def test_what_questions_took_is_written_now_and_then_and_before_it_is_read(shelf):
    wf = Workflow()
    wf.add(Transposed(), wf.input("x"), name="y")
    run = execute(shelf, wf, {"x": IMAGE})
    run._settled = float("inf")  # as if it had just been written
    for _ in range(3):
        run.backward("y", [(0, 0)], to="x")
    assert not (run.folder.path / "asked.jsonl").exists()
    Arrays(shelf, wf)
    assert [line["strategy"] for line in lines(run)] == ["Map"] * 3
    run._settled = float("-inf")
    run.backward("y", [(0, 0)], to="x")
    assert len(lines(run)) == 4
    assert len(run.observed[run.workflow["y"]].answered) == 4


def test_a_whole_array_is_told_as_such_and_costs_its_plan_nothing(shelf):
    wf = Workflow()
    wf.add(Total(), wf.input("x"), name="total")
    run = execute(shelf, wf, {"x": IMAGE}, "Blackbox")
    run.forward("x", ..., to="total")
    assert [told.strategy for told in run.observed[run.workflow["total"]].answered] == [ENTIRE]
    costs = Arrays(shelf, wf).costs([Question(FORWARD, frozenset({"total"}))], {})["total"]
    assert costs["Blackbox"].forward == costs["FullOne"].forward  # it is never run again for a whole array


def test_look_ups_that_take_longer_than_a_rerun_are_left_after_two(shelf, monkeypatch):
    """Without a clock: what is noticed is told, and nothing is given up half-way."""
    monkeypatch.setattr(accessing, "_SHORT", math.inf)
    monkeypatch.setattr(accessing, "_HICCUP", math.inf)
    wf = Workflow()
    wf.add(CosmicRays(), wf.input("x"), name="y")
    run = execute(shelf, wf, {"x": IMAGE}, {"y": "PayOne"})
    access, strategy = run._access(run.workflow["y"]), Strategy("PayOne")
    access._rerun_seconds = 0.0005

    def asked():
        run.forward("x", [(0, 1)], to="y")
        return run.observed[run.workflow["y"]].answered[0].strategy

    access._noticed(strategy, FORWARD, 1, 0.004)
    assert asked() == "PayOne"  # once may be the machine
    access._slow.clear()
    for _ in range(2):
        access._noticed(strategy, FORWARD, 1, 0.004)
    assert asked() == "Blackbox"
    access._rerun_seconds = 0.1  # a rerun turned out to take longer than what is stored does
    assert asked() == "PayOne"
    assert (strategy, FORWARD) not in access._slow


def test_what_a_run_remembers_is_read_once(shelf, monkeypatch):
    reads, read = [], remembered.read
    monkeypatch.setattr(remembered, "read", lambda *at: reads.append(at) or read(*at))
    run = execute(shelf, rays(), {"x": IMAGE})
    for number in range(3):
        run.backward("rays", [(0, number)], to="x")
    assert len(reads) == 1
    assert len(read(run.folder.path, 2, "backward")) == 3


@pytest.mark.parametrize(("noise", "times"), [(-1.0, 2), (math.inf, 1)])
def test_what_an_operator_does_for_its_lineage_is_looked_at_twice_where_it_shows(shelf, monkeypatch, noise, times):
    monkeypatch.setattr(trial, "_NOISE", noise)
    monkeypatch.setattr(trial, "_JITTER", -math.inf)
    wf = Workflow()
    op = Scripted((6,), {(0,): [{(1,)}]}, {Mode.FULL})
    wf.add(op, wf.input("x"), name="y")
    run = execute(shelf, wf, {"x": np.arange(6.0)}, "Blackbox")
    op.runs.clear()
    trial.tried(wf["y"], run.observed[run.workflow["y"]], ["FullOne", "FullOne:forward"], run)
    assert [modes for modes in op.runs if Mode.FULL in modes] == [{Mode.FULL}] * times
