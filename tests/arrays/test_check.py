"""check_operator finds what is wrong, says it in a sentence, and finds nothing in what is right."""

import numpy as np
import pytest

from whence.arrays import Mode, Operator, check_operator, ops
from whence.arrays.recorded import asarray

X = np.arange(12.0).reshape(3, 4) / 3
SQUARE = np.eye(3) * 3 + np.arange(9.0).reshape(3, 3) / 10
TIES = np.array([[2.0, 1.0, 2.0], [1.0, 1.0, 1.0]])

RIGHT = [
    (ops.Elementwise(np.add), [X, X[0]]),
    (ops.Elementwise(np.negative), [X]),
    (ops.Threshold(2.0), [X]),
    (ops.Transpose(), [X]),
    (ops.Reshape((2, -1)), [X]),
    (ops.Slice((slice(None, None, -2), 1)), [X]),
    (ops.Flip(1), [X]),
    (ops.Rotate(3), [X]),
    (ops.Roll(2), [X]),
    (ops.Concatenate(1), [X, SQUARE]),
    (ops.Reduce(np.max, axis=0), [X]),
    (ops.Reduce(np.sum), [X.astype("f4")]),
    (ops.Cumulative(np.cumsum, axis=1), [X]),
    (ops.MatMul(), [SQUARE, X]),
    (ops.Dot(), [X, X[0]]),
    (ops.Convolve(np.ones((3, 3)), mode="reflect"), [X]),
    (ops.Convolve([[0, 1, 2]]), [X]),
    (ops.Convolve(np.ones((3, 3)), mode="wrap"), [X]),
    (ops.Inverse(), [SQUARE]),
    (ops.Sort(), [TIES]),
    (ops.Sort(axis=None), [X]),
    (ops.Where(), [X > 1, X, -X]),
    (ops.Where(), [X, X, -X]),
    (ops.Mask(fill=9), [X, X[0] > 0.5]),
    (ops.Elementwise(np.add), [np.float64(1), np.empty((0, 2))]),
    (ops.Transpose(), [np.array([["a", "b"]])]),
]


@pytest.mark.parametrize(("op", "inputs"), RIGHT, ids=[repr(op) for op, _ in RIGHT])
def test_built_in_operators_are_right(op, inputs):
    assert check_operator(op, inputs) == []


def test_recorded_functions_are_right():
    a = asarray(X)
    for made in (np.roll(a, 1), a[a > 1], np.sort(a), np.linalg.norm(a, axis=0), np.convolve(a[0], a[1]), a.mean()):
        node = made.whence_node
        inputs = [
            X if below.operator is None else below.operator.run(X, cur_modes=frozenset()) for below in node.inputs
        ]
        assert check_operator(node.operator, inputs) == []


class Shift(Operator):
    """Right by one; subclasses break something."""

    def run(self, x, cur_modes):
        if Mode.FULL in cur_modes:
            for k in range(1, len(x)):
                self.lwrite([(k,)], [(k - 1,)])
        if Mode.PAY in cur_modes:
            for k in range(1, len(x)):
                self.lwrite([(k,)], payload=1)
        return np.concatenate([[0.0], x[:-1]])

    def supported_modes(self):
        return {Mode.MAP, Mode.FULL, Mode.PAY}

    def map_b(self, outcell, i):
        return [(outcell[0] - 1,)]

    def map_f(self, incell, i):
        return [(incell[0] + 1,)]

    def map_b_many(self, outcells, i):
        return np.arange(len(outcells)), outcells - 1

    def map_p(self, outcell, payload, i):
        return [(outcell[0] - payload,)]


class Crossed(Shift):
    def map_f(self, incell, i):
        return [(incell[0] + 2,)]


class OneAndMany(Shift):
    def map_b_many(self, outcells, i):
        return np.arange(len(outcells)), outcells


class Pays(Shift):
    def map_p(self, outcell, payload, i):
        return [(outcell[0],)]


class PaysForMany(Shift):
    def map_p_many(self, outcells, payloads, i):
        return np.arange(len(outcells)), outcells - 2 * payloads[:, None]


class Outside(Shift):
    def run(self, x, cur_modes):
        self.lwrite([(9,)], [(0,)])
        return super().run(x, cur_modes)


class Entire(Shift):
    entire_array = True


class TooLittle(Operator):
    def run(self, x, cur_modes):
        if Mode.FULL in cur_modes:
            self.lwrite_many(np.arange(len(x))[:, None], np.arange(len(x))[:, None])
        return np.cumsum(x)

    def supported_modes(self):
        return {Mode.FULL}


class Exclusive(Shift):
    def run(self, x, cur_modes):
        return super().run(x, cur_modes - {Mode.PAY} if Mode.FULL in cur_modes else cur_modes)


class Moody(Shift):
    def run(self, x, cur_modes):
        return super().run(x, cur_modes) + (Mode.FULL in cur_modes)


class Random(Shift):
    calls = 0

    def run(self, x, cur_modes):
        self.calls += 1
        return super().run(x, cur_modes) + self.calls


class Fails(Shift):
    def map_b(self, outcell, i):
        raise KeyError("no")


class Writes(Shift):
    def run(self, x, cur_modes):
        x += 1
        return x


class Nothing(Operator):
    def run(self, x, cur_modes):
        return None


class Promises(Operator):
    def run(self, x, cur_modes):
        return x

    def supported_modes(self):
        return {Mode.MAP, Mode.PAY, "psychic"}


class NarrowHalo(Operator):
    halo = 1

    def run(self, x, cur_modes):
        wide = np.pad(x, 2)
        return wide[:-4] + wide[4:]

    def supported_modes(self):
        return {Mode.MAP}

    def map_b(self, outcell, i):
        return [(outcell[0] - 2,), (outcell[0] + 2,)]


class Composite(Operator):
    def __init__(self, radius):
        self.radius = radius

    def run(self, x, cur_modes):
        if Mode.COMP in cur_modes:
            self.lwrite(np.argwhere(x > 1), payload=1)
        if Mode.FULL in cur_modes:
            for k in range(len(x)):
                near = range(max(k - 1, 0), min(k + 2, len(x))) if x[k] > 1 else [k]
                self.lwrite([(k,)], [(n,) for n in near])
        wide = np.pad(x, 1)
        return np.where(x > 1, wide[:-2] + wide[1:-1] + wide[2:], x)

    def supported_modes(self):
        return {Mode.COMP, Mode.FULL}

    def map_b(self, outcell, i):
        return [outcell]

    def map_p(self, outcell, payload, i):
        return [(outcell[0] + d,) for d in range(-self.radius, self.radius + 1)]


WRONG = [
    (Crossed(), "map_b and map_f of Crossed disagree about input 0: only map_b says that output cell (1,) depends on"),
    (OneAndMany(), "map_b and map_b_many of OneAndMany disagree about input 0"),
    (
        Pays(),
        "map_b and PAY of Pays disagree about input 0: only map_b says that output cell (1,) depends on its cell (0,)",
    ),
    (PaysForMany(), "map_p and map_p_many of PaysForMany disagree about input 0"),
    (Outside(), "In FULL: The cell (9,) is outside of the output of Outside, whose shape is (5,)"),
    (
        Entire(),
        "Entire promises entire_array, but map_b does not say that output cell (0,) depends on cell (0,) of input 0",
    ),
    (
        TooLittle(),
        "A small change of cell (0,) of input 0 of TooLittle changes output cell (1,), which is not in its forward",
    ),
    (Exclusive(), "map_b and PAY (asked for with others) of Exclusive disagree about input 0"),
    (Moody(), "Moody gives another result in FULL than in BLACKBOX"),
    (Random(), "Random gives another result when it is run again"),
    (Fails(), "map_b of Fails failed for (0,), 0: KeyError: 'no'"),
    (Writes(), "run of Writes failed in BLACKBOX: ValueError: output array is read-only"),
    (Nothing(), "run of Nothing gave None in BLACKBOX: it must return an array"),
    (Promises(), "Promises supports the mode 'psychic', which there is not"),
    (Promises(), "Promises supports MAP and has no map_b and map_f"),
    (Promises(), "Promises supports PAY and has no map_p"),
    (
        NarrowHalo(),
        "NarrowHalo has halo=1, but on the cells 0 to 1 of axis 0, widened by that, it gives another result",
    ),
    (
        Composite(0),
        "FULL and COMP of Composite disagree about input 0: only FULL says that output cell (3,) depends on",
    ),
]


@pytest.mark.parametrize(("op", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_what_is_wrong_is_said(op, sentence):
    x = np.array([0.5, 0.25, 0.0, 3.0, 0.125])
    wrong = check_operator(op, [x])
    assert any(each.startswith(sentence) for each in wrong), wrong


def test_what_is_right_is_not_accused():
    x = np.array([0.5, 0.25, 0.0, 3.0, 0.125])
    assert check_operator(Shift(), [x]) == []
    assert check_operator(Composite(1), [x]) == []

    class Plain(Operator):
        def run(self, x, cur_modes):
            return x.sum()

    assert check_operator(Plain(), [x]) == []


def test_it_takes_operators_and_lists():
    with pytest.raises(TypeError, match="takes an instance of Operator"):
        check_operator(Shift, [X])
    with pytest.raises(TypeError, match="takes a list of arrays"):
        check_operator(Shift(), X)
