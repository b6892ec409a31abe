"""A query's lineage as blocks and links.

A *block* is a stretch of the query whose rows carry the identities of what they came from as extra columns: each row of
a filter, project, join or union comes from one row of each leaf. What stands at its leaves are *links*:

- a `Reading`: a place that reads a dataset; the identity is the row's own;
- a `Lookup`: an operator whose output row comes from many rows below (aggregate, distinct, semi join, window,
  subquery). The identity is what is needed to find them (the group key, say), and `condition` finds them among the rows
  of the block below.

So a trace is: evaluate a block for the asked rows, take the identities, restrict the blocks below to them, repeat. No
row is ever multiplied by the witnesses of another branch, where rewriting the whole query at once (Perm) explodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from whence.sql.catalyst import Attr, Catalyst, Expr, Plan, id_of
from whence.sql.memory import Fact
from whence.sql.sources import Dataset
from whence.sql.tree import Node


@dataclass(frozen=True, eq=False)
class ReadingPlace:
    """One place in the query that reads a dataset."""

    number: int
    leaf: Node
    dataset: Dataset
    # Spark's rewriting of a correlated subquery may read the outer query's tables once more, to know for which values
    # the subquery is needed. Replay needs such a reading; the answer to "which rows made this" does not hold it.
    auxiliary: bool = False
    # It is in a branch of a union that no asked row is from.
    barren: bool = False


# An attribute that tells a row's branch of a union, and a branch. The branches of a union share the attributes of their
# identities, so that a union of a thousand is no wider than one of two; a link is there only in rows of its own branch.
Branch: TypeAlias = tuple[Attr, int]


@dataclass(frozen=True, eq=False)
class Reading:
    place: ReadingPlace
    attrs: tuple[Attr, ...]
    # Whether each row of the reading is in at most one row of the block, so that its identities need no DISTINCT.
    once: bool = True
    # Whether each row of the block has one of its rows; an outer join's other side and a union's branch may miss it.
    always: bool = True
    when: tuple[Branch, ...] = ()

    @property
    def present(self) -> Attr:
        return self.attrs[-1]


@dataclass(frozen=True, eq=False)
class Lookup:
    """`attrs` are (present, *keys, *identity) as the block's rows carry them; `keys` the attributes that `condition`
    speaks of; the identity, where rows with equal keys are several (a window's), tells them apart."""

    node: Node
    block: Block
    condition: Expr | None
    keys: tuple[Attr, ...]
    attrs: tuple[Attr, ...]
    # key attribute and the expression over the block below that it equals, where the condition says so
    equalities: tuple[tuple[Attr, Expr], ...] = ()
    # The fact that has written down which rows of the readings below each key finds (taps.py).
    stored: Fact | None = None
    when: tuple[Branch, ...] = ()

    @property
    def present(self) -> Attr:
        return self.attrs[0]

    @property
    def asked(self) -> tuple[Attr, ...]:
        """The keys as the block's rows carry them."""
        return self.attrs[1 : 1 + len(self.keys)]


Link: TypeAlias = Reading | Lookup


@dataclass(frozen=True, eq=False)
class Annotated:
    """A plan whose output holds the operator's own output and the attributes of its links, in any order."""

    plan: Plan
    links: tuple[Link, ...]

    @property
    def attrs(self) -> list[Attr]:
        return attrs_of(self.links)


@dataclass(eq=False)
class Block:
    number: int
    node: Node
    annotated: Annotated
    # Its rows, with the identities that they carry and the columns that the grouping above needs, once these were
    # computed (gathered.py).
    kept: Plan | None = None


@dataclass(frozen=True, eq=False)
class Place:
    """An operator of the query, with its rows' identities, in the block it belongs to."""

    node: Node
    annotated: Annotated
    block: int
    # No row of it lies on any way, and what its rows come from was not worked out.
    barren: bool = False


def origin(link: Link) -> ReadingPlace | Block:
    """What a link leads to; it stays the same while operators above rename the link's attributes."""
    return link.place if isinstance(link, Reading) else link.block


def attrs_of(links: Sequence[Link]) -> list[Attr]:
    """All that rows must carry for these links, each attribute once."""
    found = {id_of(a): a for link in links for a in (*link.attrs, *(attr for attr, _ in link.when))}
    return list(found.values())


def is_there(c: Catalyst, link: Link) -> Expr:
    """Whether a row of the block comes from something at this link."""
    return c.conjunction([c.is_not_null(link.present), *in_branch(c, link.when)])


def told_by(link: Link) -> tuple[Attr, ...]:
    """What tells the rows of a block apart, of what stands at this link."""
    own = link.attrs if isinstance(link, Reading) else link.attrs[1:]
    return (*own, *(attr for attr, _ in link.when))


def alike(below: Link, above: Link) -> Iterator[tuple[Attr, Attr]]:
    """What a link's attributes at one operator are called at another one further up in its block."""
    yield from zip(below.attrs, above.attrs, strict=True)
    # Each union above adds a test at the end.
    for (attr, _), (current, _) in zip(below.when, above.when, strict=False):
        yield attr, current


def in_branch(c: Catalyst, when: Sequence[Branch]) -> list[Expr]:
    return [c.equal(attr, c.number(branch)) for attr, branch in when]


def in_branches(c: Catalyst, links: Sequence[Link]) -> list[Expr]:
    """Whether a row is in the branch of one of these links, which differ in nothing else (`same_branches`)."""
    if len(links) == 1 or not links[0].when:
        return in_branch(c, links[0].when)
    *outer, (attr, _) = links[0].when
    return [*in_branch(c, outer), c.one_of(attr, [link.when[-1][1] for link in links]) or c.true]


def same_branches(link: Link) -> tuple[object, ...]:
    """Equal for links that differ in nothing but their branch of one union."""
    outer = tuple((id_of(attr), branch) for attr, branch in link.when[:-1])
    return (*(id_of(a) for a in link.attrs), outer, *(id_of(attr) for attr, _ in link.when[-1:]))


def in_no_branch(c: Catalyst, links: Sequence[Link], rows: Plan, *, local: bool) -> list[Lookup]:
    """Lookups in branches of unions that none of these rows is in: one look at the rows in place of one for each.

    `local`: the rows are on the driver."""
    lookups = [link for link in links if isinstance(link, Lookup) and link.when]
    if len(lookups) < 2:
        return []
    tells = list({id_of(attr): attr for link in lookups for attr, _ in link.when}.values())
    told = c.project([c.alias(attr, f"b{i}") for i, attr in enumerate(tells)], rows)
    found = set(c.rows(told if local else c.distinct(told)))
    at = {id_of(attr): i for i, attr in enumerate(tells)}
    there = {(i, branch) for row in found for i, branch in enumerate(row)}
    return [link for link in lookups if not all((at[id_of(attr)], branch) in there for attr, branch in link.when)]


def read_below(block: Block) -> Iterator[int]:
    """The numbers of the readings that a block leads to."""
    for link in block.annotated.links:
        if isinstance(link, Reading):
            yield link.place.number
        else:
            yield from read_below(link.block)


def repeated(links: Sequence[Link]) -> tuple[Link, ...]:
    """The links of an operator that may give one row of its input several times."""
    return tuple(replace(link, once=False) if isinstance(link, Reading) else link for link in links)


def nullable(links: Sequence[Link]) -> tuple[Link, ...]:
    """The links of the side of an outer join that may be missing."""
    return tuple(maybe_missing(link) for link in links)


def maybe_missing(link: Link) -> Link:
    attrs = tuple(a.withNullability(True) for a in link.attrs)
    changed = replace(link, attrs=attrs, when=tuple((a.withNullability(True), branch) for a, branch in link.when))
    return replace(changed, always=False) if isinstance(changed, Reading) else changed


def make_lookup(
    c: Catalyst,
    node: Node,
    plan: Plan,
    block: Block,
    keys: Sequence[Expr],
    condition: Expr | None,
    equalities: Sequence[tuple[Attr, Expr]] = (),
    identity: Sequence[Attr] = (),
) -> Annotated:
    """`plan`, a leaf of its block, with one lookup. `keys` and `identity` are attributes of `plan`'s output."""
    present = c.alias(c.true, "whence_present")
    carried = [c.alias(key, "whence_key") for key in (*keys, *identity)]
    attrs = tuple(a.toAttribute() for a in (present, *carried))
    lookup = Lookup(node, block, condition, tuple(keys), attrs, tuple(equalities))
    return Annotated(c.extend(plan, [present, *carried]), (lookup,))
