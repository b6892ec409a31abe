"""Queries within queries: found and exchanged, and turned into joins by Spark's own rules, the form the rules know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from whence.spark.construct import Expr, Plan, class_name, id_of, to_list
from whence.spark.executed import ExecutedQueries
from whence.spark.judging import Judging, may
from whence.spark.round_trips import SUBQUERIES, handles_for, nodes
from whence.spark.shared import shared

_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_EXPRS = "org.apache.spark.sql.catalyst.expressions"
_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"

# Spark's own rules that turn subqueries into joins. Each may bring a subquery's own subqueries to the surface, whose
# correlated predicates must be pulled up before the next rule sees them.
_PULL_UP = "PullupCorrelatedPredicates"
# A lateral subquery that is only a call (`LATERAL f(t.x)`) is a call on the row itself.
_INLINE = "OptimizeOneRowRelationSubquery"
_SUBQUERY_RULES = (
    "RewritePredicateSubquery",
    "RewriteCorrelatedScalarSubquery",
    "RewriteLateralSubquery",
)
_MAX_ROUNDS = 20
# Spark moves a SELECT below a LIMIT, and makes joins of its subqueries there afterwards: between the LIMIT and its
# ORDER BY, which then decides about nothing. Its name in newer versions, and in older ones.
_BELOW_LIMITS = ("PushProjectionThroughLimitAndOffset", "PushProjectionThroughLimit")
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_SEEN_THROUGH = ("Project", "SubqueryAlias", "View")
_CUTS = ("GlobalLimit", "LocalLimit", "Offset")
_MOMENT_RULES = ("ComputeCurrentTime", "SpecialDatetimeValues")


class Subqueries(Judging):
    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        # What the user's queries compute while a session listens.
        self.executed: ExecutedQueries | None = None
        self._optimizer: Any = shared(self._jvm).optimizer
        self._domains: set[int] = set()
        self._lost_order: JavaObject = shared(self._jvm).lost_order
        self._with_subquery: JavaObject = shared(self._jvm).with_subquery

    def subqueries(self, plan: Plan) -> list[Expr]:
        """The subquery expressions that stand in this node itself, each once."""
        found: dict[int, Expr] = {}
        if not self._has_subqueries(plan):
            return []
        handles = handles_for(plan)
        if handles is not None:
            every = nodes(plan._gateway_client, handles.subqueries(plan))
        else:
            every = [sub for expr in to_list(plan.expressions().toSeq()) for sub in self._subqueries_in(expr)]
        for sub in every:
            found.setdefault(id_of(sub), sub)
        return list(found.values())

    def _has_subqueries(self, plan: Plan) -> bool:
        return may(plan, SUBQUERIES, lambda: bool(plan.containsPattern(self._with_subquery)))

    def kind_of_subquery(self, expr: Expr) -> str:
        """An EXISTS that speaks of nothing outside of it, which Spark makes no join of, is told from others."""
        kind = class_name(expr)
        alone = kind == "Exists" and expr.outerAttrs().isEmpty() and expr.joinCond().isEmpty()
        return "Exists alone" if alone else kind

    def _subqueries_in(self, expr: Expr) -> list[Expr]:
        handles = handles_for(expr)
        if handles is not None:
            return nodes(expr._gateway_client, handles.subqueries(expr))
        if not expr.containsPattern(self._with_subquery):
            return []
        if self.is_a(expr, f"{_EXPRS}.PlanExpression"):
            return [expr]
        return [sub for child in self.children(expr) for sub in self._subqueries_in(child)]

    def has_subquery(self, expr: Expr) -> bool:
        return bool(self._subqueries_in(expr))

    def replace_subqueries(self, plan: Plan, plans: dict[int, Plan]) -> Plan:
        """The node with the plans of its subquery expressions replaced, by expression id."""
        ids: dict[int, JavaObject] = {}

        def replaced(expr: Expr) -> Expr | None:
            if not self._subqueries_in(expr):
                return expr
            if not self.is_subquery(expr):
                return None
            old = id_of(expr)
            if old not in plans:
                return expr
            # Spark plans one subquery for each expression id, so another plan needs another id: one for all places.
            if old not in ids:
                ids[old] = self._new_id()
            return self.copy(expr.withNewPlan(plans[old]), exprId=ids[old])

        return self.exchange(plan, replaced)

    def is_subquery(self, expr: Expr) -> bool:
        return self.is_a(expr, f"{_EXPRS}.PlanExpression")

    def exchange(self, plan: Plan, change: Callable[[Expr], Expr | None]) -> Plan:
        """The node with its expressions exchanged for what `change` gives, and looked into where that is None."""
        changes = {
            name: self._exchanged(value, change)
            for name, value in self.fields(plan).items()
            if isinstance(value, JavaObject) and not self.is_a(value, f"{_PLANS}.LogicalPlan")
        }
        return self.copy(plan, **changes)

    def _exchanged(self, value: JavaObject, change: Callable[[Expr], Expr | None]) -> JavaObject:
        if self.is_a(value, f"{_EXPRS}.Expression"):
            new = change(value)
            below = self.children(value) if new is None else []
            if below:
                return value.withNewChildren(self.seq([self._exchanged(child, change) for child in below]))
            return value if new is None else new
        if self.is_a(value, "scala.collection.Seq"):
            items = to_list(value)
            if all(isinstance(i, JavaObject) for i in items):
                return self.seq([self._exchanged(i, change) for i in items])
        if self.is_a(value, "scala.Some") and isinstance(value.get(), JavaObject):
            return self.some(self._exchanged(value.get(), change))
        return value

    # --- bringing plans into the form the rules know

    def normalise(self, plan: Plan) -> Plan:
        """CTEs inlined, correlated and predicate subqueries turned into joins, by Spark's own rules."""
        own = plan = self._inline_ctes().apply(plan)
        if not self._has_subqueries(plan):
            return self._without_subqueries(plan)
        if _BELOW_LIMITS[-1] not in (self.conf(_EXCLUDED) or ""):
            plan = self._with_lost_orders(self._apply(_INLINE, plan), False)
        plan = self._without_subqueries(plan)
        if self.executed is not None:
            self.executed.says_the_same(plan, own)
        return plan

    def as_joins(self, plan: Plan) -> Plan:
        """A query as it is, but with no subquery that goes by its rows: of one that is a branch of a UNION and compares
        a constant in a subquery, Spark's optimizer looks for a column that it has not (`key not found`)."""
        return self._without_subqueries(plan) if self._has_subqueries(plan) else plan

    def _without_subqueries(self, plan: Plan) -> Plan:
        for _ in range(_MAX_ROUNDS):
            plan = self._pulled_up(self._apply(_INLINE, plan))
            if "DomainJoin" in plan.toString():
                self._note_domains(plan)
            for rule in _SUBQUERY_RULES:
                changed = self._apply(rule, plan)
                if not changed.fastEquals(plan):
                    plan = changed
                    break
            else:
                break
        # What is left stays an expression, with a plan of its own.
        return self._in_subqueries(plan, self._without_subqueries)

    def _pulled_up(self, plan: Plan) -> Plan:
        """What ties a subquery to the query around it, moved out of the subquery. Spark's rule does not look into the
        subqueries of subqueries, and its next one makes joins of all of them."""
        return self._apply(_PULL_UP, self._in_subqueries(plan, self._pulled_up))

    def _in_subqueries(self, plan: Plan, change: Callable[[Plan], Plan]) -> Plan:
        """The plan with those of its subqueries changed that have subqueries themselves."""
        if not self._has_subqueries(plan):
            return plan
        children = self.children(plan)
        below = [self._in_subqueries(child, change) for child in children]
        if any(new is not old for new, old in zip(below, children, strict=True)):
            plan = plan.withNewChildren(self.seq(below))
        nested = {id_of(sub): sub.plan() for sub in self.subqueries(plan)}
        plans = {key: change(sub) for key, sub in nested.items() if sub.containsPattern(self._with_subquery)}
        changed = {key: new for key, new in plans.items() if not new.fastEquals(nested[key])}
        return self.replace_subqueries(plan, changed) if changed else plan

    def at_this_moment(self, plan: Plan) -> Plan:
        """What a query says of the moment and of the session in which it runs, as constants, by Spark's own rules."""
        for rule in _MOMENT_RULES:
            plan = self._apply(rule, plan)
        catalogs = self.spark._jsparkSession.sessionState().catalogManager()
        return self._optimizer.ReplaceCurrentLike(catalogs).apply(plan)

    def _apply(self, rule: str, plan: Plan) -> Plan:
        return self._optimizer.the(rule).apply(plan)

    def _note_domains(self, plan: Plan) -> None:
        """Spark decorrelates some subqueries by joining them with the distinct values of the outer query's columns."""
        if class_name(plan) == "DomainJoin":
            self._domains.update(id_of(a) for a in to_list(plan.domainAttrs()))
        for below in (*self.children(plan), *[e.plan() for e in self.subqueries(plan)]):
            self._note_domains(below)

    def _with_lost_orders(self, plan: Plan, below: bool) -> Plan:
        """LIMIT and OFFSET that stand below a SELECT whose subqueries become joins have a mark. `below`: this does."""
        kind = class_name(plan)
        cut = below and kind in _CUTS
        if not cut and not self._has_subqueries(plan) and not (below and kind in _SEEN_THROUGH):
            return plan
        within = self.subqueries(plan)
        below = below and kind in (*_SEEN_THROUGH, *_CUTS)
        below = below or (kind == "Project" and any(self._becomes_join(sub) for sub in within))
        children = self.children(plan)
        new = [self._with_lost_orders(child, below) for child in children]
        if cut or any(one is not other for one, other in zip(new, children, strict=True)):
            # What the user has is left as it is. A mark is no difference to withNewChildren, which would keep the
            # child that has none.
            copy = plan.withNewChildrenInternal(self.seq(new).toIndexedSeq())
            copy.copyTagsFrom(plan)
            if cut:
                copy.setTagValue(self._lost_order, True)
            plan = copy
        nested = {id_of(sub): sub.plan() for sub in within}
        marked = {key: self._with_lost_orders(sub, False) for key, sub in nested.items()}
        changed = {key: sub for key, sub in marked.items() if sub is not nested[key]}
        return self.replace_subqueries(plan, changed) if changed else plan

    def _becomes_join(self, sub: Expr) -> bool:
        kind = self.kind_of_subquery(sub)
        return kind != "Exists alone" and not (kind == "ScalarSubquery" and sub.outerAttrs().isEmpty())

    def has_lost_order(self, cut: Plan) -> bool:
        """Whether Spark may let this LIMIT or OFFSET cut rows that no longer come in their order."""
        return bool(cut.getTagValue(self._lost_order).isDefined())

    @property
    def losing_order(self) -> str:
        """The setting without which Spark lets no LIMIT lose its order."""
        name = next(n for n in _BELOW_LIMITS if isinstance(self._optimizer.the(n), JavaObject))
        return f'spark.conf.set("{_EXCLUDED}", "{_OPTIMIZER}.{name}")'

    def is_domain(self, plan: Plan) -> bool:
        """Whether this aggregate gives only the values for which a decorrelated subquery is needed."""
        return bool(self._domains) and all(id_of(a) in self._domains for a in self.output(plan))

    def _inline_ctes(self) -> JavaObject:
        return self._new(self._optimizer.InlineCTE, True, last=False)
