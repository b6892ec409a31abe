"""What runs where records are processed: the actor handle. It pickles, so that it reaches executors and processes.

In a Spark task the handle writes one log for each task, which is committed when the task's Python part ends well; a
failed or retried task adds nothing. Elsewhere the log belongs to the process and `commit()` ends it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import uuid
import warnings
import weakref
from collections.abc import Collection, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from whence.actors.log import Log, NoLog
from whence.actors.products import Teller
from whence.actors.records import Location, Name, Record, identify, to_json
from whence.actors.registry import ActorSpec, RowKeys, commit, sweep
from whence.model import WhenceError
from whence.model.quiet import AGAIN, is_again
from whence.model.text import visible
from whence.store import Files
from whence.store.sealed import sealed

_NO_TAG = (None,)
_NO_LOG = NoLog("", "", "", 0)
_JOB_TAGS = "spark.job.tags"  # a property of Spark's jobs, which their tasks see

# A task may hold several copies of one handle (one for each function that uses it); they share a log.
_task_logs: dict[tuple[str, int, int, int], Log] = {}
_opening = threading.Lock()
_handles: weakref.WeakSet[Actor] = weakref.WeakSet()
# While a question runs the user's function again: what actors tell there of rows, in place of their logs.
_listening: Listening | None = None


def _forget_logs_of_the_forking_process() -> None:
    global _opening
    _opening = threading.Lock()
    for handle in _handles:
        handle._log = None
    _task_logs.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_logs_of_the_forking_process)


@dataclass(frozen=True)
class Filter:
    """What a replayed actor may see. None: everything."""

    keep_inputs: frozenset[Name] | None = None
    keep_outputs: frozenset[Name] | None = None
    drop_inputs: frozenset[Name] = frozenset()
    locations_moved: bool = False  # its input files are written anew, so that byte ranges say nothing

    def drops_input(self, record: Record) -> bool:
        name = identify(record)
        if name in self.drop_inputs:
            return True
        if self.keep_inputs is None or (self.locations_moved and isinstance(name, Location)):
            return False
        return name not in self.keep_inputs

    def drops_output(self, record: Record) -> bool:
        name = identify(record)
        return self.keep_outputs is not None and not isinstance(name, Location) and name not in self.keep_outputs


@dataclass(frozen=True)
class Mode:
    """How a handle behaves: capture (the default), or replay with a filter; observe=True writes down what passed."""

    filter: Filter | None = None
    observe: bool = False


CAPTURING = Mode()


class _Committed:
    """An accumulator of the names of logs that tasks committed."""

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value: list[Any], more: list[Any]) -> list[Any]:
        value += more
        return value


def _spark_task() -> tuple[int, int, int] | None:
    module = sys.modules.get("pyspark.taskcontext")
    context = module.TaskContext.get() if module else None
    return None if context is None else (context.stageId(), context.partitionId(), context.taskAttemptId())


def in_spark_task() -> bool:
    return _spark_task() is not None


def _spark_runs_again() -> bool:
    module = sys.modules.get("pyspark.taskcontext")
    context = module.TaskContext.get() if module else None
    tags: str | None = None if context is None else context.getLocalProperty(_JOB_TAGS)
    return tags is not None and AGAIN in tags.split(",")


def _as_tags(tag: Any) -> Collection[Hashable]:
    if tag is None:
        return _NO_TAG
    if isinstance(tag, set | frozenset):
        return tag
    try:
        hash(tag)
    except TypeError as error:
        raise TypeError(f"A tag is a value that a set may hold, or a set of several, not {tag!r}.") from error
    return (tag,)


class Actor:
    """Something that turns input records into output records, and says so."""

    def __init__(
        self,
        spec: ActorSpec,
        files: Files,
        mode: Mode = CAPTURING,
        task: tuple[str, int] | None = None,
        teller: Teller | None = None,
    ) -> None:
        self.spec = spec
        self._files = files
        self._teller = teller
        self._mode = mode
        self._task = task
        self._log: Log | None = None
        self._accumulator: Any = None
        self._accumulator_context: Any = None
        _handles.add(self)

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def kind(self) -> str:
        return self.spec.kind

    def __repr__(self) -> str:
        return visible(f"<{self.kind} {self.spec.path}>")

    def __reduce__(self) -> tuple[Any, ...]:
        return _revive, (self.spec, self._files, self._mode, self._task, self._teller, self._to_ship())

    def _to_ship(self) -> Any:
        module = sys.modules.get("pyspark")
        context = module.SparkContext._active_spark_context if module and _spark_task() is None else None
        if context is not None and context is not self._accumulator_context:
            self._accumulator, self._accumulator_context = context.accumulator([], _Committed()), context
        if context is None and "pyspark.sql.connect.session" in sys.modules and _spark_task() is None:
            warnings.warn(
                f"{self} is sent to another process, and this one is a client of Spark Connect. What it captures in a "
                "Spark task is kept only within `with actor.task(key) as task: task.capture(...)`.",
                stacklevel=2,
            )
        return self._accumulator

    def _open(self) -> Log:
        if _listening is not None:
            return self._heard(_listening)
        if is_again():
            return _NO_LOG
        log = self._log
        if log is None:
            with _opening:
                log = self._log or self._open_log()
        return log

    def _heard(self, listening: Listening) -> Log:
        own: Log = _NO_LOG
        if listening.also:
            with listening.paused():
                own = self._open()
        return listening.log_of(self.spec, own)

    def _open_log(self) -> Log:
        if self._task is not None:
            self._log = Log(self._files, self.id, *self._task)
            return self._log
        task = _spark_task()
        if task is None:
            self._log = Log(self._files, self.id, uuid.uuid4().hex, 0, own=True)
            return self._log
        if _spark_runs_again():
            self._log = _NO_LOG
            return self._log
        key = (self.id, *task)
        log = _task_logs.get(key)
        if log is None:
            for old in [k for k in _task_logs if k[1:] != task]:  # a worker process runs one task at a time
                del _task_logs[old]
            log = _task_logs[key] = Log(self._files, self.id, f"stage {task[0]} partition {task[1]}", task[2])
            if self._accumulator is not None:
                self._accumulator.add([log])
        self._log = log
        return log

    # -- capture ---------------------------------------------------------------------------------------------------

    def capture(self, i: Record, o: Record) -> bool:
        """Output o came from input i. True: this is a replay and the output is to be dropped."""
        filter = self._mode.filter
        if filter is not None:
            if filter.drops_input(i) or filter.drops_output(o):
                return True
            if not self._mode.observe:
                return False
        self._open().pair(i, o)
        return False

    def capture_many(self, inputs: Any, outputs: Any, counts: Any = None) -> Any:
        """Aligned inputs and outputs (sequences, numpy or Arrow arrays); with counts, input n has counts[n] outputs.

        Gives an array of booleans, as `capture` gives one.
        """
        import numpy as np

        for given in (inputs, outputs):
            if not hasattr(given, "__len__") or isinstance(given, str | bytes):
                raise TypeError(f"capture_many takes lists, tuples, numpy or Arrow arrays, not {given!r}.")
        if counts is not None:
            repeats = np.asarray(counts) if len(inputs) else np.zeros(0, np.int64)
            if repeats.dtype.kind not in "iub" or repeats.shape not in ((), (len(inputs),)) or (repeats < 0).any():
                raise ValueError(
                    f"counts= of capture_many says how many outputs each input has: {len(inputs)} whole numbers from 0 "
                    f"on, not {counts!r}."
                )
            inputs = np.repeat(np.asarray(inputs, dtype=_dtype(inputs)), repeats)
        total = len(inputs)
        if total != len(outputs):
            raise ValueError(f"capture_many got {total} inputs for {len(outputs)} outputs; they go in pairs.")
        filter = self._mode.filter
        dropped = np.zeros(total, bool)
        if filter is not None:
            dropped[:] = [
                filter.drops_input(i) or filter.drops_output(o)
                for i, o in zip(_listed(inputs), _listed(outputs), strict=True)
            ]
            if not self._mode.observe:
                return dropped
            inputs = [i for i, gone in zip(_listed(inputs), dropped, strict=True) if not gone]
            outputs = [o for o, gone in zip(_listed(outputs), dropped, strict=True) if not gone]
        if len(inputs):
            self._open().pairs(inputs, outputs)
        return dropped

    def add_input(self, i: Record, tag: Any = None) -> bool:
        """Input i has arrived. True: this is a replay and the input is to be dropped. A set is several tags."""
        filter = self._mode.filter
        if filter is not None:
            if filter.drops_input(i):
                return True
            if not self._mode.observe:
                return False
        self._open().input(i, _as_tags(tag))
        return False

    def add_output(self, o: Record, tag: Any = None) -> bool:
        """Output o leaves; it came from the inputs that arrived under this tag since the last reset."""
        filter = self._mode.filter
        if filter is not None:
            if filter.drops_output(o):
                return True
            if not self._mode.observe:
                return False
        self._open().output(o, _as_tags(tag))
        return False

    def reset(self, tag: Any = None) -> None:
        """What leaves from now on under this tag owes nothing to what has arrived so far."""
        log = self._log or _NO_LOG
        if _listening is not None:
            log = _listening.log_of(self.spec, log)
        log.reset(_as_tags(tag))

    def fail(self, i: Record, o: Record | None = None, error: BaseException | str = "") -> None:
        """Input i made the actor fail. Seen at once, without a commit: a failing actor seldom reaches one."""
        if self._mode.filter is not None or is_again() or _spark_runs_again():
            return
        note = {
            "actor": self.id,
            "input": to_json(identify(i)),
            "output": None if o is None else to_json(identify(o)),
            "error": error if isinstance(error, str) else f"{type(error).__name__}: {error}",
        }
        told = sealed(note)
        name = f"{self.id}-{hashlib.sha256(told).hexdigest()[:32]}.json"  # a task that is tried again says nothing new
        try:
            self._files.write(told, "failures", name)
        except (OSError, WhenceError) as problem:  # the program has trouble enough
            warnings.warn(f"What made {self} fail could not be written down: {problem}", stacklevel=2)

    # -- life ------------------------------------------------------------------------------------------------------

    def task(self, key: str | int, attempt: int = 0) -> Actor:
        """One instance of this actor, outside Spark: `with actor.task(3, attempt=0) as task: task.capture(...)`.

        It commits when the block ends well. Of several attempts at the same task the lowest committed one counts.
        """
        return Actor(self.spec, self._files, self._mode, (f"task {key}", attempt), self._teller)

    def __enter__(self) -> Actor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
        elif self._log is not None:
            self._log.abandon()

    def commit(self) -> None:
        """This actor (or task) has ended well: from now on questions see it."""
        filtered = self._mode.filter is not None and not self._mode.observe
        if self._task is not None and not filtered:
            self._open().commit(also_nothing=True)  # an attempt that captured nothing outdoes a later one, too
        elif self._log is not None:
            self._log.commit()
        if self._task is not None or _spark_task() is not None:
            return
        if filtered:
            return
        if self._accumulator_context is not None:
            lost = [n for n in self._accumulator.value if n.startswith("lost ")]
            if lost:
                warnings.warn(f"{len(lost)} task logs of {self} could not be written: {lost[0]}", stacklevel=2)
        named = commit(self._files, self.id)
        if self._teller is not None:
            self._teller.tell(self._files.root, self.id, named)
        try:
            sweep(self._files, self.id)
        except WhenceError as error:
            warnings.warn(f"What did not commit of {self} was left in the store: {error}", stacklevel=2)


class Told(NoLog):
    """What one actor says while somebody listens: the names of the inputs of each output."""

    def __init__(self) -> None:
        super().__init__("", "", "", 0)
        self.inputs_of: dict[Name, dict[Name, None]] = {}
        self._arrived: dict[Hashable, list[Name]] = {}

    def after(self, log: Log) -> Log:
        """What is said goes to that log as well."""
        return self if log is _NO_LOG else _Both(self, log)

    def pair(self, i: Any, o: Any) -> None:
        if o is not None:
            self.inputs_of.setdefault(identify(o), {}).update({} if i is None else {identify(i): None})

    def pairs(self, inputs: Any, outputs: Any) -> None:
        for i, o in zip(_listed(inputs), _listed(outputs), strict=True):
            self.pair(i, o)

    def input(self, record: Any, tags: Collection[Hashable]) -> None:
        for tag in tags:
            self._arrived.setdefault(tag, []).append(identify(record))

    def output(self, record: Any, tags: Collection[Hashable]) -> None:
        found = self.inputs_of.setdefault(identify(record), {})
        for tag in tags:
            found.update(dict.fromkeys(self._arrived.get(tag, ())))

    def reset(self, tags: Collection[Hashable]) -> None:
        for tag in tags:
            self._arrived.pop(tag, None)


class _Both(NoLog):
    def __init__(self, told: Told, log: Log) -> None:
        super().__init__("", "", "", 0)
        self._two = (told, log)

    def pair(self, i: Any, o: Any) -> None:
        for log in self._two:
            log.pair(i, o)

    def pairs(self, inputs: Any, outputs: Any) -> None:
        for log in self._two:
            log.pairs(inputs, outputs)

    def input(self, record: Any, tags: Collection[Hashable]) -> None:
        for log in self._two:
            log.input(record, tags)

    def output(self, record: Any, tags: Collection[Hashable]) -> None:
        for log in self._two:
            log.output(record, tags)

    def reset(self, tags: Collection[Hashable]) -> None:
        for log in self._two:
            log.reset(tags)


class Listening:
    """Around the user's function in a task, to hear what actors in it say of rows (sql/worker.py, rdd/told.py).

    `also`: the function runs for its own sake, and their logs get it too."""

    def __init__(self, also: bool = False) -> None:
        self.also = also
        self.told: dict[RowKeys, Told] = {}
        self._before: list[Listening | None] = []

    def __enter__(self) -> Listening:
        global _listening
        self._before.append(_listening)
        _listening = self
        return self

    def __exit__(self, *_: object) -> None:
        global _listening
        _listening = self._before.pop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While the function waits for what others give it."""
        global _listening
        here, _listening = _listening, None
        try:
            yield
        finally:
            _listening = here

    def log_of(self, spec: ActorSpec, log: Log) -> Log:
        return log if spec.rows is None else self.told.setdefault(spec.rows, Told()).after(log)

    @staticmethod
    def row_keys() -> list[RowKeys]:
        """Of the actors that the user's functions in this process hold."""
        return list(dict.fromkeys(handle.spec.rows for handle in list(_handles) if handle.spec.rows is not None))

    @staticmethod
    def name(value: Any) -> Name:
        return identify(value)


def _revive(
    spec: ActorSpec,
    files: Files,
    mode: Mode,
    task: tuple[str, int] | None,
    teller: Teller | None,
    accumulator: Any,
) -> Actor:
    actor = Actor(spec, files, mode, task, teller)
    actor._accumulator = accumulator
    return actor


def _dtype(values: Any) -> Any:
    return getattr(values, "dtype", None) if type(values).__module__ == "numpy" else _plain_dtype(values)


def _plain_dtype(values: Any) -> Any:
    return "int64" if set(map(type, values)) <= {int} else object


def _listed(values: Any) -> Any:
    return values.tolist() if hasattr(values, "tolist") else values
