"""Odd inputs and odd operators: what is allowed comes out right, and what is not is refused with a sentence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrays.operators import Transposed
from whence.arrays import ArrayError, Mode, Operator, Workflow, ops
from whence.arrays.cells import distinct
from whence.arrays.execute import execute
from whence.arrays.folder import Shelf
from whence.arrays.maps import Maps
from whence.arrays.run import Run
from whence.store.seal import Seal

X = np.arange(12.0).reshape(3, 4)


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path, Seal(["k" * 40]))


class Noted(Operator):
    """Writes these payloads, and tells which came back."""

    def __init__(self, payloads):
        self.payloads, self.seen = payloads, []

    def supported_modes(self):
        return {Mode.PAY}

    def run(self, x, cur_modes):
        self.lwrite_many([(0, 1), (1, 1)], payload=self.payloads)
        return x.copy()

    def map_p(self, outcell, payload, i):
        self.seen.append(payload)
        return [outcell]


@pytest.mark.parametrize("text", ["PayOne", "PayMany"])
@pytest.mark.parametrize(
    "payloads",
    [[2**63 + 1, 1], np.array([2**63 + 1, 1], np.uint64), [2**90, -(2**90)], np.array([1.5, 2], np.float16)],
    ids=["beyond 64 bits", "unsigned", "larger", "half"],
)
def test_payloads_come_back_equal_however_large(shelf, text, payloads):
    wf = Workflow()
    wf.add(Noted(payloads), wf.input("x"), name="y")
    run = Run(shelf.open(execute(shelf, wf, {"x": X}, {"y": text}).id))
    operator = run.workflow["y"].operator
    operator.seen.clear()
    assert run.backward("y", [(0, 1), (1, 1)], to="x", optimise=False).tolist() == [[0, 1], [1, 1]]
    expected = list(payloads) if isinstance(payloads, list) else payloads.tolist()
    assert operator.seen == expected
    assert [type(each) for each in operator.seen] == [type(each) for each in expected]


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_rerun_over_views_comes_to_the_same_sums(shelf, order):
    """Sums of floats depend on how an array lies in memory: every operator gets it as it is kept."""
    wf = Workflow()
    turned = wf.add(ops.Transpose((1, 0, 2)), wf.input("x"), name="turned")
    some = wf.add(ops.Slice(np.s_[::-2, :, ::3]), wf.add(ops.Flip(1), turned), name="some")
    wf.add(ops.Reduce(np.sum, axis=(0, 2)), some, name="sums")
    wf.add(ops.Reduce(np.mean), turned, name="mean")
    data = np.asarray(np.random.default_rng(0).random((40, 50, 60)), order=order)
    run = execute(shelf, wf, {"x": data}, "Blackbox")
    assert len(run.backward("mean", [()], to="x")) == data.size
    assert len(run.backward("sums", [(3,)], to="x")) == 25 * 20


def test_values_without_a_mask_would_be_made_up(shelf):
    wf = Workflow()
    wf.add(ops.Transpose(), wf.input("x"), name="y")
    with pytest.raises(ArrayError, match="The input x is a masked array"):
        execute(shelf, wf, {"x": np.ma.masked_array(X, X > 3)})
    assert execute(shelf, wf, {"x": np.ma.masked_array(X)})["y"].tolist() == X.T.tolist()


def test_sentences_for_what_cannot_be(shelf):
    wf = Workflow()
    y = wf.add(Transposed(), wf.input("x"), name="y")
    run = execute(shelf, wf, {"x": X})
    with pytest.raises(ArrayError, match=rf"The cell \({10**30}, 0\) is outside of the array y, .*\(4, 3\)"):
        run.backward(y, [(10**30, 0)], to="x")
    assert run.backward(y, np.array([(1, 0)], object), to="x").tolist() == [[0, 1]]
    with pytest.raises(ArrayError, match="whole numbers, not object"):
        run.backward(y, np.array([(None, 0)], object), to="x")
    with pytest.raises(TypeError, match=r"of the type int: give a Workflow"):
        execute(shelf, 3)

    class Unheard(Transposed):
        def supported_modes(self):
            return {"nonsense"}

    odd = Workflow()
    odd.add(Unheard(), odd.input("x"), name="y")
    with pytest.raises(ArrayError, match=r"supported_modes of the operator Unheard gave .*nonsense.*FULL, MAP"):
        execute(shelf, odd, {"x": X})


def test_what_a_built_in_operator_refuses_names_the_node(shelf):
    wf = Workflow()
    wf.add(ops.Convolve(np.ones(3)), wf.input("x"), name="blurred")
    with pytest.raises(ArrayError, match=r"blurred \(Convolve\) cannot run on inputs of shape \(3, 4\): .*kernel of 1"):
        execute(shelf, wf, {"x": X})
    assert shelf.names() == []


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30))
def test_distinct_numbers_are_sorted_and_each_once(numbers):
    assert distinct(np.array(numbers, np.int64)).tolist() == sorted(set(numbers))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_cells_that_only_move_are_told_by_their_numbers(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    axes = st.permutations(range(len(shape)))
    op = data.draw(
        st.one_of(
            st.builds(ops.Transpose, axes.map(tuple)),
            st.builds(ops.Flip, st.none() | st.integers(0, len(shape) - 1)),
        )
    )
    data_of = np.arange(np.prod(shape)).reshape(shape)
    made = op.run(data_of, cur_modes=frozenset({Mode.BLACKBOX}))
    maps = Maps(op, (shape,), made.shape)
    assert maps.keeps(0) or maps._moved(0) is not None  # the shorter way is the one that is tried
    everything = np.arange(made.size)
    (back,) = maps.backward(everything, 0)
    assert back.tolist() == made.ravel().tolist()
    (forth,) = maps.forward(back, 0)
    assert forth.tolist() == everything.tolist()


def test_map_functions_of_a_subclass_are_not_passed_by():
    class Corner(ops.Transpose):
        def map_b(self, outcell, i):
            return [(0, 0)]

    assert Maps(ops.Transpose(), ((2, 3),), (3, 2))._moved(0) is not None
    assert Maps(Corner(), ((2, 3),), (3, 2))._moved(0) is None
    assert Maps(ops.Roll(1), ((2, 3),), (2, 3))._moved(0) is None
