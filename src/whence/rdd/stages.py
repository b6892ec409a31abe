"""Driver side: what a stage reads (a base), what it does (steps), and the Spark RDD that runs it under capture."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import RDD
from pyspark.serializers import (
    BatchedSerializer,
    CartesianDeserializer,
    PairDeserializer,
    Serializer,
)

from whence.rdd.barriers import Barrier
from whence.rdd.narrow import Enumerate, Map, MapValues, Narrow, Sample
from whence.rdd.wire import PairReader, Reader, Tagged
from whence.rdd.worker import Segment, Shuffle
from whence.spark import rdds
from whence.spark.names import PipelinedRDD, _wrap_function

if TYPE_CHECKING:
    from whence.rdd.context import LineageContext

T = TypeVar("T")


@dataclass(eq=False)
class Node:
    """One RDD of the program. Hidden ones are steps inside a composite such as `distinct`."""

    id: int
    name: str
    inputs: tuple[Node, ...] = ()
    hidden: bool = False
    source: bool = False
    alias: Node | None = None  # a hidden one-to-one step: its positions are those of this node

    @property
    def shown(self) -> int | None:
        """The id of the visible node whose positions these are."""
        if not self.hidden:
            return self.id
        return self.alias.shown if self.alias is not None else None


@dataclass(frozen=True)
class Step:
    op: Narrow | Barrier
    node: Node


def bottom_up(top: T, inputs: Callable[[T], Iterable[T]], made: Callable[[T], bool]) -> None:
    """Make `top` after all that it is made from. `made` makes one, if what it needs is there, and says whether it is.

    A loop: a program may have more steps than Python's stack has frames."""
    under = [top]
    while under:
        if made(under[-1]):
            under.pop()
        else:
            under.extend(inputs(under[-1]))


@dataclass(eq=False)
class Base:
    """What a stage reads. `build` gives the Java RDD under capture, once."""

    node: Node
    build: Callable[[], Any]
    deserializer: Serializer
    sources: Callable[[], list[tuple[int, int]]] | None = None  # for records without tags
    prelude: Callable[[int, Any], Any] | None = None
    pair: bool = False  # zip or cartesian: the node's records are pairs that Spark put together
    batch: int = 0  # what plain PySpark would batch by; the order of a cartesian product depends on it
    plain: RDD[Any] | None = None
    before: tuple[Base, ...] = ()  # what `build` builds upon
    _jrdd: Any = field(default=None)

    @property
    def jrdd(self) -> Any:
        bottom_up(self, lambda base: base.before, Base._built)
        return self._jrdd

    def _built(self) -> bool:
        if self._jrdd is None and all(base._jrdd is not None for base in self.before):
            self._jrdd = self.build()
        return self._jrdd is not None

    @property
    def reader(self) -> Serializer:
        if self.prelude is not None:
            return self.deserializer
        if isinstance(self.deserializer, (CartesianDeserializer, PairDeserializer)) and self.pair:
            return PairReader(
                self.deserializer.key_ser,
                self.deserializer.val_ser,
                isinstance(self.deserializer, CartesianDeserializer),
            )
        return Reader(self.deserializer)

    @property
    def tagged(self) -> bool:
        return isinstance(self.deserializer, Tagged)


def source_base(node: Node, plain: RDD[Any]) -> Base:
    under: PipelinedRDD[Any, Any] | None = None
    if isinstance(plain, PipelinedRDD) and plain._is_pipelinable() and not plain._is_barrier():
        under = plain
    return Base(
        node=node,
        build=lambda: under._prev_jrdd if under is not None else plain._jrdd,
        deserializer=under._prev_jrdd_deserializer if under is not None else plain._jrdd_deserializer,
        sources=lambda: [(node.id, i) for i in range(plain.getNumPartitions())],
        prelude=under.func if under is not None else None,
        batch=batch_of(plain._jrdd_deserializer),
        plain=plain,
    )


def batch_of(serializer: Serializer) -> int:
    if isinstance(serializer, Tagged):
        return serializer.batchSize
    return serializer.batchSize if isinstance(serializer, BatchedSerializer) else 1


def segments(steps: tuple[Step, ...], base: Node, fine: bool = False) -> list[Segment]:
    """Narrow steps are fused; what counts records (sampling, numbering) starts a segment of its own, so that it can be
    run again on some of its records. `fine`: nothing is fused, so that every step has a space of its own."""
    found: list[Segment] = []
    narrow: list[Narrow] = []
    last = base
    for step in steps:
        if isinstance(step.op, Barrier):
            found.append(Segment(narrow, last.shown, step.op, step.node.shown))
            narrow = []
        else:
            counting = (Sample, Enumerate)
            if narrow and (fine or isinstance(step.op, counting) or isinstance(narrow[-1], counting)):
                found.append(Segment(narrow, last.shown, None, None))
                narrow = []
            narrow.append(step.op)
        last = step.node
    if narrow:
        found.append(Segment(narrow, last.shown, None, None))
    return found


def one_to_one(op: Narrow | Barrier) -> bool:
    return isinstance(op, (Map, MapValues, Enumerate))


@dataclass(eq=False)
class StageInfo:
    """A stage as the driver knows it. `node`: whose records leave it; None inside a shuffle."""

    id: int
    base: Base
    steps: tuple[Step, ...]
    node: Node | None
    partitions: int
    segments: list[Segment]
    shuffle: Shuffle | None = None
    reads: tuple[tuple[int, int], ...] = ()  # of each partition: which partition of which source it reads


class View(PipelinedRDD[Any, Any]):
    """A plain RDD over a captured stage: everything PySpark builds on it is plain, and its associations are written."""

    def __init__(
        self,
        ctx: Any,
        prev_jrdd: Any,
        reader: Serializer,
        func: Callable[[int, Any], Any],
        serializer: Serializer,
        preserves: bool,
        barrier: bool,
        partitioner: Any,
    ) -> None:
        self.func = func
        self.preservesPartitioning = preserves
        self._prev_jrdd = prev_jrdd
        self._prev_jrdd_deserializer = reader
        self.is_cached = False
        self.has_resource_profile = False
        self.is_checkpointed = False
        self.ctx = ctx
        self._jrdd_val = None
        self._id = None
        self._jrdd_deserializer = serializer
        self._bypass_serializer = False
        self.partitioner = partitioner
        self.is_barrier = barrier

    def running(self, func: Callable[[int, Any], Any]) -> View:
        """The same with another function."""
        return View(
            self.ctx,
            self._prev_jrdd,
            self._prev_jrdd_deserializer,
            func,
            self._jrdd_deserializer,
            self.preservesPartitioning,
            self.is_barrier,
            self.partitioner,
        )


def flat_view(context: LineageContext, jrdd: Any, deserializer: Serializer, partitioner: Any) -> RDD[Any]:
    plain: RDD[Any] = RDD(jrdd, context.spark, deserializer)
    plain.partitioner = partitioner
    return plain


def python_rdd(
    context: LineageContext, prev: Any, func: Any, reader: Any, out: Any, preserves: bool, barrier: bool
) -> Any:
    wrapped = _wrap_function(context.spark, func, reader, out)
    return rdds.python_rdd(context.spark, prev.rdd(), wrapped, preserves, barrier)
