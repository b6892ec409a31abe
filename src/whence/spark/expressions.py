"""Expressions that are made, bound and evaluated outside of a query: constants, casts, counts, lenient sums; and rows
in the JVM's own form."""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from whence.spark.catalyst import Catalyst


def text_literal(c: Catalyst, text: str) -> JavaObject:
    return _the(c, "Literal").apply(text)


def values_of(c: Catalyst, row: JavaObject, plan: JavaObject) -> list[JavaObject]:
    """The values of a row of this plan as constants. They never leave the JVM, since not all survive that."""
    whole = _the(c, "Literal").create(row, plan.schema())
    return [c._exprs.GetStructField(whole, n, c.none()) for n in range(len(c.output(plan)))]


def folded(c: Catalyst, expr: JavaObject) -> JavaObject:
    """A constant expression as one literal."""
    project = c.project([c.alias(expr, "value")], c._plans.OneRowRelation())
    return c.children(c.items(c._optimizer.the("ConstantFolding").apply(project).projectList())[0])[0]


def _the(c: Catalyst, name: str) -> Any:
    return c._exprs.the(name)


def can_up_cast(c: Catalyst, expr: JavaObject, cast: JavaObject) -> bool:
    return bool(_the(c, "Cast").canUpCast(expr.dataType(), cast.dataType()))


def first_fields(c: Catalyst, array: JavaObject) -> JavaObject:
    """The first field of each struct in an array."""
    kind = array.dataType()
    fields = kind.elementType().fields()
    return c.expression("GetArrayStructFields", array, fields[0], 0, len(fields), kind.containsNull())


def count_of(c: Catalyst, expr: JavaObject) -> JavaObject:
    jvm: Any = c.spark._jvm
    return getattr(jvm, "org.apache.spark.sql.catalyst.expressions.aggregate.Count")(c.seq([expr]))


def lenient(c: Catalyst, function: JavaObject) -> JavaObject:
    """A sum or an average that gives NULL where it would overflow."""
    jvm: Any = c.spark._jvm
    mode = getattr(jvm, "org.apache.spark.sql.catalyst.expressions.EvalMode").TRY()
    fields = c.fields(function)
    if "evalContext" in fields:
        context = fields["evalContext"]
        return c.copy(function, evalContext=context.copy(mode, context.allowDecimalPrecisionLoss()))
    return c.copy(function, evalMode=mode)


def permissive(c: Catalyst, scan: JavaObject, name: str) -> tuple[JavaObject, JavaObject]:
    """A scan of files in the mode PERMISSIVE, and its further column `name`: the text of a malformed record."""
    jvm: Any = c.spark._jvm
    utils = getattr(jvm, "org.apache.spark.api.python.PythonUtils")
    relation = scan.relation()
    options = {key: relation.options().apply(key) for key in c.items(relation.options().keys().toSeq())}
    options = {k: v for k, v in options.items() if k.lower() not in ("mode", "columnnameofcorruptrecord")}
    options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": name}
    string = getattr(jvm, "org.apache.spark.sql.types.DataTypes").StringType
    made = relation.copy(
        relation.location(), relation.partitionSchema(), relation.dataSchema().add(name, string),
        relation.bucketSpec(), relation.fileFormat(), utils.toScalaMap(options), relation.sparkSession(),
    )  # fmt: skip
    column = c.alias(c.null(text_literal(c, "")), name).toAttribute()
    own = c.output(scan)
    count = int(relation.dataSchema().size())  # the data's columns come first, then those of partitions
    output = c.seq([*own[:count], column, *own[count:]])
    return c.copy(scan, relation=made, output=output), column


def is_lenient(function: JavaObject) -> bool:
    return "TRY" in str(function.productIterator().mkString(" "))


def bound(c: Catalyst, expr: JavaObject, columns: list[JavaObject]) -> JavaObject:
    """The expression as it is evaluated on rows of these columns."""
    attributes = getattr(c._exprs, "package$AttributeSeq")(c.seq(columns))
    return c._exprs.BindReferences.bindReference(expr, attributes, False)


def rows_of(frame: DataFrame) -> list[JavaObject]:
    """The rows in the JVM's own form, in which expressions are evaluated."""
    return list(frame._jdf.queryExecution().executedPlan().executeCollect())


def local_rows(c: Catalyst, columns: list[JavaObject], rows: list[JavaObject]) -> JavaObject:
    """A plan that gives these rows without a job."""
    return c._new(c._plans.LocalRelation, c.seq(columns), c.seq(rows), False, last=c.none())
