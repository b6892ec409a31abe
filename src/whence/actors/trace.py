"""Tracing through actors: the step of one actor, repeated along the flow links (section 3.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from whence.actors.read import ActorLog, matches, overlap_pairs
from whence.actors.records import LOCATION, RecordSet
from whence.actors.registry import ActorSpec, Registry
from whence.model import EXACT, Exactness, WhenceError
from whence.store import Files

GHOST = "ghost"


class NotCommitted(WhenceError):
    def __init__(self, spec: ActorSpec) -> None:
        super().__init__(
            f"The actor {spec.path} has no committed log, and questions see committed actors only. "
            "Call its commit() when it has ended well; for one that crashed, ask failures()."
        )


@dataclass(frozen=True)
class TracingTable:
    """One actor's part in a trace: those of its inputs and outputs that belong to it."""

    actor: ActorSpec
    inputs: RecordSet
    outputs: RecordSet
    _log: ActorLog | None = field(default=None, repr=False, compare=False)
    _ghost: tuple[Any, Any] | None = field(default=None, repr=False, compare=False)

    def associations(self) -> Iterator[tuple[Any, Any]]:
        """(inputs, outputs): aligned Arrow arrays, a batch at a time."""
        if self._log is not None:
            yield from ((i, o) for _, i, o in self._log.pairs(self.inputs, self.outputs))
        elif self._ghost is not None:
            yield self._ghost

    def to_pandas(self) -> Any:
        import pandas as pd  # type: ignore[import-untyped, unused-ignore]

        from whence.actors.records import to_names

        rows = [(i, o) for a, b in self.associations() for i, o in zip(to_names(a), to_names(b), strict=True)]
        return pd.DataFrame({"input": [r[0] for r in rows], "output": [r[1] for r in rows]})


@dataclass(frozen=True)
class TracingDataflow:
    """The answer to a trace: the actors that took part, nearest the asked records first, with their tracing tables."""

    direction: str
    asked: RecordSet
    steps: tuple[TracingTable, ...]
    edges: frozenset[tuple[str, str]]
    exactness: Exactness
    registry: Registry = field(repr=False, compare=False)
    starts: Mapping[str, RecordSet] = field(default_factory=dict, repr=False, compare=False)  # what was asked, by actor
    store: Any = field(default=None, repr=False, compare=False)

    def trace(self) -> Any:
        """The same question as a Trace, which goes on to whatever made what the actors read, and can be shown."""
        if self.store is None or self.store.tracing is None:
            raise WhenceError("A Trace is made by a session: ask w.trace(...), with w = whence.attach(spark).")
        return self.store.tracing(self)

    def replay(self, steps: bool = False) -> Any:
        """Run again only what made the asked records (Replayed); steps=True: an iterator of ReplayStep instead."""
        from whence.actors.replay import run, run_stepwise

        return run_stepwise(self.store, self) if steps else run(self.store, self)

    def exclude(self, at: Any = None) -> Any:
        """Run again without the traced inputs of the actor `at` (default: at the far end). Gives Replayed."""
        from whence.actors.replay import run_without

        return run_without(self.store, self, at)

    @property
    def exact(self) -> bool:
        return self.exactness.exact

    @property
    def notes(self) -> tuple[str, ...]:
        return self.exactness.notes

    def at(self, actor: Any) -> TracingTable:
        """The tracing table of an actor (handle, id or name)."""
        wanted = getattr(actor, "id", actor)
        found = [s for s in self.steps if wanted in (s.actor.id, s.actor.name, s.actor.path)]
        if not found:
            raise KeyError(
                f"{actor!r} took no part in this trace; it went through {[s.actor.path for s in self.steps]}"
            )
        if len(found) == 1:
            return found[0]
        return TracingTable(
            found[0].actor, _union(s.inputs for s in found), _union(s.outputs for s in found)
        )  # several instances of one name

    @property
    def records(self) -> RecordSet:
        """The records at the far end: where no further actor takes the trace on."""
        return _union(records for _, records in self.ends)

    @property
    def ends(self) -> list[tuple[TracingTable, RecordSet]]:
        """For each actor, those of its records at the far side that no other actor of the trace takes on."""
        backward = self.direction == "backward"
        tables = {s.actor.id: s for s in self.steps if s.actor.kind != GHOST}
        others: dict[str, list[RecordSet]] = {}
        for a, b in self.edges:
            if backward:
                others.setdefault(b, []).append(tables[a].outputs)
            else:
                others.setdefault(a, []).append(tables[b].inputs)
        ends = []
        for actor, table in tables.items():
            far = table.inputs if backward else table.outputs
            left = without(far, _union(others[actor])) if actor in others else far
            if len(left):
                ends.append((table, left))
        return ends

    @property
    def widened(self) -> tuple[str, ...]:
        """Why there may be more here than is needed: capture says which records belong together, so that is never."""
        return ()

    @property
    def ended(self) -> tuple[str, ...]:
        """Where the trace stops short of what there was, and why."""
        return self.exactness.notes

    @property
    def flow(self) -> Any:
        """The graph of actors that was traced, as every other lineage is seen (model.flow.Flow)."""
        from whence.actors.flow import ActorFlow

        around = [*self.starts, *(s.actor.id for s in self.steps if s.actor.kind != GHOST)]
        return ActorFlow(self.store.files, self.registry, around, self.store.root)

    def inputs(self, container: Any) -> RecordSet:
        """The traced records that this actor, or what it contains, took from outside: cross-level by containment."""
        return self._boundary(container, 0)

    def outputs(self, container: Any) -> RecordSet:
        return self._boundary(container, 1)

    def _boundary(self, container: Any, side: int) -> RecordSet:
        name = getattr(container, "id", container)
        ids = (self.registry.takers if side == 0 else self.registry.givers)(name)
        return _union((s.inputs, s.outputs)[side] for s in self.steps if s.actor.id in ids)

    @property
    def flows(self) -> tuple[tuple[TracingTable, ...], ...]:
        """The separate dataflows of this trace (a job may be captured on several levels)."""
        group = {s.actor.id: {s.actor.id} for s in self.steps}
        for a, b in self.edges:
            if a in group and b in group and group[a] is not group[b]:
                group[a] |= group[b]
                for member in group[b]:
                    group[member] = group[a]
        kept = {id(g): g for g in group.values()}
        return tuple(tuple(s for s in self.steps if s.actor.id in g) for g in kept.values())


def without(records: RecordSet, others: RecordSet) -> RecordSet:
    """Those that none of the others meets."""
    import pyarrow as pa

    return RecordSet([array.filter(pa.array(~matches(array, others))) for array in records.arrays.values()])


def _union(sets: Any) -> RecordSet:
    result = RecordSet()
    for found in sets:
        result = result | found
    return result


def _order(nodes: set[str], edges: set[tuple[str, str]]) -> list[str]:
    """Feeders first; members of a cycle come in the order they are met."""
    waiting = {n: sum(1 for _, b in edges if b == n) for n in nodes}
    ready = sorted(n for n, count in waiting.items() if not count)
    order: list[str] = []
    while waiting:
        if not ready:
            ready = [min(waiting, key=lambda n: (waiting[n], n))]
        node = ready.pop()
        if node not in waiting:
            continue
        del waiting[node]
        order.append(node)
        for a, b in edges:
            if a == node and b in waiting:
                waiting[b] -= 1
                if not waiting[b]:
                    ready.append(b)
    return order


def trace(files: Files, registry: Registry, records: Any, direction: str, root: str) -> TracingDataflow:
    if direction not in ("backward", "forward"):
        raise ValueError(f'direction is "backward" or "forward", not {direction!r}.')
    backward = direction == "backward"
    starts = registry.givers(root) if backward else registry.takers(root)
    if not starts:
        raise NotCommitted(registry.specs[root])
    asked = RecordSet.of(records)
    return walk(files, registry, asked, direction, dict.fromkeys(starts, asked))


def walk(
    files: Files, registry: Registry, asked: RecordSet, direction: str, wanted: dict[str, RecordSet]
) -> TracingDataflow:
    backward = direction == "backward"
    starts = dict(wanted)
    flow = registry.edges()
    onward: dict[str, set[str]] = {}
    for a, b in flow:
        onward.setdefault(b if backward else a, set()).add(a if backward else b)
    reached = set(wanted)
    frontier = list(wanted)
    while frontier:
        frontier = [n for node in frontier for n in onward.get(node, ()) if n not in reached]
        reached |= set(frontier)
    among = {(a, b) for a, b in flow if a in reached and b in reached}
    order = _order(reached, among if not backward else {(b, a) for a, b in among})
    place = {node: n for n, node in enumerate(order)}
    logs = {node: ActorLog(files, registry, node) for node in reached}
    found: dict[str, tuple[RecordSet, RecordSet]] = {}
    grown = set(wanted)
    while grown:  # once for each actor, unless the dataflow is circular
        node = min(grown, key=place.__getitem__)
        grown.discard(node)
        near, far = logs[node].step(wanted[node], direction)
        if node in found and len(found[node][0]) == len(near) and len(found[node][1]) == len(far):
            continue
        found[node] = near, far
        for following in onward.get(node, ()):
            wanted[following] = wanted[following] | far if following in wanted else far
            grown.add(following)
    taken = {node: pair for node, pair in found.items() if len(pair[0])}
    edges = frozenset((a, b) for a, b in among if a in taken and b in taken and _meet(taken[a], taken[b], backward))
    steps: list[TracingTable] = []
    for node in sorted(taken, key=place.__getitem__):
        near, far = taken[node]
        inputs, outputs = (far, near) if backward else (near, far)
        for other in sorted(onward.get(node, ())):
            if other in taken:
                a, b = (other, node) if backward else (node, other)
                steps += _ghosts(registry, taken, a, b, backward)
        steps.append(TracingTable(registry.specs[node], inputs, outputs, logs[node]))
    notes = Exactness(registry.notes) | gaps(registry, set(taken), backward)
    # a ghost stands between its two actors, on the far side of the nearer one
    steps.sort(key=lambda s: (place[_near_end(s.actor, backward)], s.actor.kind == GHOST))
    return TracingDataflow(direction, asked, tuple(steps), edges, notes, registry, starts)


def _meet(a: tuple[RecordSet, RecordSet], b: tuple[RecordSet, RecordSet], backward: bool) -> bool:
    """Whether any traced record passes from a to b; a link may join several levels of which only one matches."""
    outputs, inputs = (a[0], b[1]) if backward else (a[1], b[0])
    return any(matches(array, inputs).any() for array in outputs.arrays.values())


def _near_end(actor: ActorSpec, backward: bool) -> str:
    return actor.id if actor.kind != GHOST else actor.parents[1 if backward else 0]


def _ghosts(
    registry: Registry, taken: dict[str, tuple[RecordSet, RecordSet]], a: str, b: str, backward: bool
) -> list[TracingTable]:
    written = taken[a][0 if backward else 1].arrays.get(LOCATION)
    read = taken[b][1 if backward else 0].arrays.get(LOCATION)
    if written is None or read is None:
        return []
    left, right = overlap_pairs(written, read)
    pair = written.take(left), read.take(right)
    name = f"{registry.specs[a].path} -> {registry.specs[b].path}"
    spec = ActorSpec(f"{GHOST}-{a}-{b}", name, GHOST, (a, b), name)
    return [TracingTable(spec, RecordSet([pair[0]]), RecordSet([pair[1]]), _ghost=pair)]


def gaps(registry: Registry, taken: set[str], backward: bool) -> Exactness:
    """A flow link to an actor without a committed log is a hole in the answer, and is told."""
    result = EXACT
    for a, b in sorted(registry.links):
        near, far = (b, a) if backward else (a, b)
        ends = registry.takers(near) if backward else registry.givers(near)
        if ends & taken and not (registry.givers(far) if backward else registry.takers(far)):
            note = f"{registry.specs[far].path} is linked to {registry.specs[near].path} but has no committed log"
            result = result | Exactness((note,))
    return result
