"""Which actors there are, what contains what, who feeds whom, and which logs count.

registry/<id>.json         an actor was registered        registry/<id>.<n>.committed  it ended well, with these logs
links/<a>.<b>              b receives what a puts out     logs/<id>/<log>.json         a log's manifest
registry/<a>.<b>.link      the same once more             failures/<id>-<n>.json       an input that made it fail

What one file holds, another vouches for: a commit names the logs that count, a manifest the length and checksum of each
part, and a link stands twice, since nothing else would tell that it is gone.

All of it is plain data, but for an actor's restart function, which is read as code and therefore signed together with
everything that it is given. Ids become paths, so what is no id is not read.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from whence.model import StoreError
from whence.store import Files
from whence.store.sealed import sealed, unsealed

Version = tuple[int, int]
"""Length and mtime in ms of a file on this machine."""

_ENDING = ".committed"
_ID = re.compile("[0-9a-f]{32}")
_PART = re.compile(r"[0-9a-f]{32}-\d+\.parquet")
_MANIFEST = re.compile(r"[0-9a-f]{32}\.json")


def is_id(actor: object) -> bool:
    return isinstance(actor, str) and _ID.fullmatch(actor) is not None


class LogDamaged(StoreError):
    """A committed log, or what is known of an actor, is not what was written."""

    def __init__(self, actor: str, file: str, what: object) -> None:
        super().__init__(
            f"What the actor {actor} captured cannot be told: its file {file} is damaged or gone ({what}). "
            "Put the file back from a copy of the store, or run the actor again."
        )


@dataclass(frozen=True)
class RowKeys:
    """Which columns name a row where the actor runs inside an operator of Spark's: one value, or a tuple of several."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class ActorSpec:
    id: str
    name: str
    kind: str
    parents: tuple[str, ...] = ()
    path: str = ""  # names from the outermost container down; how a replayed actor is recognised
    conf: Mapping[str, Any] = field(default_factory=dict)
    materialized: bool = False  # its input outlives the run, so a replay can start here
    restart: str | None = None  # module:function, when it can be imported
    signature: str | None = None  # of whoever registered it, if it has a restart function
    rows: RowKeys | None = None

    def dumps(self) -> bytes:
        return sealed(asdict(self))

    @classmethod
    def loads(cls, data: bytes, actor: str) -> ActorSpec:
        try:
            values = unsealed(data)
            rows = values.get("rows")
            keys = None if rows is None else RowKeys(tuple(rows["inputs"]), tuple(rows["outputs"]))
            spec = cls(**{**values, "parents": tuple(values["parents"]), "rows": keys})
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(f"What the store says of the actor {actor} cannot be read: {error}.") from error
        texts = (spec.name, spec.kind, spec.path, spec.restart or "", spec.signature or "", *spec.parents)
        if spec.id != actor or not all(isinstance(t, str) for t in texts) or not isinstance(spec.conf, dict):
            raise StoreError(f"What the store says of the actor {actor} is not what whence writes there.")
        return spec

    @property
    def purpose(self) -> tuple[str, ...]:
        """What a signature is for: this actor's restart function, and nobody else's."""
        return ("restart", self.id)

    def signed(self) -> bytes:
        """All that decides what a restart does, alike before and after it was in a file."""
        without = ("signature", *(() if self.rows is not None else ("rows",)))
        values = {name: value for name, value in asdict(self).items() if name not in without}
        return json.dumps(json.loads(json.dumps(values)), sort_keys=True).encode()


@dataclass(frozen=True)
class Part:
    """One Parquet part of a committed log; `task` is the instance that wrote it."""

    file: str
    kind: str
    domains: tuple[str, ...]
    rows: int
    task: str
    bytes: int | None = None  # None: written before lengths and checksums were kept
    crc32: int | None = None


@dataclass(frozen=True)
class Named:
    """The files that an actor's locations name: name -> keys (store.names), of its inputs and of its outputs."""

    inputs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    outputs: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, manifests: Iterable[Mapping[str, Any]]) -> Named:
        found: dict[str, dict[str, set[str]]] = {"input": {}, "output": {}}
        for manifest in manifests:
            for side, named in manifest.get("files", {}).items():
                for name, key in named.items():
                    found[side].setdefault(name, set()).add(key)
        return cls(*({name: frozenset(keys) for name, keys in found[side].items()} for side in ("input", "output")))

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(key for side in (self.inputs, self.outputs) for keys in side.values() for key in keys)

    def __bool__(self) -> bool:
        return bool(self.inputs or self.outputs)


def _part(file: str) -> str:
    if not _PART.fullmatch(file):
        raise StoreError(f"A log in the store names the part {file!r}, which whence has not written.")
    return file


def _manifest(file: str) -> str:
    if not _MANIFEST.fullmatch(file):
        raise ValueError(f"it names the log {file!r}, which whence has not written")
    return file


class Registry:
    """What the store says at one moment."""

    def __init__(
        self,
        files: Files,
        specs: Mapping[str, ActorSpec],
        commits: Mapping[str, list[str]],
        links: Iterable[tuple[str, str]],
        notes: tuple[str, ...] = (),
    ) -> None:
        self._files = files
        self.specs = dict(specs)
        self._commits = commits
        self.committed = frozenset(commits)
        self.links = frozenset(links)
        self.notes = notes  # what is damaged, so that an answer may lack something
        self._contained: dict[str, list[str]] = {}
        for spec in self.specs.values():
            for parent in spec.parents:
                self._contained.setdefault(parent, []).append(spec.id)
        self._parts: dict[str, list[Part]] = {}
        self._named: dict[str, Named | None] = {}
        self._ends: dict[str, tuple[set[str], set[str]]] = {}

    @classmethod
    def load(cls, files: Files) -> Registry:
        specs: dict[str, ActorSpec] = {}
        commits: dict[str, list[str]] = {}
        damaged: dict[str, object] = {}
        links = {(a, b) for a, _, b in (name.partition(".") for name in files.names("links")) if is_id(a) and is_id(b)}
        for name in files.names("registry"):
            stem, _, ending = name.rpartition(".")
            a, _, b = stem.partition(".")
            if name.endswith(_ENDING) and is_id(a):
                commits.setdefault(a, []).append(name)
            elif ending == "link" and is_id(a) and is_id(b):
                links.add((a, b))
            elif ending == "json" and is_id(stem):
                try:
                    specs[stem] = ActorSpec.loads(files.read("registry", name) or b"", stem)
                except StoreError as failed:
                    damaged[stem] = failed
        known = {*commits, *damaged, *(end for link in links for end in link), *files.names("logs")}
        known |= {parent for spec in specs.values() for parent in spec.parents}
        notes = []
        for actor in sorted(filter(is_id, known - set(specs))):
            why = damaged.get(actor, "There is no such file.")
            notes.append(
                f"the description of the actor {actor} is damaged or gone, so that what it contains or belongs to may "
                f"be missing here: {why}"
            )
            specs[actor] = ActorSpec(actor, actor, "unknown", path=actor)
        return cls(files, specs, commits, links, tuple(notes))

    def within(self, container: str) -> list[ActorSpec]:
        """Everything contained in it, however deep, without itself."""
        found: dict[str, ActorSpec] = {}
        waiting = list(self._contained.get(container, ()))
        while waiting:
            actor = waiting.pop()
            if actor not in found:
                found[actor] = self.specs[actor]
                waiting += self._contained.get(actor, ())
        return list(found.values())

    def parts(self, actor: str) -> list[Part]:
        """The parts that count: of the lowest attempt that committed, for each task; none before the actor commits."""
        if actor not in self.committed:
            return []
        if actor not in self._parts:
            winners = self._winners(actor)
            self._parts[actor] = [part for _, parts in winners.values() for part in parts]
            manifests = [manifest for manifest, _ in winners.values()]
            self._named[actor] = Named.of(manifests) if all("files" in m for m in manifests) else None
        return self._parts[actor]

    def named(self, actor: str) -> Named | None:
        """The files that its locations name; None where that was not kept when it was captured."""
        return self._named[actor] if self.parts(actor) else Named()

    def versions(self, actor: str) -> dict[str, set[Version]]:
        """The files that it read and wrote, by their keys, as they were when it committed."""
        found: dict[str, set[Version]] = {}
        for name in self._commits.get(actor, ()):
            for key, version in self._commit(actor, name).get("files", {}).items():
                found.setdefault(key, set()).add((int(version[0]), int(version[1])))
        return found

    def _winners(self, actor: str) -> dict[str, tuple[Mapping[str, Any], list[Part]]]:
        best: dict[str, int] = {}
        manifests = []
        listed = self._listed(actor)
        there = {name for name in self._files.names("logs", actor) if name.endswith(".json")}
        for name in sorted(there | (listed or set())):
            try:
                manifest = unsealed(self._files.read("logs", actor, name) or b"")
                if listed is None and "own" in manifest:
                    raise LogDamaged(self.specs[actor].path, f"registry/{self._commits[actor][0]}", "it is empty")
                if listed is not None and name not in listed and not manifest["own"]:
                    continue  # a task that ran once more after the actor had ended
                found = [
                    Part(
                        _part(p["file"]),
                        p["kind"],
                        tuple(p["domains"]),
                        p["rows"],
                        manifest["task"],
                        p.get("bytes"),
                        p.get("crc32"),
                    )
                    for p in manifest["parts"]
                ]
                best[manifest["task"]] = min(manifest["attempt"], best.get(manifest["task"], manifest["attempt"]))
            except (ValueError, KeyError, TypeError) as failed:
                raise LogDamaged(self.specs[actor].path, f"logs/{actor}/{name}", failed) from failed
            manifests.append((name, manifest, found))
        return {n: (m, found) for n, m, found in manifests if m["attempt"] == best[m["task"]]}

    def _listed(self, actor: str) -> set[str] | None:
        """The logs that the actor's commits name; None for a commit of before they did."""
        found: set[str] = set()
        for name in self._commits.get(actor, ()):
            told = self._commit(actor, name)
            if not told:
                return None
            found.update(_manifest(log) for log in told["logs"])
        return found

    def _commit(self, actor: str, name: str) -> dict[str, Any]:
        data = self._files.read("registry", name)
        if not data:
            return {}
        try:
            told = unsealed(data)
            for log in told["logs"]:
                _manifest(log)
            return told
        except (ValueError, KeyError, TypeError) as failed:
            raise LogDamaged(self.specs[actor].path, f"registry/{name}", failed) from failed

    def winning_files(self, actor: str) -> set[str]:
        winners = self._winners(actor)
        return set(winners) | {part.file for _, parts in winners.values() for part in parts}

    def has_log(self, actor: str) -> bool:
        return bool(self.parts(actor))

    def inside_links(self, container: str) -> tuple[set[str], set[str]]:
        """Of the actors inside that have a log: those that take from outside, and those that give to the outside."""
        if container in self._ends:
            return self._ends[container]
        inside = {spec.id for spec in self.within(container)}
        logged = {a for a in inside if self.has_log(a)}
        edges = {(a, b) for a, b in self._edges_among(inside) if a in logged and b in logged}
        takes = logged - {b for _, b in edges}
        gives = logged - {a for a, _ in edges}
        self._ends[container] = takes, gives
        return takes, gives

    def _edges_among(self, inside: set[str]) -> set[tuple[str, str]]:
        return {
            (x, y) for a, b in self.links if a in inside and b in inside for x in self.givers(a) for y in self.takers(b)
        }

    def givers(self, actor: str) -> set[str]:
        """Whose logs say what comes out of this actor: its own, and the last ones inside it."""
        own = {actor} if self.has_log(actor) else set()
        return own | (self.inside_links(actor)[1] if actor in self._contained else set())

    def takers(self, actor: str) -> set[str]:
        own = {actor} if self.has_log(actor) else set()
        return own | (self.inside_links(actor)[0] if actor in self._contained else set())

    def edges(self) -> set[tuple[str, str]]:
        """Flow links between actors that have logs; a link between containers joins their ends."""
        return {(x, y) for a, b in self.links for x in self.givers(a) for y in self.takers(b) if x != y}


def version_of(key: str) -> Version | None:
    """Of a file on this machine; None for others, and for names that are of no file."""
    try:
        status = os.stat(key) if key.startswith("/") else None
    except OSError:
        return None
    return None if status is None else (status.st_size, status.st_mtime_ns // 1_000_000)


def commit(files: Files, actor: str) -> Named:
    """The actor has ended well: the logs that it has now count, and no later ones. The files that they name."""
    logs = [name for name in files.names("logs", actor) if name.endswith(".json")]
    named = Named.of(_readable(files, actor, logs))
    versions = {key: version for key in sorted(named.keys) if (version := version_of(key)) is not None}
    files.write(sealed({"logs": logs, "files": versions}), "registry", f"{actor}.{uuid.uuid4().hex}{_ENDING}")
    return named


def _readable(files: Files, actor: str, logs: Iterable[str]) -> list[dict[str, Any]]:
    found = []
    for name in logs:
        try:
            found.append(unsealed(files.read("logs", actor, name) or b""))
        except ValueError:  # whoever asks will be told
            continue
    return found


def sweep(files: Files, container: str | None = None) -> int:
    """What did not commit, or lost to another attempt, is garbage once its container has committed (section 5.3).

    Without a container: everything uncommitted, for a store that nobody is writing to. The number of files removed.
    """
    registry = Registry.load(files)
    if registry.notes:  # who belongs to whom is not known: nothing is thrown away
        raise StoreError(f"Nothing is swept from this store: {registry.notes[0]}")
    actors = registry.specs.values() if container is None else registry.within(container)
    removed = 0
    for actor in actors:
        try:
            keep = registry.winning_files(actor.id) if actor.id in registry.committed else set()
        except LogDamaged:  # whoever asks will be told; nothing of it is thrown away
            continue
        for name in files.names("logs", actor.id):
            if name not in keep:
                files.delete("logs", actor.id, name)
                removed += 1
    return removed
