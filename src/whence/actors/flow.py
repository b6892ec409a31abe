"""A graph of actors as a flow (model/flow.py): what all that is built on lineage asks, in place of tracing tables.

What an actor puts out is a site of its own, told by the names that it captured; a byte range of a file is a site of
that file, told as every front end tells its records (places.py), so that a trace goes on from there and arrives there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from whence.actors.places import File, InFile, Span, asked_span, records_in, span_of
from whence.actors.products import site_of, taken_site_of
from whence.actors.read import ActorLog, matches, overlap_pairs
from whence.actors.records import LOCATION, Location, Name, RecordSet, location_array, to_names
from whence.actors.registry import Registry, version_of
from whence.actors.trace import TracingDataflow, walk
from whence.model import WhenceError
from whence.model.flow import BY_BYTE, BY_NUMBER, BY_ROW, Answer, Few, RecordId, Records, Site, Step, told_by
from whence.model.verdict import Verdict
from whence.store import Files
from whence.store.names import file_key

_HASH = "hash"
_END = 2**62
_SIDES = {"backward": "output", "forward": "input"}


def id_of(name: int | str | bytes) -> RecordId:
    return (_HASH, name.hex()) if isinstance(name, bytes) else (name,)


def name_of(id: RecordId) -> int | str | bytes:
    if len(id) == 2 and id[0] == _HASH and isinstance(id[1], str):
        return bytes.fromhex(id[1])
    if len(id) != 1:
        raise WhenceError(f"{id!r} is no record of an actor: these are told by the one name that was captured.")
    return id[0]


@dataclass(frozen=True)
class _Wanted:
    """What is asked, actor by actor, and why there may be more in it than was asked."""

    starts: dict[str, RecordSet]
    spans: Mapping[str, list[Span]] = field(default_factory=dict)
    widened: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Taken:
    """Records that somebody else told of."""

    site: Site
    known: tuple[RecordId, ...]
    columns: tuple[str, ...] = ("record",)

    def count(self) -> int:
        return len(self.known)

    def ids(self, most: int | None = None) -> list[RecordId]:
        return list(self.known[:most])

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        if told_by(self.site) is None:
            return [(name_of(id),) for id in self.known[:most]]
        files: dict[str, File] = {}
        found = []
        for id in self.known[:most]:
            file = files.setdefault(str(id[0]), File(str(id[0])))
            found.append((file.text(*asked_span(file, id)) if told_by(self.site) != BY_ROW else None,))
        return found


@dataclass(frozen=True, eq=False)
class AskedOf:
    """Records that were asked of several actors at once, as those of one site: a container's, say."""

    site: Site
    starts: Mapping[str, RecordSet]
    columns: tuple[str, ...] = ("record",)

    def _names(self) -> list[Name]:
        return list(dict.fromkeys(name for records in self.starts.values() for name in records))

    def count(self) -> int:
        return len(self._names())

    def ids(self, most: int | None = None) -> list[RecordId]:
        places = ((n.file, n.offset, -1 if n.length is None else n.length) if isinstance(n, Location) else id_of(n)
                  for n in self._names()[:most])  # fmt: skip
        return list(places)

    def values(self, most: int | None = None) -> list[tuple[Any, ...]]:
        return [(name,) for name in self._names()[:most]]


class ActorFlow:
    """The committed actors that are linked with, contain, or are contained in, those of `around`."""

    def __init__(self, files: Files, registry: Registry, around: Iterable[str], root: str) -> None:
        self._files, self._registry, self._root = files, registry, root
        self._actors = [a for a in graph_around(registry, around) if registry.has_log(a)]
        self._logs: dict[str, ActorLog] = {}
        self._looked_at: dict[str, File] = {}

    @classmethod
    def of(cls, traced: TracingDataflow) -> tuple[ActorFlow, AskedOf]:
        """A question to actors as every other lineage is asked."""
        if traced.direction != "backward":
            raise WhenceError("A Trace tells where records came from: ask w.trace(records, root=...) backward.")
        flow = traced.flow
        names = ", ".join(flow._registry.specs[actor].path for actor in traced.starts)
        return flow, AskedOf(Site(f"asked of {', '.join(traced.starts)}", names), traced.starts)

    @property
    def name(self) -> str:
        tops = [self._registry.specs[a] for a in self._actors]
        shown = list(dict.fromkeys(spec.path.split("/", 1)[0] for spec in tops))
        return f"actors {', '.join(shown[:3])}" + (" ..." if len(shown) > 3 else "")

    @cached_property
    def _edges(self) -> set[tuple[str, str]]:
        here = set(self._actors)
        return {(a, b) for a, b in self._registry.edges() if a in here and b in here}

    @cached_property
    def outputs(self) -> tuple[Site, ...]:
        """The files that any of the actors wrote, and what the last ones put out otherwise."""
        feeding = {a for a, _ in self._edges}
        files = self._files_of("output", self._actors)
        return (*files, *(self._site(a) for a in self._actors if a not in feeding and self._has_keys(a, "output")))

    @cached_property
    def inputs(self) -> tuple[Site, ...]:
        """The files that any of the actors read, and what the first ones took in otherwise."""
        fed = {b for _, b in self._edges}
        written = set(self._files_of("output", [a for a, _ in self._edges]))
        files = [site for site in self._files_of("input", self._actors) if site not in written]
        return (*files, *(self._taken(a) for a in self._actors if a not in fed and self._has_keys(a, "input")))

    @cached_property
    def _ordered(self) -> list[tuple[str, int]]:
        """The actors, nearest the result first, with how many steps lie between."""
        depth = dict.fromkeys(self._actors, 0)
        for _ in self._actors:  # as often as the longest way is long; a circle ends it too
            deeper = {a: depth[b] + 1 for a, b in self._edges if depth[a] <= depth[b] < len(self._actors)}
            if not deeper:
                break
            depth.update(deeper)
        return sorted(depth.items(), key=lambda found: (found[1], self._registry.specs[found[0]].path))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        specs = self._registry.specs
        return tuple(
            Step(number, specs[actor].kind, f"{specs[actor].kind} {specs[actor].path}", depth)
            for number, (actor, depth) in enumerate(self._ordered)
        )

    # --- questions

    def backward(self, asked: Records) -> Answer:
        return self._answer(asked, "backward")

    def forward(self, seeds: Records) -> Answer:
        return self._answer(seeds, "forward")

    def take(self, site: Site, ids: Iterable[RecordId]) -> Records:
        known = tuple(dict.fromkeys(tuple(id) for id in ids))
        if told_by(site) is None:
            self._require_names(site, known)
        else:
            self._require_bytes(site, known)
        return Taken(site, known)

    def files(self, site: Site) -> Collection[str]:
        """The file of a site, where others may have written it."""
        return (site.key.partition(": ")[2],) if told_by(site) is not None else ()

    def at(self, step: Step, asked: Records) -> Records:
        actor, _ = self._ordered[step.number]
        trace, _ = self._walk(asked, "backward")
        found = [s.outputs for s in trace.steps if s.actor.id == actor]
        names = list(found[0]) if found else []
        ids = tuple(self._id(actor, "output", name) for name in names)
        return Few(self._site(actor), ids, tuple((name,) for name in names), ("record",))

    def verify(self, asked: Records, answer: Answer) -> Verdict:
        """Stored, intact: or why not even that."""
        from whence.actors.proof import stored

        trace, _ = self._walk(asked, "backward")
        logs = [self._log(step.actor.id) for step in trace.steps if self._registry.has_log(step.actor.id)]
        return stored(self, logs, asked, answer)

    def multiplicities(self, step: Step) -> Mapping[RecordId, int]:
        """How many outputs each input of this actor had."""
        actor, _ = self._ordered[step.number]
        counts: dict[RecordId, int] = {}
        for found in self._log(actor).multiplicities():
            for name, count in zip(to_names(found.inputs), found.counts.tolist(), strict=True):
                id = self._id(actor, "input", name)
                counts[id] = counts.get(id, 0) + count
        return counts

    # --- how they are answered

    def _walk(self, asked: Records, direction: str) -> tuple[TracingDataflow, _Wanted]:
        if isinstance(asked, AskedOf):
            return walk(self._files, self._registry, RecordSet(), direction, dict(asked.starts)), _Wanted(
                dict(asked.starts)
            )
        if not isinstance(asked, Taken):
            asked = self.take(asked.site, asked.ids())
        wanted = self._wanted(asked, _SIDES[direction])
        everything = RecordSet([array for found in wanted.starts.values() for array in found.arrays.values()])
        return walk(self._files, self._registry, everything, direction, dict(wanted.starts)), wanted

    def _answer(self, asked: Records, direction: str) -> Answer:
        trace, wanted = self._walk(asked, direction)
        ends: dict[str, RecordSet] = {}
        for table, left in trace.ends:
            ends[table.actor.id] = left
        if direction == "forward":  # what stands in a file stays there, whoever reads it next
            for table in trace.steps:
                if table._log is not None and (written := table.outputs.arrays.get(LOCATION)) is not None:
                    ends[table.actor.id] = ends.get(table.actor.id, RecordSet()) | RecordSet([written])
        found, ended = self._found(ends, "input" if direction == "backward" else "output")
        widened = (*wanted.widened, *self._shared(trace, wanted, direction))
        return Answer(found, tuple(dict.fromkeys(widened)), tuple(dict.fromkeys((*trace.ended, *ended))))

    def _found(self, ends: Mapping[str, RecordSet], side: str) -> tuple[dict[Site, Records], list[str]]:
        found: dict[Site, Records] = {}
        ended: list[str] = []
        lying: dict[str, list[Location]] = {}
        changed: set[str] = set()
        for actor, records in ends.items():
            names = [name for array in records.arrays.values() for name in to_names(array)]
            keys_only = [name for name in names if not isinstance(name, Location)]
            if keys_only:
                site = self._taken(actor) if side == "input" else self._site(actor)
                found[site] = Few(site, tuple(map(id_of, keys_only)), tuple((n,) for n in keys_only), ("record",))
            versions = self._registry.versions(actor)
            keys = self._keys(actor, side)
            for location in (name for name in names if isinstance(name, Location)):
                for key in keys[location.file]:
                    lying.setdefault(key, []).append(location)
                    if key in versions and version_of(key) not in versions[key] and key not in changed:
                        changed.add(key)
                        ended.append(
                            f"{key} was changed since {self._registry.specs[actor].path} "
                            f"{'read' if side == 'input' else 'wrote'} it, so that its bytes say nothing of what is "
                            "there now"
                        )
        for key, locations in lying.items():
            records_here: InFile = records_in(self._file(key), locations, changed=key in changed)
            found[records_here.site] = records_here
        return found, ended

    def _wanted(self, asked: Records, side: str) -> _Wanted:
        told = told_by(asked.site)
        if told is None:
            actor = self._actor_at(asked.site)
            return _Wanted({actor: RecordSet.of([name_of(id) for id in asked.ids()])})
        starts: dict[str, RecordSet] = {}
        widened: list[str] = []
        spans = self._spans(asked.site, asked.ids())
        for actor in self._actors:
            places = []
            for name, keys in self._keys(actor, side).items():
                meant = [key for key in keys if key in spans]
                places += [Location(name, first, end - first) for key in meant for first, end in spans[key]]
                if meant and len(keys) > 1:
                    widened.append(f"{self._registry.specs[actor].path} calls several files {name}: {sorted(keys)}")
            if places:
                starts[actor] = RecordSet.of(places)
        if told in (BY_ROW, BY_NUMBER):
            widened += [
                f"{self._registry.specs[actor].path} speaks of bytes, not of rows: all rows of {key} are taken together"
                for actor in starts
                for key in spans
            ]
        return _Wanted(starts, spans if told not in (BY_ROW, BY_NUMBER) else {}, tuple(widened))

    def _spans(self, site: Site, ids: Iterable[RecordId]) -> dict[str, list[Span]]:
        found: dict[str, list[Span]] = {}
        whole = told_by(site) in (BY_ROW, BY_NUMBER)
        for id in ids:
            if len(id) < 2 or not isinstance(id[1], int):
                raise WhenceError(f"{id!r} is no record of {site}: these are told by file and place.")
            key = str(id[0])
            found.setdefault(key, []).append((0, _END) if whole else asked_span(self._file(key), id))
        return {key: list(dict.fromkeys(spans)) for key, spans in found.items()}

    def _shared(self, trace: TracingDataflow, wanted: _Wanted, direction: str) -> list[str]:
        """Locations that hold other records beside those asked for, and bytes that two actors claim to have written."""
        notes: list[str] = []
        claimed: list[tuple[str, Any]] = []
        for table in trace.steps:
            actor = table.actor.id
            if actor not in wanted.starts or not wanted.spans:
                continue
            met = (table.outputs if direction == "backward" else table.inputs).arrays.get(LOCATION)
            asked = wanted.starts[actor].arrays.get(LOCATION)
            if met is None or asked is None:
                continue
            met = met.filter(matches(met, RecordSet([asked])))
            for key, spans in self._by_key(actor, _SIDES[direction], met).items():
                if key in wanted.spans and self._more(self._file(key), spans, wanted.spans[key]):
                    what = "put out" if direction == "backward" else "took in"
                    notes.append(
                        f"{table.actor.path} {what} several records of {key} as one, so that they are not told apart"
                    )
            if direction == "backward":
                for other, theirs in claimed:
                    if len(overlap_pairs(met, theirs)[0]) and not self._around(actor, other):
                        both = sorted((table.actor.path, self._registry.specs[other].path))
                        notes.append(f"{both[0]} and {both[1]} both say that they wrote some of these bytes")
                claimed.append((actor, met))
        return notes

    def _by_key(self, actor: str, side: str, locations: Any) -> dict[str, list[Span]]:
        keys = self._keys(actor, side)
        found: dict[str, list[Span]] = {}
        for location in to_names(locations):
            assert isinstance(location, Location)
            for key in keys[location.file]:
                found.setdefault(key, []).append(span_of(location))
        return found

    def _more(self, file: File, spans: Iterable[Span], asked: list[Span]) -> bool:
        if file.told_by == BY_BYTE:
            return len(file.lines(spans)) > len(file.lines(asked))
        return any(not any(low <= first and end <= high for low, high in asked) for first, end in spans)

    def _around(self, one: str, other: str) -> bool:
        """Whether one of them contains the other: then both tell of the same, on two levels."""
        inside = self._registry.within
        return any(s.id == other for s in inside(one)) or any(s.id == one for s in inside(other))

    # --- what is there

    def _require_names(self, site: Site, ids: tuple[RecordId, ...]) -> None:
        actor = self._actor_at(site)
        side = "input" if site == self._taken(actor) else "output"
        there = self._log(actor).all_records(side).names()
        for id in ids:
            if (name := name_of(id)) not in there:
                path = self._registry.specs[actor].path
                raise WhenceError(f"{path} has no {side} {name!r} among what it captured and committed.")

    def _require_bytes(self, site: Site, ids: tuple[RecordId, ...]) -> None:
        asked = self._spans(site, ids)
        known: dict[str, list[Span]] = {key: [] for key in asked}
        for actor in self._actors:
            for side in ("input", "output"):
                if any(key in asked for keys in self._keys(actor, side).values() for key in keys):
                    places = self._log(actor).all_records(side).arrays[LOCATION]
                    for key, spans in self._by_key(actor, side, places).items():
                        known.setdefault(key, []).extend(spans)
        for key, spans in asked.items():
            met = set(overlap_pairs(_ranges(spans), _ranges(known[key]))[0].tolist()) if known[key] else set()
            missing = [span for number, span in enumerate(spans) if number not in met]
            if missing:
                raise WhenceError(f"No actor of {self.name} has read or written what is at {missing[0][0]} in {key}.")

    def _actor_at(self, site: Site) -> str:
        for actor in self._actors:
            if site in (self._site(actor), self._taken(actor)):
                return actor
        raise WhenceError(f"{self.name} knows nothing of {site}: none of its actors has put that out or taken it in.")

    def _id(self, actor: str, side: str, name: Name) -> RecordId:
        if isinstance(name, Location):
            return (min(self._keys(actor, side)[name.file]), name.offset)
        return id_of(name)

    def _site(self, actor: str) -> Site:
        return site_of(self._root, actor, f"what {self._registry.specs[actor].path} put out")

    def _taken(self, actor: str) -> Site:
        return taken_site_of(self._root, actor, f"what {self._registry.specs[actor].path} took in")

    def _file(self, key: str) -> File:
        return self._looked_at.setdefault(key, File(key))

    def _log(self, actor: str) -> ActorLog:
        if actor not in self._logs:
            self._logs[actor] = ActorLog(self._files, self._registry, actor)
        return self._logs[actor]

    def _keys(self, actor: str, side: str) -> Mapping[str, frozenset[str]]:
        """The files that its locations on one side name, and what these are for everybody."""
        named = self._registry.named(actor)
        if named is not None:
            return named.inputs if side == "input" else named.outputs
        places = self._log(actor).all_records(side).arrays.get(LOCATION)
        names = places.field("file").unique().to_pylist() if places is not None else ()
        return {name: frozenset({file_key(name)}) for name in names}

    def _has_keys(self, actor: str, side: str) -> bool:
        at = 0 if side == "input" else 1
        return any(
            part.domains[-1 if part.kind != "pairs" else at] != LOCATION
            for part in self._log(actor).parts
            if part.kind in ("pairs", f"{side}s")
        )

    def _files_of(self, side: str, actors: Iterable[str]) -> list[Site]:
        keys = {key for actor in actors for keys in self._keys(actor, side).values() for key in keys}
        return [self._file(key).site() for key in sorted(keys)]


def _ranges(spans: Iterable[Span]) -> Any:
    return location_array([Location("", first, end - first) for first, end in spans])


def graph_around(registry: Registry, actors: Iterable[str]) -> list[str]:
    """All that is connected with these actors, by links or by containment."""
    near: dict[str, set[str]] = {}
    pairs = [*registry.links, *((spec.id, parent) for spec in registry.specs.values() for parent in spec.parents)]
    for a, b in pairs:
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    found = dict.fromkeys(actors)
    waiting = list(found)
    while waiting:
        for other in near.get(waiting.pop(), ()):
            if other not in found:
                found[other] = None
                waiting.append(other)
    return list(found)
