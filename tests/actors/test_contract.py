"""Whatever is captured, in whatever form, traces answer as the naive oracle does."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.oracle_actors import OracleActor, same, trace
from whence.actors import ActorStore, Location, RecordSet, UnidentifiableRecord, hash_record
from whence.actors import log as log_module

KEYS = st.one_of(
    st.integers(0, 6),
    st.sampled_from(["a", "b", "c", "5"]),
    st.sampled_from([b"x", b"y"]),
    st.builds(Location, st.sampled_from(["f", "g"]), st.integers(0, 9), st.one_of(st.none(), st.integers(0, 4))),
)
TAGS = st.one_of(st.none(), st.integers(0, 2), st.frozensets(st.integers(0, 2), min_size=1))
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("capture"), KEYS, KEYS),
        st.tuples(st.just("capture"), KEYS, st.none()),
        st.tuples(st.just("capture"), st.none(), KEYS),
        st.tuples(st.just("capture_many"), st.lists(st.tuples(KEYS, KEYS), max_size=4)),
        st.tuples(st.just("add_input"), KEYS, TAGS),
        st.tuples(st.just("add_output"), KEYS, TAGS),
        st.tuples(st.just("reset"), TAGS),
        st.tuples(st.just("task")),
    ),
    max_size=25,
)


def play(events: list[Any], actor: Any, oracle: OracleActor) -> None:
    task = actor
    number = 0
    for name, *values in events:
        if name == "task":  # a new instance of the same actor: association sets do not cross
            task.commit()
            number += 1
            task = actor.task(number)
            oracle.sets = {}
        elif name == "capture_many":
            task.capture_many([i for i, _ in values[0]], [o for _, o in values[0]])
            for i, o in values[0]:
                oracle.capture(i, o)
        else:
            getattr(task, name)(*values)
            getattr(oracle, name)(*values)
    task.commit()
    actor.commit()


def played(
    store: ActorStore, many: list[list[Any]], data: st.DataObject
) -> tuple[list[Any], list[OracleActor], list[tuple[int, int]]]:
    """Actors that capture these events, linked somehow: the real ones, and what the oracle knows of them."""
    nodes = range(len(many))
    drawn = data.draw(st.lists(st.tuples(st.sampled_from(nodes), st.sampled_from(nodes)), max_size=6, unique=True))
    links = [(a, b) for a, b in drawn if a != b]
    actors = [store.register(f"actor {n}") for n in nodes]
    oracles = [OracleActor() for _ in nodes]
    for events, actor, oracle in zip(many, actors, oracles, strict=True):
        play(events, actor, oracle)
    for a, b in links:
        store.flow_link(actors[a], actors[b])
    return actors, oracles, links


@settings(max_examples=120, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=4), st.data())
def test_traces_answer_as_the_oracle_does(many: list[list[Any]], data: st.DataObject) -> None:
    nodes = range(len(many))
    with tempfile.TemporaryDirectory() as home:
        store = ActorStore(home)
        actors, oracles, links = played(store, many, data)
        logged = {n for n in nodes if oracles[n].inputs or oracles[n].outputs}
        root = data.draw(st.sampled_from(nodes))
        if root not in logged:
            return
        for direction in ("backward", "forward"):
            near = oracles[root].outputs if direction == "backward" else oracles[root].inputs
            records = data.draw(st.lists(st.sampled_from(near), max_size=2)) if near else []
            expected = trace(oracles, links, records, direction, root)
            answer = store.trace(records, direction, root=actors[root])
            for n in nodes:
                steps = [s for s in answer.steps if s.actor.id == actors[n].id]
                got: set[Any] = set()
                for step in steps:
                    got |= set(step.inputs if direction == "backward" else step.outputs)
                assert got == expected.get(n, set()), (direction, n)
        log = store.log(actors[root])
        assert set(log.all_records("input")) == set(oracles[root].inputs)
        assert set(log.all_records("output")) == set(oracles[root].outputs)
        pairs = [
            (i, o) for _, a, b in log.pairs() for i, o in zip(RecordList(a), RecordList(b), strict=True)
        ]  # fmt: skip
        assert sorted(map(repr, pairs)) == sorted(map(repr, oracles[root].pairs))
        counts: dict[Any, int] = {}
        for found in log.multiplicities():
            for record, count in zip(RecordList(found.inputs), found.counts, strict=True):
                counts[record] = counts.get(record, 0) + int(count)
        expected_counts = {i: sum(1 for a, _ in oracles[root].pairs if a == i and type(a) is type(i))
                           for i in oracles[root].inputs}  # fmt: skip
        assert counts == expected_counts


def RecordList(array: Any) -> list[Any]:
    from whence.actors.records import to_names

    return to_names(array)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.builds(Location, st.sampled_from("fg"), st.integers(0, 30), st.integers(0, 9)), max_size=12),
    st.lists(st.builds(Location, st.sampled_from("fg"), st.integers(0, 30), st.integers(0, 9)), max_size=12),
)
def test_ghost_tables_hold_every_overlap_and_no_other(written: list[Location], read: list[Location]) -> None:
    from whence.actors.read import overlap_pairs
    from whence.actors.records import location_array

    left, right = overlap_pairs(location_array(written), location_array(read))
    got = sorted(zip(left.tolist(), right.tolist(), strict=True))
    assert got == [(n, m) for n, a in enumerate(written) for m, b in enumerate(read) if same(a, b)]


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        (np.arange(50), np.arange(50) * 2),
        (list(range(50)), [str(n) for n in range(50)]),
        (pa.array(range(50)), pa.array([str(n) for n in range(50)])),
        ([(n, "x") for n in range(50)], np.arange(50).astype(np.int32)),
    ],
)
def test_bulk_capture_takes_sequences_numpy_and_arrow(tmp_path: Any, inputs: Any, outputs: Any) -> None:
    store = ActorStore(tmp_path)
    bulk, single = store.register("bulk"), store.register("single")
    bulk.capture_many(inputs, outputs)
    for i, o in zip(list(inputs), list(outputs), strict=True):
        plain = [v.as_py() if isinstance(v, pa.Scalar) else v for v in (i, o)]
        single.capture(*plain)
    bulk.commit()
    single.commit()
    assert set(store.log(bulk).all_records("input")) == set(store.log(single).all_records("input"))
    answer = store.trace(RecordSet.of(outputs[7:9]), root=bulk)
    assert len(answer.records) == 2
    assert answer.records == store.trace(RecordSet.of(outputs[7:9]), root=single).records


def test_counts_repeat_the_inputs(tmp_path: Any) -> None:
    store = ActorStore(tmp_path)
    split = store.register("split")
    split.capture_many([10, 20, 30], ["a", "b", "c"], counts=[2, 0, 1])
    split.commit()
    assert set(store.trace(["b"], root=split).records) == {10}
    assert set(store.trace([30], "forward", root=split).records) == {"c"}
    with pytest.raises(ValueError, match="go in pairs"):
        split.capture_many([1], [1, 2])


def test_small_batches_give_the_same_answer(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: a log is written as it grows."""
    monkeypatch.setattr(log_module, "BATCH", 7)
    store = ActorStore(tmp_path)
    actor = store.register("sum")
    for n in range(100):
        actor.add_input(n, tag=n % 3)
        actor.capture(f"c{n}", n)
    assert actor._log is not None
    assert len(actor._log._pairs) < 7
    assert len(actor._log._inputs) < 7
    for tag in range(3):
        actor.add_output(f"sum {tag}", tag)
    actor.commit()
    assert set(store.trace(["sum 1"], root=actor).records) == set(range(1, 100, 3))


def test_hashes_are_equal_for_equal_values_only() -> None:
    from pyspark.sql import Row

    word = "".join(["a", "b"])
    assert hash_record(("ab", "ab")) == hash_record((word, "ab"))
    assert hash_record((1, [2, {"x": 3.5}])) == hash_record((np.int64(1), [np.int32(2), {"x": 3.5}]))
    assert hash_record(Row(a=1, b="x")) == hash_record((1, "x"))
    assert hash_record({"a": 1, "b": 2}) == hash_record({"b": 2, "a": 1})
    assert hash_record((1, "1")) != hash_record((1, 1))
    assert hash_record((True,)) != hash_record((1,))
    with pytest.raises(UnidentifiableRecord, match="stable identity"):
        hash_record(object())


def test_a_list_of_huge_numbers_is_named_by_hashes(tmp_path: Any) -> None:
    store = ActorStore(tmp_path)
    actor = store.register("huge")
    actor.capture_many([2**70, 1], [1, 2**80])
    actor.commit()
    assert set(store.trace([2**80], root=actor).records) == {1}
    assert set(store.trace([1], root=actor).records) == {hash_record(2**70)}
