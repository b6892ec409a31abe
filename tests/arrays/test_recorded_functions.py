"""Every numpy function that is followed: its values are numpy's own, its lineage a naive one's."""

import operator
from itertools import product

import numpy as np
import pytest

from arrays.lineage import all_pairs, broadcast, cells, computed, listed, some, touched, tried, within
from whence.arrays.recorded import Array
from whence.arrays.recorded.rules.names import found, names

A, B, V, W, C = (3, 4), (4, 3), (4,), (5,), (2, 3, 4)

# Sums, products and movements: an array of sets of cells goes through numpy's own function.
COMPUTED = {
    "sum": [(np.sum, A), (lambda a: np.sum(a, axis=(0, 2), keepdims=True), C), (lambda a: np.sum(a, -1), C)],
    "prod": [(lambda a: np.prod(a, axis=0), A)],
    "mean": [(lambda a: a.mean(axis=1), A), (np.mean, ())],
    "cumsum": [(np.cumsum, A), (lambda a: np.cumsum(a, axis=1), A)],
    "cumprod": [(lambda a: a.cumprod(axis=-2), C)],
    "trace": [(np.trace, A), (lambda a: np.trace(a, 1, 0, 2), C), (lambda a: a.trace(offset=-1), A)],
    "linalg.trace": [(lambda a: np.linalg.trace(a, offset=1), C)],
    "average": [(lambda a: np.average(a, axis=0), A), (lambda a, b: np.average(a, axis=1, weights=b), A, A)],
    "trapezoid": [(lambda y: np.trapezoid(y), A), (lambda y, x: np.trapezoid(y, x, axis=0), A, (3,))],
    "transpose": [(np.transpose, C), (lambda a: a.T, A), (lambda a: a.transpose(1, 0, 2), C), (lambda a: a.T, V)],
    "permute_dims": [(lambda a: np.permute_dims(a, (2, 0, 1)), C)],
    "swapaxes": [(lambda a: np.swapaxes(a, 0, -1), C)],
    "moveaxis": [(lambda a: np.moveaxis(a, [0, 1], [-1, 0]), C)],
    "rollaxis": [(lambda a: np.rollaxis(a, 2), C)],
    "matrix_transpose": [(lambda a: np.matrix_transpose(a), C), (lambda a: a.mT, C)],
    "linalg.matrix_transpose": [(lambda a: np.linalg.matrix_transpose(a), C)],
    "reshape": [
        (lambda a: np.reshape(a, (2, 6)), A),
        (lambda a: a.reshape(-1, 2), A),
        (lambda a: np.reshape(a, 12, order="F"), A),
    ],
    "ravel": [(np.ravel, C), (lambda a: a.ravel("F"), A), (lambda a: a.flatten(), A), (lambda a: a.flatten("F"), A)],
    "squeeze": [(np.squeeze, (1, 3, 1)), (lambda a: a.squeeze(0), (1, 3, 1))],
    "expand_dims": [(lambda a: np.expand_dims(a, (0, -1)), A)],
    "atleast_1d": [(np.atleast_1d, ()), (lambda a, b: np.atleast_1d(a, b), (), A)],
    "atleast_2d": [(np.atleast_2d, V)],
    "atleast_3d": [(np.atleast_3d, V), (np.atleast_3d, A)],
    "broadcast_to": [(lambda a: np.broadcast_to(a, (2, 3, 4)), V), (lambda a: np.broadcast_to(a, (3, 2)), (3, 1))],
    "broadcast_arrays": [(np.broadcast_arrays, A, V)],
    "repeat": [(lambda a: np.repeat(a, 2), A), (lambda a: a.repeat([1, 0, 2], axis=0), A)],
    "tile": [(lambda a: np.tile(a, (2, 1, 2)), A)],
    "delete": [(lambda a: np.delete(a, 1, axis=1), A), (lambda a: np.delete(a, [0, 2]), A)],
    "insert": [(lambda a, b: np.insert(a, 1, b, axis=0), A, V), (lambda a: np.insert(a, 1, 9.0), V)],
    "append": [(np.append, V, A), (lambda a, b: np.append(a, b, axis=0), A, (1, 4)), (lambda a: np.append(a, 1.0), V)],
    "resize": [(lambda a: np.resize(a, (3, 3)), V)],
    "diag": [(np.diag, A), (np.diag, V), (lambda a: np.diag(a, -1), V)],
    "diagflat": [(np.diagflat, (2, 2))],
    "diagonal": [(np.diagonal, C), (lambda a: a.diagonal(1), A)],
    "linalg.diagonal": [(lambda a: np.linalg.diagonal(a, offset=1), C)],
    "triu": [(np.triu, A)],
    "tril": [(lambda a: np.tril(a, -1), C)],
    "roll": [(lambda a: np.roll(a, 5), A), (lambda a: np.roll(a, (1, -1), axis=(0, 1)), A)],
    "flip": [(np.flip, A), (lambda a: np.flip(a, 1), A), (lambda a: np.flip(a, (0, -1)), C)],
    "fliplr": [(np.fliplr, A)],
    "flipud": [(np.flipud, A)],
    "rot90": [(np.rot90, A), (lambda a: np.rot90(a, 3, (1, 2)), C)],
    "fft.fftshift": [(np.fft.fftshift, A)],
    "fft.ifftshift": [(lambda a: np.fft.ifftshift(a, axes=1), A)],
    "lib.stride_tricks.sliding_window_view": [
        (lambda a: np.lib.stride_tricks.sliding_window_view(a, 3), W),
        (lambda a: np.lib.stride_tricks.sliding_window_view(a, (2, 2)), A),
    ],
    "split": [(lambda a: np.split(a, 2, axis=1), A), (lambda a: np.split(a, [1]), A)],
    "array_split": [(lambda a: np.array_split(a, 3), W)],
    "hsplit": [(lambda a: np.hsplit(a, 2), A)],
    "vsplit": [(lambda a: np.vsplit(a, 3), A)],
    "dsplit": [(lambda a: np.dsplit(a, 2), C)],
    "unstack": [(lambda a: np.unstack(a, axis=1), A)],
    "concatenate": [
        (lambda a, b: np.concatenate([a, b], axis=1), A, (3, 2)),
        (lambda a, b: np.concatenate((a, np.ones(2), b), axis=None), A, V),
    ],
    "concat": [(lambda a, b: np.concat([a, b]), V, W)],
    "stack": [(lambda a, b: np.stack([a, b, a], axis=-1), A, A)],
    "vstack": [(lambda a, b: np.vstack([a, b]), A, V)],
    "hstack": [(lambda a, b: np.hstack([a, b]), A, (3, 1))],
    "dstack": [(lambda a, b: np.dstack([a, b]), A, A)],
    "column_stack": [(lambda a, b: np.column_stack([a, b]), (3,), A)],
    "block": [(lambda a, b: np.block([[a, np.zeros((3, 1))], [b, 1.0]]), A, (1, 4))],
    "meshgrid": [(np.meshgrid, V, (3,)), (lambda a: np.meshgrid(a, [1.0, 2.0], indexing="ij"), V)],
    "pad": [
        (lambda a: np.pad(a, 1), A),
        (lambda a: np.pad(a, ((1, 2), (0, 3)), mode="edge"), A),
        (lambda a: np.pad(a, 2, mode="reflect"), A),
        (lambda a: np.pad(a, 2, "symmetric"), A),
        (lambda a: np.pad(a, (1, 2), "wrap"), V),
    ],
    "take": [
        (lambda a: np.take(a, [1, 1, 5]), A),
        (lambda a: a.take([[0, -1]], axis=1), A),
        (lambda a: np.take(a, 7, mode="clip"), V),
    ],
    "take_along_axis": [(lambda a: np.take_along_axis(a, np.array([[0], [1], [1]]), axis=1), A)],
    "compress": [(lambda a: np.compress([True, False, True], a, axis=0), A), (lambda a: a.compress([0, 1, 1]), A)],
    "extract": [(lambda a: np.extract(np.arange(12) % 5 == 0, a), A)],
    "dot": [(np.dot, A, B), (np.dot, V, V), (lambda a, b: a.dot(b), A, V), (np.dot, (), A), (np.dot, A, (2, 4, 3))],
    "linalg.matmul": [(lambda a, b: np.linalg.matmul(a, b), A, B)],
    "inner": [(np.inner, A, A), (np.inner, V, V), (np.inner, C, A), (np.inner, (), V)],
    "outer": [(np.outer, V, W), (np.outer, A, V)],
    "linalg.outer": [(lambda a, b: np.linalg.outer(a, b), V, W)],
    "vdot": [(np.vdot, V, V)],
    "tensordot": [
        (lambda a, b: np.tensordot(a, b, 1), A, B),
        (lambda a, b: np.tensordot(a, b, ([1, 0], [0, 1])), A, B),
    ],
    "linalg.tensordot": [(lambda a, b: np.linalg.tensordot(a, b, axes=1), A, B)],
    "linalg.multi_dot": [
        (lambda a, b, c: np.linalg.multi_dot([a, b, c]), A, (4, 2), (2, 5)),
        (lambda a, b: np.linalg.multi_dot([a, b]), V, B),
    ],
    "kron": [(np.kron, (2, 2), (2, 3)), (np.kron, V, (2, 1)), (np.kron, (), A)],
    "cross": [(np.cross, (4, 3), (4, 3)), (lambda a, b: np.cross(a, b, axis=0), (3, 2), (3, 2)), (np.cross, (3,), B)],
    "linalg.cross": [(lambda a, b: np.linalg.cross(a, b), B, B)],
    "einsum": [
        (lambda a, b: np.einsum("ij,jk->ik", a, b), A, B),
        (lambda a: np.einsum("ij->j", a), A),
        (lambda a: np.einsum("ii->i", a), (3, 3)),
        (lambda a: np.einsum("ii", a), (3, 3)),
        (lambda a: np.einsum("iji->j", a), (3, 2, 3)),
        (lambda a, b: np.einsum("...j, jk", a, b), C, B),
        (lambda a, b: np.einsum("i,j->ji", a, b), V, W),
        (lambda a: np.einsum("ji", a), A),
    ],
    "diff": [
        (np.diff, A),
        (lambda a: np.diff(a, n=2, axis=0), A),
        (lambda a, b: np.diff(a, axis=1, prepend=b, append=0.0), A, (3, 1)),
        (lambda a, b: np.diff(a, axis=0, append=b), A, ()),
        (lambda a: np.diff(a, n=0), V),
    ],
    "ediff1d": [(np.ediff1d, A)],
    "convolve": [(lambda a, b, m=mode: np.convolve(a, b, m), x, y) for mode in ("full", "same", "valid")
                 for x, y in (((5,), (3,)), ((2,), (5,)), ((4,), (4,)), ((6,), (2,)))],
    "correlate": [(lambda a, b, m=mode: np.correlate(a, b, m), x, y) for mode in ("full", "same", "valid")
                  for x, y in (((5,), (3,)), ((2,), (5,)), ((4,), (4,)), ((6,), (2,)), ((3,), (6,)))],
    "polyadd": [(np.polyadd, V, (2,))],
    "polysub": [(np.polysub, (2,), V)],
    "polymul": [(np.polymul, V, (3,))],
    "polyder": [(np.polyder, V), (lambda p: np.polyder(p, 2), V)],
    "copy": [(np.copy, A), (lambda a: a.copy(), A)],
}  # fmt: skip


@pytest.mark.parametrize("name", COMPUTED)
def test_sums_products_and_movements(name):
    if found(name) is None:
        pytest.skip(f"numpy {np.__version__} has no {name}")
    for function, *shapes in COMPUTED[name]:
        inputs = [some(shape) for shape in shapes]
        pairs = tried(function, *inputs)
        assert pairs == computed(function, *shapes)


def lanes(shape, *axes, keepdims=False):
    axes = [axis % len(shape) for axis in axes] if axes else range(len(shape))
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    return [[{(tuple(cell[axis] for axis in kept), cell) for cell in cells(shape)}]]


LANES = names(
    "std var median any all argmax argmin ptp count_nonzero max min amax amin "
    "nansum nanprod nanmax nanmin nanmean nanstd nanvar nanmedian nanargmax nanargmin"
)


@pytest.mark.parametrize("name", LANES)
def test_reductions(name):
    function = getattr(np, name)
    assert tried(function, some(A)) == lanes(A)
    assert tried(lambda a: function(a, axis=1), some(C)) == lanes(C, 1)
    assert tried(lambda a: function(a, axis=-1, keepdims=True), some(A)) == [[{((i, 0), (i, j)) for i, j in cells(A)}]]
    if name not in ("argmax", "argmin", "nanargmax", "nanargmin"):
        assert tried(lambda a: function(a, axis=(0, 2)), some(C)) == lanes(C, 0, 2)
    if hasattr(Array, name):
        assert tried(lambda a: getattr(a, name)(axis=0), some(A)) == lanes(A, 0)


def test_reductions_of_some_cells():
    mask = np.arange(12).reshape(A) % 3 == 0
    pairs = {((c[1],), c) for c in cells(A) if mask[c]}
    assert tried(lambda a: np.sum(a, axis=0, where=mask), some(A)) == [[pairs]]
    assert tried(lambda a: np.add.reduce(a, axis=0, where=mask), some(A)) == [[pairs]]
    assert tried(lambda a, m, i: np.max(a, axis=0, where=m, initial=i), some(A), mask, some(())) == [
        [pairs, lanes(A, 0)[0][0], {((k,), ()) for k in range(4)}]
    ]


@pytest.mark.parametrize("name", ["percentile", "quantile", "nanpercentile", "nanquantile"])
def test_quantiles(name):
    function = getattr(np, name)
    q = np.array([0.25, 0.5])
    assert tried(lambda a: function(a, 0.5, axis=0), some(A)) == lanes(A, 0)
    assert tried(lambda a, q: function(a, q, axis=0), some(A), q) == [
        [{((k, c[1]), c) for k in range(2) for c in cells(A)}, {((k, j), (k,)) for k in range(2) for j in range(4)}]
    ]


def test_running():
    prefix = [[{((i, k), (i, j)) for i, k in cells(A) for j in range(k + 1)}]]
    for name in ("nancumsum", "nancumprod"):
        function = getattr(np, name)
        assert tried(lambda a, f=function: f(a, axis=1), some(A)) == prefix
    for name in ("cumulative_sum", "cumulative_prod"):
        if found(name):
            function = getattr(np, name)
            assert tried(lambda a, f=function: f(a, axis=1), some(A)) == prefix
            later = [[{((i, k + 1), (i, j)) for i, k in cells(A) for j in range(k + 1)}]]
            assert tried(lambda a, f=function: f(a, axis=1, include_initial=True), some(A)) == later
    assert tried(lambda a: np.unwrap(a, axis=1), some(A) * 3) == prefix
    assert tried(lambda a: np.maximum.accumulate(a, axis=1), some(A)) == prefix


CELLWISE = {
    "around": lambda a: np.around(a, 1),
    "round": lambda a: a.round(1),
    "clip": lambda a: np.clip(a, 0.7, 1.2),
    "real": lambda a: a.real,
    "imag": lambda a: a.imag,
    "angle": np.angle,
    "nan_to_num": np.nan_to_num,
    "i0": np.i0,
    "sinc": np.sinc,
    "fix": np.fix,
    "isposinf": np.isposinf,
    "isneginf": np.isneginf,
    "iscomplex": np.iscomplex,
    "isreal": np.isreal,
    "real_if_close": np.real_if_close,
    "astype": lambda a: a.astype("i4"),
    "add": lambda a: a + 1,
    "sin": np.sin,
    "where": lambda a: np.abs(-a) ** 2 // 3 % 2,
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # numpy takes leave of fix
@pytest.mark.parametrize("name", CELLWISE)
def test_cell_by_cell(name):
    for shape in (A, (), (0, 3)):
        assert tried(CELLWISE[name], some(shape)) == [broadcast(shape)]


def test_cell_by_cell_of_several():
    a, b, c = some(A), some(V), some(())
    assert tried(np.add, a, b) == [broadcast(A, V)]
    assert tried(lambda a, b, c: np.clip(a, b, c), a, b, c) == [broadcast(A, V, ())]
    assert tried(lambda a, b: np.isclose(a, b), a, b) == [broadcast(A, V)]
    assert tried(lambda a, b: np.isclose(a, 1.0, rtol=b), a, b) == [broadcast(A, V)]
    for function in (
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.pow,
        operator.lt,
        operator.eq,
    ):
        assert tried(function, a, b) == [broadcast(A, V)]
        assert tried(lambda a, f=function: f(2.0, a), a) == [broadcast(A)]
    assert tried(divmod, a, b) == [broadcast(A, V)] * 2
    assert tried(np.modf, a) == [broadcast(A)] * 2
    assert tried(lambda a: -a, a) == [broadcast(A)]
    assert tried(lambda n: ~n & 3, np.arange(4)) == [broadcast(V)]
    assert tried(lambda a, b: np.arange(12.0).reshape(3, 4) * b - a, a, b) == [broadcast(A, V)]


def test_ufunc_methods():
    a, b = some(A), some(V)
    assert tried(np.add.reduce, a) == lanes(A, 0)
    assert tried(lambda a: np.multiply.reduce(a, axis=(0, 1)), a) == lanes(A)
    assert tried(lambda a: np.logical_or.reduce(a, 1), a) == lanes(A, 1)
    assert tried(lambda a, b: np.multiply.outer(a, b), a, b) == computed(np.multiply.outer, A, V)
    assert tried(lambda a: np.subtract.outer([1.0, 2.0], a), b) == computed(lambda a: np.subtract.outer([1, 2], a), V)
    reduceat = lambda a: np.add.reduceat(a, [0, 2, 1, 3], axis=1)  # noqa: E731
    assert tried(reduceat, a) == computed(reduceat, A)
    assert tried(np.matmul, a, some(B)) == computed(np.matmul, A, B)
    assert tried(operator.matmul, some(C), some(B)) == computed(np.matmul, C, B)
    if found("matvec"):
        assert tried(np.matvec, a, b) == computed(np.matmul, A, V)
        assert tried(np.vecmat, b, some(B)) == computed(np.matmul, V, B)
    if found("vecdot"):
        assert tried(np.vecdot, a, b) == [[{((i,), (i, j)) for i, j in cells(A)}, {((i,), (j,)) for i, j in cells(A)}]]
        for function in (np.vecdot, np.linalg.vecdot):
            assert tried(lambda a, b, f=function: f(a, b, axis=0), a, some(A)) == [[lanes(A, 0)[0][0]] * 2]


def test_made_up_cells():
    for function in (np.zeros_like, np.ones_like, lambda a: np.full_like(a, 3)):
        assert tried(function, some(A)) == [[set()]]
    assert tried(lambda a, b: np.full_like(a, b), some(A), some(V)) == [[set(), broadcast(A, V)[1]]]
    for name in ("diag_indices_from", "tril_indices_from", "triu_indices_from"):
        assert tried(getattr(np, name), some((3, 3))) == [[set()], [set()]]


def test_looked_up():
    x, table, values = some(A), np.array([0.5, 1.0, 1.5]), some((3,))
    due = [broadcast(A)[0], set(product(cells(A), cells((3,))))]
    assert tried(lambda x, t: np.digitize(x, t), x, table) == [due]
    assert tried(lambda x, t: np.searchsorted(t, x), x, table) == [due]
    assert tried(lambda x, t: t.searchsorted(x, side="right"), x, table) == [due]
    assert tried(lambda x, t: np.isin(x, t), x, table) == [due]
    assert tried(lambda x, p: np.polyval(p, x), x, values) == [due]
    assert tried(np.interp, x, table, values) == [[*due, due[1]]]
    n = np.arange(4)
    assert tried(lambda n: np.unravel_index(n, (2, 2)), n) == [broadcast(V)] * 2
    assert tried(lambda n, m: np.ravel_multi_index((n, m), (5, 5)), n, n) == [broadcast(V, V)]
    columns = {((j,), (i, j)) for i in range(2) for j in range(4)}
    assert tried(lambda n: np.ravel_multi_index(n, (5, 5)), np.stack([n, n])) == [[columns]]
    for name in ("linspace", "logspace", "geomspace"):
        function = getattr(np, name)
        each = {((k, i, j), (i, j)) for k in range(5) for i, j in cells(A)}
        assert tried(lambda a, b, f=function: f(a, b, 5), some(A), some(()))[0] == [
            each,
            {(out, ()) for out, _ in each},
        ]
        assert tried(lambda a, f=function: f(a, 9.0, 2, axis=1), some(A)) == [
            [{((i, k, j), (i, j)) for k in range(2) for i, j in cells(A)}]
        ]


def test_dates():
    day = np.array(["2024-02-28", "2024-03-02"], dtype="datetime64[D]")
    assert tried(np.datetime_as_string, day) == [broadcast((2,))]
    assert tried(np.is_busday, day) == [broadcast((2,))]
    assert tried(lambda d: np.busday_offset(d, 1, roll="forward"), day) == [broadcast((2,))]
    assert tried(lambda d: np.busday_count("2024-01-01", d), day) == [broadcast((2,))]
    assert tried(lambda d: np.diff(d).astype(int), day) == [[{((0,), (0,)), ((0,), (1,))}]]


def test_whole_matrices():
    square = np.eye(3) * 4 + some((3, 3))
    square = square + square.T
    stack = np.stack([square, square + np.eye(3)])
    for name in names("inv pinv det slogdet cholesky eig eigh eigvals eigvalsh svd svdvals qr matrix_rank cond"):
        function = found(f"linalg.{name}")
        if function is None:  # an older numpy
            continue
        if name in ("eigh", "eigvalsh", "cholesky"):
            single = square + 20 * np.eye(3)
        else:
            single = square
        assert tried(function, single) == all_pairs(function, single)
        for pairs, result in zip(tried(function, stack + 20 * np.eye(3)), listed(function(stack)), strict=True):
            due = {(out, c) for out in cells(np.shape(result)) for c in cells(stack.shape) if out[0] == c[0]}
            assert pairs == [due]
    power = lambda a: np.linalg.matrix_power(a, 3)  # noqa: E731
    assert tried(power, square) == all_pairs(power, square)
    b = some((3, 2))
    column = {((i, k), (j, k)) for i in range(3) for j in range(3) for k in range(2)}
    everything = set(product(cells((3, 2)), cells((3, 3))))
    assert tried(np.linalg.solve, square, b) == [[everything, column]]
    within([touched(np.linalg.solve, square, b)], tried(np.linalg.solve, square, b))
    assert tried(np.linalg.solve, square, some((3,))) == all_pairs(np.linalg.solve, square, some((3,)))
    tall = some((5, 3))
    least = tried(np.linalg.lstsq, tall, some((5, 2)))
    assert least[0] == [
        set(product(cells((3, 2)), cells((5, 3)))),
        {((i, k), (j, k)) for i, k in cells((3, 2)) for j in range(5)},
    ]
    assert least[2][1] == least[3][1] == set()
    assert tried(np.linalg.tensorinv, some((6, 2, 3)).reshape(2, 3, 6) + np.eye(6).reshape(2, 3, 6)) is not None
    solved = lambda a, b: np.linalg.tensorsolve(a, b)  # noqa: E731
    assert tried(solved, square, some((3,))) == all_pairs(solved, square, some((3,)))


def test_norms():
    assert tried(np.linalg.norm, some(A)) == lanes(A)
    assert tried(lambda a: np.linalg.norm(a, axis=1), some(A)) == lanes(A, 1)
    assert tried(lambda a: np.linalg.norm(a, 1, axis=(0, 2)), some(C)) == lanes(C, 0, 2)
    if found("linalg.vector_norm"):
        assert tried(lambda a: np.linalg.vector_norm(a, axis=0), some(A)) == lanes(A, 0)
        assert tried(np.linalg.matrix_norm, some(C)) == lanes(C, 1, 2)


FOURIER = [
    "fft",
    "ifft",
    "rfft",
    "irfft",
    "hfft",
    "ihfft",
    "fft2",
    "ifft2",
    "rfft2",
    "irfft2",
    "fftn",
    "ifftn",
    "rfftn",
    "irfftn",
]


@pytest.mark.parametrize("name", FOURIER)
def test_fourier(name):
    function = getattr(np.fft, name)
    if name.endswith(("2", "n")):
        assert tried(function, some(A)) == all_pairs(function, some(A))
        mixed = tried(lambda a: function(a, axes=(0, 1)), some(C))[0][0]
        assert mixed == {
            (o, c) for o in cells(np.shape(function(some(C), axes=(0, 1)))) for c in cells(C) if o[2] == c[2]
        }
        cut = lambda a: function(a, s=(2, 2), axes=(0, 1))  # noqa: E731
    else:
        out = np.shape(function(some(A), axis=0))
        assert tried(lambda a: function(a, axis=0), some(A)) == [
            [{(o, c) for o in cells(out) for c in cells(A) if o[1] == c[1]}]
        ]
        cut = lambda a: function(a, n=2, axis=1)  # noqa: E731
    # Only what is read of a lane that is cut short: what a change of it moves is all, and there is nothing else.
    seen = touched(lambda a: np.round(cut(a), 9), some(A) + 3)
    said = tried(cut, some(A) + 3)[0]
    assert seen[0] <= said[0]
    assert {c for _, c in seen[0]} == {c for _, c in said[0]}


def test_statistics():
    a = some(A)
    rows = {((i, k), (r, j)) for i in range(3) for k in range(3) for r in {i, k} for j in range(4)}
    assert tried(np.cov, a) == [[rows]]
    assert tried(np.corrcoef, a) == [[rows]]
    columns = {((i, k), (j, c)) for i in range(4) for k in range(4) for c in {i, k} for j in range(3)}
    assert tried(lambda a: np.cov(a, rowvar=False), a) == [[columns]]
    both = tried(np.cov, some(V), some(V))[0]
    assert both[0] == {((i, k), (j,)) for i in range(2) for k in range(2) if 0 in (i, k) for j in range(4)}
    assert both[1] == {((i, k), (j,)) for i in range(2) for k in range(2) if 1 in (i, k) for j in range(4)}
    assert tried(np.cov, some(V)) == [[{((), (j,)) for j in range(4)}]]
    for function in (np.histogram, np.histogram_bin_edges, lambda a: np.histogram2d(a[0], a[1], 3)):
        for pairs, due in zip(tried(function, a), all_pairs(function, a), strict=True):
            assert pairs[0] <= due[0]
    assert tried(np.histogram, a) == all_pairs(np.histogram, a)
    n = np.array([3, 1, 1, 0])
    assert tried(np.bincount, n) == all_pairs(np.bincount, n)
    assert tried(lambda n, w: np.bincount(n, weights=w), n, some(V)) == [[set(product(cells((4,)), cells(V)))] * 2]
    for function in (np.array_equal, np.array_equiv, np.allclose):
        assert tried(function, a, a.copy()) == all_pairs(function, a, a)
    y = some((4, 2))
    assert tried(lambda x, y: np.polyfit(x, y, 1), some(V), y) == [
        [
            set(product(cells((2, 2)), cells(V))),
            {((i, k), (j, k)) for i in range(2) for j in range(4) for k in range(2)},
        ]
    ]
    assert tried(lambda a: np.average(a, axis=0, weights=[1, 2, 3], returned=True), a) == [lanes(A, 0)[0], [set()]]


def test_polynomials():
    p = np.array([1.0, -3.0, 2.0])
    assert tried(np.roots, p) == all_pairs(np.roots, p)
    assert tried(np.poly, p) == all_pairs(np.poly, p)
    assert tried(np.polyint, p) == [[{((k,), (k,)) for k in range(3)}]]
    vander = {((i, j), (i,)) for i in range(3) for j in range(3)}
    assert tried(np.vander, p) == [[{pair for pair in vander if pair[0][1] != 2}]]
    assert tried(lambda x: np.vander(x, increasing=True), p) == [[{pair for pair in vander if pair[0][1] != 0}]]


def test_gradient_and_bits():
    assert tried(np.gradient, some(W)) == [touched(np.gradient, some(W))]
    two = lambda a: np.gradient(a, edge_order=2)  # noqa: E731
    assert tried(two, some((3, 4))) == [touched(lambda a, k=k: two(a)[k], some((3, 4))) for k in range(2)]
    uneven = lambda a: np.gradient(a, [0.0, 1.0, 3.0, 4.0, 9.0])  # noqa: E731
    assert tried(uneven, some(W)) == [touched(uneven, some(W))]
    assert tried(lambda a: np.ediff1d(a, to_end=9.0), some(V))[0][0] == {
        ((k,), (k + d,)) for k in range(3) for d in (0, 1)
    }
    bits = np.arange(20, dtype=np.uint8).reshape(2, 10) % 2
    assert tried(lambda b: np.packbits(b, axis=1), bits) == [[{((i, j // 8), (i, j)) for i, j in cells((2, 10))}]]
    assert tried(np.packbits, bits) == [[{(((i * 10 + j) // 8,), (i, j)) for i, j in cells((2, 10))}]]
    packed = np.array([3, 200], dtype=np.uint8)
    assert tried(np.unpackbits, packed) == [[{((k,), (k // 8,)) for k in range(16)}]]
    assert tried(lambda p: np.unpackbits(p, count=11), packed) == [[{((k,), (k // 8,)) for k in range(11)}]]


def test_functions_along_lanes():
    assert tried(lambda a: np.apply_along_axis(np.ptp, 0, a), some(A)) == lanes(A, 0)
    twice = {((i, k, j), (i, m, j)) for i in range(2) for j in range(4) for m in range(3) for k in range(2)}
    assert tried(lambda a: np.apply_along_axis(lambda x: x[:2], 1, a), some(C)) == [[twice]]
    both = {((0, j, 0), (i, j, k)) for i, j, k in cells(C)}
    assert tried(lambda a: np.apply_over_axes(np.sum, a, [0, 2]), some(C)) == [[both]]
