"""What failed, as Spark itself tells it: errors of its own code, and the task that gave up."""

from __future__ import annotations

import re
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError

from whence.spark.catalyst import Catalyst, to_list
from whence.spark.shared import Classes

# The name that Spark 4 gives to what raise_error throws.
_RAISED = "USER_RAISED_EXCEPTION"


def failed_partition(context: Any) -> int | None:
    """Which task of the last failed stage gave up, from the status store; None where it cannot be told."""
    try:
        bus = context._jsc.sc().listenerBus()
        bus.waitUntilEmpty()
        store, nothing = context._jsc.sc().statusStore(), getattr(context._jvm, "java.util.ArrayList")()
        quantiles = context._gateway.new_array(context._jvm.double, 0)
        stages = to_list(store.stageList(None, False, False, quantiles, nothing))
        last = max((s for s in stages if s.failureReason().isDefined()), key=lambda s: int(s.stageId()), default=None)
        if last is None:
            return None
        match = re.search(r"Task (\d+) in stage", str(last.failureReason().get()))
        return int(match.group(1)) if match else _failed_task(context, store, last)
    except Exception:
        return None


def _failed_task(context: Any, store: JavaObject, stage: JavaObject) -> int | None:
    """Some releases of Spark give the user's error as the reason, and nothing else."""
    told = Classes(context._jvm, "org.apache.spark.status.api.v1")
    failed = getattr(context._jvm, "java.util.ArrayList")()
    failed.add(told.TaskStatus.FAILED)
    tasks = to_list(store.taskList(stage.stageId(), stage.attemptId(), 0, 100, told.TaskSorting.ID, failed))
    return int(tasks[-1].index()) if tasks else None


def thrown(c: Catalyst, error: BaseException) -> JavaObject | None:
    """What Spark's own code threw, innermost: an error with a name (an error class), not what it is wrapped in."""
    # PySpark 4.0 itself fails while it converts an error that names no place in a query: what it converts is behind.
    known = error.__context__ if isinstance(error, AttributeError) else error
    cause = getattr(known, "_origin", None) or getattr(known, "java_exception", None)
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
    if _is_raised(throwable):
        return []
    try:
        return [str(context.summary()) for context in throwable.getQueryContext() if context is not None]
    except Py4JError:  # Delta's own errors do not answer that
        return []


def context_of(expr: JavaObject) -> str:
    context = expr.origin().context()
    return str(context.summary()) if context is not None else ""


def short_message(throwable: JavaObject) -> str:
    """Without the part of the query that Spark prints under it."""
    message = str(throwable.getMessage()).split("\n== ", 1)[0].strip()
    return f"[{_RAISED}] {message}" if _is_raised(throwable) else message
