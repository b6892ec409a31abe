"""The two ways in which a LineageRDD is computed.

Its *twin* is the RDD that plain PySpark would have made; it serves when capture is off. Under capture it is a base and
a chain of steps, which become one Python stage.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from pyspark import RDD, StorageLevel

from whence.rdd.stages import Base, Node, StageInfo, Step, View, batch_of, bottom_up, flat_view, python_rdd, segments
from whence.rdd.wire import Origin, Tagged
from whence.rdd.worker import Segment, Shuffle, Stage, without_lineage
from whence.spark.names import Partitioner, PipelinedRDD

if TYPE_CHECKING:
    from whence.rdd.context import LineageContext


P = ParamSpec("P")
T = TypeVar("T")


def _one_at_a_time(make: Callable[Concatenate[Computed, P], T]) -> Callable[Concatenate[Computed, P], T]:
    """What is made when first asked for is made once, whichever threads ask: two stages that stand for one RDD would
    each have half of its tables."""

    @wraps(make)
    def made(rdd: Computed, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with rdd.ctx.book.making:
            return make(rdd, *args, **kwargs)

    return made


class Computed(PipelinedRDD[Any, Any]):
    """How a LineageRDD is computed; its methods are in `lineage_rdd`."""

    ctx: LineageContext

    def __init__(
        self,
        context: LineageContext,
        base: Base,
        steps: tuple[Step, ...],
        twin: Callable[[], RDD[Any]],
        partitioner: Partitioner | None = None,
        preserves: bool = True,
        barrier: bool = False,
        inputs: tuple[Computed, ...] = (),
    ) -> None:
        self.ctx = context
        self._base, self._steps = base, steps
        self._make_twin = twin
        self._inputs = inputs  # whose twins this one's is made of
        self._twin: RDD[Any] | None = None
        self._tagged: dict[int, Any] = {}
        self._view: RDD[Any] | None = None
        self._view_stage: StageInfo | None = None
        self._tagged_stage: StageInfo | None = None
        self._aux: RDD[Any] | None = None
        self._recorder: tuple[StageInfo, View] | None = None
        self._storage: StorageLevel | None = None
        self._own_base: Base | None = None
        self._given_id: int | None = None
        self._fine = False  # a table with a space for every step, for traces that stop or start inside a chain
        self.is_cached = False
        self.is_checkpointed = False
        self.has_resource_profile = False
        self.is_barrier = barrier
        self.partitioner = partitioner
        self.preservesPartitioning = preserves
        self._bypass_serializer = False

    @property
    def node(self) -> Node:
        return self._steps[-1].node if self._steps else self._base.node

    # The two ways to be computed

    def _has_twin(self) -> bool:
        if self._twin is None and all(below._twin is not None for below in self._inputs):
            self._twin = self._make_twin()
            if self._storage is not None and not self._twin.is_cached:
                self._twin.persist(self._storage)
        return self._twin is not None

    @_one_at_a_time
    def _plain(self) -> RDD[Any]:
        instead = self.ctx.book.instead.get()
        if instead is not None:
            return instead.twin(self)
        bottom_up(self, lambda made: made._inputs, Computed._has_twin)
        assert self._twin is not None
        return self._twin

    def _pinned(self) -> bool:
        return self.is_cached or self.is_checkpointed or self.has_resource_profile

    def _is_pipelinable(self) -> bool:
        return False  # for PySpark's own code; under capture `_chain` decides

    def _is_barrier(self) -> bool:
        return self.is_barrier

    @_one_at_a_time
    def _chain(self) -> tuple[Base, tuple[Step, ...]]:
        """What a further step is added to: this RDD's steps, or its materialised records."""
        if not self._pinned() or (not self._steps and not self._base.tagged):
            return self._base, self._steps
        if self._own_base is None:
            self._own_base = Base(self.node, lambda: self._tagged_jrdd(0), Tagged(), before=(self._base,))
        return self._own_base, ()

    def _stage(self, steps: tuple[Step, ...], node: Node | None, out: str, shuffle: Shuffle | None) -> Any:
        """(function, Java RDD before it, reader) of a captured stage, and its entry in the context's books."""
        context, base = self.ctx, self._base
        jrdd = base.jrdd
        made = segments(steps, base.node, self._fine)
        info = context.book.new_stage(base, steps, node, jrdd.partitions().size(), made, shuffle)
        if context.book.carriers is not None:
            jrdd = context.book.carriers.before(jrdd, info.id)
        return info, self._described(info.id, made, out, shuffle), jrdd, base.reader

    def _described(self, number: int, made: list[Segment], out: str, shuffle: Shuffle | None) -> Stage:
        context, base = self.ctx, self._base
        return Stage(
            number,
            context.book.written_to,
            base.sources() if base.sources is not None else None,
            base.prelude,
            made,
            out,
            shuffle,
            context.book.commits,
            base.node.id if base.pair else None,
            None if base.pair or base.node.source else base.node.shown,
        )

    @_one_at_a_time
    def _tagged_jrdd(self, batch: int) -> Any:
        """The records as tagged batches, for another stage to read."""
        if not self._steps and self._base.tagged and batch == batch_of(self._base.deserializer):
            return self._base.jrdd
        if self._pinned() and batch == 0 and 0 in self._tagged:
            return self._tagged[0]
        if batch not in self._tagged:
            if self._pinned() and batch:
                base, _ = self._chain()
                view = Computed(self.ctx, base, (), self._plain, self.partitioner)
                self._tagged[batch] = view._tagged_jrdd(batch)
                return self._tagged[batch]
            info, stage, prev, reader = self._stage(self._steps, self.node, "tagged", None)
            if batch == 0:
                self._tagged_stage = info
            jrdd = python_rdd(self.ctx, prev, stage, reader, Tagged(batch), self.preservesPartitioning, self.is_barrier)
            if batch == 0 and self._storage is not None:
                jrdd.persist(self.ctx._getJavaStorageLevel(self._storage))
            self._tagged[batch] = jrdd
        return self._tagged[batch]

    @_one_at_a_time
    def _physical(self) -> Any:
        """The Java RDD that stands for this one under capture."""
        if self._pinned() and (self._steps or self._base.tagged):
            return self._tagged_jrdd(0)
        if not self._steps:
            return self._base.plain._jrdd if self._base.prelude is not None and self._base.plain else self._base.jrdd
        return self._captured_view()._jrdd

    @property
    def _jrdd(self) -> Any:
        return self._physical() if self.ctx.capturing else self._plain()._jrdd

    @property
    def _jrdd_deserializer(self) -> Any:  # type: ignore[override]
        if not self.ctx.capturing:
            return self._plain()._jrdd_deserializer
        if self._pinned() and (self._steps or self._base.tagged):
            return Tagged()
        if not self._steps:
            base = self._base
            return base.plain._jrdd_deserializer if base.prelude is not None and base.plain else base.deserializer
        return self.ctx.serializer

    @property
    def func(self) -> Any:  # type: ignore[override]
        plain = self._plain()
        if isinstance(plain, PipelinedRDD):
            return plain.func
        return lambda _, records: records

    @_one_at_a_time
    def _captured_view(self) -> RDD[Any]:
        """A plain RDD whose evaluation writes this RDD's associations."""
        if self._view is None:
            if not self._steps and not self._pinned() and self._base.plain is not None:
                self._view = self._base.plain
            elif not self._steps or self._pinned():
                self._view = flat_view(self.ctx, self._physical(), self._jrdd_deserializer, self.partitioner)
            else:
                info, stage, prev, reader = self._stage(self._steps, self.node, "records", None)
                self._view_stage = info
                self._view = View(
                    self.ctx.spark,
                    prev,
                    reader,
                    stage,
                    self.ctx.serializer,
                    self.preservesPartitioning,
                    self.is_barrier,
                    self.partitioner,
                )
        return self._view

    def _committed_stage(self) -> StageInfo | None:
        """The stage whose tables hold this RDD's lineage, if anything ran it."""
        made = [self._view_stage, self._recorder[0] if self._recorder is not None else None, self._tagged_stage]
        return next((info for info in made if info is not None), None)

    @_one_at_a_time
    def _recording_view(self) -> tuple[StageInfo, View]:
        """Like the captured view, but with a table of its own even where there is nothing to run."""
        if self._steps and not self._pinned():
            view = self._captured_view()
            assert self._view_stage is not None
            assert isinstance(view, View)
            return self._view_stage, view
        if self._recorder is not None:
            return self._recorder
        base, _ = self._chain()
        reading = Computed(self.ctx, base, (), self._plain, self.partitioner)
        info, stage, prev, reader = reading._stage((), self.node, "records", None)
        view = View(self.ctx.spark, prev, reader, stage, self.ctx.serializer, True, self.is_barrier, self.partitioner)
        self._recorder = info, view
        return self._recorder

    @_one_at_a_time
    def _again_view(self, order: dict[int, list[tuple[Origin, int, int]]]) -> RDD[Any]:
        """The same records once more, with nothing written, from inputs in the order of an earlier run."""
        stage = self._described(-1, segments(self._steps, self._base.node), "records", None)
        stage.forget = True
        if self._base.tagged:
            stage.order = order
        base = self._base
        return View(self.ctx.spark, base.jrdd, base.reader, stage, self.ctx.serializer, True, self.is_barrier, None)

    @_one_at_a_time
    def _auxiliary_view(self) -> RDD[Any]:
        """A plain RDD over this one's captured inputs that writes nothing for the last stage: for jobs which look at
        the data while a transformation is defined, and for actions that stop early."""
        if not self.ctx.capturing:
            return self._plain()
        if not self._steps or self._pinned():
            return self._captured_view()
        if self._aux is None:
            jrdd, deserializer = self._base.jrdd, self._base.deserializer
            if self._base.prelude is not None:
                under: RDD[Any] = self._base.plain  # type: ignore[assignment]
            else:
                under = flat_view(self.ctx, jrdd, deserializer, None)
            plain_function = _plain_function(self._steps)
            self._aux = PipelinedRDD(under, plain_function, self.preservesPartitioning)
            self._aux.is_barrier = self.is_barrier
            self._aux.partitioner = self.partitioner
        return self._aux

    # Properties of PySpark's RDDs

    @_one_at_a_time
    def id(self) -> int:
        if self._given_id is None:
            self._given_id = self._jrdd.id()
        return self._given_id

    def __repr__(self) -> str:
        return str(self._jrdd.toString())

    @_one_at_a_time
    def getNumPartitions(self) -> int:
        if not self.ctx.capturing:
            return self._plain().getNumPartitions()
        size: int = self._base.jrdd.partitions().size()
        return size

    def persist(self, storageLevel: StorageLevel = StorageLevel.MEMORY_ONLY) -> Any:
        self.is_cached = True
        self._storage = storageLevel
        self._forget_views()
        if self.ctx.capturing:
            self._jrdd.persist(self.ctx._getJavaStorageLevel(storageLevel))
        elif not self._plain().is_cached:
            self._plain().persist(storageLevel)  # which also keeps PySpark from fusing over it
        return self

    def unpersist(self, blocking: bool = False) -> Any:
        self._jrdd.unpersist(blocking)
        self.is_cached = False
        self._storage = None
        self._forget_views()
        return self

    def _forget_views(self) -> None:
        self._view = self._view_stage = self._aux = self._recorder = None

    def checkpoint(self) -> None:
        self.is_checkpointed = True
        self._forget_views()
        if self.ctx.capturing:
            self._jrdd.rdd().checkpoint()
        else:
            self._plain().checkpoint()

    def localCheckpoint(self) -> None:
        self.is_checkpointed = True
        self._forget_views()
        if self.ctx.capturing:
            self._jrdd.rdd().localCheckpoint()
        else:
            self._plain().localCheckpoint()

    def withResources(self, profile: Any) -> Any:
        self.has_resource_profile = True
        self._forget_views()
        RDD.withResources(self, profile)
        return self

    def _reserialize(self, serializer: Any = None) -> RDD[Any]:
        view = self._captured_view() if self.ctx.capturing else self._plain()
        return RDD._reserialize(view, serializer)


def _plain_function(steps: tuple[Step, ...]) -> Callable[[int, Any], Any]:
    """The steps over flat records, associations thrown away."""
    made = segments(steps, Node(-1, "", ()))
    return without_lineage(made)
