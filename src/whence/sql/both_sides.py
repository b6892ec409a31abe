"""Many keys that are looked up among joined rows, sent to both sides of the joins.

Spark moves a semi join with the keys to that side of a join below which has them as columns. Of the other side it would
still sort all rows, although those alone are joined that equal one of the keys too: so these are sent there as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from whence.model import operators
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan, class_name, id_of
from whence.sql.selection import all_of

# Up to so many keys are sent to every executor.
MOST = 100_000
_AS_IT_IS = (*operators.LOOKED_THROUGH, "Filter")
# The side (0: left, 1: right) of which a row is in the result with equal rows of the other side alone, or without any.
_KEYS_FROM = {"Inner": (0, 1), "LeftOuter": (0,), "RightOuter": (1,), "LeftSemi": (0,), "LeftAnti": (0,)}

# Of a plan, those rows of which these columns equal keys, each a column and the number of the key.
Restrict = Callable[[Plan, Sequence[tuple[Expr, int]]], Plan]


def on_both_sides(c: Catalyst, plan: Plan, keys: Sequence[Expr], restrict: Restrict) -> Plan:
    """The plan, of which only rows are asked for whose `keys` equal some, without what cannot be joined with these."""
    return _Sent(c, restrict).visit(plan, dict(enumerate(keys)))


@dataclass(frozen=True, eq=False)
class _Sent:
    c: Catalyst
    restrict: Restrict

    def visit(self, plan: Plan, keys: Mapping[int, Expr]) -> Plan:
        """`keys`: columns of the plan, by the number of the key that they are to equal."""
        c, kind = self.c, class_name(plan)
        known = {number: key for number, key in keys.items() if class_name(key) == "AttributeReference"}
        if not known or c.nondeterministic(plan):
            return plan
        if kind == "Project":
            named = {id_of(e): e.child() for e in c.items(plan.projectList()) if class_name(e) == "Alias"}
            known = {number: named.get(id_of(key), key) for number, key in known.items()}
        elif kind == "Join":
            return self._join(plan, known)
        elif kind not in _AS_IT_IS:
            return plan
        (child,) = c.children(plan)
        below = self.visit(child, known)
        return plan if below is child else c.with_children(plan, [below])

    def _join(self, plan: Plan, keys: Mapping[int, Attr]) -> Plan:
        c, sides = self.c, list(self.c.children(plan))
        tests = all_of(c, plan.condition().get()) if plan.condition().isDefined() else []
        changed = False
        for here in _KEYS_FROM.get(str(plan.joinType().toString()), ()):
            own = {id_of(a) for a in c.output(sides[here])}
            mine = {number: key for number, key in keys.items() if id_of(key) in own}
            other, same = 1 - here, []
            for number, key in mine.items():
                same += [(side, number) for side in _equal_to(c, tests, key, c.output(sides[other]))[:1]]
            for at, side in ((here, self.visit(sides[here], mine)), (other, self._other(sides[other], same))):
                changed = changed or side is not sides[at]
                sides[at] = side
        return c.with_children(plan, sides) if changed else plan

    def _other(self, side: Plan, same: Sequence[tuple[Attr, int]]) -> Plan:
        if not same:
            return side
        return self.restrict(self.visit(side, {number: attr for attr, number in same}), same)


def _equal_to(c: Catalyst, tests: Sequence[Expr], key: Attr, others: Sequence[Attr]) -> list[Attr]:
    """The columns among these that a join wants to equal this one, NULL being equal to nothing."""
    theirs = {id_of(a): a for a in others}
    found = []
    for test in tests:
        if class_name(test) != "EqualTo":
            continue
        for one, other in ((test.left(), test.right()), (test.right(), test.left())):
            plain = class_name(one) == class_name(other) == "AttributeReference"
            if plain and id_of(one) == id_of(key) and id_of(other) in theirs:
                found.append(theirs[id_of(other)])
    return found
