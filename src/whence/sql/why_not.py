"""Where given source rows dropped out of a query, and by which condition or missing partner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import Row

from whence.model import WhenceError, operators
from whence.model.html import html_table
from whence.model.text import readable, shown, visible
from whence.progress import working
from whence.spark.alike import PLAN
from whence.sql import Evaluation, Node, Place, ReadingPlace, SqlLineage, evaluation, found_rows
from whence.sql.catalyst import Catalyst, Expr, Plan, class_name, id_of
from whence.sql.follow import KEEPING, Crossed, Level, identities, is_cross, is_followed, picked, seeds_of
from whence.sql.matching import matches, names_of

# More rows than this are not a question about rows; the answer comes to the driver.
MOST_ROWS = 1000
_SHOWN = 50
_LONGEST = 300
# So many rows that come from the asked ones are looked at to say why they are dropped.
_MOST_LOOKED_AT = 100_000
_TOO_MANY = f"why_not tells up to {MOST_ROWS} rows one by one; ask about fewer rows."


@shown
@dataclass(frozen=True)
class Dropped:
    """One source row at one place that reads it. `operator` is None when the row reached the result."""

    row: Row
    source: str
    operator: str | None
    reason: str

    def __str__(self) -> str:
        where = "reached the result" if self.operator is None else f"dropped at {self.operator}: {self.reason}"
        return visible(f"{self.source} {tuple(self.row)} {where}")


class Fates(tuple[Dropped, ...]):
    """What became of each row: a tuple, which a notebook shows as a table."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def _repr_html_(self) -> str:
        rows = [(f.source, f.row, f.operator or "reached the result", f.reason) for f in self[:_SHOWN]]
        return html_table(("source", "row", "dropped at", "why"), rows, more=len(self) > _SHOWN)


def why_not(rows: SqlLineage, to: SqlLineage) -> Fates:
    with to.c.quietly():
        return _why_not(rows, to)


def _why_not(rows: SqlLineage, to: SqlLineage) -> Fates:
    shared = matches(to.c, rows.readings, [place for place in to.readings if not place.auxiliary])
    if not shared:
        raise WhenceError(
            "That result reads none of these rows' sources, so they never entered it. The rows come from "
            f"{names_of(rows.readings)}, the result reads {names_of(to.readings)}."
        )
    answers: list[Dropped] = []
    for reading, places in shared.items():
        if not is_followed(to, reading):
            continue
        known = picked(rows, places[0], to, reading) if len(places) == 1 else None
        if known is None:
            ids = found_rows.ids_of(_found(rows), places)
            if ids.count() > MOST_ROWS:
                raise WhenceError(_TOO_MANY)
            known = identities(to, reading, ids)
        answers += _at(to, reading, known)
    if not any(is_followed(to, reading) for reading in shared):
        name = next(iter(shared)).dataset.name
        why = "its rows only say which rows of another table are left out"
        answers += [Dropped(row, name, "Join", why) for row in rows.frame.limit(MOST_ROWS).collect()]
    return Fates(answers)


def _found(rows: SqlLineage) -> Evaluation:
    return evaluation.backward(rows)


def _at(to: SqlLineage, reading: ReadingPlace, rows: Plan) -> list[Dropped]:
    seeds, shown = seeds_of(to, reading, rows)
    found = shown.limit(MOST_ROWS + 1).collect()
    if len(found) > MOST_ROWS:
        raise WhenceError(_TOO_MANY)
    left = {row[0]: Row(*shown.columns[1:])(*row[1:]) for row in found}
    name = reading.dataset.name
    answers: list[Dropped] = []
    level: Level | None = Level(to, reading, seeds, rows)
    while level is not None and left and not level.keeps_all:
        with working(f"looking at {level.places[-1].node.kind}"):
            above = level.above()
            top = level.reached(above)
            for place, reasons in _dropped(to, level, [n for n in left if n not in top]):
                answers += [Dropped(left.pop(n), name, place.node.kind, why) for n, why in reasons.items()]
            for place, reasons in _all_beaten(to, level, set(left)):
                answers += [Dropped(left.pop(n), name, place.node.kind, why) for n, why in reasons.items()]
        level = above
    return [*answers, *(Dropped(row, name, None, "") for row in left.values())]


def _dropped(to: SqlLineage, level: Level, gone: list[int]) -> Iterator[tuple[Place, dict[int, str]]]:
    """At which operator each of these seeds drops out, and why."""
    if not gone:
        return
    before = level.places[0]
    crossed = {place: found for place in level.places if (found := level.crossed(place)) is not None}
    # What is joined by a filter's condition alone is dropped by the filter, and is more than can be looked through.
    by_filter = any(place in crossed for place in level.places)
    may_drop = [
        (at, place)
        for at, place in enumerate(level.places)
        if at and place.node.kind not in KEEPING and not (by_filter and is_cross(place.node.plan))
    ]
    first = level.places[0]
    if first.node.children:  # an operator that looks its rows up may find that it has none of a seed's
        here = level.numbers(level.holding(first))
        lost = [n for n in gone if n not in here]
        if lost:
            yield first, _reasons(to, first, None, level.seeds.number, lost)
        gone = [n for n in gone if n in here]
    for at, place in may_drop:
        if not gone:
            return
        last = place is may_drop[-1][1]
        here = set() if last else level.numbers(level.holding(place))
        lost = [n for n in gone if n not in here]
        if lost and place in crossed:
            yield place, _unmet(to, level, place, crossed[place], lost)
        elif lost:
            before = level.places[at - 1]
            yield place, _reasons(to, place, level.holding(before), level.seeds.number, lost)
        gone = [n for n in gone if n in here]
    if gone:
        raise WhenceError(f"Where rows were lost between {before.node.text} and the operator above it is not known.")


def _all_beaten(to: SqlLineage, level: Level, left: set[int]) -> Iterator[tuple[Place, dict[int, str]]]:
    place = level.places[0]
    if place.node.kind == "Deduplicate" and left:
        rows = level.below_rows
        if rows is not None:
            beaten = _beaten(to, place, rows, level.holding(place), level.seeds.number)
            yield place, {n: why for n, why in beaten.items() if n in left}


def _reasons(to: SqlLineage, place: Place, before: Plan | None, number: Expr, gone: list[int]) -> dict[int, str]:
    plan, kind = place.node.plan, place.node.kind
    if kind == "Filter" and before is not None:
        return _failed_conditions(to, place, before, number, gone)
    if kind == "Join":
        option = plan.condition()
        tests = _conjuncts(option.get()) if option.isDefined() else []
        # That rows meet in the query of one captured write goes without saying (alike_writes.py).
        said = [test for test in tests if not all(_is_of_write(side) for side in to.c.children(test))]
        condition = readable(to.c.conjunction(said).sql()) if said else "any row"
        met = plan.joinType().toString() == "LeftAnti"
        text = f"a row of the other side meets {condition}" if met else f"no partner meets {condition}"
    elif kind in ("GlobalLimit", "Offset"):
        text = "it is not among the rows that are kept"
    elif kind == "Generate":
        text = "its array or map is empty"
    else:
        text = readable(place.node.text)
    return dict.fromkeys(gone, text)


def _is_of_write(expr: Expr) -> bool:
    return class_name(expr) == "AttributeReference" and expr.name() == PLAN


def _beaten(to: SqlLineage, place: Place, before: Plan, holding: Plan, number: Expr) -> dict[int, str]:
    """Duplicates in whose place another row was kept, and which one that is."""
    c = to.c
    own = c.output(place.node.plan)
    kept = {row[0]: tuple(row[1:]) for row in c.frame(c.project([number, *own], holding)).collect()}
    rows = {row[0]: tuple(row[1:]) for row in c.frame(c.project([number, *own], before)).collect()}
    keys = ", ".join(a.name() for a in c.items(place.node.plan.keys()))
    names = [a.name() for a in own]
    return {
        n: f"of the rows with the same {keys}, {_named(names, kept[n])} is kept"
        for n, row in rows.items()
        if n in kept and repr(row) != repr(kept[n])
    }


def _winners(to: SqlLineage, place: Place, part: Expr, before: Plan, number: Expr, gone: list[int]) -> dict[int, str]:
    """Where a filter keeps the first row of each partition of a window (row_number() = 1): which row that is."""
    c = to.c
    window = _numbering(c, place.node, c.references(part))
    if window is None:
        return {}
    below = place.node.children[0]
    own = c.output(below.plan)
    names = [a.name() for a in own]
    keys = c.items(window.plan.partitionSpec())
    known = {id_of(a) for a in own}
    if any(not c.references(key) <= known for key in keys):
        return {}  # what it is partitioned by is not carried up to the filter
    asked = [c.alias(key, f"whence_of{n}") for n, key in enumerate(keys)]
    seeds = c.filter(c.one_of(number, gone) or c.true, c.project([number, *asked], before))
    same = [c.same(key, name.toAttribute()) for key, name in zip(keys, asked, strict=True)]
    first = c.filter(part, below.plan)
    found = c.join(first, seeds, "inner", c.conjunction(same) if same else None)
    rows = c.frame(c.project([number, *own], found)).collect()
    return {row[0]: f"in its place {_named(names, row[1:])} is kept" for row in rows}


def _numbering(c: Catalyst, node: Node, referenced: set[int]) -> Node | None:
    """The window below a filter whose numbers of rows its condition is about."""
    below = node.children[0]
    while below.kind in ("Project", *operators.LOOKED_THROUGH):
        below = below.children[0]
    if below.kind != "Window":
        return None
    numbers = {
        id_of(e)
        for e in c.items(below.plan.windowExpressions())
        if class_name(e.child().windowFunction()) in ("RowNumber", "Rank", "DenseRank")
    }
    return below if referenced and referenced <= numbers else None


def _named(names: list[str], values: Sequence[object]) -> str:
    shown = ", ".join(f"{name}={value!r}" for name, value in zip(names, values, strict=True))
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def _failed_conditions(to: SqlLineage, place: Place, before: Plan, number: Expr, gone: list[int]) -> dict[int, str]:
    """Each part of the filter's AND, tried on the rows that came to it."""
    c = to.c
    parts = _conjuncts(place.node.plan.condition())
    closest = _closest(to, c.filter(c.one_of(number, gone) or c.true, before), number, parts) or {}
    reasons = {n: " and ".join(f"{text} is not true" for text in failed) for n, failed in closest.items()}
    for part in parts:
        for n, winner in _winners(to, place, part, before, number, gone).items():
            if readable(part.sql()) in reasons.get(n, ""):
                reasons[n] += f": {winner}"
    return {n: reasons.get(n, readable(place.node.text)) for n in gone}


def _closest(to: SqlLineage, rows: Plan, number: Expr, parts: Sequence[Expr]) -> dict[int, list[str]] | None:
    """Which parts of a condition are not true of each seed; None where too many rows hold them.

    A row may be behind several (a window's, a join's): the one that came closest to being kept tells."""
    c = to.c
    tests = [c.alias(part, f"p{i}") for i, part in enumerate(parts)]
    told = c.frame(c.taken(c.limit(_MOST_LOOKED_AT + 1, c.project([number, *tests], rows)))).collect()
    if len(told) > _MOST_LOOKED_AT:
        return None
    closest: dict[int, list[str]] = {}
    for row in told:
        failed = [readable(part.sql()) for part, value in zip(parts, row[1:], strict=True) if value is not True]
        if row[0] not in closest or len(failed) < len(closest[row[0]]):
            closest[row[0]] = failed
    return closest


def _unmet(to: SqlLineage, level: Level, place: Place, crossed: Crossed, gone: list[int]) -> dict[int, str]:
    """The same where tables are joined by the filter's condition alone: table by table, each by the part of the
    condition that ties it to those before, until a part is not true of any rows that go together."""
    c, number = to.c, level.seeds.number
    left = _conjuncts(place.node.plan.condition())
    others = list(crossed.others)
    rows = crossed.seeds
    met: list[Expr] = []
    tie: Expr | None = None
    reasons: dict[int, str] = {}
    while True:
        have = {id_of(a) for a in c.output(rows)}
        parts = [part for part in left if c.references(part) <= have]
        failed = _closest(to, c.filter(c.conjunction(met), rows) if met else rows, number, parts)
        if failed is None:
            break
        for n in [n for n in gone if n not in reasons]:
            if failed.get(n):
                reasons[n] = " and ".join(f"{text} is not true" for text in failed[n])
            elif n not in failed and tie is not None:
                reasons[n] = f"no partner meets {readable(tie.sql())}"
        left = [part for part in left if not c.references(part) <= have]
        found = next(((part, table) for part in left for table in others if _ties(c, part, have, table)), None)
        if found is None or len(reasons) == len(gone):
            break
        tie, table = found
        met += [*parts, tie]
        left = [part for part in left if part is not tie]
        others = [other for other in others if other is not table]
        rows = c.join(crossed.constants if rows is crossed.seeds else rows, table, "inner", None)
    return {n: reasons.get(n, readable(place.node.text)) for n in gone}


def _ties(c: Catalyst, part: Expr, have: set[int], table: Plan) -> bool:
    """Whether a part of a condition is an equality of what is there and one more table."""
    needed = c.references(part)
    there = {id_of(a) for a in c.output(table)}
    return class_name(part) in ("EqualTo", "EqualNullSafe") and bool(needed & have) and needed - have <= there


def _conjuncts(condition: Expr) -> list[Expr]:
    if class_name(condition) != "And":
        return [condition]
    return _conjuncts(condition.left()) + _conjuncts(condition.right())
