"""Questions that were asked are tried again on every strategy: a plan is for them, not for cells drawn at random."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrays.operators import CosmicRays
from whence.arrays import Workflow, ops, remembered, trial
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
