"""Runs the table of rules over a query's tree: one loop for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from whence.model import NonDeterministic, UnsupportedOperator
from whence.sql.blocks import Annotated, Block, Lookup, Place, ReadingPlace
from whence.sql.catalyst import Catalyst, Plan
from whence.sql.sources import SCANS, dataset_of
from whence.sql.tree import Node, place_of

_SELDOM_TOLD = "whence has no lineage rule for it"


@dataclass(eq=False)
class Builder:
    c: Catalyst
    root: Node
    rules: Mapping[str, Callable[[Node, Builder], Annotated]]
    # Small parts of the query that must be computed to know their lineage (the rows a LIMIT keeps) are computed when
    # this is set; before that the tree is only checked.
    compute: bool = False
    # Readings that an earlier, unfinished building has numbered: a reading keeps its number and identity.
    known: Mapping[Node, ReadingPlace] = field(default_factory=dict)
    readings: list[ReadingPlace] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    order_matters: bool = False
    deferred: bool = False
    frozen: set[Node] = field(default_factory=set)
    _views: list[str] = field(default_factory=list)
    _block: int = 0
    _auxiliary: bool = False
    _blocks: int = 0

    def annotate(self, node: Node) -> Annotated:
        rule = self.rules.get(node.kind)
        if rule is None:
            raise self.unsupported(node)
        self._require_deterministic(node)
        place = len(self.places)
        block = self._block
        self.places.append(Place(node, Annotated(node.plan, ()), block))  # holds the operator's turn: result first
        annotated = self._with_subqueries(node, rule(node, self))
        self.places[place] = Place(node, annotated, block)
        return annotated

    def block(
        self, node: Node, extend: Callable[[Annotated], Annotated] | None = None, *, ordered: bool = False
    ) -> Block:
        """A block of its own for what stands below `node`; `extend` may add columns to its rows."""
        outer = self._block
        self._blocks += 1
        self._block = number = self._blocks
        try:
            with self.ordered(ordered):
                annotated = self.annotate(node)
                return Block(number, node, annotated if extend is None else extend(annotated))
        finally:
            self._block = outer

    def reading(self, leaf: Node) -> ReadingPlace:
        if leaf in self.known:
            self.readings.append(self.known[leaf])
            return self.known[leaf]
        view = self._views[-1] if self._views else None
        place = ReadingPlace(len(self.readings), leaf, dataset_of(self.c, leaf, view), self._auxiliary)
        self.readings.append(place)
        return place

    def set_aside(self, node: Node) -> None:
        """A part of the query that is read but whose rows are no witnesses, such as the right side of an anti join."""
        if node.kind == "View":
            with self.view(node.plan.desc().identifier().table()):
                self.set_aside(node.children[0])
        elif not node.children and node.kind in SCANS:
            self.reading(node)
        for below in (*(node.children if node.kind != "View" else ()), *node.subqueries.values()):
            self.set_aside(below)

    @contextmanager
    def auxiliary(self) -> Iterator[None]:
        before, self._auxiliary = self._auxiliary, True
        try:
            yield
        finally:
            self._auxiliary = before

    @contextmanager
    def ordered(self, matters: bool) -> Iterator[None]:
        """Whether the order of rows decides which of them an operator above keeps."""
        before, self.order_matters = self.order_matters, matters
        try:
            yield
        finally:
            self.order_matters = before

    @contextmanager
    def view(self, name: str) -> Iterator[None]:
        self._views.append(name)
        try:
            yield
        finally:
            self._views.pop()

    def freeze(self, node: Node) -> None:
        """The operator cannot be run again on a part of its rows: replay takes the rows that the trace found there."""
        self.frozen.add(node)

    def note(self, node: Node, what: str) -> None:
        self.notes.append(f"{node.kind}: {what}")

    def unsupported(self, node: Node, reason: str = _SELDOM_TOLD) -> UnsupportedOperator:
        return UnsupportedOperator(node.kind, place_of(self.root, node), reason)

    def _with_subqueries(self, node: Node, annotated: Annotated) -> Annotated:
        """Every row of a node that compares with a scalar subquery comes from the subquery's rows too."""
        links: list[Lookup] = []
        marks: list[Plan] = []
        for key, below in node.subqueries.items():
            if node.subquery_kinds[key] != "ScalarSubquery":
                raise self.unsupported(node, f"its {node.subquery_kinds[key]} could not be turned into a join")
            mark = self.c.alias(self.c.true, "whence_present")
            marks.append(mark)
            links.append(Lookup(below, self.block(below), None, (), (mark.toAttribute(),)))
        if not links:
            return annotated
        return Annotated(self.c.extend(annotated.plan, marks), (*annotated.links, *links))

    def _require_deterministic(self, node: Node) -> None:
        uncertain = self.c.nondeterministic(node.plan)
        if node.kind == "Aggregate":
            uncertain += self.c.functions_of_any_row(node.plan)
        for expression in uncertain:
            raise NonDeterministic(
                f"Cannot trace through {expression}: it may give another value each time it is computed, so the rows "
                "behind a result cannot be worked out afterwards.\nIt stands here in the query:\n"
                f"{place_of(self.root, node)}"
            )
