"""What runs on executors: a stage, a chunk at a time, with its associations written when the partition is done."""

from __future__ import annotations

import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from pyspark.errors import PySparkRuntimeError
from pyspark.serializers import pack_long
from pyspark.shuffle import get_used_memory
from pyspark.taskcontext import TaskContext

from whence.model import NonDeterministic
from whence.model.quiet import again
from whence.rdd.barriers import Barrier, Stream
from whence.rdd.codec import AnyInts
from whence.rdd.links import BucketsLink, ColumnsLink, CountsLink, Link, Writer
from whence.rdd.narrow import PIECE, Narrow
from whence.rdd.wire import Chunk, Measure, Origin, Tag, tagged
from whence.spark.names import portable_hash

_OUTPUTS_WANTED = 1 << 9  # records a chunk should become; more do not fit the processor's cache


LOCAL_DIRS = "$SPARK_LOCAL_DIRS"


def _here(directory: str) -> str:
    """A directory of this machine that is named by Spark's own, the first of which the executor's JVM knows too."""
    if not directory.startswith(LOCAL_DIRS):
        return directory
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] + directory.removeprefix(LOCAL_DIRS)


class Segment:
    """Narrow operators, then a barrier or the stage's end. `node` and `barrier_node`: whose records each leaves."""

    def __init__(self, ops: list[Narrow], node: int | None, barrier: Barrier | None, barrier_node: int | None) -> None:
        self.ops, self.node, self.barrier, self.barrier_node = ops, node, barrier, barrier_node


class Shuffle:
    def __init__(
        self, partitions: int, function: Callable[[Any], int], memory: float, side: int | None, elements: bool
    ):
        self.partitions, self.function, self.memory = partitions, function, memory
        self.side = side  # number put on every value, for joins
        self.elements = elements


class Stage:
    """A stage's whole description, as pickled to executors; called by PySpark's worker with (split, chunks)."""

    def __init__(
        self,
        stage: int,
        directory: str,
        sources: list[tuple[int, int]] | None,
        prelude: Callable[[int, Any], Any] | None,
        segments: list[Segment],
        out: str,
        shuffle: Shuffle | None,
        committed: Any,
        pair_node: int | None = None,
        base_node: int | None = None,
    ) -> None:
        self.base_node = base_node
        self.pair_node = pair_node  # Spark itself zipped or multiplied the input: the RDD which that made
        self.stage = stage
        self.directory = directory
        self.sources = sources  # per split: (node, partition) of records that carry no tag
        self.prelude = prelude
        self.segments = segments
        self.out = out  # "records": flat, "tagged": lists with the origin, "shuffle": bytes for Spark
        self.shuffle = shuffle
        self.committed = committed
        self.order: dict[int, list[tuple[Origin, int, int]]] = {}  # per split: the arrivals of an earlier run
        self.forget = False  # write no table

    def __call__(self, split: int, chunks: Iterable[Chunk]) -> Iterator[Any]:
        if split in self.order:
            chunks = in_order(chunks, self.order[split], self._elements_arrive())
        if self.forget:
            if self.prelude is not None:
                chunks = _prelude(self.prelude, split, chunks)
            return itertools.chain.from_iterable(_once_more(self._stream(split, chunks, _Nowhere())))
        context = TaskContext.get()
        attempt = context.taskAttemptId() if context is not None else 0
        origin = Origin(self.stage, split, attempt, -1)
        name = os.path.join(_here(self.directory), str(self.stage), f"{split}-{attempt}")
        table = Writer(name, origin, self.base_node)
        if self.prelude is not None:
            chunks = _prelude(self.prelude, split, chunks)
        if self.out == "shuffle":
            return self._shuffled(self._stream(split, chunks, table), table, origin)
        if self.out == "tagged":
            return ((records, origin) for records in self._kept(self._stream(split, chunks, table), table))
        return itertools.chain.from_iterable(self._kept(self._stream(split, chunks, table), table))

    def _elements_arrive(self) -> bool:
        return bool(self.segments) and not self.segments[0].ops and _elements(self.segments[0].barrier)

    def _stream(self, split: int, chunks: Iterable[Chunk], table: Writer) -> Stream:
        _make_room(self.segments)
        elements = self._elements_arrive()
        met: ColumnsLink | None = None
        if self.pair_node is not None:
            met = table.kept(ColumnsLink(2))
            table.link(met, self.pair_node)
        stream = _arrive(chunks, table, self.sources[split] if self.sources else None, elements, met)
        for number, segment in enumerate(self.segments):
            follows = next((s.barrier for s in self.segments[number:] if s.barrier is not None), None)
            lazy = follows is not None and follows.lazy
            if segment.ops:
                counts = table.kept(CountsLink())
                table.link(counts, segment.node)
                stream = _narrow(stream, segment.ops, counts, split, lazy)
            if segment.barrier is not None:
                link = table.kept(segment.barrier.link())
                table.link(link, segment.barrier_node)
                stream = segment.barrier.run(stream, link, table, split)
        return stream

    def _kept(self, stream: Stream, table: Writer) -> Stream:
        n = 0
        with _undisturbed(table):
            for records in stream:
                n += len(records)
                yield records
        self._commit(table, n)

    def _commit(self, table: Writer, n_out: int) -> None:
        size = table.commit(n_out)
        self.committed.add([(self.stage, table.origin.part, table.origin.attempt, size, n_out, table.error)])

    def _shuffled(self, stream: Stream, table: Writer, origin: Origin) -> Iterator[bytes]:
        plan = self.shuffle
        assert plan is not None
        link = BucketsLink(plan.elements)
        link.writer = table
        partition = _partitioner(plan)
        buckets = _Buckets(plan, origin)
        n = 0
        with _undisturbed(table):
            for records in stream:
                if not records:
                    continue
                parts = partition(records)
                sizes = None
                if plan.elements:
                    sizes = np.fromiter((len(v) for _, v in records), dtype=np.uint32, count=len(records))
                link.add(np.array(parts, dtype=np.uint16 if plan.partitions <= 1 << 16 else np.uint32), sizes)
                if plan.side is not None:
                    side = plan.side
                    records = [(k, [(side, v) for v in vs]) for k, vs in records]
                n += len(records)
                yield from buckets.take(parts, records)
            yield from buckets.flush()
        table.link(link, None)
        self._commit(table, n)


@contextmanager
def _undisturbed(table: Writer) -> Iterator[None]:
    """A chunk's records live together for a while, which Python's collector takes for a reason to look at them: it is
    told to wait. What a task wrote that fails or is stopped early goes away."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], 50_000), 20, 20)
    try:
        yield
    except BaseException:
        table.discard()
        raise
    finally:
        gc.set_threshold(*before)


def _once_more(stream: Stream) -> Stream:
    """What the user's functions do here, they have done before: actors in them capture nothing."""
    while True:
        with again():
            records = next(stream, None)
        if records is None:
            return
        yield records


class _Buckets:
    """PySpark's own way of batching what is shuffled: as many records at a time, then all buckets."""

    def __init__(self, plan: Shuffle, origin: Origin) -> None:
        self._elements, self._limit, self._origin = plan.elements, plan.memory / 2, origin
        self._buckets: dict[int, list[Any]] = {}
        self._numbers = [0] * plan.partitions
        self._held = 0
        self._batch: float = min(10 * plan.partitions, 1000)

    def take(self, parts: list[int], records: list[Any]) -> Iterator[bytes]:
        at = 0
        while at < len(records):
            room = int(self._batch) + 1 - self._held
            some = records[at : at + room]
            buckets = self._buckets
            for part, record in zip(parts[at : at + room], some, strict=True):
                if part in buckets:
                    buckets[part].append(record)
                else:
                    buckets[part] = [record]
            at += len(some)
            self._held += len(some)
            if self._held > self._batch or (self._held > 1000 and get_used_memory() > self._limit):
                yield from self.flush()

    def flush(self) -> Iterator[bytes]:
        buckets, self._buckets = self._buckets, {}
        if not buckets:
            return
        size = 0
        for bucket, records in buckets.items():
            yield pack_long(bucket)  # type: ignore[no-untyped-call]
            frame = tagged(Tag(self._origin._replace(bucket=bucket), self._numbers[bucket]), records)
            self._numbers[bucket] += sum(len(v) for _, v in records) if self._elements else len(records)
            yield frame
            size += len(frame)
        average = int(size / len(buckets)) >> 20
        if average < 1:
            self._batch = min(sys.maxsize, self._batch * 1.5)
        elif average > 10:
            self._batch = max(int(self._batch / 1.5), 1)
        self._held = 0


class _Nowhere(Writer):
    """For runs that nobody will trace."""

    def __init__(self) -> None:
        super().__init__("", Origin(-1, -1, -1, -1))

    def section(self, data: bytes) -> list[int]:
        return [0, 0]

    def kept(self, made: Any) -> Any:
        return _Forgetful()

    def link_after(self, before: Link, made: Link) -> None:
        made.writer = self


class _Forgetful:
    """Stands for any link."""

    writer: Any = None

    def add(self, *_: Any) -> None:
        pass


def in_order(chunks: Iterable[Chunk], order: list[tuple[Origin, int, int]], elements: bool) -> Iterator[Chunk]:
    """Chunks in the order of an earlier run. What Spark fetches from other machines comes as it comes; a run that must
    give the same records at the same positions waits for those that are due, and holds the others."""
    arriving = iter(chunks)
    held: dict[tuple[Origin, int], Chunk] = {}
    for origin, first, count in order:
        number = first
        while number < first + count:
            due = (origin, number)
            while due not in held:
                chunk = next(arriving, None)
                if chunk is None or not isinstance(chunk[1], Tag):
                    raise NonDeterministic(
                        "The inputs of a stage that was run again for a trace are not those of the job: a function "
                        "before it does not give the same again."
                    )
                held[chunk[1].origin._replace(attempt=0), chunk[1].first] = chunk
            records, _ = chunk = held.pop(due)
            number += sum(len(v) for _, v in records) if elements else len(records)
            yield chunk
    yield from held.values()
    yield from arriving


def without_lineage(made: list[Segment]) -> Callable[[int, Any], Any]:
    """The segments over flat records, lazily: for actions that stop early and jobs that look at data beforehand."""

    def run(split: int, records: Iterable[Any]) -> Iterator[Any]:
        _make_room(made)
        forget: Any = _Forgetful()
        stream: Stream = ([record] for record in records)
        for segment in made:
            if segment.ops:
                stream = _narrow(stream, segment.ops, forget, split, True)
            if segment.barrier is not None:
                stream = segment.barrier.run(stream, forget, _Nowhere(), split)
        return itertools.chain.from_iterable(stream)

    return run


def _make_room(made: list[Segment]) -> None:
    """Each segment pulls from the one before: a few frames of Python's stack beside those of the user's function."""
    needed = 1000 + 5 * len(made)
    if sys.getrecursionlimit() < needed:
        sys.setrecursionlimit(needed)


def _elements(barrier: Barrier | None) -> bool:
    return barrier is not None and barrier.elements


def _prelude(f: Callable[[int, Any], Any], split: int, chunks: Iterable[Any]) -> Iterator[Chunk]:
    """A source that is itself a Python function over something (`range`, a plain pipelined RDD)."""
    records = iter(f(split, chunks))
    size = 1
    while some := list(itertools.islice(records, size)):
        yield some, None
        size = min(size * 2, 1024)


def _arrive(
    chunks: Iterable[Chunk], table: Writer, source: tuple[int, int] | None, elements: bool, met: ColumnsLink | None
) -> Stream:
    """Notes who wrote what arrives. Two tags mean that Spark zipped or multiplied two batches."""
    runs = table.runs
    here = None if source is None else Origin(source[0], source[1], -1, -1)
    number = 0
    for records, tag in chunks:
        if tag is None or isinstance(tag, Measure):
            assert here is not None
            runs.add(Tag(here, number), len(records))
            number += len(records)
            if tag is not None:
                table.measures += tag.pieces
            yield records
        elif isinstance(tag, Tag):
            runs.add(tag, sum(len(v) for _, v in records) if elements else len(records))
            yield records
        else:
            assert met is not None
            yield from _met(records, tag, table, met)


def _met(records: list[Any], tags: tuple[Tag, Tag], table: Writer, link: ColumnsLink) -> Stream:
    left, right, product = records
    at_left = table.runs.add(tags[0], len(left))
    at_right = table.runs.add(tags[1], len(right))
    if not product:
        link.add(np.arange(at_left, at_left + len(left)), np.arange(at_right, at_right + len(right)))
        yield list(zip(left, right, strict=True))
        return
    places = np.arange(at_right, at_right + len(right))
    rows = max(1, PIECE // max(1, len(right)))
    for first in range(0, len(left), rows):
        some = left[first : first + rows]
        link.add(
            np.repeat(np.arange(at_left + first, at_left + first + len(some)), len(right)), np.tile(places, len(some))
        )
        yield list(itertools.product(some, right))


def _narrow(stream: Stream, ops: list[Narrow], counts: CountsLink, split: int, lazy: bool) -> Stream:
    for op in ops:
        op.start(split)
    size = 1 if lazy else 32
    for records in stream:
        at = 0
        while at < len(records):
            some = records if not at and len(records) <= size else records[at : at + size]
            at += len(some)
            became = 0
            total: AnyInts | None = None
            whole = True
            try:
                for out, made in _through(ops, some, None):
                    became += len(out)
                    if made is not None:
                        total = made if total is None else total + made
                        whole = False
                    yield out
            except GeneratorExit:  # a function over the partition has read enough: what it was given stands
                counts.add(len(some), None if whole else total)
                raise
            except Exception as failed:
                raise _first_failure(ops, some, split, failed) from None
            counts.add(len(some), None if whole else total)
            if not lazy:
                if became > 4 * _OUTPUTS_WANTED:
                    size = max(1, size // 2)
                elif max(became, len(some)) < _OUTPUTS_WANTED:
                    size = min(size * 2, _OUTPUTS_WANTED)


def _through(
    ops: list[Narrow], records: list[Any], counts: AnyInts | None
) -> Iterator[tuple[list[Any], AnyInts | None]]:
    """Pieces of the outputs, each with how many of it every input became. A loop, not a recursion: a chain may have
    more steps than Python's stack has frames."""
    if not ops:
        yield records, counts
        return
    under = [(iter(ops[0].run(records)), counts)]
    while under:
        pieces, before = under[-1]
        piece = next(pieces, None)
        if piece is None:
            under.pop()
            continue
        out, made = piece
        composed = _composed(before, made)
        if out and len(under) < len(ops):
            under.append((iter(ops[len(under)].run(out)), composed))
        else:
            yield out, composed


def through(ops: list[Narrow], records: list[Any]) -> Iterator[tuple[list[Any], AnyInts | None]]:
    return _through(ops, records, None)


def _composed(first: AnyInts | None, then: AnyInts | None) -> AnyInts | None:
    if first is None or then is None:
        return then if first is None else first
    sums = np.zeros(len(then) + 1, dtype=np.int64)  # numpy would make floats of unsigned and signed numbers together
    np.cumsum(then, out=sums[1:])
    ends = np.cumsum(first, dtype=np.int64)
    result: AnyInts = sums[ends] - sums[ends - first]
    return result


def _first_failure(ops: list[Narrow], records: list[Any], split: int, failed: Exception) -> Exception:
    """PySpark would have met the first bad record first, whichever operator it fails in: run the chunk again, record
    by record, and say which one it was."""
    for record in records:
        try:
            for _ in _through(ops, [record], None):
                pass
        except Exception as again:
            if hasattr(again, "add_note"):
                again.add_note(f"whence: it failed on this record: {repr(record)[:500]}")
            return again
    return failed


def _hash(key: Any) -> int:
    """PySpark's portable_hash, which looks into the environment for every part of every key, without that look."""
    if isinstance(key, tuple):
        mixed = 0x345678
        for part in key:
            own = hash(part) if type(part) is str else _hash(part)
            mixed = ((mixed ^ own) * 1000003) & sys.maxsize
        return mixed ^ len(key)
    return 0 if key is None else hash(key)


def _same_hash(key: Any) -> bool:
    """Whether this PySpark hashes as we do."""
    tried = (key, (), (None, "a", (1, ("b", -1.5))))
    return all(_hash(k) == portable_hash(k) for k in tried)


def _partitioner(plan: Shuffle) -> Callable[[list[Any]], list[int]]:
    function, n = plan.function, plan.partitions

    def one_by_one(records: list[Any]) -> list[int]:
        return [function(k) % n for k, _ in records]

    def hashed(records: list[Any]) -> list[int]:
        keys = [k for k, _ in records]
        if any(issubclass(t, tuple) or t is type(None) for t in set(map(type, keys))):
            if not _same_hash(keys[0]):
                return one_by_one(records)
            return [h % n for h in map(_hash, keys)]
        return [h % n for h in map(hash, keys)]

    if function is portable_hash or getattr(function, "__qualname__", "") == "portable_hash":
        if "PYTHONHASHSEED" not in os.environ:
            raise PySparkRuntimeError(None, "PYTHON_HASH_SEED_NOT_SET", {})
        return hashed
    return one_by_one


def text_lines(record: Any) -> list[str]:
    """As saveAsTextFile writes a record, and textFile reads it."""
    text = record.decode() if isinstance(record, bytes) else str(record)
    return text.split("\n")
