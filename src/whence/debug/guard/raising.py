"""Where Spark's own expressions may raise, on which rows they do, and the query without those rows.

Spark evaluates an expression where its optimizer has put it, not where the user wrote it, and not at all where nobody
needs its value. So the plan is looked at as optimised, operator by operator, inputs first. A row fails in an operator
if the whole of what is evaluated on it raises: a branch of CASE that is not taken does not fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from whence.spark.expressions import can_up_cast, count_of, first_fields, is_lenient, lenient, permissive, text_literal
from whence.spark.handles import another_session, execution_of
from whence.sql import Catalyst
from whence.sql.catalyst import Attr, Expr, Plan, class_name, id_of

_RULES = "org.apache.spark.sql"
_SETTINGS = {
    # What is evaluated twice is evaluated once beforehand: outside of what catches its error.
    "spark.sql.subexpressionElimination.enabled": "false",
    # Filters at run time and cut-down scans make no difference to what raises, but cannot be traced.
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.runtimeFilter.semiJoinReduction.enabled": "false",
    "spark.sql.optimizer.windowGroupLimitThreshold": "-1",
}
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_WITHOUT = (
    f"{_RULES}.catalyst.optimizer.ConvertToLocalRelation",  # evaluates expressions, and raises while planning
    f"{_RULES}.catalyst.optimizer.MergeScalarSubqueries",
    f"{_RULES}.catalyst.optimizer.MergeSubplans",
    f"{_RULES}.execution.datasources.PruneFileSourcePartitions",
    f"{_RULES}.execution.datasources.SchemaPruning",
)

# Expressions that raise nothing themselves; any other may.
_SAFE = {
    *("AttributeReference", "Literal", "Alias", "And", "Or", "Not", "EqualTo", "EqualNullSafe", "LessThan"),
    *("LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "IsNull", "IsNotNull", "IsNaN", "In", "InSet", "If"),
    *("CaseWhen", "Coalesce", "GetStructField", "CreateNamedStruct", "CreateArray", "SortOrder", "PythonUDF"),
    *("PythonUDAF", "KnownNotNull", "KnownNullable", "KnownFloatingPointNormalized", "NormalizeNaNAndZero"),
    *("Upper", "Lower", "Length", "StartsWith", "EndsWith", "Contains", "XxHash64", "Murmur3Hash"),
    *("MonotonicallyIncreasingID", "SparkPartitionID", "Rand", "Randn", "AggregateExpression", "Count", "Min", "Max"),
    *("First", "Last", "AnyValue", "CollectList", "CollectSet", "RowNumber", "Rank", "DenseRank", "Lag", "Lead"),
    *("WindowExpression", "WindowSpecDefinition", "SpecifiedWindowFrame", "UnboundedPreceding", "UnboundedFollowing"),
    *("CurrentRow", "DynamicPruningSubquery", "ScalarSubquery"),
}
_SUMS = ("Sum", "Average")
_FORMATS = ("CSVFileFormat", "JsonFileFormat", "XmlFileFormat")
_CORRUPT = "_corrupt_record"  # as Spark itself calls it
_PYTHON_NODES = ("BatchEvalPython", "ArrowEvalPython")


@dataclass(frozen=True, eq=False)
class Check:
    """What is evaluated in one operator: on the rows of `input` it raises where `fails` is true."""

    operator: Plan
    input: Plan
    fails: Expr
    expressions: tuple[Expr, ...]  # on the columns of `input`; none where it is the reading itself that raises
    of: str  # what fails: a row, a pair of rows, a group, a window's frame, a line of a file

    @property
    def text(self) -> str:
        return str(self.operator.simpleString(25)).strip()


@dataclass(eq=False)
class Checked:
    """A query with the rows on which it raises left out, and how they are found; inputs before what they feed."""

    plan: Plan
    checks: list[Check] = field(default_factory=list)


class Raising:
    def __init__(self, c: Catalyst, spark: SparkSession) -> None:
        self.c = c
        self._spark = spark
        self.session: JavaObject = another_session(spark)
        conf = self.session.sessionState().conf()
        for name, value in _SETTINGS.items():
            conf.setConfString(name, value)
        excluded = [name for name in [conf.getConfString(_EXCLUDED, "")] if name]
        conf.setConfString(_EXCLUDED, ",".join([*excluded, *_WITHOUT]))

    # --- between plans and rows

    def frame(self, plan: Plan) -> DataFrame:
        return DataFrame(self.c.dataset_of(self.session, plan), self._spark)

    def optimised(self, analysed: Plan) -> Plan:
        return self._uncached(execution_of(self.frame(analysed)).optimizedPlan())

    def checked(self, analysed: Plan) -> Checked:
        """What may raise in this query. Nothing is run for it."""
        found: list[Check] = []
        plan = self._visit(self.optimised(analysed), found, None)
        return Checked(plan, found)

    def without(self, rows: Plan, plan: Plan, inserted: Plan, found: list[Check]) -> Plan:
        """`rows`, which are those of `plan`, without those that cannot be cast to the types of a table: `inserted` is
        `plan` with these casts above it."""
        if class_name(inserted) != "Project" or not self.c.children(inserted)[0].fastEquals(plan):
            return rows
        casts = [e for whole in self.c.items(inserted.projectList()) for e in self._evaluated(whole)]
        raising = [e for e in casts if self.may_raise(e)]
        return self._without(inserted, rows, raising, found) if raising else rows

    def traceable(self, plan: Plan) -> Plan:
        """The same rows, from operators that lineage has rules for."""
        children = [self.traceable(child) for child in self.c.children(plan)]
        plan = self._with(plan, children)
        kind = class_name(plan)
        if kind in _PYTHON_NODES:
            pairs = zip(self.c.items(plan.udfs()), self.c.items(plan.resultAttrs()), strict=True)
            return self.c.extend(children[0], [self.c.alias_as(udf, attr) for udf, attr in pairs])
        if kind == "DataSourceV2ScanRelation":
            return self.c.project(self.c.output(plan), plan.relation())
        subqueries = {id_of(s): self.traceable(s.plan()) for s in self.c.subqueries(plan)}
        return self.c.replace_subqueries(plan, subqueries) if subqueries else plan

    # --- walking

    def _uncached(self, plan: Plan) -> Plan:
        """What is to be cached is computed now, by its own plan, which is optimised apart."""
        if class_name(plan) == "InMemoryRelation":
            if plan.cacheBuilder().isCachedColumnBuffersLoaded():
                return plan
            below = self._uncached(self._optimizer().execute(self.c.cached_plan(plan)))
            columns = zip(self.c.output(below), self.c.output(plan), strict=True)
            return self.c.project([self.c.alias_as(own, attr) for own, attr in columns], below)
        return self._with(plan, [self._uncached(child) for child in self.c.children(plan)])

    def _optimizer(self) -> JavaObject:
        return self.session.sessionState().optimizer()

    def _with(self, plan: Plan, children: Sequence[Plan]) -> Plan:
        before = self.c.children(plan)
        if all(new is old for new, old in zip(children, before, strict=True)):
            return plan
        return self.c.with_children(plan, children)

    def _visit(self, plan: Plan, found: list[Check], needed: set[int] | None) -> Plan:
        """`needed`: the columns that are made use of above; None where all of them are."""
        if class_name(plan) == "LogicalRelation":
            return self._scan(plan, found, needed)
        below = self._needed(plan, needed)
        plan = self._with(plan, [self._visit(child, found, below) for child in self.c.children(plan)])
        known = len(found)
        subqueries = {id_of(s): self._visit(s.plan(), found, None) for s in self.c.subqueries(plan)}
        if len(found) > known:
            plan = self.c.replace_subqueries(plan, subqueries)
        rules: dict[str, Callable[[Plan, list[Check]], Plan]] = {
            "Filter": self._filter,
            "Join": self._join,
            "Aggregate": self._aggregate,
            "Window": self._window,
        }
        return rules.get(class_name(plan), self._rows)(plan, found)

    def _needed(self, plan: Plan, above: set[int] | None) -> set[int] | None:
        if class_name(plan) not in ("Project", "Aggregate", "Filter"):
            return None
        mine = {id_of(a) for a in self.c.items(plan.references().toSeq())}
        if class_name(plan) == "Filter":
            return None if above is None else mine | above
        return mine

    # --- the operators

    def _rows(self, plan: Plan, found: list[Check]) -> Plan:
        """Whatever evaluates its expressions on each row of its input."""
        children = self.c.children(plan)
        expressions = [e for whole in self.c.items(plan.expressions().toSeq()) for e in self._evaluated(whole)]
        raising = [e for e in expressions if self.may_raise(e)]
        if len(children) != 1 or not raising:
            return plan
        return self.c.with_children(plan, [self._without(plan, children[0], raising, found)])

    def _without(
        self, operator: Plan, rows: Plan, raising: Sequence[Expr], found: list[Check], of: str = "row"
    ) -> Plan:
        fails = self.fails(raising)
        found.append(Check(operator, rows, fails, tuple(raising), of))
        return self.c.filter(self.c.negation(fails), rows)

    def _filter(self, plan: Plan, found: list[Check]) -> Plan:
        condition = plan.condition()
        if not self.may_raise(condition):
            return plan
        below = self.c.children(plan)[0]
        kept = self._without(plan, below, [self._in_turn(self._conjuncts(condition))], found)
        return self.c.with_children(plan, [kept])

    def _join(self, plan: Plan, found: list[Check]) -> Plan:
        """Keys are evaluated on each row of a side; what else there is, on the pairs whose keys are equal."""
        condition = plan.condition()
        if not condition.isDefined() or not self.may_raise(condition.get()):
            return plan
        c, sides = self.c, self.c.children(plan)
        columns = [{id_of(a) for a in c.output(side)} for side in sides]
        keys: tuple[list[Expr], list[Expr]] = ([], [])
        equal: list[Expr] = []
        others: list[Expr] = []
        for conjunct in self._conjuncts(condition.get()):
            pair = self._key(conjunct, columns)
            if pair is None:
                others.append(conjunct)
                continue
            equal.append(conjunct)
            for mine, key in zip(keys, pair, strict=True):
                mine.append(key)
        left, right = (
            self._without(plan, side, [k for k in mine if self.may_raise(k)], found)
            if any(map(self.may_raise, mine))
            else side
            for side, mine in zip(sides, keys, strict=True)
        )
        plan = c.with_children(plan, [left, right])
        if not any(map(self.may_raise, others)):
            return plan
        met = c.join(left, right, "inner", c.conjunction(equal) if equal else None)
        residual = self._in_turn(others)
        fails = self.fails([residual])
        found.append(Check(plan, met, fails, (residual,), "pair of rows"))
        return c.copy(plan, condition=c.some(c.conjunction([*equal, c.negation(fails), *others])))

    def _key(self, conjunct: Expr, columns: Sequence[set[int]]) -> tuple[Expr, Expr] | None:
        if class_name(conjunct) not in ("EqualTo", "EqualNullSafe"):
            return None
        one, other = self.c.children(conjunct)
        uses = [self.c.references(e) for e in (one, other)]
        if not all(uses):
            return None
        if uses[0] <= columns[0] and uses[1] <= columns[1]:
            return one, other
        if uses[0] <= columns[1] and uses[1] <= columns[0]:
            return other, one
        return None

    def _aggregate(self, plan: Plan, found: list[Check]) -> Plan:
        c = self.c
        grouping = c.items(plan.groupingExpressions())
        results = c.items(plan.aggregateExpressions())
        functions = self._unique(f for r in results for f in self._functions(r))
        arguments = [a for f in functions for a in self._arguments(f)]
        raising = [e for e in (*grouping, *arguments) if self.may_raise(e)]
        if raising:
            below = self._without(plan, c.children(plan)[0], raising, found)
            plan = c.with_children(plan, [below])
        return self._groups(plan, grouping, results, functions, found)

    def _groups(
        self, plan: Plan, grouping: Sequence[Expr], results: Sequence[Expr], functions: Sequence[Expr],
        found: list[Check],
    ) -> Plan:  # fmt: skip
        """Sums that overflow, and what is computed from the functions' values: both raise for a whole group."""
        c = self.c
        keys = [g if class_name(g) == "AttributeReference" else c.alias(g, f"key_{n}") for n, g in enumerate(grouping)]
        values: list[Expr] = []
        overflows: list[Expr] = []
        known: list[tuple[Expr, Attr]] = [
            (g, k if g is k else k.toAttribute()) for g, k in zip(grouping, keys, strict=True)
        ]
        for number, function in enumerate(functions):
            safe = self._lenient_sum(function)
            value = c.alias(safe or function, f"value_{number}")
            values.append(value)
            known.append((function, value.toAttribute()))
            if safe is not None:
                summed = c.items(function.aggregateFunction().children())[0]
                count = c.alias(self._like(count_of(c, summed), function), f"count_{number}")
                values.append(count)
                overflows.append(self._overflow(value.toAttribute(), count.toAttribute()))
        computed = [self._over_groups(r, known) for r in results]
        raising = [r for e in computed for r in self._evaluated(e) if self.may_raise(r)]
        if not overflows and not raising:
            return plan
        groups = c.copy(
            plan, groupingExpressions=c.seq(grouping), aggregateExpressions=c.seq([*keys, *values])
        )  # fmt: skip
        fails = c.disjunction([*overflows, *([self.fails(raising)] if raising else [])])
        found.append(Check(plan, groups, fails, tuple(raising), "group"))
        return c.project(computed, c.filter(c.negation(fails), groups))

    def _over_groups(self, expr: Expr, known: Sequence[tuple[Expr, Attr]]) -> Expr:
        """A result in terms of the groups' keys and functions' values."""
        if class_name(expr) != "Alias":  # a result that is a key keeps its name
            for before, attribute in known:
                if expr.semanticEquals(before):
                    return attribute if class_name(expr) != "AttributeReference" else expr
        children = self.c.children(expr)
        if not children:
            return expr
        return expr.withNewChildren(self.c.seq([self._over_groups(child, known) for child in children]))

    def _window(self, plan: Plan, found: list[Check]) -> Plan:
        """Sums over a frame that overflow raise for the row that the frame is of."""
        plan = self._rows(plan, found)
        c = self.c
        values: list[Expr] = []
        counts: list[Expr] = []
        overflows: list[Expr] = []
        for number, named in enumerate(c.items(plan.windowExpressions())):
            function, over = c.children(named.child())
            safe = self._lenient_sum(function) if class_name(function) == "AggregateExpression" else None
            if safe is None:
                values.append(named)
                continue
            summed = c.items(function.aggregateFunction().children())[0]
            counted = self._like(count_of(c, summed), function)
            counts.append(c.alias(c.expression("WindowExpression", counted, over), f"count_{number}"))
            values.append(c.alias_as(c.expression("WindowExpression", safe, over), named.toAttribute()))
            overflows.append(self._overflow(named.toAttribute(), counts[-1].toAttribute()))
        if not overflows:
            return plan
        rows = c.copy(plan, windowExpressions=c.seq([*values, *counts]))
        fails = c.disjunction(overflows)
        found.append(Check(plan, rows, fails, (), "frame"))
        return c.project(c.output(plan), c.filter(c.negation(fails), rows))

    def _lenient_sum(self, function: Expr) -> Expr | None:
        """The same function that gives NULL where it overflows; None where it cannot overflow."""
        inner = function.aggregateFunction()
        if class_name(inner) not in _SUMS or is_lenient(inner) or inner.dataType().typeName() in ("double", "float"):
            return None
        return self._like(lenient(self.c, inner), function)

    def _like(self, inner: Expr, function: Expr) -> Expr:
        """Of the same rows of each group; Spark knows its result by an id that must not be another's."""
        return inner.toAggregateExpression(function.isDistinct(), function.filter())

    def _overflow(self, value: Attr, count: Attr) -> Expr:
        some = self.c.expression("GreaterThan", count, self.c.long(0))
        return self.c.conjunction([self.c.expression("IsNull", value), some])

    def _functions(self, expr: Expr) -> Iterator[Expr]:
        if class_name(expr) == "AggregateExpression":
            yield expr
            return
        for child in self.c.children(expr):
            yield from self._functions(child)

    def _unique(self, expressions: Iterator[Expr]) -> list[Expr]:
        found: list[Expr] = []
        for expression in expressions:
            if not any(expression.semanticEquals(known) for known in found):
                found.append(expression)
        return found

    def _arguments(self, function: Expr) -> list[Expr]:
        """What a function of groups evaluates on each row, where its FILTER lets the row in."""
        arguments = self.c.items(function.aggregateFunction().children())
        condition = function.filter()
        if not condition.isDefined():
            return arguments
        return [self.c.expression("If", condition.get(), a, self.c.null(a)) for a in arguments]

    # --- reading files

    def _scan(self, plan: Plan, found: list[Check], needed: set[int] | None) -> Plan:
        """In the mode FAILFAST a malformed line raises; in the mode PERMISSIVE it is told in a column of its own. Only
        columns that are needed are parsed, and so found malformed."""
        c = self.c
        if not c.is_file_scan(plan) or class_name(plan.relation().fileFormat()) not in _FORMATS:
            return plan
        if (c.option(plan, "mode") or "").upper() != "FAILFAST":
            return plan
        columns = [a for a in c.output(plan) if needed is None or id_of(a) in needed]
        if not columns:
            return plan
        taken = {str(a.name()).lower() for a in c.output(plan)}
        rows, corrupt = permissive(c, plan, _CORRUPT if _CORRUPT not in taken else f"whence{_CORRUPT}")
        never = c.expression("GreaterThan", c.depending_on(c.long(0), columns), c.long(0))
        malformed = c.disjunction([c.is_not_null(corrupt), never])
        found.append(Check(plan, rows, malformed, (), "line"))
        return c.project(c.output(plan), c.filter(c.negation(malformed), rows))

    # --- expressions

    def fails(self, expressions: Sequence[Expr]) -> Expr:
        """Whether evaluating one of these raises: a struct is never NULL, unless making it does."""
        safe = [self._stateless(e) for e in expressions]
        made = [x for n, e in enumerate(safe) for x in (text_literal(self.c, f"v{n}"), e)]
        struct = self.c.expression("CreateNamedStruct", self.c.seq(made))
        return self.c.expression("IsNull", self.c.expression("TryEval", struct))

    def _stateless(self, expr: Expr) -> Expr:
        """Maps are made in a buffer that still holds the keys of the row before if that one raised: whether there are
        NULL or equal keys is asked before."""
        c = self.c
        children = c.children(expr)
        if not children or class_name(expr) == "LambdaFunction":
            return expr
        expr = expr.withNewChildren(c.seq([self._stateless(child) for child in children]))
        keys = self._keys_of_map(expr)
        if keys is None:
            return expr
        good = c.function("array_distinct", c.function("array_compact", keys))
        fewer = c.expression("LessThan", c.function("size", good), c.function("size", keys))
        return c.expression("If", fewer, c.function("raise_error", text_literal(c, "keys")), expr)

    def _keys_of_map(self, expr: Expr) -> Expr | None:
        """The keys of a map that is about to be made, as an array."""
        c, kind, children = self.c, class_name(expr), self.c.children(expr)
        if kind == "CreateMap":
            return c.function("array", *children[::2])
        if kind == "MapFromArrays":
            return children[0]
        if kind == "MapConcat":
            return c.function("concat", *[c.function("map_keys", one) for one in children])
        if kind == "MapFromEntries":
            keys = first_fields(c, children[0])
            missing = c.expression("LessThan", c.function("size", c.function("array_compact", children[0])),
                                   c.function("size", children[0]))  # fmt: skip
            return c.expression("If", missing, c.null(keys), keys)  # with an entry that is NULL, the map is
        return None

    def _conjuncts(self, condition: Expr) -> list[Expr]:
        if class_name(condition) != "And":
            return [condition]
        return [part for side in self.c.children(condition) for part in self._conjuncts(side)]

    def _in_turn(self, conjuncts: Sequence[Expr]) -> Expr:
        """As a filter takes them: what comes after a conjunct that is false or NULL is not evaluated, and tests for
        NULL of a conjunct's columns come first."""
        whole = self.c.true
        tests = [t for t in conjuncts if class_name(t) == "IsNotNull" and not self.may_raise(t)]
        others = [t for t in conjuncts if not any(t is test for test in tests)]
        for conjunct in reversed(others):
            mine = self.c.references(conjunct)
            before = [t for t in tests if self.c.references(t) <= mine]
            whole = self._if(conjunct, whole)
            for test in before:
                whole = self._if(test, whole)
        return whole

    def _if(self, condition: Expr, then: Expr) -> Expr:
        return self.c.expression("If", condition, then, self.c.negation(self.c.true))

    def _evaluated(self, expr: Expr) -> list[Expr]:
        """What an operator evaluates for this: not names, orders and functions of many rows, but what is in them."""
        kind = class_name(expr)
        if kind in ("Alias", "SortOrder"):
            return self._evaluated(self.c.children(expr)[0])
        if kind in ("WindowExpression", "WindowSpecDefinition", "AggregateExpression") or self._of_many(expr):
            return [e for child in self.c.children(expr) for e in self._evaluated(child)]
        return [expr]

    def _of_many(self, expr: Expr) -> bool:
        inside = "org.apache.spark.sql.catalyst.expressions"
        kinds = ("Generator", "WindowFunction", "aggregate.AggregateFunction")
        return any(self.c.is_a(expr, f"{inside}.{kind}") for kind in kinds)

    def may_raise(self, expr: Expr) -> bool:
        kind = class_name(expr)
        if kind == "TryEval" or not expr.deterministic():
            return False
        if kind == "Cast":
            return not self._harmless(expr) or self.may_raise(self.c.children(expr)[0])
        return kind not in _SAFE or any(self.may_raise(child) for child in self.c.children(expr))

    def _harmless(self, cast: Expr) -> bool:
        if str(cast.evalMode().toString()) != "ANSI":
            return True
        return can_up_cast(self.c, self.c.children(cast)[0], cast)
