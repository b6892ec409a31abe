"""Runs the table of rules over a query's tree: one loop for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from whence.model import NonDeterministic, UnsupportedOperator
from whence.model.once import once
from whence.spark.round_trips import of_files
from whence.sql import facts
from whence.sql.blocks import Annotated, Block, Lookup, Place, ReadingPlace, repeated
from whence.sql.catalyst import Catalyst, Expr, Plan, remembered
from whence.sql.certainty import uncertain
from whence.sql.memory import Fact
from whence.sql.row_changes import is_no_witness
from whence.sql.sources import SCANS, dataset_of, is_parameters
from whence.sql.taps import Tap
from whence.sql.tree import Node, place_of
from whence.sql.wavering import Waverings, waverings

_SHOWN = 80
_SELDOM_TOLD = "whence has no lineage rule for it"


@dataclass(frozen=True, eq=False)
class Built:
    """What building a part of the tree gave, none of which had to wait for something computed."""

    annotated: Annotated
    places: Sequence[Place]
    readings: Sequence[ReadingPlace]
    notes: Sequence[str]
    frozen: frozenset[Node]
    blocks: int


@dataclass(eq=False)
class Builder:
    c: Catalyst
    root: Node
    rules: Mapping[str, Callable[[Node, Builder], Annotated]]
    # Small parts of the query that must be computed to know their lineage (the rows a LIMIT keeps) are computed when
    # this is set; before that the tree is only checked.
    compute: bool = False
    # Whether some columns of the result are asked about: then only the rows that enter them are witnesses (columns.py).
    some_columns: bool = False
    # Readings that an earlier, unfinished building has numbered: a reading keeps its number and identity.
    known: Mapping[Node, ReadingPlace] = field(default_factory=dict)
    # What that building has finished: it visits the nodes in the same order, so places and numbers fit.
    built: dict[Node, Built] = field(default_factory=dict)
    readings: list[ReadingPlace] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    order_matters: bool = False
    deferred: bool = False
    frozen: set[Node] = field(default_factory=set)
    # Operators whose rows are written down, and those of them whose rule has taken its rows from there.
    _facts: dict[Node, Fact] = field(default_factory=dict)
    _taken: set[Node] = field(default_factory=set)
    # Set while the lineage of one aggregate is written down in the same pass.
    tap: Tap | None = None
    _views: list[str] = field(default_factory=list)
    _block: int = 0
    _auxiliary: bool = False
    _blocks: int = 0

    def annotate(self, node: Node) -> Annotated:
        if (built := self.built.get(node)) is not None:
            return self._take_over(built)
        waits, self.deferred = self.deferred, False
        before = len(self.places), len(self.readings), len(self.notes), self._blocks
        frozen = frozenset(self.frozen)
        annotated = self._annotate(node) if node.fact is None else self._settled(node, node.fact)
        # An operator that is written down and what says so are one: only both together are taken over.
        if not self.deferred and node not in self._facts and not any(fact.open for fact in self._facts.values()):
            places, readings, notes, blocks = before
            self.built[node] = Built(
                annotated,
                self.places[places:],
                self.readings[readings:],
                self.notes[notes:],
                frozenset(self.frozen - frozen),
                self._blocks - blocks,
            )
        self.deferred = self.deferred or waits
        return annotated

    def _take_over(self, built: Built) -> Annotated:
        self.places += built.places
        self.readings += built.readings
        self.notes += built.notes
        self.frozen |= built.frozen
        self._blocks += built.blocks
        return built.annotated

    def _annotate(self, node: Node) -> Annotated:
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

    def paired(self, node: Node) -> tuple[Annotated, Annotated]:
        """The two sides of a join of rows with captured writes (alike_writes.py), whose place it takes."""
        place, block = len(self.places), self._block
        self.places.append(Place(node, Annotated(node.plan, ()), block))
        rows, writes = (self.annotate(child) for child in node.children)
        both = self.c.with_children(node.plan, [rows.plan, writes.plan])
        self.places[place] = Place(node, Annotated(both, repeated((*rows.links, *writes.links))), block)
        return rows, writes

    def _settled(self, node: Node, fact: Fact) -> Annotated:
        """An operator whose rows are written down: its rule says what they come from, the store what they are."""
        (inner,) = node.children
        self._facts[inner] = fact
        place = len(self.places)
        # What was written down is about whole rows, and has the columns of that.
        some, self.some_columns = self.some_columns, False
        try:
            annotated = self.annotate(inner)
        finally:
            self.some_columns = some
        if inner not in self._taken:
            annotated = Annotated(self.kept(inner, facts.ROWS, annotated.plan), annotated.links)
            self.places[place] = Place(inner, annotated, self._block)
        self.places.append(Place(node, annotated, self._block))
        if not fact.certain:
            self.freeze(node)
        return annotated

    def fact_of(self, node: Node) -> Fact | None:
        return self._facts.get(node)

    def taps(self, node: Node) -> bool:
        return self.tap is not None and node in self._facts

    def tapped(self, keys: Sequence[Expr], block: Block) -> Plan:
        assert self.tap is not None
        return self.tap.below(keys, block)

    def kept(self, node: Node, part: str, plan: Plan) -> Plan:
        """`plan` computed once and kept: in Spark's block manager, or, of a fact, in the store."""
        fact = self._facts.get(node)
        if fact is None:
            return self.c.plan_of(self.c.materialise(plan))
        self._taken.add(node)
        found = facts.table(self.c, fact, part, plan, self.tap if fact.certain else None)
        if part == facts.ROWS and fact.open:
            fact.own = facts.positions_of(self.c, self.c.output(node.plan), plan)
        return found

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

    def pass_by(self, node: Node) -> None:
        """An operator none of whose rows can be asked about: it has its place and no lineage."""
        self.places.append(Place(node, Annotated(node.plan, ()), self._block, barren=True))

    def reading(self, leaf: Node, *, barren: bool = False) -> ReadingPlace:
        if leaf in self.known:
            self.readings.append(self.known[leaf])
            return self.known[leaf]
        view = self._views[-1] if self._views else None
        # One dataset may be read at many places.
        read = of_files(leaf.plan) if self.c.is_file_scan(leaf.plan) else leaf.plan
        dataset = remembered(read, f"dataset_of_{view}", lambda: dataset_of(self.c, leaf, view))
        place = ReadingPlace(len(self.readings), leaf, dataset, self._auxiliary, barren)
        self.readings.append(place)
        return place

    def set_aside(self, node: Node) -> None:
        """A part of the query that is read but whose rows are no witnesses, such as the right side of an anti join."""
        if is_no_witness(node) or is_parameters(node):  # which are no witnesses wherever they stand
            with self.auxiliary():
                self.set_aside(node.children[0])
            return
        if node.kind == "View":
            with self.view(node.plan.desc().identifier().table()):
                self.set_aside(node.children[0])
        elif not node.children and node.kind in SCANS:
            self.reading(node)
        elif node.fact is None and (why := self._why_undecided(node)) is not None:
            raise NonDeterministic(
                f"{why} It decides which rows of another table are kept, so that cannot be told afterwards: compute "
                "the result under `with w.capture():`.\nIt stands here in the query:\n"
                f"{place_of(self.root, node)}"
            )
        if node.fact is not None:
            (node,) = node.children
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
        """Every row of a node that compares with a scalar subquery, or asks if it has rows, comes from its rows too."""
        links: list[Lookup] = []
        marks: list[Plan] = []
        for key, below in node.subqueries.items():
            if node.subquery_kinds[key] not in ("ScalarSubquery", "Exists alone"):
                raise self.unsupported(node, f"its {node.subquery_kinds[key]} could not be turned into a join")
            mark = self.c.alias(self.c.true, "whence_present")
            marks.append(mark)
            links.append(Lookup(below, self.block(below), None, (), (mark.toAttribute(),)))
        if not links:
            return annotated
        return Annotated(self.c.extend(annotated.plan, marks), (*annotated.links, *links))

    def _require_deterministic(self, node: Node) -> None:
        if node in self._facts:
            return
        for expression in self.c.nondeterministic(node.plan):
            raise self.undecided(node, expression)

    def _why_undecided(self, node: Node) -> str | None:
        """Of rows that are only compared with: the same, and what leaves a choice."""
        if node in self.wavering.decides:
            return f"What {node.kind} takes for a value depends on the order in which rows come."
        return (
            uncertain(self.c, node, ties=False)
            if node.kind != "Aggregate" or self.c.nondeterministic(node.plan)
            else None
        )

    def undecided(self, node: Node, what: str) -> NonDeterministic:
        """What the operator gives may be something else the next time, and decides about rows."""
        decided = self.wavering.decides.get(node)
        goes_by_it = "" if decided is None else f" and {_shortened(decided[1].text)} goes by it,"
        return NonDeterministic(
            f"Cannot trace through {what}: it may give another value each time it is computed,{goes_by_it} so the rows "
            "behind a result cannot be worked out afterwards. Compute the result under `with w.capture():` to have "
            f"them written down.\nIt stands here in the query:\n{place_of(self.root, node)}"
        )

    @once
    def wavering(self) -> Waverings:
        return waverings(self.c, self.root)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
