"""Which Python functions a query or an RDD runs, on what input. Guarding touches private JVM classes here only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import RDD, Broadcast
from pyspark import cloudpickle as _cloudpickle
from pyspark.errors import PySparkException
from pyspark.serializers import CPickleSerializer
from pyspark.sql import DataFrame, SparkSession

from whence.debug.guard.kinds import KINDS, LOOKING, Kind
from whence.rdd.ship import carried
from whence.sql import Catalyst

cloudpickle: Any = _cloudpickle  # untyped
_pickle: Any = CPickleSerializer()

_EVALUATING = ("BatchEvalPython", "ArrowEvalPython")
_FUNCTIONS = ("PythonUDF", "PythonUDAF", "PythonUDTF")
# The name that Spark 4 gives to what raise_error throws.
_RAISED = "USER_RAISED_EXCEPTION"


@dataclass(frozen=True, eq=False)
class Placed:
    """A Python function where the user put it: in a node of the analysed plan."""

    kind: Kind | None  # None: of a kind that is not understood
    handle: JavaObject  # the JVM's PythonFunction, by which it is recognised in other forms of the plan
    plan: JavaObject
    expression: JavaObject

    def args(self, c: Catalyst) -> list[JavaObject]:
        return [a.value() if _is_named(a) else a for a in c.items(self.expression.children())]


@dataclass(frozen=True, eq=False)
class PythonNode:
    """A user's function of single rows or of an RDD's records, and the plan or RDD that gives them."""

    function: Any
    handle: JavaObject  # the JVM's PythonFunction, by which the node is recognised in other forms of the plan
    input: JavaObject
    args: tuple[JavaObject, ...] = ()
    arg_names: tuple[str | None, ...] = ()
    deserializer: Any = None  # of an RDD's records

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))


def command_of(context: Any, function: JavaObject) -> Any:
    """What was pickled for the workers: (function, return type) of a UDF, the class of a table function, (function,
    profiler, ...) of an RDD."""
    numbers = function.command().mkString(",")
    data = bytes(int(n) & 255 for n in numbers.split(","))
    try:
        loaded = _pickle.loads(data)
    except Exception:
        _find_broadcasts()
        loaded = _pickle.loads(data)
    return _pickle.loads(loaded.value) if isinstance(loaded, Broadcast) else loaded  # a large one is a broadcast


def _find_broadcasts() -> None:
    """Functions that hold broadcast variables unpickle where those are registered: in workers, not in the driver."""
    import gc

    from whence.spark.names import broadcast

    for found in gc.get_objects():
        if type(found) is broadcast.Broadcast and getattr(found, "_jbroadcast", None) is not None:
            broadcast._broadcastRegistry[found._jbroadcast.id()] = found


def set_command(context: Any, function: JavaObject, command: Any) -> None:
    """Exchange what the workers will run. The JVM's field is final; reflection may write it, and plans keep it."""
    data = carried(command)
    field = function.getClass().getDeclaredField("command")
    field.setAccessible(True)
    field.set(function, _byte_seq(context, data))


def raw_command(function: JavaObject) -> JavaObject:
    return function.command()


def put_back(function: JavaObject, command: JavaObject) -> None:
    field = function.getClass().getDeclaredField("command")
    field.setAccessible(True)
    field.set(function, command)


def _byte_seq(context: Any, data: bytes) -> JavaObject:
    # a SimplePythonFunction made the ordinary way has the sequence in the right class
    made = context._jvm.SimplePythonFunction(
        bytearray(data), {}, [], context.pythonExec, context.pythonVer, [], context._javaAccumulator
    )
    return made.command()


def _walk(plan: JavaObject) -> Iterator[JavaObject]:
    """Inputs before what they feed."""
    children = plan.children()
    for n in range(children.size()):
        yield from _walk(children.apply(n))
    yield plan


def _items(seq: JavaObject) -> list[JavaObject]:
    return [seq.apply(n) for n in range(seq.size())]


def row_nodes(c: Catalyst, plan: JavaObject) -> Iterator[PythonNode]:
    """The Python functions of single rows in an optimised plan, those nearest the sources first."""
    for node in _walk(plan):
        if node.getClass().getSimpleName() in _EVALUATING:
            for udf in _items(node.udfs()):
                yield from _row_nodes(c.spark.sparkContext, udf, node.child())


def _row_nodes(context: Any, udf: JavaObject, child: JavaObject) -> Iterator[PythonNode]:
    args = _items(udf.children())
    for arg in args:
        if arg.getClass().getSimpleName() == "PythonUDF":  # f(g(x)): g is its own node, and comes first
            yield from _row_nodes(context, arg, child)
    kind = KINDS.get(int(udf.evalType()))
    if kind is None or kind.form != "row":
        return
    names = tuple(a.key() if _is_named(a) else None for a in args)
    values = tuple(a.value() if n is not None else a for a, n in zip(args, names, strict=True))
    handle = udf.func()
    yield PythonNode(command_of(context, handle)[0], handle, child, values, names)


def _is_named(arg: JavaObject) -> bool:
    return bool(arg.getClass().getSimpleName() == "NamedArgumentExpression")


def python_functions(c: Catalyst, plan: JavaObject) -> list[Placed]:
    """Everything in a plan that runs Python, each function once, those nearest the sources first."""
    found: dict[str, Placed] = {}
    for placed in _functions(c, plan):
        found.setdefault(c.identity(placed.handle), placed)
    return list(found.values())


def _functions(c: Catalyst, plan: JavaObject) -> Iterator[Placed]:
    for node in _walk(plan):
        for subquery in c.subqueries(node):
            yield from _functions(c, subquery.plan())
        for expression in c.items(node.expressions().toSeq()):
            yield from _functions_in(c, node, expression)


def _functions_in(c: Catalyst, node: JavaObject, expression: JavaObject) -> Iterator[Placed]:
    for child in c.children(expression):
        yield from _functions_in(c, node, child)
    if expression.getClass().getSimpleName() in _FUNCTIONS:
        kind = KINDS.get(int(expression.evalType()))
        if kind is not None and kind.form == "aggregate" and node.getClass().getSimpleName() == "Window":
            kind = Kind("window", kind.iterator)
        yield Placed(kind, expression.func(), node, expression)


def rdd_nodes(context: Any, rdd: JavaObject) -> Iterator[PythonNode]:
    """The Python stages of an RDD, those nearest the sources first."""
    seen: set[int] = set()

    def visit(rdd: JavaObject) -> Iterator[PythonNode]:
        if rdd.id() in seen:
            return
        seen.add(rdd.id())
        below = [d.rdd() for d in _items(rdd.dependencies())]
        for parent in below:
            yield from visit(parent)
        if rdd.getClass().getSimpleName() == "PythonRDD":
            field = rdd.getClass().getDeclaredField("func")
            field.setAccessible(True)
            handle = field.get(rdd)
            function, _, deserializer, _ = command_of(context, handle)
            yield PythonNode(function, handle, below[0], deserializer=deserializer)

    yield from visit(rdd)


def rdd_over(context: Any, node: PythonNode) -> RDD[Any]:
    return RDD(node.input.toJavaRDD(), context, node.deserializer)


def failed_partition(context: Any) -> int | None:
    """Which task of the last failed stage gave up, from the status store; None where it cannot be told."""
    try:
        bus = context._jsc.sc().listenerBus()
        bus.waitUntilEmpty()
        store, nothing = context._jsc.sc().statusStore(), context._jvm.java.util.ArrayList()
        quantiles = context._gateway.new_array(context._jvm.double, 0)
        stages = _items(store.stageList(None, False, False, quantiles, nothing))
        last = max((s for s in stages if s.failureReason().isDefined()), key=lambda s: int(s.stageId()), default=None)
        if last is None:
            return None
        match = re.search(r"Task (\d+) in stage", str(last.failureReason().get()))
        return int(match.group(1)) if match else _failed_task(context, store, last)
    except Exception:
        return None


def _failed_task(context: Any, store: JavaObject, stage: JavaObject) -> int | None:
    """Some releases of Spark give the user's error as the reason, and nothing else."""
    told = context._jvm.org.apache.spark.status.api.v1
    failed = context._jvm.java.util.ArrayList()
    failed.add(told.TaskStatus.FAILED)
    tasks = _items(store.taskList(stage.stageId(), stage.attemptId(), 0, 100, told.TaskSorting.ID, failed))
    return int(tasks[-1].index()) if tasks else None


def source_of(node: PythonNode) -> JavaObject | None:
    """The RDD of files or of given records that a stage reads record for record; None where there is none."""
    rdd = node.input
    while rdd.getClass().getSimpleName() == "MapPartitionsRDD":
        rdd = rdd.dependencies().apply(0).rdd()
    known = ("HadoopRDD", "NewHadoopRDD", "ParallelCollectionRDD")
    return rdd if rdd.getClass().getSimpleName() in known else None


def is_file(source: JavaObject) -> bool:
    return "HadoopRDD" in str(source.getClass().getSimpleName())


def input_split(source: JavaObject, partition: int) -> tuple[str, int, int]:
    """(file, start, length) that a partition of an RDD of files reads."""
    part = source.partitions()[partition]
    old = source.getClass().getSimpleName() == "HadoopRDD"
    split = (part.inputSplit() if old else part.serializableHadoopSplit()).value()
    return str(split.getPath().toString()), int(split.getStart()), int(split.getLength())


# --- Spark's own expressions


def dataset_of(c: Catalyst, session: JavaObject, plan: JavaObject) -> JavaObject:
    return c.dataset_of(session, plan)


def text_literal(c: Catalyst, text: str) -> JavaObject:
    return _the(c, "Literal").apply(text)


def values_of(c: Catalyst, row: JavaObject, plan: JavaObject) -> list[JavaObject]:
    """The values of a row of this plan as constants. They never leave the JVM, since not all survive that."""
    package = c.spark._jvm.org.apache.spark.sql.catalyst.expressions  # type: ignore[union-attr]
    whole = _the(c, "Literal").create(row, plan.schema())
    return [package.GetStructField(whole, n, c.none()) for n in range(len(c.output(plan)))]


def folded(c: Catalyst, expr: JavaObject) -> JavaObject:
    """A constant expression as one literal."""
    jvm: Any = c.spark._jvm
    rule = getattr(getattr(jvm.org.apache.spark.sql.catalyst.optimizer, "ConstantFolding$"), "MODULE$")
    plans = jvm.org.apache.spark.sql.catalyst.plans.logical
    project = c.project([c.alias(expr, "value")], plans.OneRowRelation())
    return c.children(c.items(rule.apply(project).projectList())[0])[0]


def _the(c: Catalyst, name: str) -> Any:
    jvm: Any = c.spark._jvm
    return getattr(getattr(jvm.org.apache.spark.sql.catalyst.expressions, name + "$"), "MODULE$")


def can_up_cast(c: Catalyst, expr: JavaObject, cast: JavaObject) -> bool:
    return bool(_the(c, "Cast").canUpCast(expr.dataType(), cast.dataType()))


def first_fields(c: Catalyst, array: JavaObject) -> JavaObject:
    """The first field of each struct in an array."""
    kind = array.dataType()
    fields = kind.elementType().fields()
    return c.expression("GetArrayStructFields", array, fields[0], 0, len(fields), kind.containsNull())


def count_of(c: Catalyst, expr: JavaObject) -> JavaObject:
    jvm: Any = c.spark._jvm
    return jvm.org.apache.spark.sql.catalyst.expressions.aggregate.Count(c.seq([expr]))


def lenient(c: Catalyst, function: JavaObject) -> JavaObject:
    """A sum or an average that gives NULL where it would overflow."""
    jvm: Any = c.spark._jvm
    mode = jvm.org.apache.spark.sql.catalyst.expressions.EvalMode.TRY()
    fields = c.fields(function)
    if "evalContext" in fields:
        context = fields["evalContext"]
        return c.copy(function, evalContext=context.copy(mode, context.allowDecimalPrecisionLoss()))
    return c.copy(function, evalMode=mode)


def permissive(c: Catalyst, scan: JavaObject, name: str) -> tuple[JavaObject, JavaObject]:
    """A scan of files in the mode PERMISSIVE, and its further column `name`: the text of a malformed record."""
    jvm: Any = c.spark._jvm
    relation = scan.relation()
    options = {key: relation.options().apply(key) for key in c.items(relation.options().keys().toSeq())}
    options = {k: v for k, v in options.items() if k.lower() not in ("mode", "columnnameofcorruptrecord")}
    options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": name}
    string = jvm.org.apache.spark.sql.types.DataTypes.StringType
    made = relation.copy(
        relation.location(), relation.partitionSchema(), relation.dataSchema().add(name, string),
        relation.bucketSpec(), relation.fileFormat(), jvm.PythonUtils.toScalaMap(options), relation.sparkSession(),
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
    jvm: Any = c.spark._jvm
    package = jvm.org.apache.spark.sql.catalyst.expressions
    return package.BindReferences.bindReference(expr, getattr(package, "package$AttributeSeq")(c.seq(columns)), False)


def rows_of(frame: DataFrame) -> list[JavaObject]:
    """The rows in the JVM's own form, in which expressions are evaluated."""
    return list(frame._jdf.queryExecution().executedPlan().executeCollect())


def local_rows(c: Catalyst, columns: list[JavaObject], rows: list[JavaObject]) -> JavaObject:
    """A plan that gives these rows without a job."""
    jvm: Any = c.spark._jvm
    plans = jvm.org.apache.spark.sql.catalyst.plans.logical
    return c._new(plans.LocalRelation, c.seq(columns), c.seq(rows), False, last=c.none())


def thrown(c: Catalyst, error: BaseException) -> JavaObject | None:
    """What Spark's own code threw, innermost: an error with a name (an error class), not what it is wrapped in."""
    cause = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    found = None
    while isinstance(cause, JavaObject):
        is_named = c.is_a(cause, "org.apache.spark.SparkThrowable") and bool(condition_of(cause))
        if is_named or _is_raised(cause):
            found = cause
        cause = cause.getCause()
    return found


def condition_of(throwable: JavaObject) -> str:
    if _is_raised(throwable):
        return _RAISED
    return str(throwable.getErrorClass() or "")  # the older of its two names is in all releases


def _is_raised(throwable: JavaObject) -> bool:
    """What raise_error and assert_true throw before Spark 4: an error without a name, out of an expression's code."""
    if str(throwable.getClass().getName()) != "java.lang.RuntimeException":
        return False
    frames = throwable.getStackTrace()
    return len(frames) > 0 and str(frames[0].getClassName()).startswith("org.apache.spark.sql.catalyst.expressions.")


def contexts_of(throwable: JavaObject) -> list[str]:
    """Where in the query, in Spark's words, the error came from."""
    return [] if _is_raised(throwable) else [str(context.summary()) for context in throwable.getQueryContext()]


def context_of(expr: JavaObject) -> str:
    context = expr.origin().context()
    return str(context.summary()) if context is not None else ""


def short_message(throwable: JavaObject) -> str:
    """Without the part of the query that Spark prints under it."""
    message = str(throwable.getMessage()).split("\n== ", 1)[0].strip()
    return f"[{_RAISED}] {message}" if _is_raised(throwable) else message


def query_of(session: JavaObject, text: str) -> JavaObject:
    return session.sessionState().sqlParser().parsePlan(text)


@contextmanager
def looking(spark: SparkSession) -> Iterator[None]:
    """Jobs that only look: functions that put failing records aside do not do so in them (quarantine_worker.py)."""
    context = spark.sparkContext
    before = context.getLocalProperty(LOOKING)
    context.setLocalProperty(LOOKING, "true")
    try:
        yield
    finally:
        context.setLocalProperty(LOOKING, before)  # type: ignore[arg-type]


def statement_query(c: Catalyst, text: str) -> JavaObject | None:
    """The query of a statement that writes, as it was analysed to be written; None where the statement has none."""
    session = c.spark._jsparkSession
    return _written(c, query_of(session, text))


def insert_query(c: Catalyst, table: str, frame: DataFrame, by_name: bool) -> JavaObject | None:
    """What is written when these rows are inserted into a table; None where it takes them as they are."""
    named = " BY NAME" if by_name else ""
    try:
        parsed = query_of(c.spark._jsparkSession, f"INSERT INTO {table}{named} SELECT 1")
        return _written(c, c.copy(parsed, query=frame._jdf.queryExecution().analyzed()))
    except PySparkException:  # there is no such table, or none that can be inserted into so
        return None


def table_of(writer: Any) -> str:
    """The table that df.writeTo was given."""
    parts = _field(writer._jwriter, "tableName")
    return ".".join(f"`{part}`" for part in _items(parts))


def appends(writer: Any) -> bool:
    return str(_field(writer._jwrite, "curmode", "mode").toString()) == "Append"  # the second name is that of 3.5


def _field(of: JavaObject, *names: str) -> JavaObject:
    """The field that has one of these names."""
    kind = of.getClass()
    while kind is not None:
        field = next((f for f in kind.getDeclaredFields() if f.getName() in names), None)
        if field is not None:
            field.setAccessible(True)
            return field.get(of)
        kind = kind.getSuperclass()
    raise AttributeError(f"{of.getClass().getName()} has no field {' or '.join(names)}")


def _written(c: Catalyst, statement: JavaObject) -> JavaObject | None:
    command = analysed_command(c, statement)
    return c.fields(command).get("query")


def analysed_command(c: Catalyst, statement: JavaObject) -> JavaObject:
    jvm: Any = c.spark._jvm
    skip = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    return c.spark._jsparkSession.sessionState().executePlan(statement, skip).analyzed()
