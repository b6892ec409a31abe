"""Every built-in operator against numpy and a naive lineage, on odd shapes."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from arrays.lineage import broadcast, cells, moved, run, touched
from whence.arrays import Mode, ops
from whence.arrays.operator import Place, at_place

SHAPES = [(), (1,), (5,), (0,), (3, 4), (1, 3), (3, 0), (2, 3, 4), (0, 2, 0)]
rng = np.random.default_rng(7)


def some(shape, dtype=float):
    return np.asarray(rng.permutation(int(np.prod(shape))).reshape(shape) + 0.5).astype(dtype)


def check(op, function, expected, *inputs):
    result, pairs = run(op, *inputs)
    due = np.asarray(function(*inputs))
    np.testing.assert_array_equal(result, due)
    assert result.dtype == due.dtype
    assert pairs == expected


MOVES = [
    (ops.Transpose(), np.transpose, SHAPES),
    (ops.Transpose(axes=[1, 0]), lambda x: np.transpose(x, (1, 0)), [(3, 4), (3, 0)]),
    (ops.Transpose((1, -1, 0)), lambda x: np.transpose(x, (1, 2, 0)), [(2, 3, 4)]),
    (ops.Reshape(-1), lambda x: x.reshape(-1), SHAPES),
    (ops.Reshape(np.int64(-1)), lambda x: x.reshape(-1), [(3, 4)]),
    (ops.Reshape((2, -1)), lambda x: x.reshape(2, -1), [(3, 4), (2, 3, 4), (6,)]),
    (ops.Reshape(()), lambda x: x.reshape(()), [(), (1,), (1, 1)]),
    (ops.Slice(...), lambda x: x[...], SHAPES),
    (ops.Slice(()), lambda x: x[()] if x.ndim else x, SHAPES),
    (ops.Slice(-1), lambda x: x[-1], [(5,), (3, 4), (2, 3, 4)]),
    (ops.Slice((slice(None, None, -2), None, 1)), lambda x: x[::-2, None, 1], [(3, 4), (2, 3, 4)]),
    (ops.Slice((..., slice(1, 3))), lambda x: x[..., 1:3], [(5,), (3, 4), (3, 0), (2, 3, 4)]),
    (ops.Slice((1, ..., np.int64(-1))), lambda x: x[1, ..., -1], [(3, 4), (2, 3, 4)]),
    (ops.Slice(slice(7, 2)), lambda x: x[7:2], [(5,), (3, 4)]),
    (ops.Slice((None, ..., None)), lambda x: x[None, ..., None], SHAPES),
    (ops.Flip(), np.flip, SHAPES),
    (ops.Flip(-1), lambda x: np.flip(x, -1), [s for s in SHAPES if s]),
    (ops.Flip(axis=(0, 2)), lambda x: np.flip(x, (0, 2)), [(2, 3, 4)]),
    *[(ops.Rotate(k), lambda x, k=k: np.rot90(x, k), [(3, 4), (3, 0), (2, 3, 4)]) for k in (-1, 0, 1, 2, 3, 6)],
    (ops.Rotate(k=1, axes=(2, 0)), lambda x: np.rot90(x, 1, (2, 0)), [(2, 3, 4)]),
    (ops.Rotate(3, axes=(-1, 1)), lambda x: np.rot90(x, 3, (-1, 1)), [(2, 3, 4)]),
    (ops.Roll(2), lambda x: np.roll(x, 2), SHAPES),
    (ops.Roll(-7, axis=0), lambda x: np.roll(x, -7, 0), [s for s in SHAPES if s]),
    (ops.Roll((1, 2), axis=(0, -1)), lambda x: np.roll(x, (1, 2), (0, -1)), [(3, 4), (2, 3, 4), (5,)]),
    (ops.Roll(1, axis=(0, 1)), lambda x: np.roll(x, 1, (0, 1)), [(3, 4)]),
    (ops.Roll((1, 2)), lambda x: np.roll(x, (1, 2)), [(3, 4)]),
]


@pytest.mark.parametrize(
    ("op", "function", "shape"),
    [pytest.param(op, f, shape, id=f"{op}{shape}") for op, f, shapes in MOVES for shape in shapes],
)
def test_moving(op, function, shape):
    check(op, function, moved(function, shape), some(shape))


@pytest.mark.parametrize("dtype", ["int8", "bool", "complex64", "U3", "datetime64[s]", "i4,f8", "O"])
def test_moving_any_kind_of_cell(dtype):
    x = np.array([[1, 2, 3], [4, 5, 6]]).astype(dtype)
    check(ops.Rotate(), np.rot90, moved(np.rot90, (2, 3)), x)


@pytest.mark.parametrize(
    ("axis", "shapes"),
    [(0, [(2, 3), (0, 3), (1, 3)]), (-1, [(2, 3), (2, 1)]), (1, [(2, 3, 2), (2, 0, 2)]), (None, [(2, 3), (), (4,)])],
)
def test_concatenate(axis, shapes):
    def function(*inputs):
        return np.concatenate(inputs, axis=axis)

    check(ops.Concatenate(axis=axis), function, moved(function, *shapes), *(some(s) for s in shapes))


@pytest.mark.parametrize(
    "shapes", [[(3, 4)], [()], [(3, 4), (4,)], [(3, 1), (1, 4)], [(), (3, 0)], [(1,), (0,)], [(2, 1, 4), (3, 1), ()]]
)
def test_elementwise(shapes):
    def add(*inputs):
        return sum(inputs)

    check(ops.Elementwise(add), lambda *x: sum(x) + np.zeros(()), broadcast(*shapes), *(some(s) for s in shapes))


def test_threshold():
    x = some((3, 4))
    check(ops.Threshold(value=4), lambda x: x > 4, broadcast((3, 4)), x)


def test_elementwise_refuses_what_is_not():
    with pytest.raises(ValueError, match=r"gave shape \(\).*\(3, 4\) was due: f must work cell by cell"):
        run(ops.Elementwise(np.sum), some((3, 4)))
    with pytest.raises(TypeError, match="a function of arrays, not 3"):
        ops.Elementwise(3)
    with pytest.raises(ValueError, match="takes 1 input, not 2"):
        run(ops.Threshold(1), some((2,)), some((2,)))


def reduced(shape, axes, keepdims):
    axes = {axis % len(shape) for axis in axes}
    pairs = set()
    for cell in cells(shape):
        kept = tuple(0 if a in axes else c for a, c in enumerate(cell) if keepdims or a not in axes)
        pairs.add((kept, cell))
    return [pairs]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape", [s for s in SHAPES if 0 not in s])
@pytest.mark.parametrize("f", [np.sum, np.max, np.median, np.any])
def test_reduce(f, shape, keepdims):
    choices = [None, *range(-len(shape), len(shape)), tuple(range(len(shape)))[::2], ()]
    for axis in choices if f is not np.median else choices[:-1]:
        axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        op = ops.Reduce(f, axis, keepdims=keepdims)
        check(op, lambda x, a=axis: f(x, axis=a, keepdims=keepdims), reduced(shape, axes, keepdims), some(shape))


@pytest.mark.parametrize(("shape", "axis"), [((0,), None), ((3, 0), 0), ((3, 0), 1), ((0, 2, 0), (0, 1))])
def test_reduce_without_cells(shape, axis):
    check(ops.Reduce(np.sum, axis=axis), lambda x: np.sum(x, axis=axis), [set()], some(shape))


def test_reduce_refuses_another_shape():
    with pytest.raises(ValueError, match="f must reduce the axes it is given"):
        run(ops.Reduce(lambda x, axis, keepdims: x, 0), some((3, 4)))


@pytest.mark.parametrize("shape", [s for s in SHAPES if s])
def test_cumulative(shape):
    for axis in range(-len(shape), len(shape)):
        lane = axis % len(shape)
        pairs = {
            (out, cell)
            for out, cell in product(cells(shape), cells(shape))
            if cell[lane] <= out[lane] and cell[:lane] + cell[lane + 1 :] == out[:lane] + out[lane + 1 :]
        }
        check(ops.Cumulative(np.cumsum, axis), lambda x, a=axis: np.cumsum(x, axis=a), [pairs], some(shape))
    order = cells(shape)
    pairs = {((k,), cell) for k in range(len(order)) for cell in order[: k + 1]}
    check(ops.Cumulative(np.cumprod, axis=None), np.cumprod, [pairs], some(shape))


PRODUCTS = [
    ((3,), (3,)),
    ((2, 3), (3, 4)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((5, 2, 3), (3, 4)),
    ((2, 0), (0, 4)),
    ((0, 3), (3, 2)),
    ((1, 2, 3), (5, 3, 1)),
    ((5, 1, 2, 3), (4, 3, 2)),
]


def named_product(subscripts, *shapes):
    """The pairs of an einsum, with every label tried."""
    given, out = subscripts.split("->")
    terms = given.split(",")
    lengths = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, length in zip(term, shape, strict=True):
            lengths[label] = max(lengths.get(label, 1), length) if length else 0
    pairs = [set() for _ in terms]
    for values in cells(tuple(lengths.values())):
        at = dict(zip(lengths, values, strict=True))
        for number, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
            cell = tuple(at[label] if n > 1 else 0 for label, n in zip(term, shape, strict=True))
            pairs[number].add((tuple(at[label] for label in out), cell))
    return pairs


def test_matmul():
    batch = {0: "", 1: "b", 2: "ab"}
    for left, right in PRODUCTS:
        first = batch[max(len(left) - 2, 0)] + ("n" if len(left) > 1 else "") + "k"
        second = batch[max(len(right) - 2, 0)] + "k" + ("m" if len(right) > 1 else "")
        ahead = max(first[:-2], second[:-2], key=len)
        out = ahead + ("n" if len(left) > 1 else "") + ("m" if len(right) > 1 else "")
        expected = named_product(f"{first},{second}->{out}", left, right)
        check(ops.MatMul(), np.matmul, expected, some(left), some(right))


def test_dot():
    labels = {
        ((3,), (3,)): "k,k->",
        ((2, 3), (3, 4)): "nk,km->nm",
        ((2, 3), (3,)): "nk,k->n",
        ((3,), (3, 4)): "k,km->m",
    }
    labels |= {((2, 3), (4, 3, 5)): "nk,akm->nam", ((2, 0), (0, 4)): "nk,km->nm", ((), (2, 3)): ",ab->ab"}
    labels |= {((2,), ()): "a,->a", ((), ()): ",->", ((5, 2, 3), (3, 4)): "ank,km->anm"}
    for (left, right), subscripts in labels.items():
        check(ops.Dot(), np.dot, named_product(subscripts, left, right), some(left), some(right))


def test_inverse():
    x = np.eye(3) + some((3, 3)) / 10
    everything = set(product(cells((3, 3)), cells((3, 3))))
    check(ops.Inverse(), np.linalg.inv, [everything], x)
    check(ops.Inverse(), np.linalg.inv, [set()], np.empty((0, 0)))
    assert ops.Inverse().entire_array
    with pytest.raises(ValueError, match=r"takes a matrix, not an array of shape \(2, 2, 2\)"):
        run(ops.Inverse(), np.ones((2, 2, 2)))


KERNELS = [
    np.ones((3, 3)),
    np.array([[0, 1, 0], [2, 0, -1], [0, 1, 0]]),
    np.ones((2, 4)),
    np.array([[0, 0, 5]]),
    np.ones((1, 7)),
    np.zeros((3, 3)),
    np.array([[1.0]]),
    np.array([[0, 1], [1, 1]]),
]


@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "reflect"])
@pytest.mark.parametrize("kernel", KERNELS, ids=range(len(KERNELS)))
def test_convolve(kernel, mode):
    for shape in [(4, 5), (1, 3), (2, 1), (1, 1), (0, 3), *([(7, 8)] if kernel.size < 9 or mode == "wrap" else [])]:

        def function(x):
            return ndimage.convolve(x, kernel, mode=mode, cval=0)

        def under(x):
            return ndimage.convolve(x, (kernel != 0).astype(float), mode=mode, cval=0)

        # A sum over ones under the kernel shows every cell that is read, however the real weights cancel out.
        check(ops.Convolve(kernel, mode=mode), function, touched(under, some(shape), by=1.0), some(shape))


def test_convolve_of_other_dimensions():
    for mode in ("constant", "reflect"):
        check(
            ops.Convolve([1, 0, 2], mode),
            lambda x, m=mode: ndimage.convolve(x, [1, 0, 2], mode=m),
            touched(lambda x, m=mode: ndimage.convolve(x, [1, 0, 2], mode=m), some((6,))),
            some((6,)),
        )
    kernel = np.ones((3, 1, 2))
    function = lambda x: ndimage.convolve(x, kernel, mode="wrap")  # noqa: E731
    check(ops.Convolve(kernel, "wrap"), function, touched(function, some((2, 3, 4))), some((2, 3, 4)))
    check(ops.Convolve(2.0), lambda x: x * 2, [{((), ())}], some(()))
    with pytest.raises(ValueError, match="a kernel of 1 axes and an input of 2"):
        run(ops.Convolve([1, 2]), some((3, 3)))
    with pytest.raises(ValueError, match="constant, nearest, wrap, reflect, not 'mirror'"):
        ops.Convolve([1, 2], mode="mirror")


class Widened(ops.Reduce):
    """A subclass with lineage of its own."""

    def map_b_many(self, outcells, i):
        return np.arange(len(outcells)), np.zeros((len(outcells), 2), dtype=np.int64)


def test_a_subclass_with_map_functions_of_its_own():
    op = Widened(np.sum, axis=0)
    outcells = np.arange(4)[:, None]
    with at_place(op, Place(((3, 4),), (4,))):
        assert op.alike_b(outcells, 0) is outcells
        assert len(ops.Reduce(np.sum, axis=0).alike_f(np.argwhere(np.ones((3, 4))), 0)) == 4


def test_convolve_of_more_pairs_than_fit(monkeypatch):
    monkeypatch.setattr("whence.arrays.ops.convolve.AT_ONCE", 10)
    kernel = np.ones((3, 3))
    expected = touched(lambda x: ndimage.convolve(x, kernel, mode="constant"), some((4, 5)), by=1.0)
    check(ops.Convolve(kernel), lambda x: ndimage.convolve(x, kernel, mode="constant"), expected, some((4, 5)))


@pytest.mark.parametrize("shape", [s for s in SHAPES if s])
def test_sort(shape):
    for axis in [*range(-len(shape), len(shape)), None]:
        x = np.floor(some(shape) / 2)  # with ties
        result, pairs = run(ops.Sort(axis), x)
        np.testing.assert_array_equal(result, np.sort(x, axis=axis, kind="stable"))
        names = np.empty(shape, dtype=object)
        for number, cell in enumerate(cells(shape)):
            names[cell] = (x[cell], number, cell)
        ordered = np.sort(names, axis=axis) if names.size else names.reshape(result.shape)
        assert pairs == [{(out, ordered[out][2]) for out in cells(result.shape)}]


def test_sort_of_odd_values():
    x = np.array([np.nan, 1.0, -0.0, np.inf, 0.0, np.nan, -np.inf])
    result, pairs = run(ops.Sort(), x)
    np.testing.assert_array_equal(result, np.sort(x, kind="stable"))
    assert sorted(pairs[0]) == [((k,), (c,)) for k, c in enumerate([6, 2, 4, 1, 3, 0, 5])]
    words = np.array(["pear", "fig", "fig", ""])
    assert sorted(run(ops.Sort(), words)[1][0]) == [((0,), (3,)), ((1,), (1,)), ((2,), (2,)), ((3,), (0,))]


@pytest.mark.parametrize("shapes", [[(3, 4)] * 3, [(3, 1), (4,), ()], [(), (3, 4), (3, 1)], [(0,), (1,), (1,)]])
def test_where(shapes):
    c = some(shapes[0]).astype(int) % 2
    a, b = some(shapes[1]), -some(shapes[2])
    result, pairs = run(ops.Where(), c, a, b)
    np.testing.assert_array_equal(result, np.where(c, a, b))
    assert pairs[0] == broadcast(*shapes)[0]
    full = np.broadcast_to(c.astype(bool), result.shape)
    assert pairs[1] == {pair for pair in broadcast(*shapes)[1] if full[pair[0]]}
    assert pairs[2] == {pair for pair in broadcast(*shapes)[2] if not full[pair[0]]}


def test_where_of_any_kind_of_condition():
    texts = [np.array(["a", "", "0"])] if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else []
    for c in (*texts, np.array([np.nan, 0.0, -0.0]), np.array([0j, 1j, 2])):
        result, pairs = run(ops.Where(), c, some((3,)), -some((3,)))
        taken = np.where(c, 1, 0)
        assert pairs[1] == {((k,), (k,)) for k in range(3) if taken[k]}
        assert pairs[2] == {((k,), (k,)) for k in range(3) if not taken[k]}
        assert (result > 0).tolist() == taken.astype(bool).tolist()


def test_mask():
    x, m = some((3, 4)), some((4,)).astype(int) % 2 == 0
    for fill in (0, np.nan):
        result, pairs = run(ops.Mask(fill=fill), x, m)
        np.testing.assert_array_equal(result, np.where(m, x, fill))
        assert pairs == [{(c, c) for c in cells((3, 4)) if m[c[1]]}, broadcast((3, 4), (4,))[1]]


def test_modes():
    for name in ops.__all__:
        modes = {"Sort": {Mode.FULL}, "Where": {Mode.FULL}, "Mask": {Mode.FULL}}.get(name, {Mode.FULL, Mode.MAP})
        made = {
            "Elementwise": (np.add,),
            "Threshold": (1,),
            "Reshape": (-1,),
            "Slice": (0,),
            "Roll": (1,),
            "Reduce": (np.sum,),
            "Cumulative": (np.cumsum,),
            "Convolve": ([1],),
        }.get(name, ())
        op = getattr(ops, name)(*made)
        assert op.supported_modes() == modes
        assert repr(op).startswith(name + "(")


def test_slice_takes_basic_keys_alone():
    for key in ([0, 1], np.array([True]), True, (0, [1]), 1.5, "x"):
        with pytest.raises(TypeError, match="Slice takes integers, slices"):
            ops.Slice(key)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_generated_slices_and_rolls(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    bound = st.none() | st.integers(-6, 6)
    step = st.none() | st.integers(-3, 3).filter(bool)
    key = tuple(slice(data.draw(bound), data.draw(bound), data.draw(step)) for _ in shape)
    check(ops.Slice(key), lambda x: x[key], moved(lambda x: x[key], shape), some(shape))
    shift, axis = data.draw(st.integers(-9, 9)), data.draw(st.integers(-len(shape), len(shape) - 1))
    function = lambda x: np.roll(x, shift, axis)  # noqa: E731
    check(ops.Roll(shift, axis), function, moved(function, shape), some(shape))
