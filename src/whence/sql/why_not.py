"""Where given source rows dropped out of a query, and by which condition or missing partner."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from whence.model import WhenceError, operators
from whence.model.text import readable, shown, visible
from whence.progress import working
from whence.sql import Place, ReadingPlace, SqlLineage, evaluation
from whence.sql.catalyst import Expr, Plan, class_name
from whence.sql.follow import seeds_of, way_up
from whence.sql.matching import matches, names_of

# More rows than this are not a question about rows; the answer comes to the driver.
MOST_ROWS = 1000


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


def why_not(rows: SqlLineage, to: SqlLineage) -> tuple[Dropped, ...]:
    with to.c.quietly():
        return _why_not(rows, to)


def _why_not(rows: SqlLineage, to: SqlLineage) -> tuple[Dropped, ...]:
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
    return tuple(answers)


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
    return {n: reasons.get(n, readable(place.node.text)) for n in gone}


def _conjuncts(condition: Expr) -> list[Expr]:
    if class_name(condition) != "And":
        return [condition]
    return _conjuncts(condition.left()) + _conjuncts(condition.right())
