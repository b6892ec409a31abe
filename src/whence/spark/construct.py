"""Makes expressions and plans: the half of catalyst.py that calls constructors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar
from uuid import UUID

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from whence.spark.contents import Contents
from whence.spark.release import release_of
from whence.spark.round_trips import ID, Known, handles_for, nodes, prepare
from whence.spark.shared import OF_FRAMES, shared

Plan: TypeAlias = JavaObject
Expr: TypeAlias = JavaObject
Attr: TypeAlias = JavaObject
T = TypeVar("T")

# Spark's positions: the number of the partition stands above these bits, the row's number in it below.
POSITION_BITS = 33

# Where a connection to a JVM keeps the id of that JVM.
_JVM = "whence_jvm"
_BITS = 64
# As many elements java.util.List.of takes one by one.
_AT_ONCE = 10
# What stands in a text for bytes that are none.
_NO_TEXT = "\N{REPLACEMENT CHARACTER}"
_MADE_OF_TEXT = ("tinyint", "smallint", "int", "bigint", "string")
_PLAIN_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "string", "date")


def to_list(scala_seq: JavaObject) -> list[JavaObject]:
    handles = handles_for(scala_seq)
    told = None if handles is None else handles.list(scala_seq)
    if told is not None:
        return nodes(scala_seq._gateway_client, told)
    return [scala_seq.apply(i) for i in range(scala_seq.size())]


def children_of(node: JavaObject) -> list[JavaObject]:
    handles = handles_for(node)
    return to_list(node.children()) if handles is None else nodes(node._gateway_client, handles.children(node))


def output_of(plan: JavaObject) -> list[JavaObject]:
    handles = handles_for(plan)
    return to_list(plan.output()) if handles is None else nodes(plan._gateway_client, handles.output(plan))


def references_of(node: JavaObject) -> list[JavaObject]:
    handles = handles_for(node)
    if handles is None:
        return to_list(node.references().toSeq())
    return nodes(node._gateway_client, handles.references(node))


def class_name(node: JavaObject) -> str:
    return remembered(node, "class", lambda: _class_of(node).rstrip("$"))


def _class_of(node: JavaObject) -> str:
    handles = handles_for(node)
    return str(node.getClass().getSimpleName() if handles is None else handles.name(node))


def remembered(handle: JavaObject | Known, what: str, look: Callable[[], T]) -> T:
    """What `look` finds out, asked once for each handle: plans never change, and every look is a round trip."""
    name = f"whence_{what}"
    if name not in handle.__dict__:
        handle.__dict__[name] = look()
    found: T = handle.__dict__[name]
    return found


def id_of(named: JavaObject) -> int:
    """The id of an attribute, an alias or a subquery; attributes with one id are one column.

    Each JVM counts from 0, and a query that was captured has the ids of the JVM that captured it: those of others than
    this one are told apart by that JVM's own id."""
    return remembered(named, "id", lambda: _id_of(named))


def _id_of(named: JavaObject) -> int:
    told = named.__dict__.get(ID) or _told_id(named)
    number, _, jvm = told.removeprefix("ExprId(").removesuffix(")").partition(",")
    here = getattr(named._gateway_client, _JVM, jvm)
    return int(number) if jvm == here else int(number) + (UUID(jvm).int << _BITS)


def _told_id(named: JavaObject) -> str:
    handles = handles_for(named)
    told = "" if handles is None else str(handles.id(named))
    return told or str(named.exprId().toString())


def is_of_another_jvm(named: JavaObject) -> bool:
    return id_of(named) >= 1 << _BITS


def _is_made_of_text(kind: str) -> bool:
    """Whether Handles.java makes constants of this type."""
    return kind in _MADE_OF_TEXT or kind.startswith("decimal(")


def _is_of_16_bits(text: str) -> bool:
    return not text or max(text) <= "\uffff"


class Making(Contents):
    """What a Catalyst makes new."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        jvm: Any = spark._jvm
        self.adapter = release_of(spark)
        self._jvm: Any = jvm
        self._gateway: Any = spark._sc._gateway
        known = shared(jvm)
        self._plans: Any = known.plans
        self._exprs: Any = known.exprs
        self._join_types: Any = known.join_types
        self._analysis: Any = known.analysis
        self._to_seq: Callable[[list[JavaObject]], JavaObject] = known.to_seq
        self._list_of: Callable[..., JavaObject] = known.list_of
        self._object: Any = known.object
        self._system: Any = known.system
        self._uri: Any = known.uri
        self._some: Any = known.some
        self._none: JavaObject = known.none
        self._empty: JavaObject = known.empty
        self._of_frames: JavaObject = known.of_frames
        self._no_hint: JavaObject = known.no_hint
        self._true: Expr = known.true
        self._new_id: Callable[[], JavaObject] = known.new_id
        client: Any = jvm._gateway_client
        setattr(client, _JVM, known.jvm)
        prepare(spark)
        self._parser: JavaObject = spark._jsparkSession.sessionState().sqlParser()
        self._loader: Any = known.thread.currentThread().getContextClassLoader()
        self._loaded: dict[str, JavaObject] = {}

    def conf(self, name: str) -> str | None:
        found: str | None = self.spark.conf.get(name, None)
        return found

    def output(self, plan: Plan) -> list[Attr]:
        return list(remembered(plan, "output", lambda: output_of(plan)))

    def is_a(self, value: object, java_class: str) -> bool:
        return isinstance(value, JavaObject) and bool(self._class(java_class).isInstance(value))

    def _class(self, name: str) -> JavaObject:
        if name not in self._loaded:
            self._loaded[name] = self._loader.loadClass(name)
        return self._loaded[name]

    # --- making expressions

    def seq(self, items: Iterable[JavaObject]) -> JavaObject:
        """A Scala sequence, in few round trips: py4j itself would need one for each element."""
        left = list(items)
        handles = handles_for(self._empty)
        if left and handles is not None and all(isinstance(item, JavaObject) for item in left):
            return handles.seq(" ".join(item._target_id for item in left))
        made = self._empty
        while left:
            some = self._to_seq(self._list_of(*left[:_AT_ONCE]))
            made = some if made is self._empty else self.adapter.appended(made, some)
            left = left[_AT_ONCE:]
        return made

    def some(self, value: JavaObject) -> JavaObject:
        return self._some(value)

    def none(self) -> JavaObject:
        return self._none

    def alias(self, expr: Expr, name: str) -> Expr:
        """A named expression with a fresh id: its attribute never clashes with another's, and is no column of the
        DataFrame that `expr` may be of, for which Spark would take it in a join."""
        handles = handles_for(expr)
        if handles is not None:
            return handles.alias(expr, name, " ".join(OF_FRAMES))
        return self._exprs.Alias(expr, name, self._new_id(), self._empty, self._none, self._of_frames)

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
        """Equality under which NULL equals NULL, as in GROUP BY, which compares maps too."""
        if "map<" not in self.type_of(left):
            return self._exprs.EqualNullSafe(left, right)
        pairs = zip(self.group_hashes([left]), self.group_hashes([right]), strict=True)
        return self.conjunction([self.equal(one, other) for one, other in pairs])

    def equal(self, left: Expr, right: Expr) -> Expr:
        return self._exprs.EqualTo(left, right)

    def one_of(self, expr: Expr, values: Sequence[object]) -> Expr | None:
        """A filter that Spark can push into a scan: `expr` has one of these values, as told, or is NULL if one is.

        None where a value does not survive the way through Python unchanged (floats, timestamps, nested data)."""
        if not self.survives(expr, values):
            return None
        kind = self.type_of(expr)
        distinct = {None if v is None else str(v) for v in values}
        texts = sorted(v for v in distinct if v is not None)
        tests = []
        if texts:
            tests.append(self._in(expr, texts, kind))
        if None in distinct:
            tests.append(self._exprs.IsNull(expr))
        return self.disjunction(tests) if tests else None

    def literal(self, value: object, like: Attr) -> Expr:
        """A value that was told to Python as a constant; it must have survived that."""
        if value is None:
            return self.null(like)
        handles, kind = handles_for(like), self.type_of(like)
        if handles is None or not _is_made_of_text(kind):
            return self._literal(str(value), kind)
        return handles.constant(like, str(value))

    def unpushed(self, expr: Expr) -> Expr:
        """The same value, in a form by which Spark gives no condition on it to a scan."""
        return self._exprs.KnownNullable(expr)

    def _in(self, expr: Expr, texts: Sequence[str], kind: str) -> Expr:
        handles = handles_for(expr)
        # Lengths are Java's, which counts what is beyond 16 bits twice.
        if handles is None or not _is_made_of_text(kind) or not all(map(_is_of_16_bits, texts)):
            return self._exprs.In(expr, self.seq([self._literal(text, kind) for text in texts]))
        return handles.oneOf(expr, "".join(f"{len(text)}:{text}" for text in texts))

    def _literal(self, text: str, kind: str) -> Expr:
        return self._text(text) if kind == "string" else self.parse(f"CAST('{text}' AS {kind})")

    def type_of(self, expr: Expr) -> str:
        return remembered(expr, "type", lambda: str(expr.dataType().catalogString()))

    def told(self, expr: Expr) -> Expr:
        """What Python is told of a value: the value itself if it is plain, else a number that stands for it.

        Years beyond 9999 are dates to Spark and not to Python, so dates are told as texts."""
        if self.type_of(expr) == "date":
            return self.cast(expr, self._text(""))
        return expr if self.is_plain(expr) else self.group_hashes([expr])[0]

    def survives(self, expr: Expr, values: Iterable[object]) -> bool:
        """Whether these values of `expr` came through Python unchanged. Bytes that are no UTF-8 did not."""
        return self.is_plain(expr) and not any(isinstance(v, str) and _NO_TEXT in v for v in values)

    def is_plain(self, expr: Expr) -> bool:
        """Whether values of this type survive the way through Python unchanged."""
        kind = self.type_of(expr)
        return kind in _PLAIN_TYPES or kind.startswith("decimal(")

    def is_not_null(self, expr: Expr) -> Expr:
        return self._exprs.IsNotNull(expr)

    def expression(self, name: str, *args: JavaObject) -> Expr:
        return getattr(self._exprs, name)(*args)

    def position(self) -> Expr:
        return self._exprs.MonotonicallyIncreasingID()

    def position_in_file(self, block_start: Expr, split: int) -> Expr:
        """Which row of its file it is, in a scan whose tasks read one piece of one file each. Pieces start at multiples
        of `split`, a power of two; the positions of each have a range of their own."""
        kinds = self._exprs
        within = kinds.BitwiseAnd(self.position(), self.long((1 << POSITION_BITS) - 1))
        shift = POSITION_BITS - (split.bit_length() - 1)
        return kinds.BitwiseOr(within, kinds.ShiftLeft(block_start, self.parse(str(shift))))

    def depending_on(self, expr: Expr, attributes: Sequence[Attr]) -> Expr:
        """The same number, in a way that needs all of these columns."""
        nothing = self._exprs.BitwiseAnd(self.content_hashes(attributes)[0], self.long(0))
        return self._exprs.BitwiseOr(expr, nothing)

    def hash64(self, expr: Expr) -> Expr:
        return self._exprs.XxHash64(self.seq([expr]), 42)

    def function(self, name: str, *args: Expr) -> Expr:
        """A call that the analyzer resolves."""
        return self._analysis.the("UnresolvedFunction").apply(name, self.seq(args), False)

    def unresolved(self, name: str) -> Expr:
        """A column that the analyzer finds by its name."""
        return self._analysis.the("UnresolvedAttribute").apply(self.seq([name]))

    def said_by(self, column: JavaObject) -> Expr:
        """The expression of a Column, before any name in it is looked up."""
        return self.adapter.expression(self.spark._jsparkSession, column)

    def said(self, expr: Expr) -> Expr:
        """An expression that may hold Columns which nobody has made expressions of yet."""
        if class_name(expr) == "ColumnNodeExpression":
            return self.spark._jsparkSession.converter().apply(expr.node())
        return expr

    def cast(self, expr: Expr, like: Attr) -> Expr:
        """`expr` in the type of `like`; NULL where it cannot be."""
        return getattr(getattr(self._exprs, "Cast$"), "MODULE$").apply(expr, like.dataType(), False)

    def can_cast(self, expr: Expr, like: Attr) -> bool:
        """Whether that is possible at all: of structs only between as many fields."""
        return bool(getattr(getattr(self._exprs, "Cast$"), "MODULE$").canCast(expr.dataType(), like.dataType()))

    def text_is(self, attribute: Attr, text: str | None) -> Expr:
        """Whether a value is written as this text; None: whether it is NULL."""
        if text is None:
            return self._exprs.IsNull(attribute)
        literal = self._text(text)
        return self.equal(self.cast(attribute, literal), literal)

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

    def number(self, value: int) -> Expr:
        return self._exprs.the("Literal").apply(value)

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

    def where(self, condition: Expr, expr: Attr) -> Expr:
        """NULL where the condition does not hold."""
        return self._exprs.If(condition, expr, self.null(expr))

    def negation(self, condition: Expr) -> Expr:
        return self._exprs.Not(condition)

    def is_true(self, condition: Expr) -> Expr:
        """True or false, never NULL."""
        return self._exprs.Coalesce(self.seq([condition, self.parse("false")]))

    def is_zero(self, expr: Expr) -> Expr:
        return self.equal(expr, self.cast(self.parse("0"), expr))

    def any_true(self, condition: Expr) -> Expr:
        """An aggregate: whether the condition is true of a row of the group."""
        return self._exprs.aggregate.Max(condition).toAggregateExpression()

    def or_less_than_zero(self, expr: Expr) -> Expr:
        """A number that is never NULL: -1 where it was."""
        return self._exprs.Coalesce(self.seq([expr, self.long(-1)]))

    def call(self, target: JavaObject, method: str, args: Sequence[Expr]) -> Expr:
        """A call of a method of a Java object, which gives true or false.

        As it is not deterministic, Spark evaluates it once for each row, there and nowhere else."""
        kind = getattr(self._jvm, "org.apache.spark.sql.types.ObjectType")(target.getClass())
        boolean = getattr(self._jvm, "org.apache.spark.sql.types.DataTypes").BooleanType
        literal = self._exprs.Literal(target, kind)
        return self._exprs.objects.Invoke(literal, method, boolean, self.seq(args), self._empty, False, False, False)

    # --- making plans

    def alias_as(self, expr: Expr, attribute: Attr) -> Expr:
        """`expr` under the name and id of `attribute`, so that conditions written for the attribute fit."""
        # Spark takes a column that is named anew under its own id for another one, and gives that a new id.
        if class_name(expr) == "AttributeReference" and id_of(expr) == id_of(attribute):
            return expr
        return self._exprs.Alias(expr, attribute.name(), attribute.exprId(), self._empty, self._none, self._empty)

    def project(self, exprs: Sequence[Expr], child: Plan) -> Plan:
        return self._plans.Project(self.seq(exprs), child)

    def extend(self, child: Plan, exprs: Sequence[Expr]) -> Plan:
        return self._plans.Project(self.adapter.appended(child.output(), self.seq(exprs)), child) if exprs else child

    def one_row(self, exprs: Sequence[Expr]) -> Plan:
        """One row of constants."""
        return self.project(exprs, self._plans.OneRowRelation())

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

    def marked(self, mark: str, child: Plan) -> Plan:
        """The same rows and columns, below a condition that is always true and stays in the analysed plan."""
        return self.filter(self._exprs.EqualTo(self._text(mark), self._text(mark)), child)

    def set_operation(self, kind: str, left: Plan, right: Plan, is_all: bool) -> Plan:
        """An Except or an Intersect."""
        return getattr(self._plans, kind)(left, right, is_all)

    def scalar_subquery(self, plan: Plan) -> Expr:
        """Of a query that refers to nothing outside of it."""
        kind = self._exprs.ScalarSubquery
        return self._new(kind, plan, self._empty, self._new_id(), self._empty, last=self._none)

    def subquery_alias(self, name: str, plan: Plan) -> Plan:
        return self._plans.the("SubqueryAlias").apply(name, plan)

    def distinct(self, plan: Plan) -> Plan:
        if "map<" not in plan.schema().catalogString():
            return self._plans.Distinct(plan)
        return self._new(self._plans.Aggregate, plan.output(), plan.output(), plan, last=self._none)

    def limit(self, n: int, child: Plan) -> Plan:
        count = self.parse(str(n))
        return self._plans.GlobalLimit(count, self._plans.LocalLimit(count, child))

    def limit_of_each(self, n: int, child: Plan) -> Plan:
        """The first rows of each partition, which Spark stops at."""
        return self._plans.LocalLimit(self.parse(str(n)), child)

    def first_of_each(self, n: int, child: Plan) -> Plan:
        """The first rows of each partition. Spark computes all of them, but compiles no code for that which it has
        compiled before, as it does for a limit, whose counter has another name in every query."""
        within = self._exprs.BitwiseAnd(self.position(), self.long((1 << POSITION_BITS) - 1))
        return self.filter(self._exprs.LessThan(within, self.long(n)), child)

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
