"""The rows of what a trace found: those of the sources, those at an operator, and how each is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from whence.sql.blocks import Lookup, Place, ReadingPlace, alike, in_branch, is_there, origin
from whence.sql.catalyst import Catalyst, Expr, Plan, id_of
from whence.sql.evaluation import OUTPUT, Evaluation
from whence.sql.sources import FILE, ROW, identify


def leaf_rows(c: Catalyst, reading: ReadingPlace, ids: DataFrame, kind: str) -> Plan:
    """The reading's own rows that are (`leftsemi`) or are not (`leftanti`) among `ids`."""
    return c.project(c.output(reading.leaf.plan), told_leaf_rows(c, reading, ids, kind)[0])


def told_leaf_rows(c: Catalyst, reading: ReadingPlace, ids: DataFrame, kind: str) -> tuple[Plan, Sequence[int]]:
    """The same, with the rows' identities behind their own columns, and the places of these."""
    leaf = identify(c, reading.leaf)
    own = len(leaf.columns)
    plan = c.plan_of(ids)
    names = [c.alias(attr, "whence_id") for attr in c.output(plan)[-len(leaf.ids) :]]
    condition = c.conjunction([c.equal(a, n.toAttribute()) for a, n in zip(leaf.ids, names, strict=True)])
    return c.join(leaf.plan, c.project(names, plan), kind, condition), range(own, own + len(leaf.ids))


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
    return c.project(c.output(place.node.plan), told_rows_at(evaluation, place, kind))


def told_rows_at(evaluation: Evaluation, place: Place, kind: str = "leftsemi") -> Plan:
    """The same, with the rows' identities."""
    c = evaluation.c
    if place.barren:
        return c.filter(c.parse("false"), place.annotated.plan) if kind == "leftsemi" else place.annotated.plan
    block = evaluation.reach(place.block)
    if block is None or not place.annotated.links:
        return place.annotated.plan
    known = {origin(link): link for link in block.annotated.links}
    names: dict[int, Expr] = {}
    pairs: list[Expr] = []
    for link in place.annotated.links:
        for attr, current in alike(link, known[origin(link)]):
            if id_of(attr) not in names:
                name = names[id_of(attr)] = c.alias(current, "whence_id")
                pairs.append(c.same(attr, name.toAttribute()))
    # Above a union there are rows of other branches too.
    link = place.annotated.links[0]
    branches = in_branch(c, known[origin(link)].when[len(link.when) :])
    selected = evaluation.selected(block.number).plan
    selected = c.project(list(names.values()), c.filter(c.conjunction(branches), selected) if branches else selected)
    return c.join(place.annotated.plan, selected, kind, c.conjunction(pairs))


def is_on_the_way(evaluation: Evaluation, place: Place) -> bool:
    """Whether the trace goes through a row of this operator, which looks its rows up."""
    c = evaluation.c
    if place.barren:
        return False
    block = evaluation.reach(place.block)
    link = next(link for link in place.annotated.links if isinstance(link, Lookup) and link.node is place.node)
    if block is None or block.number in evaluation.whole:
        return True
    current = next(other for other in block.annotated.links if origin(other) is origin(link))
    return not c.frame(c.filter(is_there(c, current), evaluation.selected(block.number).plan)).isEmpty()


def ids_of(evaluation: Evaluation, places: Sequence[ReadingPlace]) -> DataFrame:
    """Identities of the witnesses at several readings of one dataset."""
    if len(places) == 1:
        return evaluation.witnesses[places[0].number]
    c = evaluation.c
    plans = evaluation.ids_at(places)
    return c.frame(plans[0] if len(plans) == 1 else c.distinct(c.union(plans)))


def associations(evaluation: Evaluation, names: Mapping[int, str]) -> DataFrame:
    """output, source, record: a record is told as its file and row, or as its position."""
    c = evaluation.c
    parts = []
    for reading in evaluation.lineage.readings:
        if reading.auxiliary or reading.barren:
            continue
        found = evaluation.witnesses[reading.number]
        columns = [F.col(OUTPUT), F.lit(names[reading.number]).alias("source")]
        parts.append(c.plan_of(found.select(*columns, record_of(c, reading, found).alias("record"))))
    if not parts:
        return c.spark.createDataFrame([], "output bigint, source string, record string")
    return c.frame(c.distinct(parts[0] if len(parts) == 1 else c.union(parts)))


def all_ids(c: Catalyst, reading: ReadingPlace) -> DataFrame:
    """The identities of all rows that a reading reads."""
    leaf = identify(c, reading.leaf)
    return c.frame(c.project(leaf.ids, leaf.plan))


def record_of(c: Catalyst, reading: ReadingPlace, ids: DataFrame, also: Sequence[ReadingPlace] = ()) -> Column:
    """Where a row stands: its file and row, its position, or `table@commit#row id`.

    `also`: other readings of the dataset that ids are of."""
    if reading.dataset.by_row_id:
        number = F.concat(F.lit("#"), F.col(ROW).cast("string"))
        return F.concat(F.lit(f"{reading.dataset.name}@"), F.col(FILE).cast("string"), number)
    if ids.columns[-2:] == [FILE, ROW]:
        files = F.lit("")
        for path in sorted({path for place in (reading, *also) for path in c.files(place.leaf.plan)}):
            files = F.when(F.col(FILE) == F.lit(c.hash64_of_text(path)), F.lit(path)).otherwise(files)
        return F.concat(files, F.lit("#"), F.col(ROW).cast("string"))
    if len(ids.columns) > 2:
        return F.concat_ws(":", *[F.hex(F.col(name)) for name in ids.columns[1:]])
    return F.concat(F.lit("#"), F.col(ROW).cast("string"))
