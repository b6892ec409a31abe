"""The one file of this room that touches Spark's private plan classes, through py4j.

Plans and expressions are opaque handles outside of it. Nodes are copied with `makeCopy` and their fields are found by
name, since constructors gain arguments between Spark releases while field names stay.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from threading import Thread
from typing import Any, TypeAlias, cast
from uuid import uuid4

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from whence.model.quiet import QUIET
from whence.sql.files import Files
from whence.sql.memory import Memory

Plan: TypeAlias = JavaObject
Expr: TypeAlias = JavaObject
Attr: TypeAlias = JavaObject

_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_EXPRS = "org.apache.spark.sql.catalyst.expressions"
_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_CALL_SITE = "callSite.short"
_OUTPUT = "whence_output"
_BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
_WIDER = 4

# Spark's own rules that turn subqueries into joins. Each may bring a subquery's own subqueries to the surface, whose
# correlated predicates must be pulled up before the next rule sees them.
_PULL_UP = "PullupCorrelatedPredicates"
# A lateral subquery that is only a call (`LATERAL f(t.x)`) is a call on the row itself.
_INLINE = "OptimizeOneRowRelationSubquery"
_SUBQUERY_RULES = (
    "RewritePredicateSubquery",
    "RewriteCorrelatedScalarSubquery",
    "RewriteLateralSubquery",
)
_MAX_ROUNDS = 20

_FIXED_SPLITS = {
    "spark.sql.files.maxPartitionBytes": str(128 << 20),
    "spark.sql.files.openCostInBytes": str(4 << 20),
    "spark.sql.files.minPartitionNum": "32",
}

_FOR_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

_PLAIN_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "string", "date")

# Spark calls these not deterministic because the order of the elements may differ; which rows they come from does not.
_ANY_ROW = ("First", "Last", "AnyValue")
_ORDER_ONLY = ("CollectList", "CollectSet")

# Spark takes every table function in Python for not deterministic unless told otherwise; its rows come from its call.
_RIDES_ALONG = ("PythonUDTF",)


def to_list(scala_seq: JavaObject) -> list[JavaObject]:
    return [scala_seq.apply(i) for i in range(scala_seq.size())]


def class_name(node: JavaObject) -> str:
    name: str = node.getClass().getSimpleName()
    return name.rstrip("$")


class _Classes:
    """The classes of a Java package, each looked up once: py4j asks the JVM again each time."""

    def __init__(self, package: Any) -> None:
        self._package = package

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._package, name)
        setattr(self, name, found)
        return found

    def the(self, name: str) -> JavaObject:
        """A Scala object."""
        key = name + "_object"
        if key not in self.__dict__:
            setattr(self, key, getattr(getattr(self._package, name + "$"), "MODULE$"))
        return self.__dict__[key]


class Catalyst(Files):
    """Builds and takes apart plans of one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._jvm = cast(Any, spark._jvm)
        self._gateway: Any = spark._sc._gateway
        self._plans: Any = _Classes(getattr_path(self._jvm, _PLANS))
        self._exprs: Any = _Classes(getattr_path(self._jvm, _EXPRS))
        self._optimizer: Any = _Classes(getattr_path(self._jvm, _OPTIMIZER))
        self._join_types: Any = _Classes(getattr_path(self._jvm, "org.apache.spark.sql.catalyst.plans"))
        self._some: Any = self._jvm.scala.Some
        self._loader: Any = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._loaded: dict[str, JavaObject] = {}
        self._to_seq: Callable[[list[JavaObject]], JavaObject] = getattr_path(
            self._jvm, "org.apache.spark.api.python.PythonUtils.toSeq"
        )
        self._dataset: Any = getattr_path(self._jvm, "org.apache.spark.sql.classic.Dataset")
        self._domains: set[int] = set()
        self._small: Any = None
        self._wide: tuple[int, JavaObject] | None = None
        self._quiet = 0
        self.memory = Memory()
        self._true: Expr = self._exprs.Literal.TrueLiteral()
        self._none: JavaObject = self._jvm.scala.Option.empty()
        self._empty: JavaObject = self._to_seq([])
        self._no_hint: JavaObject = self._plans.JoinHint.NONE()
        self._parser: JavaObject = spark._jsparkSession.sessionState().sqlParser()
        self._with_subquery: JavaObject = self._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION()
        self._text_of: Callable[[JavaObject], str] = self._jvm.scala.runtime.ScalaRunTime.stringOf
        self._path: Any = self._jvm.org.apache.hadoop.fs.Path
        self._new_id: Callable[[], JavaObject] = self._exprs.NamedExpression.newExprId
        # Where Spark thinks an RDD was made tells ours from the user's.
        self._mark = f"whence {uuid4().hex}"
        self._tag = f"whence-{uuid4().hex}"

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Queries run within are whence's own and do not enter the catalogue; an interrupt cancels them."""
        context = self.spark.sparkContext
        if self._quiet == 0:
            for tag in (QUIET, self._tag):
                context.addJobTag(tag)
        self._quiet += 1
        try:
            yield
        except (KeyboardInterrupt, Py4JError) as stopped:
            if not _interrupted(stopped):
                raise
            # PySpark's own handler runs while this thread waits for the JVM, where its call to cancel fails.
            canceller = Thread(target=context.cancelJobsWithTag, args=(self._tag,))
            canceller.start()
            canceller.join()
            raise KeyboardInterrupt from stopped
        finally:
            self._quiet -= 1
            if self._quiet == 0:
                for tag in (QUIET, self._tag):
                    context.removeJobTag(tag)

    # --- between DataFrames and plans

    def plan_of(self, df: DataFrame) -> Plan:
        return df._jdf.queryExecution().analyzed()

    def frame(self, plan: Plan) -> DataFrame:
        return DataFrame(self._dataset.ofRows(self.spark._jsparkSession, plan), self.spark)

    def is_cached(self, df: DataFrame) -> bool:
        """Whether Spark would take rows of this query, or of a part of it, from its cache."""
        return "InMemoryRelation" in df._jdf.queryExecution().withCachedData().toString()

    def small_frame(self, plan: Plan) -> DataFrame:
        """For queries over few rows, run often: no code is generated and nothing is planned anew on the way."""
        if self._small is None:
            self._small = self.spark._jsparkSession.cloneSession()
            for name, value in _FOR_FEW_ROWS.items():
                self._small.sessionState().conf().setConfString(name, value)
        return DataFrame(self._dataset.ofRows(self._small, plan), self.spark)

    def materialise(self, plan: Plan) -> DataFrame:
        """Compute once and keep in Spark's block manager; the plan below is cut off, attribute ids stay.

        Spark's context cleaner drops the blocks when the DataFrame is garbage; `release` drops what is left."""
        context: Any = self.spark.sparkContext._jsc
        users = context.getLocalProperty(_CALL_SITE)
        context.setLocalProperty(_CALL_SITE, self._mark)
        try:
            return self.wide_frame(plan).localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
        finally:
            context.setLocalProperty(_CALL_SITE, users)

    def wide_frame(self, plan: Plan) -> DataFrame:
        """A DataFrame of a query whose rows carry identities."""
        return DataFrame(self._dataset.ofRows(self._session_for_wide_rows(), plan), self.spark)

    def _session_for_wide_rows(self) -> JavaObject:
        """The user's session as it is set now, but for one thing: the identities make a query's rows wider, and a table
        that the query itself would broadcast should still be."""
        session = self.spark._jsparkSession
        conf = session.sessionState().conf()
        settings = conf.getAllConfs().hashCode()
        if self._wide is None or self._wide[0] != settings:
            wide = session.cloneSession()
            threshold = int(conf.autoBroadcastJoinThreshold())
            if threshold > 0:
                wide.sessionState().conf().setConfString(_BROADCAST, str(_WIDER * threshold))
            self._wide = (settings, wide)
        return self._wide[1]

    def release(self) -> None:
        """Drop everything that was materialised, also by work that failed half-way."""
        context: Any = self.spark.sparkContext._jsc
        if context is None:  # stopped: nothing is left
            return
        for kept in dict(context.getPersistentRDDs()).values():
            if kept.rdd().creationSite().shortForm() == self._mark:
                kept.rdd().unpersist(False)

    # --- taking plans apart

    def children(self, plan: Plan) -> list[Plan]:
        return to_list(plan.children())

    def output(self, plan: Plan) -> list[Attr]:
        # Kept with the handle: plans never change, and every look costs a round trip for each column.
        known = plan.__dict__.get(_OUTPUT)
        if known is None:
            known = plan.__dict__[_OUTPUT] = to_list(plan.output())
        return list(known)

    def fields(self, node: JavaObject) -> dict[str, JavaObject]:
        return {node.productElementName(i): node.productElement(i) for i in range(node.productArity())}

    def copy(self, node: JavaObject, **changes: JavaObject) -> JavaObject:
        arity = node.productArity()
        values = self._gateway.new_array(self._jvm.java.lang.Object, arity)
        left = dict(changes)
        for i in range(arity):
            name = node.productElementName(i)
            values[i] = left.pop(name) if name in left else node.productElement(i)
        if left:
            raise AttributeError(f"{class_name(node)} has no field {', '.join(left)}")
        return node.makeCopy(values)

    def with_children(self, plan: Plan, children: Sequence[Plan]) -> Plan:
        return plan.withNewChildren(self.seq(children))

    def subqueries(self, plan: Plan) -> list[Expr]:
        """The subquery expressions that stand in this node itself, each once."""
        found: dict[int, Expr] = {}
        if not plan.containsPattern(self._with_subquery):
            return []
        for expr in to_list(plan.expressions().toSeq()):
            for sub in self._subqueries_in(expr):
                found.setdefault(int(sub.exprId().id()), sub)
        return list(found.values())

    def _subqueries_in(self, expr: Expr) -> list[Expr]:
        if not expr.containsPattern(self._with_subquery):
            return []
        if self.is_a(expr, f"{_EXPRS}.PlanExpression"):
            return [expr]
        return [sub for child in self.children(expr) for sub in self._subqueries_in(child)]

    def replace_subqueries(self, plan: Plan, plans: dict[int, Plan]) -> Plan:
        """The node with the plans of its subquery expressions replaced, by expression id."""
        changes = {
            name: self._replace_in(value, plans)
            for name, value in self.fields(plan).items()
            if isinstance(value, JavaObject) and not self.is_a(value, f"{_PLANS}.LogicalPlan")
        }
        return self.copy(plan, **changes)

    def _replace_in(self, value: JavaObject, plans: dict[int, Plan]) -> JavaObject:
        if self.is_a(value, f"{_EXPRS}.Expression"):
            if not self._subqueries_in(value):
                return value
            if self.is_a(value, f"{_EXPRS}.PlanExpression"):
                new = plans.get(int(value.exprId().id()))
                # Spark plans one subquery for each expression id, so another plan needs another id.
                return value if new is None else self.copy(value.withNewPlan(new), exprId=self._new_id())
            return value.withNewChildren(self.seq([self._replace_in(c, plans) for c in self.children(value)]))
        if self.is_a(value, "scala.collection.immutable.Seq"):
            items = to_list(value)
            if all(isinstance(i, JavaObject) for i in items):
                return self.seq([self._replace_in(i, plans) for i in items])
        if self.is_a(value, "scala.Some") and isinstance(value.get(), JavaObject):
            return self.some(self._replace_in(value.get(), plans))
        return value

    def is_a(self, value: object, java_class: str) -> bool:
        return isinstance(value, JavaObject) and bool(self._class(java_class).isInstance(value))

    def _class(self, name: str) -> JavaObject:
        if name not in self._loaded:
            self._loaded[name] = self._loader.loadClass(name)
        return self._loaded[name]

    def items(self, scala_seq: JavaObject) -> list[JavaObject]:
        return to_list(scala_seq)

    def identity(self, value: JavaObject) -> str:
        return str(self._jvm.java.lang.System.identityHashCode(value))

    def nondeterministic(self, plan: Plan) -> list[str]:
        """The expressions of this node whose value may change from run to run."""
        if plan.deterministic():  # and all below it
            return []
        found: list[str] = []
        for expression in to_list(plan.expressions().toSeq()):
            self._nondeterministic_in(expression, found)
        return found

    def functions_of_any_row(self, plan: Plan) -> list[str]:
        """Aggregates such as first(), whose value is that of whichever row of the group came first."""
        found: list[str] = []

        def visit(expr: Expr) -> None:
            if class_name(expr) in _ANY_ROW:
                found.append(expr.toString())
            for child in self.children(expr):
                visit(child)

        text = plan.simpleString(10_000)
        if any(name in text for name in ("first(", "last(", "any_value(", "first_value(", "last_value(")):
            for expression in to_list(plan.aggregateExpressions()):
                visit(expression)
        return found

    def _nondeterministic_in(self, expr: Expr, found: list[str]) -> None:
        if expr.deterministic():
            return
        below = self.children(expr)
        if all(child.deterministic() for child in below):
            if class_name(expr) not in (*_ORDER_ONLY, *_RIDES_ALONG):
                found.append(expr.toString())
            return
        for child in below:
            self._nondeterministic_in(child, found)

    # --- files

    def planned_files(self, relation: Plan) -> dict[str, tuple[int, int]]:
        """Length and modification time of each file as planned; empty if the plan lists files only when run."""
        location = relation.relation().location()
        if not self.is_a(location, "org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex"):
            return {}
        return _parse_statuses(location.allFiles().mkString("\n"))

    def files(self, relation: Plan) -> list[str]:
        """Paths as `_metadata.file_path` spells them."""
        uris = relation.relation().location().inputFiles()
        path = self._path
        return [path(path(self._jvm.java.net.URI(uri)).toString()).toUri().toString() for uri in uris]

    def current_files(self, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
        """The same, read from the file system now; a file that is gone is left out."""
        found: dict[str, tuple[int, int]] = {}
        conf = self.spark._jsparkSession.sessionState().newHadoopConf()
        for folder in sorted({path.rsplit("/", 1)[0] for path in paths}):
            path = self._path(folder)
            system = path.getFileSystem(conf)
            if system.exists(path):
                found.update(_parse_statuses(self._text_of(system.listStatus(path))))
        return found

    def in_fixed_splits(self, scan: Plan) -> Plan:
        """The scan of files cut into the same splits each time, so that positions in it are the same each time.

        Otherwise the splits depend on the cores that are there at the moment, on settings, and on whether Spark finds
        the buckets of a table useful for the query at hand."""
        relation = scan.relation()
        session = self.spark._jsparkSession.cloneSession()
        for name, value in _FIXED_SPLITS.items():
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
        return {int(a.exprId().id()) for a in to_list(expr.references().toSeq())}

    def substitute(self, expr: Expr, attributes: dict[int, Expr]) -> Expr:
        """`expr` with attributes exchanged, by expression id."""
        if class_name(expr) == "AttributeReference":
            return attributes.get(int(expr.exprId().id()), expr)
        children = self.children(expr)
        if not children:
            return expr
        return expr.withNewChildren(self.seq([self.substitute(child, attributes) for child in children]))

    # --- making expressions

    def seq(self, items: Iterable[JavaObject]) -> JavaObject:
        return self._to_seq(list(items))

    def some(self, value: JavaObject) -> JavaObject:
        return self._some(value)

    def none(self) -> JavaObject:
        return self._none

    def alias(self, expr: Expr, name: str) -> Expr:
        """A named expression with a fresh id: its attribute never clashes with another's."""
        return self._exprs.Alias(expr, name, self._new_id(), self._empty, self._none, self._empty)

    @property
    def true(self) -> Expr:
        return self._true

    def null(self, like: Attr) -> Expr:
        return self._exprs.Literal(None, like.dataType())

    def conjunction(self, conditions: Sequence[Expr]) -> Expr:
        result = None
        for condition in conditions:
            result = condition if result is None else self._exprs.And(result, condition)
        return self._true if result is None else result

    def disjunction(self, conditions: Sequence[Expr]) -> Expr:
        result = conditions[0]
        for condition in conditions[1:]:
            result = self._exprs.Or(result, condition)
        return result

    def same(self, left: Expr, right: Expr) -> Expr:
        """Equality under which NULL equals NULL, as in GROUP BY."""
        return self._exprs.EqualNullSafe(left, right)

    def equal(self, left: Expr, right: Expr) -> Expr:
        return self._exprs.EqualTo(left, right)

    def one_of(self, expr: Expr, values: Sequence[object]) -> Expr | None:
        """A filter that Spark can push into a scan: `expr` has one of these values, or is NULL if one is.

        None where a value does not survive the way through Python unchanged (floats, timestamps, nested data)."""
        if not self.is_plain(expr):
            return None
        kind = expr.dataType().catalogString()
        distinct = {None if v is None else (v.isoformat() if isinstance(v, date) else str(v)) for v in values}
        literals = [
            self._text(v) if kind == "string" else self.parse(f"CAST('{v}' AS {kind})")
            for v in sorted(v for v in distinct if v is not None)
        ]
        tests = []
        if literals:
            tests.append(self._exprs.In(expr, self.seq(literals)))
        if None in distinct:
            tests.append(self._exprs.IsNull(expr))
        return self.disjunction(tests) if tests else None

    def is_plain(self, expr: Expr) -> bool:
        """Whether values of this type survive the way through Python unchanged."""
        kind = expr.dataType().catalogString()
        return kind in _PLAIN_TYPES or kind.startswith("decimal(")

    def is_not_null(self, expr: Expr) -> Expr:
        return self._exprs.IsNotNull(expr)

    def expression(self, name: str, *args: JavaObject) -> Expr:
        return getattr(self._exprs, name)(*args)

    def position(self) -> Expr:
        return self._exprs.MonotonicallyIncreasingID()

    def depending_on(self, expr: Expr, attributes: Sequence[Attr]) -> Expr:
        """The same number, in a way that needs all of these columns."""
        nothing = self._exprs.BitwiseAnd(self.content_hashes(attributes)[0], self.long(0))
        return self._exprs.BitwiseOr(expr, nothing)

    def hash64(self, expr: Expr) -> Expr:
        return self._exprs.XxHash64(self.seq([expr]), 42)

    def content_hashes(self, attributes: Sequence[Attr]) -> list[Expr]:
        """Two independent 64-bit hashes: together an identity that does not collide in practice.

        Spark's hash passes over NULL, so (NULL, 1) and (1, NULL) would be the same; what is NULL is hashed too. A map
        has no hash; its text has."""
        values = [a if "map<" not in a.dataType().catalogString() else self._json(a) for a in attributes]
        columns = self.seq([*values, *[self._exprs.IsNull(a) for a in attributes if a.nullable()]])
        return [self._exprs.XxHash64(columns, seed) for seed in (42, 4242)]

    def _json(self, attribute: Attr) -> Expr:
        struct = self._exprs.CreateNamedStruct(self.seq([self._text("v"), attribute]))
        return self.function("to_json", struct)

    def function(self, name: str, *args: Expr) -> Expr:
        """A call that the analyzer resolves."""
        analysis = self._jvm.org.apache.spark.sql.catalyst.analysis
        return getattr(getattr(analysis, "UnresolvedFunction$"), "MODULE$").apply(name, self.seq(args), False)

    def cast(self, expr: Expr, like: Attr) -> Expr:
        """`expr` in the type of `like`; NULL where it cannot be."""
        return getattr(getattr(self._exprs, "Cast$"), "MODULE$").apply(expr, like.dataType(), False)

    def text_is(self, attribute: Attr, text: str | None) -> Expr:
        """Whether a value is written as this text; None: whether it is NULL."""
        if text is None:
            return self._exprs.IsNull(attribute)
        literal = self._text(text)
        return self.equal(self.cast(attribute, literal), literal)

    def registered(self, name: str, args: Sequence[Expr]) -> Expr:
        """A call of a registered function; the analyzer resolves it over values of the same types."""
        values = [self._exprs.Literal.default(arg.dataType()) for arg in args]
        call = self.alias(self.function(name, *values), "whence_call")
        analysed = self.plan_of(self.frame(self.project([call], self._plans.OneRowRelation())))
        return analysed.projectList().head().child().withNewChildren(self.seq(args))

    def unregister(self, name: str) -> None:
        self.spark._jsparkSession.sessionState().catalog().dropTempFunction(name, True)

    def count_rows(self) -> Expr:
        return self._exprs.aggregate.Count(self.seq([self.parse("1")])).toAggregateExpression()

    def hash64_of_text(self, text: str) -> int:
        value: int = self.hash64(self._text(text)).eval(None)
        return value

    def struct_field(self, struct: Expr, name: str) -> Expr:
        ordinal = struct.dataType().fieldIndex(name)
        return self._exprs.GetStructField(struct, ordinal, self.some(name))

    def long(self, value: int) -> Expr:
        return self.parse(f"{value}L")

    def _text(self, value: str) -> Expr:
        return self._exprs.the("Literal").apply(value)

    def parse(self, text: str) -> Expr:
        """An expression from SQL text without column names. (py4j would send a small number as an Integer.)"""
        return self._parser.parseExpression(text)

    def row_number(self, partition: Sequence[Expr], order: Sequence[Expr]) -> Expr:
        """1, 2, ... within the partition; `order` are sort orders."""
        kinds = self._exprs
        frame = kinds.SpecifiedWindowFrame(*[kinds.the(n) for n in ("RowFrame", "UnboundedPreceding", "CurrentRow")])
        spec = kinds.WindowSpecDefinition(self.seq(partition), self.seq(order), frame)
        return kinds.WindowExpression(kinds.RowNumber(), spec)

    def ascending(self, expr: Expr) -> Expr:
        return self._exprs.SortOrder(expr, self._exprs.the("Ascending"), self._exprs.the("NullsFirst"), self._empty)

    def add(self, left: Expr, right: Expr) -> Expr:
        return self._new(self._exprs.Add, left, right)

    def negative(self, expr: Expr) -> Expr:
        return self._new(self._exprs.UnaryMinus, expr)

    def sorts_before(self, one: Expr, other: Expr, order: Expr) -> Expr:
        """Whether `one` comes before `other` under a sort order; true or false, never NULL."""
        ascending = order.direction().sql() == "ASC"
        nulls_first = order.nullOrdering().sql() == "NULLS FIRST"
        null, value = (one, other) if nulls_first else (other, one)
        test = self.expression("LessThan" if ascending else "GreaterThan", one, other)
        sure = self._exprs.Coalesce(self.seq([test, self.parse("false")]))
        return self._exprs.Or(self._exprs.And(self._exprs.IsNull(null), self._exprs.IsNotNull(value)), sure)

    def is_numeric(self, expr: Expr) -> bool:
        return self.is_a(expr.dataType(), "org.apache.spark.sql.types.NumericType")

    def negation(self, condition: Expr) -> Expr:
        return self._exprs.Not(condition)

    # --- making plans

    def alias_as(self, expr: Expr, attribute: Attr) -> Expr:
        """`expr` under the name and id of `attribute`, so that conditions written for the attribute fit."""
        return self._exprs.Alias(expr, attribute.name(), attribute.exprId(), self._empty, self._none, self._empty)

    def project(self, exprs: Sequence[Expr], child: Plan) -> Plan:
        return self._plans.Project(self.seq(exprs), child)

    def extend(self, child: Plan, exprs: Sequence[Expr]) -> Plan:
        return self._plans.Project(child.output().appendedAll(self.seq(exprs)), child) if exprs else child

    def filter(self, condition: Expr, child: Plan) -> Plan:
        return self._plans.Filter(condition, child)

    def join(self, left: Plan, right: Plan, kind: str, condition: Expr | None) -> Plan:
        join_type = self._join_types.JoinType.apply(kind)
        return self._join(left, right, join_type, condition)

    def existence_join(self, left: Plan, right: Plan, condition: Expr) -> tuple[Plan, Attr]:
        """`left` with a boolean attribute: whether a row of `right` meets the condition."""
        exists = self.alias(self._true, "whence_exists").toAttribute()
        kind = self._join_types.ExistenceJoin(exists)
        return self._join(left, right, kind, condition), exists

    def _join(self, left: Plan, right: Plan, join_type: JavaObject, condition: Expr | None) -> Plan:
        given = self._none if condition is None else self.some(condition)
        return self._plans.Join(left, right, join_type, given, self._no_hint)

    def union(self, plans: Sequence[Plan]) -> Plan:
        return self._plans.Union(self.seq(plans), False, False)

    def window(
        self, expressions: Sequence[Expr], partition: Sequence[Expr], order: Sequence[Expr], child: Plan
    ) -> Plan:
        return self._new(
            self._plans.Window, self.seq(expressions), self.seq(partition), self.seq(order), child, last=self.none()
        )

    def distinct(self, plan: Plan) -> Plan:
        return self._plans.Distinct(plan)

    def limit(self, n: int, child: Plan) -> Plan:
        count = self.parse(str(n))
        return self._plans.GlobalLimit(count, self._plans.LocalLimit(count, child))

    # --- bringing plans into the form the rules know

    def normalise(self, plan: Plan) -> Plan:
        """CTEs inlined, correlated and predicate subqueries turned into joins, by Spark's own rules."""
        plan = self._inline_ctes().apply(plan)
        for _ in range(_MAX_ROUNDS):
            plan = self._apply(_PULL_UP, self._apply(_INLINE, plan))
            if "DomainJoin" in plan.toString():
                self._note_domains(plan)
            for rule in _SUBQUERY_RULES:
                changed = self._apply(rule, plan)
                if not changed.fastEquals(plan):
                    plan = changed
                    break
            else:
                break
        return plan

    def _apply(self, rule: str, plan: Plan) -> Plan:
        return self._optimizer.the(rule).apply(plan)

    def _note_domains(self, plan: Plan) -> None:
        """Spark decorrelates some subqueries by joining them with the distinct values of the outer query's columns."""
        if class_name(plan) == "DomainJoin":
            self._domains.update(int(a.exprId().id()) for a in to_list(plan.domainAttrs()))
        for below in (*self.children(plan), *[e.plan() for e in self.subqueries(plan)]):
            self._note_domains(below)

    def is_domain(self, plan: Plan) -> bool:
        """Whether this aggregate gives only the values for which a decorrelated subquery is needed."""
        return bool(self._domains) and all(int(a.exprId().id()) in self._domains for a in self.output(plan))

    def _inline_ctes(self) -> JavaObject:
        return self._new(self._optimizer.InlineCTE, True, last=False)

    def _new(self, make: Any, *args: object, last: object = None) -> JavaObject:
        """Call a constructor that has one to three more arguments in some releases, all with the default `last`."""
        error: Exception | None = None
        for more in range(4):
            try:
                return make(*args, *[last] * more)
            except Py4JError as problem:
                if "onstructor" not in str(problem):
                    raise
                error = problem
        raise AttributeError(f"This Spark release has another constructor: {error}")


_STATUS = re.compile(r"path=(.*?); isDirectory=false; length=(\d+);.*?modification_time=(\d+);")


def _parse_statuses(text: str) -> dict[str, tuple[int, int]]:
    lines = text.replace("{path=", "\npath=")
    return {path: (int(length), int(modified)) for path, length, modified in _STATUS.findall(lines)}


def _interrupted(stopped: BaseException) -> bool:
    """Also when PySpark's handler of the interrupt failed, whose error then comes out in its place."""
    while True:
        frames = traceback.extract_tb(stopped.__traceback__)
        if isinstance(stopped, KeyboardInterrupt) or any(frame.name == "signal_handler" for frame in frames):
            return True
        if stopped.__context__ is None:
            return False
        stopped = stopped.__context__


def getattr_path(root: Any, dotted: str) -> Any:
    for part in dotted.split("."):
        root = getattr(root, part)
    return root
