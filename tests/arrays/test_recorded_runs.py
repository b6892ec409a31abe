"""Recorded numpy code and built-in operators in runs: executed, asked, opened again, run on other data."""

import numpy as np
import pytest

from arrays.lineage import back, cells, some
from whence.arrays import OperatorFailed, Workflow, asarray, ops
from whence.arrays.execute import execute
from whence.arrays.folder import Shelf
from whence.arrays.run import Run
from whence.store.seal import Seal


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path, Seal())


def asked(run, node, to, backward=True):
    """The pairs that a run tells of, cell by cell."""
    pairs = set()
    for cell in cells(run.shape(node if backward else to)):
        found = run.backward(node, [cell], to=to) if backward else run.forward(to, [cell], to=node)
        assert found.exact
        for other in map(tuple, found.tolist()):
            pairs.add((cell, other) if backward else (other, cell))
    return pairs


def program(image, dark):
    clean = np.clip(image - dark, 0, None)
    smooth = (clean + np.roll(clean, 1, axis=0) + np.roll(clean, -1, axis=0)) / 3
    bright = np.where(smooth > smooth.mean(), clean, 0)
    ranked = np.sort(bright, axis=1)[:, ::-1]
    return clean, bright, ranked, ranked[:, :2].sum(axis=1), clean[clean > 1], np.linalg.svd(clean)[1]


@pytest.mark.parametrize("strategies", [None, "FullOne", "Interval:forward", "Blackbox"])
def test_a_program(shelf, strategies):
    image, dark = asarray(some((4, 5)), name="image"), asarray(some((5,)) / 9, name="dark")
    results = program(image, dark)
    run = execute(shelf, list(results), strategies=strategies)
    again = Run(shelf.open(run.id))
    for result, plain in zip(results, program(np.asarray(image), np.asarray(dark)), strict=True):
        np.testing.assert_array_equal(run[result], plain)
        np.testing.assert_array_equal(again[result.name], plain)
    for result in results[2:] if strategies is None else results[3:4]:
        _, due = back(result, [image, dark])
        for source, pairs in zip((image, dark), due, strict=True):
            assert asked(run, result, source) == pairs
            assert asked(again, result.name, source.name, backward=False) == pairs
    assert run.backward(results[3], [(0,)], to=results[3]).tolist() == [[0]]


def test_other_data(shelf):
    image, dark = asarray(some((4, 5)), name="image"), asarray(some((5,)) / 9, name="dark")
    results = program(image, dark)
    other = some((3, 5)) * 2
    run = execute(shelf, list(results), {"image": other})
    due = program(other, np.asarray(dark))
    for result, plain in zip(results, due, strict=True):
        np.testing.assert_array_equal(run[result], plain)
    where = np.argwhere(due[0] > 1)
    assert run.backward(results[4], ..., to=image).tolist() == where.tolist()
    with pytest.raises(OperatorFailed, match=r"subtract.* failed on inputs of shape \(2, 7\), \(5,\)"):
        execute(shelf, list(results), {"image": np.ones((2, 7))})


def test_names_and_constants(shelf):
    a = asarray(some((3, 3)), name="a")
    total = asarray((a * np.arange(3.0) + [[1.0], [2.0], [3.0]]).sum(axis=0), name="total")
    run = execute(shelf, total)
    assert run.backward("total", [(1,)], to="a").tolist() == [[0, 1], [1, 1], [2, 1]]
    assert run.forward("a", [(2, 2)], to=total).tolist() == [[2]]
    assert run.workflow["total"].inputs[0].name.startswith("sum_")


def test_built_in_operators_in_chunks_of_work(shelf):
    """The way over pairs, and the shorter one for sets of cells, give the same answers."""
    wf = Workflow()
    x = wf.input("x")
    near = wf.add(ops.Convolve(np.ones((3, 3)), mode="reflect"), x)
    turned = wf.add(ops.Rotate(), near)
    product = wf.add(ops.MatMul(), turned, near)
    running = wf.add(ops.Cumulative(np.cumsum, axis=1), product)
    total = wf.add(ops.Reduce(np.sum, axis=0), running)
    run = execute(shelf, wf, {"x": some((6, 5))})
    for node in (near, turned, product, running, total):
        asked_for = cells(run.shape(node))[: max(2, len(cells(run.shape(node))) // 3)]
        single = {tuple(c) for cell in asked_for for c in run.backward(node, [cell], to=x).tolist()}
        assert {tuple(c) for c in run.backward(node, asked_for, to=x).tolist()} == single
        seeds = cells((6, 5))[::4]
        single = {tuple(c) for cell in seeds for c in run.forward(x, [cell], to=node).tolist()}
        assert {tuple(c) for c in run.forward(x, seeds, to=node).tolist()} == single
