"""Narrow transformations of LineageRDDs: each adds a step to a chain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from pyspark import RDD
from pyspark.rddsampler import RDDSamplerBase, RDDStratifiedSampler

from whence.rdd.barriers import Barrier, Opaque
from whence.rdd.narrow import Enumerate, Filter, FlatMap, FlatMapValues, Map, MapValues, Narrow, Sample
from whence.rdd.physical import Computed
from whence.rdd.stages import Base, Step, one_to_one
from whence.spark.names import Partitioner, PipelinedRDD

if TYPE_CHECKING:
    from whence.rdd.lineage_rdd import LineageRDD

_OPAQUE_NOTE = (
    "{name}: the function sees the whole partition, so each of its outputs is taken to come from every record it had "
    "read by then"
)


class Chained(Computed):
    @property
    def _own(self) -> LineageRDD:
        """Itself: every RDD that is made is a LineageRDD."""
        return cast("LineageRDD", self)

    def _made(
        self,
        base: Base,
        steps: tuple[Step, ...],
        twin: Callable[[], RDD[Any]],
        partitioner: Partitioner | None = None,
        preserves: bool = True,
        barrier: bool = False,
        inputs: tuple[LineageRDD, ...] | None = None,
    ) -> LineageRDD:
        from whence.rdd.lineage_rdd import LineageRDD  # which is made of this class

        of = (self._own,) if inputs is None else inputs
        return LineageRDD(self.ctx, base, steps, twin, partitioner, preserves, barrier, of)

    def _then(
        self,
        op: Narrow | Barrier,
        name: str,
        plain: Callable[[], RDD[Any]],
        preserves: bool,
        barrier: bool = False,
        inputs: tuple[LineageRDD, ...] | None = None,
    ) -> LineageRDD:
        base, steps = self._chain()
        node = self.ctx.book.new_node(name, (self.node,))
        if one_to_one(op):
            node.alias = self.node
        if isinstance(op, Opaque) and not op.exact:
            op.note = _OPAQUE_NOTE.format(name=self.ctx.book.label(name))
        keeps = preserves and (self.preservesPartitioning if steps else True)
        return self._made(
            base,
            (*steps, Step(op, node)),
            plain,
            self.partitioner if preserves else None,
            keeps,
            barrier or self.is_barrier,
            inputs,
        )

    def map(self, f: Callable[[Any], Any], preservesPartitioning: bool = False) -> LineageRDD:
        return self._then(
            Map(f), "map", lambda: RDD.map(self._plain(), f, preservesPartitioning), preservesPartitioning
        )

    def flatMap(self, f: Callable[[Any], Iterable[Any]], preservesPartitioning: bool = False) -> LineageRDD:
        return self._then(
            FlatMap(f), "flatMap", lambda: RDD.flatMap(self._plain(), f, preservesPartitioning), preservesPartitioning
        )

    def filter(self, f: Callable[[Any], Any]) -> LineageRDD:
        return self._then(Filter(f), "filter", lambda: RDD.filter(self._plain(), f), True)

    def mapValues(self, f: Callable[[Any], Any]) -> LineageRDD:
        return self._then(MapValues(f), "mapValues", lambda: RDD.mapValues(self._plain(), f), True)

    def flatMapValues(self, f: Callable[[Any], Iterable[Any]]) -> LineageRDD:
        return self._then(FlatMapValues(f), "flatMapValues", lambda: RDD.flatMapValues(self._plain(), f), True)

    def mapPartitionsWithIndex(
        self, f: Callable[[int, Any], Iterable[Any]], preservesPartitioning: bool = False
    ) -> LineageRDD:
        return self._over_partition(f, preservesPartitioning, "mapPartitionsWithIndex")

    def _over_partition(self, f: Any, preserves: bool, name: str, barrier: bool = False) -> LineageRDD:
        sampler = getattr(f, "__self__", None)
        if isinstance(sampler, RDDSamplerBase):
            op: Narrow | Barrier = Sample(sampler, isinstance(sampler, RDDStratifiedSampler))
            name = "sample"
        else:
            op = Opaque(f)

        def plain() -> RDD[Any]:
            return PipelinedRDD(self._plain(), f, preserves, isFromBarrier=barrier)

        return self._then(op, name, plain, preserves, barrier)

    def mapPartitions(self, f: Callable[[Any], Iterable[Any]], preservesPartitioning: bool = False) -> LineageRDD:
        def function(_: int, records: Any) -> Any:
            return f(records)

        return self._over_partition(function, preservesPartitioning, "mapPartitions")

    def glom(self) -> LineageRDD:
        def together(_: int, records: Iterator[Any]) -> Iterator[list[Any]]:
            yield list(records)

        return self._then(Opaque(together, exact=True), "glom", lambda: RDD.glom(self._plain()), False)

    def pipe(self, command: str, env: dict[str, str] | None = None, checkCode: bool = False) -> LineageRDD:
        with self.ctx.book.naming("pipe"):
            piped: LineageRDD = super().pipe(command, env, checkCode)  # type: ignore[assignment]
        piped.node.name = "pipe"
        return piped

    def zipWithIndex(self) -> LineageRDD:
        starts = [0]
        if self.getNumPartitions() > 1:
            counts = self._auxiliary_view().mapPartitions(lambda it: [sum(1 for _ in it)]).collect()
            for count in counts[:-1]:
                starts.append(starts[-1] + count)
        return self._then(Enumerate(starts, 1), "zipWithIndex", lambda: RDD.zipWithIndex(self._plain()), False)

    def zipWithUniqueId(self) -> LineageRDD:
        n = self.getNumPartitions()
        return self._then(
            Enumerate(list(range(n)), n), "zipWithUniqueId", lambda: RDD.zipWithUniqueId(self._plain()), False
        )
