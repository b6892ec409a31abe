"""Forward: from rows of the sources up to the rows of a result that they touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from whence.model import operators
from whence.sql.blocks import Block, Link, Lookup, Reading, ReadingPlace, in_branches, is_there, same_branches
from whence.sql.catalyst import Attr, Catalyst, Expr, Plan, class_name, id_of
from whence.sql.evaluation import FEW, all_survive, backward, ids_of
from whence.sql.lineage import SqlLineage
from whence.sql.sources import ROW, has_row_index
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
class Seeds:
    """Rows of one dataset to start from. If they are few, the driver knows their identities and some values."""

    ids: Callable[[], DataFrame]
    few: Sequence[Sequence[int]] | None = None
    values: Mapping[str, Sequence[object]] = field(default_factory=dict)
    # The scan that has these values. Another one of the same files may have others: 1 here and "01" there.
    scan: Plan | None = None


def seeds_of(lineage: SqlLineage, shared: Mapping[ReadingPlace, Sequence[ReadingPlace]]) -> dict[ReadingPlace, Seeds]:
    """The witnesses of all rows of a query, by the reading of another query that reads them too.

    `shared`: for readings of the other query, those of this one."""
    c = lineage.c
    with c.quietly():
        selection = _selection(lineage)
        if selection is not None and all(list(places) == [selection] for places in shared.values()):
            seeds = _few_rows(lineage, selection)
            if seeds is not None:
                return dict.fromkeys(shared, seeds)
        found = backward(lineage)
        made: dict[tuple[int, ...], Seeds] = {}
        for places in shared.values():
            numbers = tuple(place.number for place in places)
            if numbers not in made:
                made[numbers] = _with_few(ids_of(found, places))
        return {there: made[tuple(place.number for place in places)] for there, places in shared.items()}


def _selection(lineage: SqlLineage) -> ReadingPlace | None:
    """The one source of a query that only picks rows of it."""
    links = lineage.root.annotated.links
    return links[0].place if len(links) == 1 and isinstance(links[0], Reading) else None


def _few_rows(lineage: SqlLineage, place: ReadingPlace) -> Seeds | None:
    c = lineage.c
    lineage.require_unchanged()
    annotated = lineage.root.annotated
    (link,) = annotated.links
    there = {id_of(a) for a in c.output(annotated.plan)}
    columns = [a for a in c.output(place.leaf.plan) if id_of(a) in there and c.is_plain(a)][:_COLUMNS]
    width = len(link.attrs)
    known = c.filter(is_there(c, link), annotated.plan)
    told = [c.alias(c.told(a), "whence_value") for a in columns]
    rows = c.frame(c.limit(FEW + 1, c.project([*link.attrs, *told], known))).collect()
    if len(rows) > FEW:
        return None
    few = list(dict.fromkeys(tuple(row)[:width] for row in rows))
    values = {a.name(): [row[width + i] for row in rows] for i, a in enumerate(columns)}

    def ids() -> DataFrame:
        names = [a.name() for a in link.attrs]
        return c.spark.createDataFrame(few, ", ".join(f"i{i} bigint" for i in range(width))).toDF(*names)

    return Seeds(ids, few, values, place.leaf.plan)


def _with_few(ids: DataFrame) -> Seeds:
    few = [tuple(row) for row in ids.limit(FEW + 1).collect()]
    return Seeds(lambda: ids, few if len(few) <= FEW else None)


def forward(lineage: SqlLineage, seeds: Mapping[ReadingPlace, Seeds]) -> Plan | None:
    """The root block's plan restricted to the rows that the seeds touch; None when there are none at any reading."""
    with lineage.c.quietly():
        lineage.require_unchanged()
        return _touched(lineage.c, lineage.root, seeds)


@dataclass(frozen=True, eq=False)
class _Hit:
    """The condition under which a row of the block is touched, the rows that it speaks of beside the block's own, if it
    does, and a filter that follows from it."""

    condition: Expr
    found: Plan | None = None
    hint: Expr | None = None


def _touched(c: Catalyst, block: Block, seeds: Mapping[ReadingPlace, Seeds]) -> Plan | None:
    """The rows of the block that the seeds touch, by whichever link."""
    plan = block.annotated.plan
    hits = _hits(c, block, seeds)
    if not hits:
        return None
    if len(hits) == 1:
        return _touched_by(c, block, *hits[0], seeds)
    own = c.output(plan)
    marks = []
    for _, hit in hits:
        if hit.found is None:
            marks.append(hit.condition)
            continue
        plan, mark = c.existence_join(plan, hit.found, hit.condition)
        marks.append(mark)
    return c.project(own, c.filter(c.disjunction(marks), plan))


def _hits(c: Catalyst, block: Block, seeds: Mapping[ReadingPlace, Seeds]) -> list[tuple[Link | None, _Hit]]:
    """Each with its link; None where it holds by several that read the same rows in branches of one union."""
    found: list[tuple[Link | None, _Hit]] = []
    alike: dict[tuple[object, ...], list[Reading]] = {}
    for link in block.annotated.links:
        if isinstance(link, Lookup):
            if (hit := _hit_by_lookup(c, link, seeds)) is not None:
                found.append((link, hit))
        elif link.place in seeds:
            alike.setdefault((id(seeds[link.place]), *same_branches(link)), []).append(link)
    for links in alike.values():
        hit = _hit_by_seeds(c, links, seeds[links[0].place])
        found.append((links[0] if len(links) == 1 else None, hit))
    return found


def _touched_by(c: Catalyst, block: Block, link: Link | None, hit: _Hit, seeds: Mapping[ReadingPlace, Seeds]) -> Plan:
    """The rows of the block that the seeds touch by this link."""
    plan = block.annotated.plan
    if isinstance(link, Reading):
        plan = _near_leaf(c, plan, link.place.leaf, seeds[link.place])
    if hit.hint is not None:
        plan = c.filter(hit.hint, plan)
    if hit.found is None:
        return c.filter(hit.condition, plan)
    return c.join(plan, hit.found, "leftsemi", hit.condition)


def _hit_by_lookup(c: Catalyst, link: Lookup, seeds: Mapping[ReadingPlace, Seeds]) -> _Hit | None:
    # One by one, since a condition that holds by one link or by another cannot be pushed into any scan.
    below = [_touched_by(c, link.block, *hit, seeds) for hit in _hits(c, link.block, seeds)]
    return _hit_by_rows(c, link, below) if below else None


def _hit_by_seeds(c: Catalyst, links: Sequence[Reading], seeds: Seeds) -> _Hit:
    """`links` differ in nothing but their branch of a union."""
    link = links[0]
    here = in_branches(c, links)
    if seeds.few is not None and 0 < len(seeds.few) <= _LITERALS:
        rows = [[c.equal(a, c.long(v)) for a, v in zip(link.attrs, row, strict=True)] for row in seeds.few]
        return _Hit(c.conjunction([*here, c.disjunction([c.conjunction(row) for row in rows])]))
    ids = seeds.ids()
    plan = c.plan_of(ids if seeds.few is None else F.broadcast(ids))
    names = [c.alias(attr, "whence_id") for attr in c.output(plan)[-len(link.attrs) :]]
    pairs = [c.equal(a, n.toAttribute()) for a, n in zip(link.attrs, names, strict=True)]
    condition = c.conjunction([*here, *pairs])
    hint = None
    if seeds.few is not None and ROW in ids.columns:
        hint = c.one_of(link.attrs[-1], [row[-1] for row in seeds.few])
    return _Hit(condition, c.project(names, plan), hint)


def _hit_by_rows(c: Catalyst, link: Lookup, below: Sequence[Plan]) -> _Hit:
    """`below`: the touched rows of the block that the lookup finds its rows in."""
    keys = {id_of(key): attr for key, attr in zip(link.keys, link.asked, strict=True)}
    if link.condition is None:
        touches = any(c.keep(c.limit(1, c.project([c.alias(c.true, "whence_any")], part))).total for part in below)
        return _Hit(is_there(c, link) if touches else c.parse("false"))
    needed = c.references(link.condition) - set(keys)
    attrs = [a for a in c.output(link.block.annotated.plan) if id_of(a) in needed]
    parts = []
    for part in below:
        inner = [c.alias(a, "whence_inner") for a in attrs] or [c.alias(c.true, "whence_any")]
        parts.append(c.project(inner, part))
    touched = c.keep(c.distinct(parts[0] if len(parts) == 1 else c.union(parts)))
    by_id = {id_of(a): i for a, i in zip(attrs, c.output(touched.plan)[: len(attrs)], strict=True)}
    if touched.local and touched.total == 1 and all(map(c.is_plain, attrs)):
        told = [c.alias(c.told(a), "whence_value") for a in c.output(touched.plan)[: len(attrs)]]
        values = c.frame(c.project(told, touched.plan)).collect()[0]
        if all_survive(c, attrs, values):
            literals = {id_of(a): c.literal(value, a) for a, value in zip(attrs, values, strict=True)}
            one = c.substitute(link.condition, {**literals, **keys})
            return _Hit(c.conjunction([is_there(c, link), one]))
    condition = c.substitute(link.condition, {**by_id, **keys})
    found = touched.plan
    hint = None
    if touched.local and link.equalities:
        wanted = [c.alias(c.substitute(expr, {**by_id, **keys}), "whence_value") for _, expr in link.equalities]
        values_there = c.project(wanted, found)
        told = [c.alias(c.told(a), "whence_value") for a in c.output(values_there)]
        rows = c.frame(c.project(told, values_there)).collect()
        if len(rows) <= FEW:
            hint = _hint(c, [c.substitute(key, {**by_id, **keys}) for key, _ in link.equalities], rows)
    if touched.local:
        found = c.plan_of(F.broadcast(c.frame(found)))
    return _Hit(c.conjunction([is_there(c, link), condition]), found, hint)


def _hint(c: Catalyst, keys: Sequence[Attr], rows: Sequence[Sequence[object]]) -> Expr | None:
    hints = [hint for i, key in enumerate(keys) if (hint := c.one_of(key, [row[i] for row in rows])) is not None]
    return c.conjunction(hints) if hints else None


def _near_leaf(c: Catalyst, plan: Plan, leaf: Node, seeds: Seeds) -> Plan:
    """The block with its source filtered by the values that the seeds have, so that the scan can skip other rows.

    The block's rows that come from a seed stay as they are. An outer join may now give rows in which this source is
    missing; their identity there is NULL, and no seed's is."""
    values = {a: seeds.values[a.name()] for a in c.output(leaf.plan) if a.name() in seeds.values}
    hints = [hint for a, found in values.items() if (hint := c.one_of(a, found)) is not None]
    if not hints or seeds.scan is None or not has_row_index(c, leaf) or not c.reads_alike(leaf.plan, seeds.scan):
        return plan
    first = id_of(c.output(leaf.plan)[0])

    def visit(node: Plan) -> tuple[Plan, int]:
        below = c.children(node)
        if not below:
            # Rows that were computed already (what a LIMIT keeps) have the same attributes.
            is_leaf = class_name(node) == leaf.kind and any(id_of(a) == first for a in c.output(node))
            return (c.filter(c.conjunction(hints), node), 1) if is_leaf else (node, 0)
        visited = [visit(child) for child in below]
        found = sum(count for _, count in visited)
        if not found:
            return node, 0
        if class_name(node) not in _ROW_BY_ROW or c.nondeterministic(node):
            return node, 2  # not to be filtered
        return c.with_children(node, [child for child, _ in visited]), found

    filtered, found = visit(plan)
    return filtered if found == 1 else plan
