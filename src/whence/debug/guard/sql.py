"""The row on which one of Spark's own expressions failed: a cast, a division, an index, a malformed line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from whence.debug.guard.culprit import Culprit, SourceRows
from whence.debug.guard.raising import Check, Raising
from whence.model import WhenceError
from whence.spark.expressions import bound, folded, local_rows, rows_of, values_of
from whence.spark.failures import condition_of, context_of, contexts_of, short_message, thrown
from whence.spark.frames import query_context_loggers
from whence.spark.statements import parsed
from whence.sql import Catalyst
from whence.sql.catalyst import Expr, Plan, class_name, id_of
from whence.store import private

Witnesses = Callable[[DataFrame], Iterator[SourceRows]]

LOOKED_AT = 1000  # rows that fail in one operator, of which the one is chosen that gives the job's own error
_TOO_MANY = "SCALAR_SUBQUERY_TOO_MANY_ROWS"
# Expressions that evaluate some of their inputs only sometimes.
_CONDITIONAL = {"If", "CaseWhen", "Coalesce", "And", "Or", "In", "NaNvl", "Least", "Greatest"}
_JVM = (Py4JError, PySparkException)  # what PySpark makes of an error of the JVM


def failed_in_sql(c: Catalyst, error: BaseException) -> bool:
    """Whether the query ran, and one of Spark's own expressions or readers raised."""
    found = thrown(c, error)
    if found is None or c.is_a(found, "org.apache.spark.sql.AnalysisException"):
        return False
    return not condition_of(found).startswith(("INTERNAL_ERROR", "PYTHON_", "UDTF_", "TABLE_OR_VIEW", "PARSE"))


@dataclass(frozen=True, eq=False)
class Failed:
    """A row that fails in an operator: how, and in which expression."""

    c: Catalyst
    check: Check
    row: JavaObject
    record: Row
    condition: str
    message: str
    expression: Expr | None
    context: str

    @property
    def is_certain(self) -> bool:
        """Whether it is known how it fails: an expression that raises when it is evaluated on the row, a malformed
        line, a sum that overflows. Else Spark gave no value for the row, and nobody is accused of more."""
        return self.expression is not None or self.condition != ""

    @property
    def name(self) -> str:
        return sql_text(self.c, self.expression) if self.expression is not None else self.check.text


@contextmanager
def unlogged() -> Iterator[None]:
    """PySpark logs every error of a query; those that are looked for are not news."""
    loggers = query_context_loggers()
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


class SqlSearch:
    """Looks for the rows of a query on which Spark's own expressions raise."""

    def __init__(self, c: Catalyst, spark: SparkSession) -> None:
        self.c = c
        self.raising = Raising(c, spark)

    # --- one culprit

    def find(self, plans: Sequence[Plan], error: BaseException, home: Path, witnesses: Witnesses) -> Culprit | None:
        wanted = thrown(self.c, error)
        assert wanted is not None
        best: Failed | None = None
        for plan in plans:
            if condition_of(wanted).startswith(_TOO_MANY):
                found = self._too_many(plan, wanted, witnesses)
                if found is not None:
                    return found
                continue
            checks = self.raising.checked(plan).checks
            for check in sorted(checks, key=lambda k: not self._named(k, wanted)):
                for failed in self.failing(check, LOOKED_AT):
                    if not failed.is_certain:
                        continue
                    if self._same(failed, wanted):
                        return self._culprit(failed, home, witnesses)
                    best = best or failed
        return self._culprit(best, home, witnesses) if best is not None else None

    def _named(self, check: Check, wanted: JavaObject) -> bool:
        """Whether the error names a place in the query that is evaluated here."""
        places = {place for place in contexts_of(wanted) if place}
        return any(context_of(e) in places for whole in check.expressions for e in self._inside(whole))

    def _inside(self, expr: Expr) -> Iterator[Expr]:
        yield expr
        for child in self.c.children(expr):
            yield from self._inside(child)

    def _same(self, failed: Failed, wanted: JavaObject) -> bool:
        if failed.expression is None:
            return True  # only a malformed line, or a sum that overflowed, has none
        return failed.condition == condition_of(wanted) and failed.message == short_message(wanted)

    def _culprit(self, failed: Failed, home: Path, witnesses: Witnesses) -> Culprit:
        notes: tuple[str, ...] = ()
        sources: tuple[SourceRows, ...] = ()
        try:
            sources = tuple(witnesses(self.like(failed)))
        except WhenceError as trouble:
            notes = (f"its source rows are not known: {trouble}".split("\n", 1)[0],)
        except _JVM as trouble:
            notes = (f"its source rows are not known: {type(trouble).__name__} while tracing it",)
        return Culprit(
            failed.name, failed.record, failed.message, failed.context, -1, -1,
            sources=sources, notes=notes, script=self._script(failed, home), operator=failed.check.text,
            condition=failed.condition,
        )  # fmt: skip

    def like(self, failed: Failed) -> DataFrame:
        """The rows of the operator's input that fail and have this row's values."""
        c, check = self.c, failed.check
        columns = c.output(check.input)
        values = values_of(c, failed.row, check.input)
        same = [c.same(a, v) for a, v in zip(columns, values, strict=True) if _comparable(a)]
        plan = c.filter(c.conjunction([check.fails, *same]), check.input)
        return self.raising.frame(self.raising.traceable(plan))

    # --- rows that fail

    def failing(self, check: Check, most: int | None = None) -> list[Failed]:
        """The rows that fail in this operator. With more than LOOKED_AT of them, the errors of the others are not
        looked into one by one."""
        c = self.c
        plan = c.filter(check.fails, check.input)
        columns = c.output(check.input)
        rows = rows_of(self.raising.frame(c.limit(most, plan) if most is not None else plan))
        if not rows:
            return []
        records = self.raising.frame(local_rows(c, columns, rows)).collect()
        return [self._failed(check, row, record, n) for n, (row, record) in enumerate(zip(rows, records, strict=True))]

    def rows(self, check: Check) -> DataFrame:
        """The same, to be traced."""
        return self.raising.frame(self.raising.traceable(self.c.filter(check.fails, check.input)))

    def _failed(self, check: Check, row: JavaObject, record: Row, number: int) -> Failed:
        if not check.expressions or number >= LOOKED_AT:
            return self._without_expression(check, row, record)
        columns = self.c.output(check.input)
        for whole in check.expressions:
            found = self._error(whole, columns, row)
            if found is not None:
                narrow = self._narrowest(whole, columns, row)
                found = self._error(narrow, columns, row) or found
                context = "\n".join(contexts_of(found))
                message = short_message(found)
                return Failed(self.c, check, row, record, condition_of(found), message, narrow, context)
        return self._without_expression(check, row, record)

    def _without_expression(self, check: Check, row: JavaObject, record: Row) -> Failed:
        if check.of == "line":
            text = next(v for n, v in record.asDict().items() if n.endswith("_corrupt_record"))
            message = f"[MALFORMED_RECORD_IN_PARSING] The mode FAILFAST refuses this malformed record: {text!r}"
            return Failed(self.c, check, row, record, "MALFORMED_RECORD_IN_PARSING", message, None, "")
        sums = {
            "group": "a sum of this group overflows",
            "frame": "a sum over the window's frame of this row overflows",
        }
        if check.of in sums:
            return Failed(self.c, check, row, record, "ARITHMETIC_OVERFLOW", sums[check.of], None, "")
        return Failed(self.c, check, row, record, "", f"this {check.of} fails here", None, "")

    def _error(self, expr: Expr, columns: list[JavaObject], row: JavaObject) -> JavaObject | None:
        """What evaluating this on the row throws, in the JVM and without a job."""
        try:
            with unlogged():
                bound(self.c, expr, columns).eval(row)
        except (*_JVM, AttributeError) as error:  # the last is how PySpark 4.0 fails over an error (see thrown)
            found = thrown(self.c, error)
            if found is None and isinstance(error, AttributeError):
                raise
            return None if found is None or condition_of(found).startswith("INTERNAL_ERROR") else found
        return None

    def _narrowest(self, expr: Expr, columns: list[JavaObject], row: JavaObject) -> Expr:
        """The smallest part that fails as well, and is what the whole fails for."""
        c = self.c
        children = c.children(expr)
        whole = self._error(expr, columns, row)
        for number, child in enumerate(children):
            inner = None if class_name(child) == "LambdaFunction" else self._error(child, columns, row)
            if inner is None or whole is None or short_message(inner) != short_message(whole):
                continue
            if class_name(expr) in _CONDITIONAL:
                without = [c.null(child) if n == number else other for n, other in enumerate(children)]
                if self._error(expr.withNewChildren(c.seq(without)), columns, row) is not None:
                    continue
            return self._narrowest(child, columns, row)
        return expr

    # --- subqueries of more than one row

    def _too_many(self, plan: Plan, wanted: JavaObject, witnesses: Witnesses) -> Culprit | None:
        optimised = self.raising.optimised(plan)
        for subquery in (*self._scalar_subqueries(optimised), *self._met_twice(optimised)):
            rows = self.raising.frame(self.c.limit(11, subquery)).collect()
            if len(rows) <= 1:
                continue
            notes: tuple[str, ...] = ("a scalar subquery may give one row only; it is all of its rows that are told",)
            sources: tuple[SourceRows, ...] = ()
            try:
                sources = tuple(witnesses(self.raising.frame(self.raising.traceable(subquery))))
            except WhenceError as trouble:
                notes = (*notes, f"its source rows are not known: {trouble}".split("\n", 1)[0])
            return Culprit(
                "scalar subquery", rows[:10], short_message(wanted), "\n".join(contexts_of(wanted)), -1, -1,
                sources=sources, notes=notes, operator=str(subquery.simpleString(25)).strip(),
                condition=condition_of(wanted),
            )  # fmt: skip
        return None

    def _met_twice(self, plan: Plan) -> Iterator[Plan]:
        """A subquery that speaks of the query around it becomes a join: the rows that it gives for one row of that."""
        c = self.c
        for child in (*c.children(plan), *[subquery.plan() for subquery in c.subqueries(plan)]):
            yield from self._met_twice(child)
        if class_name(plan) != "Join" or str(plan.joinType().toString()) != "LeftSingle":
            return
        left, right = c.children(plan)
        condition = plan.condition().get() if plan.condition().isDefined() else None
        number = c.alias(c.position(), "whence_number")
        numbered = c.plan_of(c.materialise(c.with_position(left, number)))
        pairs = self.raising.frame(
            c.project([number.toAttribute(), *c.output(left)], c.join(numbered, right, "inner", condition))
        )
        pairs = pairs.toDF("n", *[f"c{i}" for i in range(len(pairs.columns) - 1)])
        twice = pairs.groupBy("n").count().where("count > 1").select("n").limit(1)
        rows = rows_of(pairs.join(twice, "n", "leftsemi").drop("n").limit(1))
        if rows:
            values = values_of(c, rows[0], left)
            same = [c.same(a, v) for a, v in zip(c.output(left), values, strict=True) if _comparable(a)]
            yield c.join(c.filter(c.conjunction(same), left), right, "inner", condition)

    def _scalar_subqueries(self, plan: Plan) -> Iterator[Plan]:
        for child in self.c.children(plan):
            yield from self._scalar_subqueries(child)
        for subquery in self.c.subqueries(plan):
            yield from self._scalar_subqueries(subquery.plan())
            if class_name(subquery) == "ScalarSubquery":
                yield subquery.plan()

    # --- a script that fails alone

    def _script(self, failed: Failed, home: Path) -> Path | None:
        """The expression over the row's values as a query in SQL; None where it cannot be written as one."""
        if failed.expression is None:
            return None
        c = self.c
        columns = c.output(failed.check.input)
        used = c.references(failed.expression)
        values = [
            f"{folded(c, v).sql()} AS {sql_text(c, a)}"
            for a, v in zip(columns, values_of(c, failed.row, failed.check.input), strict=True)
            if id_of(a) in used
        ]
        query = f"SELECT {sql_text(c, failed.expression)}" + (f" FROM (SELECT {', '.join(values)})" if values else "")
        try:
            with unlogged():
                self.raising.frame(parsed(self.raising.session, query)).collect()
            return None
        except _JVM as error:
            again = thrown(c, error)
            if again is None or condition_of(again) != failed.condition:
                return None
        private.make_directory(home, home.parents[1])
        script = home / "culprit.py"
        conf = self.raising.session.sessionState().conf()
        settings = {name: conf.getConfString(name) for name in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")}
        private.write(script, _SCRIPT.format(settings=ascii(settings), query=ascii(query)).encode())
        return script


_SCRIPT = '''"""Fails as the job did, on one row alone."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
for name, value in {settings}.items():
    spark.conf.set(name, value)
query = {query}
print(query)
spark.sql(query).collect()
print("It no longer fails.")
'''


def sql_text(c: Catalyst, expr: Expr) -> str:
    """As SQL, with columns by their own names."""
    return str(_unqualified(c, expr).sql())


def _unqualified(c: Catalyst, expr: Expr) -> Expr:
    if class_name(expr) == "AttributeReference":
        return expr.withQualifier(expr.qualifier().take(0))
    children = c.children(expr)
    return expr.withNewChildren(c.seq([_unqualified(c, child) for child in children])) if children else expr


def _comparable(attribute: JavaObject) -> bool:
    kind = str(attribute.dataType().catalogString())
    return not any(name in kind for name in ("map<", "variant", "interval"))
