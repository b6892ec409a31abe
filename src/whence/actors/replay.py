"""Running actors again on the traced records alone, or on everything but them (sections 3.4 and 5.2).

Each actor gets a filter when it registers again under the same path. A replay keeps, at every actor, the traced inputs
and outputs, so that operators which are not monotone give the same outputs again; an exclusion drops the traced inputs
at one actor and lets everything else take its course. What runs again is chosen from the actors that can be restarted,
beginning at the latest one whose input outlives the run.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from whence.actors.read import ActorLog
from whence.actors.records import Name, RecordSet, from_json, to_json
from whence.actors.registry import ActorSpec, Registry
from whence.actors.trace import GHOST, TracingDataflow
from whence.actors.worker import Filter
from whence.model import StoreError, WhenceError
from whence.store import Files
from whence.store.private import require_name

REPLAY_VARIABLE = "WHENCE_ACTORS_REPLAY"

_NOTHING = Filter(keep_inputs=frozenset(), keep_outputs=frozenset())
_EVERYTHING = Filter()


class CannotReplay(WhenceError):
    """The traced actors cannot be run again by whence."""


@dataclass(frozen=True)
class ReplayPlan:
    filters: Mapping[str, Filter]
    known: frozenset[str] = frozenset()  # paths of the original run; of these, the ones without a filter stay idle
    observe: bool = False
    restarted: Mapping[str, str] = field(
        default_factory=dict
    )  # name -> path: a restarted actor comes without container
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def filter_for(self, path: str) -> Filter:
        return self.filters.get(path, _NOTHING if path in self.known else _EVERYTHING)

    def scratch(self, files: Files) -> Files:
        return files.below("replays", self.id, "seen")

    def dumps(self) -> bytes:
        """Plain data: processes that take part read it from the store."""
        told = {
            "filters": {path: _told(filter) for path, filter in self.filters.items()},
            "known": sorted(self.known),
            "observe": self.observe,
            "restarted": dict(self.restarted),
        }
        return json.dumps(told).encode()

    @staticmethod
    def loads(data: bytes, plan: str) -> ReplayPlan:
        try:
            told = json.loads(data)
            filters = {path: _filter(filter) for path, filter in told["filters"].items()}
            return ReplayPlan(
                filters, frozenset(told["known"]), bool(told["observe"]), dict(told["restarted"]), require_name(plan)
            )
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            raise StoreError(f"The replay {plan} cannot be read from the store: {error}.") from error


def _told(filter: Filter) -> dict[str, Any]:
    def names(found: frozenset[Name] | None) -> list[list[Any]] | None:
        return None if found is None else [to_json(name) for name in found]

    return {
        "keep_inputs": names(filter.keep_inputs),
        "keep_outputs": names(filter.keep_outputs),
        "drop_inputs": names(filter.drop_inputs),
        "locations_moved": filter.locations_moved,
    }


def _filter(told: Mapping[str, Any]) -> Filter:
    def names(found: list[list[Any]] | None) -> frozenset[Name] | None:
        return None if found is None else frozenset(from_json(name) for name in found)

    return Filter(
        names(told["keep_inputs"]),
        names(told["keep_outputs"]),
        names(told["drop_inputs"]) or frozenset(),
        bool(told["locations_moved"]),
    )


@dataclass(frozen=True)
class ReplayStep:
    """One actor of a replay that goes step by step: what it took in, what it put out."""

    actor: ActorSpec
    inputs: RecordSet
    outputs: RecordSet


@dataclass(frozen=True)
class Replayed:
    """What the restarted actors gave back, in the order they ran."""

    ran: tuple[ActorSpec, ...]
    results: tuple[Any, ...]

    @property
    def result(self) -> Any:
        return self.results[-1] if self.results else None


class _Store(Protocol):
    @property
    def files(self) -> Files: ...
    def replaying(self, plan: ReplayPlan) -> Any: ...
    def restart_of(self, spec: ActorSpec) -> Callable[[str, Mapping[str, Any]], Any] | None: ...


def replay_plan(trace: TracingDataflow, rerun: frozenset[str] | None = None, observe: bool = False) -> ReplayPlan:
    """Filters for a replay. `rerun`: the actors that run again; by default all of the trace."""
    if trace.direction != "backward":
        raise CannotReplay("Only a backward trace can be replayed: a forward trace does not hold all inputs it needs.")
    steps = [s for s in trace.steps if s.actor.kind != GHOST]
    again = frozenset(s.actor.id for s in steps) if rerun is None else rerun
    filters: dict[str, Filter] = {}
    for step in steps:
        moved = any(b == step.actor.id and a in again for a, b in trace.edges)
        mine = Filter(frozenset(step.inputs), frozenset(step.outputs), locations_moved=moved)
        other = filters.get(step.actor.path)
        if other is not None and other.keep_inputs is not None and other.keep_outputs is not None:
            mine = Filter(
                frozenset(step.inputs) | other.keep_inputs,
                frozenset(step.outputs) | other.keep_outputs,
                locations_moved=moved or other.locations_moved,
            )
        filters[step.actor.path] = mine
    # what takes from the asked actors was not traced, but shall show what they put out again
    after = _onward(trace.registry, _asked(trace))
    known = frozenset(s.path for s in trace.registry.specs.values() if s.id not in after)
    return ReplayPlan(filters, known, observe)


def exclude_plan(trace: TracingDataflow, at: Any = None) -> tuple[ReplayPlan, set[str]]:
    """Filters that drop the traced inputs of the actors `at` (default: those at the far end), and those actors' ids."""
    if trace.direction != "backward":
        raise CannotReplay(
            "Only a backward trace can be excluded: it holds the inputs that the asked records came from."
        )
    steps = [s for s in trace.steps if s.actor.kind != GHOST]
    if at is None:
        fed = {b for _, b in trace.edges}
        chosen = [s for s in steps if s.actor.id not in fed]
    else:
        table = trace.at(at)
        chosen = [s for s in steps if s.actor.path == table.actor.path]
    filters = {s.actor.path: Filter(drop_inputs=frozenset(s.inputs)) for s in chosen}
    return ReplayPlan(filters), {s.actor.id for s in chosen}


def _units(store: _Store, registry: Registry, actor: str) -> ActorSpec | None:
    """The innermost actor around this one, itself included, that can be restarted."""
    around = [actor]
    while around:
        for candidate in around:
            if store.restart_of(registry.specs[candidate]) is not None:
                return registry.specs[candidate]
        around = [p for a in around for p in registry.specs[a].parents if p in registry.specs]
    return None


def to_restart(store: _Store, registry: Registry, actors: set[str], onward: bool) -> list[ActorSpec]:
    """What to restart, feeders first, so that these actors run again; `onward`: and all that takes from them."""
    edges = registry.edges()
    if onward:
        actors = _onward(registry, actors)
    units: dict[str, ActorSpec] = {}
    members: dict[str, set[str]] = {}
    waiting = set(actors)
    seen: set[str] = set()
    while waiting:
        actor = waiting.pop()
        if actor in seen:
            continue
        seen.add(actor)
        unit = _units(store, registry, actor)
        if unit is None:
            raise CannotReplay(
                f"{registry.specs[actor].path} cannot be restarted. Register it, or what contains it, with "
                "restart=a function(name, conf); or run the dataflow yourself inside `with store.replaying(plan)`."
            )
        members.setdefault(unit.id, set()).add(actor)
        if unit.id not in units:
            units[unit.id] = unit
            inside = {unit.id} | {s.id for s in registry.within(unit.id)}
            seen |= inside
            members[unit.id] |= inside
            if not unit.materialized:
                waiting |= {a for a, b in edges if b in inside} - seen
    order: list[ActorSpec] = []
    left = dict(units)
    while left:
        ready = [
            u for u in left
            if not any(a in members[v] and b in members[u] for v in left if v != u for a, b in edges)
        ] or list(left)[:1]  # fmt: skip
        for chosen in sorted(ready, key=lambda u: left[u].path):
            order.append(left.pop(chosen))
    return order


def run(store: _Store, trace: TracingDataflow) -> Replayed:
    asked = _asked(trace)
    order = to_restart(store, trace.registry, asked, onward=False)
    with store.replaying(_restarting(replay_plan(trace, _inside(trace.registry, order)), order)):
        return _restart(store, order)


def run_stepwise(store: _Store, trace: TracingDataflow) -> Iterator[ReplayStep]:
    order = to_restart(store, trace.registry, _asked(trace), onward=False)
    plan = replay_plan(trace, _inside(trace.registry, order), observe=True)
    with store.replaying(_restarting(plan, order)) as plan:
        scratch = plan.scratch(store.files)
        shown: set[str] = set()
        for unit in order:
            _restart(store, [unit])
            registry = Registry.load(scratch)
            fresh = [s for s in registry.specs.values() if registry.has_log(s.id) and s.id not in shown]
            rank = {s.actor.path: n for n, s in enumerate(reversed(trace.steps))}
            for spec in sorted(fresh, key=lambda s: rank.get(s.path, len(rank))):
                shown.add(spec.id)
                log = ActorLog(scratch, registry, spec.id)
                yield ReplayStep(spec, log.all_records("input"), log.all_records("output"))


def run_without(store: _Store, trace: TracingDataflow, at: Any = None) -> Replayed:
    plan, actors = exclude_plan(trace, at)
    order = to_restart(store, trace.registry, actors, onward=True)
    with store.replaying(_restarting(plan, order)):
        return _restart(store, order)


def _restarting(plan: ReplayPlan, order: list[ActorSpec]) -> ReplayPlan:
    return replace(plan, restarted={u.name: u.path for u in order})


def _onward(registry: Registry, actors: set[str]) -> set[str]:
    edges, reached = registry.edges(), set(actors)
    while more := {b for a, b in edges if a in reached} - reached:
        reached |= more
    return reached


def _asked(trace: TracingDataflow) -> set[str]:
    feeding = {a for a, _ in trace.edges}
    return {s.actor.id for s in trace.steps if s.actor.kind != GHOST and s.actor.id not in feeding}


def _inside(registry: Registry, units: list[ActorSpec]) -> frozenset[str]:
    return frozenset(u.id for u in units) | {s.id for u in units for s in registry.within(u.id)}


def _restart(store: _Store, order: list[ActorSpec]) -> Replayed:
    results = []
    for spec in order:
        restart = store.restart_of(spec)
        assert restart is not None
        results.append(restart(spec.name, spec.conf))
    return Replayed(tuple(order), tuple(results))
