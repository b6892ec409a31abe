"""What Spark remembers of the text that a plan was parsed from."""

from __future__ import annotations

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError

from whence.spark.catalyst import Catalyst
from whence.spark.construct import Expr, Plan, class_name

_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_PARSED_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.ParsedStatement"


def _some(option: JavaObject) -> JavaObject | None:
    return option.get() if option.isDefined() else None


def sql_text(node: Plan) -> str | None:
    """The whole statement that this operator was parsed from; None for what was built by DataFrame operations."""
    text = _some(node.origin().sqlText())
    return None if text is None else str(text)


def is_computed_before(leaf: Plan) -> bool:
    """Whether a LocalRelation holds rows that Spark had computed when it made it: the result of a SQL script, or of a
    method such as `crosstab`. What Python gives is in rows of another kind, and VALUES stands in a text."""
    rows = leaf.data()
    if sql_text(leaf) is not None or rows.isEmpty():
        return False
    return str(rows.head().getClass().getSimpleName()) == "GenericInternalRow"


def span(node: Plan) -> tuple[int, int] | None:
    """From which character of its statement to which one, without the last, the operator stands."""
    origin = node.origin()
    first, last = _some(origin.startIndex()), _some(origin.stopIndex())
    return None if first is None or last is None else (int(str(first)), int(str(last)) + 1)


def view_text(view: Plan) -> str | None:
    text = _some(view.desc().viewText())
    return None if text is None else str(text)


def view_name(view: Plan) -> str:
    return str(view.desc().identifier().table())


def parsed_query(c: Catalyst, text: str) -> Plan | None:
    """The statement, parsed and analysed as a query of this session; None where it is a command, or no longer right."""
    try:
        parsed = c.spark._jsparkSession.sessionState().sqlParser().parsePlan(text)
        if c.is_a(parsed, _COMMAND) or c.is_a(parsed, _PARSED_COMMAND):
            return None
        return c.plan_of(c.frame(parsed))
    except Py4JJavaError:
        return None
    except Exception as error:  # what PySpark makes of Spark's own errors
        if type(error).__module__.startswith("pyspark.errors"):
            return None
        raise


def tables_in(c: Catalyst, text: str) -> set[tuple[tuple[str, ...], tuple[int, int]]]:
    """The names of tables, views and common table expressions in a statement, each with its place."""
    found: set[tuple[tuple[str, ...], tuple[int, int]]] = set()

    def visit(plan: Plan) -> None:
        kind = class_name(plan)
        if kind == "UnresolvedRelation" and (at := span(plan)) is not None:
            found.add((tuple(str(part) for part in c.items(plan.multipartIdentifier())), at))
        below = [*c.children(plan), *[subquery.plan() for subquery in c.subqueries(plan)]]
        if kind == "UnresolvedWith":
            below += [told._2() for told in c.items(plan.cteRelations())]
        for one in below:
            visit(one)

    visit(c.spark._jsparkSession.sessionState().sqlParser().parsePlan(text))
    return found


def is_table_name(c: Catalyst, text: str) -> bool:
    try:
        return bool(c.name_parts(text))
    except Exception as error:
        if isinstance(error, Py4JJavaError) or type(error).__module__.startswith("pyspark.errors"):
            return False
        raise


def plain_sql(c: Catalyst, expr: Expr) -> str:
    """An expression as text, its columns by their names alone."""

    def named(part: Expr) -> Expr:
        if class_name(part) == "AttributeReference":
            return part.withQualifier(c.seq([]))
        children = c.children(part)
        return part.withNewChildren(c.seq([named(child) for child in children])) if children else part

    return str(named(expr).sql())


def settings_of(c: Catalyst, wanted: tuple[str, ...]) -> dict[str, str]:
    """The session's settings whose names begin so, where they were set."""
    known = c.spark._jsparkSession.sessionState().conf().getAllConfs()
    names = sorted(str(entry._1()) for entry in c.items(known.toSeq()))
    return {name: str(known.apply(name)) for name in names if name.startswith(wanted)}


def time_zone(c: Catalyst) -> str:
    return str(c.spark._jsparkSession.sessionState().conf().sessionLocalTimeZone())
