"""Ways, paths, limits, errors: what is asked of a run, without Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from arrays.operators import CosmicRays, Silent, Total, Transposed, around_bright
from arrays.oracle import Scripted
from whence.arrays import (
    ArrayError,
    Mode,
    Operator,
    OperatorFailed,
    UnknownNode,
    UnknownRun,
    Workflow,
    check_operator,
    ops,
)
from whence.arrays.execute import execute
from whence.arrays.folder import Shelf
from whence.arrays.run import Run
from whence.model import NonDeterministic, StoreError, WhenceError
from whence.store.seal import Seal, Unsigned

IMAGE = np.random.default_rng(3).integers(0, 10, (6, 7)).astype(float)


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path, Seal(["k" * 40]))


def diamond():
    """x is read by two operators, and twice by one of them."""
    wf = Workflow()
    x = wf.input("x")
    a = wf.add(ops.Roll(1), x, name="a")
    b = wf.add(ops.Flip(), x, name="b")
    wf.add(ops.Elementwise(lambda p, q, r: p + q + r), a, b, a, name="y")
    return wf


def asked(cells):
    return [tuple(cell) for cell in cells.tolist()]


def test_all_ways_together_and_one_of_them(shelf):
    run = execute(shelf, diamond(), {"x": np.arange(5.0)})
    assert asked(run.backward("y", [(1,)], to="x")) == [(0,), (3,)]
    assert asked(run.backward("y", [1], to="x", path=["y", "a"])) == [(0,)]
    assert asked(run.backward("y", [1], to="x", path=[("y", 2), ("a", 0)])) == [(0,)]
    assert asked(run.backward("y", [1], to="x", path=[("y", 1), "b"])) == [(3,)]
    assert asked(run.forward("x", [0], to="y")) == [(1,), (4,)]
    assert asked(run.forward("x", [0], to="y", path=["b", ("y", 1)])) == [(4,)]
    assert asked(run.forward("x", [0], to="x")) == [(0,)]
    assert asked(run.backward("y", [3, 1, 1], to="y")) == [(1,), (3,)]
    nothing = run.forward("a", [0], to="b")
    assert nothing.shape == (0, 1)
    assert nothing.exact
    assert "No way leads forward from a to b" in nothing.notes[0]


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (lambda r: r.backward("y", [(5,)], to="x"), r"cell \(5,\) is outside of the array y, whose shape is \(5,\)"),
        (lambda r: r.backward("y", [(-1,)], to="x"), r"cell \(-1,\) is outside of the array y"),
        (lambda r: r.backward("y", [(1, 2)], to="x"), "tuples of 1 integers"),
        (lambda r: r.backward("y", [0.5], to="x"), "whole numbers, not float64"),
        (lambda r: r.backward("y", np.ones(4, bool), to="x"), r"boolean array of shape \(4,\).*\(5,\)"),
        (lambda r: r.backward("y", [1], to="nowhere"), "no array 'nowhere'. It has x, a, b, y"),
        (lambda r: r.backward("y", [1], to="x", path=["a"]), "begins with a, but y is asked"),
        (lambda r: r.backward("y", [1], to="x", path=["y"]), "breaks at step 1: x does not stand at y"),
        (lambda r: r.backward("y", [1], to="x", path=[("y", 1), "a"]), "a does not stand at input 1 of y"),
        (lambda r: r.backward("y", [1], to="x", path=[("y", 7), "a"]), "input 7 of y, whose inputs are 0: a, 1: b"),
        (lambda r: r.backward("y", [1], to="x", path=["y", "x"]), "x, which is an input"),
        (lambda r: r.backward("y", [1], to="x", path=[]), "path from y to x is empty"),
        (lambda r: r.forward("x", [1], to="y", path=["a"]), "ends with a, not with y"),
        (lambda r: r.forward("x", [1], to="y", path=["y"]), "x does not stand at y"),
        (lambda r: r.backward("y", [1], to="x", path="y"), "'y' is no path"),
        (lambda r: r["nowhere"], "no array 'nowhere'"),
        (lambda r: r.stats["x"], "x is an input"),
        (lambda r: r.frame("y"), "opened without Spark"),
        (lambda r: r.backward(3, [1], to="x"), "3 names no array"),
    ],
)
def test_questions_that_cannot_be(shelf, question, said):
    run = execute(shelf, diamond(), {"x": np.arange(5.0)})
    with pytest.raises((WhenceError, TypeError), match=said):
        question(run)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"strategies": "Fullone"}, "no strategy 'Fullone'"),
        ({"strategies": "Map:forward"}, "'Map:forward' cannot have a direction"),
        ({"strategies": {"y": "FullOne:sideways"}}, "no such direction"),
        ({"strategies": {"y": "PayOne"}}, "y cannot keep PayOne: that needs the mode pay"),
        ({"strategies": {"x": "Map"}}, "x is an input"),
        ({"strategies": {"z": "Map"}}, "no array 'z'"),
        ({"strategies": 7}, "does not say strategies"),
        ({"inputs": {}}, "no data for its input x"),
        ({"inputs": {"x": np.arange(3), "w": 1}}, "no array 'w'"),
        ({"inputs": {"x": np.arange(3), "y": 1}}, "only inputs can be given"),
        ({"inputs": {"x": "there/is/none.npy"}}, "there is no file there/is/none.npy"),
        ({"inputs": {"x": "image.png"}}, r"ends in none of .npy, .fits, .zarr"),
        ({"inputs": {"x": [object()]}}, "Python objects"),
        ({"limit_disk": -1}, "limit_disk=-1 is no number of bytes"),
        ({"chunks": 0}, "chunks=0 cannot cut arrays"),
    ],
)
def test_runs_that_cannot_be(shelf, options, said):
    with pytest.raises((WhenceError, TypeError, OSError), match=said):
        execute(shelf, diamond(), **({"inputs": {"x": np.arange(5.0)}} | options))
    assert shelf.names() == []


def test_workflows_that_cannot_be():
    wf = Workflow()
    x = wf.input("x")
    assert [wf.add(Silent(), x).name, wf.add(Silent(), x).name, wf.add(Silent(), "Silent_2").name] == [
        "Silent",
        "Silent_2",
        "Silent_3",
    ]
    other = Workflow()
    for wrong, said in [
        (lambda: wf.input("x"), "has an array 'x' already"),
        (lambda: wf.add(Silent(), x, name="Silent"), "has an array 'Silent' already"),
        (lambda: wf.add(Silent, x), "give an instance, not the class"),
        (lambda: wf.add(np.sin, x), "no whence.arrays.Operator"),
        (lambda: other.add(Silent(), x), "'x' is not of this workflow"),
        (lambda: wf.input(""), "cannot name an array"),
    ]:
        with pytest.raises((WhenceError, TypeError), match=said):
            wrong()


def test_an_operator_that_says_nothing(shelf):
    wf = Workflow()
    y = wf.add(Silent(), wf.add(Silent(), wf.input("x"), name="first"), name="second")
    run = execute(shelf, wf, {"x": np.arange(4)})
    found = run.backward(y, [(2,)], to="x")
    assert len(found) == 4
    assert not found.exact
    assert [note.split()[0] for note in found.notes] == ["second", "first"]
    assert run.backward(y, [], to="x").exact
    assert run.stats[y].strategies == ("Blackbox",)


def test_entire_arrays_take_the_shortcut(shelf):
    op = Total()
    wf = Workflow()
    wf.add(op, wf.input("x"), name="sum")
    run = execute(shelf, wf, {"x": IMAGE}, "Blackbox")
    op.run = None  # a rerun would fail
    assert len(run.backward("sum", ..., to="x")) == IMAGE.size
    assert asked(run.forward("x", ..., to="sum")) == [()]


def test_limit_disk_holds(shelf):
    wf = Workflow()
    x = wf.input("image")
    for name in ("a", "b"):
        wf.add(CosmicRays(), x, name=name)
    whole = execute(shelf, wf, {"image": IMAGE}, "FullOne")
    each = whole.stats["a"].bytes
    run = execute(shelf, wf, {"image": IMAGE}, "FullOne", limit_disk=each + 1)
    assert [run.stats[name].strategies for name in ("a", "b")] == [("FullOne",), ("Blackbox",)]
    assert sum(run.stats[name].bytes for name in ("a", "b")) <= each + 1
    assert "did not fit into limit_disk" in run.stats["b"].notes[0]
    assert asked(run.backward("b", [(2, 2)], to="image")) == asked(whole.backward("b", [(2, 2)], to="image"))


def test_modes_that_are_asked_for(shelf):
    seen = []

    class Watching(CosmicRays):
        def run(self, image, cur_modes):
            seen.append(cur_modes)
            return super().run(image, cur_modes)

    wf = Workflow()
    y = wf.add(Watching(), wf.input("image"))
    for texts, modes in [
        (["FullOne", "FullOne:forward", "PayMany"], {Mode.FULL, Mode.PAY}),
        (["Comp", "Interval"], {Mode.COMP, Mode.FULL}),
        ("Blackbox", {Mode.BLACKBOX}),
    ]:
        run = execute(shelf, wf, {"image": IMAGE}, {y: texts})
        assert seen.pop() == modes
        assert not seen
        behind = around_bright(IMAGE)
        for cell in [(0, 0), (3, 3)]:
            assert set(asked(run.backward(y, [cell], to="image", optimise=False))) == behind[cell]
    assert seen.pop() == {Mode.FULL}  # a rerun asks for FULL first
    with pytest.raises(ArrayError, match="PayOne and Comp of one run"):
        execute(shelf, wf, {"image": IMAGE}, {y: ["PayOne", "Comp"]})


@pytest.mark.parametrize("only", ["f", "b"])
def test_one_map_function_is_enough(shelf, only):
    relation = {(r,): [{((r * r) % 5,)}] for r in range(5)}
    wf = Workflow()
    y = wf.add(Scripted((5,), relation, {Mode.MAP}, only=only), wf.input("x"))
    run = execute(shelf, wf, {"x": np.zeros(5)})
    for _ in range(2):  # worked out once, then remembered
        assert asked(run.backward(y, [3], to="x")) == [(4,)]
        assert asked(run.forward("x", [4], to=y)) == [(2,), (3,)]


class Random(CosmicRays):
    def run(self, image, cur_modes):
        super().run(image, cur_modes)
        return np.random.default_rng().random(image.shape)


def test_what_is_not_deterministic_is_not_run_again(shelf):
    wf = Workflow()
    y = wf.add(Random(), wf.input("image"))
    run = execute(shelf, wf, {"image": IMAGE}, "Blackbox")
    with pytest.raises(NonDeterministic, match="made another array when it was run again"):
        run.backward(y, [(0, 0)], to="image")
    stored = execute(shelf, wf, {"image": IMAGE}, "FullOne")
    assert len(stored.backward(y, ..., to="image")) == IMAGE.size


class Wrong(Operator):
    def __init__(self, what):
        self.what = what

    def supported_modes(self):
        return {Mode.FULL, Mode.PAY}

    def run(self, x, cur_modes):
        self.what(self)
        return x


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (lambda op: op.lwrite([(9,)], [(0,)]), r"cell \(9,\) is outside of the output of Wrong \(Wrong\)"),
        (lambda op: op.lwrite([(0,)], [(9,)]), r"cell \(9,\) is outside of input 0 of Wrong"),
        (lambda op: op.lwrite([(0,)], [(0,)], [(0,)]), "2 inputs, but it has 1"),
        (lambda op: op.lwrite_many([(0,), (1,)], [(0,)]), "2 output cells with 1 input cells"),
        (lambda op: op.lwrite_many([(0,)], [(0,)], i=1), "cells of input 1"),
        (lambda op: op.lwrite_many([(0,)]), "input cells or payloads"),
        (lambda op: op.lwrite([(0,)], payload={}), "payload of type dict"),
        (lambda op: op.lwrite([(0,)], [(0,)], payload=1), "input cells and a payload"),
    ],
)
def test_writes_that_cannot_be(shelf, what, said):
    wf = Workflow()
    wf.add(Wrong(what), wf.input("x"))
    with pytest.raises(ArrayError, match=said):
        execute(shelf, wf, {"x": np.arange(3)}, {"Wrong": ["FullOne", "PayOne"]})
    assert shelf.names() == []


def test_payloads_come_back_equal(shelf):
    given = [b"\x00\xff", "text \ud800", True, 1, 1.0, float("inf"), 2**80, -3, (1, "a", (2.5, b"x")), ()]
    got = []

    class Noting(Operator):
        def supported_modes(self):
            return {Mode.PAY}

        def run(self, x, cur_modes):
            for k, payload in enumerate(given):
                self.lwrite([(k,)], payload=payload)
            return x

        def map_p(self, outcell, payload, i):
            got.append((outcell[0], payload))
            return [outcell]

    wf = Workflow()
    y = wf.add(Noting(), wf.input("x"))
    for text in ("PayOne", "PayMany"):
        run = execute(shelf, wf, {"x": np.arange(len(given))}, {y: text})
        Run(shelf.open(run.id))  # leaves the classes of this process as they are
        run.backward(y, ..., to="x", optimise=False)
        assert [(k, type(p), p) for k, p in sorted(got, key=lambda kp: kp[0])] == [
            (k, type(p), p) for k, p in enumerate(given)
        ]
        got.clear()


def test_inputs_from_files(shelf, tmp_path):
    from astropy.io import fits

    zarr = pytest.importorskip("zarr", reason="zarr is not installed here")
    np.save(tmp_path / "image.npy", IMAGE)
    table = fits.BinTableHDU.from_columns([fits.Column("a", "D", array=np.arange(3.0))])
    fits.HDUList([fits.PrimaryHDU(), table, fits.ImageHDU(IMAGE)]).writeto(tmp_path / "image.fits")
    zarr.save(str(tmp_path / "image.zarr"), IMAGE)
    wf = Workflow()
    wf.input("x")
    for name in ("image.npy", "image.fits", "image.zarr"):
        for path in (tmp_path / name, str(tmp_path / name)):
            found = execute(shelf, wf, {"x": path})["x"]
            assert np.array_equal(found, IMAGE)
            assert found.dtype.isnative
    fits.HDUList([fits.PrimaryHDU()]).writeto(tmp_path / "empty.fits")
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY no")
    for name, said in [("empty.fits", "no image"), ("broken.npy", "cannot be read")]:
        with pytest.raises(ArrayError, match=said):
            execute(shelf, wf, {"x": tmp_path / name})


def test_code_of_others_is_not_run(shelf, tmp_path):
    run = execute(shelf, diamond(), {"x": np.arange(5.0)})
    Run(shelf.open(run.id))
    path = shelf.path / run.id / "operators"
    with pytest.raises(Unsigned, match="signed with another key"):
        Run(Shelf(tmp_path, Seal(["other" * 10])).open(run.id))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(StoreError, match="changed after it was signed"):
        Run(shelf.open(run.id))
    for name in ("../" + run.id, "nothing", 3, ".new-" + run.id):
        with pytest.raises(UnknownRun, match="no array run"):
            shelf.open(name)


KILLED = """
import sys, os, signal
import numpy as np
from pathlib import Path
from whence.arrays import Operator, Workflow
from whence.arrays.execute import execute
from whence.arrays.folder import Shelf
from whence.store.seal import Seal

class Deadly(Operator):
    def run(self, x, cur_modes):
        os.kill(os.getpid(), signal.SIGKILL)

wf = Workflow()
wf.add(Deadly(), wf.input("x"))
execute(Shelf(Path(sys.argv[1]), Seal(["k" * 40])), wf, {"x": np.arange(3)})
"""


def test_what_was_killed_is_never_seen_and_swept_away(shelf, tmp_path):
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
    )
    assert killed.returncode == -signal.SIGKILL
    left = os.listdir(shelf.path)
    assert len(left) == 1
    assert shelf.names() == []
    with pytest.raises(UnknownRun):
        shelf.open(left[0].removeprefix(".new-"))
    run = execute(shelf, diamond(), {"x": np.arange(5.0)})
    assert os.listdir(shelf.path) == [run.id]


def test_map_functions_that_cannot_be(shelf):
    class Odd(Transposed):
        def map_b(self, outcell, i):
            return [(1, 2, 3)]

        def map_f(self, incell, i):
            raise KeyError("the user's own")

    wf = Workflow()
    y = wf.add(Odd(), wf.input("x"))
    run = execute(shelf, wf, {"x": IMAGE})
    with pytest.raises(ArrayError, match=r"map_b of the operator Odd gave cells of shape \(1, 3\)"):
        run.backward(y, [(0, 0)], to="x")
    with pytest.raises(OperatorFailed, match=r"map_f of the operator Odd failed: KeyError") as failed:
        run.forward("x", [(0, 0)], to=y)
    assert isinstance(failed.value.__cause__, KeyError)
    assert isinstance(y, type(run.workflow["Odd"]))
    assert issubclass(UnknownNode, LookupError)


class Mute(Operator):
    """Claims FULL or PAY and writes nothing, or says that there is nothing to write."""

    def __init__(self, mode, says_so):
        self.mode, self.says_so = mode, says_so

    def supported_modes(self):
        return {self.mode}

    def run(self, x, cur_modes):
        if self.says_so and self.mode in cur_modes:
            self.lwrite_many([], **({"incells": []} if self.mode == Mode.FULL else {"payload": []}))
        return x + 1

    def map_p(self, cell, payload, i):
        return [cell]


@pytest.mark.parametrize(("mode", "stored"), [(Mode.FULL, "FullOne"), (Mode.FULL, "Interval"), (Mode.PAY, "PayOne")])
def test_an_operator_that_writes_nothing_is_told_of_unless_it_says_that_there_is_nothing(shelf, mode, stored):
    for text in (stored, f"{stored}:forward", "Blackbox"):
        wf = Workflow()
        wf.add(Mute(mode, says_so=False), wf.input("x"), name="mute")
        run = execute(shelf, wf, {"x": IMAGE}, strategies={"mute": text})
        again = Run(shelf.open(run.id))
        for found in (run.backward("mute", ..., to="x"), again.forward("x", [(0, 0)], to="mute")):
            assert found.shape == (0, 2)
            assert "mute (Mute) wrote no lineage at all" in found.notes[0]
        wf = Workflow()
        wf.add(Mute(mode, says_so=True), wf.input("x"), name="mute")
        said = execute(shelf, wf, {"x": IMAGE}, strategies={"mute": text}).backward("mute", ..., to="x")
        assert (len(said), said.exact, said.notes) == (0, True, ())
    assert "supports" in check_operator(Mute(mode, says_so=False), [IMAGE])[0]
