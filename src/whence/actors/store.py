"""The door to actors: register, link, trace, replay. It needs no Spark; `w.register` and the like come here too."""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from whence.actors.products import Teller
from whence.actors.read import ActorLog
from whence.actors.records import Name, RecordSet, from_json
from whence.actors.registry import ActorSpec, LogDamaged, Registry, RowKeys, is_id, sweep
from whence.actors.replay import REPLAY_VARIABLE, CannotReplay, ReplayPlan
from whence.actors.trace import NotCommitted, TracingDataflow, trace, walk
from whence.actors.worker import Actor, Mode, in_spark_task
from whence.model import StoreError, WhenceError
from whence.store import Files, Seal, Store, Unsigned, files_at
from whence.store.sealed import unsealed

Restart = Callable[[str, Mapping[str, Any]], Any]


class UnknownActor(WhenceError):
    def __init__(self, actor: object) -> None:
        super().__init__(f"This store knows no actor {actor!r}. Actors are made by register(name, kind=...).")


@dataclass(frozen=True)
class Failure:
    """An input that made an actor fail; `trace(failure)` leads to where it came from."""

    actor: ActorSpec
    input: Name
    output: Name | None
    error: str


class ActorStore:
    """Actors kept under one directory (or URL). It pickles: processes and tasks may register actors themselves."""

    def __init__(self, root: str | Path | Files, store: Store | None = None) -> None:
        """`store`: told which files the actors made and read, so that the traces of others lead on into them. By
        default the whence store of which `root` is the directory `actors`, or else `root` itself."""
        self._files = files_at(root)
        self._teller = Teller.around(self._files.root, store)
        self._seal = Seal()
        self._restarts: dict[str, tuple[Restart, ActorSpec]] = {}
        self._plan: ReplayPlan | None = None
        self.tracing: Callable[[Any], Any] | None = None
        """Makes a Trace of what actors answered; a session sets it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (self._files, self._replaying(), self._teller)

    @property
    def root(self) -> str:
        return self._files.root

    def register(
        self,
        name: str,
        kind: str = "actor",
        parents: Sequence[Actor | str] = (),
        *,
        conf: Mapping[str, Any] | None = None,
        restart: Restart | None = None,
        materialized: bool = False,
        input_key: str | Sequence[str] | None = None,
        output_key: str | Sequence[str] | None = None,
    ) -> Actor:
        """A new actor. `parents` contain it: they start it and cannot end before it.

        `restart(name, conf)` runs it again; `materialized` says that what it reads outlives the run. Both together
        make it a place where a replay can start. `input_key` and `output_key`: the columns whose values name the rows
        that it captures inside `mapInPandas`, `mapInArrow` or `mapPartitions` ("*": the whole record), so that what it
        captures is the lineage of that operator.
        """
        if not isinstance(name, str) or not isinstance(kind, str):
            raise TypeError(f"An actor's name and kind are texts, not {name!r} and {kind!r}.")
        if isinstance(parents, str | Actor):
            parents = (parents,)
        if not all(isinstance(each, str | Actor) for each in _listed("parents", parents)):
            raise TypeError(f"The parents= of the actor {name!r} are actors, or their ids, not {parents!r}.")
        if conf is not None and not isinstance(conf, Mapping):
            raise TypeError(f"The conf= of the actor {name!r} is a dict, not {conf!r}.")
        if restart is not None and not callable(restart):
            raise TypeError(f"The restart= of the actor {name!r} is a function (name, conf), not {restart!r}.")
        ids = tuple(p if isinstance(p, str) else p.id for p in parents)
        container = ""
        if ids:
            first = parents[0]
            container = (self._spec(first).path if isinstance(first, str) else first.spec.path) + "/"
        reference = None
        made = getattr(restart, "__qualname__", "<no function>")  # a partial has no name to import it by
        if restart is not None and "<" not in made and restart.__module__ != "__main__":
            reference = f"{restart.__module__}:{made}"
        path = container + name.replace("%", "%25").replace("/", "%2F")  # a/b is no b inside of a
        rows = _row_keys(name, input_key, output_key)
        spec = ActorSpec(uuid.uuid4().hex, name, kind, ids, path, dict(conf or {}), materialized, reference, rows=rows)
        try:
            spec.dumps()
        except (TypeError, ValueError) as error:
            raise TypeError(f"The conf= of the actor {name!r} cannot be kept as JSON: {error}.") from error
        plan = self._replaying()
        if plan is not None:
            if not ids:
                spec = replace(spec, path=plan.restarted.get(name, spec.path))
            scratch = plan.scratch(self._files)
            if plan.observe:
                scratch.write(spec.dumps(), "registry", f"{spec.id}.json")
            return Actor(spec, scratch, Mode(plan.filter_for(spec.path), plan.observe))
        spec = self._signed(spec)
        try:
            self._files.write(spec.dumps(), "registry", f"{spec.id}.json")
        except OSError as error:
            raise StoreError(
                f"The actor {name!r} cannot be written to {self.root}: {error.strerror or error}. Give a directory "
                "that can be made and written."
            ) from error
        if restart is not None:
            self._restarts[spec.id] = restart, spec
        return Actor(spec, self._files, teller=self._teller)

    def _signed(self, spec: ActorSpec) -> ActorSpec:
        """Later programs restart only what they know to come from this user; without a key there is no restart."""
        if spec.restart is None:
            return spec
        try:
            if in_spark_task():
                raise StoreError("a task of Spark has no key to sign it with. Register it on the driver.")
            return replace(spec, signature=self._seal.sign(spec.purpose, spec.signed()))
        except StoreError as error:
            warnings.warn(f"Other programs cannot restart {spec.path}: {error}", stacklevel=4)
            return replace(spec, restart=None)

    def _spec(self, actor: str) -> ActorSpec:
        data = self._files.read("registry", f"{actor}.json") if is_id(actor) else None
        if data is None:
            raise UnknownActor(actor)
        return ActorSpec.loads(data, actor)

    def flow_link(self, giver: Actor | str, taker: Actor | str) -> None:
        """What `giver` puts out, `taker` takes in. Links between containers join what they contain."""
        if self._replaying() is not None:
            return
        for end in (giver, taker):
            if not isinstance(end, str | Actor):
                raise UnknownActor(end)
        a, b = (x if isinstance(x, str) else x.id for x in (giver, taker))
        for actor in (a, b):
            if not is_id(actor):
                raise UnknownActor(actor)
        for folder, name in (("links", f"{a}.{b}"), ("registry", f"{a}.{b}.link")):
            self._files.write(b"", folder, name)

    def registry(self) -> Registry:
        return Registry.load(self._files)

    def actors(self, kind: str | None = None) -> list[ActorSpec]:
        """Committed actors."""
        registry = self.registry()
        return [s for s in registry.specs.values() if s.id in registry.committed and kind in (None, s.kind)]

    def find(self, actor: Any) -> ActorSpec:
        """An actor by handle, id, path or (when only one has it) name."""
        if isinstance(actor, Actor | ActorSpec):
            return self._spec(actor.id)
        specs = list(self.registry().specs.values())
        found = [s for s in specs if actor in (s.id, s.path)] or [s for s in specs if s.name == actor]
        if not found:
            raise UnknownActor(actor)
        if len(found) > 1:
            paths = sorted({s.path for s in found})
            raise WhenceError(f"{len(found)} actors are called {actor!r}; say which by its path or id: {paths}.")
        return found[0]

    # -- questions -------------------------------------------------------------------------------------------------

    def trace(self, records: Any, direction: str = "backward", root: Any = None) -> TracingDataflow:
        """Follow output records of `root` backward, or input records of it forward, to the ends of the dataflow.

        A Failure (or a list of them) is followed backward from the failing actor's input.
        """
        registry = self.registry()
        failures = [records] if isinstance(records, Failure) else records
        if isinstance(failures, list | tuple) and failures and all(isinstance(f, Failure) for f in failures):
            wanted: dict[str, RecordSet] = {}
            for failure in failures:
                feeders = {g for a, b in registry.links if b == failure.actor.id for g in registry.givers(a)}
                for feeder in feeders:
                    wanted[feeder] = wanted.get(feeder, RecordSet()) | RecordSet.of([failure.input])
            asked = RecordSet.of([f.input for f in failures])
            return replace(walk(self._files, registry, asked, "backward", wanted), store=self)
        if root is None:
            raise ValueError("trace needs root=: the actor that put out (forward: took in) these records.")
        return replace(trace(self._files, registry, records, direction, self.find(root).id), store=self)

    def inputs_of(self, actor: Any) -> RecordSet:
        """Every record that this actor, or what it contains, read from outside itself."""
        registry = self.registry()
        return self._all(registry, registry.takers(self.find(actor).id), "input")

    def outputs_of(self, actor: Any) -> RecordSet:
        registry = self.registry()
        return self._all(registry, registry.givers(self.find(actor).id), "output")

    def _all(self, registry: Registry, ids: set[str], side: str) -> RecordSet:
        if registry.notes:  # a set of records has no place to say so
            raise StoreError(
                f"These records may not be all: {registry.notes[0]}. Put it back from a copy of the store."
            )
        result = RecordSet()
        for actor in ids:
            result = result | ActorLog(self._files, registry, actor).all_records(side)
        return result

    def log(self, actor: Any) -> ActorLog:
        spec = self.find(actor)
        log = ActorLog(self._files, self.registry(), spec.id)
        if not log.parts:
            raise NotCommitted(spec)
        return log

    def failures(self, actor: Any = None) -> list[Failure]:
        """The inputs that actors reported as failing, of one actor (and what it contains) or of all."""
        registry = self.registry()
        wanted = None
        if actor is not None:
            spec = self.find(actor)
            wanted = {spec.id} | {s.id for s in registry.within(spec.id)}
        found = []
        for name in self._files.names("failures"):
            try:
                note = unsealed(self._files.read("failures", name) or b"")
                if wanted is None or note["actor"] in wanted:
                    output = None if note["output"] is None else from_json(note["output"])
                    found.append(
                        Failure(registry.specs[note["actor"]], from_json(note["input"]), output, note["error"])
                    )
            except (ValueError, KeyError, TypeError) as failed:
                raise LogDamaged(name.partition("-")[0], f"failures/{name}", failed) from failed
        return found

    def sweep(self) -> int:
        """Remove logs that never committed. Only for a store that nobody is writing to."""
        return sweep(self._files)

    # -- replay ----------------------------------------------------------------------------------------------------

    def _replaying(self) -> ReplayPlan | None:
        if self._plan is None and (name := os.environ.get(REPLAY_VARIABLE)):
            data = self._files.read("replays", name, "plan")
            return None if data is None else ReplayPlan.loads(data, name)
        return self._plan

    @contextmanager
    def replaying(self, plan: ReplayPlan) -> Iterator[ReplayPlan]:
        """Run the dataflow again inside this block: actors that register get the plan's filters, and capture is off."""
        if not isinstance(plan, ReplayPlan):
            raise TypeError(f"What is replayed is a plan, as replay_plan(trace) makes it, not {plan!r}.")
        self._files.write(plan.dumps(), "replays", plan.id, "plan")
        before, self._plan = self._plan, plan
        variable = os.environ.get(REPLAY_VARIABLE)
        os.environ[REPLAY_VARIABLE] = plan.id  # for processes that open the store themselves
        try:
            yield plan
        finally:
            self._plan = before
            if variable is None:
                del os.environ[REPLAY_VARIABLE]
            else:
                os.environ[REPLAY_VARIABLE] = variable
            self._files.delete_tree("replays", plan.id)

    def restart_of(self, spec: ActorSpec) -> Restart | None:
        if spec.id in self._restarts:
            restart, registered = self._restarts[spec.id]
            if registered.signed() != spec.signed():
                raise CannotReplay(f"{spec.path} is not restarted: what the store says of it was changed since.")
            return restart
        if spec.restart is None:
            return None
        try:
            self._seal.check(spec.purpose, spec.signed(), spec.signature)
        except Unsigned as error:
            raise CannotReplay(
                f"{spec.path} is not restarted: the store says that {spec.restart} does it, but {error.why}. If you "
                "trust it, call it yourself inside `with store.replaying(plan)`. Where users share a store, give them "
                "all the same WHENCE_KEY."
            ) from error
        from importlib import import_module

        module, _, name = spec.restart.partition(":")
        try:
            target: Any = import_module(module)
            for part in name.split("."):
                target = getattr(target, part)
        except (ImportError, AttributeError) as error:
            raise CannotReplay(f"{spec.path} cannot be restarted: {spec.restart} is not there any more.") from error
        return target  # type: ignore[no-any-return]

    @property
    def files(self) -> Files:
        return self._files


def _listed(what: str, given: Any) -> Sequence[Any]:
    if not isinstance(given, Sequence):
        raise TypeError(f"{what}= is a list, not {given!r}.")
    return given


def _row_keys(name: str, inputs: str | Sequence[str] | None, outputs: str | Sequence[str] | None) -> RowKeys | None:
    if inputs is None and outputs is None:
        return None
    if not inputs or not outputs:
        raise ValueError(f"input_key= and output_key= of the actor {name!r} go together: each names columns of rows.")
    return RowKeys(*((key,) if isinstance(key, str) else tuple(key) for key in (inputs, outputs)))


def _revive(files: Files, plan: ReplayPlan | None, teller: Teller) -> ActorStore:
    store = ActorStore(files)
    store._plan, store._teller = plan, teller
    return store
