"""What an operator says of its lineage, as plain sets, and naive ways to work out what it should say."""

from itertools import product

import numpy as np

from whence.arrays import Mode
from whence.arrays.operator import Place, at_place, modes_of


class Written:
    def __init__(self, inputs, shape):
        self.pairs = [set() for _ in inputs]
        self.shape = shape

    def region(self, outcells, incells, payload):
        raise AssertionError("built-in operators write pairs")

    def many(self, outcells, incells, i, payload):
        assert len(outcells) == len(incells)
        for out, given in zip(np.asarray(outcells).tolist(), np.asarray(incells).tolist(), strict=True):
            self.pairs[i].add((tuple(out), tuple(given)))


def cells(shape):
    return list(product(*(range(length) for length in shape)))


def run(op, *inputs):
    """The result, and for each input the set of pairs (output cell, input cell), asked in every way there is."""
    shapes = tuple(each.shape for each in inputs)
    inputs = tuple(np.array(each) for each in inputs)
    for each in inputs:
        each.flags.writeable = False
    writer = Written(inputs, None)
    with at_place(op, Place(shapes, None, writer)):
        result = op.run(*inputs, cur_modes=frozenset({Mode.FULL}))
    plain = op.run(*inputs, cur_modes=frozenset({Mode.BLACKBOX}))
    assert isinstance(result, np.ndarray)
    np.testing.assert_array_equal(result, plain)
    assert result.dtype == plain.dtype
    if Mode.MAP not in modes_of(op):
        return result, writer.pairs
    assert not any(writer.pairs)
    return result, [mapped(op, shapes, result.shape, i) for i in range(len(inputs))]


def mapped(op, input_shapes, output_shape, i):
    outs, ins = cells(output_shape), cells(input_shapes[i])
    with at_place(op, Place(input_shapes, output_shape)):
        back = many(op.map_b_many, outs, ins, len(output_shape), i)
        forth = many(op.map_f_many, ins, outs, len(input_shapes[i]), i)
        single = {(out, tuple(given)) for out in outs for given in np.asarray(op.map_b(out, i)).tolist()}
        reached = {(tuple(out), given) for given in ins for out in np.asarray(op.map_f(given, i)).tolist()}
    assert back == {(out, given) for given, out in forth}
    assert single == back
    assert reached == back
    return back


def many(function, asked, allowed, ndim, i):
    rows, found = function(np.array(asked, dtype=np.int64).reshape(len(asked), ndim), i)
    pairs = [(asked[row], tuple(cell)) for row, cell in zip(rows.tolist(), found.tolist(), strict=True)]
    assert found.dtype == np.int64
    assert len(pairs) == len(set(pairs)), "a pair twice"
    assert {cell for _, cell in pairs} <= set(allowed)
    return set(pairs)


def moved(function, shape, *shapes):
    """The pairs of a function that moves cells, for each input: it is run on the cells' own names."""
    named = []
    for number, each in enumerate((shape, *shapes)):
        names = np.empty(each, dtype=object)
        for cell in cells(each):
            names[cell] = (number, cell)
        named.append(names)
    result = function(*named)
    if not isinstance(result, np.ndarray):  # numpy hands out the one cell of a 0-d array
        result, only = np.empty((), dtype=object), result
        result[()] = only
    pairs = [set() for _ in named]
    for out in cells(result.shape):
        if isinstance(result[out], tuple):
            number, cell = result[out]
            pairs[number].add((out, cell))
    return pairs


def broadcast(*shapes):
    out = np.broadcast_shapes(*shapes)
    return [
        {
            (cell, tuple(c if n > 1 else 0 for c, n in zip(cell[len(out) - len(shape) :], shape, strict=True)))
            for cell in cells(out)
        }
        for shape in shapes
    ]


def touched(function, *inputs, by=1e-3):
    """The pairs that a small change of one input cell shows; a right lineage has them all."""
    before = np.asarray(function(*inputs))
    pairs = [set() for _ in inputs]
    for i, each in enumerate(inputs):
        for cell in cells(each.shape):
            changed = [x.copy() for x in inputs]
            changed[i][cell] += by
            after = np.asarray(function(*changed))
            if after.shape == before.shape:
                differs = ~((after == before) | ((after != after) & (before != before)))
                pairs[i] |= {(tuple(out), cell) for out in np.argwhere(differs).tolist()}
    return pairs
