"""LineageRDD: every method of an RDD, with its lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import RDD, RDDBarrier
from pyspark.serializers import CartesianDeserializer, PairDeserializer

from whence.rdd import actions
from whence.rdd.regroup import Regrouped
from whence.rdd.stages import Base, batch_of
from whence.rdd.wire import Tagged

if TYPE_CHECKING:
    from whence.rdd.multiplicity import Multiplicity
    from whence.rdd.trace import Traced


class LineageRDD(Regrouped):
    def barrier(self) -> RDDBarrier[Any]:
        return _Barrier(self)

    # What Spark does with whole batches

    def union(self, other: RDD[Any]) -> LineageRDD:
        return self.ctx._union([self, self.ctx._lineage(other)], pairwise=True)

    def coalesce(self, numPartitions: int, shuffle: bool = False) -> LineageRDD:
        if not numPartitions > 0:
            raise ValueError("Number of partitions must be positive.")
        batch = min(10, self.ctx._batchSize or 1024) if shuffle else self._plain_batch()
        node = self.ctx.book.new_node("repartition" if shuffle else "coalesce", (self.node,))
        if batch < 0:
            batch = 0
        base = Base(
            node,
            lambda: self._tagged_jrdd(batch).coalesce(numPartitions, shuffle),
            Tagged(batch),
            batch=batch,
            before=(self._base,),
        )
        return self._made(base, (), lambda: RDD.coalesce(self._plain(), numPartitions, shuffle))

    def _plain_batch(self) -> int:
        """By how many records plain PySpark would batch this RDD; -1: as they were shuffled."""
        if self._steps or self._pinned():
            return batch_of(self.ctx.serializer)
        return self._base.batch

    def cartesian(self, other: RDD[Any]) -> LineageRDD:
        right = self.ctx._lineage(other)
        batches = (self._plain_batch(), right._plain_batch())
        node = self.ctx.book.new_node("cartesian", (self.node, right.node))

        def build() -> Any:
            left_jrdd, right_jrdd = (
                r._base.jrdd if b < 0 else r._tagged_jrdd(b) for r, b in zip((self, right), batches, strict=True)
            )
            return left_jrdd.cartesian(right_jrdd)

        met = CartesianDeserializer(Tagged(batches[0]), Tagged(batches[1]))  # type: ignore[no-untyped-call]
        base = Base(node, build, met, pair=True, batch=1, before=(self._base, right._base))
        return self._made(base, (), lambda: RDD.cartesian(self._plain(), right._plain()), inputs=(self, right))

    def zip(self, other: RDD[Any]) -> LineageRDD:
        right = self.ctx._lineage(other)
        mine, theirs = self._plain_batch(), right._plain_batch()
        batch = mine
        if mine != theirs or not mine:
            batch = min(mine, theirs)
            if batch <= 0:
                batch = 100
        if self.getNumPartitions() != right.getNumPartitions():
            raise ValueError("Can only zip with RDD which has the same number of partitions")
        node = self.ctx.book.new_node("zip", (self.node, right.node))
        if batch < 0:
            batch = 100
        base = Base(
            node,
            lambda: self._tagged_jrdd(batch).zip(right._tagged_jrdd(batch)),
            PairDeserializer(Tagged(batch), Tagged(batch)),  # type: ignore[no-untyped-call]
            pair=True,
            batch=1,
            before=(self._base, right._base),
        )
        return self._made(base, (), lambda: RDD.zip(self._plain(), right._plain()), inputs=(self, right))

    # To DataFrames

    def _to_java_object_rdd(self) -> Any:
        """What `toDF` and `createDataFrame` put below a DataFrame: its rows are this RDD's records, in its order."""
        made = RDD._to_java_object_rdd(self)
        if self.ctx.capturing:
            self.ctx.book.handed[int(made.id())] = self
            self.ctx.book.handed_nodes.add(self.node.id)
        return made

    # Tracing

    def getLineage(self) -> Traced:
        from whence.rdd.trace import Traced

        return Traced.start(self)

    def multiplicities(self, bad: Any = None, good: Any = ()) -> list[Multiplicity]:
        """How many outputs each input of every operator on the way to this RDD had, partition by partition."""
        from whence.rdd.multiplicity import multiplicities

        return multiplicities(self, bad, good)


class _Barrier(RDDBarrier[Any]):
    rdd: LineageRDD

    def mapPartitions(self, f: Any, preservesPartitioning: bool = False) -> Any:
        def function(_: int, records: Any) -> Any:
            return f(records)

        return self.rdd._over_partition(function, preservesPartitioning, "mapPartitions", barrier=True)

    def mapPartitionsWithIndex(self, f: Any, preservesPartitioning: bool = False) -> Any:
        return self.rdd._over_partition(f, preservesPartitioning, "mapPartitionsWithIndex", barrier=True)


actions.add_to(LineageRDD)
