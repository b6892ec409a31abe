"""Evaluates a query's lineage: from rows of the result down to the rows of every reading.

Every block's identities are computed once and kept: many in Spark's block manager, few on the driver. Few keys to look
up are turned into filters that Spark can push into the scans; one key leaves nothing to join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from whence.progress import working
from whence.sql import both_sides, branches
from whence.sql.blocks import (
    Block,
    Link,
    Lookup,
    Place,
    Reading,
    ReadingPlace,
    in_branches,
    in_no_branch,
    is_there,
    read_below,
    same_branches,
)
from whence.sql.catalyst import Attr, Catalyst, Expr, Kept, Plan, class_name, id_of
from whence.sql.computed_before import rows_for_next
from whence.sql.gathered import rows_of, rows_with
from whence.sql.left_first import left_first
from whence.sql.lineage import SqlLineage
from whence.sql.selection import asked_by_key, is_one_group
from whence.sql.sources import identify
from whence.sql.stored import Answer, answers

# Up to this many keys become literals in a filter; more are joined.
FEW = 200

# Keys to look up.
Few: TypeAlias = Sequence[tuple[object, ...]]

# Of distinct records, one to a line.
Identities: TypeAlias = npt.NDArray[np.int64]

OUTPUT = "output"


class Frames(Mapping[int, DataFrame]):
    """DataFrames by number, each made when it is first asked for: Spark takes its time to analyse one."""

    def __init__(self) -> None:
        self._made: dict[int, DataFrame] = {}
        self._makers: dict[int, Callable[[], DataFrame]] = {}

    def give(self, number: int, make: Callable[[], DataFrame]) -> None:
        self._makers[number] = make
        self._made.pop(number, None)

    def __getitem__(self, number: int) -> DataFrame:
        if number not in self._made:
            self._made[number] = self._makers[number]()
        return self._made[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __contains__(self, number: object) -> bool:
        return number in self._makers


@dataclass(eq=False)
class Evaluation:
    """What a trace found. `outputs` is set when each witness is to be told which output row it belongs to."""

    lineage: SqlLineage
    output: Attr | None = None
    blocks: dict[int, Block] = field(default_factory=dict)
    # Identities of the witnesses of each reading, by reading number.
    witnesses: Frames = field(default_factory=Frames)
    rows: DataFrame | None = None
    _selected: dict[int, Kept] = field(default_factory=dict)
    _selections: dict[int, Plan] = field(default_factory=dict)
    # Blocks whose witnesses are known from the store; what lies on the way there is worked out when it is asked for.
    _later: dict[int, Callable[[], None]] = field(default_factory=dict)
    # Readings whose witnesses are told by the computed rows of a block.
    _told_by: dict[int, tuple[Reading, Plan]] = field(default_factory=dict)
    # Of a block, the rows among which the asked ones are looked up, where these are computed (left_first.py).
    _among: dict[int, Plan] = field(default_factory=dict)
    # Readings whose witnesses were known from the store.
    stored: set[int] = field(default_factory=set)
    # Blocks of which every row lies on the way, known without computing them.
    whole: set[int] = field(default_factory=set)
    # Blocks that are not computed, since their rows are groups that are asked for by key: the grouping, and what its
    # own rows must meet.
    groups: dict[int, tuple[Lookup, Expr | None]] = field(default_factory=dict)
    # The number of witnesses at a reading, where it is known, and their identities, where the driver has them.
    counts: dict[int, int] = field(default_factory=dict)
    identities: dict[int, Identities] = field(default_factory=dict)
    # Columns of blocks' identities that the driver has: places of attributes by their id, and the values.
    tables: dict[int, tuple[Mapping[int, int], pa.Table]] = field(default_factory=dict)

    def found(self, link: Reading, kept: Plan) -> None:
        """The witnesses at a reading are told by the computed rows of its block."""
        self._told_by[link.place.number] = (link, kept)
        self.witnesses.give(link.place.number, lambda: self.c.frame(self._ids([link], kept)))

    def _ids(self, links: Sequence[Reading], kept: Plan) -> Plan:
        """Identities at readings that differ in nothing but their branch of a union."""
        c, ids = self.c, self._told_ids(links, kept)
        if len(links) == 1 and self.is_once(links[0]):
            return ids
        return c.distinct_on_driver(ids) if class_name(kept) == "LocalRelation" else c.distinct(ids)

    def _told_ids(self, links: Sequence[Reading], kept: Plan) -> Plan:
        c = self.c
        carried = [] if self.output is None else [self.output]
        here = c.filter(c.conjunction([c.is_not_null(links[0].present), *in_branches(c, links)]), kept)
        return c.project([*carried, *links[0].attrs], here)

    def to_look_for(self, places: Sequence[ReadingPlace]) -> DataFrame | None:
        """The identities at one reading for those who ask which rows have one of them: to find equal ones, Spark would
        shuffle them first. None where that is not so."""
        link, kept = self._told_by.get(places[0].number, (None, None)) if len(places) == 1 else (None, None)
        if link is None or kept is None or self.is_once(link) or class_name(kept) == "LocalRelation":
            return None
        return self.c.frame(self._told_ids([link], kept))

    def may_be_at_hand(self, place: ReadingPlace) -> bool:
        """Whether the identities at a reading may be on the driver; what is made of computed rows elsewhere is not,
        which Spark's optimizer takes its time to tell."""
        _, kept = self._told_by.get(place.number, (None, None))
        return kept is None or class_name(kept) == "LocalRelation"

    def ids_at(self, places: Sequence[ReadingPlace]) -> list[Plan]:
        """Identities of the witnesses at these readings, in as few queries as can be."""
        alike: dict[tuple[object, ...], list[int]] = {}
        for place in [place for place in places if self.counts.get(place.number) != 0] or places[:1]:
            link, kept = self._told_by.get(place.number, (None, None))
            key = (place.number,) if link is None or not link.when else (id(kept), *same_branches(link))
            alike.setdefault(key, []).append(place.number)
        plans = []
        for numbers in alike.values():
            if len(numbers) == 1:
                plans.append(self.c.plan_of(self.witnesses[numbers[0]]))
            else:
                plans.append(self._ids([self._told_by[n][0] for n in numbers], self._told_by[numbers[0]][1]))
        return plans

    def answered(self, witnesses: Mapping[int, Answer], link: Lookup, there: Plan) -> None:
        for number, answer in witnesses.items():
            self.witnesses.give(number, answer.frame)
            self.counts[number] = answer.count
            self.stored.add(number)
        self.blocks[link.block.number] = link.block
        self._later[link.block.number] = lambda: _look_up(self, link, there)

    def looked_up_otherwise(self, link: Lookup, kept: Plan) -> None:
        """What the computed rows come from there is known; the way there is worked out when it is asked for."""
        self.blocks[link.block.number] = link.block
        self._later[link.block.number] = lambda: _look_up(self, link, self.c.filter(is_there(self.c, link), kept))

    def _work_out(self, number: int) -> None:
        later = self._later.pop(number, None)
        if later is not None:
            later()

    def select(self, block: Block, plan: Plan, identities: Plan | None = None) -> None:
        """`plan`: the rows of the block that lie on the way. `identities`: what they carry, without all else."""
        carried = [] if self.output is None else [self.output]
        self.blocks[block.number] = block
        told = plan if identities is None else identities
        self._selections[block.number] = self.c.project([*carried, *block.annotated.attrs], told)

    def selection(self, number: int) -> Plan:
        """The query of the identities that the selected rows of a block carry."""
        return self._selections[number]

    def reach(self, number: int) -> Block | None:
        """The block, worked out if it lies below one that was answered from the store."""
        while number not in self.blocks and self._later:
            self._work_out(next(iter(self._later)))
        return self.blocks.get(number)

    def selected(self, number: int) -> Kept:
        """The identities that the selected rows of a block carry, computed once."""
        self._work_out(number)
        if number not in self._selected:
            with working(f"tracing {self.blocks[number].node.kind}"), self.c.quietly():
                self._selected[number] = rows_for_next(self.c, self._selections[number])
        return self._selected[number]

    @property
    def computed_blocks(self) -> list[int]:
        """The blocks whose selected rows are computed."""
        return list(self._selected)

    def rows_in(self, number: int) -> int:
        """How many rows of a block lie on the way; one group, asked for by its key, is not computed for that."""
        self._work_out(number)
        if number not in self._selected and number in self.groups:
            link, below = self.groups[number]
            if is_one_group(self.c, link, below):
                return 1 if below is None else min(1, self.rows_in(link.block.number))
        return self.selected(number).total

    def at_most(self, reading: ReadingPlace) -> int | None:
        """As many witnesses a reading has at most, where that is known without counting them."""
        if reading.barren:
            return 0
        for number, kept in self._selected.items():
            if any(isinstance(link, Reading) and link.place is reading for link in self.blocks[number].annotated.links):
                return kept.total
        return None

    def look_among(self, block: Block, rows: Plan) -> None:
        self._among[block.number] = rows

    def is_computed(self, block: Block) -> bool:
        return block.number in self._among or block.kept is not None

    def rows_of(self, block: Block) -> Plan:
        """The rows of a block among which some are looked up."""
        return self._among[block.number] if block.number in self._among else rows_of(block)

    def is_once(self, link: Reading) -> bool:
        return link.once and self.output is None

    @property
    def c(self) -> Catalyst:
        return self.lineage.c


def backward(lineage: SqlLineage, root: Plan | None = None, per_output: bool = False) -> Evaluation:
    """The witnesses of all rows of the query, or of those in `root`: the root block's plan, restricted."""
    with lineage.c.quietly():
        return _backward(lineage, root, per_output)


def _backward(lineage: SqlLineage, root: Plan | None, per_output: bool) -> Evaluation:
    c = lineage.c
    lineage.require_unchanged()
    block = lineage.root
    plan = block.annotated.plan if root is None else root
    evaluation = Evaluation(lineage)
    if per_output:
        output = c.alias(c.position(), OUTPUT)
        named = c.with_position(plan, output)
        numbered = c.as_named_by(named, c.materialise(named))
        evaluation.output = output.toAttribute()
        evaluation.rows = numbered
        plan = c.plan_of(numbered)
    if root is None and not per_output:
        _descend(evaluation, block, asked=True)
    else:
        _follow(evaluation, block, plan)
    evaluation.counts.update((reading.number, 0) for reading in lineage.readings if reading.barren)
    for reading in lineage.readings:
        if reading.number not in evaluation.witnesses:
            evaluation.witnesses.give(reading.number, partial(_no_ids, evaluation, reading))
    return evaluation


def _no_ids(evaluation: Evaluation, reading: ReadingPlace) -> DataFrame:
    """Of a dataset that is read but has no witnesses, such as the right side of an anti join."""
    c = evaluation.c
    leaf = identify(c, reading.leaf)
    carried = [] if evaluation.output is None else [c.alias_as(c.null(evaluation.output), evaluation.output)]
    return c.frame(c.project([*carried, *leaf.ids], c.filter(c.parse("false"), leaf.plan)))


def _descend(
    evaluation: Evaluation,
    block: Block,
    condition: Expr | None = None,
    *,
    asked: bool = False,
    keys: Sequence[Expr] = (),
) -> None:
    """Follow the rows of a block that meet the condition; groups that are asked for by their keys are not computed.

    `asked`: it is the question itself that asks, and may ask about other groups next. `keys`: what tells the groups
    that the block's rows belong to."""
    c = evaluation.c
    rows = evaluation.rows_of(block)
    plan = rows if condition is None else c.filter(condition, rows)
    by_key = asked_by_key(c, block, condition)
    if by_key is None or by_key[0].stored is not None:
        _follow(evaluation, block, plan, None if by_key else _quickly(evaluation, block, condition, asked, keys))
        return
    evaluation.select(block, plan)
    link, below = by_key
    if below is None:
        evaluation.whole.add(block.number)
    evaluation.groups[block.number] = (link, below)
    _descend(evaluation, link.block, below, asked=asked, keys=[expr for _, expr in link.equalities])


def _quickly(evaluation: Evaluation, block: Block, condition: Expr, asked: bool, keys: Sequence[Expr]) -> Plan | None:
    """The rows of a block that meet the condition, with nothing but the identities that they carry."""
    c = evaluation.c
    if evaluation.output is not None or not block.annotated.attrs or evaluation.is_computed(block):
        return None
    every = _of_all_groups(c, block, keys, evaluation.lineage.places) if asked and condition is not None else None
    if every is not None and condition is not None:
        return c.filter(condition, every)
    return left_first(c, block, condition, evaluation.lineage.places, partial(_matched, evaluation))


def _matched(evaluation: Evaluation, link: Lookup, condition: Expr, needed: AbstractSet[int]) -> Plan:
    """The rows of the block below a lookup that meet the condition, computed with what they carry and these of their
    columns: among them the lookup finds its own."""
    c, block, find = evaluation.c, link.block, partial(_matched, evaluation)
    some = left_first(c, block, condition, evaluation.lineage.places, find, needed)
    carried = {id_of(attr) for attr in block.annotated.attrs}
    own = [a for a in c.output(block.annotated.plan) if id_of(a) in needed - carried]
    rows = c.filter(condition, block.annotated.plan) if some is None else some
    found = c.keep(c.project([*block.annotated.attrs, *own], rows)).plan
    evaluation.look_among(block, found)
    return found


def _of_all_groups(c: Catalyst, block: Block, keys: Sequence[Expr], places: Sequence[Place]) -> Plan | None:
    """The identities that all rows of a block of joins carry, with the keys of their groups: joining takes as long
    for one group as for all, and the next question asks for another. None where that does not hold."""
    if not keys or c.has_user_functions(block.annotated.plan):
        return None
    if not any(node.kind == "Join" for node in block.node.walk()):
        return None
    named = set().union(*[c.references(key) for key in keys])
    with working(f"tracing {block.node.kind}"), c.quietly():
        rows = rows_with(c, block, places, named)
    return None if rows is None else rows.plan


def _follow(evaluation: Evaluation, block: Block, plan: Plan, identities: Plan | None = None) -> None:
    """Compute these rows of a block, and follow what they come from. `identities`: what they carry, found otherwise."""
    c = evaluation.c
    carried = [] if evaluation.output is None else [evaluation.output]
    evaluation.select(block, plan, identities)
    if not block.annotated.attrs:
        return
    # What is asked of a store is asked once, but for branches of unions: there is no need to keep the rows that ask.
    links = block.annotated.links
    known = all(isinstance(link, Lookup) and link.stored is not None and not link.when for link in links)
    selected = None if known else evaluation.selected(block.number)
    kept = evaluation.selection(block.number) if selected is None else selected.plan
    empty = [] if selected is None else in_no_branch(c, links, selected.plan, local=selected.local)
    done: set[Link] = set(empty)
    evaluation.counts.update((number, 0) for lookup in empty for number in read_below(lookup.block))
    if selected is not None and evaluation.output is None:
        done |= _look_up_together(evaluation, [link for link in links if link not in done], selected)
    for link in links:
        if isinstance(link, Reading):
            evaluation.found(link, kept)
            continue
        if link in done:
            evaluation.looked_up_otherwise(link, kept)
            continue
        there = c.filter(is_there(c, link), kept)
        if (found := answers(c, link, there, carried)) is not None:
            evaluation.answered(found, link, there)
        else:
            _look_up(evaluation, link, there, selected)


def _look_up_together(evaluation: Evaluation, links: Sequence[Link], selected: Kept) -> set[Link]:
    """Find the rows behind many lookups that differ in their branch of a union alone; gives those of which that is
    done."""
    done: set[Link] = set()
    for group in branches.alike(links):
        found = branches.behind(evaluation.c, group, selected, evaluation.rows_of)
        if found is not None:
            block = Block(-1 - len(evaluation.blocks), group[0].node, found)  # of no place in the query
            _follow(evaluation, block, found.plan)
            done.update(group)
    return done


def _look_up(evaluation: Evaluation, link: Lookup, there: Plan, among: Kept | None = None) -> None:
    """Find the rows behind a lookup by running the query below it. `among`: the computed rows that `there` is of."""
    c = evaluation.c
    carried = [] if evaluation.output is None else [evaluation.output]
    keys = [c.alias_as(attr, key) for attr, key in zip(link.asked, link.keys, strict=True)]
    asked = c.project([*carried, *keys] or [link.present], there)
    # Of many rows that ask, it is not worth a job to know if their keys are few, where no scan is to be spared by them.
    many = among is not None and not among.local and link.condition is not None and evaluation.is_computed(link.block)
    few = None if many else _few(c, asked, among)
    if few is not None and not few:
        nothing = c.extend(link.block.annotated.plan, [c.alias_as(c.null(a), a) for a in carried])
        _follow(evaluation, link.block, c.filter(c.parse("false"), nothing))
    elif link.condition is None and not carried:
        _descend(evaluation, link.block)
    elif few is not None and len(few) == 1 and not carried and all_survive(c, link.keys, few[0][: len(link.keys)]):
        assert link.condition is not None
        # Without keys (a condition on the other side alone) a row only says that something is asked for.
        values = few[0][: len(link.keys)]
        known = {id_of(key): c.literal(value, key) for key, value in zip(link.keys, values, strict=True)}
        _descend(evaluation, link.block, c.conjunction([*_hints(c, link, few), c.substitute(link.condition, known)]))
    elif link.equalities and not carried and few is None and among is not None and among.total <= both_sides.MOST:
        _follow(evaluation, link.block, _sent(evaluation, link, asked))
    else:
        if carried or among is None or not among.local:
            asked = c.distinct(asked)
        _follow(evaluation, link.block, _joined(evaluation, link, asked, few, carried))


def _joined(evaluation: Evaluation, link: Lookup, asked: Plan, few: Few | None, carried: Sequence[Attr]) -> Plan:
    """The block below a lookup, restricted to the rows that the asked keys look up."""
    c, below = evaluation.c, evaluation.rows_of(link.block)
    if few is not None:
        hints = _hints(c, link, few, len(carried))
        below = c.filter(c.conjunction(hints), below) if hints else below
        asked = c.plan_of(F.broadcast(c.frame(asked)))
    return c.join(below, asked, "inner" if carried else "leftsemi", link.condition)


def _sent(evaluation: Evaluation, link: Lookup, asked: Plan) -> Plan:
    """The same, where the asked keys are so many that they are sent as they are."""
    c = evaluation.c

    def restrict(side: Plan, same: Sequence[tuple[Expr, int]]) -> Plan:
        sent = [(column, link.equalities[number][0]) for column, number in same]
        names = [c.alias(key, "whence_key") for _, key in sent]
        tests = [c.equal(column, name.toAttribute()) for (column, _), name in zip(sent, names, strict=True)]
        return c.join(side, c.plan_of(F.broadcast(c.frame(c.project(names, asked)))), "leftsemi", c.conjunction(tests))

    keys = [expr for _, expr in link.equalities]
    below = both_sides.on_both_sides(c, evaluation.rows_of(link.block), keys, restrict)
    return c.join(below, c.plan_of(F.broadcast(c.frame(asked))), "leftsemi", link.condition)


def all_survive(c: Catalyst, keys: Sequence[Attr], values: Sequence[object]) -> bool:
    return all(c.survives(key, [value]) for key, value in zip(keys, values, strict=True))


def _hints(c: Catalyst, link: Lookup, few: Few, start: int = 0) -> list[Expr]:
    """What follows from the condition for the few keys, in a form that Spark can push into the scans."""
    at = {id_of(key): start + i for i, key in enumerate(link.keys)}
    found = [c.one_of(expr, [row[at[id_of(key)]] for row in few]) for key, expr in link.equalities]
    return [hint for hint in found if hint is not None]


def _few(c: Catalyst, asked: Plan, among: Kept | None) -> Few | None:
    """The asked keys as Python is told them; None if they are many."""
    local = among is not None and among.local
    told = c.project([c.alias(c.told(attr), f"k{i}") for i, attr in enumerate(c.output(asked))], asked)
    rows = list(dict.fromkeys(c.rows(told if local else c.limit(FEW + 1, c.distinct(told)))))
    return rows if len(rows) <= FEW else None
