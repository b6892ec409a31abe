"""How many: rows at each operator, witnesses at each reading. Counted from identities, without reading a source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from whence.model import operators
from whence.spark.frames import to_arrow
from whence.sql.blocks import Link, Place, Reading, ReadingPlace, attrs_of, origin, same_branches
from whence.sql.catalyst import Attr, Catalyst, Kept, Plan, id_of
from whence.sql.evaluation import Evaluation, Identities
from whence.sql.found_rows import ids_of, rows_at
from whence.sql.rules.join import BOTH_SIDES
from whence.sql.sources import HASH
from whence.sql.tree import Node

# An output row for each key: the key tells it.
_BY_KEY = ("Aggregate", "Distinct", "Deduplicate")
_SETS = ("Intersect", "Except")
# Each row comes from one row of an input, or one of each, and no other row comes from the same.
_APART = (
    *("Project", "Filter", "Sort", "Join", "Union", "Window", "GlobalLimit", "LocalLimit", "Offset", "View"),
    *("Settled", "Given"),
    *operators.NAMES_ONLY,
    *operators.PLACEMENT,
)
# So many numbers (identities have one or two each) come to the driver to be counted there.
MOST_VALUES = 4_000_000


def counts_at(evaluation: Evaluation, places: Sequence[Place]) -> tuple[int, ...]:
    """The number of rows at each operator that lie on the way.

    From the identities that are known already, where they tell the operator's rows apart; others (of an exploded array)
    are counted by running the query up to there."""
    readings = {place.node: place for place in evaluation.lineage.places if not place.node.children}
    for place in places:
        evaluation.reach(place.block)
    told = [place for place in places if place.annotated.links and _are_apart(place.node, readings)]
    known = set(told)
    counts = _counted_at(evaluation, [place for place in places if place not in known and not place.barren])
    counts.update((place, 0) for place in places if place.barren)
    for number, block in list(evaluation.blocks.items()):
        links = {origin(link): link for link in block.annotated.links}
        here = [place for place in told if place.block == number]
        # Most operators of a block share their links with the one below: each set of links is counted once.
        shapes = {place: tuple(origin(link) for link in place.annotated.links) for place in here}
        distinct = list(dict.fromkeys(shapes.values()))
        if not distinct:
            continue
        numbers = _rows_apart(evaluation, number, [[links[key] for key in shape] for shape in distinct])
        for place in here:
            counts[place] = numbers[distinct.index(shapes[place])]
    return tuple(counts[place] for place in places)


def _rows_apart(evaluation: Evaluation, number: int, shapes: Sequence[Sequence[Link]]) -> list[int]:
    """How many different rows the identities of each of these sets of links tell, in one block."""
    if number in evaluation.groups and all(len(shape) == 1 for shape in shapes):
        return [evaluation.rows_in(number)] * len(shapes)
    kept = evaluation.selected(number)
    counts = [kept.total if _all_apart(evaluation, shape) else None for shape in shapes]
    left = [shape for shape, count in zip(shapes, counts, strict=True) if count is None]
    found = iter(_distinct_rows(evaluation, number, left) if left else [])
    return [next(found) if count is None else count for count in counts]


def _all_apart(evaluation: Evaluation, shape: Sequence[Link]) -> bool:
    return any(isinstance(link, Reading) and evaluation.is_once(link) and link.always for link in shape)


def _distinct_rows(evaluation: Evaluation, number: int, shapes: Sequence[Sequence[Link]]) -> Sequence[int]:
    c, kept = evaluation.c, evaluation.selected(number)
    attrs = attrs_of([link for shape in shapes for link in shape])
    at: Mapping[int, int] = {id_of(attr): i for i, attr in enumerate(attrs)}
    if kept.local:
        with c.quietly():
            rows = c.rows(_numbered(c, kept, attrs, told=True))
        return [
            len({tuple(row[at[id_of(a)]] for a in attrs_of(shape)) for row in rows if _is_in(shape, row, at)})
            for shape in shapes
        ]
    if kept.total * len(attrs) <= MOST_VALUES:
        at, table = _table(evaluation, number, attrs)
        return [_different(shape, table, at) for shape in shapes]
    frame = c.frame(_numbered(c, kept, attrs, told=True))
    columns = []
    names = {key: f"a{i}" for key, i in at.items()}
    for shape in shapes:
        there = F.coalesce(*[F.when(_is_there(link, names), 1) for link in shape])
        columns.append(
            F.count_distinct(F.when(there.isNotNull(), F.struct(*[names[id_of(a)] for a in attrs_of(shape)])))
        )
    with c.quietly():
        return list(frame.agg(*columns).collect()[0])


def _table(evaluation: Evaluation, number: int, attrs: Sequence[Attr]) -> tuple[Mapping[int, int], pa.Table]:
    """These columns of a block's identities, and where each stands: read once for all that is counted of the block."""
    known = evaluation.tables.get(number)
    if known is None or any(id_of(attr) not in known[0] for attr in attrs):
        kept = evaluation.selected(number)
        readings = [link for link in evaluation.blocks[number].annotated.links if isinstance(link, Reading)]
        all_of_them = list({id_of(attr): attr for attr in (*attrs, *attrs_of(readings))}.values())
        wanted = all_of_them if kept.total * len(all_of_them) <= MOST_VALUES else attrs
        with evaluation.c.quietly():
            table = to_arrow(evaluation.c.frame(_numbered(evaluation.c, kept, wanted, told=True))).combine_chunks()
        known = evaluation.tables[number] = ({id_of(attr): i for i, attr in enumerate(wanted)}, table)
    return known


def _different(shape: Sequence[Link], table: pa.Table, at: Mapping[int, int]) -> int:
    """The number of different rows, among those that are there at one of the links."""

    def is_there(link: Link) -> pa.Array:
        tests = [pc.equal(table.column(at[id_of(attr)]), branch) for attr, branch in link.when]
        return reduce(pc.and_kleene, tests, pc.is_valid(table.column(at[id_of(link.present)])))

    there = table.filter(reduce(pc.or_kleene, [is_there(link) for link in shape]))
    codes, known = np.zeros(there.num_rows, dtype=np.int64), 1
    for attr in attrs_of(shape):
        column = there.column(at[id_of(attr)]).combine_chunks().dictionary_encode(null_encoding="encode")
        if known * len(column.dictionary) >= 2**62:
            told = pa.array(codes).dictionary_encode()
            codes, known = told.indices.to_numpy().astype(np.int64), len(told.dictionary)
        codes, known = codes * len(column.dictionary) + column.indices.to_numpy(), known * len(column.dictionary)
    return int(pc.count_distinct(pa.array(codes)).as_py())


def _is_in(shape: Sequence[Link], row: Sequence[object], at: Mapping[int, int]) -> bool:
    return any(
        row[at[id_of(link.present)]] is not None and all(row[at[id_of(attr)]] == branch for attr, branch in link.when)
        for link in shape
    )


def _counted_at(evaluation: Evaluation, places: Sequence[Place]) -> dict[Place, int]:
    if not places:
        return {}
    c = evaluation.c
    with c.quietly():
        frames = [c.frame(rows_at(evaluation, place)).agg(F.count(F.lit(1)).alias("n")) for place in places]
        numbered = [frame.select(F.lit(i).alias("place"), "n") for i, frame in enumerate(frames)]
        rows = reduce(DataFrame.unionAll, numbered).collect()
    return {places[row.place]: row.n for row in rows}


def _are_apart(node: Node, readings: Mapping[Node, Place]) -> bool:
    """Whether the identities that the rows of an operator carry tell each of them from all others."""
    if node.kind in _BY_KEY or (node.kind in _SETS and not node.plan.isAll()):
        return True
    if node in readings:
        links = readings[node].annotated.links
        return bool(links) and all(attr.name() != HASH for link in links for attr in link.attrs)
    if node.kind not in (*_APART, *_SETS):
        return False
    sides = node.children
    if (node.kind == "Join" and node.plan.joinType().toString() not in BOTH_SIDES) or node.kind == "Except":
        sides = sides[:1]
    return all(_are_apart(side, readings) for side in sides if not side.barren)


def _is_there(link: Link, names: Mapping[int, str]) -> Column:
    there = F.col(names[id_of(link.present)]).isNotNull()
    for attr, branch in link.when:
        there = there & (F.col(names[id_of(attr)]) == branch)
    return there


def witness_counts(evaluation: Evaluation) -> dict[int, int]:
    """The number of witnesses of each reading: at most one job for each block of the query."""
    counts = dict.fromkeys((reading.number for reading in evaluation.lineage.readings), 0)
    for number, block in evaluation.blocks.items():
        links = [link for link in block.annotated.links if isinstance(link, Reading)]
        left = [link for link in links if link.place.number not in evaluation.counts]
        if left:
            _count(evaluation, number, left)
        counts.update((link.place.number, evaluation.counts[link.place.number]) for link in links)
    return counts


def count_of(evaluation: Evaluation, places: Sequence[ReadingPlace]) -> int:
    """The number of witnesses that several readings of one dataset have together."""
    counts = witness_counts(evaluation)
    if len(places) == 1:
        return counts[places[0].number]
    _fetch(evaluation, [place for place in places if counts[place.number]])
    known = [evaluation.identities.get(place.number) for place in places if counts[place.number]]
    if any(ids is None for ids in known):
        return ids_of(evaluation, places).count()
    return len(_distinct(np.concatenate([ids for ids in known if ids is not None]))) if known else 0


def _fetch(evaluation: Evaluation, places: Sequence[ReadingPlace]) -> None:
    """What computed blocks say of these readings comes to the driver, where it is not too much: several readings are
    counted together there, which would be a job of two stages."""
    wanted = {place for place in places if place.number not in evaluation.identities}
    for number in evaluation.computed_blocks:
        links = evaluation.blocks[number].annotated.links
        here = [link for link in links if isinstance(link, Reading) and link.place in wanted]
        if here and evaluation.selected(number).total * len(attrs_of(here)) <= MOST_VALUES:
            for link, ids in _identities(evaluation, number, here).items():
                evaluation.identities[link.place.number] = ids


def first_identities(evaluation: Evaluation, places: Sequence[ReadingPlace], count: int) -> list[tuple[int, ...]]:
    """Some witnesses that several readings of one dataset have: of those that were counted on the driver, without a
    job."""
    counts = witness_counts(evaluation)
    known = [evaluation.identities.get(place.number) for place in places if counts[place.number]]
    if any(ids is None for ids in known):
        return [tuple(row) for row in ids_of(evaluation, places).limit(count).collect()]
    if not known:
        return []
    # Each part is in order and has no row twice, so that what comes first of all is among what comes first in each.
    first = _distinct(np.concatenate([ids[:count] for ids in known if ids is not None]))
    return [tuple(row) for row in first[:count].tolist()]


def _count(evaluation: Evaluation, number: int, links: Sequence[Reading]) -> None:
    kept = evaluation.selected(number)
    sure = [link for link in links if evaluation.is_once(link) and link.always]
    evaluation.counts.update((link.place.number, kept.total) for link in sure)
    others = [link for link in links if not (evaluation.is_once(link) and link.always)]
    if not others:
        return
    if kept.total * len(attrs_of(others)) <= MOST_VALUES:
        for link, ids in _identities(evaluation, number, others).items():
            evaluation.identities[link.place.number] = ids
            evaluation.counts[link.place.number] = len(ids)
    else:
        evaluation.counts.update(_counted(evaluation, kept, others))


def _identities(evaluation: Evaluation, number: int, links: Sequence[Reading]) -> dict[Reading, Identities]:
    """The distinct identities at each link, on the driver."""
    c, kept = evaluation.c, evaluation.selected(number)
    attrs = attrs_of(links)
    if kept.local:
        with c.quietly():
            rows = c.rows(_numbered(c, kept, attrs))
        values = [np.array([row[i] for row in rows], dtype=object) for i in range(len(attrs))]
        there = [np.array([value is not None for value in column], dtype=bool) for column in values]
        values = [np.where(known, column, 0).astype(np.int64) for column, known in zip(values, there, strict=True)]
    else:
        places, table = _table(evaluation, number, attrs)
        columns = [table.column(places[id_of(attr)]) for attr in attrs]
        values = [column.fill_null(0).to_numpy().astype(np.int64) for column in columns]
        there = [column.is_valid().to_numpy() for column in columns]
    at = {id_of(attr): i for i, attr in enumerate(attrs)}
    found: dict[Reading, Identities] = {}
    for group in _by_branch(links):
        first = group[0]
        here = there[at[id_of(first.present)]].copy()
        for attr, branch in first.when[:-1]:
            here &= there[at[id_of(attr)]] & (values[at[id_of(attr)]] == branch)
        ids = np.stack([values[at[id_of(attr)]][here] for attr in first.attrs], axis=1)
        if not first.when:
            found[first] = _distinct(ids)
            continue
        branches = np.where(there[at[id_of(first.when[-1][0])]], values[at[id_of(first.when[-1][0])]], -1)[here]
        order = np.argsort(branches, kind="stable")
        for link in group:
            span = [np.searchsorted(branches, link.when[-1][1], side, order) for side in ("left", "right")]
            found[link] = _distinct(ids[order[span[0] : span[1]]])
    return found


def _by_branch(links: Sequence[Reading]) -> Iterable[list[Reading]]:
    """Links that differ in nothing but their branch of a union, together."""
    alike: dict[tuple[object, ...], list[Reading]] = {}
    for link in links:
        alike.setdefault(same_branches(link) if link.when else (id(link),), []).append(link)
    return alike.values()


def _numbered(c: Catalyst, kept: Kept, attrs: Sequence[Attr], *, told: bool = False) -> Plan:
    """Identities may have one name; by number (a0, a1, ...) each has its own. Told: values that Python can count."""
    columns = [c.told(attr) for attr in attrs] if told else attrs
    return c.project([c.alias(column, f"a{i}") for i, column in enumerate(columns)], kept.plan)


def _distinct(ids: Identities) -> Identities:
    ordered = ids[np.lexsort(ids.T)]
    new = np.ones(len(ordered), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return ordered[new]


def _counted(evaluation: Evaluation, kept: Kept, links: Sequence[Reading]) -> dict[int, int]:
    c = evaluation.c
    attrs = attrs_of(links)
    names = {id_of(attr): f"a{i}" for i, attr in enumerate(attrs)}
    frame = c.frame(_numbered(c, kept, attrs))
    plain = [link for link in links if not link.when]
    counts: dict[int, int] = {}
    with c.quietly():
        if plain:
            found = frame.selectExpr(*[_count_of(evaluation, link, names) for link in plain]).collect()[0]
            counts = {link.place.number: n for link, n in zip(plain, found, strict=True)}
        for group in _by_branch([link for link in links if link.when]):
            *outer, (branch, _) = group[0].when
            rows = frame.where(" AND ".join(["true", *[f"{names[id_of(a)]} = {n}" for a, n in outer]]))
            told = rows.groupBy(names[id_of(branch)]).agg(F.expr(_count_of(evaluation, group[0], names))).collect()
            by_branch = {row[0]: row[1] for row in told}
            counts.update((link.place.number, by_branch.get(link.when[-1][1], 0)) for link in group)
    return counts


def _count_of(evaluation: Evaluation, link: Reading, names: Mapping[int, str]) -> str:
    columns = [names[id_of(attr)] for attr in link.attrs]
    row = "1" if evaluation.is_once(link) else f"struct({', '.join(columns)})"
    one = f"CASE WHEN {columns[-1]} IS NOT NULL THEN {row} END"
    return f"count({one})" if evaluation.is_once(link) else f"count(DISTINCT {one})"
