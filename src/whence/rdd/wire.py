"""How records travel between Python stages. Every batch says where its first record came from, so that unions,
coalescing, caching, checkpoints and shuffles need no associations of their own."""

from __future__ import annotations

import itertools
import pickle
import struct
from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple

from pyspark.serializers import (
    CPickleSerializer,
    FramedSerializer,
    Serializer,
    SpecialLengths,
    UTF8Deserializer,
    pickle_protocol,
    read_int,
    write_int,
)

_PICKLE = CPickleSerializer()
_HEADER = struct.Struct("<iiqiq")
_LENGTH = struct.Struct("!i")
_BEST_BYTES = 1 << 16


class Origin(NamedTuple):
    """Who wrote a record: partition `part` of a stage, in task `attempt`, into shuffle bucket `bucket` (-1: none).

    A source has attempt -1 and its node in place of the stage."""

    stage: int
    part: int
    attempt: int
    bucket: int


class Tag(NamedTuple):
    origin: Origin
    first: int  # which record (or element, where values are grouped) of that origin the batch begins with


class Measure(NamedTuple):
    """Of lines of text, some at a time: how many, and their bytes without line ends; -1 where what was read may not be
    what the file holds."""

    pieces: list[tuple[int, int]]


Chunk = tuple[list[Any], "Tag | tuple[Tag, Tag] | Measure | None"]
# Lines: to read one of them, so many are looked at. Fewer would make tables larger, by two bytes each time.
_MEASURED = 64
_REPLACED = "\ufffd".encode()  # what Hadoop makes of bytes that are not UTF-8


def dumps(batch: list[Any]) -> bytes:
    try:
        return pickle.dumps(batch, pickle_protocol)
    except Exception:  # what only cloudpickle can pickle: classes of __main__, functions
        result: bytes = _PICKLE.dumps(batch)  # type: ignore[no-untyped-call]
        return result


def tagged(tag: Tag, batch: list[Any]) -> bytes:
    return _HEADER.pack(*tag.origin, tag.first) + dumps(batch)


def untagged(frame: bytes) -> tuple[list[Any], Tag]:
    stage, part, attempt, bucket, first = _HEADER.unpack_from(frame)
    return pickle.loads(memoryview(frame)[_HEADER.size :], encoding="bytes"), Tag(
        Origin(stage, part, attempt, bucket), first
    )


def _next_length(stream: IO[bytes]) -> int | None:
    try:
        length: int = read_int(stream)  # type: ignore[no-untyped-call]
    except EOFError:
        return None
    return None if length == SpecialLengths.END_OF_DATA_SECTION else length


class Tagged(FramedSerializer):
    """Batches with their tags. To everybody else in PySpark it is an ordinary serializer of records."""

    def __init__(self, batchSize: int = 0) -> None:
        super().__init__()
        self.batchSize = batchSize

    def chunks(self, stream: IO[bytes]) -> Iterator[Chunk]:
        while (length := _next_length(stream)) is not None:
            yield untagged(stream.read(length))

    def _load_stream_without_unbatching(self, stream: IO[bytes]) -> Iterator[list[Any]]:
        return (records for records, _ in self.chunks(stream))

    def load_stream(self, stream: IO[bytes]) -> Iterator[Any]:
        return itertools.chain.from_iterable(self._load_stream_without_unbatching(stream))

    def dump_stream(self, chunks: Iterable[tuple[list[Any], Origin]], stream: IO[bytes]) -> None:
        """`chunks`: lists of records with their origin, which is the same for all."""
        first = 0
        size = self.batchSize or 1
        pending: list[Any] = []

        def write(batch: list[Any]) -> int:
            nonlocal first
            frame = tagged(Tag(origin, first), batch)
            write_int(len(frame), stream)  # type: ignore[no-untyped-call]
            stream.write(frame)
            first += len(batch)
            return len(frame) - _HEADER.size

        for records, origin in chunks:  # noqa: B007  `write` uses it
            pending = pending + records if pending else records
            at = 0
            while len(pending) - at >= size:
                written = write(pending[at : at + size])
                at += size
                if not self.batchSize:
                    if written < _BEST_BYTES:
                        size *= 2
                    elif written > _BEST_BYTES * 10 and size > 1:
                        size //= 2
            pending = pending[at:]
        if pending:
            write(pending)

    def __repr__(self) -> str:
        return f"Tagged({self.batchSize})"


class Reader(Serializer):
    """Reads a stage's input in chunks: lists of records, with a tag where they have one."""

    def __init__(self, inner: Serializer) -> None:
        self.inner = inner

    def load_stream(self, stream: IO[bytes]) -> Iterator[Chunk]:
        if isinstance(self.inner, Tagged):
            return self.inner.chunks(stream)
        if isinstance(self.inner, UTF8Deserializer):
            return _text_chunks(stream, self.inner.use_unicode)
        return self._batches(stream)

    def _batches(self, stream: IO[bytes]) -> Iterator[Chunk]:
        small: list[Any] = []
        for batch in self.inner._load_stream_without_unbatching(stream):  # type: ignore[no-untyped-call]
            if isinstance(batch, list) and len(batch) > 1:
                if small:
                    yield small, None
                    small = []
                yield batch, None
                continue
            small.extend(batch)
            if len(small) >= 1024:
                yield small, None
                small = []
        if small:
            yield small, None


def _text_chunks(stream: IO[bytes], use_unicode: bool) -> Iterator[Chunk]:
    """PySpark reads text a line at a time; this takes whatever the buffer holds at once."""
    peek = getattr(stream, "peek", None)
    unpack = _LENGTH.unpack_from
    records: list[Any] = []
    sound = True
    while True:
        held = peek(1) if peek is not None else b""
        at, end = 0, len(held)
        while end - at >= 4:
            (length,) = unpack(held, at)
            if length < 0 or at + 4 + length > end:
                break
            at += 4 + length
            records.append(held[at - length : at])
        if at:
            sound = sound and held.find(_REPLACED, 0, at) < 0
            stream.read(at)
        else:  # a record larger than what the buffer holds, a null, or the end
            length = _next_length(stream)
            if length is None:
                break
            record = None if length == SpecialLengths.NULL else stream.read(length)
            sound = sound and record is not None and _REPLACED not in record
            records.append(record)
        if len(records) >= 256:
            yield _decoded(records, use_unicode), _measured(records, sound)
            records, sound = [], True
    if records:
        yield _decoded(records, use_unicode), _measured(records, sound)


def _measured(records: list[Any], sound: bool) -> Measure:
    if not sound:
        return Measure([(len(records), -1)])
    pieces = (records[at : at + _MEASURED] for at in range(0, len(records), _MEASURED))
    return Measure([(len(some), sum(map(len, some))) for some in pieces])


def _decoded(records: list[Any], use_unicode: bool) -> list[Any]:
    if not use_unicode:
        return records
    return [r if r is None else str(r, "utf-8") for r in records]


class PairReader(Serializer):
    """Two streams of batches, met by Spark's zip or cartesian product."""

    def __init__(self, left: Tagged, right: Tagged, product: bool) -> None:
        self.left, self.right, self.product = left, right, product

    def load_stream(self, stream: IO[bytes]) -> Iterator[Chunk]:
        for (a, tag_a), (b, tag_b) in zip(self.left.chunks(stream), self.right.chunks(stream), strict=False):
            assert isinstance(tag_a, Tag)
            assert isinstance(tag_b, Tag)
            if not self.product and len(a) != len(b):
                raise ValueError(
                    f"Can not deserialize PairRDD with different number of items in batches: ({len(a)}, {len(b)})"
                )
            yield [a, b, self.product], (tag_a, tag_b)
