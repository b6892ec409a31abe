"""The smallest set of source rows on which a query still fails: delta debugging, over the witnesses only.

Plain delta debugging halves the whole input. The lineage of one failing output row holds all that can matter, and is
mostly a tiny part of it (as BigSift showed for Titian); it is taken once, and each test runs the query over a few of
those rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from whence.debug.trace import Trace
from whence.model import WhenceError
from whence.sql import Node, ReadingPlace, SqlLineage, evaluation, rebuild
from whence.sql.catalyst import Plan

if TYPE_CHECKING:
    from whence.session import Session

_POSITION = "whence_position"
Fails = Callable[[list[Row]], bool]


class DoesNotFail(WhenceError):
    pass


@dataclass(frozen=True)
class Minimal:
    """`sources`: rows of each source, all of which are needed for the failure."""

    sources: Mapping[str, list[Row]]
    rows: list[Row]  # what the query gives on them
    witnesses: int  # how many rows the failing output came from
    tests: int  # how often the query was run to find them

    @property
    def size(self) -> int:
        return sum(len(rows) for rows in self.sources.values())


def minimize(session: Session, df: DataFrame, fails: Fails) -> Minimal:
    """`fails(rows)` says whether these result rows show the fault."""
    rows = df.collect()
    if not fails(rows):
        raise DoesNotFail("fails(rows) is not true for the rows of this DataFrame, so there is nothing to minimise.")
    alone = next((row for row in rows if fails([row])), None)
    asked = df if alone is None else _only(df, alone)
    return _Minimizing(session, asked, fails).run()


def _only(df: DataFrame, row: Row) -> DataFrame:
    chosen = F.lit(True)
    for name, value in zip(df.columns, row, strict=True):
        if not isinstance(value, list | dict | Row):
            chosen = chosen & F.col(f"`{name}`").eqNullSafe(F.lit(value))
    return df.where(chosen)


class _Minimizing:
    def __init__(self, session: Session, asked: DataFrame, fails: Fails) -> None:
        self._fails = fails
        self._trace: Trace = session.backward(asked)
        self._lineage: SqlLineage = self._trace._lineage
        self._c = self._lineage.c
        self._kept: dict[int, tuple[ReadingPlace, DataFrame, list[Any]]] = {}
        self._known: dict[frozenset[tuple[int, int]], bool] = {}
        self._frames: list[DataFrame] = []
        self.tests = 0

    def run(self) -> Minimal:
        items: list[tuple[int, int]] = []
        for place in self._lineage.readings:
            c = self._c
            ids = self._trace._ids_of([place])
            leaf = evaluation.leaf_rows(c, place, ids, "leftsemi")
            output = c.output(leaf)
            kept = c.materialise(c.extend(leaf, [c.alias(c.position(), _POSITION)]))
            positions = [row[0] for row in kept.select(F.col(_POSITION)).collect()]
            self._kept[place.number] = (place, kept, output)
            items += [(place.number, position) for position in positions]
        if not self._failing(items):
            raise DoesNotFail(
                "On the witnesses alone the query does not fail; fails() must judge the rows themselves, not how many "
                "there are."
            )
        least = _ddmin(items, self._failing)
        result = self._query(least).collect()
        return Minimal(self._rows_of(least), result, len(items), self.tests)

    def _failing(self, items: Sequence[tuple[int, int]]) -> bool:
        key = frozenset(items)
        if key not in self._known:
            self.tests += 1
            self._known[key] = bool(self._fails(self._query(items).collect()))
        return self._known[key]

    def _leaf(self, number: int, items: Sequence[tuple[int, int]]) -> Plan:
        c = self._c
        _, kept, output = self._kept[number]
        positions = [position for n, position in items if n == number]
        plan = c.plan_of(kept.where(F.col(_POSITION).isin(positions) if positions else F.lit(False)))
        return c.project(output, plan)

    def _query(self, items: Sequence[tuple[int, int]]) -> DataFrame:
        leaves = {place.leaf: number for number, (place, _, _) in self._kept.items()}

        def replace(node: Node) -> Plan | None:
            return self._leaf(leaves[node], items) if node in leaves else None

        return self._c.frame(rebuild(self._c, self._lineage.tree, replace))

    def _rows_of(self, items: Sequence[tuple[int, int]]) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for name, places in self._trace._names.items():
            rows: list[Row] = []
            for place in places:
                rows += self._c.frame(self._leaf(place.number, items)).collect()
            found[name] = list(dict.fromkeys(rows)) if len(places) > 1 else rows
        return found


def _ddmin(items: list[tuple[int, int]], failing: Callable[[Sequence[tuple[int, int]]], bool]) -> list[tuple[int, int]]:
    """Zeller and Hildebrandt's ddmin: no single item of the answer can be left out."""
    parts = 2
    while len(items) >= 2:
        size = -(-len(items) // parts)
        pieces = [items[start : start + size] for start in range(0, len(items), size)]
        smaller = next((piece for piece in pieces if failing(piece)), None)
        if smaller is not None:
            items, parts = smaller, 2
            continue
        rest = None
        if parts > 2:
            rests = ([i for other in pieces if other is not piece for i in other] for piece in pieces)
            rest = next((r for r in rests if failing(r)), None)
        if rest is not None:
            items, parts = rest, max(parts - 1, 2)
        elif parts >= len(items):
            break
        else:
            parts = min(len(items), 2 * parts)
    return items
