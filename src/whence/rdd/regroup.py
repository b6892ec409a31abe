"""Transformations of LineageRDDs that shuffle: combiners, groupings, joins, sorts."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark import RDD
from pyspark.serializers import NoOpSerializer
from pyspark.traceback_utils import SCCallSiteSync

from whence.rdd.barriers import Barrier, Combine, Group, GroupMerge, Meet, Sort
from whence.rdd.chains import Chained
from whence.rdd.stages import Base, Node, Step, python_rdd
from whence.rdd.wire import Tagged
from whence.rdd.worker import Shuffle
from whence.spark.names import Partitioner, portable_hash
from whence.spark.rdds import shuffled

if TYPE_CHECKING:
    from whence.rdd.lineage_rdd import LineageRDD


class Regrouped(Chained):
    def _shuffle(
        self,
        sides: list[tuple[LineageRDD, Barrier | None]],
        partitions: int,
        function: Callable[[Any], int],
        node: Node,
        elements: bool,
        numbered: bool,
    ) -> Base:
        memory = self._memory_limit()

        def build() -> Any:
            keyed = []
            for number, (side, combiner) in enumerate(sides):
                base, steps = side._chain()
                chain = self._made(base, steps, side._plain, preserves=side.preservesPartitioning)
                if combiner is not None:
                    inner = Node(-1, "combine", (side.node,), hidden=True)
                    steps = (*steps, Step(combiner, inner))
                plan = Shuffle(partitions, function, memory, number if numbered else None, elements)
                _, stage, prev, reader = chain._stage(steps, None, "shuffle", plan)
                keyed.append(
                    python_rdd(
                        self.ctx, prev, stage, reader, NoOpSerializer(), side.preservesPartitioning, side.is_barrier
                    )
                )
            with SCCallSiteSync(self.ctx.spark):  # type: ignore[no-untyped-call]
                return shuffled(self.ctx.spark, keyed, partitions, function)

        return Base(node, build, Tagged(), batch=-1, before=tuple(side._base for side, _ in sides))

    def partitionBy(self, numPartitions: int | None, partitionFunc: Callable[[Any], int] = portable_hash) -> LineageRDD:
        partitions = self._defaultReducePartitions() if numPartitions is None else numPartitions
        partitioner = Partitioner(partitions, partitionFunc)
        if self.partitioner == partitioner:
            return self._own
        node = self.ctx.book.new_node("partitionBy", (self.node,))
        base = self._shuffle([(self._own, None)], partitions, partitionFunc, node, elements=False, numbered=False)
        return self._made(base, (), lambda: RDD.partitionBy(self._plain(), numPartitions, partitionFunc), partitioner)

    def _regrouped(
        self,
        name: str,
        before: Barrier,
        after: Barrier,
        numPartitions: int | None,
        function: Any,
        plain: Any,
        elements: bool,
    ) -> LineageRDD:
        partitions = self._defaultReducePartitions() if numPartitions is None else numPartitions
        partitioner = Partitioner(partitions, function)
        if self.partitioner == partitioner:  # every key is in one place already: one grouping is enough
            alone = Group(self._memory_limit(), final=True) if isinstance(before, Group) else before
            return self._then(alone, name, plain, True)
        node = self.ctx.book.new_node(name, (self.node,))
        between = Node(-1, "shuffle", (self.node,), hidden=True)
        base = self._shuffle([(self._own, before)], partitions, function, between, elements, numbered=False)
        return self._made(base, (Step(after, node),), plain, partitioner)

    def combineByKey(
        self,
        createCombiner: Callable[[Any], Any],
        mergeValue: Callable[[Any, Any], Any],
        mergeCombiners: Callable[[Any, Any], Any],
        numPartitions: int | None = None,
        partitionFunc: Callable[[Any], int] = portable_hash,
    ) -> LineageRDD:
        memory = self._memory_limit()
        functions = (createCombiner, mergeValue, mergeCombiners)
        return self._regrouped(
            "combineByKey",
            Combine(functions, memory * 0.9, merging=False),
            Combine(functions, memory, merging=True),
            numPartitions,
            partitionFunc,
            lambda: RDD.combineByKey(self._plain(), *functions, numPartitions, partitionFunc),
            elements=False,
        )

    def groupByKey(
        self, numPartitions: int | None = None, partitionFunc: Callable[[Any], int] = portable_hash
    ) -> LineageRDD:
        memory = self._memory_limit()
        return self._regrouped(
            "groupByKey",
            Group(memory * 0.9),
            GroupMerge(memory),
            numPartitions,
            partitionFunc,
            lambda: RDD.groupByKey(self._plain(), numPartitions, partitionFunc),
            elements=True,
        )

    def _meet(
        self,
        kind: str,
        name: str,
        others: tuple[RDD[Any], ...],
        numPartitions: int | None,
        plain: Callable[..., RDD[Any]],
    ) -> LineageRDD:
        sides = [self._own, *(self.ctx._lineage(o) for o in others)]
        memory = self._memory_limit()

        def twin() -> RDD[Any]:
            return plain(*(s._plain() for s in sides))

        aware = any(a.partitioner is not None and a.partitioner == b.partitioner for a, b in pairwise(sides))
        if aware:
            return self._meet_aware(kind, name, sides, numPartitions, twin)
        if numPartitions is not None:
            partitions = numPartitions
        elif self.ctx._conf.contains("spark.default.parallelism"):
            partitions = self.ctx.defaultParallelism
        else:
            partitions = sum(s.getNumPartitions() for s in sides)
        node = self.ctx.book.new_node(name, tuple(s.node for s in sides))
        between = Node(-1, "shuffle", node.inputs, hidden=True)
        base = self._shuffle(
            [(s, Group(memory * 0.9)) for s in sides], partitions, portable_hash, between, elements=True, numbered=True
        )
        partitioner = Partitioner(partitions, portable_hash)
        step = Step(Meet(kind, len(sides), memory), node)
        return self._made(base, (step,), twin, partitioner, inputs=tuple(sides))

    def _meet_aware(self, kind: str, name: str, sides: list[LineageRDD], n: int | None, twin: Any) -> LineageRDD:
        """Inputs that are partitioned alike: Spark's union keeps the partitions; there may be nothing to shuffle."""
        memory = self._memory_limit()
        node = self.ctx.book.new_node(name, tuple(s.node for s in sides))
        with self.ctx.book.inside():
            together: LineageRDD = sides[0].mapValues(_numbered(0))
            for number, side in enumerate(sides[1:], 1):
                together = together.union(side.mapValues(_numbered(number)))
            partitions = together._defaultReducePartitions() if n is None else n
            partitioner = Partitioner(partitions, portable_hash)
        if together.partitioner == partitioner:
            met = together._then(Meet(kind, len(sides), memory, grouped=False), name, twin, True)
            steps = (*met._steps[:-1], Step(met._steps[-1].op, node))
            return self._made(met._base, steps, twin, partitioner, inputs=tuple(sides))
        between = Node(-1, "shuffle", node.inputs, hidden=True)
        base = self._shuffle(
            [(together, Group(memory * 0.9))], partitions, portable_hash, between, elements=True, numbered=False
        )
        step = Step(Meet(kind, len(sides), memory), node)
        return self._made(base, (step,), twin, partitioner, inputs=tuple(sides))

    def join(self, other: RDD[Any], numPartitions: int | None = None) -> LineageRDD:
        return self._meet("inner", "join", (other,), numPartitions, lambda a, b: RDD.join(a, b, numPartitions))

    def leftOuterJoin(self, other: RDD[Any], numPartitions: int | None = None) -> LineageRDD:
        return self._meet(
            "left", "leftOuterJoin", (other,), numPartitions, lambda a, b: RDD.leftOuterJoin(a, b, numPartitions)
        )

    def rightOuterJoin(self, other: RDD[Any], numPartitions: int | None = None) -> LineageRDD:
        return self._meet(
            "right", "rightOuterJoin", (other,), numPartitions, lambda a, b: RDD.rightOuterJoin(a, b, numPartitions)
        )

    def fullOuterJoin(self, other: RDD[Any], numPartitions: int | None = None) -> LineageRDD:
        return self._meet(
            "full", "fullOuterJoin", (other,), numPartitions, lambda a, b: RDD.fullOuterJoin(a, b, numPartitions)
        )

    def cogroup(self, other: RDD[Any], numPartitions: int | None = None) -> LineageRDD:
        return self._meet("cogroup", "cogroup", (other,), numPartitions, lambda a, b: RDD.cogroup(a, b, numPartitions))

    def groupWith(self, other: RDD[Any], *others: RDD[Any]) -> LineageRDD:
        return self._meet(
            "cogroup", "groupWith", (other, *others), None, lambda first, *rest: RDD.groupWith(first, *rest)
        )

    def subtractByKey(self, other: RDD[Any], numPartitions: int | None = None) -> LineageRDD:
        return self._meet(
            "subtract", "subtractByKey", (other,), numPartitions, lambda a, b: RDD.subtractByKey(a, b, numPartitions)
        )

    def sortByKey(
        self,
        ascending: bool | None = True,
        numPartitions: int | None = None,
        keyfunc: Callable[[Any], Any] = lambda x: x,
    ) -> LineageRDD:
        if numPartitions is None:
            numPartitions = self._defaultReducePartitions()

        def plain() -> RDD[Any]:
            return RDD.sortByKey(self._plain(), bool(ascending), numPartitions, keyfunc)

        sort = Sort(_key_of(keyfunc), not ascending, self._memory_limit())
        if numPartitions == 1:
            whole = self._own.coalesce(1) if self.getNumPartitions() > 1 else self._own
            return whole._then(sort, "sortByKey", plain, True, inputs=(self._own,))
        view = self._auxiliary_view()
        size = view.count()
        if not size:
            return self._own
        fraction = min(numPartitions * 20.0 / max(size, 1), 1.0)
        samples = view.sample(False, fraction, 1).map(lambda kv: kv[0]).collect()
        samples = sorted(samples, key=keyfunc)
        bounds = [samples[int(len(samples) * (i + 1) / numPartitions)] for i in range(numPartitions - 1)]
        last = numPartitions - 1

        def by_range(k: Any) -> int:
            p = bisect.bisect_left(bounds, keyfunc(k))
            return p if ascending else last - p

        with self.ctx.book.inside():
            spread = self.partitionBy(numPartitions, by_range)
            spread.node.alias = None
        return spread._then(sort, "sortByKey", plain, True, inputs=(self._own,))

    def repartitionAndSortWithinPartitions(
        self,
        numPartitions: int | None = None,
        partitionFunc: Callable[[Any], int] = portable_hash,
        ascending: bool = True,
        keyfunc: Callable[[Any], Any] = lambda x: x,
    ) -> LineageRDD:
        partitions = self._defaultReducePartitions() if numPartitions is None else numPartitions
        with self.ctx.book.inside():
            spread = self.partitionBy(partitions, partitionFunc)
        return spread._then(
            Sort(_key_of(keyfunc), not ascending, self._memory_limit()),
            "repartitionAndSortWithinPartitions",
            lambda: RDD.repartitionAndSortWithinPartitions(
                self._plain(), numPartitions, partitionFunc, ascending, keyfunc
            ),
            True,
            inputs=(self._own,),
        )


def _numbered(side: int) -> Callable[[Any], Any]:
    return lambda value: (side, value)


def _key_of(keyfunc: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda kv: keyfunc(kv[0])
