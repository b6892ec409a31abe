"""Spark's private plan classes, through py4j: this file, construct.py and files.py touch them.

Plans and expressions are opaque handles outside of them. Nodes are copied with `makeCopy` and their fields are found by
name, since constructors gain arguments between Spark releases while field names stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread, get_ident
from typing import Any
from uuid import uuid4

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.storagelevel import StorageLevel

from whence.model.quiet import AGAIN, QUIET, tagged, tags_of
from whence.spark.construct import (
    Attr,
    Expr,
    Plan,
    class_name,
    id_of,
    is_of_another_jvm,
    references_of,
    remembered,
    to_list,
)
from whence.spark.lakes import Lakes
from whence.spark.round_trips import handles_for, of_files
from whence.spark.sessions import require_running
from whence.spark.shared import shared
from whence.spark.subqueries import Subqueries

__all__ = ["Attr", "Catalyst", "Expr", "Kept", "Plan", "class_name", "id_of", "remembered", "to_list"]

_CALL_SITE = "callSite.short"
_ANALYSIS = "analysis"
_BROADCAST = "spark.sql.adaptive.autoBroadcastJoinThreshold"
_WIDER = 2
_PAIR = 2

# Each file by itself, in pieces of this size: then positions in a file depend on nothing but the file.
SPLIT = 1 << 25
_APART = {
    "spark.sql.files.maxPartitionBytes": str(SPLIT),
    "spark.sql.files.openCostInBytes": str(SPLIT + 1),
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.maxPartitionNum": str((1 << 31) - 1),
}
# Many files share a task; then positions depend on which files there are.
_TOGETHER = {
    **_APART,
    "spark.sql.files.maxPartitionBytes": str(128 << 20),
    "spark.sql.files.openCostInBytes": str(4 << 20),
    "spark.sql.files.minPartitionNum": "32",
}

# So many computed rows are kept on the driver, if they take no more than this.
FEW_ROWS = 1000
FEW_BYTES = 16 << 20
_NARROW = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp")

_FOR_FEW_ROWS = {
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


class Catalyst(Subqueries, Lakes):
    """Builds and takes apart plans of one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self._dataset: Any = self.adapter.dataset()
        self._small: tuple[int, JavaObject] | None = None
        self._wide: tuple[int, JavaObject] | None = None
        known = shared(self._jvm)
        self._conf: Any = spark._jsparkSession.sessionState().conf()
        self._path: Any = known.path
        self._name: JavaObject = known.tag
        # Where Spark thinks an RDD was made tells ours from the user's.
        self._mark = f"whence {uuid4().hex}"
        self._tag = f"whence-{uuid4().hex}"

    @contextmanager
    def quietly(self, first: bool = False) -> Iterator[None]:
        """Queries run within are whence's own and do not enter the catalogue; an interrupt cancels them. `first`: they
        run the user's functions for the first time, not again, so that what actors capture there counts."""
        require_running(self.spark)
        context = self.spark.sparkContext
        own = f"{self._tag}-{get_ident()}"  # an interrupt is of one thread
        inside = own in tags_of(context)  # then the outer block has said which
        try:
            with tagged(context, QUIET, own, *(() if first or inside else (AGAIN,))):
                yield
        except (KeyboardInterrupt, Py4JError) as stopped:
            # PySpark's own handler runs while this thread waits for the JVM, where its call to cancel fails.
            if not (_broken_off(stopped) and self._cancel(own)):
                raise
            raise KeyboardInterrupt from stopped

    def _cancel(self, tag: str) -> bool:
        """Cancel what runs within `quietly`; whether the JVM is still there to do so."""
        done: list[bool] = []

        def cancel() -> None:  # in a thread of its own, whose connection is whole
            self.spark.sparkContext.cancelJobsWithTag(tag)
            done.append(True)

        canceller = Thread(target=cancel)
        canceller.start()
        canceller.join()
        return bool(done)

    # --- between DataFrames and plans

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
        return self._checkpoint(self.wide_frame(self.taken(plan)), eager=True)

    def _checkpoint(self, frame: DataFrame, *, eager: bool) -> DataFrame:
        context: Any = self.spark.sparkContext._jsc
        users = context.getLocalProperty(_CALL_SITE)
        context.setLocalProperty(_CALL_SITE, self._mark)
        try:
            return frame.localCheckpoint(eager=eager)
        finally:
            context.setLocalProperty(_CALL_SITE, users)

    def keep(self, plan: Plan) -> Kept:
        """Compute now and keep. Few rows come to the driver, where Spark needs no job to filter or to read them."""
        frame = self.wide_frame(self.taken(plan))
        optimised = frame._jdf.queryExecution().optimizedPlan()
        if class_name(optimised) == "LocalRelation":  # of rows that were on the driver already
            # Analysis and optimizer may give a column another id than the query's own; its place stays.
            rows = self._local(self._own_output(plan, frame), optimised.data())
            return Kept(rows, int(optimised.data().size()), local=True)
        if (rows := self._of_local_rows(plan, optimised)) is not None:
            return Kept(self._local(self._own_output(plan, frame), rows), int(rows.size()), local=True)
        kept = self.plan_of(self._checkpoint(frame, eager=False))
        rdd = kept.rdd()
        total = int(rdd.count())
        if total > FEW_ROWS or self._bytes_of(kept) > FEW_BYTES:
            return Kept(self._under(kept, self._own_output(plan, frame)), total, local=False)
        rows = self._to_seq(rdd.toJavaRDD().collect())
        rdd.unpersist(False)
        return Kept(self._local(self._own_output(plan, frame), rows), total, local=True)

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
        if all(self.type_of(a) in _NARROW for a in self.output(kept)):
            return 0
        return sum(int(info.memSize()) + int(info.diskSize()) for info in self._storage_of(kept))

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
        """The user's session as it is set now, but for one thing: the identities make a query's rows wider, and what
        the query itself would broadcast should still be. That is decided when sizes are known: a higher threshold for
        estimates made Spark broadcast tables of millions of rows."""
        session, conf = self.spark._jsparkSession, self._conf
        settings = self.settings()
        known = self._wide  # another thread may put another one there meanwhile
        if known is None or known[0] != settings:
            wide = session.cloneSession()
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

    # --- taking plans apart

    def with_children(self, plan: Plan, children: Sequence[Plan]) -> Plan:
        if class_name(plan) == "Union":  # whose own children may be unions that the tree of nodes has opened
            return self.union(children)
        return plan.withNewChildren(self.seq(children))

    def exchanged(self, plan: Plan, old: Plan, new: Plan) -> Plan:
        """`plan` with `new` wherever `old` stands."""
        if plan.fastEquals(old):
            return new
        children = self.children(plan)
        changed = [self.exchanged(child, old, new) for child in children]
        if all(one is other for one, other in zip(changed, children, strict=True)):
            return plan
        return plan.withNewChildren(self.seq(changed))

    def under_new_ids(self, plan: Plan, ids: dict[int, JavaObject], *, every: bool = False) -> Plan:
        """A node that came from another JVM, its columns under ids of this one: Spark's analyser compares numbers
        alone, and those of two JVMs meet. `ids`: the new ones by the old, for the whole plan. `every`: also of a node
        of this JVM, for a copy of it in the same query."""

        def new(named: Expr) -> JavaObject:
            key = id_of(named)
            if key not in ids:
                ids[key] = self._new_id()
            return ids[key]

        def change(expr: Expr) -> Expr | None:
            kind = class_name(expr)
            if kind == "AttributeReference":
                return expr.withExprId(new(expr)) if every or is_of_another_jvm(expr) else expr
            if kind != "Alias" or not (every or is_of_another_jvm(expr)):
                return None
            child = self._exchanged(expr.child(), change)
            told = (expr.qualifier(), expr.explicitMetadata(), expr.nonInheritableMetadataKeys())
            return self._exprs.Alias(child, expr.name(), new(expr), *told)

        changed = self.exchange(plan, change)
        if class_name(plan) == "Join" and class_name(plan.joinType()) == "ExistenceJoin":
            exists = plan.joinType().exists()
            if every or is_of_another_jvm(exists):
                changed = self.copy(changed, joinType=self._join_types.ExistenceJoin(exists.withExprId(new(exists))))
        return changed

    def expressions_text(self, plan: Plan) -> str:
        """All of the node's own expressions, as Spark prints them. (In some releases their sequence is lazy, and prints
        no more than was asked of it so far.)"""
        return str(plan.expressions().mkString(", "))

    def exchanged_in(self, expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
        """An expression with parts of it exchanged for what `change` gives."""
        return self._exchanged(expr, change)

    def items(self, scala_seq: JavaObject) -> list[JavaObject]:
        return to_list(scala_seq)

    def identity(self, value: JavaObject) -> str:
        return str(self._system.identityHashCode(value))

    def name_of(self, plan: Plan) -> str | None:
        """The name that this operator was given. It goes with it into every query that is made from it."""
        found = plan.getTagValue(self._name)
        return str(found.get()) if found.isDefined() else None

    def named(self, plan: Plan, name: str | None = None) -> str:
        """The operator's name: this one, or the one it has, or a new one."""
        name = name or self.name_of(plan) or uuid4().hex
        plan.setTagValue(self._name, name)
        return name

    # --- files

    def files(self, relation: Plan) -> list[str]:
        """Paths as `_metadata.file_path` spells them."""
        return list(remembered(of_files(relation), "files", lambda: self._files(relation)))

    def hashes_of_texts(self, texts: Sequence[str]) -> list[int]:
        """`hash64_of_text` of many, computed on the driver in one query."""
        if not texts:
            return []
        values = ", ".join(f"(CAST(X'{text.encode().hex()}' AS STRING))" for text in texts)
        with self.quietly():
            rows = self.spark.sql(f"SELECT xxhash64(t) FROM VALUES {values} AS v(t)").collect()
        return [row[0] for row in rows]

    def _files(self, relation: Plan) -> list[str]:
        if class_name(relation) == "DataSourceV2Relation":
            return self._data_files(relation)
        handles = handles_for(relation)
        if handles is not None:
            told = str(handles.files(relation.relation().location()))
            return told.split("\n") if told else []
        uris = relation.relation().location().inputFiles()
        path = self._path
        return [path(path(self._uri(uri)).toString()).toUri().toString() for uri in uris]

    def _data_files(self, relation: Plan) -> list[str]:
        """Of a connector that tells each row's file; without one, none."""
        wide = relation.withMetadataColumns()
        told = [a for a in self.output(wide)[len(self.output(relation)) :] if a.name() == "_file"]
        if not told or not self.is_iceberg(relation):
            return []
        with self.quietly():
            return [str(row[0]) for row in self.frame(self.distinct(self.project(told, wide))).collect()]

    def in_fixed_splits(self, scan: Plan, *, apart: bool) -> Plan:
        """The scan of files cut into the same splits each time, so that positions in it are the same each time.

        Otherwise the splits depend on the cores that are there at the moment, on settings, and on whether Spark finds
        the buckets of a table useful for the query at hand. `apart`: no split has rows of two files."""
        relation = scan.relation()
        session = self.spark._jsparkSession.cloneSession()
        for name, value in (_APART if apart else _TOGETHER).items():
            session.sessionState().conf().setConfString(name, value)
        fixed = relation.copy(
            relation.location(),
            relation.partitionSchema(),
            relation.dataSchema(),
            self.none(),
            relation.fileFormat(),
            relation.options(),
            session,
        )
        return self.copy(scan, relation=fixed)

    def option(self, scan: Plan, name: str) -> str | None:
        found = scan.relation().options()
        return next((found.apply(key) for key in to_list(found.keys().toSeq()) if key.lower() == name), None)

    def is_metadata(self, attribute: Attr) -> bool:
        """Whether this is the hidden column in which a file scan tells file and row."""
        return self.has_field(attribute, "file_path") and attribute.metadata().json() != "{}"

    def has_field(self, struct: Expr, name: str) -> bool:
        return bool(struct.dataType().getFieldIndex(name).isDefined())

    def keeps_order(self, scan: Plan) -> bool:
        """Whether this RDD gives its rows in the same order each time; after a shuffle it need not."""
        return str(scan.rdd().outputDeterministicLevel().toString()) == "DETERMINATE"

    def references(self, expr: Expr) -> set[int]:
        return {id_of(a) for a in references_of(expr)}

    def substitute(self, expr: Expr, attributes: dict[int, Expr]) -> Expr:
        """`expr` with attributes exchanged, by expression id."""
        if class_name(expr) == "AttributeReference":
            return attributes.get(id_of(expr), expr)
        children = self.children(expr)
        if not children:
            return expr
        return expr.withNewChildren(self.seq([self.substitute(child, attributes) for child in children]))


def _broken_off(stopped: BaseException) -> bool:
    """Whether a call ended without the JVM's answer: what the JVM has to say against a call comes with a trace."""
    if isinstance(stopped, KeyboardInterrupt | Py4JNetworkError):
        return True
    return type(stopped) is Py4JError and "Trace:" not in str(stopped)
