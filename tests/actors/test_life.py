"""Registering, containing, linking, committing, failing; handles in processes; levels; replay."""

from __future__ import annotations

import functools
import multiprocessing
import pickle
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import whence
from actors.helpers import double_in_a_process, work_in_child
from whence.actors import (
    ActorStore,
    CannotReplay,
    Location,
    NotCommitted,
    UnknownActor,
    exclude_plan,
    replay_plan,
)


@pytest.fixture
def store(tmp_path: Path) -> ActorStore:
    return ActorStore(tmp_path / "store")


def logs(store: ActorStore, actor: Any) -> list[str]:
    return store.files.names("logs", actor.id)


def test_questions_see_committed_actors_only(store: ActorStore) -> None:
    actor = store.register("parser", kind="map")
    actor.capture(1, "a")
    with pytest.raises(NotCommitted, match="has no committed log"):
        store.trace(["a"], root=actor)
    assert store.actors() == []
    actor.commit()
    assert set(store.trace(["a"], root="parser").records) == {1}
    assert [a.name for a in store.actors(kind="map")] == ["parser"]
    with pytest.raises(UnknownActor, match="no actor"):
        store.trace(["a"], root="lexer")


def test_a_container_that_commits_sweeps_what_did_not(store: ActorStore) -> None:
    job = store.register("job", kind="job")
    winner = store.register("map 1", kind="map", parents=[job])
    loser = store.register("map 1", kind="map", parents=[job])
    for attempt in (winner, loser):
        attempt.capture("line", "word")
    winner.commit()
    assert loser._log is not None
    loser._log._flush()  # a speculative task, still running when the job ends
    assert logs(store, loser)
    job.commit()
    assert not logs(store, loser)
    assert set(store.trace(["word"], root=job).records) == {"line"}


def test_an_attempt_that_captured_nothing_outdoes_a_later_one(store: ActorStore) -> None:
    actor = store.register("split")
    actor.capture("line", "word")
    for attempt, words in ((1, []), (3, ["word"])):
        with actor.task(3, attempt=attempt) as task:
            for word in words:
                task.capture("other line", word)
    actor.commit()
    assert set(store.trace(["word"], root=actor).records) == {"line"}


def test_of_several_attempts_the_first_committed_counts(store: ActorStore) -> None:
    job = store.register("job", kind="job")
    actor = store.register("map", kind="map", parents=[job])
    with suppress(ZeroDivisionError), actor.task(3, attempt=0) as task:
        task.capture("half", "done")
        raise ZeroDivisionError
    for attempt in (2, 1):
        with actor.task(3, attempt=attempt) as task:
            task.capture("line", f"word {attempt}")
    actor.commit()
    log = store.log(actor)
    assert set(log.all_records("output")) == {"word 1"}
    assert {p.task for p in log.parts} == {"task 3"}
    before = len(logs(store, actor))
    job.commit()
    assert len(logs(store, actor)) == before / 2


def test_sweep_of_a_store_at_rest(store: ActorStore) -> None:
    actor = store.register("crashed")
    actor.capture(1, 2)
    assert actor._log is not None
    actor._log._flush()
    assert store.sweep() == 1
    assert store.sweep() == 0


def test_failures_are_seen_at_once_and_lead_to_their_sources(store: ActorStore) -> None:
    reader, parser = store.register("reader"), store.register("parser")
    store.flow_link(reader, parser)
    reader.capture(Location("log.txt", 0, 10), "good line")
    reader.capture(Location("log.txt", 10, 7), "bad line")
    reader.commit()
    parser.fail("bad line", error=ValueError("not a number"))
    (failure,) = store.failures()
    assert (failure.actor.name, failure.input, failure.error) == ("parser", "bad line", "ValueError: not a number")
    assert store.failures(reader) == []
    assert set(store.trace(failure).records) == {Location("log.txt", 10, 7)}
    parser.fail("bad line", error=ValueError("not a number"))  # as a task does that is tried again
    assert store.failures() == [failure]
    parser.fail("bad line", error=ValueError("not a line"))
    parser.fail("another line", error=ValueError("not a number"))
    assert len(store.failures()) == 3


def test_ghost_tables_join_a_writer_to_a_reader_that_cuts_differently(store: ActorStore) -> None:
    writer, reader = store.register("pages", kind="writer"), store.register("lines", kind="reader")
    store.flow_link(writer, reader)
    writer.capture("page 1", Location("out", 0, 100))
    writer.capture("page 2", Location("out", 100, 50))
    reader.capture_many([Location("out", 0, 60), Location("out", 60, 60), Location("out", 120, 30)], ["a", "b", "c"])
    writer.commit()
    reader.commit()
    assert set(store.trace(["a"], root=reader).records) == {"page 1"}
    both = store.trace(["b"], root=reader)
    assert set(both.records) == {"page 1", "page 2"}
    assert [s.actor.kind for s in both.steps] == ["reader", "ghost", "writer"]
    ghost = both.steps[1].to_pandas()
    assert set(ghost["input"]) == {Location("out", 0, 100), Location("out", 100, 50)}
    assert set(ghost["output"]) == {Location("out", 60, 60)}
    assert set(store.trace(["page 2"], "forward", root=writer).records) == {"b", "c"}


def test_levels_and_containment(store: ActorStore) -> None:
    """Which input records did this job read? Links between jobs join what the jobs contain."""
    app = store.register("app", kind="application")
    jobs = [store.register(f"job {n}", kind="job", parents=[app]) for n in (1, 2)]
    store.flow_link(*jobs)
    for n, job in enumerate(jobs):
        mapper = store.register("map", kind="map", parents=[job])
        reducer = store.register("reduce", kind="reduce", parents=[job])
        store.flow_link(mapper, reducer)
        for record in range(3):
            mapper.capture((f"in {n}", record) if n == 0 else f"out 0 {record}", f"mid {n} {record}")
            reducer.capture(f"mid {n} {record}", f"out {n} {record}")
        job.capture(Location(f"dir {n}"), Location(f"dir {n + 1}"))
        for actor in (mapper, reducer, job):
            actor.commit()
    app.commit()
    trace = store.trace(["out 1 2"], root=app)
    assert [s.actor.path for s in trace.steps] == [
        "app/job 2/reduce", "app/job 2/map", "app/job 1/reduce", "app/job 1/map",
    ]  # fmt: skip
    assert set(trace.inputs(jobs[1])) == {"out 0 2"}
    assert set(trace.outputs(jobs[0])) == {"out 0 2"}
    assert len(trace.inputs(app)) == 1
    assert len(store.inputs_of(app)) == 3 + 1  # the records, and the directory that the first job itself captured
    assert set(store.outputs_of(jobs[1])) == {"out 1 0", "out 1 1", "out 1 2", Location("dir 2")}
    coarse = store.trace([Location("dir 2")], root=jobs[1])
    assert [s.actor.path for s in coarse.steps if s.actor.kind != "ghost"] == ["app/job 2", "app/job 1"]
    mixed = store.trace(["out 1 2", Location("dir 2")], root=jobs[1])
    assert sorted(len(flow) for flow in mixed.flows if len(flow) > 1) == [2, 4]
    with pytest.raises(KeyError, match="took no part"):
        trace.at("elsewhere")


def test_a_link_to_a_silent_actor_is_told(store: ActorStore) -> None:
    reader, parser = store.register("reader"), store.register("parser")
    store.flow_link(reader, parser)
    parser.capture("line", "word")
    parser.commit()
    trace = store.trace(["word"], root=parser)
    assert not trace.exact
    assert "reader" in trace.notes[0]


def test_captures_of_several_threads_stay_aligned(store: ActorStore) -> None:
    actor = store.register("threads")

    def work(n: int) -> None:
        for m in range(3000):
            actor.capture(n * 10_000 + m, f"{n * 10_000 + m}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    actor.commit()
    pairs = [(i, o) for _, a, b in store.log(actor).pairs() for i, o in zip(a.to_pylist(), b.to_pylist(), strict=True)]
    assert len(pairs) == 12_000
    assert all(str(i) == o for i, o in pairs)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_handles_reach_processes(store: ActorStore, method: str) -> None:
    actor = store.register("map")
    actor.capture(100, "word 100")  # still in memory when the processes fork
    context = multiprocessing.get_context(method)
    children = [context.Process(target=work_in_child, args=(actor, n)) for n in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    actor.commit()
    assert set(store.log(actor).all_records("input")) == {0, 1, 100}
    assert sum(len(a) for _, a, _ in store.log(actor).pairs()) == 3


def test_a_store_pickles(store: ActorStore) -> None:
    again = pickle.loads(pickle.dumps(store))
    actor = again.register("elsewhere")
    actor.capture(1, 2)
    actor.commit()
    assert set(store.trace([2], root="elsewhere").records) == {1}


# -- replay: a word count in three actors, the second of which is not monotone -----------------------------------------


class WordCount:
    """reader -> longest (keeps the longest word of each line: not monotone) -> count."""

    def __init__(self, store: ActorStore, source: Path, middle: Path) -> None:
        self.store, self.source, self.middle = store, source, middle

    def prepare(self, name: str = "prepare", conf: Mapping[str, Any] | None = None) -> None:
        job = self.store.register("prepare", kind="job", conf={"p": 1}, restart=self.prepare, materialized=True)
        reader = self.store.register("reader", kind="reader", parents=[job])
        longest = self.store.register("longest", kind="map", parents=[job])
        self.store.flow_link(reader, longest)
        self.jobs = [job]
        offset = 0
        kept = []
        for line in self.source.read_text().splitlines(keepends=True):
            place = Location("source", offset, len(line))
            offset += len(line)
            words = [w for w in line.split() if not reader.capture(place, (line, w))]
            if words:
                best = max(words, key=len)
                drops = [longest.capture((line, w), f"{place.offset}:{best}") for w in words]
                if not all(drops):
                    kept.append(f"{place.offset}:{best}")
        self.middle.write_text("\n".join(kept))
        for actor in (reader, longest, job):
            actor.commit()

    def count(self, name: str = "count", conf: Mapping[str, Any] | None = None) -> dict[str, int]:
        job = self.store.register("count", kind="job", restart=self.count, materialized=True)
        counter = self.store.register("counter", kind="reduce", parents=[job])
        if self.jobs:
            self.store.flow_link(self.jobs[0], job)
        totals: dict[str, int] = {}
        for item in self.middle.read_text().splitlines():
            word = item.partition(":")[2]
            if not counter.add_input(item, tag=word):
                totals[word] = totals.get(word, 0) + 1
        totals = {w: n for w, n in totals.items() if not counter.add_output((w, n), tag=w)}
        for actor in (counter, job):
            actor.commit()
        return totals


@pytest.fixture
def program(store: ActorStore, tmp_path: Path) -> WordCount:
    source = tmp_path / "source"
    source.write_text("a bbb\nbbb cc\ndddd bbb\na ee\n")
    program = WordCount(store, source, tmp_path / "middle")
    program.prepare()
    assert program.count() == {"bbb": 2, "dddd": 1, "ee": 1}
    return program


def test_replay_begins_at_the_latest_materialised_point(program: WordCount) -> None:
    trace = program.store.trace([("bbb", 2)], root="counter")
    replayed = trace.replay()
    assert [s.name for s in replayed.ran] == ["count"]
    assert replayed.result == {"bbb": 2}
    assert len(program.store.registry().specs) == 5  # capture is off: nothing new was registered


def test_replay_by_hand_filters_every_actor(program: WordCount) -> None:
    trace = program.store.trace([("bbb", 2)], root="counter")
    with program.store.replaying(replay_plan(trace)):
        program.prepare()
        assert program.middle.read_text() == "0:bbb\n6:bbb"
        assert program.count() == {"bbb": 2}


def test_replay_step_by_step_shows_inputs_and_outputs(program: WordCount) -> None:
    trace = program.store.trace([("ee", 1)], root="counter")
    (step,) = trace.replay(steps=True)
    assert step.actor.name == "counter"
    assert set(step.inputs) == {"22:ee"}
    assert len(step.outputs) == 1


def test_exclude_at_any_stage(program: WordCount) -> None:
    trace = program.store.trace([("bbb", 2)], root="counter")
    without_words = trace.exclude(at="counter")
    assert [s.name for s in without_words.ran] == ["count"]
    assert without_words.result == {"dddd": 1, "ee": 1}
    without_lines = trace.exclude()
    assert [s.name for s in without_lines.ran] == ["prepare", "count"]
    assert without_lines.result == {"dddd": 1, "ee": 1}
    assert set(trace.at("reader").inputs) == {Location("source", 0, 6), Location("source", 6, 7)}
    trace = program.store.trace([("dddd", 1)], root="counter")
    assert trace.exclude(at="longest").result == {"bbb": 2, "ee": 1}


def test_what_cannot_be_replayed_says_so(program: WordCount) -> None:
    forward = program.store.trace([Location("source", 0, 6)], "forward", root="reader")
    with pytest.raises(CannotReplay, match="backward"):
        forward.replay()
    with pytest.raises(CannotReplay, match="backward"):
        exclude_plan(forward)
    lonely = program.store.register("lonely")
    lonely.capture(1, 2)
    lonely.commit()
    with pytest.raises(CannotReplay, match="restart="):
        program.store.trace([2], root=lonely).replay()


def test_a_process_that_opens_the_store_itself_takes_part_in_the_replay(store: ActorStore, tmp_path: Path) -> None:
    actor = store.register("double", restart=double_in_a_process, materialized=True, conf={"root": store.root})
    for n in range(4):
        actor.capture(n, 2 * n)
    actor.commit()
    fresh = ActorStore(store.root)  # the restart function is found by its name
    assert fresh.trace([4], root="double").replay().result == "4"
    assert fresh.trace([4], root="double").exclude().result == "0 2 6"


def test_a_partial_may_restart_an_actor_here(store: ActorStore) -> None:
    """It has no name by which another program could import it."""
    actor = store.register("partial", restart=functools.partial(lambda times, name, conf: times, 3))
    restart = store.restart_of(store.find(actor))
    assert restart is not None
    assert restart("partial", {}) == 3


def test_what_no_call_takes_is_told_in_a_sentence(store: ActorStore) -> None:
    actor, done = store.register("a"), store.register("done")
    done.capture(1, 2)
    done.commit()
    for call, words in (
        (lambda: store.register("b", parents=5), "parents= is a list, not 5"),  # type: ignore[arg-type]
        (lambda: store.register("b", parents=[5]), "are actors, or their ids"),  # type: ignore[list-item]
        (lambda: store.register("b", conf="x"), "is a dict, not 'x'"),  # type: ignore[arg-type]
        (lambda: store.register("b", restart=5), "is a function"),  # type: ignore[arg-type]
        (lambda: store.flow_link(actor, None), "knows no actor None"),  # type: ignore[arg-type]
        (lambda: store.trace(None, root=done), "as a list of them, not None"),
        (lambda: actor.capture_many(None, [1]), "takes lists"),
        (lambda: actor.capture_many(iter([1]), iter([2])), "takes lists"),
        (lambda: actor.capture_many([1, 2], [3], counts=[2, -1]), "whole numbers from 0 on"),
        (lambda: actor.capture_many([1, 2], [3], counts=["1", "0"]), "whole numbers from 0 on"),
        (lambda: actor.add_input(1, tag=[2]), "a value that a set may hold"),
        (lambda: store.replaying("plan").__enter__(), "is a plan"),  # type: ignore[arg-type]
        (lambda: ActorStore(None), "A store is a directory"),  # type: ignore[arg-type]
        (lambda: ActorStore("/dev/null").register("b"), "cannot be written to /dev/null"),
    ):
        with pytest.raises((TypeError, ValueError, whence.WhenceError), match=words):
            call()
    assert not actor.capture_many([], [], counts=[]).size
