"""Which columns go into a value: sets of contributions, and the rules by which expressions combine them.

A contribution is (dataset, column, transformation, masked): the transformations are OpenLineage's, in an order in which
the stronger of two direct ones wins along a chain, while an indirect one always stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from whence.model import operators

IDENTITY, TRANSFORMATION, AGGREGATION, JOIN, GROUP_BY, FILTER, SORT, WINDOW, CONDITIONAL = range(9)
SUBTYPES = ("IDENTITY", "TRANSFORMATION", "AGGREGATION", "JOIN", "GROUP_BY", "FILTER", "SORT", "WINDOW", "CONDITIONAL")

Contribution = tuple[int, str, int, bool]
Contributions = frozenset[Contribution]
Expr = Any
"""An expression of the snapshot: the number of an attribute, or {"c": class, "k": children, ...}."""

NOTHING: Contributions = frozenset()


def is_direct(transformation: int) -> bool:
    return transformation <= AGGREGATION


def through(transformation: int, inner: Iterable[Contribution], masked: bool = False) -> Contributions:
    """What comes out when contributions go through one more operation."""
    if is_direct(transformation):
        return frozenset((d, c, t if t > AGGREGATION else max(t, transformation), m or masked) for d, c, t, m in inner)
    return frozenset((d, c, transformation, m or masked) for d, c, _, m in inner)


class Scope:
    """What each attribute of the plan is made of, so far. Attribute numbers are unique within one plan."""

    def __init__(self, subquery: Callable[[Any, bool], Contributions]) -> None:
        self.attributes: dict[int, Contributions] = {}
        self.structs: dict[int, dict[str, Contributions]] = {}
        self.shared: dict[str, Contributions] = {}
        """Expressions that Spark evaluates once and refers to (With), by their number."""
        self.functions: set[str] = set()
        self._subquery = subquery

    def of(self, expression: Expr) -> Contributions:
        if isinstance(expression, int):
            return self.attributes.get(expression, NOTHING)
        if not isinstance(expression, dict):
            return NOTHING
        rule = RULES.get(expression["c"])
        if rule is not None:
            return rule(self, expression)
        name = expression.get("n")
        if name and expression["c"] not in ("Alias", "GetStructField"):
            self.functions.add(name)
        return self.all(expression.get("k", ()), TRANSFORMATION, expression["c"] in MASKING)

    def all(self, expressions: Iterable[Expr], transformation: int, masked: bool = False) -> Contributions:
        found: set[Contribution] = set()
        for expression in expressions:
            found |= self.of(expression)
        return through(transformation, found, masked)

    def subquery(self, plan: Any, values: bool = True) -> Contributions:
        """What decides about the rows of a subquery and, unless only their number counts, what is in them."""
        return self._subquery(plan, values)


MASKING = frozenset(
    [
        "Md5",
        "Sha1",
        "Sha2",
        "Crc32",
        "Murmur3Hash",
        "XxHash64",
        "HiveHash",
        "CollationAwareMurmur3Hash",
        "CollationAwareXxHash64",
        "Mask",
        "Count",
        "CountIf",
        "AesEncrypt",
        "HmacSha",
        "Hmac",
    ]
)


def _nothing(scope: Scope, expression: Expr) -> Contributions:
    return NOTHING


def _pass(scope: Scope, expression: Expr) -> Contributions:
    """The value itself, under another name or type annotation."""
    found: set[Contribution] = set()
    for child in expression.get("k", ()):
        found |= scope.of(child)
    return frozenset(found)


def _case(scope: Scope, expression: Expr) -> Contributions:
    children = expression.get("k", [])
    tests, values = children[0::2], children[1::2]
    if len(children) % 2:
        values = [*values, tests[-1]]
        tests = tests[:-1]
    return scope.all(tests, CONDITIONAL) | scope.all(values, TRANSFORMATION)


def _if(scope: Scope, expression: Expr) -> Contributions:
    test, *values = expression["k"]
    return scope.all([test], CONDITIONAL) | scope.all(values, TRANSFORMATION)


def _coalesce(scope: Scope, expression: Expr) -> Contributions:
    """Every value may come out; whether it does is decided by those before it."""
    values = expression["k"]
    return scope.all(values, TRANSFORMATION) | scope.all(values[:-1], CONDITIONAL)


def _aggregate(scope: Scope, expression: Expr) -> Contributions:
    function, *condition = expression["k"]
    return through(AGGREGATION, scope.of(function)) | scope.all(condition, CONDITIONAL)


def _pivot(scope: Scope, expression: Expr) -> Contributions:
    """The pivot column says which of the values is taken."""
    return scope.all(expression["k"][:1], CONDITIONAL) | scope.all(expression["k"][1:], TRANSFORMATION)


def _window(scope: Scope, expression: Expr) -> Contributions:
    function, spec = expression["k"][0], expression["k"][1:]
    if isinstance(function, dict) and function["c"] in (*operators.RANKS_BEFORE, *operators.RANKS_WHOLE):
        return scope.all([*function.get("k", ()), *spec], WINDOW)
    return through(TRANSFORMATION, scope.of(function)) | scope.all(spec, WINDOW)


def _field(scope: Scope, expression: Expr) -> Contributions:
    (child,) = expression["k"]
    name = expression.get("n", "")
    built = scope.structs.get(child) if isinstance(child, int) else struct_fields(scope, child)
    if built is not None and name in built:
        return built[name]
    return frozenset((d, f"{c}.{name}" if t == IDENTITY else c, t, m) for d, c, t, m in scope.of(child))


def _subquery(scope: Scope, expression: Expr) -> Contributions:
    return scope.subquery(expression["p"]) if "p" in expression else NOTHING


def _exists(scope: Scope, expression: Expr) -> Contributions:
    """Whether there is a row: what it holds (SELECT *) does not matter."""
    return scope.subquery(expression["p"], values=False) if "p" in expression else NOTHING


def _with(scope: Scope, expression: Expr) -> Contributions:
    value, *definitions = expression["k"]
    for definition in definitions:
        if isinstance(definition, dict) and "ref" in definition:
            scope.shared[definition["ref"]] = scope.all(definition.get("k", ()), IDENTITY)
    return scope.of(value)


def _shared(scope: Scope, expression: Expr) -> Contributions:
    return scope.shared.get(expression.get("ref", ""), NOTHING)


def _null_if(scope: Scope, expression: Expr) -> Contributions:
    """NULL where the test holds, else the value."""
    test, value = expression["k"]
    return scope.all([test], CONDITIONAL) | scope.all([value], TRANSFORMATION)


def struct_fields(scope: Scope, expression: Expr) -> dict[str, Contributions] | None:
    """The fields of a struct that is built in the query itself."""
    if isinstance(expression, int):
        return scope.structs.get(expression)
    if not isinstance(expression, dict) or expression["c"] != "CreateNamedStruct":
        return None
    children = expression.get("k", [])
    names = [c.get("v") if isinstance(c, dict) else None for c in children[0::2]]
    return {str(n): scope.of(v) for n, v in zip(names, children[1::2], strict=False) if n is not None}


RULES: dict[str, Callable[[Scope, Expr], Contributions]] = {
    "Literal": _nothing,
    "Alias": _pass,
    "OuterReference": _pass,
    "KnownNotNull": _pass,
    "KnownNullable": _pass,
    "AssertNotNull": _pass,
    "UpCast": _pass,
    "TempResolvedColumn": _pass,
    "NormalizeNaNAndZero": _pass,
    "SortOrder": _pass,
    "WindowSpecDefinition": _pass,
    "SpecifiedWindowFrame": _nothing,
    "UnspecifiedFrame$": _nothing,
    "NamedLambdaVariable": _nothing,
    "CaseWhen": _case,
    "If": _if,
    "Coalesce": _coalesce,
    "AggregateExpression": _aggregate,
    "PivotFirst": _pivot,
    "WindowExpression": _window,
    "GetStructField": _field,
    "ScalarSubquery": _subquery,
    "ListQuery": _subquery,
    "Exists": _exists,
    "With": _with,
    "CommonExpressionRef": _shared,
    "NullIfResult": _null_if,
    "LateralSubquery": _subquery,
    "FunctionTableSubqueryArgumentExpression": _subquery,
}
