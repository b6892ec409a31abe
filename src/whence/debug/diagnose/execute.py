"""Where runs happen: in this process, in a pool of processes, or as Spark jobs. All have the same four methods."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import queue
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from whence.debug.diagnose.runs import Outcome, error_text
from whence.debug.diagnose.space import Config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Pipeline = Callable[[Config], Any]
Evaluate = Callable[[Any], bool]


def run_once(pipeline: Pipeline, evaluate: Evaluate | None, config: Config) -> Outcome:
    started = time.perf_counter()
    try:
        result = pipeline(dict(config))
    except SystemExit as left:  # a script's `main` may leave so, well or badly
        if left.code not in (None, 0):
            return Outcome(False, error_text(left), time.perf_counter() - started)
        result = None
    except Exception as error:
        return Outcome(False, error_text(error), time.perf_counter() - started)
    seconds = time.perf_counter() - started
    if evaluate is None:
        # A comparison of numpy's numbers gives numpy's False.
        return Outcome(not isinstance(result, bool | np.bool_) or bool(result), None, seconds)
    try:
        return Outcome(bool(evaluate(result)), None, seconds)
    except Exception as error:
        return Outcome(False, None, seconds, broken=error_text(error))


class Executor(Protocol):
    def submit(self, number: int, config: Config) -> None: ...

    def wait(self) -> list[tuple[int, Outcome]]:
        """Block until at least one run has ended."""

    def cancel(self, number: int) -> None:
        """Stop a run whose outcome nobody needs any more; it will not be reported."""

    def close(self) -> None: ...


class Inline:
    def __init__(self, pipeline: Pipeline, evaluate: Evaluate | None) -> None:
        self._pipeline, self._evaluate = pipeline, evaluate
        self._waiting: list[tuple[int, Config]] = []

    def submit(self, number: int, config: Config) -> None:
        self._waiting.append((number, config))

    def wait(self) -> list[tuple[int, Outcome]]:
        number, config = self._waiting.pop(0)
        return [(number, run_once(self._pipeline, self._evaluate, config))]

    def cancel(self, number: int) -> None:
        self._waiting = [w for w in self._waiting if w[0] != number]

    def close(self) -> None:
        self._waiting.clear()


def _serve(connection: Connection, pipeline: Pipeline, evaluate: Evaluate | None) -> None:
    try:
        while True:
            config = connection.recv()
            connection.send(run_once(pipeline, evaluate, config))
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        return


class Pool:
    """Worker processes. A run that is cancelled or takes too long loses its process; a new one takes its place."""

    def __init__(
        self, pipeline: Pipeline, evaluate: Evaluate | None, workers: int, timeout: float | None = None
    ) -> None:
        self._work = (pipeline, evaluate)
        self._timeout = timeout
        # fork: the pipeline may be a lambda or closure, which cannot be sent to a fresh interpreter
        method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
        self._context = multiprocessing.get_context(method)
        self._idle: list[tuple[BaseProcess, Connection]] = [self._start() for _ in range(workers)]
        self._busy: dict[int, tuple[BaseProcess, Connection, float]] = {}

    def _start(self) -> tuple[BaseProcess, Connection]:
        mine, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, *self._work), daemon=True)  # type: ignore[attr-defined]
        process.start()
        theirs.close()
        return process, mine

    def submit(self, number: int, config: Config) -> None:
        process, connection = self._idle.pop()
        connection.send(config)
        self._busy[number] = (process, connection, time.perf_counter())

    def wait(self) -> list[tuple[int, Outcome]]:
        while True:
            left = None
            if self._timeout is not None:
                oldest = min(begun for _, _, begun in self._busy.values())
                left = max(0.0, oldest + self._timeout - time.perf_counter())
            ready = multiprocessing.connection.wait([c for _, c, _ in self._busy.values()], timeout=left)
            ended = [self._end(n) for n, (_, c, _) in list(self._busy.items()) if c in ready] + self._late()
            if ended:
                return ended

    def _end(self, number: int) -> tuple[int, Outcome]:
        process, connection, begun = self._busy.pop(number)
        try:
            outcome = connection.recv()
        except EOFError:  # the run took its process down with it
            process.join()
            self._idle.append(self._start())
            text = f"ProcessDied: the run ended its process (exit code {process.exitcode})"
            return number, Outcome(False, text, time.perf_counter() - begun)
        self._idle.append((process, connection))
        return number, outcome

    def _late(self) -> list[tuple[int, Outcome]]:
        if self._timeout is None:
            return []
        now = time.perf_counter()
        late = [n for n, (_, _, begun) in self._busy.items() if now - begun >= self._timeout]
        for number in late:
            self.cancel(number)
        return [(n, Outcome(False, "TimeOut: the run took too long", self._timeout)) for n in late]

    def cancel(self, number: int) -> None:
        process, connection, _ = self._busy.pop(number)
        process.terminate()
        process.join()
        connection.close()
        self._idle.append(self._start())

    def close(self) -> None:
        workers = self._idle + [(process, connection) for process, connection, _ in self._busy.values()]
        for process, connection in workers:
            connection.close()
            process.terminate()
        for process, _ in workers:
            process.join()
        self._idle.clear()
        self._busy.clear()


class SparkJobs:
    """Each run is a Spark job of one task. The pipeline is shipped to the executors, so it must not use the session."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, evaluate: Evaluate | None) -> None:
        self._context = spark.sparkContext
        self._work = (pipeline, evaluate)
        self._ended: queue.Queue[tuple[int, Outcome | BaseException]] = queue.Queue()
        self._live: set[int] = set()

    def submit(self, number: int, config: Config) -> None:
        from pyspark import InheritableThread

        self._live.add(number)
        InheritableThread(target=self._run, args=(number, config), daemon=True).start()

    def _run(self, number: int, config: Config) -> None:
        pipeline, evaluate = self._work
        try:
            self._context.setJobGroup(self._group(number), f"whence diagnose, run {number}", interruptOnCancel=True)
            found = self._context.parallelize([config], 1).map(lambda c: run_once(pipeline, evaluate, c)).collect()
            self._ended.put((number, found[0]))
        except BaseException as error:  # also what py4j raises when the job is cancelled
            self._ended.put((number, error))

    def _group(self, number: int) -> str:
        return f"whence-diagnose-{id(self)}-{number}"

    def wait(self) -> list[tuple[int, Outcome]]:
        while True:
            number, outcome = self._ended.get()
            if number not in self._live:
                continue  # cancelled
            self._live.discard(number)
            if isinstance(outcome, BaseException):
                outcome = Outcome(False, error_text(outcome).splitlines()[0])
            return [(number, outcome)]

    def cancel(self, number: int) -> None:
        self._live.discard(number)
        self._context.cancelJobGroup(self._group(number))

    def close(self) -> None:
        for number in list(self._live):
            self.cancel(number)
