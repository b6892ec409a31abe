"""Spark's private plan classes, through py4j: this file, construct.py and files.py touch them.

Plans and expressions are opaque handles outside of them. Nodes are copied with `makeCopy` and their fields are found by
name, since constructors gain arguments between Spark releases while field names stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Thread, get_ident
from typing import Any
from uuid import uuid4

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import SparkSession

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
from whence.spark.keeping import FEW_ROWS, Keeping, Kept
from whence.spark.round_trips import handles_for, nodes, of_files
from whence.spark.sessions import require_running
from whence.spark.shared import shared

__all__ = ["FEW_ROWS", "Attr", "Catalyst", "Expr", "Kept", "Plan", "class_name", "id_of", "remembered", "to_list"]

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


class Catalyst(Keeping):
    """Builds and takes apart plans of one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        known = shared(self._jvm)
        self._path: Any = known.path
        self._name: JavaObject = known.tag
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

    def metadata(self, scan: Plan) -> Attr:
        """The hidden column in which a file scan tells file and row."""
        handles = handles_for(scan)
        if handles is not None:
            return next(iter(nodes(scan._gateway_client, handles.metadata(scan))))
        structs = (a for a in reversed(self.output(scan)) if a.dataType().typeName() == "struct")
        return next(a for a in structs if self.has_field(a, "file_path") and a.metadata().json() != "{}")

    def has_field(self, struct: Expr, name: str) -> bool:
        handles = handles_for(struct)
        if handles is not None:
            return bool(handles.hasField(struct, name))
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
