"""Where given source rows dropped out of a query, and by which condition or missing partner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from whence.model import WhenceError, operators
from whence.model.html import html_table
from whence.model.text import readable, shown, visible
from whence.progress import working
from whence.sql import Node, Place, ReadingPlace, SqlLineage, evaluation
from whence.sql.catalyst import Catalyst, Expr, Plan, class_name, id_of
from whence.sql.follow import seeds_of, way_up
from whence.sql.matching import matches, names_of

# More rows than this are not a question about rows; the answer comes to the driver.
MOST_ROWS = 1000
_SHOWN = 50
_LONGEST = 300


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
    found = evaluation.backward(rows)
    answers: list[Dropped] = []
    for reading, places in shared.items():
        ids = evaluation.ids_of(found, places)
        if ids.count() > MOST_ROWS:
            raise WhenceError(f"why_not tells up to {MOST_ROWS} rows one by one; ask about fewer rows.")
        answers += _at(to, reading, ids)
    return Fates(answers)


def _at(to: SqlLineage, reading: ReadingPlace, ids: DataFrame) -> list[Dropped]:
    c = to.c
    seeds, shown = seeds_of(c, reading, ids)
    left = {row[0]: Row(*shown.columns[1:])(*row[1:]) for row in shown.collect()}
    name = reading.dataset.name
    answers: list[Dropped] = []
    before: Plan | None = None
    for place, holding, number in way_up(to, reading, seeds):
        if not left:
            break
        if place.node.kind in operators.LOOKED_THROUGH:
            continue
        with working(f"looking at {place.node.kind}"):
            here = {row[0] for row in c.frame(c.distinct(c.project([number], holding))).collect()}
        gone = [n for n in left if n not in here]
        reasons = _reasons(to, place, before, number, gone) if gone else {}
        if place.node.kind == "Deduplicate" and before is not None:
            beaten = _beaten(to, place, before, holding, number)
            reasons |= beaten
            gone += [n for n in beaten if n in left]
        answers += [Dropped(left.pop(n), name, place.node.kind, reasons[n]) for n in gone]
        before = holding
    answers += [Dropped(row, name, None, "") for row in left.values()]
    return answers


def _reasons(to: SqlLineage, place: Place, before: Plan | None, number: Expr, gone: list[int]) -> dict[int, str]:
    plan, kind = place.node.plan, place.node.kind
    if kind == "Filter" and before is not None:
        return _failed_conditions(to, place, before, number, gone)
    if kind == "Join":
        option = plan.condition()
        condition = readable(option.get().sql()) if option.isDefined() else "any row"
        met = plan.joinType().toString() == "LeftAnti"
        text = f"a row of the other side meets {condition}" if met else f"no partner meets {condition}"
    elif kind in ("GlobalLimit", "Offset"):
        text = "it is not among the rows that are kept"
    elif kind == "Generate":
        text = "its array or map is empty"
    else:
        text = readable(place.node.text)
    return dict.fromkeys(gone, text)


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
    tests = [c.alias(part, f"p{i}") for i, part in enumerate(parts)]
    frame = c.frame(c.project([number, *tests], before))
    rows = frame.where(F.col(frame.columns[0]).isin(gone)).collect()
    reasons = {}
    for row in rows:
        failed = [readable(part.sql()) for part, value in zip(parts, row[1:], strict=True) if value is not True]
        reasons[row[0]] = " and ".join(f"{text} is not true" for text in failed)
    for part in parts:
        for n, winner in _winners(to, place, part, before, number, gone).items():
            if readable(part.sql()) in reasons.get(n, ""):
                reasons[n] += f": {winner}"
    return {n: reasons.get(n, readable(place.node.text)) for n in gone}


def _conjuncts(condition: Expr) -> list[Expr]:
    if class_name(condition) != "And":
        return [condition]
    return _conjuncts(condition.left()) + _conjuncts(condition.right())
