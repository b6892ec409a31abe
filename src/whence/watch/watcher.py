"""Takes what the listener saw, works out its lineage and stores it, all in one background thread.

Nothing here reaches the user's query: what goes wrong is logged and counted. When the catalogue cannot be written,
observations wait in the spool.
"""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whence.model import StoreError
from whence.model.lineage import Observation, Seen
from whence.model.redact import parse_redacted
from whence.store.spool import Spool
from whence.watch.listener import Listener
from whence.watch.parse import observe, together, with_topics
from whence.watch.streams import Streams

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from whence.store import Store
    from whence.watch.ml import Training

log = logging.getLogger("whence.watch")

TAKE = 200
"""Lines taken at once, and so the most runs that one transaction writes."""
MOST_COLUMNS = 100_000
"""Column links of one transaction, so that a few giant plans do not hold it open for long."""
FLUSH_SECONDS = 60.0
RETRY_SECONDS = 5.0


def watch(spark: SparkSession, store: Store) -> Watcher | None:
    """A watcher of this session; None, and a warning, where it cannot be watched: the rest of whence works without."""
    try:
        return Watcher(spark, store)
    except Exception:
        log.warning("whence cannot watch this session, so its catalogue stays empty", exc_info=True)
        return None


class Watcher:
    def __init__(self, spark: SparkSession, store: Store) -> None:
        self._store = store
        self._spool = Spool(store.location.spool)
        self._listener = Listener(spark)
        self.memory: dict[int, str] = {}
        self.memory_rdds: dict[int, str] = {}
        self.models: dict[int, Seen] = {}
        # Of columns that a model gave, by their number: what it was trained on.
        self.trainings: dict[int, Training] = {}
        # Told, in the user's own thread, where a model was saved, what it was trained on, and when.
        self.on_saved: Callable[[str, DataFrame, int], None] | None = None
        self.frames: dict[int, str] = {}
        self.checkpoints: dict[int, str] = {}
        self.place = replace(
            self._listener.place,
            memory=self.memory,
            memory_rdds=self.memory_rdds,
            models=self.models,
            frames=self.frames,
            checkpoints=self.checkpoints,
        )
        self._tasks: queue.Queue[Callable[[], Observation | None]] = queue.Queue(maxsize=10_000)
        self._nested: dict[int, list[dict[str, Any]]] = defaultdict(list)
        self._streams = Streams(self)
        self._marks: dict[int, threading.Event] = {}
        self._next_mark = 0
        self._lock = threading.Lock()
        self._stopping = False
        self._batch: list[Observation] = []
        self._columns = 0
        self._away_until = 0.0
        self.counts: Counter[str] = Counter()
        self.parse_seconds: list[float] = []
        self.store_seconds = 0.0
        self._thread = threading.Thread(target=self._work, name="whence-watch", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        from whence.watch.patches import Patches

        self._patches = Patches(spark, self, self._listener)

    @property
    def active(self) -> bool:
        return not self._stopping

    def submit(self, task: Callable[[], Observation | None]) -> None:
        """Something that a patch saw; it is worked out in the background."""
        try:
            self._tasks.put_nowait(task)
            self._listener.put('{"what":"task"}')
        except queue.Full:
            self.counts["lost"] += 1
        except Exception:
            self._failed("a patch")

    def flush(self, seconds: float = FLUSH_SECONDS) -> bool:
        """Wait until everything that has happened is stored (or spooled)."""
        if not self._thread.is_alive():
            return True
        self._listener.wait(int(seconds * 1000))
        with self._lock:
            self._next_mark += 1
            number = self._next_mark
            done = self._marks[number] = threading.Event()
        try:
            self._listener.mark(f'{{"what":"mark","number":{number}}}')
        except Exception:  # the JVM is gone; what was taken before is being stored
            return False
        return done.wait(seconds)

    def close(self) -> None:
        if self._stopping:
            return
        atexit.unregister(self.close)
        self._patches.remove()
        self.flush()
        self._stopping = True
        self._listener.stop()
        self._thread.join(FLUSH_SECONDS)

    def _work(self) -> None:
        troubles = 0
        while True:
            try:
                lines = self._listener.take(TAKE, 500)
                troubles = 0
            except Exception:
                troubles += 1
                if self._stopping or troubles > 3:
                    log.debug("the JVM is gone", exc_info=True)
                    return
                log.warning("whence could not reach its listener; trying again", exc_info=True)
                time.sleep(0.1 * troubles)
                continue
            for line in lines:
                try:
                    self._line(line)
                except Exception:
                    self._failed("a snapshot")
                time.sleep(0)  # let the user's thread have its turn
            self._write()
            if not lines:
                if self._stopping:
                    return
                if self._away_until and time.monotonic() > self._away_until:
                    self._replay()

    def _failed(self, what: str) -> None:
        self.counts["failed"] += 1
        log.warning("whence could not work out %s; the query itself is not affected", what, exc_info=True)

    def _line(self, line: str) -> None:
        began = time.perf_counter()
        seen: dict[str, Any] = parse_redacted(line)
        what = seen.get("what")
        if what == "mark":
            self._write()
            self._marks.pop(seen["number"]).set()
        elif what == "task":
            self._keep(self._tasks.get_nowait()())
        elif what == "query":
            self._query(seen, began)
        elif what == "stream":
            for observation in self._streams.event(seen):
                self._keep(observation)
        elif what == "job":
            self._keep(self._patches.job(seen))
        elif what == "problem":
            self.counts["failed"] += 1
            log.warning("whence's listener could not read an event: %s", seen.get("text"))

    def _query(self, seen: dict[str, Any], began: float) -> None:
        root = seen.get("root", seen["id"])
        if root != seen["id"]:
            self._nested[root].append(seen)
            while len(self._nested) > 1000:  # a root whose end was never told
                del self._nested[next(iter(self._nested))]
            return
        inner = self._nested.pop(seen["id"], [])
        seen = together(seen, inner)
        if "stream" in seen:
            found = self._streams.batch(seen, inner)
        else:
            whole = observe(seen, self.place)
            topics = next((i["topics"] for i in [seen, *inner] if i.get("topics")), None)
            if whole is not None and topics:
                patterns = {s.name: topics for s in whole.datasets if s.kind == "topic" and s.name not in topics}
                read = {whole.datasets[place].name for place in whole.inputs}
                whole = with_topics(whole, {name: found for name, found in patterns.items() if name in read})
            found = (
                [whole]
                if whole is not None
                else [o for o in (observe(i, self.place) for i in inner) if o and o.changes]
            )
        self.parse_seconds.append(time.perf_counter() - began)
        del self.parse_seconds[:-10_000]
        for observation in found:
            self._keep(observation)

    def _keep(self, observation: Observation | None) -> None:
        if observation is None:
            return
        if self.place.parent:
            run = observation.run
            run = replace(run, details={**run.details, "parent": dict(self.place.parent)})
            observation = replace(observation, run=run)
        self.counts["seen"] += 1
        self._batch.append(observation)
        self._columns += len(observation.columns)
        if self._columns > MOST_COLUMNS:
            self._write()

    def _write(self) -> None:
        """What was gathered goes into the catalogue in one transaction, or into the spool."""
        batch, self._batch, self._columns = self._batch, [], 0
        if not batch:
            return
        if self._away_until and time.monotonic() < self._away_until:
            self._put_aside(batch)
            return
        began = time.perf_counter()
        try:
            if self._away_until or (self.counts["stored"] == 0 and self._spool):
                self._spool.replay(self._store.catalog.record)
            self._record(batch)
            self._away_until = 0.0
        except StoreError as error:
            log.warning("the catalogue is away, lineage waits in the spool: %s", error)
            self._away_until = time.monotonic() + RETRY_SECONDS
            self._put_aside(batch)
        self.store_seconds += time.perf_counter() - began

    def _record(self, batch: list[Observation]) -> None:
        try:
            self._store.catalog.record(*batch)
            self.counts["stored"] += len(batch)
        except StoreError:
            raise
        except Exception:
            if len(batch) == 1:
                self._failed("how to store a run")
                return
            for observation in batch:  # one that cannot be stored must not take the others with it
                self._record([observation])

    def _put_aside(self, batch: list[Observation]) -> None:
        try:
            self._spool.add(*batch)
            self.counts["spooled"] += len(batch)
        except OSError:
            self.counts["lost"] += len(batch)
            log.warning("neither the catalogue nor the spool can be written: lineage is lost", exc_info=True)

    def _replay(self) -> None:
        try:
            self.counts["stored"] += self._spool.replay(self._store.catalog.record)
            self._away_until = 0.0
        except StoreError:
            self._away_until = time.monotonic() + RETRY_SECONDS
