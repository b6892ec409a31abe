"""Queries as DataFrames, and their rows computed: the half of catalyst.py that has Spark do something.

Few rows come to the driver, others stay in Spark's block manager."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.storagelevel import StorageLevel

from whence.model.quiet import told_of_kept
from whence.spark.at_hand import at_hand_of
from whence.spark.construct import Attr, Expr, Plan, class_name, to_list
from whence.spark.lakes import Lakes
from whence.spark.round_trips import handles_for
from whence.spark.subqueries import Subqueries

_CALL_SITE = "callSite.short"
_ANALYSIS = "analysis"
_BROADCAST = "spark.sql.adaptive.autoBroadcastJoinThreshold"
# Each stage of a query tells Spark's own page anew how all of the query is planned, which takes as long as planning it.
_TOLD = ("spark.sql.ui.explainMode", "simple")
_WIDER = 2
_PAIR = 2

# So many computed rows are kept on the driver, if they take no more than this.
FEW_ROWS = 1000
FEW_BYTES = 16 << 20
# Of rows with texts, so many are fetched of each partition in the job that computes them, and so many rows in all.
FEW_TEXTS = 127
MOST_FETCHED = 64_000
# What reads no more bytes than this has not so many partitions that the first rows of each were many.
MOST_READ = 512 << 20
# Less than this is read in less time than code for it is compiled.
LITTLE_READ = 1 << 20
_NARROW = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp")

_FOR_FEW_ROWS = {
    **dict([_TOLD]),
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass(frozen=True, eq=False)
class Kept:
    """Rows that were computed: in Spark's block manager, or, if they are few, on the driver."""

    plan: Plan
    total: int
    local: bool


class Keeping(Subqueries, Lakes):
    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self._dataset: Any = self.adapter.dataset()
        self._small: tuple[int, JavaObject] | None = None
        self._wide: tuple[int, JavaObject] | None = None
        self._at_hand = at_hand_of(spark)
        self._conf: Any = spark._jsparkSession.sessionState().conf()
        # Where Spark thinks an RDD was made tells ours from the user's.
        self._mark = f"whence {uuid4().hex}"

    def plan_of(self, df: DataFrame) -> Plan:
        return df._jdf.queryExecution().analyzed()

    def made_at(self, df: DataFrame) -> int | None:
        """When a DataFrame's plan was made, in milliseconds."""
        phases = df._jdf.queryExecution().tracker().phases()
        return int(phases.apply(_ANALYSIS).startTimeMs()) if phases.contains(_ANALYSIS) else None

    def cached_below(self, plan: Plan) -> list[Plan]:
        """What was cached of this query, as it was then: the plans whose rows Spark would take from its cache."""
        session = self.spark._jsparkSession
        if session.sharedState().cacheManager().isEmpty():
            return []
        leaves = to_list(self.dataset_of(session, plan).queryExecution().withCachedData().collectLeaves())
        return [self.cached_plan(leaf) for leaf in leaves if class_name(leaf) == "InMemoryRelation"]

    def cached_plan(self, relation: Plan) -> Plan:
        """The query whose rows this part of Spark's cache has."""
        return self.adapter.cached_plan(self.spark._jsparkSession, relation)

    def dataset_of(self, session: JavaObject, plan: Plan) -> JavaObject:
        return self._dataset.ofRows(session, plan)

    def frame(self, plan: Plan) -> DataFrame:
        return DataFrame(self.dataset_of(self.spark._jsparkSession, plan), self.spark)

    def with_position(self, plan: Plan, number: Expr) -> Plan:
        """The rows with their positions behind them. Spark moves a projection into an aggregate right below it, and one
        of Python's does not tell it then which partition it is in, so that rows of two partitions get one position.
        Nothing moves through a sample, and this one takes all rows."""
        apart = self.aggregates_in_python(plan)
        return self.extend(self.plan_of(self.frame(plan).sample(False, 1.0, 0)) if apart else plan, [number])

    def is_cached(self, df: DataFrame) -> bool:
        """Whether Spark would take rows of this query, or of a part of it, from its cache."""
        return "InMemoryRelation" in df._jdf.queryExecution().withCachedData().toString()

    def small_frame(self, plan: Plan) -> DataFrame:
        """For queries over few rows, run often: no code is generated and nothing is planned anew on the way."""
        settings = self.settings()
        known = self._small  # another thread sees it as it shall be, or not at all
        if known is None or known[0] != settings:
            small = self.spark._jsparkSession.cloneSession()
            for name, value in _FOR_FEW_ROWS.items():
                small.sessionState().conf().setConfString(name, value)
            known = self._small = (settings, small)
        return DataFrame(self.dataset_of(known[1], plan), self.spark)

    def local_rows(self, frame: DataFrame) -> list[Row] | None:
        """The rows, if they are on the driver already."""
        if class_name(frame._jdf.queryExecution().optimizedPlan()) != "LocalRelation":
            return None
        return frame.collect()

    def materialise(self, plan: Plan) -> DataFrame:
        """Compute now and keep in Spark's block manager; the plan below is cut off, the ids of attributes stay, unless
        two sides of a join below have some in common (`as_named_by`).

        Spark's context cleaner drops the blocks when the DataFrame is garbage; `release` drops what is left."""
        frame = self.wide_frame(self.taken(plan))
        return self._tell(frame, self._checkpoint(frame, eager=True))

    def _checkpoint(self, frame: DataFrame, *, eager: bool) -> DataFrame:
        context: Any = self.spark.sparkContext._jsc
        users = context.getLocalProperty(_CALL_SITE)
        context.setLocalProperty(_CALL_SITE, self._mark)
        try:  # not PySpark's own method, which others may watch
            return DataFrame(frame._jdf.localCheckpoint(eager), self.spark)
        finally:
            context.setLocalProperty(_CALL_SITE, users)

    def _tell(self, frame: DataFrame, kept: DataFrame) -> DataFrame:
        """That rows stand in Spark's block manager in the place of a query: what is made of them may be the user's."""
        for tell in told_of_kept(self.spark.sparkContext):
            tell(frame, kept)
        return kept

    def rows(self, plan: Plan) -> list[tuple[object, ...]]:
        """The rows as Python has them; of rows on the driver without asking Spark."""
        told = None if self._at_hand is None else self._at_hand.told(plan)
        return [tuple(row) for row in self.frame(plan).collect()] if told is None else told

    def keep(self, plan: Plan, *, many: bool = False) -> Kept:
        """Compute now and keep. Few rows come to the driver, where Spark needs no job to filter or to read them.

        `many`: more than a few are expected."""
        at_hand = None if self._at_hand is None else self._at_hand.rows(plan)
        if at_hand is not None:
            return Kept(self._local(plan.output(), at_hand), int(at_hand.size()), local=True)
        frame = self.wide_frame(self.taken(plan))
        optimised = frame._jdf.queryExecution().optimizedPlan()
        if class_name(optimised) == "LocalRelation":  # of rows that were on the driver already
            # Analysis and optimizer may give a column another id than the query's own; its place stays.
            rows = self._local(self._own_output(plan, frame), optimised.data())
            return Kept(rows, int(optimised.data().size()), local=True)
        if (rows := self._of_local_rows(plan, optimised)) is not None:
            return Kept(self._local(self._own_output(plan, frame), rows), int(rows.size()), local=True)
        found = self._checkpoint(frame, eager=False)
        kept = self.plan_of(found)
        rdd = kept.rdd()
        # Text may be long: then fewer rows are tried.
        most = FEW_ROWS if self._is_narrow(kept) else FEW_TEXTS
        if many or self._at_hand is None or int(rdd.getNumPartitions()) * most > MOST_FETCHED:
            rows = None
        else:
            rows = self._at_hand.few(found._jdf.queryExecution(), most, FEW_BYTES)
        if rows is None:
            total = int(rdd.count())
            if total > FEW_ROWS or self._bytes_of(kept) > FEW_BYTES:
                self._tell(frame, found)
                return Kept(self._under(kept, self._own_output(plan, frame)), total, local=False)
            rows = self._to_seq(rdd.toJavaRDD().collect())
        rdd.unpersist(False)
        return Kept(self._local(self._own_output(plan, frame), rows), int(rows.size()), local=True)

    def first(self, plan: Plan, most: int) -> Kept | None:
        """The rows, on the driver, if they are so few; Spark stops at the next one of each partition."""
        length = self._length_of(plan) if self._is_narrow(plan) else math.inf
        if self._at_hand is not None and length <= MOST_READ:
            made = self.small_frame if length <= LITTLE_READ else self.wide_frame
            frame = made(self.taken(plan))
            rows = self._at_hand.first(frame._jdf.queryExecution(), most)
            if rows is None:
                return None
            return Kept(self._local(self._own_output(plan, frame), rows), int(rows.size()), local=True)
        kept = self.keep(self.limit_of_each(most + 1, plan))
        return kept if kept.local and kept.total <= most else None

    def _length_of(self, plan: Plan) -> float:
        """Of the files that a plan reads, in bytes."""
        listed = self.listed_below(plan)
        return sum(length for files in listed for length, _ in files.values()) if listed else math.inf

    def _of_local_rows(self, plan: Plan, optimised: Plan) -> JavaObject | None:
        """The rows of a query over nothing but few rows of the driver's, in one job without a stage before it."""
        handles = handles_for(plan)
        leaves = self.leaves(optimised)
        if handles is None or not leaves or any(class_name(leaf) != "LocalRelation" for leaf in leaves):
            return None
        if self.has_user_functions(plan):
            return None
        if sum(int(leaf.data().size()) for leaf in leaves) > FEW_ROWS:
            return None
        rows = handles.collected(self.small_frame(plan)._jdf.queryExecution().executedPlan())
        return rows if int(rows.size()) <= FEW_ROWS else None

    def _own_output(self, plan: Plan, frame: DataFrame) -> JavaObject:
        """The attributes of `plan` itself: of a union of equal queries Spark gives the analysed one others."""
        return plan.output() if plan.resolved() else self.plan_of(frame).output()

    def _under(self, kept: Plan, own: JavaObject) -> Plan:
        if kept.output().equals(own):
            return kept
        pairs = zip(self.output(kept), to_list(own), strict=True)
        return self.project([self.alias_as(old, new) for old, new in pairs], kept)

    def as_named_by(self, plan: Plan, computed: DataFrame) -> DataFrame:
        """The computed rows of a plan under its own attributes: where two sides of a join have attributes in common,
        Spark renames those of one of them when it analyses the plan."""
        kept = self.plan_of(computed)
        own = self._under(kept, plan.output())
        return computed if own is kept else self.frame(own)

    def is_tied(self, plan: Plan) -> bool | None:
        """Whether the query gives two rows, and these are equal in all columns, as Spark compares what it sorts by, and
        NULL equal to NULL; None where its rows are not on the driver."""
        optimised = self.frame(plan)._jdf.queryExecution().optimizedPlan()
        if class_name(optimised) != "LocalRelation":
            return None
        rows, kinds = optimised.data(), self._exprs
        if int(rows.size()) != _PAIR:
            return False
        both = kinds.JoinedRow(rows.apply(0), rows.apply(1))
        types = [a.dataType() for a in self.output(optimised)]
        return all(
            kinds.EqualNullSafe(
                kinds.BoundReference(at, kind, True), kinds.BoundReference(len(types) + at, kind, True)
            ).eval(both)
            for at, kind in enumerate(types)
        )

    def distinct_on_driver(self, plan: Plan) -> Plan:
        """The same as `distinct`, of numbers that are on the driver: Spark itself would run a job for that."""
        optimised = self.frame(plan)._jdf.queryExecution().optimizedPlan()
        if class_name(optimised) != "LocalRelation":
            return self.distinct(plan)
        return self._local(plan.output(), optimised.data().distinct())

    def local_under(self, local: Plan, attributes: Sequence[Attr]) -> Plan:
        """Rows on the driver, under other attributes of the same types."""
        return self.local_table(attributes, local.data())

    def local_table(self, attributes: Sequence[Attr], rows: JavaObject) -> Plan:
        """A table of these rows of the JVM's."""
        return self._local(self.seq(attributes), rows)

    def _local(self, attributes: JavaObject, rows: JavaObject) -> Plan:
        return self._new(self._plans.LocalRelation, attributes, rows, False, last=self._none)

    def _bytes_of(self, kept: Plan) -> int:
        """How much room computed rows take, compressed; 0 where their types say that it is little."""
        if self._is_narrow(kept):
            return 0
        return sum(int(info.memSize()) + int(info.diskSize()) for info in self._storage_of(kept))

    def _is_narrow(self, plan: Plan) -> bool:
        return all(self.type_of(a) in _NARROW for a in self.output(plan))

    def is_whole(self, kept: Plan) -> bool:
        """Whether Spark still has all of these computed rows: with an executor some are lost, and none comes back."""
        return any(int(info.numCachedPartitions()) == int(info.numPartitions()) for info in self._storage_of(kept))

    def _storage_of(self, kept: Plan) -> list[JavaObject]:
        (rows,) = self.leaves(kept)  # which may stand under other names than their own (`_under`)
        number = rows.rdd().id()
        known: Any = self.spark.sparkContext._jsc.sc()
        return [info for info in known.getRDDStorageInfo() if info.id() == number]

    def in_cache(self, frame: DataFrame) -> Plan:
        """The rows of `frame` from Spark's cache: computed when they are first read, and again should they be lost."""
        frame.persist(StorageLevel.MEMORY_AND_DISK)
        session = frame._jdf.sparkSession()
        return self.dataset_of(session, self.plan_of(frame)).queryExecution().withCachedData()

    def taken(self, plan: Plan) -> Plan:
        """The same rows, with groups that a query of the user's has computed before taken from there."""
        return plan if self.executed is None else self.executed.taken(plan)

    def is_computed(self, grouping: Plan) -> bool:
        """Whether a query of the user's has computed these groups."""
        return self.executed is not None and class_name(self.taken(grouping)) != class_name(grouping)

    def wide_frame(self, plan: Plan) -> DataFrame:
        """A DataFrame of a query whose rows carry identities."""
        return DataFrame(self.dataset_of(self._session_for_wide_rows(), plan), self.spark)

    def _session_for_wide_rows(self) -> JavaObject:
        """The user's session as it is set now, but for what Spark's page shows and for one thing: the identities make a
        query's rows wider, and what the query itself would broadcast should still be. That is decided when sizes are
        known: a higher threshold for estimates made Spark broadcast tables of millions of rows."""
        session, conf = self.spark._jsparkSession, self._conf
        settings = self.settings()
        known = self._wide  # another thread may put another one there meanwhile
        if known is None or known[0] != settings:
            wide = session.cloneSession()
            wide.sessionState().conf().setConfString(*_TOLD)
            threshold = int(conf.autoBroadcastJoinThreshold())
            if threshold > 0 and not conf.contains(_BROADCAST):
                wide.sessionState().conf().setConfString(_BROADCAST, str(_WIDER * threshold))
            known = self._wide = (settings, wide)
        return known[1]

    def settings(self) -> int:
        """Another number when the session is set otherwise."""
        return int(self._conf.getAllConfs().hashCode())

    def release(self) -> None:
        """Drop everything that was materialised, also by work that failed half-way."""
        context: Any = self.spark.sparkContext._jsc
        if context is None:  # stopped: nothing is left
            return
        for kept in dict(context.getPersistentRDDs()).values():
            if kept.rdd().creationSite().shortForm() == self._mark:
                kept.rdd().unpersist(False)
