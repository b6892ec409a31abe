"""Functions of neighbours along an axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from whence.arrays.cells import size_of
from whence.arrays.ops.links import Affine, Link, Table, Window
from whence.arrays.ops.relation import Chain, Linked, Relation, Reshaped, Separable, in_c_order
from whence.arrays.ops.shapes import along, axis_of, broadcast, joined
from whence.arrays.recorded.errors import Unfit
from whence.arrays.recorded.operand import Made, Rule, operands, shape_of

Found = Iterator[tuple[Any, Relation]]


def diff(made: Made, a: Any, n: Any = 1, axis: Any = -1, prepend: Any = None, append: Any = None) -> Found:
    shape = shape_of(a)
    number = axis_of(axis, len(shape))
    parts = [(each, _beside(shape_of(each), shape, number)) for each in (prepend, a, append) if each is not None]
    if n == 0:  # numpy gives the array itself back, whatever stands beside it
        parts = [(a, shape)]
    between = (*shape[:number], sum(part[number] for _, part in parts), *shape[number + 1 :])
    window = along(between, {number: Window(between[number], made.shape[number], 0, n)}, made.shape)
    before = 0
    for each, part in parts:
        if operands(each):
            put = joined(between, part, number, before)
            moved: Relation = Chain(made.shape, part, window, put)
            if shape_of(each) != part:
                moved = Chain(made.shape, shape_of(each), moved, broadcast(part, shape_of(each)))
            yield each, moved
        before += part[number]


def _beside(given: tuple[int, ...], shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return given if given else (*shape[:axis], 1, *shape[axis + 1 :])


def ediff1d(made: Made, ary: Any, to_end: Any = None, to_begin: Any = None) -> Found:
    total = size_of(made.shape)
    first = 0 if to_begin is None else size_of(shape_of(to_begin))
    last = 0 if to_end is None else size_of(shape_of(to_end))
    inner = total - first - last
    length = size_of(shape_of(ary))
    middle = Affine(inner, total, 1, -first)
    pairs = Window(length, inner, 0, 1)
    steps = Chain(
        made.shape,
        (length,),
        Separable(made.shape, (inner,), (Linked(0, middle),)),
        Separable((inner,), (length,), (Linked(0, pairs),)),
    )
    yield ary, Reshaped(made.shape, shape_of(ary), made.shape, (length,), steps)
    for each, start in ((to_begin, 0), (to_end, first + inner)):
        if operands(each):
            yield each, in_c_order(made.shape, shape_of(each), Affine(size_of(shape_of(each)), total, 1, -start))


def gradient(made: Made, f: Any, varargs: Any = (), axis: Any = None, edge_order: Any = 1) -> Found:
    shape = shape_of(f)
    ndim = len(shape)
    axes = range(ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    number = [axis_of(each, ndim) for each in axes][made.number]
    spacing = varargs[made.number if len(varargs) > 1 else 0] if varargs else 1.0
    if operands(varargs):
        raise Unfit("the spacing is a recorded array")
    length = shape[number]
    outs, ins = [], []
    edge = range(edge_order + 1)
    even = np.ndim(spacing) == 0 or bool((np.diff(spacing) == np.diff(spacing)[0]).all())
    for at in range(length):
        if at == 0:
            near = list(edge)
        elif at == length - 1:
            near = [length - 1 - step for step in edge]
        else:  # with even steps the cell itself cancels out
            near = [at - 1, at + 1] if even else [at - 1, at, at + 1]
        outs += [at] * len(near)
        ins += near
    yield f, along(shape, {number: Table.pairs(length, length, outs, ins)})


def convolve(made: Made, a: Any, v: Any, mode: Any = "full") -> Found:
    first, second = max(size_of(shape_of(a)), 1), max(size_of(shape_of(v)), 1)
    cut = _cut(first, second, mode)
    for each, length, other in ((a, first, second), (v, second, first)):
        if operands(each):
            window = Separable(made.shape, (length,), (Linked(0, Window(length, made.shape[0], other - 1 - cut, cut)),))
            yield each, Reshaped(made.shape, shape_of(each), made.shape, (length,), window)


def _cut(first: int, second: int, mode: Any) -> int:
    """How many cells of the full convolution stand in front of the first one kept."""
    if mode in ("full", 2):
        return 0
    if mode in ("valid", 0):
        return min(first, second) - 1
    return (min(first, second) - 1) // 2


def correlate(made: Made, a: Any, v: Any, mode: Any = "valid") -> Found:
    """A convolution with the second array turned around."""
    first, second = size_of(shape_of(a)), size_of(shape_of(v))
    least = min(first, second) - 1
    cut = _cut(first, second, mode)
    if first < second and mode in ("same", 1):  # numpy exchanges the two and turns the result around
        cut = least - cut
    outputs = made.shape[0]
    if operands(a):
        yield a, Separable(made.shape, (first,), (Linked(0, Window(first, outputs, second - 1 - cut, cut)),))
    if operands(v):
        # output k meets v from the back: v[n] with n = second - 1 - (full index - a's index)
        back = Window(second, outputs, first - 1 - cut, cut)
        turned = Chain(
            made.shape,
            (second,),
            Separable(made.shape, (second,), (Linked(0, back),)),
            Separable((second,), (second,), (Linked(0, Affine(second, second, -1, second - 1)),)),
        )
        yield v, turned


def packed(made: Made, a: Any, axis: Any = None, bitorder: Any = "big") -> Found:
    yield (
        a,
        _bits(
            made,
            shape_of(a),
            axis,
            lambda inputs, outputs: Table.pairs(inputs, outputs, np.arange(inputs) // 8, np.arange(inputs)),
        ),
    )


def unpacked(made: Made, a: Any, axis: Any = None, count: Any = None, bitorder: Any = "big") -> Found:
    def link(inputs: int, outputs: int) -> Link:
        origin = np.arange(outputs) // 8
        return Table.single(inputs, np.where(origin < inputs, origin, -1))

    yield a, _bits(made, shape_of(a), axis, link)


def _bits(made: Made, shape: tuple[int, ...], axis: Any, link: Any) -> Relation:
    if axis is None:
        inputs, outputs = size_of(shape), size_of(made.shape)
        return in_c_order(made.shape, shape, link(inputs, outputs))
    number = axis_of(axis, len(shape))
    return along(shape, {number: link(shape[number], made.shape[number])}, made.shape)


def aligned(made: Made, a1: Any, a2: Any) -> Found:
    """Sums of polynomials: the last coefficients stand above each other."""
    flat_only(a1, a2)
    for each in (a1, a2):
        length = size_of(shape_of(each))
        late = made.shape[0] - length
        if operands(each):
            yield each, in_c_order(made.shape, shape_of(each), Affine(length, made.shape[0], 1, -late))


def flat_only(*given: Any) -> None:
    if any(len(shape_of(each)) != 1 for each in given):
        raise Unfit("polynomials are given by arrays of one axis")


def polymul(made: Made, a1: Any, a2: Any) -> Found:
    flat_only(a1, a2)
    return convolve(made, a1, a2)


def polyder(made: Made, p: Any, m: Any = 1) -> Found:
    flat_only(p)
    yield p, Separable(made.shape, shape_of(p), (Linked(0, Affine(shape_of(p)[0], made.shape[0])),))


def polyint(made: Made, p: Any, m: Any = 1, k: Any = None) -> Found:
    return polyder(made, p)


RULES: dict[str, Rule] = {
    "diff": diff,
    "ediff1d": ediff1d,
    "gradient": gradient,
    "convolve": convolve,
    "correlate": correlate,
    "packbits": packed,
    "unpackbits": unpacked,
    "polyadd": aligned,
    "polysub": aligned,
    "polymul": polymul,
    "polyder": polyder,
    "polyint": polyint,
}
