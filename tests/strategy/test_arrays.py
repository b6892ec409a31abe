"""Plans for array workflows: costs from runs, trials and queries; what is chosen is what an execution keeps."""

from __future__ import annotations

from itertools import chain, combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whence
from whence.arrays import Mode, Operator, Workflow, ops
from whence.strategy import NoSuchStep, Unreachable

SIDE = 40


class Peaks(Operator):
    """A cell above its neighbours depends on all nine, any other on itself."""

    def supported_modes(self) -> set[Mode]:
        return {Mode.FULL, Mode.PAY, Mode.COMP}

    def run(self, image: np.ndarray, cur_modes: frozenset[Mode]) -> np.ndarray:
        near = np.max([np.roll(image, (r, c), (0, 1)) for r in (-1, 0, 1) for c in (-1, 0, 1) if r or c], axis=0)
        peaks = image > near
        for cell in np.ndindex(image.shape) if Mode.FULL in cur_modes else ():
            self.lwrite([cell], self.around(cell, 1 if peaks[cell] else 0))
        for cell in np.ndindex(image.shape) if Mode.PAY in cur_modes else ():
            self.lwrite([cell], payload=int(peaks[cell]))
        for cell in map(tuple, np.argwhere(peaks)) if Mode.COMP in cur_modes else ():
            self.lwrite([cell], payload=1)
        return peaks.astype(float)

    def around(self, cell: tuple[int, ...], radius: int) -> list[tuple[int, int]]:
        sides = range(-radius, radius + 1)
        return [(int((cell[0] + r) % SIDE), int((cell[1] + c) % SIDE)) for r in sides for c in sides]

    def map_b(self, outcell: tuple[int, ...], i: int) -> list[tuple[int, ...]]:
        return [outcell]

    def map_p(self, outcell: tuple[int, ...], payload: Any, i: int) -> list[tuple[int, int]]:
        return self.around(outcell, payload)


class Silent(Operator):
    def run(self, image: np.ndarray, cur_modes: frozenset[Mode]) -> np.ndarray:
        return image - image.mean()


def workflow() -> Workflow:
    wf = Workflow()
    image = wf.input("image")
    flat = wf.add(Silent(), wf.add(ops.Elementwise(np.sqrt), image, name="root"), name="flat")
    peaks = wf.add(Peaks(), flat, name="peaks")
    wf.add(ops.Transpose(), peaks, name="turned")
    return wf


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(1).random((SIDE, SIDE))


BOTH = [("backward", "turned", "image"), ("forward", "image", "peaks", 0.5)]


def test_a_plan_is_optimal_over_its_costs_and_an_execution_keeps_what_it_says(
    w: whence.Session, image: np.ndarray
) -> None:
    wf = workflow()
    first = w.execute(wf, {"image": image})
    first.backward("turned", [(3, 4)], to="flat")
    for limit_disk, limit_runtime in ((None, None), (3000, None), (20_000, 0.002), (0, 0)):
        plan = w.strategy(limit_disk, limit_runtime, BOTH, workflow=wf)
        assert plan["root"] == plan["turned"] == ("Map",)
        assert plan["flat"] == ("Blackbox",)
        assert set(plan.costs["root"]) == {"Map"}
        best = least(plan, limit_disk, limit_runtime)
        assert plan.query == pytest.approx(best)
        run = w.execute(wf, {"image": image}, strategies=plan)
        for node in ("root", "flat", "peaks", "turned"):
            assert run.stats[node].strategies == plan[node] == plan[wf[node]]
        assert (run.backward("turned", [(3, 4)], to="flat") == first.backward("turned", [(3, 4)], to="flat")).all()
    assert str(plan).count("\n") == 6


def least(plan: Any, limit_disk: float | None, limit_runtime: float | None) -> float:
    """The contract's sum, for every subset of every operator's strategies."""
    steps = list(plan.costs)
    ways = [
        list(chain.from_iterable(combinations(plan.costs[s], n) for n in range(1, min(len(plan.costs[s]), 3) + 1)))
        for s in steps
    ]
    on = {"backward": {"turned", "peaks", "flat", "root"}, "forward": {"peaks", "flat", "root"}}
    best = np.inf
    for picked in product(*ways):
        kept = {s: [plan.costs[s][n] for n in names] for s, names in zip(steps, picked, strict=True)}
        if limit_disk is not None and sum(c.disk for each in kept.values() for c in each) > limit_disk:
            continue
        if limit_runtime is not None and sum(c.runtime for each in kept.values() for c in each) > limit_runtime:
            continue
        backward = sum(min(c.backward for c in kept[s]) for s in on["backward"])
        forward = sum(min(c.forward for c in kept[s]) for s in on["forward"])
        best = min(best, backward * 2 / 3 + forward / 3)
    return best


def test_disk_is_predicted_for_every_strategy_as_it_comes_out(w: whence.Session, image: np.ndarray) -> None:
    wf = workflow()
    w.execute(wf, {"image": image}, strategies="Blackbox")
    encodings = ("FullOne", "FullMany", "Interval", "PayOne", "PayMany", "Comp")
    for text in (*encodings, *(f"{encoding}:forward" for encoding in encodings)):
        plan = w.strategy(workload=[("backward", "peaks", "flat")], workflow=wf, force={"peaks": text})
        run = w.execute(wf, {"image": image}, strategies=plan)
        assert plan.disk == run.stats["peaks"].bytes > 0, text


def test_equal_statistics_give_equal_plans_and_queries_refine_them(w: whence.Session, image: np.ndarray) -> None:
    wf = workflow()
    run = w.execute(wf, {"image": image})
    one, other = (w.strategy(workload=BOTH, workflow=wf) for _ in range(2))
    assert one == other
    run.backward("turned", ..., to="peaks")
    refined = w.strategy(workload=BOTH, workflow=wf)
    assert refined.costs["turned"] != one.costs["turned"]  # questions turned out larger than was thought
    assert refined == w.strategy(workload=BOTH, workflow=wf)
    node = wf["peaks"]
    asked = [("backward", node, wf["flat"])]
    assert w.strategy(workload=asked) == w.strategy(workload=asked, workflow=wf)  # its workflow is known


def test_what_is_forced_is_kept_also_beside_map_functions(w: whence.Session, image: np.ndarray) -> None:
    wf = workflow()
    w.execute(wf, {"image": image})
    force = {wf["turned"]: "FullOne", "peaks": ["PayOne", "FullOne:forward"]}
    plan = w.strategy(workload=BOTH, workflow=wf, force=force)
    assert plan["turned"] == ("FullOne",)
    assert plan["peaks"] == ("PayOne", "FullOne:forward")
    run = w.execute(wf, {"image": image}, strategies=plan)
    assert plan.disk == sum(run.stats[s].bytes for s in plan)
    with pytest.raises(Unreachable, match="with what was forced keeps within the limit on disk of 10 bytes: the least"):
        w.strategy(limit_disk=10, workload=BOTH, workflow=wf, force=force)


def test_bad_input_is_a_sentence(w: whence.Session, image: np.ndarray, tmp_path: Path) -> None:
    wf = workflow()
    with pytest.raises(ValueError, match="No run of this workflow is in this store"):
        w.strategy(workload=BOTH, workflow=wf)
    w.execute(wf, {"image": image})
    for wrong, error, says in [
        ({"force": {"peaks": "Magic"}}, ValueError, "no strategy 'Magic'"),
        ({"force": {"flat": "FullOne"}}, ValueError, "FullOne for flat, which cannot keep it: its modes are blackbox"),
        ({"force": {"image": "Map"}}, LookupError, "'image', which is no operator"),
        ({"workload": [("backward", "moon", "image")]}, LookupError, "no step 'moon'"),
        ({"workload": [("backward", "image", "turned")]}, ValueError, "No way leads backward from image to turned"),
        ({"workload": [("backward", "turned", "image", -2)]}, ValueError, "weight of a question"),
        ({"workload": [("around", "turned", "image")]}, ValueError, "the direction 'backward' or 'forward'"),
        ({"limit_disk": -5}, ValueError, "limit_disk is a number of bytes"),
    ]:
        with pytest.raises(error, match=says):
            w.strategy(**{"workload": BOTH, "workflow": wf, **wrong})
    with pytest.raises(NoSuchStep, match="says nothing of 'moon'"):
        w.strategy(workload=BOTH, workflow=wf)["moon"]
