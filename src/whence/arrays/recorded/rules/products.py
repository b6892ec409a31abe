"""Linear algebra and Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.ops.links import Affine, Link, Table
from whence.arrays.ops.relation import Chain, Linked, Moved, Relation, Reshaped, Separable, Span, Union
from whence.arrays.ops.shapes import (
    axis_of,
    contracted,
    dotted,
    everything,
    same,
    spread_axes,
    transform,
    whole,
)
from whence.arrays.recorded.errors import Unfit
from whence.arrays.recorded.operand import Made, Rule, operands, shape_of
from whence.arrays.recorded.rules.moving import numbers_of
from whence.arrays.recorded.rules.names import names
from whence.arrays.recorded.rules.ufuncs import lane_products

Found = Iterator[tuple[Any, Relation]]


def dot(made: Made, a: Any, b: Any) -> Found:
    first, second = dotted(made.shape, (shape_of(a), shape_of(b)))
    yield a, first
    yield b, second


def matmul(made: Made, x1: Any, x2: Any) -> Found:
    first, second = contracted(made.shape, (shape_of(x1), shape_of(x2)))
    yield x1, first
    yield x2, second


def vecdot(made: Made, x1: Any, x2: Any, axis: Any = -1) -> Found:
    return lane_products(made, (x1, x2), axis, False)


def inner(made: Made, a: Any, b: Any) -> Found:
    left, right = shape_of(a), shape_of(b)
    if not left or not right:
        yield from dot(made, a, b)
        return
    yield a, Separable(made.shape, left, (*_linked(left[:-1], 0), whole(left[-1])))
    yield b, Separable(made.shape, right, (*_linked(right[:-1], len(left) - 1), whole(right[-1])))


def _linked(lengths: Shape, first: int) -> list[Span | Linked]:
    return [Linked(first + number, same(length)) for number, length in enumerate(lengths)]


def outer_product(made: Made, a: Any = None, b: Any = None, x1: Any = None, x2: Any = None) -> Found:
    for place, each in ((0, x1 if a is None else a), (1, x2 if b is None else b)):
        shape = shape_of(each)
        length = made.shape[place]
        inside = Separable(made.shape, (length,), (Linked(place, same(length)),))
        yield each, Reshaped(made.shape, shape, made.shape, (length,), inside)


def whole_of_both(made: Made, a: Any, b: Any) -> Found:
    for operand in operands((a, b)):
        yield operand, everything(made.shape, operand.shape)


def tensordot(made: Made, a: Any = None, b: Any = None, axes: Any = 2, x1: Any = None, x2: Any = None) -> Found:
    first, second = (x1 if a is None else a), (x2 if b is None else b)
    left, right = shape_of(first), shape_of(second)
    if operands(axes):
        raise Unfit("axes is a recorded array")
    if isinstance(axes, (int, np.integer)):
        summed = [list(range(len(left) - axes, len(left))), list(range(axes))]
    else:
        summed = [list(np.atleast_1d(each)) for each in axes]
    place = 0
    for each, shape, gone in ((first, left, summed[0]), (second, right, summed[1])):
        dropped = {axis_of(axis, len(shape)) for axis in gone}
        found: list[Span | Linked] = []
        for axis, length in enumerate(shape):
            if axis in dropped:
                found.append(whole(length))
            else:
                found.append(Linked(place, same(length)))
                place += 1
        yield each, Separable(made.shape, shape, tuple(found))


def multi_dot(made: Made, arrays: Any) -> Found:
    """Its row of the first, its column of the last, all of those in between."""
    last = len(arrays) - 1
    for number, each in enumerate(arrays):
        shape = shape_of(each)
        found: list[Span | Linked] = [whole(length) for length in shape]
        if number == 0 and len(shape) == 2:
            found[0] = Linked(0, same(shape[0]))
        elif number == last and len(shape) == 2:
            found[1] = Linked(len(made.shape) - 1, same(shape[1]))
        yield each, Separable(made.shape, shape, tuple(found))


def kron(made: Made, a: Any, b: Any) -> Found:
    ndim = len(made.shape)
    left, right = ((1,) * (ndim - len(shape_of(each))) + shape_of(each) for each in (a, b))
    for each, shape, first in ((a, left, True), (b, right, False)):
        axes: list[Span | Linked] = []
        for axis in range(ndim):
            at = np.arange(made.shape[axis])
            origin = at // max(right[axis], 1) if first else at % max(right[axis], 1)
            axes.append(Linked(axis, Table.single(shape[axis], origin)))
        yield each, Reshaped(made.shape, shape_of(each), made.shape, shape, Separable(made.shape, shape, tuple(axes)))


def trace(
    made: Made, a: Any = None, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None, x: Any = None
) -> Found:
    given = x if a is None else a
    if a is None:
        axis1, axis2 = -2, -1
    shape = shape_of(given)
    line = np.diagonal(np.broadcast_to(np.int8(0), shape), offset, axis1, axis2).shape
    summed = Separable(made.shape, line, (*_linked(line[:-1], 0), whole(line[-1])))
    diagonal = Moved(line, shape, lambda: np.diagonal(numbers_of(shape), offset, axis1, axis2))
    yield given, Chain(made.shape, shape, summed, diagonal)


def cross(
    made: Made,
    a: Any = None,
    b: Any = None,
    axisa: Any = -1,
    axisb: Any = -1,
    axisc: Any = -1,
    axis: Any = None,
    x1: Any = None,
    x2: Any = None,
) -> Found:
    """Component k comes from the components of both that are not k."""
    if axis is not None:
        axisa = axisb = axisc = axis
    elif a is None:
        axisa = axisb = axisc = -1
    first, second = (x1 if a is None else a), (x2 if b is None else b)
    if shape_of(first)[axis_of(axisa, len(shape_of(first)))] != 3 or shape_of(second)[axisb] != 3:
        raise Unfit("vectors of two components are not")
    place = axis_of(axisc, len(made.shape))
    others = np.array([[1, 2], [0, 2], [0, 1]])
    turn = Table.pairs(3, 3, np.repeat(np.arange(3), 2), others.reshape(-1))
    rest = made.shape[:place] + made.shape[place + 1 :]
    for each, number in ((first, axisa), (second, axisb)):
        shape = shape_of(each)
        own = axis_of(number, len(shape))
        around = spread_axes(rest, shape[:own] + shape[own + 1 :], len(rest))
        axes = [
            part if isinstance(part, Span) else Linked(part.axis + (part.axis >= place), part.link) for part in around
        ]
        axes.insert(own, Linked(place, turn))
        yield each, Separable(made.shape, shape, tuple(axes))


def matrices(made: Made, a: Any = None, x: Any = None, A: Any = None, **parameters: Any) -> Found:
    """Functions of whole matrices: all of its matrix, each of a stack by itself."""
    given = next(each for each in (a, x, A) if each is not None)
    shape = shape_of(given)
    yield given, Separable(made.shape, shape, (*_linked(shape[:-2], 0), *(whole(length) for length in shape[-2:])))


def solve(made: Made, a: Any, b: Any) -> Found:
    left, right = shape_of(a), shape_of(b)
    column = len(right) > 1
    stop = len(made.shape) - 1 - column
    cores = (whole(left[-2]), whole(left[-1]))
    yield a, Separable(made.shape, left, (*spread_axes(made.shape, left[:-2], stop), *cores))
    if column:
        last = Linked(len(made.shape) - 1, same(right[-1]))
        ahead = spread_axes(made.shape, right[:-2], stop)
        yield b, Separable(made.shape, right, (*ahead, whole(right[-2]), last))
    else:
        yield b, everything(made.shape, right)


def lstsq(made: Made, a: Any, b: Any, rcond: Any = None) -> Found:
    """Solutions and residuals come from the matrix and their own column, rank and singular values from the matrix."""
    yield a, everything(made.shape, shape_of(a))
    shape = shape_of(b)
    if made.number > 1:
        yield b, Separable(made.shape, shape, tuple(Span(0, 0) for _ in shape))
    elif len(shape) == 2 and made.shape[-1] == shape[1]:
        yield b, Separable(made.shape, shape, (whole(shape[0]), Linked(len(made.shape) - 1, same(shape[1]))))
    else:
        yield b, everything(made.shape, shape)


def tensors(made: Made, **arguments: Any) -> Found:
    for operand in operands(arguments):
        yield operand, everything(made.shape, operand.shape)


def fourier(made: Made, a: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Found:
    shape = shape_of(a)
    yield a, _spectrum(made.shape, shape, {axis_of(axis, len(shape)): n})


def half_fourier(made: Made, a: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Found:
    """Back from half a spectrum: n cells come from n // 2 + 1."""
    shape = shape_of(a)
    yield a, _spectrum(made.shape, shape, {axis_of(axis, len(shape)): None if n is None else n // 2 + 1})


def fourier_2(made: Made, a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Found:
    return fourier_n(made, a, s, axes, norm)


def fourier_n(made: Made, a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Found:
    shape = shape_of(a)
    yield a, _spectrum(made.shape, shape, _lengths(shape, s, axes))


def half_fourier_2(made: Made, a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None) -> Found:
    return half_fourier_n(made, a, s, axes, norm)


def half_fourier_n(made: Made, a: Any, s: Any = None, axes: Any = None, norm: Any = None) -> Found:
    shape = shape_of(a)
    used = _lengths(shape, s, axes)
    if used:
        last = list(used)[-1]
        length = used[last]
        used[last] = None if length is None else length // 2 + 1
    yield a, _spectrum(made.shape, shape, used)


def _lengths(shape: Shape, s: Any, axes: Any) -> dict[int, int | None]:
    if axes is None:
        axes = range(len(shape)) if s is None else range(len(shape) - len(s), len(shape))
    numbers = [axis_of(axis, len(shape)) for axis in axes]
    if len(set(numbers)) < len(numbers):
        raise Unfit("an axis is named twice")
    lengths: Sequence[Any] = [None] * len(numbers) if s is None else list(s)
    return {axis: None if length in (None, -1) else int(length) for axis, length in zip(numbers, lengths, strict=True)}


def _spectrum(output: Shape, shape: Shape, used: dict[int, int | None]) -> Separable:
    """All to all along these axes, of which the first `used[axis]` cells are read."""
    axes = list(transform(output, shape, tuple(used)).axes)
    for axis, length in used.items():
        if length is not None:
            axes[axis] = Span(0, min(length, shape[axis]))
    return Separable(output, shape, tuple(axes))


def covariance(
    made: Made,
    m: Any = None,
    y: Any = None,
    rowvar: Any = True,
    bias: Any = False,
    ddof: Any = None,
    dtype: Any = None,
    x: Any = None,
    fweights: Any = None,
    aweights: Any = None,
) -> Found:
    """Of two variables, each a row (or a column) of the observations."""
    variables = made.shape[0] if made.shape else 1
    before = 0
    for each in (x if m is None else m, y):
        if each is None:
            continue
        shape = shape_of(each)
        if len(shape) == 0:
            raise Unfit("one number has no variance")
        row = 0 if rowvar or len(shape) == 1 else 1
        matrix: Shape = (1, shape[0]) if len(shape) == 1 else shape
        count = 1 if len(shape) == 1 else shape[row]
        if made.shape:
            link: Link = Affine(count, variables, 1, -before)
            parts = []
            for place in (0, 1):
                axes: list[Span | Linked] = [whole(length) for length in matrix]
                axes[row] = Linked(place, link)
                parts.append(Separable(made.shape, matrix, tuple(axes)))
            both: Relation = Union(made.shape, matrix, tuple(parts))
            yield each, Reshaped(made.shape, shape, made.shape, matrix, both)
        else:
            yield each, everything(made.shape, shape)
        before += count
    for operand in operands((fweights, aweights)):
        yield operand, everything(made.shape, operand.shape)


def einsum(
    made: Made, operands: Any, optimize: Any = False, dtype: Any = None, order: Any = "K", casting: Any = "safe"
) -> Found:
    if not operands or not isinstance(operands[0], str):
        raise Unfit("give the subscripts as a text first")
    arrays = operands[1:]
    terms, out = _labels(operands[0], [shape_of(each) for each in arrays])
    places = {label: number for number, label in enumerate(out)}
    lengths: dict[str, int] = {}
    for term, each in zip(terms, arrays, strict=True):
        for label, length in zip(term, shape_of(each), strict=True):
            lengths[label] = length if lengths.get(label, 1) == 1 else lengths[label]
    for term, each in zip(terms, arrays, strict=True):
        shape = shape_of(each)
        labels = list(dict.fromkeys(term))
        between = tuple(shape[term.index(label)] for label in labels)
        axes: list[Span | Linked] = []
        for label, length in zip(labels, between, strict=True):
            if label not in places or (length == 1 and lengths[label] != 1):
                axes.append(whole(length))
            else:
                axes.append(Linked(places[label], same(length)))
        summed = Separable(made.shape, between, tuple(axes))
        if len(labels) == len(term):
            yield each, summed
        else:
            yield each, Chain(made.shape, shape, summed, _diagonal(term, labels, shape, between))


def _diagonal(term: list[str], labels: list[str], shape: Shape, between: Shape) -> Relation:
    names = {label: number for number, label in enumerate(labels)}
    wanted = list(range(len(labels)))
    return Moved(between, shape, lambda: np.einsum(numbers_of(shape), [names[label] for label in term], wanted))


def _labels(subscripts: str, shapes: list[Shape]) -> tuple[list[list[str]], list[str]]:
    """Subscripts as lists of labels; the axes of an ellipsis are numbered from the back."""
    text = subscripts.replace(" ", "")
    given, arrow, result = text.partition("->")
    terms = []
    most = 0
    for term, shape in zip(given.split(","), shapes, strict=True):
        before, dots, after = term.partition("...")
        hidden = len(shape) - len(before) - len(after) if dots else 0
        most = max(most, hidden)
        terms.append([*before, *(f".{number}" for number in range(hidden, 0, -1)), *after])
    hidden_labels = [f".{number}" for number in range(most, 0, -1)]
    if arrow:
        before, dots, after = result.partition("...")
        return terms, [*before, *(hidden_labels if dots else []), *after]
    letters = [label for term in terms for label in term if not label.startswith(".")]
    return terms, hidden_labels + sorted(label for label in set(letters) if letters.count(label) == 1)


def vander(made: Made, x: Any, N: Any = None, increasing: Any = False) -> Found:
    """Powers of a cell; the column of its zeroth power is made up."""
    rows, columns = made.shape
    ones = 0 if increasing else columns - 1
    shape = shape_of(x)

    def origin() -> Any:
        numbers = np.repeat(np.arange(rows)[:, None], columns, axis=1)
        numbers[:, ones : ones + 1] = -1
        return numbers

    yield x, Moved(made.shape, shape, origin)


def polyfit(
    made: Made, x: Any, y: Any, deg: Any, rcond: Any = None, full: Any = False, w: Any = None, cov: Any = False
) -> Found:
    if full or cov:
        raise Unfit("full=True and cov=True give results of many kinds")
    yield x, everything(made.shape, shape_of(x))
    shape = shape_of(y)
    if len(shape) == 2:
        yield y, Separable(made.shape, shape, (whole(shape[0]), Linked(1, same(shape[1]))))
    else:
        yield y, everything(made.shape, shape)
    for operand in operands(w):
        yield operand, everything(made.shape, operand.shape)


MATRICES = names("inv pinv det slogdet cholesky eig eigh eigvals eigvalsh svd svdvals qr matrix_power matrix_rank cond")

RULES: dict[str, Rule] = {
    **{f"linalg.{name}": matrices for name in MATRICES},
    **{f"fft.{name}": fourier for name in ("fft", "ifft", "rfft", "ihfft")},
    **{f"fft.{name}": half_fourier for name in ("irfft", "hfft")},
    **{f"fft.{name}": fourier_2 for name in ("fft2", "ifft2", "rfft2")},
    **{f"fft.{name}": fourier_n for name in ("fftn", "ifftn", "rfftn")},
    "fft.irfft2": half_fourier_2,
    "fft.irfftn": half_fourier_n,
    "dot": dot,
    "linalg.matmul": matmul,
    "linalg.vecdot": vecdot,
    "inner": inner,
    "outer": outer_product,
    "linalg.outer": outer_product,
    "vdot": whole_of_both,
    "tensordot": tensordot,
    "linalg.tensordot": tensordot,
    "linalg.multi_dot": multi_dot,
    "kron": kron,
    "trace": trace,
    "linalg.trace": trace,
    "cross": cross,
    "linalg.cross": cross,
    "linalg.solve": solve,
    "linalg.lstsq": lstsq,
    "linalg.tensorinv": tensors,
    "linalg.tensorsolve": tensors,
    "cov": covariance,
    "corrcoef": covariance,
    "einsum": einsum,
    "vander": vander,
    "polyfit": polyfit,
    "roots": tensors,
    "poly": tensors,
}
