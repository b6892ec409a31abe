"""Works off the questions that wait in the store: one at a time, in a thread of the attached session.

The user's own work comes first. The thread sleeps, looks, and when a question waits it begins at a moment without jobs;
its jobs are tagged as whence's own, in a scheduler pool of their own. What goes wrong is told in the trace alone.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from whence.model import WhenceError
from whence.model.conditions import check_condition
from whence.model.picture import BACKWARD, FIRST_ROWS, FORWARD, SAMPLE, Picture, PictureSource, PictureStep, Question
from whence.model.quiet import QUIET, tagged
from whence.model.redact import redact
from whence.store.location import DATABASE_FILE
from whence.store.traces import LEASE_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from whence.debug.trace import Trace
    from whence.sql.why_not import Dropped
    from whence.store import Store
    from whence.store.catalog import Catalog

log = logging.getLogger("whence.questions")
POLL_SECONDS = 1.0
AWAY_SECONDS = 30.0
PATIENCE_SECONDS = 15.0
"""How long a question waits for a moment without jobs."""
_FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".orc": "orc", ".avro": "avro", ".txt": "text"}
_PACKED = (".gz", ".bz2", ".snappy", ".zst", ".lz4", ".deflate")

Said = Callable[[float], None]


class Session(Protocol):
    """What of a session a question needs."""

    @property
    def spark(self) -> SparkSession: ...
    def backward(self, df: DataFrame) -> Trace: ...
    def forward(self, df: DataFrame, *, to: DataFrame) -> Trace: ...
    def why_not(self, df: DataFrame, *, to: DataFrame) -> tuple[Dropped, ...]: ...


class Questions:
    def __init__(self, session: Session, spark: SparkSession, store: Store) -> None:
        self._session = session
        self._store = store
        self._spark = spark
        self._worker = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._tag = f"whence-question-{uuid.uuid4().hex[:8]}"
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._work, name="whence-questions", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """What is under way is given back."""
        self._ends.set()
        if self._thread is threading.current_thread():
            return
        with suppress(Exception):
            self._spark.sparkContext.cancelJobsWithTag(self._tag)
        self._thread.join(10)

    def _work(self) -> None:
        wait = POLL_SECONDS
        while not self._ends.wait(wait):
            wait = POLL_SECONDS
            try:
                catalog = self._catalog()
                if catalog is None or not catalog.traces.is_waiting():
                    continue
                self._wait_for_quiet()
                taken = None if self._ends.is_set() else catalog.traces.take(self._worker)
                if taken is not None:
                    self._answer(catalog, *taken)
            except Exception as error:  # the store is away, or the session ends: the user's own work goes on
                log.debug("questions cannot be worked off now: %s", error)
                wait = AWAY_SECONDS

    def _catalog(self) -> Catalog | None:
        """Nothing is made for the sake of looking: where there is no store yet, nothing waits in it."""
        directory = self._store.location.directory
        if directory is not None and not (directory / DATABASE_FILE).exists():
            return None
        return self._store.catalog

    def _wait_for_quiet(self) -> None:
        tracker = self._spark.sparkContext.statusTracker()
        until = time.monotonic() + PATIENCE_SECONDS
        while tracker.getActiveJobsIds() and time.monotonic() < until and not self._ends.wait(0.2):
            pass

    def _answer(self, catalog: Catalog, number: str, question: Question) -> None:
        traces = catalog.traces
        with self._holding(catalog, number) as said, self._quietly():
            try:
                picture = answer(self._session, catalog, question, said)
            except Exception as error:
                if self._ends.is_set():
                    traces.release(number, self._worker)
                else:
                    traces.fail(number, self._worker, redact(_sentence(error)))
                return
        traces.finish(number, self._worker, picture)

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        context = self._spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", "whence")
        with tagged(context, QUIET, self._tag):
            yield

    @contextmanager
    def _holding(self, catalog: Catalog, number: str) -> Iterator[Said]:
        """The lease is renewed while the block runs; what it says is the question's progress."""
        done = threading.Event()

        def renew() -> None:
            while not done.wait(LEASE_SECONDS / 3):
                with suppress(Exception):
                    catalog.traces.renew(number, self._worker)

        thread = threading.Thread(target=renew, name="whence-lease", daemon=True)
        thread.start()
        try:
            yield lambda share: (catalog.traces.renew(number, self._worker, share), None)[1]
        finally:
            done.set()
            thread.join()


def _sentence(error: BaseException) -> str:
    """Spark's own errors run over pages."""
    text = str(error).strip() or type(error).__name__
    return text if isinstance(error, WhenceError) else text.partition("\n")[0][:1000]


def answer(session: Session, catalog: Catalog, question: Question, said: Said = lambda share: None) -> Picture:
    """The picture of what a question asks."""
    from whence.debug.saving import picture_of

    asked = _asked(session.spark, catalog, question)
    said(0.1)
    most = question.limit or FIRST_ROWS
    if question.question == BACKWARD:
        return picture_of(session.backward(asked), catalog, most, said)
    if question.question == SAMPLE:
        return Picture(True, sources=(_source(catalog, question, asked, most),))
    if question.to is None:
        raise WhenceError(f"A question {question.question} needs the dataset that it is about (to).")
    to = frame_of(session.spark, catalog, *question.to)
    if question.question == FORWARD:
        return _forward(session, catalog, question, asked, to, most, said)
    return _why_not(session, catalog, question, asked, to, most)


def _asked(spark: SparkSession, catalog: Catalog, question: Question) -> DataFrame:
    if question.name is None:
        raise WhenceError("The question names no dataset.")
    frame = frame_of(spark, catalog, question.namespace or "", question.name)
    return frame if question.where is None else frame.where(check_condition(question.where))


def frame_of(spark: SparkSession, catalog: Catalog, namespace: str, name: str) -> DataFrame:
    """A dataset of the catalogue, read in this session."""
    kind = catalog.dataset((namespace, name)).kind
    if kind in ("table", "view") and "/" not in name:
        quoted = ".".join(f"`{part.replace('`', '``')}`" for part in name.split("."))
        return spark.table(quoted)
    if kind in ("path", "table") and "/" in name:
        return _path(spark, namespace, name)
    raise WhenceError(f"Rows of {name} cannot be read here: it is a {kind}, not a table, a view or files.")


def _path(spark: SparkSession, namespace: str, name: str) -> DataFrame:
    if ".." in name.split("/"):
        raise WhenceError(f"{name} leads elsewhere, and is not read.")
    where = f"file:{name}" if namespace == "file" else f"{namespace}/{name.lstrip('/')}"
    for file in spark.read.format("binaryFile").option("recursiveFileLookup", True).load(where).inputFiles():
        plain = file.lower()
        for ending in _PACKED:
            plain = plain.removesuffix(ending)
        for ending, format in _FORMATS.items():
            if plain.endswith(ending):
                options: dict[str, Any] = {"header": True, "inferSchema": True} if format == "csv" else {}
                return spark.read.format(format).options(**options).load(where)
    raise WhenceError(f"The files of {name} are of no format that their names tell ({', '.join(_FORMATS)}).")


def _source(catalog: Catalog, question: Question, frame: DataFrame, most: int) -> PictureSource:
    from whence.debug.saving import columns_of, plain_rows

    namespace, name = question.to if question.to is not None else (question.namespace or "", question.name or "")
    kind = catalog.dataset((namespace, name)).kind
    rows = frame.limit(most + 1).collect()
    count = len(rows) if len(rows) <= most else frame.count()
    return PictureSource(0, namespace, name, kind, count, columns_of(frame), plain_rows(rows[:most]))


def _forward(
    session: Session, catalog: Catalog, question: Question, asked: DataFrame, to: DataFrame, most: int, said: Said
) -> Picture:
    """The rows of the other dataset that these touch."""
    trace = session.forward(asked, to=to)
    counts = trace.step_counts()
    said(0.5)
    steps = tuple(
        PictureStep(step.number, step.operator, str(step), step.depth, count)
        for step, count in zip(trace.steps, counts, strict=True)
    )
    touched = _source(catalog, question, trace.rows, most)
    return Picture(trace.exact, trace.notes, () if trace.exact else trace.notes, (), steps, (touched,))


def _why_not(
    session: Session, catalog: Catalog, question: Question, asked: DataFrame, to: DataFrame, most: int
) -> Picture:
    """Each row with where it dropped out, and why; the steps are those places."""
    from whence.debug.saving import columns_of, plain_rows

    dropped = session.why_not(asked, to=to)
    places = Counter((one.operator or "the result", one.reason) for one in dropped)
    steps = tuple(
        PictureStep(number, operator, reason, 0, count)
        for number, ((operator, reason), count) in enumerate(places.items())
    )
    columns = (*columns_of(asked), ("dropped at", "string"), ("reason", "string"))
    rows = plain_rows([(*one.row, one.operator, one.reason) for one in dropped[:most]])
    namespace, name = question.namespace or "", question.name or ""
    kind = catalog.dataset((namespace, name)).kind
    notes = tuple(str(one) for one in dropped[:20])
    return Picture(
        True, notes, steps=steps, sources=(PictureSource(0, namespace, name, kind, len(dropped), columns, rows),)
    )
