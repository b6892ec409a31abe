"""Interval: what moves along with a stride, mirrored or in C order, is few rows, and answers are those of the pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.arrays import Workflow
from whence.arrays.cells import coordinates, flat, inside
from whence.arrays.encodings.base import Source
from whence.arrays.encodings.interval import Interval, View, compressed
from whence.arrays.lists import Lists
from whence.arrays.maps import Maps
from whence.arrays.operator import Operator
from whence.arrays.payloads import Payloads, Table
from whence.arrays.written import Regions, Written


def encoded(regions, output, inn, direction):
    written = Written((regions,), Payloads(Lists.single(np.empty(0, np.int64)), Table.of([], "a test")))
    maps = Maps(Operator(), (inn,), output)
    columns = Interval.encode(Source(maps, written), direction)
    return Interval.open(columns, maps, direction), columns.size()


def asked(parts):
    return sorted({int(n) for part in parts for n in part})


@st.composite
def relations(draw):
    """Input coordinates follow output axes with strides, in windows; some pairs are left out and some added."""
    output = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    inn = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    cells = coordinates(np.arange(int(np.prod(output))), output)
    base = np.zeros((len(cells), len(inn)), np.int64)
    for a in range(len(inn)):
        axis, stride = draw(st.integers(0, len(output) - 1)), draw(st.integers(-3, 3))
        base[:, a] = stride * cells[:, axis] + draw(st.integers(-3, 12))
    width = draw(st.integers(0, 2))
    outs, inns = [], []
    for step in range(width + 1):
        moved = base.copy()
        moved[:, -1] += step
        good = inside(moved, inn)
        outs.append(np.flatnonzero(good))
        inns.append(flat(moved[good], inn))
    out, inp = np.concatenate(outs), np.concatenate(inns)
    kept = np.array(draw(st.lists(st.integers(0, 9), min_size=len(out), max_size=len(out))), np.int64) > 0
    more = draw(st.lists(st.tuples(st.integers(0, len(cells) - 1), st.integers(0, int(np.prod(inn)) - 1)), max_size=3))
    out = np.concatenate([out[kept], [a for a, _ in more]]).astype(np.int64)
    inp = np.concatenate([inp[kept], [b for _, b in more]]).astype(np.int64)
    return output, inn, out, inp


@settings(max_examples=200, deadline=None)
@given(relations(), st.sampled_from(["backward", "forward"]), st.booleans(), st.booleans(), st.data())
def test_answers_are_those_of_the_pairs_however_they_are_looked_at(relation, direction, is_flat, is_turned, data):
    output, inn, out, inp = relation
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("whence.arrays.encodings.interval._best_view", lambda *_: View(output, inn, is_flat, is_turned))
        interval, _ = encoded(Regions.pairs(out, inp), output, inn, direction)
    for ours, theirs, size, ask in (
        (out, inp, int(np.prod(output)), interval.backward),
        (inp, out, int(np.prod(inn)), interval.forward),
    ):
        for cells in ([0], [size - 1], sorted(data.draw(st.sets(st.integers(0, size - 1)))), list(range(size))):
            wanted = np.array(cells, np.int64)
            assert asked(ask(wanted, 0)) == sorted(set(theirs[np.isin(ours, wanted)].tolist()))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_regions_are_their_boxes(data):
    output, inn = (5, 4), (6, 3)
    sets = [
        st.lists(st.integers(0, size - 1), min_size=1, max_size=12)
        for size in (int(np.prod(output)), int(np.prod(inn)))
    ]
    written = data.draw(st.lists(st.tuples(*sets), min_size=1, max_size=5))
    lists = [
        Lists.of(
            np.array([len(pair[k]) for pair in written]), np.concatenate([pair[k] for pair in written]).astype("i8")
        )
        for k in (0, 1)
    ]
    interval, _ = encoded(Regions(*lists), output, inn, data.draw(st.sampled_from(["backward", "forward"])))
    for cell in range(20):
        expected = {b for outs, inns in written if cell in outs for b in inns}
        assert asked(interval.backward(np.array([cell]), 0)) == sorted(expected)
    for cell in range(18):
        expected = {a for outs, inns in written if cell in inns for a in outs}
        assert asked(interval.forward(np.array([cell]), 0)) == sorted(expected)


NUMBERS = np.arange(200 * 300).reshape(200, 300)


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("flip", np.flip(NUMBERS)),
        ("rot90", np.rot90(NUMBERS)),
        ("slice", NUMBERS[10:-10:2, ::3]),
        ("backward slice", NUMBERS[::-3, 5::7]),
        ("reshape", NUMBERS.reshape(6000, 10)),
        ("ravel", NUMBERS.ravel()),
        ("turned", NUMBERS.T),
        ("repeat", np.repeat(np.repeat(NUMBERS[:150, :100], 2, axis=0), 3, axis=1)),
        ("tile", np.tile(NUMBERS[:40], (5, 1))),
    ],
)
def test_what_moves_regularly_takes_next_to_nothing(name, moved):
    out, inp = np.arange(moved.size), moved.ravel()
    for direction in ("backward", "forward"):
        interval, size = encoded(Regions.pairs(out, inp), moved.shape, NUMBERS.shape, direction)
        assert size < 1000, name  # the pairs as columns: a quarter of a million to two millions
        cells = np.array([3, 4, 5, 777, 2500])
        assert asked(interval.backward(cells, 0)) == np.unique(inp[cells]).tolist()
        found = np.unique(inp[cells])
        assert asked(interval.forward(found, 0)) == np.flatnonzero(np.isin(inp, found)).tolist()
    if name in ("flip", "slice", "turned"):
        assert len(compressed(Regions.pairs(out, inp), moved.shape, NUMBERS.shape)) == 1


def test_a_node_of_another_workflow_is_refused():
    other = Workflow().input("x")
    mine = Workflow()
    mine.input("x")
    with pytest.raises(LookupError, match="'x' is of another workflow"):
        mine.add(Operator(), other)
