"""What became of a row: its versions in a table that keeps ids of its rows, each with the commit behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from html import escape
from io import StringIO
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as F
from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from whence.model import WhenceError
from whence.model.text import visible
from whence.progress import working
from whence.spark.lakes import DELTA, Version
from whence.sql.blocks import ReadingPlace
from whence.sql.catalyst import Catalyst, Plan, class_name
from whence.sql.flow import SqlFlow, SqlRecords, equal_to
from whence.sql.lake_writes import made_by
from whence.sql.lineage import SqlLineage
from whence.sql.plans import NotRestored
from whence.sql.sources import FILE, ROW, identify
from whence.sql.tree import Node

MOST_ROWS = 100
_SHOWN = 5
_WIDTH = 120


@dataclass(frozen=True)
class RowVersion:
    """One version of a row: `row` is what it held from `version` on, which `operation` committed.

    `what`: "made" or "changed", or "found" where older versions of the table are not there any more. `sources`: the
    rows that the commit made it from, beside its former version, where the commit was captured; `note` says it if they
    are not known, or are more than this row's own."""

    row_id: int
    what: str
    version: int
    operation: str
    at: datetime | None
    row: Row
    sources: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    note: str | None = None


@dataclass(frozen=True)
class History:
    """The versions of some rows of a table: row by row, the oldest version first. `print` shows them as a tree."""

    table: str
    versions: tuple[RowVersion, ...]

    def __iter__(self) -> Iterator[RowVersion]:
        return iter(self.versions)

    def __len__(self) -> int:
        return len(self.versions)

    @property
    def rows(self) -> Mapping[int, tuple[RowVersion, ...]]:
        """The same by row id."""
        found: dict[int, tuple[RowVersion, ...]] = {}
        for one in self.versions:
            found[one.row_id] = (*found.get(one.row_id, ()), one)
        return found

    def __str__(self) -> str:
        out = StringIO()
        console = Console(file=out, width=_WIDTH, force_terminal=False, highlight=False, markup=False, emoji=False)
        for number, versions in self.rows.items():
            root = Tree(Text(f"{visible(self.table)}, row {number}"))
            for one in versions:
                branch = root.add(Text(_line(one)))
                for line in _below(one):
                    branch.add(Text(line))
            console.print(root)
        return out.getvalue().rstrip() or f"{visible(self.table)}: no rows"

    def _repr_html_(self) -> str:
        parts = ['<div class="whence-history" style="font-family: sans-serif; font-size: 90%">']
        for number, versions in self.rows.items():
            parts.append(f"<p><b>{escape(visible(self.table))}</b>, row {number}</p><ul>")
            for one in versions:
                below = "".join(f"<li><code>{escape(line)}</code></li>" for line in _below(one))
                parts.append(f"<li>{escape(_line(one))}<ul>{below}</ul></li>")
            parts.append("</ul>")
        return "".join((*parts, "</div>"))


def _line(one: RowVersion) -> str:
    at = "" if one.at is None else one.at.strftime(", %Y-%m-%d %H:%M:%S UTC")
    return f"version {one.version}: {one.what} by {visible(one.operation)}{at}: {_values(one.row)}"


def _below(one: RowVersion) -> list[str]:
    lines = []
    for name, rows in one.sources.items():
        lines += [f"from {visible(name)}: {_values(row)}" for row in rows[:_SHOWN]]
        if len(rows) > _SHOWN:
            lines.append(f"from {visible(name)}: and {len(rows) - _SHOWN:,} more")
    return [*lines, *([] if one.note is None else [visible(one.note)])]


def _values(row: Row) -> str:
    names = getattr(row, "__fields__", [str(i) for i in range(len(row))])
    return ", ".join(f"{visible(name)}={visible(value)}" for name, value in zip(names, row, strict=True))


def history(lineage: SqlLineage) -> History:
    """The versions of the table's rows behind a query that does not go through captured writes."""
    place = _table_of(lineage)
    c = lineage.c
    flow = SqlFlow(lineage)
    answer = flow.backward(flow.all())
    (records,) = [found for site, found in answer.found.items() if place in flow.places(site)]
    version = c.version_of(place.leaf.plan)
    assert version is not None
    with working("looking for the versions of these rows"):
        if records.count() > MOST_ROWS:
            raise WhenceError(
                f"w.history tells the versions of up to {MOST_ROWS} rows; these are {records.count():,}. Ask for fewer."
            )
        wanted = {int(number) for _, number in records.ids()}
        told = _Telling(c, version)
        found = told.versions(wanted)
    return History(version.shown, tuple(sorted(found, key=lambda one: (one.row_id, told.order[one.version]))))


def _table_of(lineage: SqlLineage) -> ReadingPlace:
    c = lineage.c
    places = {place.dataset.key: place for place in lineage.readings if c.version_of(place.leaf.plan) is not None}
    known = {key: place for key, place in places.items() if place.dataset.by_row_id}
    if len(known) == 1 and len(places) == 1:
        return next(iter(known.values()))
    if not places:
        raise WhenceError("w.history tells the versions of rows of Delta and Iceberg tables; this query reads none.")
    names = ", ".join(sorted(place.dataset.full_name for place in places.values()))
    if len(places) > 1:
        raise WhenceError(f"w.history tells the versions of rows of one table; this query reads {names}.")
    version = c.version_of(next(iter(places.values())).leaf.plan)
    assert version is not None
    setting = "'delta.enableRowTracking' = 'true'" if version.kind == DELTA else "'format-version' = '3'"
    raise WhenceError(
        f"{names} keeps no ids of its rows, so which row is which in another version cannot be told. It keeps them "
        f"after ALTER TABLE {names} SET TBLPROPERTIES ({setting})"
        + ("." if version.kind == DELTA else " and a first write to it.")
    )


class _Telling:
    def __init__(self, c: Catalyst, version: Version) -> None:
        self._c = c
        self._version = version
        # When each version came, by its place on the way back.
        self.order: dict[int, int] = {}

    def versions(self, rows: set[int]) -> list[RowVersion]:
        """From the version that is asked about back to where each row was made."""
        found: list[RowVersion] = []
        waiting: dict[int, set[int]] = {self._version.number: rows}
        while waiting:
            # Later ones first: a version is looked at once for all rows that come to it.
            number = next(iter(sorted(waiting, key=self._age, reverse=True)))
            wanted = waiting.pop(number)
            leaf = self._opened(number)
            if leaf is None:
                continue
            seen = self._read(leaf, wanted)
            for changed, some in _by_commit(seen).items():
                made = self._number_of(leaf, changed)
                if made is None:
                    found += [self._told(leaf, r, "found", number, seen[r][1]) for r in some]
                    continue
                commit = self._c.commit_of(leaf, made)
                before = None if commit is None else commit.before
                older = None if before is None or before <= -1 else self._opened(before)
                former = self._read(older, some) if older is not None else {}
                lost = older is None and before is not None
                for row in some:
                    what = "changed" if row in former else "found" if lost else "made"
                    found.append(self._told(leaf, row, what, made, seen[row][1]))
                if former and before is not None:
                    waiting.setdefault(before, set()).update(former)
        return found

    def _age(self, number: int) -> int:
        if self._version.kind == DELTA:
            return number
        leaf = self._opened(number)
        return -1 if leaf is None else int(self._c.sequence_of(leaf, number))

    def _opened(self, number: int) -> Plan | None:
        leaf = self._c.open_version(replace(self._version, number=number))
        if leaf is None or self._c.row_ids_of(leaf) is None or not self._c.has_its_files(leaf):
            return None
        return leaf

    def _read(self, leaf: Plan, rows: set[int]) -> dict[int, tuple[int, Row]]:
        """Of these rows that a version has: the commit that last changed each, and its values."""
        c = self._c
        told = identify(c, Node(leaf, class_name(leaf), []))
        frame = c.frame(told.plan).where(F.col(ROW).isin(*sorted(rows)))
        names = [str(a.name()) for a in told.columns]
        with c.quietly():
            return {int(row[ROW]): (int(row[FILE]), Row(*names)(*row[: len(names)])) for row in frame.collect()}

    def _number_of(self, leaf: Plan, changed: int) -> int | None:
        return changed if self._version.kind == DELTA else self._c.snapshot_numbered(leaf, changed)

    def _told(self, leaf: Plan, row: int, what: str, number: int, values: Row) -> RowVersion:
        c = self._c
        self.order.setdefault(number, self._age(number))
        commit = c.commit_of(leaf, number)
        operation = "an unknown commit" if commit is None else commit.operation
        at = None if commit is None or not commit.at else datetime.fromtimestamp(commit.at / 1000, timezone.utc)
        sources, note = self._sources(leaf, number, values) if what != "found" else ({}, _OLDER)
        return RowVersion(row, what, number, operation, at, values, sources, note)

    def _sources(self, leaf: Plan, number: int, values: Row) -> tuple[Mapping[str, tuple[Row, ...]], str | None]:
        """The rows that a captured commit made this one from, but for its own former version."""
        c = self._c
        try:
            query = c.frame(made_by(c, leaf, number))
        except NotRestored as why:
            return {}, f"from which rows is not known: {why}"
        lineage = SqlLineage(c, equal_to(c, query, [tuple(values)]), through=False)
        flow = SqlFlow(lineage)
        answer = flow.backward(flow.all())
        found: dict[str, tuple[Row, ...]] = {}
        for site, records in answer.found.items():
            version = c.version_of(flow.places(site)[0].leaf.plan)
            own = version is not None and version.table == self._version.table
            rows: list[Any] = [] if own or not isinstance(records, SqlRecords) else records.first_rows(None)
            if rows:
                found[site.name] = tuple(rows)
        with c.quietly():
            count = lineage.frame.count()
        notes = [*answer.widened, *([f"{count} equal rows were written: these are the sources of all"] * (count > 1))]
        return found, "; ".join(notes) or None


_OLDER = "older versions of the table are not there any more"


def _by_commit(seen: Mapping[int, tuple[int, Row]]) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for row, (changed, _) in seen.items():
        found.setdefault(changed, set()).add(row)
    return found
