"""What Spark sends no event for is seen by wrapping PySpark's own methods, for as long as the session is open."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import logging
import sys
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from whence.model import COMPLETED, FAILED, Run
from whence.model.lineage import INPUT, Change, Link, Observation, Seen, Use
from whence.model.quiet import QUIET, told_of_kept
from whence.model.redact import parse_redacted, redact
from whence.watch.parse import moment, observe
from whence.watch.sources import of_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from whence.watch.listener import Listener
    from whence.watch.watcher import Watcher

log = logging.getLogger("whence.watch")

_SAVES = ("saveAsTextFile", "saveAsPickleFile", "saveAsSequenceFile", "saveAsHadoopFile", "saveAsNewAPIHadoopFile")


class Patches:
    def __init__(self, spark: SparkSession, watcher: Watcher, listener: Listener) -> None:
        self._watcher = watcher
        self._listener = listener
        self._undo: list[tuple[type, str, Any, Any]] = []
        self._frames = watcher.frames
        from pyspark import RDD
        from pyspark.sql import SparkSession as Sessions

        for name in _SAVES:
            self.wrap(RDD, name, self._saving)
        self.wrap(Sessions, "createDataFrame", self._creating)

        from whence.spark.frames import ClassicDataFrame

        self._wrap_property(ClassicDataFrame, "rdd")
        for name in ("checkpoint", "localCheckpoint"):
            self.wrap(ClassicDataFrame, name, self._checkpointing)
        self._told = told_of_kept(spark.sparkContext)
        self._told.append(self._keeping)
        self._learning: object = None
        self._hook = _OnImport("pyspark.ml", lambda: self.quietly(self._learn))

    def _learn(self) -> None:
        from whence.watch.ml import MachineLearning

        if self._learning is None and self._watcher.active:
            self._learning = MachineLearning(self, self._watcher, self._listener)

    def remove(self) -> None:
        self._hook.remove()
        if self._keeping in self._told:
            self._told.remove(self._keeping)
        for owner, name, wrapper, original in reversed(self._undo):
            if owner.__dict__.get(name) is wrapper:  # otherwise somebody wrapped it again: then ours just passes on
                setattr(owner, name, original)
        self._undo.clear()

    def wrap(self, owner: type, name: str, around: Callable[..., Any]) -> None:
        original = owner.__dict__.get(name)
        if original is None:
            return

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if not self._watcher.active:
                return original(*args, **kwargs)
            return around(original, *args, **kwargs)

        setattr(owner, name, wrapper)
        self._undo.append((owner, name, wrapper, original))

    def _wrap_property(self, owner: type, name: str) -> None:
        original = owner.__dict__.get(name)
        if not isinstance(original, property | functools.cached_property):
            return

        def get(frame: Any) -> Any:
            rdd = original.__get__(frame, owner)
            if self._watcher.active:
                self.quietly(self._note_frame, frame, rdd)
            return rdd

        wrapper = property(get, doc=original.__doc__)
        setattr(owner, name, wrapper)
        self._undo.append((owner, name, wrapper, original))

    def quietly(self, action: Callable[..., Any], *args: Any) -> Any:
        try:
            return action(*args)
        except Exception:
            self._watcher.counts["failed"] += 1
            log.warning("whence could not look at a call; the call itself is not affected", exc_info=True)
            return None

    def _creating(self, original: Callable[..., Any], session: Any, data: Any = None, *args: Any, **kwargs: Any) -> Any:
        frame = original(session, data, *args, **kwargs) if data is not None else original(session, *args, **kwargs)
        self.quietly(self._note_memory, frame, kwargs.get("data") if data is None else data)
        return frame

    def _note_memory(self, frame: Any, data: Any) -> None:
        module = type(data).__module__.split(".")[0]
        kind = {"pandas": "pandas", "pyarrow": "arrow", "numpy": "numpy", "pyspark": "rdd"}.get(module, "python")
        memory = self._watcher.memory
        if len(memory) > 200_000:
            memory.clear()
        attributes, rdds = self._listener.leaf_ids(frame)
        memory.update(dict.fromkeys(attributes, kind))
        if len(self._watcher.memory_rdds) > 100_000:
            self._watcher.memory_rdds.clear()
        self._watcher.memory_rdds.update(dict.fromkeys(rdds, kind))

    def _checkpointing(self, original: Callable[..., Any], frame: Any, *args: Any, **kwargs: Any) -> Any:
        plan = self.quietly(self._listener.plan, frame)
        kept = original(frame, *args, **kwargs)
        if plan is not None:
            self.quietly(self._note_checkpoint, plan, kept)
        return kept

    def _keeping(self, frame: Any, kept: Any) -> None:
        if self._watcher.active and (plan := self.quietly(self._listener.plan, frame)) is not None:
            self.quietly(self._note_checkpoint, plan, kept)

    def _note_checkpoint(self, plan: str, kept: Any) -> None:
        if len(self._watcher.checkpoints) > 1000:
            self._watcher.checkpoints.clear()
        for number in self._listener.leaf_ids(kept)[1]:
            self._watcher.checkpoints[number] = plan

    def _note_frame(self, frame: Any, rdd: Any) -> None:
        number = self._listener.rdd_id(rdd)
        if number not in self._frames:
            if len(self._frames) > 1000:
                self._frames.clear()
            self._frames[number] = self._listener.plan(frame)
            self._listener.note_rdd(number)

    def _saving(self, original: Callable[..., Any], rdd: Any, path: str, *args: Any, **kwargs: Any) -> Any:
        """An RDD written to a path: what it was computed from is read off its dependencies before it runs."""
        started = datetime.now(timezone.utc)
        behind = self.quietly(self._listener.rdds, rdd, " ".join(map(str, list(self._frames)))) or []
        error: str | None = None
        try:
            with self._listener.tagged(QUIET):
                return original(rdd, path, *args, **kwargs)
        except Exception as problem:
            error = redact(str(problem))[:4000]
            raise
        finally:
            name = getattr(original, "__name__", "save")
            self._watcher.submit(lambda: self._saved(behind, path, name, started, error))

    def _saved(
        self, behind: list[list[str]], path: str, name: str, started: datetime, error: str | None
    ) -> Observation | None:
        sources, gaps = self._behind(behind)
        target = of_path(path)
        datasets = [*sources, target]
        links = tuple(Link(place, len(sources), "write") for place in range(len(sources)))
        run = self._run(
            name, started, error, {"action": name, "path": redact(path), **({"gaps": gaps} if gaps else {})}
        )
        return Observation(run, tuple(datasets), (Change(len(sources), "overwrite"),), links)

    def _behind(self, behind: list[list[str]]) -> tuple[list[Seen], dict[str, int]]:
        found: dict[tuple[str, str], Seen] = {}
        gaps: dict[str, int] = {}
        for number, _, kind, paths in behind:
            plan = self._frames.get(int(number))
            if plan is not None:
                seen = observe({"plan": parse_redacted(plan)}, self._watcher.place)
                for use in seen.uses if seen else ():
                    if seen is not None and use.role == INPUT:
                        source = seen.datasets[use.dataset]
                        found[(source.namespace, source.name)] = source
                continue
            for path in paths.split(",") if paths and paths != "null" else ():
                source = of_path(redact(path).replace("\\", ""))
                found[(source.namespace, source.name)] = source
            if not paths and kind.endswith("RDD") and kind.startswith(("JdbcRDD", "CassandraTable", "Elasticsearch")):
                gaps[kind] = gaps.get(kind, 0) + 1
        return list(found.values()), gaps

    def _run(self, name: str, started: datetime | None, error: str | None, details: Mapping[str, object]) -> Run:
        place = self._watcher.place
        status = FAILED if error else COMPLETED
        ended = datetime.now(timezone.utc)
        return Run(str(uuid.uuid4()), "rdd", name, status, error, started, ended, place.application_id, details)

    def job(self, seen: Mapping[str, Any]) -> Observation | None:
        """A job of an RDD program whose result goes to the application."""
        behind = [[str(number), "", "", ""] for number in seen.get("rdds", ())]
        sources, _ = self._behind(behind)
        known = {(s.namespace, s.name) for s in sources}
        for path in seen.get("paths", ()):
            for one in path.split(","):
                source = of_path(one)
                if (source.namespace, source.name) not in known:
                    known.add((source.namespace, source.name))
                    sources.append(source)
        if not sources:
            return None
        run = self._run(
            str(seen.get("site") or "job"), moment(seen.get("at")), None, {"action": "job", "job": seen["job"]}
        )
        return Observation(run, tuple(sources), uses=tuple(Use(place, INPUT) for place in range(len(sources))))


class _OnImport(importlib.abc.MetaPathFinder):
    """Calls back once a module has been imported, so that nobody imports pyspark.ml who does not use it."""

    def __init__(self, module: str, then: Callable[[], object]) -> None:
        self._module = module
        self._then = then
        if module in sys.modules:
            then()
        else:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self._module:
            return None
        self.remove()
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        loader, then, run = spec.loader, self._then, spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            then()

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
