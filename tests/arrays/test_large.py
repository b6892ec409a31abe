"""The same on arrays that are large enough for trees of several levels, slices, bitmaps and mapped files."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from whence.arrays import Mode, Operator, Workflow
from whence.arrays import access as accessing
from whence.arrays import lists as listing
from whence.arrays.boxes import BoxTree, boxes_of, cells_of, z_order
from whence.arrays.cells import coordinates, flat
from whence.arrays.columns import Columns, pack
from whence.arrays.encodings.interval import compressed
from whence.arrays.execute import execute
from whence.arrays.folder import Shelf
from whence.arrays.symbolic import vectorised
from whence.arrays.written import Regions
from whence.store.seal import Seal

SHAPE = (41, 53)


class Patches(Operator):
    """Cells of a patch depend on all cells of another one; and each cell on those right of it, up to its own number."""

    def __init__(self, seed=0, patches=25):
        rng = np.random.default_rng(seed)
        self.pairs = np.zeros((0, 2), np.int64)
        self.regions = []
        for _ in range(patches):
            out, inn = (self._box(rng) for _ in range(2))
            self.regions.append((out, inn))
        cells = np.arange(SHAPE[0] * SHAPE[1])
        lengths = (cells * 7 + seed) % 3
        at = coordinates(cells, SHAPE)
        right = np.repeat(at, lengths, axis=0)
        steps = np.concatenate([np.arange(n) for n in lengths])
        right[:, 1] += steps
        good = right[:, 1] < SHAPE[1]
        self.out, self.inn = np.repeat(at, lengths, axis=0)[good], right[good]

    def _box(self, rng):
        low = [rng.integers(0, n - 12) for n in SHAPE]
        rows, columns = np.meshgrid(*(np.arange(a, a + rng.integers(1, 12)) for a in low), indexing="ij")
        return np.stack([rows.ravel(), columns.ravel()], 1)

    def supported_modes(self):
        return {Mode.FULL, Mode.PAY}

    def run(self, x, cur_modes):
        if Mode.FULL in cur_modes:
            for out, inn in self.regions:
                self.lwrite(out, inn)
            self.lwrite_many(self.out, self.inn)
        if Mode.PAY in cur_modes:
            for number, (out, _) in enumerate(self.regions):
                self.lwrite(out, payload=(1, number))
            self.lwrite_many(self.out, payload=[(0, int(c)) for c in self.inn[:, 1] - self.out[:, 1]])
        return x * 2

    def map_p(self, outcell, payload, i):
        kind, number = payload
        return self.regions[number][1] if kind else [(outcell[0], outcell[1] + number)]

    def relation(self):
        """All pairs, as a matrix of outputs x inputs."""
        size = SHAPE[0] * SHAPE[1]
        made = np.zeros((size, size), bool)
        for out, inn in self.regions:
            made[np.ix_(flat(out, SHAPE), flat(inn, SHAPE))] = True
        made[flat(self.out, SHAPE), flat(self.inn, SHAPE)] = True
        return made


@pytest.fixture(scope="module")
def told():
    op = Patches()
    return op, op.relation()


TEXTS = ["FullOne", "FullMany", "Interval", "PayOne", "PayMany"]


@pytest.mark.parametrize("text", [f"{t}{d}" for t in TEXTS for d in ("", ":forward")] + ["Blackbox"])
def test_patches(tmp_path, told, text, monkeypatch):
    monkeypatch.setattr(listing, "SLICE", 300)  # many slices
    op, matrix = told
    wf = Workflow()
    y = wf.add(op, wf.input("x"), name="y")
    run = execute(Shelf(tmp_path, Seal(["k" * 40])), wf, {"x": np.zeros(SHAPE)}, {y: text})
    rng = np.random.default_rng(1)
    size = matrix.shape[0]
    for count in (1, 50, size):
        cells = np.sort(rng.choice(size, count, replace=False))
        at = coordinates(cells, SHAPE)
        found = run.backward(y, at, to="x", optimise=False)
        assert np.array_equal(flat(found, SHAPE), np.flatnonzero(matrix[cells].any(axis=0)))
        found = run.forward("x", at, to=y, optimise=False)
        assert np.array_equal(flat(found, SHAPE), np.flatnonzero(matrix[:, cells].any(axis=1)))


def test_a_slow_way_gives_way_to_a_rerun(tmp_path, told, monkeypatch):
    """Without a clock: what is stored is made endless, and what a rerun takes nothing."""
    op, matrix = told
    wf = Workflow()
    y = wf.add(op, wf.input("x"), name="y")
    run = execute(Shelf(tmp_path, Seal(["k" * 40])), wf, {"x": np.zeros(SHAPE)}, {y: "FullOne:forward"})
    endless = itertools.repeat(np.empty(0, np.int64))

    class Endless:
        def backward(self, cells, i):
            return endless

    monkeypatch.setattr(accessing, "_SHORT", 0.0)
    step = run._access(y)
    step._rerun_seconds = 0.0
    monkeypatch.setattr(step, "_open", lambda strategy: Endless())
    cells = coordinates(np.arange(40), SHAPE)
    found = run.backward(y, cells, to="x")
    assert np.array_equal(flat(found, SHAPE), np.flatnonzero(matrix[:40].any(axis=0)))
    again = run.backward(y, cells, to="x")  # and is not tried a second time
    assert np.array_equal(found, again)
    assert [told.strategy for told in run.observed[y].answered] == ["Blackbox", "Blackbox"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_boxes_and_trees(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    size = int(np.prod(shape))
    cells = np.array(sorted(data.draw(st.sets(st.integers(0, size - 1)))), np.int64)
    low, high = boxes_of(cells, shape)
    parts = list(cells_of(low, high, shape))
    assert np.array_equal(np.sort(np.concatenate([np.empty(0, np.int64), *parts])), cells)
    if len(low):
        order = z_order(low, high)
        low, high = low[order], high[order]
        tree = BoxTree.over(low, high)
        for cell in coordinates(np.arange(size), shape):
            met = set(tree.meeting(cell[None], cell[None]).tolist())
            assert {k for k in range(len(low)) if (low[k] <= cell).all() and (cell <= high[k]).all()} <= met


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-(2**62), 2**62), max_size=30), st.lists(st.integers(-(2**62), 2**62), max_size=5))
@example([1 - 2**62], [2**62])
@example([-(2**62), 0, 2**62], [2**62, -(2**62)])
def test_columns(tmp_path_factory, values, needles):
    path = tmp_path_factory.mktemp("columns") / "c"
    columns = {"a": np.array(values, np.int64), "b": np.arange(5) * 3, "sorted": np.sort(np.array(values, np.int64))}
    made = Columns.of(columns, {"x": 1})
    assert made.write(path) == made.size() == path.stat().st_size
    read = Columns.read(path)
    assert read.about == {"x": 1}
    for name, expected in columns.items():
        assert read[name].all().tolist() == expected.tolist()
        places = np.arange(len(expected))[::-1]
        assert read[name].take(places).tolist() == expected[::-1].tolist()
    for side in ("left", "right"):
        for name in ("sorted", "b"):
            asked = np.array([*needles, *values[:3], 3, 4], np.int64)
            assert read[name].find(asked, side).tolist() == np.searchsorted(columns[name], asked, side).tolist()
    assert pack(np.full(9, 7)).find(np.array([6, 7, 8]), "right").tolist() == [0, 9, 9]


def test_regular_lineage_is_a_handful_of_rows():
    """DSLog's point: what moves along together is told once."""
    shape, size = (200, 300), 60_000
    cells = np.arange(size)
    at = coordinates(cells, shape)
    window = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    near = [(cells[g], flat((at + off)[g], shape)) for off in window if (g := inside(at + off, shape)).any()]
    relations = {
        "same": (cells, cells),
        "turned": (flat(at, shape), flat(at[:, ::-1], shape[::-1])),
        "window": tuple(np.concatenate([pair[k] for pair in near]) for k in (0, 1)),
        "row sums": (at[:, 0], cells),
    }
    for name, (out, inn) in relations.items():
        outs = (200,) if name == "row sums" else shape
        rows = compressed(Regions.pairs(out, inn), outs, shape[::-1] if name == "turned" else shape)
        assert len(rows) <= 9, name


def inside(cells, shape):
    return ((cells >= 0) & (cells < np.array(shape))).all(axis=1)


def test_plain_functions_are_run_once_for_all_cells():
    cells = np.array([(r, c) for r in range(20) for c in range(30)], np.int64)
    calls = []

    def counted(function):
        def each(cell, i):
            calls.append(cell)
            return function(*cell)

        return each

    for function in [
        lambda r, c: [(c, r)],
        lambda r, c: [(r, c), (r + 1, c - 1), (2 * r, 7)],
        lambda r, c: [((r + 3) % 20, c // 2), (-r, +c)],
        lambda r, c: [],
    ]:
        calls.clear()
        rows, found = vectorised(counted(function), cells, 0, 2)
        assert len(calls) < 20
        single = [(k, tuple(cell)) for k, (r, c) in enumerate(cells.tolist()) for cell in function(r, c)]
        assert [(k, tuple(cell)) for k, cell in zip(rows.tolist(), found.tolist(), strict=True)] == single

    def swallowing(r, c):
        try:
            return [(r, c)] if r > 3 else []
        except Exception:
            return [(r, c)]

    for refused in [
        lambda r, c: [(r, c)] if r else [],
        lambda r, c: [(k, c) for k in range(r, r + 2)],
        lambda r, c: [(min(r, 3), c)],
        lambda r, c: [(int(r), c)],
        lambda r, c: {(r, c)},
        lambda r, c: [(r / 1, c)],
        lambda r, c: [(r * 2**40, c)],
        lambda r, c: [(r // (c * 0), c)] if r == 99 else [(r, c)],
        lambda r, c: [(abs(r), c)],
        lambda r, c: [(r, c)] if isinstance(r, int) else [(c, r)],
        swallowing,
    ]:
        assert vectorised(counted(refused), cells, 0, 2) is None
