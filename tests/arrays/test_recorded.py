"""Recorded arrays: like ndarrays, never without lineage, and refusing by name what cannot be followed."""

import operator
import pickle
import re
import subprocess
import sys
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrays.lineage import computed, listed, run, some, touched, tried, within
from whence.arrays.recorded import Array, NotFollowed, asarray, gather
from whence.arrays.recorded.call import parameters
from whence.arrays.recorded.rules import PLAIN, RULES
from whence.arrays.recorded.rules.names import found

A, V = (3, 4), (4,)


def test_every_rule_has_a_case():
    """A rule without one would be a promise."""
    beside = Path(__file__).parent
    cases = "".join((beside / name).read_text() for name in ("test_recorded_functions.py", "test_recorded_values.py"))
    words = set(re.findall(r"[\w.]+", cases)) | {word.partition("np.")[2] for word in re.findall(r"np\.[\w.]+", cases)}
    short = {word.rpartition(".")[2] for word in words}
    old = {"in1d", "round_", "trapz"}  # what isin, round and trapezoid were called before
    untried = {name for name in RULES if found(name) is not None and name.rpartition(".")[2] not in short}
    assert untried <= old


def test_the_page_lists_what_works():
    root = Path(__file__).resolve().parents[2]
    checked = subprocess.run(
        [sys.executable, root / "scripts" / "numpy_docs.py", "--check"], capture_output=True, text=True
    )
    if np.__version__.split(".")[:2] == re.search(r"With numpy ([\d.]+)", (root / "docs/numpy.md").read_text())[
        1
    ].split("."):
        assert checked.returncode == 0, checked.stderr


def dispatching():
    for prefix in ("", "linalg.", "fft."):
        module = np if not prefix else getattr(np, prefix[:-1])
        for name in dir(module):
            function = getattr(module, name)
            if not name.startswith("_") and type(function).__name__ == "_ArrayFunctionDispatcher":
                yield prefix + name, function


@pytest.mark.parametrize(
    ("name", "function"), list(dispatching()), ids=lambda each: each if isinstance(each, str) else ""
)
def test_nothing_comes_out_without_lineage(name, function):
    a = asarray(some((3, 3)), name="a")
    first = next(iter(parameters(function).parameters), "") if name in RULES else ""
    lists = [([a, a],)] if first in ("arrays", "tup") else [((a, a),)] if first == "keys" else []
    for args in ((a,), (a, a), (a, 1), (a, a, a), *lists):
        try:
            result = function(*args)
        except (TypeError, ValueError, IndexError, AttributeError, np.linalg.LinAlgError, DeprecationWarning):
            continue
        if name in PLAIN:
            continue
        for each in listed(result):
            assert isinstance(each, Array), f"np.{name} gave {type(each).__name__}"
    if name not in RULES and name not in PLAIN and function not in {found(known) for known in RULES}:
        with pytest.raises((NotFollowed, TypeError), match=name.rpartition(".")[2]):
            function(a)


REFUSED = [
    (lambda a: np.empty_like(a), "np.empty_like cannot be followed: its cells have no value"),
    (lambda a: np.put(a, 0, 1), "np.put cannot be followed: it changes its argument in place"),
    (lambda a: np.copyto(np.zeros((3, 4)), a), "np.copyto cannot be followed"),
    (lambda a: np.piecewise(a, [a > 1], [0, 1]), "np.piecewise cannot be followed: it calls functions on parts"),
    (lambda a: np.add(a, 1, out=np.zeros((3, 4))), "np.add with out= writes into an array"),
    (lambda a: np.add.at(a, [0], 1), r"np.add.at writes into an array"),
    (lambda a: np.sum(a, out=np.zeros(())), "np.sum cannot be followed with out="),
    (lambda a: np.add(a, 1, where=a > 1), "np.add cannot be followed with where="),
    (lambda a: np.roll(a, asarray(1)), "np.roll cannot be followed where shift is a recorded array"),
    (lambda a: np.reshape(a, -1, order="A"), "np.reshape cannot be followed: order='A' depends on how"),
    (lambda a: np.pad(a, 1, mode="mean"), "np.pad cannot be followed: with mode='mean'"),
    (lambda a: a.fill(0), "Array.fill cannot be followed"),
    (lambda a: a.sort(), "Array.sort cannot be followed"),
    (lambda a: a.view("i8"), "Array.view cannot be followed"),
    (lambda a: operator.setitem(a, 0, 1), "Cells of the recorded array .* cannot be set"),
    (lambda a: np.arange(20)[a.astype(int)], "A plain array indexed by a recorded one"),
    (lambda a: np.array([a, a]), "A function that is given a list of recorded arrays"),
    (lambda a: np.array([a.sum(), a.max()], dtype="f4"), "A function that is given a list of recorded arrays"),
    (lambda a: np.lexsort([a[0], a[1]]), "A function that is given a list of recorded arrays"),
    (lambda a: np.take(np.arange(20), a.astype(int)), "numpy's take cannot be followed"),
    (lambda a: np.vectorize(abs)(a), "cannot be followed"),
    (lambda a: a[: asarray(1)], "Array.getitem cannot be followed: recorded arrays inside of slices"),
    (lambda a: np.ma.masked_array([1.0] * 4, [0, 1, 0, 1]) + a, "cannot be followed"),
    (lambda a: asarray(np.ma.masked_array([1.0])), "would lose its mask"),
    (lambda a: np.unique(a, axis=0), "np.unique cannot be followed: whole rows"),
    (lambda a: np.gradient(a, a[0], axis=1), "np.gradient cannot be followed: the spacing"),
    (lambda a: np.polyfit(a[0], a[1], 1, full=True), "np.polyfit cannot be followed"),
]


@pytest.mark.parametrize(("function", "text"), REFUSED, ids=[text for _, text in REFUSED])
def test_refusals_name_the_function(function, text):
    with pytest.raises(NotFollowed, match=text):
        function(asarray(some(A)))
    with pytest.raises(TypeError):
        function(asarray(some(A)))


def test_nothing_is_written_before_it_is_refused():
    a, plain = asarray(some(A)), np.zeros(())
    for function in (lambda: np.sum(a, out=plain), lambda: np.add.reduce(a, axis=None, out=plain)):
        with pytest.raises(NotFollowed):
            function()
    with pytest.raises(NotFollowed):
        plain += a.sum()
    assert plain == 0


def test_numpy_says_itself_what_is_wrong():
    a = asarray(some(A))
    with pytest.raises(ValueError, match="could not be broadcast"):
        a + np.ones(3)
    with pytest.raises(IndexError):
        a[9]
    with pytest.raises(np.exceptions.AxisError):
        a.sum(axis=5)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        a.nothing  # noqa: B018
    assert not hasattr(a, "__array_interface__")
    assert getattr(a, "fill", None) is None


def test_it_is_like_an_ndarray():
    x = some(A)
    a = asarray(x, name="a")
    assert (a.shape, a.dtype, a.ndim, a.size, len(a), a.nbytes, a.itemsize) == (
        x.shape, x.dtype, x.ndim, x.size, len(x), x.nbytes, x.itemsize,
    )  # fmt: skip
    assert np.asarray(a) is not x
    np.testing.assert_array_equal(np.asarray(a), x)
    np.testing.assert_array_equal(np.array(a, dtype="f4"), x.astype("f4"))
    assert [[1], np.asarray(a).shape] == [[1], x.shape]
    assert np.shape([np.asarray(a), np.asarray(a)]) == (2, *x.shape)
    assert [row.tolist() for row in a] == x.tolist()
    assert all(isinstance(row, Array) for row in a)
    assert float(a[0, 0]) == x[0, 0]
    assert a.sum().item() == x.sum()
    assert int(asarray(3)) == 3
    assert range(5)[asarray(3)] == 3
    assert complex(asarray(3)) == 3
    assert bool(asarray(True))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(a)
    with pytest.raises(TypeError, match="0-d"):
        iter(asarray(1))
    assert x[0, 0] in a
    assert str(a) == str(x)
    assert repr(a).startswith("<Array a: an input>")
    assert repr(a + 1).startswith("<Array add_")
    assert f"{a.sum():.2f}" == f"{x.sum():.2f}"
    assert np.shape(a) == x.shape
    assert np.array_repr(a) == np.array_repr(x)
    assert a.tobytes() == x.tobytes()
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(a)[0] = 1
    assert {a: 1}[a] == 1


def test_it_meets_other_values():
    x = some(V)
    a = asarray(x, name="a")
    for made, due in (
        (np.float64(2) * a, 2 * x),
        (np.array(3) - a, 3 - x),
        ([1, 2, 3, 4] - a, [1, 2, 3, 4] - x),
        (a @ [1.0, 2.0, 3.0, 4.0], x @ [1.0, 2.0, 3.0, 4.0]),
        (sum([a, a, 1]), x + x + 1),
        (abs(-a) ** 2, x**2),
        (np.ones((2, 4)) / a, np.ones((2, 4)) / x),
    ):
        assert isinstance(made, Array)
        np.testing.assert_array_equal(np.asarray(made), due)
    plain = np.zeros(4)
    with pytest.raises(NotFollowed, match="A plain array indexed by a recorded one, or set from one"):
        plain[:] = a
    assert plain.tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(a, x)


def test_what_was_recorded_stays_as_it_was():
    x = some(V)
    a = asarray(x, name="a")
    before = x.copy()
    x[:] = 0
    b = old = a * 2
    b += 1
    np.testing.assert_array_equal(np.asarray(old), before * 2)
    np.testing.assert_array_equal(np.asarray(b), before * 2 + 1)
    _, data = gather(b)
    np.testing.assert_array_equal(data["a"], before)


def test_the_workflow_of_recorded_arrays():
    a, b = asarray(some(A), name="a"), asarray(some(V), name="b")
    c = asarray((a + b).mean(axis=1), name="means")
    workflow, data = gather([c, a * 2])
    assert [node.name for node in workflow.inputs] == ["a", "b"]
    assert set(data) == {"a", "b"}
    assert workflow[c.name].name == "means"
    assert workflow.find(c) is c.whence_node
    with pytest.raises(ValueError, match="Two arrays of one workflow are called 'a'"):
        gather(a + asarray(some(V), name="a"))
    with pytest.raises(TypeError, match="no recorded array"):
        gather([a, 3])
    with pytest.raises(TypeError, match="a name is a text"):
        asarray([1], name=3)
    assert asarray(a) is a


def test_operators_travel():
    a = asarray(some(A), name="a")
    scale = 3.0
    for made in (
        np.roll(a, 1),
        a[a > 1],
        np.add.reduce(a, axis=1),
        a[:, ::2],
        np.apply_along_axis(lambda x: x * scale, 0, a),
    ):
        workflow, _ = gather(made)
        for node in workflow.nodes:
            if node.operator is not None:
                again = pickle.loads(cloudpickle.dumps(node.operator))
                assert again.supported_modes() == node.operator.supported_modes()
                assert repr(again) == repr(node.operator)
        held = pickle.loads(pickle.dumps(a.whence_node))
        assert held.name == "a"
        assert not hasattr(held, "value")


def test_what_can_be_run_in_parts():
    a = asarray(some(A), name="a")
    for made in (a + 1, np.sin(a), np.where(a > 1, a, 0), np.clip(a, 0, 1), a.round(1), np.modf(a)[1]):
        assert made.whence_node.operator.halo == 0
    for made in (a + np.ones(4), a.T, a.sum(), np.where(a > 1)[0], np.roll(a, 1), np.real_if_close(a), a @ a.T):
        assert made.whence_node.operator.halo is None


def test_the_same_steps_on_other_data():
    a = asarray(some(A), name="a")
    b = np.sort(a[:, 1:] - a[:, :-1], axis=0)[:2].sum(axis=1)
    workflow, _ = gather(b)
    other = some((5, 6))
    values = {"a": other}
    for node in workflow.nodes:
        if node.operator is not None:
            values[node.name], _ = run(node.operator, *(values[below.name] for below in node.inputs))
    np.testing.assert_allclose(values[b.name], np.sort(other[:, 1:] - other[:, :-1], axis=0)[:2].sum(axis=1))


STEPS = {
    "roll": lambda x: np.roll(x, 1),
    "flip": lambda x: x[::-1],
    "transpose": lambda x: x.T,
    "ravel": lambda x: x.reshape(-1),
    "cumsum": lambda x: np.cumsum(x, axis=0),
    "diff": lambda x: np.diff(x, axis=0),
    "plus": lambda x: x + x[:1],
    "outer": lambda x: np.multiply.outer(x.ravel()[:3], x.ravel()[:2]),
    "sum": lambda x: x.sum(axis=0, keepdims=True),
    "every other": lambda x: x[::2],
    "pad": lambda x: np.pad(x, 1),
    "repeat": lambda x: np.repeat(x, 2, axis=-1),
    "stack": lambda x: np.concatenate([x, 2 * x], axis=0),
    "fancy": lambda x: x[[0, -1, 0]],
    "einsum": lambda x: np.einsum("...i,...i->...i", x, x),
}


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=3, max_size=4),
    shape=st.sampled_from([(3,), (2, 3), (1, 4), (2, 1, 2)]),
)
def test_generated_compositions(steps, shape):
    def function(x):
        for step in steps:
            if x.shape[0] == 0 or x.size > 200:
                break
            x = STEPS[step](x)
        return x

    x = some(shape)
    pairs = tried(function, x)
    assert pairs == computed(function, shape)
    if len(pairs[0][0]) < 2000:
        within([touched(function, x)], pairs)
