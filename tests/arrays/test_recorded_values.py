"""numpy functions that move or choose cells by what they hold, and indexing."""

from itertools import product

import numpy as np

from arrays.lineage import broadcast, cells, computed, some, tried
from whence.arrays.recorded.rules.names import found

A, V, C = (3, 4), (4,), (2, 3, 4)


def test_indexing():
    for key in (0, -1, slice(None, None, -2), (1, slice(1, 3)), ..., (None, 2), (slice(0), 1), (..., -1)):
        assert tried(lambda a, k=key: a[k], some(A)) == computed(lambda a, k=key: a[k], A)
    rows, mask = np.array([2, 0, 0]), np.arange(12).reshape(A) % 5 == 0
    for key in (
        [2, 0],
        (rows, [1, 1, 3]),
        mask,
        (slice(None), [0, 0]),
        (mask[:, 0],),
        (rows[:, None], [0, 1]),
        (0, rows),
    ):
        assert tried(lambda a, k=key: a[k], some(A)) == computed(lambda a, k=key: a[k], A)
    for key in ([1, 0], (0, slice(None), [1, 2]), ([0, 1], slice(None), [1, 2]), (..., mask), (slice(None), rows)):
        assert tried(lambda a, k=key: a[k], some(C)) == computed(lambda a, k=key: a[k], C)
    records = np.array([(1, 2.0), (3, 4.0)], dtype=[("n", int), ("x", float)])
    assert tried(lambda r: r["x"], records) == [broadcast((2,))]


def test_indexing_by_recorded_arrays():
    a, rows, columns = some(A), np.array([2, 0, 0]), np.array([1, 1, 3])
    mask = np.arange(12).reshape(A) % 5 == 0
    each = {((k,), (k,)) for k in range(3)}
    assert tried(lambda a, r, c: a[r, c], a, rows, columns) == [
        [{((k,), (rows[k], columns[k])) for k in range(3)}, each, each]
    ]
    assert tried(lambda a, r: a[r, 1:3], a, rows) == [
        [
            {((k, j), (rows[k], j + 1)) for k in range(3) for j in range(2)},
            {((k, j), (k,)) for k in range(3) for j in range(2)},
        ]
    ]
    chosen = [tuple(c) for c in np.argwhere(mask).tolist()]
    assert tried(lambda a, m: a[m], a, mask) == [[{((k,), c) for k, c in enumerate(chosen)}] * 2]
    assert tried(lambda a: a[a > 1], a)[0][0] == {((k,), tuple(c)) for k, c in enumerate(np.argwhere(a > 1).tolist())}
    assert tried(lambda c, m: c[..., m, 1], some((2, 3, 3)), np.array([True, False, True])) == [
        [
            {((i, k), (i, 2 * k, 1)) for i in range(2) for k in range(2)},
            {((i, k), (2 * k,)) for i in range(2) for k in range(2)},
        ]
    ]
    assert tried(lambda a, n: a[n], a, np.array(1)) == [
        [{((j,), (1, j)) for j in range(4)}, {((j,), ()) for j in range(4)}]
    ]
    assert tried(lambda a: a[a.argmax(axis=0), np.arange(4)], a)[0][0] == {((j,), (i, j)) for i, j in cells(A)}
    assert tried(lambda a, r: np.take(a, r, axis=1), a, rows) == [
        [{((i, k), (i, rows[k])) for i, k in cells((3, 3))}, {((i, k), (k,)) for i, k in cells((3, 3))}]
    ]
    order = np.argsort(a, axis=1)
    assert tried(lambda a, o: np.take_along_axis(a, o, 1), a, order) == [
        [{((i, j), (i, order[i, j])) for i, j in cells(A)}, broadcast(A)[0]]
    ]
    keep = np.array([True, False, True])
    assert tried(lambda a, k: np.compress(k, a, axis=0), a, keep) == [
        [
            {((i, j), (2 * i, j)) for i in range(2) for j in range(4)},
            {((i, j), (2 * i,)) for i in range(2) for j in range(4)},
        ]
    ]
    assert tried(lambda m, a: np.extract(m, a), mask, a) == [[{((k,), c) for k, c in enumerate(chosen)}] * 2]


def test_choosing():
    a, b, c = some(A), -some(V), np.arange(12).reshape(A) % 3 == 0
    where = [
        broadcast(A)[0],
        {(o, i) for o, i in broadcast(A)[0] if c[o]},
        {(o, i) for o, i in broadcast(A, V)[1] if not c[o]},
    ]
    assert tried(np.where, c, a, b) == [where]
    assert tried(lambda a, b: np.where(c, a, b), a, b) == [where[1:]]
    assert tried(lambda a: np.where(a > 1, a, 0), a)[0][0] == broadcast(A)[0]
    which = [tuple(cell) for cell in np.argwhere(c).tolist()]
    each = {((k,), cell) for k, cell in enumerate(which)}
    for function in (np.where, np.nonzero, lambda c: c.nonzero()):
        assert tried(function, c) == [[each]] * 2
    assert tried(np.flatnonzero, c) == [[each]]
    assert tried(np.argwhere, c) == [[{((k, d), cell) for k, cell in enumerate(which) for d in range(2)}]]
    d = np.arange(12).reshape(A) % 2 == 0
    assert tried(lambda c, d, a, b: np.select([c, d], [a, b], 7.0), c, d, a, b) == [
        [
            broadcast(A)[0],
            {(o, i) for o, i in broadcast(A)[0] if not c[o]},
            {(o, i) for o, i in broadcast(A)[0] if c[o]},
            {(o, i) for o, i in broadcast(A, V)[1] if d[o] and not c[o]},
        ]
    ]
    n = np.array([1, 0, 1, 1])
    assert tried(lambda n, x, y: np.choose(n, [x, y]), n, some(V), some(V)) == [
        [broadcast(V)[0], {((k,), (k,)) for k in range(4) if n[k] == 0}, {((k,), (k,)) for k in range(4) if n[k] == 1}]
    ]


def test_sorting():
    a = some(A)
    moved = [[{((i, k), (i, j)) for i in range(3) for k, j in enumerate(np.argsort(a[i]))}]]
    assert tried(np.sort, a) == moved
    assert tried(np.argsort, a) == moved
    assert tried(lambda a: a.argsort(kind="stable"), a) == moved
    flat = [[{((k,), divmod(int(j), 4)) for k, j in enumerate(np.argsort(a, axis=None))}]]
    assert tried(lambda a: np.sort(a, axis=None), a) == flat
    assert tried(lambda a: np.argsort(a, axis=None), a) == flat
    for axis in (0, -1, None):
        for function in (np.partition, np.argpartition):
            pairs = tried(lambda a, f=function, x=axis: f(a, 1, axis=x), a)[0][0]
            result = np.partition(a, 1, axis=axis)
            if function is np.partition:
                assert all(result[out] == a[cell] for out, cell in pairs)
            assert sorted(cell for _, cell in pairs) == cells(A)
    ties = np.array([2, 1, 2, 1, 1])
    assert tried(lambda a: np.partition(a, 2), ties)[0][0] >= {((3,), (0,)), ((4,), (2,))}
    keys = np.array([1, 0, 1, 0])
    order = np.lexsort((a[0], keys))
    assert tried(lambda x, k: np.lexsort((x, k)), a[0], keys) == [[{((k,), (j,)) for k, j in enumerate(order)}] * 2]
    assert tried(np.lexsort, a) == [[{((k,), (r, j)) for k, j in enumerate(np.lexsort(a)) for r in range(3)}]]
    assert tried(np.sort_complex, a)[0] == moved[0]
    assert tried(np.trim_zeros, np.array([0.0, 0, 1, 0, 2, 0])) == [[{((k,), (k + 2,)) for k in range(3)}]]
    assert tried(lambda a: np.trim_zeros(a, "b"), np.array([0.0, 1, 0])) == [[{((k,), (k,)) for k in range(2)}]]


def test_distinct():
    a = np.array([[3, 1, 3], [2, 1, 3]])
    equal = {((k,), c) for k, v in enumerate((1, 2, 3)) for c in cells((2, 3)) if a[c] == v}
    assert tried(np.unique, a) == [[equal]]
    several = tried(lambda a: np.unique(a, return_index=True, return_inverse=True, return_counts=True), a)
    assert several[0] == several[1] == several[3] == [equal]
    assert several[2] == [set(product(cells(np.unique(a, return_inverse=True)[1].shape), cells((2, 3))))]
    nans = np.array([np.nan, 1.0, np.nan])
    assert tried(np.unique, nans) == [[{((0,), (1,)), ((1,), (0,)), ((1,), (2,))}]]
    for name, count in (("unique_values", 1), ("unique_counts", 2), ("unique_inverse", 2), ("unique_all", 4)):
        if found(name):
            results = tried(getattr(np, name), a)
            assert len(results) == count
            if name != "unique_values":
                assert results[0] == [equal]
    x, y = np.array([5, 1, 5, 2]), np.array([2, 7, 5])
    assert tried(np.union1d, x, y)[0][0] == {((0,), (1,)), ((1,), (3,)), ((2,), (0,)), ((2,), (2,))}
    assert tried(np.union1d, x, y)[0][1] == {((1,), (0,)), ((2,), (2,)), ((3,), (1,))}
    assert tried(np.intersect1d, x, y) == [[{((0,), (3,)), ((1,), (0,)), ((1,), (2,))}, {((0,), (0,)), ((1,), (2,))}]]
    assert tried(np.setdiff1d, x, y) == [[{((0,), (1,))}, set()]]
    assert tried(np.setxor1d, x, y) == [[{((0,), (1,))}, {((1,), (1,))}]]
