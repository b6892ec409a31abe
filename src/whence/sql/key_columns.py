"""Which columns of a source the query itself chooses rows by: a condition on these restates the question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whence.sql import Catalyst, Node, ReadingPlace
from whence.sql.catalyst import Expr, class_name, id_of

Origins = dict[int, frozenset[int]]  # attribute -> the sources' attributes that it is made of, row by row
_NONE: frozenset[int] = frozenset()


def key_columns(c: Catalyst, tree: Node, places: Sequence[ReadingPlace]) -> list[str]:
    """What these readings' rows are grouped or filtered by, and what a join sets equal to that."""
    found = _Keys(c)
    found.visit(tree)
    found.spread()
    names = [a.name() for place in places for a in c.output(place.leaf.plan) if id_of(a) in found.keys]
    return list(dict.fromkeys(names))


class _Keys:
    def __init__(self, c: Catalyst) -> None:
        self._c = c
        self.keys: set[int] = set()
        self._equal: list[tuple[frozenset[int], frozenset[int]]] = []

    def visit(self, node: Node) -> Origins:
        c = self._c
        for subquery in node.subqueries.values():
            self.visit(subquery)
        if not node.children:
            return {id_of(a): frozenset([id_of(a)]) for a in c.output(node.plan)}
        below = [self.visit(child) for child in node.children]
        passed = {at: origins for one in below for at, origins in one.items()}
        if node.kind == "Aggregate":
            self._key(c.items(node.plan.groupingExpressions()), passed)
            return self._made(c.items(node.plan.aggregateExpressions()), passed)
        if node.kind == "Project":
            return self._made(c.items(node.plan.projectList()), passed)
        if node.kind == "Filter":
            self._key([node.plan.condition()], passed)
        elif node.kind == "Join" and node.plan.condition().isDefined():
            self._equalities(node.plan.condition().get(), passed)
        elif node.kind == "Window":
            self._key(c.items(node.plan.partitionSpec()), passed)
        elif node.kind == "Union":
            sides = [[one.get(id_of(a), _NONE) for a in c.output(child.plan)]
                     for one, child in zip(below, node.children, strict=True)]  # fmt: skip
            return {id_of(a): _NONE.union(*made) for a, *made in zip(c.output(node.plan), *sides, strict=True)}
        elif node.kind == "Expand":
            rows = [c.items(row) for row in c.items(node.plan.projections())]
            columns = zip(c.output(node.plan), *rows, strict=True)
            return {id_of(a): _NONE.union(*(self._of(e, passed) for e in made)) for a, *made in columns}
        return passed

    def spread(self) -> None:
        before = -1
        while before < len(self.keys):
            before = len(self.keys)
            for left, right in self._equal:
                if self.keys & (left | right):
                    self.keys |= left | right

    def _made(self, expressions: Iterable[Expr], passed: Origins) -> Origins:
        return {id_of(e): _NONE if self._aggregates(e) else self._of(e, passed) for e in expressions}

    def _of(self, expression: Expr, passed: Origins) -> frozenset[int]:
        return _NONE.union(*(passed.get(at, _NONE) for at in self._c.references(expression)))

    def _key(self, expressions: Iterable[Expr], passed: Origins) -> None:
        for expression in expressions:
            self.keys |= self._of(expression, passed)

    def _equalities(self, condition: Expr, passed: Origins) -> None:
        sides = self._c.children(condition)
        if class_name(condition) == "And":
            for side in sides:
                self._equalities(side, passed)
        elif class_name(condition) in ("EqualTo", "EqualNullSafe"):
            self._equal.append((self._of(sides[0], passed), self._of(sides[1], passed)))

    def _aggregates(self, expression: Expr) -> bool:
        if class_name(expression) == "AggregateExpression":
            return True
        return any(self._aggregates(below) for below in self._c.children(expression))
