"""LineageRDD: every method of an RDD, with its lineage."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark import RDD
from pyspark.core.rdd import Partitioner, PipelinedRDD, RDDBarrier, portable_hash
from pyspark.rddsampler import RDDSamplerBase, RDDStratifiedSampler
from pyspark.serializers import CartesianDeserializer, NoOpSerializer, PairDeserializer
from pyspark.traceback_utils import SCCallSiteSync

from whence.rdd.barriers import Barrier, Combine, Group, GroupMerge, Meet, Opaque, Sort
from whence.rdd.narrow import Enumerate, Filter, FlatMap, FlatMapValues, Map, MapValues, Narrow, Sample
from whence.rdd.physical import Computed
from whence.rdd.stages import Base, Node, Step, batch_of, one_to_one, python_rdd, shuffled
from whence.rdd.wire import Tagged
from whence.rdd.worker import Shuffle

if TYPE_CHECKING:
    from whence.rdd.trace import Traced

_OPAQUE_NOTE = (
    "{name}: the function sees the whole partition, so each of its outputs is taken to come from every record it had "
    "read by then"
)


class LineageRDD(Computed):
    def barrier(self) -> RDDBarrier[Any]:
        return _Barrier(self)

    # Narrow transformations

    def _then(
        self, op: Narrow | Barrier, name: str, plain: Callable[[], RDD[Any]], preserves: bool, barrier: bool = False
    ) -> LineageRDD:
        base, steps = self._chain()
        node = self.ctx._new_node(name, (self.node,))
        if one_to_one(op):
            node.alias = self.node
        if isinstance(op, Opaque) and not op.exact:
            op.note = _OPAQUE_NOTE.format(name=self.ctx._label(name))
        keeps = preserves and (self.preservesPartitioning if steps else True)
        return LineageRDD(
            self.ctx,
            base,
            (*steps, Step(op, node)),
            plain,
            self.partitioner if preserves else None,
            keeps,
            barrier or self.is_barrier,
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
        with self.ctx._naming("pipe"):
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

    # Shuffles

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
                chain = LineageRDD(self.ctx, base, steps, side._plain, preserves=side.preservesPartitioning)
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
                return shuffled(self.ctx, keyed, partitions, function)

        return Base(node, build, Tagged(), batch=-1)

    def partitionBy(self, numPartitions: int | None, partitionFunc: Callable[[Any], int] = portable_hash) -> LineageRDD:
        partitions = self._defaultReducePartitions() if numPartitions is None else numPartitions
        partitioner = Partitioner(partitions, partitionFunc)
        if self.partitioner == partitioner:
            return self
        node = self.ctx._new_node("partitionBy", (self.node,))
        base = self._shuffle([(self, None)], partitions, partitionFunc, node, elements=False, numbered=False)
        return LineageRDD(
            self.ctx, base, (), lambda: RDD.partitionBy(self._plain(), numPartitions, partitionFunc), partitioner
        )

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
        node = self.ctx._new_node(name, (self.node,))
        between = Node(-1, "shuffle", (self.node,), hidden=True)
        base = self._shuffle([(self, before)], partitions, function, between, elements, numbered=False)
        return LineageRDD(self.ctx, base, (Step(after, node),), plain, partitioner)

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
        sides = [self, *(self.ctx._lineage(o) for o in others)]
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
        node = self.ctx._new_node(name, tuple(s.node for s in sides))
        between = Node(-1, "shuffle", node.inputs, hidden=True)
        base = self._shuffle(
            [(s, Group(memory * 0.9)) for s in sides], partitions, portable_hash, between, elements=True, numbered=True
        )
        partitioner = Partitioner(partitions, portable_hash)
        return LineageRDD(self.ctx, base, (Step(Meet(kind, len(sides), memory), node),), twin, partitioner)

    def _meet_aware(self, kind: str, name: str, sides: list[LineageRDD], n: int | None, twin: Any) -> LineageRDD:
        """Inputs that are partitioned alike: Spark's union keeps the partitions; there may be nothing to shuffle."""
        memory = self._memory_limit()
        node = self.ctx._new_node(name, tuple(s.node for s in sides))
        with self.ctx._inside():
            together: LineageRDD = sides[0].mapValues(_numbered(0))
            for number, side in enumerate(sides[1:], 1):
                together = together.union(side.mapValues(_numbered(number)))
            partitions = together._defaultReducePartitions() if n is None else n
            partitioner = Partitioner(partitions, portable_hash)
        if together.partitioner == partitioner:
            met = together._then(Meet(kind, len(sides), memory, grouped=False), name, twin, True)
            return LineageRDD(self.ctx, met._base, (*met._steps[:-1], Step(met._steps[-1].op, node)), twin, partitioner)
        between = Node(-1, "shuffle", node.inputs, hidden=True)
        base = self._shuffle(
            [(together, Group(memory * 0.9))], partitions, portable_hash, between, elements=True, numbered=False
        )
        return LineageRDD(self.ctx, base, (Step(Meet(kind, len(sides), memory), node),), twin, partitioner)

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
            whole: LineageRDD = self.coalesce(1) if self.getNumPartitions() > 1 else self
            return whole._then(sort, "sortByKey", plain, True)
        view = self._auxiliary_view()
        size = view.count()
        if not size:
            return self
        fraction = min(numPartitions * 20.0 / max(size, 1), 1.0)
        samples = view.sample(False, fraction, 1).map(lambda kv: kv[0]).collect()
        samples = sorted(samples, key=keyfunc)
        bounds = [samples[int(len(samples) * (i + 1) / numPartitions)] for i in range(numPartitions - 1)]
        last = numPartitions - 1

        def by_range(k: Any) -> int:
            p = bisect.bisect_left(bounds, keyfunc(k))
            return p if ascending else last - p

        with self.ctx._inside():
            spread = self.partitionBy(numPartitions, by_range)
            spread.node.alias = None
        return spread._then(sort, "sortByKey", plain, True)

    def repartitionAndSortWithinPartitions(
        self,
        numPartitions: int | None = None,
        partitionFunc: Callable[[Any], int] = portable_hash,
        ascending: bool = True,
        keyfunc: Callable[[Any], Any] = lambda x: x,
    ) -> LineageRDD:
        partitions = self._defaultReducePartitions() if numPartitions is None else numPartitions
        with self.ctx._inside():
            spread = self.partitionBy(partitions, partitionFunc)
        return spread._then(
            Sort(_key_of(keyfunc), not ascending, self._memory_limit()),
            "repartitionAndSortWithinPartitions",
            lambda: RDD.repartitionAndSortWithinPartitions(
                self._plain(), numPartitions, partitionFunc, ascending, keyfunc
            ),
            True,
        )

    # What Spark does with whole batches

    def union(self, other: RDD[Any]) -> LineageRDD:
        return self.ctx._union([self, self.ctx._lineage(other)], pairwise=True)

    def coalesce(self, numPartitions: int, shuffle: bool = False) -> LineageRDD:
        if not numPartitions > 0:
            raise ValueError("Number of partitions must be positive.")
        batch = min(10, self.ctx._batchSize or 1024) if shuffle else self._plain_batch()
        node = self.ctx._new_node("repartition" if shuffle else "coalesce", (self.node,))
        if batch < 0:
            batch = 0
        base = Base(node, lambda: self._tagged_jrdd(batch).coalesce(numPartitions, shuffle), Tagged(batch), batch=batch)
        return LineageRDD(self.ctx, base, (), lambda: RDD.coalesce(self._plain(), numPartitions, shuffle))

    def _plain_batch(self) -> int:
        """By how many records plain PySpark would batch this RDD; -1: as they were shuffled."""
        if self._steps or self._pinned():
            return batch_of(self.ctx.serializer)
        return self._base.batch

    def cartesian(self, other: RDD[Any]) -> LineageRDD:
        right = self.ctx._lineage(other)
        batches = (self._plain_batch(), right._plain_batch())
        node = self.ctx._new_node("cartesian", (self.node, right.node))

        def build() -> Any:
            left_jrdd, right_jrdd = (
                r._base.jrdd if b < 0 else r._tagged_jrdd(b) for r, b in zip((self, right), batches, strict=True)
            )
            return left_jrdd.cartesian(right_jrdd)

        met = CartesianDeserializer(Tagged(batches[0]), Tagged(batches[1]))  # type: ignore[no-untyped-call]
        base = Base(node, build, met, pair=True, batch=1)
        return LineageRDD(self.ctx, base, (), lambda: RDD.cartesian(self._plain(), right._plain()))

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
        node = self.ctx._new_node("zip", (self.node, right.node))
        if batch < 0:
            batch = 100
        base = Base(
            node,
            lambda: self._tagged_jrdd(batch).zip(right._tagged_jrdd(batch)),
            PairDeserializer(Tagged(batch), Tagged(batch)),  # type: ignore[no-untyped-call]
            pair=True,
            batch=1,
        )
        return LineageRDD(self.ctx, base, (), lambda: RDD.zip(self._plain(), right._plain()))

    # Tracing

    def getLineage(self) -> Traced:
        from whence.rdd.trace import Traced

        return Traced.start(self)


def _numbered(side: int) -> Callable[[Any], Any]:
    return lambda value: (side, value)


def _key_of(keyfunc: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda kv: keyfunc(kv[0])


class _Barrier(RDDBarrier[Any]):
    rdd: LineageRDD

    def mapPartitions(self, f: Any, preservesPartitioning: bool = False) -> Any:
        def function(_: int, records: Any) -> Any:
            return f(records)

        return self.rdd._over_partition(function, preservesPartitioning, "mapPartitions", barrier=True)

    def mapPartitionsWithIndex(self, f: Any, preservesPartitioning: bool = False) -> Any:
        return self.rdd._over_partition(f, preservesPartitioning, "mapPartitionsWithIndex", barrier=True)


def _action(name: str, stops_early: bool) -> Callable[..., Any]:
    plain = getattr(RDD, name)

    @wraps(plain)
    def act(self: LineageRDD, *args: Any, **kwargs: Any) -> Any:
        context = self.ctx
        if not context.capturing:
            result = getattr(RDD, name)(self._plain(), *args, **kwargs)
            if context.capture and name not in ("takeSample", "lookup"):  # the strategy is to run again when asked
                context._computed(self, None if not stops_early else (args[0] if args else kwargs.get("num", 1)))
            return result
        view = self._auxiliary_view() if stops_early else self._captured_view()
        result = getattr(RDD, name)(view, *args, **kwargs)
        if name not in ("takeSample", "lookup"):
            limit = None if not stops_early else (args[0] if args else kwargs.get("num", 1))
            context._computed(self, limit)
        return result

    return act


def _composite(name: str) -> Callable[..., Any]:
    """Transformations that PySpark puts together from others: their inner steps are not RDDs of the program."""
    plain = getattr(RDD, name)

    @wraps(plain)
    def made(self: LineageRDD, *args: Any, **kwargs: Any) -> Any:
        with self.ctx._inside():
            result = plain(self, *args, **kwargs)
        if isinstance(result, LineageRDD) and result is not self and result.node.hidden:
            result.node.hidden = False
            result.node.name = name
        return result

    return made


_ACTIONS = [
    "collect",
    "collectWithJobGroup",
    "reduce",
    "treeReduce",
    "fold",
    "aggregate",
    "treeAggregate",
    "max",
    "min",
    "sum",
    "count",
    "stats",
    "histogram",
    "mean",
    "variance",
    "stdev",
    "sampleStdev",
    "sampleVariance",
    "countByValue",
    "top",
    "takeOrdered",
    "saveAsNewAPIHadoopDataset",
    "saveAsNewAPIHadoopFile",
    "saveAsHadoopDataset",
    "saveAsHadoopFile",
    "saveAsSequenceFile",
    "saveAsPickleFile",
    "saveAsTextFile",
    "collectAsMap",
    "reduceByKeyLocally",
    "countByKey",
    "foreach",
    "foreachPartition",
    "countApprox",
    "sumApprox",
    "meanApprox",
    "countApproxDistinct",
    "toLocalIterator",
]
_EARLY_ACTIONS = ["take", "first", "isEmpty", "takeSample", "lookup"]
_COMPOSITES = [
    "distinct",
    "intersection",
    "sortBy",
    "groupBy",
    "keys",
    "values",
    "reduceByKey",
    "aggregateByKey",
    "foldByKey",
    "subtract",
    "keyBy",
    "repartition",
    "sample",
    "sampleByKey",
]

for _name in _ACTIONS:
    setattr(LineageRDD, _name, _action(_name, stops_early=False))
for _name in _EARLY_ACTIONS:
    setattr(LineageRDD, _name, _action(_name, stops_early=True))
for _name in _COMPOSITES:
    setattr(LineageRDD, _name, _composite(_name))
