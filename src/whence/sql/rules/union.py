from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from whence.sql.blocks import Annotated, Link, Reading, attrs_of
from whence.sql.builder import Builder
from whence.sql.catalyst import Attr, Catalyst, Expr, id_of, remembered
from whence.sql.rules.narrow import below
from whence.sql.sources import SCANS
from whence.sql.tree import Node

# What an attribute of identities is put in: its name and type, and which one of these it is in its branch.
_Slot = tuple[str, str, int]


def union(node: Node, build: Builder) -> Annotated:
    """The row in its branch. All branches put their identities into the same columns, beside the branch's number."""
    c = build.c
    branches: list[tuple[Sequence[Expr], Annotated]] = []
    for child in node.children:
        if child.barren:
            _pass_by(child, build)
            continue
        own: Sequence[Expr] = c.output(child.plan)
        if not branches and child is not node.children[0]:  # whose columns have other ids than the union's
            own = [_under(c, *pair) for pair in zip(own, c.output(node.plan), strict=True)]
        branches.append((own, build.annotate(child)))
    return united(c, branches)


def _under(c: Catalyst, column: Attr, shown: Attr) -> Expr:
    return column if id_of(column) == id_of(shown) else c.alias_as(column, shown)


def _pass_by(node: Node, build: Builder, *, shown: bool = True) -> None:
    """A part of the query that no asked row comes from: its operators and readings are told of, as always. `shown`: not
    so of rows that are only compared with."""
    if shown:
        build.pass_by(node)
    if not node.children and node.kind in SCANS:
        build.reading(node, barren=True)
    with below(node, build):
        for number, child in enumerate(node.children):
            _pass_by(child, build, shown=shown and not (number and _only_compares(node)))
    for sub in node.subqueries.values():
        _pass_by(sub, build, shown=shown)


def _only_compares(node: Node) -> bool:
    return node.kind == "Except" or (node.kind == "Join" and str(node.plan.joinType().toString()) == "LeftAnti")


def united(c: Catalyst, branches: Sequence[tuple[Sequence[Expr], Annotated]]) -> Annotated:
    """The rows of several branches, of each its own columns and identities."""
    slots = _Slots(c, [attrs_of(branch.links) for _, branch in branches])
    plans = []
    for number, (own, branch) in enumerate(branches):
        row = [*own, c.alias(c.number(number), "whence_branch"), *slots.row(number)]
        plans.append(c.project(row, branch.plan))
    plan = c.union(plans)
    # A union's attributes have the ids of its first branch.
    tells, *heads = [a.withNullability(True) for a in c.output(plan)[len(branches[0][0]) :]]
    links = [
        _moved(link, slots.places(number, heads), tells, number)
        for number, (_, branch) in enumerate(branches)
        for link in branch.links
    ]
    return Annotated(plan, tuple(links))


def _moved(link: Link, places: dict[int, Attr], tells: Attr, number: int) -> Link:
    attrs = tuple(places[id_of(a)] for a in link.attrs)
    when = (*((places[id_of(a)], branch) for a, branch in link.when), (tells, number))
    moved = replace(link, attrs=attrs, when=when)
    return replace(moved, always=False) if isinstance(moved, Reading) else moved


@dataclass(eq=False)
class _Slots:
    """Where each branch of a union puts the attributes of its identities."""

    c: Catalyst
    branches: list[list[Attr]]
    _of: list[dict[_Slot, Attr]] = field(default_factory=list)
    _like: dict[_Slot, Attr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for attrs in self.branches:
            self._of.append(dict(self._numbered(attrs)))
            for slot, attr in self._of[-1].items():
                self._like.setdefault(slot, attr)

    def _numbered(self, attrs: Iterable[Attr]) -> Iterable[tuple[_Slot, Attr]]:
        seen: Counter[tuple[str, str]] = Counter()
        for attr in attrs:
            kind = remembered(attr, "name", attr.name), self.c.type_of(attr)
            yield (*kind, seen[kind]), attr
            seen[kind] += 1

    def row(self, number: int) -> list[Expr]:
        held = self._of[number]
        return [held[slot] if slot in held else self._missing(slot, like) for slot, like in self._like.items()]

    def _missing(self, slot: _Slot, like: Attr) -> Expr:
        return self.c.alias(self.c.null(like), slot[0])

    def places(self, number: int, heads: list[Attr]) -> dict[int, Attr]:
        """Which of the union's attributes each attribute of the branch became."""
        by_slot = dict(zip(self._like, heads, strict=True))
        return {id_of(attr): by_slot[slot] for slot, attr in self._of[number].items()}
