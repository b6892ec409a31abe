"""Evaluates a query's lineage: from rows of the result down to the rows of every reading, and up again.

Every block's identities are computed once and kept in Spark's block manager; nothing comes to the driver but counts and
small sets of keys, which are turned into filters that Spark can push into the scans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from whence.model.progress import working
from whence.sql.blocks import Block, Link, Lookup, Place, Reading, ReadingPlace, origin
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan
from whence.sql.lineage import SqlLineage
from whence.sql.selection import asked_by_key
from whence.sql.sources import FILE, ROW, identify
from whence.sql.stored import answers

# Up to this many keys become literals in a filter; more are joined.
_FEW = 200

OUTPUT = "output"


@dataclass(eq=False)
class Evaluation:
    """What a trace found. `outputs` is set when each witness is to be told which output row it belongs to."""

    lineage: SqlLineage
    output: Attr | None = None
    blocks: dict[int, Block] = field(default_factory=dict)
    # Identities of the witnesses of each reading, by reading number.
    witnesses: dict[int, DataFrame] = field(default_factory=dict)
    rows: DataFrame | None = None
    _selected: dict[int, DataFrame] = field(default_factory=dict)
    _selections: dict[int, Plan] = field(default_factory=dict)
    _plans: dict[int, Plan] = field(default_factory=dict)
    # Blocks whose witnesses are known from the store; what lies on the way there is worked out when it is asked for.
    _later: dict[int, Callable[[], None]] = field(default_factory=dict)
    # Readings whose witnesses were known from the store.
    stored: set[int] = field(default_factory=set)

    def answered(self, witnesses: Mapping[int, DataFrame], link: Lookup, there: Plan) -> None:
        self.witnesses.update(witnesses)
        self.stored.update(witnesses)
        self.blocks[link.block.number] = link.block
        self._later[link.block.number] = lambda: _look_up(self, link, there)

    def _work_out(self, number: int) -> None:
        later = self._later.pop(number, None)
        if later is not None:
            later()

    def select(self, block: Block, plan: Plan) -> None:
        """`plan`: the rows of the block that lie on the way."""
        carried = [] if self.output is None else [self.output]
        self.blocks[block.number] = block
        self._plans[block.number] = plan
        self._selections[block.number] = self.c.project([*carried, *block.annotated.attrs], plan)

    def plan_at(self, number: int) -> Plan:
        """The rows of a block that lie on the way, with all that the block knows of them."""
        self._work_out(number)
        return self._plans[number]

    def selected(self, number: int) -> DataFrame:
        """The identities that the selected rows of a block carry, computed once."""
        self._work_out(number)
        if number not in self._selected:
            with working(f"tracing {self.blocks[number].node.kind}"), self.c.quietly():
                self._selected[number] = self.c.materialise(self._selections[number])
        return self._selected[number]

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
        numbered = c.materialise(c.extend(plan, [output]))
        evaluation.output = output.toAttribute()
        evaluation.rows = numbered
        plan = c.plan_of(numbered)
    by_key = asked_by_key(c, block) if root is None and not per_output else None
    if by_key is not None and by_key[0].stored is not None:
        by_key = None
    if by_key is None:
        _descend(evaluation, block, plan)
    else:
        link, condition = by_key
        below = link.block.annotated.plan
        evaluation.select(block, plan)
        _descend(evaluation, link.block, below if condition is None else c.filter(condition, below))
    for reading in lineage.readings:
        if reading.number not in evaluation.witnesses:
            evaluation.witnesses[reading.number] = _no_ids(evaluation, reading)
    return evaluation


def _no_ids(evaluation: Evaluation, reading: ReadingPlace) -> DataFrame:
    """Of a dataset that is read but has no witnesses, such as the right side of an anti join."""
    c = evaluation.c
    leaf = identify(c, reading.leaf)
    carried = [] if evaluation.output is None else [c.alias_as(c.null(evaluation.output), evaluation.output)]
    return c.frame(c.project([*carried, *leaf.ids], c.filter(c.parse("false"), leaf.plan)))


def _descend(evaluation: Evaluation, block: Block, plan: Plan) -> None:
    c = evaluation.c
    carried = [] if evaluation.output is None else [evaluation.output]
    evaluation.select(block, plan)
    if not block.annotated.attrs:
        return
    kept = c.plan_of(evaluation.selected(block.number))
    for link in block.annotated.links:
        there = c.filter(c.is_not_null(link.present), kept)
        if isinstance(link, Reading):
            ids = c.project([*carried, *link.attrs], there)
            evaluation.witnesses[link.place.number] = c.frame(ids if link.once and not carried else c.distinct(ids))
        elif (known := answers(c, link, there, carried)) is not None:
            evaluation.answered(known, link, there)
        else:
            _look_up(evaluation, link, there)


def _look_up(evaluation: Evaluation, link: Lookup, there: Plan) -> None:
    """Find the rows behind a lookup by running the query below it."""
    c = evaluation.c
    carried = [] if evaluation.output is None else [evaluation.output]
    keys = [c.alias_as(attr, key) for attr, key in zip(link.attrs[1:], link.keys, strict=True)]
    needed = c.frame(c.distinct(c.project([*carried, *keys] or [link.present], there)))
    _descend(evaluation, link.block, _restrict(evaluation, link, needed, carried))


def _restrict(evaluation: Evaluation, link: Lookup, needed: DataFrame, carried: Sequence[Attr]) -> Plan:
    """The block below a lookup, restricted to the rows that the needed keys look up."""
    c = evaluation.c
    below = link.block.annotated.plan
    few = needed.limit(_FEW + 1).collect()
    if not few:
        return c.filter(c.parse("false"), c.extend(below, [c.alias_as(c.null(a), a) for a in carried]))
    if len(few) <= _FEW:
        hints = [
            hint
            for key, expr in link.equalities
            if (hint := c.one_of(expr, [row[_position(link, key) + len(carried)] for row in few])) is not None
        ]
        if hints:
            below = c.filter(c.conjunction(hints), below)
        needed = F.broadcast(needed)
    if not carried:
        if link.condition is None:
            return below
        return c.join(below, c.plan_of(needed), "leftsemi", link.condition)
    return c.join(below, c.plan_of(needed), "inner", link.condition)


def _position(link: Lookup, key: Attr) -> int:
    ids = [k.exprId().id() for k in link.keys]
    return ids.index(key.exprId().id())


# --- rows


def leaf_rows(c: Catalyst, reading: ReadingPlace, ids: DataFrame, kind: str) -> Plan:
    """The reading's own rows that are (`leftsemi`) or are not (`leftanti`) among `ids`."""
    leaf = identify(c, reading.leaf)
    plan = c.plan_of(ids)
    names = [c.alias(attr, "whence_id") for attr in c.output(plan)[-len(leaf.ids) :]]
    condition = c.conjunction([c.equal(a, n.toAttribute()) for a, n in zip(leaf.ids, names, strict=True)])
    joined = c.join(leaf.plan, c.project(names, plan), kind, condition)
    return c.project(leaf.columns, joined)


def leaf_rows_per_output(evaluation: Evaluation, reading: ReadingPlace) -> Plan:
    """Each witness with the number of its output in front: a witness of two outputs stands twice."""
    c = evaluation.c
    assert evaluation.output is not None
    leaf = identify(c, reading.leaf)
    plan = c.plan_of(evaluation.witnesses[reading.number])
    output, *ids = c.output(plan)
    names = [c.alias(attr, "whence_id") for attr in ids]
    condition = c.conjunction([c.equal(a, n.toAttribute()) for a, n in zip(leaf.ids, names, strict=True)])
    joined = c.join(leaf.plan, c.project([output, *names], plan), "inner", condition)
    return c.project([output, *leaf.columns], joined)


def rows_at(evaluation: Evaluation, place: Place, kind: str = "leftsemi") -> Plan:
    """The rows at an operator that lie on the way of the trace (or, `leftanti`, that do not), with its own columns."""
    c = evaluation.c
    own = c.output(place.node.plan)
    block = evaluation.blocks.get(place.block)
    if block is None or not place.annotated.links:
        return c.project(own, place.annotated.plan)
    attrs = {origin(link): link.attrs for link in block.annotated.links}
    names: list[Expr] = []
    pairs: list[Expr] = []
    for link in place.annotated.links:
        for attr, current in zip(link.attrs, attrs[origin(link)], strict=True):
            name = c.alias(current, "whence_id")
            names.append(name)
            pairs.append(c.same(attr, name.toAttribute()))
    selected = c.project(names, c.plan_of(evaluation.selected(block.number)))
    return c.project(own, c.join(place.annotated.plan, selected, kind, c.conjunction(pairs)))


def counts_at(evaluation: Evaluation, places: Sequence[Place]) -> tuple[int, ...]:
    """The number of rows at each operator that lie on the way, from the identities that are known already.

    Rows of one operator that carry the same identities (an exploded array) count as one here."""
    c = evaluation.c
    counts: dict[Place, int] = {}
    for number, block in evaluation.blocks.items():
        links = {origin(link): link.attrs for link in block.annotated.links}
        here = [place for place in places if place.block == number and place.annotated.links]
        # Most operators of a block share their links with the one below: each set of links is counted once.
        shapes = {place: tuple(origin(link) for link in place.annotated.links) for place in here}
        distinct = list(dict.fromkeys(shapes.values()))
        if not distinct:
            continue
        selected = evaluation.selected(number)
        plan = c.plan_of(selected)
        names = {attr.exprId().id(): f"a{i}" for i, attr in enumerate(c.output(plan))}
        frame = selected.toDF(*names.values())
        columns = []
        for shape in distinct:
            attrs = [attr for key in shape for attr in links[key]]
            present = [links[key][0] if isinstance(key, Block) else links[key][-1] for key in shape]
            there = F.coalesce(*[F.when(F.col(names[a.exprId().id()]).isNotNull(), 1) for a in present])
            row = F.struct(*[F.col(names[a.exprId().id()]) for a in attrs])
            columns.append(F.count_distinct(F.when(there.isNotNull(), row)))
        with c.quietly():
            numbers = frame.agg(*columns).collect()[0]
        for place in here:
            counts[place] = numbers[distinct.index(shapes[place])]
    return tuple(counts.get(place, 0) for place in places)


def ids_of(evaluation: Evaluation, places: Sequence[ReadingPlace]) -> DataFrame:
    """Identities of the witnesses at several readings of one dataset."""
    frames = [evaluation.witnesses[place.number] for place in places]
    ids = frames[0]
    for frame in frames[1:]:
        ids = ids.union(frame)
    return ids if len(frames) == 1 else ids.distinct()


def associations(evaluation: Evaluation, names: Mapping[int, str]) -> DataFrame:
    """output, source, record: a record is told as its file and row, or as its position."""
    c = evaluation.c
    parts = []
    for reading in evaluation.lineage.readings:
        if reading.auxiliary:
            continue
        found = evaluation.witnesses[reading.number]
        columns = [F.col(OUTPUT), F.lit(names[reading.number]).alias("source")]
        parts.append(found.select(*columns, record_of(c, reading, found).alias("record")))
    if not parts:
        return c.spark.createDataFrame([], "output bigint, source string, record string")
    result = parts[0]
    for part in parts[1:]:
        result = result.union(part)
    return result.distinct()


def record_of(c: Catalyst, reading: ReadingPlace, ids: DataFrame) -> Column:
    if ids.columns[-2:] == [FILE, ROW]:
        files = F.lit("")
        for path in c.files(reading.leaf.plan):
            files = F.when(F.col(FILE) == F.lit(c.hash64_of_text(path)), F.lit(path)).otherwise(files)
        return F.concat(files, F.lit("#"), F.col(ROW).cast("string"))
    if len(ids.columns) > 2:
        return F.concat_ws(":", *[F.hex(ids[i]) for i in range(1, len(ids.columns))])
    return F.concat(F.lit("#"), F.col(ROW).cast("string"))


# --- forward


def forward(lineage: SqlLineage, seeds: Mapping[str, DataFrame]) -> Plan | None:
    """The root block's plan restricted to the rows that the seeds touch; None when no seed's dataset is read at all.

    `seeds` gives identities of rows by the key of their dataset."""
    with lineage.c.quietly():
        lineage.require_unchanged()
        return _touched(lineage.c, lineage.root, seeds)


def _touched(c: Catalyst, block: Block, seeds: Mapping[str, DataFrame]) -> Plan | None:
    plan = block.annotated.plan
    hits = [hit for link in block.annotated.links if (hit := _hit(c, link, seeds)) is not None]
    if not hits:
        return None
    if len(hits) == 1:
        found, condition, hint = hits[0]
        if hint is not None:
            plan = c.filter(hint, plan)
        return c.join(plan, found, "leftsemi", condition)
    own = c.output(plan)
    marks = []
    for found, condition, _ in hits:
        plan, mark = c.existence_join(plan, found, condition)
        marks.append(mark)
    return c.project(own, c.filter(c.disjunction(marks), plan))


def _hit(c: Catalyst, link: Link, seeds: Mapping[str, DataFrame]) -> tuple[Plan, Expr, Expr | None] | None:
    """Rows to join with, the condition under which a row of the block is touched, and a filter that follows from it."""
    if isinstance(link, Reading):
        ids = seeds.get(link.place.dataset.key)
        if ids is None:
            return None
        plan = c.plan_of(ids)
        names = [c.alias(attr, "whence_id") for attr in c.output(plan)[-len(link.attrs) :]]
        condition = c.conjunction([c.equal(a, n.toAttribute()) for a, n in zip(link.attrs, names, strict=True)])
        hint = None
        few = ids.limit(_FEW + 1).collect()
        if ROW in ids.columns and len(few) <= _FEW:
            hint = c.one_of(link.attrs[-1], [row[-1] for row in few])
            plan = c.plan_of(F.broadcast(ids))
        return c.project(names, plan), condition, hint
    below = _touched(c, link.block, seeds)
    if below is None:
        return None
    keys = {int(key.exprId().id()): attr for key, attr in zip(link.keys, link.attrs[1:], strict=True)}
    if link.condition is None:
        any_row = c.materialise(c.limit(1, c.project([c.alias(c.true, "whence_any")], below)))
        return c.plan_of(any_row), c.is_not_null(link.present), None
    needed = c.references(link.condition) - set(keys)
    inner = [c.alias(a, "whence_inner") for a in c.output(below) if int(a.exprId().id()) in needed]
    by_id = {int(i.child().exprId().id()): i.toAttribute() for i in inner}
    touched = c.materialise(c.distinct(c.project(inner or [c.alias(c.true, "whence_any")], below)))
    condition = c.substitute(link.condition, {**by_id, **keys})
    found = c.plan_of(touched)
    hint = None
    if link.equalities and touched.limit(_FEW + 1).count() <= _FEW:
        hint = _hint(c, link, found, {**by_id, **keys})
        found = c.plan_of(F.broadcast(touched))
    return found, c.conjunction([c.is_not_null(link.present), condition]), hint


def _hint(c: Catalyst, link: Lookup, found: Plan, attributes: dict[int, Attr]) -> Expr | None:
    values = [c.alias(c.substitute(expr, attributes), "whence_value") for _, expr in link.equalities]
    rows = c.frame(c.project(values, found)).collect()
    hints = [
        hint
        for i, (key, _) in enumerate(link.equalities)
        if (hint := c.one_of(c.substitute(key, attributes), [row[i] for row in rows])) is not None
    ]
    return c.conjunction(hints) if hints else None
