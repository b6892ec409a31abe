"""Whether rows leave an operator a choice: `first(v)` of a group in which all rows have one `v` is certain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import functions as F

from whence.sql.blocks import Block
from whence.sql.builder import Builder
from whence.sql.catalyst import Catalyst, Expr, class_name, id_of
from whence.sql.columns import calls_in
from whence.sql.tree import Node
from whence.sql.wavering import ANY_ROW, BY_OTHER, makes_order, orders_of


@dataclass(frozen=True, eq=False)
class _Choice:
    """A value is chosen from `value` of the rows for which all `tests` hold, with `order` from the `last` ones (or the
    first) in it. Otherwise: all are taken, in the order of `sorted_by`; or some are forgotten if there are `most`."""

    value: Expr
    tests: Sequence[Expr] = ()
    order: Expr | None = None
    last: bool = True
    sorted_by: Sequence[Expr] = ()
    most: int | None = None

    def differs(self, i: int) -> str:
        """In words of Spark's, of the rows of a group, whether there is more than one value to choose from."""
        if self.most is not None:
            return f"count(if(t{i}, 1, null)) >= {self.most}"
        if self.sorted_by:
            places = ", ".join(f"s{i}_{j}" for j in range(len(self.sorted_by)))
            orders, values = (f"count(distinct if(t{i}, struct({told}), null))" for told in (places, f"{places}, v{i}"))
            return f"{orders} <> {values}"
        if self.order is None:
            return f"min(if(t{i}, v{i}, null)) <> max(if(t{i}, v{i}, null))"
        best = "max" if self.last else "min"
        # The complement of a number sorts the other way round, and there is one of each.
        highest, lowest = (f"{best}(if(t{i}, struct(o{i} as o, {v} as v), null)).v" for v in (f"v{i}", f"~v{i}"))
        return f"{highest} <> ~({lowest})"


def require_no_choice(node: Node, build: Builder, block: Block, keys: Sequence[Expr]) -> None:
    """For what decides about rows above it: the rows of each group must agree in what the operator may choose from.

    One job, as for a window whose order must not leave ties."""
    decided = build.wavering.decides.get(node)
    if decided is None or build.fact_of(node) is not None:
        return
    if not build.compute:
        build.deferred = True
        return
    c = build.c
    choices = []
    for expr in _chosen(c, node, decided[0]):
        if (found := _choices(c, expr)) is None:
            raise build.undecided(node, _told(expr))
        choices += found
    if not choices:
        return
    shown = [c.alias(key, f"k{i}") for i, key in enumerate(keys)]
    for i, choice in enumerate(choices):
        shown.append(c.alias(c.content_hashes([choice.value])[0], f"v{i}"))
        shown.append(c.alias(c.is_true(c.conjunction(choice.tests)), f"t{i}"))
        shown += [] if choice.order is None else [c.alias(choice.order, f"o{i}")]
        shown += [c.alias(each, f"s{i}_{j}") for j, each in enumerate(choice.sorted_by)]
    rows = c.frame(c.project(shown, block.annotated.plan))
    differ = [F.expr(choice.differs(i)).alias(f"d{i}") for i, choice in enumerate(choices)]
    groups = rows.groupBy(*[f"k{i}" for i in range(len(keys))]).agg(*differ)
    if groups.where(" or ".join(f"d{i}" for i in range(len(choices)))).limit(1).count():
        raise build.undecided(node, _told(_chosen(c, node, decided[0])[0]))


def _chosen(c: Catalyst, node: Node, columns: set[int]) -> list[Expr]:
    """The expressions, or of dropDuplicates the columns, that decide."""
    every = c.output(node.plan) if node.kind == "Deduplicate" else c.items(node.plan.aggregateExpressions())
    return [expr for expr in every if id_of(expr) in columns]


def _told(expr: Expr) -> str:
    if class_name(expr) == "AttributeReference":
        return f"the {expr.name()} that dropDuplicates keeps"
    return str(expr.child().toString() if class_name(expr) == "Alias" else expr.toString())


def _choices(c: Catalyst, expr: Expr) -> list[_Choice] | None:
    """None if what the value is chosen from does not tell whether it is certain: the elements of a list."""
    if class_name(expr) == "AttributeReference":
        return [_Choice(expr)]
    found: list[_Choice] = []
    for call in calls_in(c, expr):
        function = call.aggregateFunction()
        kind, arguments = class_name(function), c.children(function)
        tests = [call.filter().get()] if call.filter().isDefined() else []
        if kind in ANY_ROW:
            if kind != "NthValue" and bool(function.ignoreNulls()):
                tests.append(c.is_not_null(arguments[0]))
            found.append(_Choice(arguments[0], tests))
        elif kind in BY_OTHER:
            value, order = arguments
            found.append(_Choice(value, [*tests, c.is_not_null(order)], order, kind == "MaxBy"))
        elif kind == "ListAgg" and (orders := orders_of(c, function)):
            not_null = c.is_not_null(arguments[0])
            found.append(_Choice(arguments[0], [*tests, not_null], sorted_by=[order.child() for order in orders]))
        elif kind == "ApproximatePercentile":
            # Its summary holds every value until twice its error of all of them is one value or more.
            most = int(c.fields(function)["accuracyExpression"].eval(None)) // 2
            found.append(_Choice(arguments[0], [*tests, c.is_not_null(arguments[0])], most=most))
        elif makes_order(c, function):
            return None
    return found
