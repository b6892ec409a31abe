"""Forward: from rows of the sources up to the rows of a result that they touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from whence.model import operators
from whence.model.once import once
from whence.sql import branches
from whence.sql.blocks import (
    Block,
    Link,
    Lookup,
    Reading,
    ReadingPlace,
    in_branches,
    is_there,
    read_below,
    same_branches,
)
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan, class_name, id_of
from whence.sql.computed_before import few_rows, rows_for_next
from whence.sql.evaluation import FEW, all_survive, backward
from whence.sql.found_rows import ids_of
from whence.sql.gathered import gather, grouped, rows_of
from whence.sql.lineage import SqlLineage
from whence.sql.selection import all_of, choices, pinned
from whence.sql.sources import ROW, stays_itself
from whence.sql.tree import Node

# Operators that treat each row by itself: without some of a source's rows they give the same for the others.
_ROW_BY_ROW = (
    *("Project", "Filter", "Join", "Union", "Generate", "Sort", "View"),
    *operators.NAMES_ONLY,
    *operators.PLACEMENT,
)
# So few seeds are told by constants; others are joined.
_LITERALS = 10
# So many of a source's columns are compared with the values that the seeds have there.
_COLUMNS = 2


@dataclass(frozen=True, eq=False)
class Found:
    """Rows to start from. If they are few, the driver knows their identities and some values."""

    ids: Callable[[], DataFrame]
    few: Sequence[Sequence[int]] | None = None
    values: Mapping[str, Sequence[object]] = field(default_factory=dict)


class Seeds:
    """Rows of one dataset to start from, found when they are first needed."""

    def __init__(self, find: Callable[[], Found], scan: Plan | None = None, tests: Sequence[Expr] = ()) -> None:
        """`scan`: the one that has their values. Another one of the same files may have others: 1 here and "01" there.
        `tests`: conditions on its rows that just these meet, where it is known; Spark pushes them into the scan."""
        self._find = find
        self.scan = scan
        self.tests = tests

    @once
    def found(self) -> Found:
        return self._find()


def seeds_of(lineage: SqlLineage, shared: Mapping[ReadingPlace, Sequence[ReadingPlace]]) -> dict[ReadingPlace, Seeds]:
    """The witnesses of all rows of a query, by the reading of another query that reads them too.

    `shared`: for readings of the other query, those of this one."""
    c = lineage.c
    with c.quietly():
        selection = _selection(lineage)
        if selection is not None and all(list(places) == [selection] for places in shared.values()):
            lineage.require_unchanged()
            seeds = Seeds(partial(_picked_rows, lineage, selection), selection.leaf.plan, _tests(lineage, selection))
            return dict.fromkeys(shared, seeds)
        found = backward(lineage)
        made: dict[tuple[int, ...], Seeds] = {}
        for places in shared.values():
            numbers = tuple(place.number for place in places)
            if numbers not in made:
                made[numbers] = Seeds(partial(_with_few, ids_of(found, places)))
        return {there: made[tuple(place.number for place in places)] for there, places in shared.items()}


def _picked_rows(lineage: SqlLineage, selection: ReadingPlace) -> Found:
    few = _few_rows(lineage, selection)
    return _with_few(ids_of(backward(lineage), [selection])) if few is None else few


def _tests(lineage: SqlLineage, selection: ReadingPlace) -> Sequence[Expr]:
    """What rows of the source must meet to be picked, where one of the conditions tells a column's value: Spark skips
    then what has others, and there is no need to know first which rows these are."""
    c, leaf = lineage.c, selection.leaf
    tests = choices(c, lineage.tree, leaf, []) if leaf in lineage.tree.walk() else None
    own = {id_of(a) for a in c.output(leaf.plan)}
    if not tests or c.has_user_functions(lineage.tree.plan) or any(not c.references(test) <= own for test in tests):
        return ()
    told = [side for test in tests for part in all_of(c, test) for side in pinned(part)]
    return tests if any(class_name(side) == "AttributeReference" for side in told) else ()


def _selection(lineage: SqlLineage) -> ReadingPlace | None:
    """The one source of a query that only picks rows of it."""
    links = lineage.root.annotated.links
    return links[0].place if len(links) == 1 and isinstance(links[0], Reading) else None


def _few_rows(lineage: SqlLineage, place: ReadingPlace) -> Found | None:
    c = lineage.c
    lineage.require_unchanged()
    annotated = lineage.root.annotated
    (link,) = annotated.links
    there = {id_of(a) for a in c.output(annotated.plan)}
    columns = [a for a in c.output(place.leaf.plan) if id_of(a) in there and c.is_plain(a)][:_COLUMNS]
    width = len(link.attrs)
    known = c.filter(is_there(c, link), annotated.plan)
    told = [c.alias(c.told(a), "whence_value") for a in columns]
    rows = few_rows(c, c.limit(FEW + 1, c.project([*link.attrs, *told], known)))
    if len(rows) > FEW:
        return None
    few = [tuple(map(_number, row)) for row in dict.fromkeys(row[:width] for row in rows)]
    values = {a.name(): [row[width + i] for row in rows] for i, a in enumerate(columns)}

    def ids() -> DataFrame:
        names = [a.name() for a in link.attrs]
        return c.spark.createDataFrame(few, ", ".join(f"i{i} bigint" for i in range(width))).toDF(*names)

    return Found(ids, few, values)


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


def _with_few(ids: DataFrame) -> Found:
    few = [tuple(row) for row in ids.limit(FEW + 1).collect()]
    return Found(lambda: ids, few if len(few) <= FEW else None)


def forward(lineage: SqlLineage, seeds: Mapping[ReadingPlace, Seeds]) -> Plan | None:
    """The root block's plan restricted to the rows that the seeds touch; None when there are none at any reading."""
    with lineage.c.quietly():
        lineage.require_unchanged()
        links = lineage.root.annotated.links
        # Of one grouping, that is: a thousand of them, united, would be computed one by one.
        if len(links) == 1 and not links[0].when and any(place in seeds for place in _read_by(lineage, links[0])):
            gather(lineage.c, links, lineage.places)
        return _touched(lineage.c, lineage.root, seeds)


def _read_by(lineage: SqlLineage, link: Link) -> list[ReadingPlace]:
    """The readings that a grouping's rows come from."""
    below = set(read_below(link.block)) if isinstance(link, Lookup) else set()
    return [place for place in lineage.readings if place.number in below]


@dataclass(frozen=True, eq=False)
class _Hit:
    """The condition under which a row of the block is touched, the rows that it speaks of beside the block's own, if it
    does, and a filter that follows from it. `rows`: what is touched below a lookup, under the attributes there."""

    condition: Expr
    found: Plan | None = None
    hint: Expr | None = None
    rows: Plan | None = None


def _touched(c: Catalyst, block: Block, seeds: Mapping[ReadingPlace, Seeds]) -> Plan | None:
    """The rows of the block that the seeds touch, by whichever link."""
    plan = grouped(c, rows_of(block), block.annotated.links)
    hits = _hits(c, block, seeds)
    if not hits:
        return None
    if len(hits) == 1:
        return _touched_by(c, block, *hits[0], seeds)
    own = c.output(plan)
    marks = []
    for hit in (make() for _, make in hits):
        if hit.found is None:
            marks.append(hit.condition)
            continue
        plan, mark = c.existence_join(plan, hit.found, hit.condition)
        marks.append(mark)
    return c.project(own, c.filter(c.disjunction(marks), plan))


def _hits(
    c: Catalyst, block: Block, seeds: Mapping[ReadingPlace, Seeds]
) -> list[tuple[Link | None, Callable[[], _Hit]]]:
    """Each with its link; None where it holds by several that read the same rows in branches of one union."""
    found: list[tuple[Link | None, Callable[[], _Hit]]] = []
    alike: dict[tuple[object, ...], list[Reading]] = {}
    done: set[Link] = set()
    for group in branches.alike(block.annotated.links):
        together = [(link, rows) for link in group for rows in _below(c, link, seeds)]
        if together:
            found.append((None, partial(_itself, _hit_in_branches(c, together))))
        done.update(group)
    for link in block.annotated.links:
        if link in done:
            continue
        if isinstance(link, Lookup):
            if (hit := _hit_by_lookup(c, link, seeds)) is not None:
                found.append((link, partial(_itself, hit)))
        elif link.place in seeds:
            alike.setdefault((id(seeds[link.place]), *same_branches(link)), []).append(link)
    for links in alike.values():
        make = partial(_hit_by_seeds, c, links, seeds[links[0].place])
        found.append((links[0] if len(links) == 1 else None, make))
    return found


def _itself(hit: _Hit) -> _Hit:
    return hit


def _touched_by(
    c: Catalyst, block: Block, link: Link | None, make: Callable[[], _Hit], seeds: Mapping[ReadingPlace, Seeds]
) -> Plan:
    """The rows of the block that the seeds touch by this link."""
    plan = grouped(c, rows_of(block), block.annotated.links)
    if isinstance(link, Reading):
        if (picked := _picked(c, plan, link, seeds[link.place])) is not None:
            return picked
        plan = _near_leaf(c, plan, link.place.leaf, seeds[link.place])
    hit = make()
    if isinstance(link, Lookup) and (matched := _matched(c, plan, link, hit)) is not None:
        return matched if hit.hint is None else c.filter(hit.hint, matched)
    if hit.hint is not None:
        plan = c.filter(hit.hint, plan)
    if hit.found is None:
        return c.filter(hit.condition, plan)
    return c.join(plan, hit.found, "leftsemi", hit.condition)


def _hit_by_lookup(c: Catalyst, link: Lookup, seeds: Mapping[ReadingPlace, Seeds]) -> _Hit | None:
    below = _below(c, link, seeds)
    return _hit_by_rows(c, link, below) if below else None


def _below(c: Catalyst, link: Lookup, seeds: Mapping[ReadingPlace, Seeds]) -> list[Plan]:
    """The touched rows of the block that a lookup finds its rows in."""
    # One by one, since a condition that holds by one link or by another cannot be pushed into any scan.
    return [_touched_by(c, link.block, *hit, seeds) for hit in _hits(c, link.block, seeds)]


def _hit_in_branches(c: Catalyst, below: Sequence[tuple[Lookup, Plan]]) -> _Hit:
    """The same of lookups that differ in their branch of a union alone, in one query."""
    groups, is_one = branches.touched(c, below)
    kept = rows_for_next(c, groups)
    found = c.plan_of(F.broadcast(c.frame(kept.plan))) if kept.local else kept.plan
    *_, (tells, _) = below[0][0].when
    hint = None
    if kept.local and kept.total:
        told = [c.alias(c.told(a), "whence_value") for a in c.output(kept.plan)]
        values = c.rows(c.project(told, kept.plan))
        hint = _hint(c, [tells, *below[0][0].asked], values) if len(values) <= FEW else None
    return _Hit(is_one(kept.plan), found, hint)


def _hit_by_seeds(c: Catalyst, links: Sequence[Reading], seeds: Seeds) -> _Hit:
    """`links` differ in nothing but their branch of a union."""
    link, found = links[0], seeds.found
    here = in_branches(c, links)
    if found.few is not None and 0 < len(found.few) <= _LITERALS:
        rows = [[c.equal(a, c.long(v)) for a, v in zip(link.attrs, row, strict=True)] for row in found.few]
        return _Hit(c.conjunction([*here, c.disjunction([c.conjunction(row) for row in rows])]))
    ids = found.ids()
    plan = c.plan_of(ids if found.few is None else F.broadcast(ids))
    names = [c.alias(attr, "whence_id") for attr in c.output(plan)[-len(link.attrs) :]]
    pairs = [c.equal(a, n.toAttribute()) for a, n in zip(link.attrs, names, strict=True)]
    condition = c.conjunction([*here, *pairs])
    hint = None
    if found.few is not None and ROW in ids.columns:
        hint = c.one_of(link.attrs[-1], [row[-1] for row in found.few])
    return _Hit(condition, c.project(names, plan), hint)


def _hit_by_rows(c: Catalyst, link: Lookup, below: Sequence[Plan]) -> _Hit:
    """`below`: the touched rows of the block that the lookup finds its rows in."""
    keys = {id_of(key): attr for key, attr in zip(link.keys, link.asked, strict=True)}
    if link.condition is None:
        some = (c.limit_of_each(1, c.project([c.alias(c.true, "whence_any")], part)) for part in below)
        touches = any(rows_for_next(c, one).total for one in some)
        return _Hit(is_there(c, link) if touches else c.parse("false"))
    needed = c.references(link.condition) - set(keys)
    attrs = [a for a in c.output(link.block.annotated.plan) if id_of(a) in needed]
    parts = []
    for part in below:
        inner = [c.alias(a, "whence_inner") for a in attrs] or [c.alias(c.true, "whence_any")]
        parts.append(c.project(inner, part))
    touched = rows_for_next(c, c.distinct(parts[0] if len(parts) == 1 else c.union(parts)))
    by_id = {id_of(a): i for a, i in zip(attrs, c.output(touched.plan)[: len(attrs)], strict=True)}
    rows = c.project([c.alias_as(by_id[id_of(a)], a) for a in attrs], touched.plan) if attrs else None
    if touched.local and touched.total == 1 and all(map(c.is_plain, attrs)):
        told = [c.alias(c.told(a), "whence_value") for a in c.output(touched.plan)[: len(attrs)]]
        values = c.rows(c.project(told, touched.plan))[0]
        if all_survive(c, attrs, values):
            literals = {id_of(a): c.literal(value, a) for a, value in zip(attrs, values, strict=True)}
            one = c.substitute(link.condition, {**literals, **keys})
            return _Hit(c.conjunction([is_there(c, link), one]), rows=rows)
    condition = c.substitute(link.condition, {**by_id, **keys})
    found = touched.plan
    hint = None
    if touched.local and link.equalities:
        wanted = [c.alias(c.substitute(expr, {**by_id, **keys}), "whence_value") for _, expr in link.equalities]
        values_there = c.project(wanted, found)
        told = [c.alias(c.told(a), "whence_value") for a in c.output(values_there)]
        sought = c.rows(c.project(told, values_there))
        if len(sought) <= FEW:
            hint = _hint(c, [c.substitute(key, {**by_id, **keys}) for key, _ in link.equalities], sought)
    if touched.local:
        found = c.plan_of(F.broadcast(c.frame(found)))
    return _Hit(c.conjunction([is_there(c, link), condition]), found, hint, rows)


def _matched(c: Catalyst, plan: Plan, link: Lookup, hit: _Hit) -> Plan | None:
    """The touched rows of the block, where what is touched below is the other side of a semi join: the rows that it
    keeps with that side alone, so that there is no need to compute the rest of it."""
    if link.node.kind != "Join" or hit.rows is None or str(link.node.plan.joinType().toString()) != "LeftSemi":
        return None
    right, rows = link.node.children[1].plan, hit.rows
    found = _at(c, plan, lambda node: bool(node.fastEquals(right)), lambda node: rows)
    if found is None:
        return None
    return c.filter(hit.condition if hit.found is None else is_there(c, link), found)


def _hint(c: Catalyst, keys: Sequence[Attr], rows: Sequence[Sequence[object]]) -> Expr | None:
    hints = [hint for i, key in enumerate(keys) if (hint := c.one_of(key, [row[i] for row in rows])) is not None]
    return c.conjunction(hints) if hints else None


def _picked(c: Catalyst, plan: Plan, link: Reading, seeds: Seeds) -> Plan | None:
    """The rows of the block that come from a seed, by the conditions that just the seeds meet."""
    leaf, scan = link.place.leaf, seeds.scan
    if not seeds.tests or scan is None or not stays_itself(c, leaf) or not _reads_alike(c, leaf.plan, scan):
        return None
    here, there = c.output(leaf.plan), c.output(scan)
    if [a.name() for a in here] != [a.name() for a in there]:
        return None
    if not _reads_the_same(c, leaf.plan, scan):
        return None
    named = {id_of(old): new for old, new in zip(there, here, strict=True)}
    filtered = _at_leaf(c, plan, leaf, [c.substitute(test, named) for test in seeds.tests])
    return None if filtered is None else c.filter(is_there(c, link), filtered)


def _reads_alike(c: Catalyst, one: Plan, other: Plan) -> bool:
    """Whether two scans of a dataset give a row the same values."""
    if c.is_file_scan(one) and c.is_file_scan(other):
        return c.reads_alike(one, other)
    return c.is_iceberg(one) and c.is_iceberg(other) and c.columns_told(one) == c.columns_told(other)


def _reads_the_same(c: Catalyst, one: Plan, other: Plan) -> bool:
    """Whether two scans of a dataset read the same files, or the same version of a table."""
    versions = [c.version_of(scan) for scan in (one, other)]
    if any(version is not None for version in versions):
        return len({None if version is None else (version.table, version.number) for version in versions}) == 1
    if not all(c.is_file_scan(scan) and c.tells_files(scan) for scan in (one, other)):
        return False
    return c.files_of(one) == c.files_of(other)


def _near_leaf(c: Catalyst, plan: Plan, leaf: Node, seeds: Seeds) -> Plan:
    """The block with its source filtered by the values that the seeds have, so that the scan can skip other rows."""
    known = seeds.found.values
    values = {a: known[a.name()] for a in c.output(leaf.plan) if a.name() in known}
    hints = [hint for a, found in values.items() if (hint := c.one_of(a, found)) is not None]
    if not hints or seeds.scan is None or not stays_itself(c, leaf) or not _reads_alike(c, leaf.plan, seeds.scan):
        return plan
    filtered = _at_leaf(c, plan, leaf, hints)
    return plan if filtered is None else filtered


def _at_leaf(c: Catalyst, plan: Plan, leaf: Node, tests: Sequence[Expr]) -> Plan | None:
    """The block with one of its sources filtered; None where that would change the rows that come from the others.

    The block's rows that come from a row that stays are as they were. An outer join may now give rows in which this
    source is missing; their identity there is NULL, and no seed's is."""
    first = id_of(c.output(leaf.plan)[0])

    def is_leaf(node: Plan) -> bool:
        # Rows that were computed already (what a LIMIT keeps) have the same attributes.
        return class_name(node) == leaf.kind and any(id_of(a) == first for a in c.output(node))

    return _at(c, plan, is_leaf, lambda node: c.filter(c.conjunction(tests), node))


def _at(c: Catalyst, plan: Plan, is_it: Callable[[Plan], bool], change: Callable[[Plan], Plan]) -> Plan | None:
    """The block with one part of it changed; None where that is not there, or operators above do not go row by row."""

    def visit(node: Plan) -> tuple[Plan, int]:
        if is_it(node):
            return change(node), 1
        below = c.children(node)
        visited = [visit(child) for child in below]
        found = sum(count for _, count in visited)
        if not found:
            return node, 0
        if class_name(node) not in _ROW_BY_ROW or c.nondeterministic(node):
            return node, 2  # not to be filtered
        return c.with_children(node, [child for child, _ in visited]), found

    filtered, found = visit(plan)
    return filtered if found == 1 else None
