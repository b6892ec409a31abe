"""Steps of a path that are put together answer as each of them does, and only where they may."""

from __future__ import annotations

import numpy as np
import pytest

from arrays.operators import Silent, Total
from arrays.oracle import Scripted, back, cells_of, forth
from whence.arrays import Mode, Workflow, ops, ways
from whence.arrays.execute import execute
from whence.arrays.folder import Shelf
from whence.arrays.ways import Jump
from whence.store.seal import Seal

SHAPE, TURNED = (4, 5), (5, 4)


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    monkeypatch.setattr(ways, "_EACH", 0.0)  # worth it however fast these few cells are run again
    return Shelf(tmp_path, Seal(["k" * 40]))


def random_relation(rng, shape, of, most):
    """Up to `most` cells for an output cell; some cells of both sides have none."""
    behind = cells_of(of)
    some = {out: rng.integers(0, most + 1) for out in cells_of(shape)}
    return {out: [{behind[k] for k in rng.choice(len(behind), n, replace=False)}] for out, n in some.items() if n}


def one_to_one(rng, shape):
    """Cells that go elsewhere, each to one; some go nowhere."""
    cells = cells_of(shape)
    pairs = list(zip(cells, rng.permutation(len(cells)), strict=True))
    return {cells[k]: [{cell}] for cell, k in pairs[: len(pairs) // 2]}


def long_way(rng):
    """x -> turned -> same -> moved -> many -> flipped, and what the two in the middle say."""
    wf = Workflow()
    moved, many = one_to_one(rng, TURNED), random_relation(rng, (3, 3), TURNED, 4)
    turned = wf.add(ops.Transpose(), wf.input("x"), name="turned")
    same = wf.add(ops.Elementwise(np.negative), turned, name="same")
    one = wf.add(Scripted(TURNED, moved, {Mode.FULL}, how="pairs"), same, name="moved")
    wf.add(
        ops.Flip(0),
        wf.add(Scripted((3, 3), many, {Mode.FULL, Mode.PAY}, how="grouped"), one, name="many"),
        name="flipped",
    )
    return wf, moved, many


def flipped(cells):
    return {(2 - a, b) for a, b in cells}


def jumps(run):
    return [step for steps in run._ways._known.values() for step in steps if isinstance(step, Jump)]


def joined(run):
    return [[leg.node.name for leg in jump.legs] for jump in jumps(run)]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_put_together_answers_as_its_steps_do(shelf, seed):
    rng = np.random.default_rng(seed)
    wf, moved, many = long_way(rng)
    both = ["FullOne", "FullOne:forward"]
    run = execute(shelf, wf, {"x": rng.random(SHAPE)}, {"moved": both, "many": both})
    back_path = ["flipped", "many", ("moved", 0), "same", "turned"]
    for cells in [[cell] for cell in cells_of((3, 3))] + [[], cells_of((3, 3))[2:], ...]:
        asked = set(cells_of((3, 3)) if cells is ... else cells)
        due = {(b, a) for a, b in back(moved, back(many, flipped(asked), 0), 0)}
        for optimise in (True, True, False):
            found = run.backward("flipped", cells, to="x", path=back_path, optimise=optimise)
            assert set(map(tuple, found.tolist())) == due
            assert len(found) == len(due)
            assert found.exact
    assert joined(run) == [["flipped", "many"], ["moved", "same", "turned"]]  # lists end it
    forth_path = ["turned", "same", "moved", "many", "flipped"]
    for cells in [[cell] for cell in cells_of(SHAPE)] + [[], cells_of(SHAPE)[3:], ...]:
        asked = set(cells_of(SHAPE) if cells is ... else cells)
        due = flipped(forth(many, forth(moved, {(b, a) for a, b in asked}, 0), 0))
        for optimise in (True, True, False):
            found = run.forward("x", cells, to="flipped", path=forth_path, optimise=optimise)
            assert set(map(tuple, found.tolist())) == due
    assert joined(run)[2:] == [["turned", "same", "moved", "many"]]


def test_nothing_is_put_together_that_has_something_to_say_or_takes_too_much(shelf, monkeypatch):
    rng = np.random.default_rng(1)
    wf, *_ = long_way(rng)
    wf.add(Silent(), wf["flipped"], name="unsaid")
    data = {"x": rng.random(SHAPE)}

    def asked(strategies, to="flipped", *more, **options):
        run = execute(shelf, wf, data, strategies)
        for _ in range(3):
            path = ["turned", "same", "moved", "many", "flipped", *more]
            found = run.forward("x", [(0, 0), (1, 2)], to=to, path=path, **options)
        return found, jumps(run)

    stored = {"moved": "FullOne:forward", "many": "FullOne:forward"}
    found, made = asked(stored)
    assert len(made) == 1
    widened, made = asked(stored, "unsaid", "unsaid")
    assert len(made) == 1
    assert not widened.exact
    for strategies in ("Blackbox", {"moved": "FullOne", "many": "FullMany:forward"}):  # nothing, or the other direction
        other, made = asked(strategies)
        assert (other.tolist(), made) == (found.tolist(), [])
    assert asked(stored, optimise=False)[1] == []
    other, made = asked({"moved": "FullOne:forward", "many": ["Interval", "PayOne:forward"]})
    assert (other.tolist(), len(made)) == (found.tolist(), 1)
    monkeypatch.setattr(ways, "_MOST_BYTES", 100)
    other, made = asked(stored)
    assert (other.tolist(), made) == (found.tolist(), [])


def test_a_whole_array_of_an_operator_that_says_what_that_means_goes_step_by_step(shelf):
    """Where the stored lineage says less than is promised, both ways tell the same."""
    wf = Workflow()
    turned = wf.add(ops.Transpose(), wf.input("x"), name="turned")
    op = Scripted(TURNED, {(0, 0): [{(0, 0)}]}, {Mode.FULL}, how="pairs")
    op.entire_array = True
    wf.add(Total(), wf.add(op, turned, name="one"), name="total")
    run = execute(shelf, wf, {"x": np.ones(SHAPE)}, {"one": "FullOne:forward"})
    for _ in range(3):
        assert len(run.forward("x", ..., to="one", path=["turned", "one"])) == 20
        assert run.forward("x", [(0, 0), (3, 3)], to="one", path=["turned", "one"]).tolist() == [[0, 0]]
    assert len(jumps(run)) == 1
