"""How much each witness moved a number of the result: its value less the value it would have without the witness.

The query is computed in as many worlds as there are witnesses, all at once (worlds.py). Only where an operator does not
allow that, the query is run again without each witness in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from whence.model import WhenceError
from whence.progress import working
from whence.sql import Evaluation, Lookup, Node, Reading, ReadingPlace, SqlLineage, found_rows
from whence.sql.blocks import told_by
from whence.sql.catalyst import Attr, Catalyst
from whence.sql.evaluation import OUTPUT
from whence.sql.influence.alone import alone
from whence.sql.influence.one_by_one import WORLD, asked_values, one_by_one
from whence.sql.influence.worlds import NO_WORLD, SENT, Changed, Full, NoWorlds, Removal, Worlds
from whence.sql.line_rows import places_of, why_not_by_byte
from whence.sql.sources import FILE, ROW, identify

_COLUMNS = ("output", "source", "record", "influence", "without", "outcome")
_SCHEMA = "output bigint, source string, record string, influence double, without double, outcome string, row string"
_FLOATS = ("float", "double")
# Of more witnesses of files of lines it is not told on which line they stand.
_MOST_LINES = 100_000


def influence(
    lineage: SqlLineage,
    found: Evaluation,
    column: str,
    names: Mapping[str, Sequence[ReadingPlace]],
    source: str | None = None,
) -> DataFrame:
    columns = lineage.frame.columns
    if column not in columns:
        raise WhenceError(f"The result has no column {column!r}; its columns are {', '.join(columns)}.")
    position = columns.index(column)
    kind = lineage.frame.schema[position].dataType.simpleString()
    if not (kind in ("tinyint", "smallint", "int", "bigint", *_FLOATS, "boolean") or kind.startswith("decimal(")):
        raise WhenceError(
            f"Influence is told of numbers, and {column} is of the type {kind}. Ask about another column, or about a "
            f"number made of it, such as {'length' if kind == 'string' else 'size'}({column})."
        )
    parts = []
    with lineage.c.quietly():
        for name, places in names.items():
            if source in (None, name):
                with working(f"what {column} is without each row of {name}"):
                    parts.append(_of_source(lineage, found, position, name, places, in_columns=source is not None))
    if not parts:
        return lineage.c.spark.createDataFrame([], _SCHEMA)
    result = reduce(DataFrame.union, parts)
    # What decides whether there is a value at all comes before what moves it.
    order = [F.expr("influence IS NOT NULL"), F.expr("abs(influence)").desc()]
    return result.orderBy("source", *order, OUTPUT, "record")


def _of_source(
    lineage: SqlLineage,
    found: Evaluation,
    position: int,
    name: str,
    places: Sequence[ReadingPlace],
    *,
    in_columns: bool,
) -> DataFrame:
    c = lineage.c
    pairs = _pairs(found, places)  # output, identity...
    ids = pairs.columns[1:]
    nobody = c.spark.range(1).selectExpr(*[f"cast(NULL AS bigint) AS {i}" for i in ids], f"{NO_WORLD}L AS {WORLD}")
    numbered = pairs.select(*ids).distinct().selectExpr("*", f"monotonically_increasing_id() AS {WORLD}")
    worlds = c.materialise(c.plan_of(numbered.union(nobody)))
    count = worlds.count() - 1
    outcomes = _in_all_worlds(lineage, found, position, places, worlds, count) if count else None
    if outcomes is None:
        outcomes = one_by_one(lineage, found, position, name, places, worlds)
    few = count <= SENT
    renamed = worlds.selectExpr(*[f"{i} AS of_{i}" for i in ids], WORLD)
    if few:
        renamed = F.broadcast(renamed)
    asked = pairs.join(renamed, F.expr(" AND ".join(f"{i} = of_{i}" for i in ids))).select(OUTPUT, *ids, WORLD)
    values = _values(found, position)
    there = outcomes.selectExpr(f"{OUTPUT} AS of_output", f"{WORLD} AS of_world", "without", "outcome AS known")
    told = asked.join(values, OUTPUT).join(there, F.expr(f"{OUTPUT} = of_output AND {WORLD} = of_world"), "left")
    told = told.selectExpr(
        *(OUTPUT, *ids, "without", "value - without AS influence", "coalesce(known, 'gone') AS outcome")
    )
    record = found_rows.record_of(c, places[0], told.select(OUTPUT, *ids))
    told = told.withColumn("record", record)
    if count <= _MOST_LINES and (lines := _lines(c, places, worlds)) is not None:
        told = told.join(F.broadcast(lines), list(ids), "left").withColumn("record", F.coalesce("line", "record"))
    wanted = worlds.select(*ids)
    return _with_rows(c, told, F.broadcast(wanted) if few else wanted, name, places[0], in_columns=in_columns)


def _lines(c: Catalyst, places: Sequence[ReadingPlace], worlds: DataFrame) -> DataFrame | None:
    """The file and line of each witness, where witnesses are lines."""
    scan = places[0].leaf.plan
    if worlds.columns[:2] != [FILE, ROW] or not c.is_file_scan(scan) or why_not_by_byte(c, scan) is not None:
        return None
    told = [(row[0], row[1]) for row in worlds.where(F.col(FILE).isNotNull()).collect()]
    paths = {c.hash64_of_text(path): path for place in places for path in c.files(place.leaf.plan)}
    known = places_of(c, scan, paths, told)
    if not known:
        return None
    rows = [(file, row, line) for (file, row), line in known.items()]
    return c.spark.createDataFrame(rows, f"{FILE} bigint, {ROW} bigint, line string")


def _pairs(found: Evaluation, places: Sequence[ReadingPlace]) -> DataFrame:
    frames = [found.witnesses[place.number] for place in places]
    names = [OUTPUT, *[f"whence_id{i}" for i in range(len(frames[0].columns) - 1)]]
    if frames[0].columns[-2:] == [FILE, ROW]:
        names[-2:] = [FILE, ROW]
    elif len(names) == 2:
        names[-1] = ROW
    return reduce(DataFrame.union, [frame.toDF(*names) for frame in frames]).distinct()


def _values(found: Evaluation, position: int) -> DataFrame:
    return asked_values(found, {"value": position}).selectExpr(OUTPUT, "cast(value AS double) AS value")


def _with_rows(
    c: Catalyst, told: DataFrame, wanted: DataFrame, name: str, place: ReadingPlace, *, in_columns: bool
) -> DataFrame:
    """With the witnesses' own values: as columns of their own, or as one column of JSON where sources differ.

    `wanted`: the identities of the witnesses, so that no other row of the source is sorted or sent."""
    ids = wanted.columns
    leaf = identify(c, place.leaf)
    fresh = [c.alias(a, f"whence_own{i}") for i, a in enumerate(leaf.columns)]
    identity = [c.alias(a, f"whence_of{i}") for i, a in enumerate(leaf.ids)]
    own = c.frame(c.project([*fresh, *identity], leaf.plan))
    condition = F.expr(" AND ".join(f"{one} = whence_of{i}" for i, one in enumerate(ids)))
    own = own.join(wanted, condition, "leftsemi")
    if place.dataset.by_contents:
        own = own.dropDuplicates([f"whence_of{i}" for i in range(len(ids))])  # equal rows have one identity
    columns = [_quoted(a.name()) for a in leaf.columns]
    joined = told.join(own, condition, "left").withColumn("source", F.lit(name))
    if in_columns:
        taken = {f"`{n}`" for n in _COLUMNS}
        named = [f"`row_{n[1:]}" if n.lower() in taken else n for n in columns]
        return joined.selectExpr(*_COLUMNS, *[f"whence_own{i} AS {n}" for i, n in enumerate(named)])
    values = ", ".join(f"whence_own{i} AS {n}" for i, n in enumerate(columns))
    return joined.selectExpr(*_COLUMNS, f"to_json(struct({values}), map('ignoreNullFields', 'false')) AS row")


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


# --- all worlds at once


def _in_all_worlds(
    lineage: SqlLineage,
    found: Evaluation,
    position: int,
    places: Sequence[ReadingPlace],
    numbered: DataFrame,
    count: int,
) -> DataFrame | None:
    """output, world, without, outcome; outputs that are gone in a world are missing. None: it cannot be told so."""
    c = lineage.c
    try:
        everywhere = Worlds(lineage, places, c.plan_of(numbered), count, alone=alone(c, lineage.tree))
        form = everywhere.form(lineage.tree)
        if isinstance(form, Removal):
            return c.spark.createDataFrame([], f"output bigint, {WORLD} bigint, without double, outcome string")
        if not isinstance(form, Changed | Full):
            return None
        if any(isinstance(origin, Node) and origin.kind == "Union" for origin in form.ids):
            return None  # the rows of its branches are not told apart
        return _outcomes(found, form, c.output(lineage.tree.plan)[position])
    except NoWorlds:
        return None


def _outcomes(found: Evaluation, form: Changed | Full, value: Attr) -> DataFrame:
    """Of every asked row that is there in a world: what it is there."""
    c = found.c
    stable = [a for attrs in form.ids.values() for a in attrs]
    told = [c.alias(a, f"s{n}") for n, a in enumerate(stable)]
    passes = [c.alias(a, f"p{n}") for n, a in enumerate(form.passes)]
    anew = form.anew if isinstance(form, Changed) else form.plan
    rows = c.frame(c.project([c.alias(form.world, WORLD), c.alias(value, "without"), *told, *passes], anew))
    kept = " AND ".join(["true", *(f"coalesce(p{n}, false)" for n in range(len(passes)))])
    outcome = f"CASE WHEN NOT ({kept}) THEN 'filtered' WHEN without IS NULL THEN 'null' ELSE 'value' END AS outcome"
    asked = _asked(found, form, stable)
    there = F.expr(" AND ".join(["true", *(f"s{n} <=> a{n}" for n in range(len(stable)))]))
    found_anew = rows.join(asked, there).selectExpr(OUTPUT, WORLD, "cast(without AS double) AS without", outcome)
    if isinstance(form, Full) or all(place.leaf.rows is not None for place in found.lineage.readings):
        return found_anew  # of rows that are nothing but witnesses each stands in the group that it is one of
    return found_anew.union(_unaffected(found, form, value, asked, stable))


def _unaffected(found: Evaluation, form: Changed, value: Attr, asked: DataFrame, stable: Sequence[Attr]) -> DataFrame:
    """The asked rows in the worlds of witnesses that do not change their group: a row that a join or window of another
    part of the query brought in."""
    c = found.c
    rows = c.frame(
        c.project([
            c.alias(value, "without"), *[c.alias(a, f"s{n}") for n, a in enumerate(stable)],
            *[c.alias(a, f"k{n}") for n, a in enumerate(form.keys)],
        ], form.plan)
    )  # fmt: skip
    there = [F.col(f"s{n}").eqNullSafe(F.col(f"a{n}")) for n in range(len(stable))] or [F.lit(True)]
    affected = c.frame(form.affected).toDF(WORLD, *[f"of{n}" for n in range(len(form.keys))])
    worlds = affected.select(WORLD).distinct()
    every = rows.join(asked, there).crossJoin(worlds)
    names = [F.col(f"k{n}").eqNullSafe(F.col(f"of{n}")) for n in range(len(form.keys))]
    changed = affected.withColumnRenamed(WORLD, "changed")
    left = every.join(changed, [F.col(WORLD) == F.col("changed"), *names], "leftanti")
    return left.select(OUTPUT, WORLD, F.col("without").cast("double"), F.lit("value").alias("outcome"))


def _asked(found: Evaluation, form: Changed | Full, stable: Sequence[Attr]) -> DataFrame:
    """The asked rows, by number, with what tells each of them in every world."""
    c = found.c
    assert found.output is not None
    assert found.rows is not None
    known: dict[ReadingPlace | Node, tuple[Attr, ...]] = {}
    for link in found.lineage.root.annotated.links:
        if isinstance(link, Reading):
            known[link.place] = told_by(link)
        elif isinstance(link, Lookup):
            known[link.node] = told_by(link)
    rows = c.plan_of(found.rows)
    if set(form.ids) <= set(known):
        theirs = [a for origin in form.ids for a in known[origin]]
        return c.frame(c.project([found.output, *[c.alias(a, f"a{n}") for n, a in enumerate(theirs)]], rows))
    # A window's rows are told by their values: rows that are alike take turns, in the order of their fractions.
    if isinstance(form, Changed):
        whole = form.plan
    else:
        whole = c.filter(c.equal(form.world, c.long(NO_WORLD)), form.plan)
    if form.passes:
        whole = c.filter(c.conjunction(list(form.passes)), whole)
    own = c.output(found.lineage.tree.plan)
    both = []
    for plan, first in ((rows, [found.output]), (whole, [c.alias(a, f"a{n}") for n, a in enumerate(stable)])):
        side = c.frame(c.project([*first, *[c.alias(a, f"o{n}") for n, a in enumerate(own)]], plan))
        fractions = [f"o{n}" for n, a in enumerate(own) if c.type_of(a) in _FLOATS]
        alike = [f"o{n}" for n in range(len(own)) if f"o{n}" not in fractions]
        turn = F.row_number().over(Window.partitionBy(*alike).orderBy(*fractions, F.lit(0)))
        both.append((side.withColumn("turn", turn).drop(*fractions), alike))
    (asked, alike), (there, _) = both
    there = there.withColumnsRenamed({name: f"other_{name}" for name in (*alike, "turn")})
    same = [F.col(name).eqNullSafe(F.col(f"other_{name}")) for name in (*alike, "turn")]
    return asked.join(there, same).select(OUTPUT, *[f"a{n}" for n in range(len(stable))])
