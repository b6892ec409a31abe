"""Graphs of actors, made from a seed: chains of keys, contents and Locations that overlap, association sets, tasks
that are tried several times, logs of several parts. Traces both ways are compared with the oracle of tests/actors."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from actors.oracle_actors import OracleActor, trace_from
from whence.actors import ActorStore, Location, hash_record
from whence.actors import log as log_module

Event = tuple[Any, ...]


@dataclass(frozen=True)
class Attempt:
    """One try of a task: what it captures. One that does not commit has crashed."""

    number: int
    commits: bool
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Graph:
    """`tasks`: for each actor its tasks, each with its attempts; the first task is the actor itself."""

    tasks: tuple[tuple[tuple[Attempt, ...], ...], ...]
    links: tuple[tuple[int, int], ...]
    asked: int  # which of the records of which actor is asked for
    batch: int  # associations to a part of a log


def graph(seed: int) -> Graph:
    draw = random.Random(seed)
    count = draw.choice((1, 2, 3, 3, 4, 5, 6))
    # Neighbours speak of the same records: what one puts out, the next ones take in.
    kinds = [draw.choice(("int", "str", "bytes", "place", "place", "content", "mixed")) for _ in range(count + 1)]
    tasks = tuple(tuple(_tasks(draw, kinds[n], kinds[n + 1])) for n in range(count))
    links = {(n, n + 1) for n in range(count - 1)} if draw.random() < 0.8 else set()
    for _ in range(draw.choice((0, 0, 1, 3))):
        a, b = draw.randrange(count), draw.randrange(count)
        if a != b:
            links.add((a, b))
    return Graph(tasks, tuple(sorted(links)), draw.randrange(1000), draw.choice((1, 3, 7, 1 << 17)))


def _tasks(draw: random.Random, takes: str, gives: str) -> list[tuple[Attempt, ...]]:
    found = [(Attempt(0, True, _events(draw, takes, gives)),)]
    for _ in range(draw.choice((0, 0, 1, 2))):
        numbers = draw.sample(range(4), draw.choice((1, 1, 2, 3)))
        found.append(tuple(Attempt(n, draw.random() < 0.7, _events(draw, takes, gives)) for n in numbers))
    return found


def _events(draw: random.Random, takes: str, gives: str) -> tuple[Event, ...]:
    def tag() -> Any:
        return draw.choice((None, 0, 1, "x", frozenset([0, 1]), frozenset([1, "x"])))

    found: list[Event] = []
    for _ in range(draw.choice((0, 2, 5, 9, 20))):
        how = draw.choice(("pair", "pair", "pair", "many", "in", "in", "out", "out", "reset", "only in", "only out"))
        i, o = _record(draw, takes), _record(draw, gives)
        if how == "many":
            n = draw.randrange(5)
            pairs = tuple((_record(draw, takes), _record(draw, gives)) for _ in range(n))
            found.append(("capture_many", tuple(a for a, _ in pairs), tuple(b for _, b in pairs)))
        elif how == "reset":
            found.append(("reset", tag()))
        elif how in ("in", "out"):
            found.append(("add_input", i, tag()) if how == "in" else ("add_output", o, tag()))
        else:
            found.append(("capture", None if how == "only out" else i, None if how == "only in" else o))
    return tuple(found)


def _record(draw: random.Random, kind: str) -> Any:
    if kind == "mixed":
        kind = draw.choice(("int", "str", "bytes", "place", "content"))
    if kind == "int":
        return draw.choice((0, 1, 2, 3, -1, 2**62))
    if kind == "str":
        return draw.choice(("", "a", "b", "5", "ä"))
    if kind == "bytes":
        return draw.choice((b"", b"a", b"\x00"))
    if kind == "place":
        return Location(draw.choice("fg"), draw.randrange(12), draw.choice((None, 0, 1, 2, 5)))
    return draw.choice(((1, "a"), (1, "b"), ("a", None), (1.5, (2, 3))))


def _named(record: Any) -> Any:
    """As the log names it: contents by their hash."""
    return hash_record(record) if isinstance(record, tuple) and not isinstance(record, Location) else record


def check(given: Graph) -> None:
    """Raises AssertionError where a trace says anything else than the oracle."""
    with tempfile.TemporaryDirectory() as home, patch.object(log_module, "BATCH", given.batch):
        store = ActorStore(home)
        actors = [store.register(f"actor {n}") for n in range(len(given.tasks))]
        oracles = [OracleActor() for _ in actors]
        for actor, tasks, oracle in zip(actors, given.tasks, oracles, strict=True):
            for key, attempts in reversed(list(enumerate(tasks))):  # the actor itself commits last
                _run(actor, key, attempts, oracle)
        for a, b in given.links:
            store.flow_link(actors[a], actors[b])
        _ask(ActorStore(home), actors, oracles, given)  # as another program would


def _run(actor: Any, key: int, attempts: tuple[Attempt, ...], oracle: OracleActor) -> None:
    for attempt in attempts:
        instance = actor if key == 0 else actor.task(key, attempt.number)
        for name, *values in attempt.events:
            getattr(instance, name)(*values)
        if attempt.commits:
            instance.commit()
    committed = [attempt for attempt in attempts if attempt.commits]
    oracle.sets = {}  # association sets do not cross instances
    for name, *values in min(committed, key=lambda a: a.number).events if committed else ():
        if name == "capture_many":
            for i, o in zip(*values, strict=True):
                oracle.capture(_named(i), _named(o))
        elif name == "reset":
            oracle.reset(*values)
        else:
            getattr(oracle, name)(_named(values[0]), *[_named(v) if name == "capture" else v for v in values[1:]])


def _ask(store: ActorStore, actors: list[Any], oracles: list[OracleActor], given: Graph) -> None:
    for direction in ("backward", "forward"):
        near = [(n, r) for n, o in enumerate(oracles) for r in (o.outputs if direction == "backward" else o.inputs)]
        if not near:
            continue
        root, record = near[given.asked % len(near)]
        asked = {r for n, r in near if n == root} if given.asked % 3 == 0 else {record}
        expected = trace_from(oracles, list(given.links), {root: set(asked)}, direction)
        answer = store.trace(list(asked), direction, root=actors[root].id)
        for n, actor in enumerate(actors):
            found: set[Any] = set()
            for step in answer.steps:
                if step.actor.id == actor.id:
                    found |= set(step.inputs if direction == "backward" else step.outputs)
            assert found == expected.get(n, set()), f"{direction}, actor {n}: {found}, not {expected.get(n, set())}"
        _check_log(store, actors[root], oracles[root])


def _check_log(store: ActorStore, actor: Any, oracle: OracleActor) -> None:
    log = store.log(actor)
    assert set(log.all_records("input")) == set(oracle.inputs), "inputs"
    assert set(log.all_records("output")) == set(oracle.outputs), "outputs"


def shrunk(given: Graph, fails: Callable[[Graph], bool]) -> Graph:
    """Fewer links, tasks and events that still fail."""
    smaller = True
    while smaller:
        smaller = False
        for other in _smaller(given):
            if fails(other):
                given, smaller = other, True
                break
    return given


def _smaller(given: Graph) -> Any:
    for at in range(len(given.links)):
        yield replace(given, links=given.links[:at] + given.links[at + 1 :])
    for a, tasks in enumerate(given.tasks):
        for t, attempts in enumerate(tasks):
            if t:
                yield _with(given, a, (*tasks[:t], *tasks[t + 1 :]))
            for n, attempt in enumerate(attempts):
                for e in range(len(attempt.events)):
                    fewer = replace(attempt, events=attempt.events[:e] + attempt.events[e + 1 :])
                    yield _with(given, a, (*tasks[:t], (*attempts[:n], fewer, *attempts[n + 1 :]), *tasks[t + 1 :]))


def _with(given: Graph, actor: int, tasks: tuple[tuple[Attempt, ...], ...]) -> Graph:
    return replace(given, tasks=(*given.tasks[:actor], tasks, *given.tasks[actor + 1 :]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="make fuzz", description="Graphs of actors.")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1000, help="how many seeds")
    options = parser.parse_args()

    def fails(given: Graph) -> bool:
        try:
            check(given)
        except Exception:
            return True
        return False

    wrong = 0
    for seed in range(options.first, options.first + options.count):
        try:
            check(graph(seed))
        except Exception:
            wrong += 1
            print(f"--- {seed}: {shrunk(graph(seed), fails)}\n{traceback.format_exc()[-2000:]}", flush=True)
    print(f"{options.count} graphs of actors, {wrong} wrong")
    sys.exit(wrong > 0)
