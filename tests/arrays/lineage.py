"""What an operator says of its lineage, as plain sets, and naive ways to work out what it should say."""

from itertools import product

import numpy as np

from whence.arrays import Mode
from whence.arrays.operator import Place, at_place, modes_of
from whence.arrays.recorded import Array, asarray, gather

rng = np.random.default_rng(11)


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
        shared(op, outs, back, len(output_shape), i, "b")
        shared(op, ins, forth, len(input_shapes[i]), i, "f")
    assert back == {(out, given) for given, out in forth}
    assert single == back
    assert reached == back
    return back


def shared(op, asked, pairs, ndim, i, way):
    """Questions about sets of cells have the answers of all their cells."""
    for kept in (np.ones(len(asked), dtype=bool), rng.random(len(asked)) < 0.3):
        some = [cell for cell, keep in zip(asked, kept, strict=True) if keep]
        due = {other for cell, other in pairs if cell in set(some)}
        table = np.array(some, dtype=np.int64).reshape(len(some), ndim)
        left = {tuple(cell) for cell in getattr(op, f"alike_{way}")(table, i).tolist()}
        assert left <= set(some)
        assert {other for cell, other in pairs if cell in left} == due
        together = getattr(op, f"together_{way}")(table, i)
        assert together is None or {tuple(cell) for cell in together.tolist()} == due


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


class Sources:
    """A cell that stands for the set of input cells it was computed from, whatever the arithmetic."""

    def __init__(self, held):
        self.held = frozenset(held)

    def _with(self, *others):
        return Sources(self.held.union(*(each.held for each in others if isinstance(each, Sources))))

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = _with
    __neg__ = conjugate = sqrt = _with


def computed(function, *shapes):
    """For each result and input the pairs, by running a function of sums and products on such cells."""
    named = []
    for number, shape in enumerate(shapes):
        names = np.empty(shape, dtype=object)
        for cell in cells(shape):
            names[cell] = Sources([(number, cell)])
        named.append(names)
    found = []
    for result in listed(function(*named)):
        result = boxed(result)
        pairs = [set() for _ in shapes]
        for out in cells(result.shape):
            for number, cell in getattr(result[out], "held", ()):
                pairs[number].add((out, cell))
        found.append(pairs)
    return found


def boxed(result):
    if isinstance(result, np.ndarray):
        return result
    box = np.empty((), dtype=object)
    box[()] = result
    return box


def listed(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def back(array, inputs):
    """The value of a recorded array when all is run again, and its pairs with each of these inputs."""
    values, pairs = {}, {}
    workflow, data = gather(array)
    for node in workflow.nodes:
        if node.operator is None:
            values[node] = data[node.name]
            pairs[node] = {node: {(cell, cell) for cell in cells(values[node].shape)}}
            continue
        values[node], direct = run(node.operator, *(values[below] for below in node.inputs))
        found = {}
        for below, each in zip(node.inputs, direct, strict=True):
            for source, reached in pairs[below].items():
                towards = {}
                for middle, cell in reached:
                    towards.setdefault(middle, []).append(cell)
                found.setdefault(source, set()).update((out, cell) for out, m in each for cell in towards.get(m, ()))
        pairs[node] = found
    node = array.whence_node
    return values[node], [pairs[node].get(each.whence_node, set()) for each in inputs]


def some(shape):
    return np.asarray(rng.permutation(int(np.prod(shape))).reshape(shape) / 7 + 0.5)


def tried(function, *inputs):
    """What the function gives on recorded arrays: for each result its pairs with each input. Values are compared."""
    recorded = [asarray(x) for x in inputs]
    results, plain = function(*recorded), function(*inputs)
    assert type(results) is type(plain) or not isinstance(plain, (list, tuple))
    assert len(listed(results)) == len(listed(plain))
    pairs = []
    for result, due in zip(listed(results), listed(plain), strict=True):
        assert isinstance(result, Array), f"{type(result)} is a result without lineage"
        assert result.shape == np.shape(due)
        np.testing.assert_array_equal(np.asarray(result), due)
        assert result.dtype == np.asarray(due).dtype
        value, each = back(result, recorded)
        np.testing.assert_array_equal(value, due)
        pairs.append(each)
    return pairs


def all_pairs(function, *inputs):
    return [
        [set(product(cells(np.shape(result)), cells(x.shape))) for x in inputs] for result in listed(function(*inputs))
    ]


def within(small, large):
    for result, due in zip(small, large, strict=True):
        for one, all_ in zip(result, due, strict=True):
            assert one <= all_, f"missing: {sorted(one - all_)[:5]}"
