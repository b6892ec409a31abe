"""Runs in a store: through a session, in chunks on Spark, opened again by other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arrays.operators import Broken, CosmicRays, Silent, Total, Transposed, around_bright
from whence.arrays import Mode, OperatorFailed, UnknownRun, Workflow

IMAGE = np.random.default_rng(7).integers(0, 10, (9, 11)).astype(float)


@pytest.fixture
def workflow():
    wf = Workflow()
    x = wf.input("image")
    mask = wf.add(CosmicRays(), x, name="mask")
    flipped = wf.add(Transposed(), mask, name="flipped")
    wf.add(Total(), flipped, name="total")
    return wf


def test_a_complete_small_case(w, workflow):
    run = w.execute(workflow, {"image": IMAGE})
    assert (run["mask"] == (IMAGE > 8)).all()
    assert not run["image"].flags.writeable
    behind = around_bright(IMAGE)
    for cell in np.ndindex(IMAGE.T.shape):
        found = run.backward("flipped", [cell], to="image")
        assert set(map(tuple, found.tolist())) == behind[cell[::-1]]
        assert found.exact
    assert run.stats["mask"].strategies == ("Comp",)
    assert run.stats["mask"].bytes > 0
    assert 0 <= run.stats["mask"].overhead <= run.stats["mask"].seconds
    assert run.stats["flipped"].strategies == ("Map",)
    again = w.reopen(run.id)
    assert (again["flipped"] == run["flipped"]).all()
    assert again.backward("total", [()], to="image").shape == (99, 2)
    assert again.forward("image", [(0, 0)], to="total").tolist() == [[]]


@pytest.mark.parametrize(
    "text", ["FullOne", "FullMany:forward", "Interval", "PayOne", "PayMany", "Comp:forward", "Blackbox"]
)
def test_chunks_give_what_the_whole_gives(w, workflow, text):
    mode = {"F": Mode.FULL, "I": Mode.FULL, "P": Mode.PAY, "C": Mode.COMP, "B": Mode.FULL}[text[0]]
    workflow["mask"].operator.modes = {mode}
    small = w.execute(workflow, {"image": IMAGE}, {"mask": text})
    large = w.execute(workflow, {"image": IMAGE}, {"mask": text}, chunks=4)
    for name in ("image", "mask", "flipped", "total"):
        assert np.array_equal(np.asarray(large[name]), small[name]), name
        assert large[name][()].dtype == small[name].dtype
    for optimise in (True, False):
        for cells in [[(0, 0)], [(10, 8)], [(3, 4), (4, 3)], ...]:
            a = small.backward("flipped", cells, to="image", optimise=optimise)
            assert np.array_equal(a, large.backward("flipped", cells, to="image", optimise=optimise))
        for cells in [[(0, 0)], [(8, 10)], [(3, 4), (4, 3)], ...]:
            a = small.forward("image", cells, to="flipped", optimise=optimise)
            assert np.array_equal(a, large.forward("image", cells, to="flipped", optimise=optimise))
    again = w.reopen(large.id)
    assert np.array_equal(again["mask"][...], small["mask"])
    assert again.stats["mask"].strategies == (text,)


ELSEWHERE = """
import sys
from whence.arrays.folder import Shelf
from whence.arrays.run import Run
from whence.store.seal import Seal
from pathlib import Path
run = Run(Shelf(Path(sys.argv[1]), Seal()).open(sys.argv[2]))
assert "arrays.operators" not in sys.modules
print(run.backward("flipped", [(3, 4)], to="image").tolist(), run["mask"].sum(), run.workflow["mask"].operator.halo)
"""


def test_another_process_opens_it_without_the_users_modules(w, workflow, tmp_path):
    run = w.execute(workflow, {"image": IMAGE}, {"mask": "Blackbox"})
    told = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path / "store"), run.id],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )
    assert told.stdout.strip() == f"{run.backward('flipped', [(3, 4)], to='image').tolist()} {run['mask'].sum()} 1", (
        told.stderr
    )


def test_what_fails_leaves_nothing(w, tmp_path):
    wf = Workflow()
    wf.add(Broken(), wf.add(Silent(), wf.input("x")), name="bad")
    for chunks in (None, 2):
        with pytest.raises(OperatorFailed, match=r"bad \(Broken\).*the user's own") as failed:
            w.execute(wf, {"x": np.arange(3.0)}, chunks=chunks)
        assert isinstance(failed.value.__cause__, ZeroDivisionError)
    wf.nodes[-1].operator.halo = 0
    with pytest.raises(OperatorFailed, match="the user's own") as failed:
        w.execute(wf, {"x": np.arange(3.0)}, chunks=2)
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    assert os.listdir(tmp_path / "store" / "arrays") == []
    with pytest.raises(UnknownRun, match="20000101-000000-00000000"):
        w.reopen("20000101-000000-00000000")


def test_everything_is_its_owners(w, workflow, tmp_path):
    w.execute(workflow, {"image": IMAGE}, "FullOne")
    w.execute(workflow, {"image": IMAGE}, "FullOne", chunks=5)
    for place, directories, files in os.walk(tmp_path / "store" / "arrays"):
        for name in directories + files:
            assert os.stat(os.path.join(place, name)).st_mode & 0o077 == 0, os.path.join(place, name)
