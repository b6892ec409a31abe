"""What may be said of an expression without running it: whether its value may change, and whose function it calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from whence.spark.construct import Expr, Making, Plan, children_of, class_name, remembered, to_list
from whence.spark.round_trips import FUNCTIONS, UNCERTAIN, handles_for, is_marked
from whence.spark.shared import shared

# Their value is that of whichever row of the group came first.
_ANY_ROW = ("First", "Last", "AnyValue")
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
# Spark's own feature transformers call their functions so to keep the optimizer from moving them; none of them draws.
_MODELS_FUNCTIONS = "org.apache.spark.ml."
# Spark calls these not deterministic because the order of the elements may differ; which rows they come from does not.
_ORDER_ONLY = ("CollectList", "CollectSet")

# Spark takes every table function in Python for not deterministic unless told otherwise; its rows come from its call.
_RIDES_ALONG = ("PythonUDTF",)

_PYTHON_FUNCTIONS = ("PythonUDF", "PythonUDAF", "PythonUDTF")
_JAVA_FUNCTIONS = ("ScalaUDF", "HiveSimpleUDF", "HiveGenericUDF")


class Judging(Making):
    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self._with_functions: list[JavaObject] = shared(self._jvm).with_functions

    def children(self, plan: Plan) -> list[Plan]:
        return list(remembered(plan, "children", lambda: children_of(plan)))

    def fields(self, node: JavaObject) -> dict[str, JavaObject]:
        return {name: node.productElement(i) for i, name in enumerate(self.adapter.names_of(node))}

    def is_session(self, key: Expr) -> bool:
        """Whether Spark merges groups by this key where they touch, when it plans the query."""
        return class_name(key) == "AttributeReference" and bool(key.metadata().contains("spark.sessionWindow"))

    def copy(self, node: JavaObject, **changes: JavaObject | None) -> JavaObject:
        names = self.adapter.names_of(node)
        handles = handles_for(node)
        if handles is not None and changes.keys() <= set(names) and all(map(_is_handle, changes.values())):
            told = [f"{names.index(name)} {new._target_id}" for name, new in changes.items() if new is not None]
            return handles.copied(node, " ".join(told)) if told else node
        values = self._gateway.new_array(self._object, len(names))
        left = dict(changes)
        for i, name in enumerate(names):
            values[i] = left.pop(name) if name in left else node.productElement(i)
        if left:
            raise AttributeError(f"{class_name(node)} has no field {', '.join(left)}")
        return node.makeCopy(values)

    def nondeterministic(self, plan: Plan) -> list[str]:
        """The expressions of this node whose value may change from run to run."""
        if not may(plan, UNCERTAIN, lambda: not plan.deterministic()):  # and all below it
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
        below, before = self.children(expr), len(found)
        for child in below:
            self._nondeterministic_in(child, found)
        if len(found) == before and self._is_uncertain_itself(expr, below):
            found.append(expr.toString())

    def _is_uncertain_itself(self, expr: Expr, below: Sequence[Expr]) -> bool:
        """Of an expression that Spark calls not deterministic, over what gives the same values again."""
        kind = class_name(expr)
        if kind in (*_ANY_ROW, *_ORDER_ONLY, *_RIDES_ALONG):
            return False
        if kind == "ScalaUDF" and str(expr.function().getClass().getName()).startswith(_MODELS_FUNCTIONS):
            return False
        if all(child.deterministic() for child in below):
            return True
        told = self.fields(expr).get("udfDeterministic")
        return not told if told is not None else self.is_a(expr, f"{_EXPRESSIONS}.Nondeterministic")

    def has_user_functions(self, plan: Plan) -> bool:
        """Also below it; but for Python's table functions, whose calls Spark does not mark."""
        return may(plan, FUNCTIONS, lambda: any(plan.containsPattern(pattern) for pattern in self._with_functions))

    def user_functions(self, plan: Plan) -> list[str]:
        """The names of the functions in this node that are not Spark's own."""
        found: list[str] = []
        if self.has_user_functions(plan) or class_name(plan) == "Generate":
            for expression in to_list(plan.expressions().toSeq()):
                self._user_functions_in(expression, found)
        return found

    def _user_functions_in(self, expr: Expr, found: list[str]) -> None:
        kind = class_name(expr)
        if kind in _PYTHON_FUNCTIONS:
            found.append(str(expr.name()))
        elif kind in _JAVA_FUNCTIONS:
            found.append(
                str(expr.name()) if kind != "ScalaUDF" else str(expr.udfName().getOrElse(None) or "a Java UDF")
            )
        for child in self.children(expr):
            self._user_functions_in(child, found)

    def aggregates_in_python(self, plan: Plan) -> bool:
        """Here or below."""
        if not self.has_user_functions(plan):
            return False
        here = class_name(plan) == "Aggregate" and bool(self.user_functions(plan))
        return here or any(self.aggregates_in_python(child) for child in self.children(plan))

    def calls_user(self, expr: Expr) -> bool:
        """Whether a function of the user's own is called in it."""
        found: list[str] = []
        self._user_functions_in(expr, found)
        return bool(found)


def _is_handle(value: object) -> bool:
    return isinstance(value, JavaObject)


def may(plan: Plan, mark: str, look: Callable[[], bool]) -> bool:
    known = is_marked(plan, mark)
    return look() if known is None else known
