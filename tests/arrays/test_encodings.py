"""Every encoding, in every direction, against dicts of sets: on lineage without any order in it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arrays.oracle import Scripted, back, cells_of, forth
from whence.arrays import Mode, Workflow
from whence.arrays.execute import execute
from whence.arrays.folder import Shelf
from whence.store.seal import Seal

SHAPES = [(), (0,), (1,), (5,), (3, 4), (1, 6), (0, 3), (2, 3, 2)]
BY_MODE = {
    Mode.FULL: ["FullOne", "FullMany", "Interval", "FullOne:forward", "FullMany:forward", "Interval:forward"],
    Mode.PAY: ["PayOne", "PayMany", "PayOne:forward", "PayMany:forward"],
    Mode.COMP: ["Comp", "Comp:forward"],
    Mode.MAP: ["Map", "FullOne", "FullMany:forward", "Interval"],
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    return Shelf(tmp_path_factory.mktemp("store"), Seal(["k" * 40]))


@st.composite
def relations(draw, regular=False):
    output = draw(st.sampled_from(SHAPES))
    inputs = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=2))
    relation = {}
    for out in cells_of(output):
        behind = []
        for shape in inputs:
            cells = cells_of(shape)
            if regular and draw(st.booleans()):
                lows = [draw(st.integers(-1, 2)) for _ in shape]
                box = {c for c in cells if all(abs(x - low) <= 1 for x, low in zip(c, lows, strict=True))}
                behind.append(box)
            else:
                behind.append(set(draw(st.lists(st.sampled_from(cells), max_size=4))) if cells else set())
        if any(behind) or draw(st.booleans()):
            relation[out] = behind
    return output, inputs, relation


def check(run, node, inputs, output, relation, optimise=True):
    """Each cell alone, and all of them, both ways."""
    for i, x in enumerate(inputs):
        outs, inns = cells_of(output), cells_of(run.shape(x))
        for cells in [{c} for c in outs] + [set(outs), set(outs[::2])]:
            found = run.backward(node, sorted(cells), to=x, path=[(node, i)], optimise=optimise)
            assert found.exact
            assert found.tolist() == [list(c) for c in sorted(back(relation, cells, i))]
            assert found.shape[1] == len(run.shape(x))
        for cells in [{c} for c in inns] + [set(inns), set(inns[::2])]:
            found = run.forward(x, sorted(cells), to=node, path=[(node, i)], optimise=optimise)
            assert found.tolist() == [list(c) for c in sorted(forth(relation, cells, i))]


@pytest.mark.parametrize(("mode", "text"), [(m, t) for m, texts in BY_MODE.items() for t in [*texts, "Blackbox"]])
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_answers_are_those_of_the_oracle(shelf, mode, text, data):
    output, shapes, relation = data.draw(relations(regular=data.draw(st.booleans())))
    how = data.draw(st.sampled_from(["region", "pairs", "grouped"]))
    only = data.draw(st.sampled_from([None, "f", "b"])) if mode in (Mode.MAP, Mode.COMP) else None
    op = Scripted(output, relation, {mode}, how, data.draw(st.booleans()), only)
    wf = Workflow()
    inputs = [wf.input(f"x{i}") for i in range(len(shapes))]
    node = wf.add(op, *inputs)
    given = {f"x{i}": np.zeros(shape) for i, shape in enumerate(shapes)}
    run = execute(shelf, wf, given, {node: text})
    assert run.stats[node].strategies == (text,)
    assert len(op.runs) == 1
    check(run, node, inputs, output, relation, optimise=data.draw(st.booleans()))
