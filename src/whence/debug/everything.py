"""Everything that was made from some rows: the question of erasure, over all tables that the catalogue knows.

The catalogue says which datasets were made from the one asked about, by whatever lies between; of each the rows that
the asked ones touched are counted. Where that cannot be told it is said, and why: a table of which nothing is known is
not a table without such rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from whence.debug.named import frame_by_name
from whence.model import UnknownDataset, WhenceError
from whence.model.catalog import Dataset
from whence.model.text import visible
from whence.progress import working

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from whence.debug.trace import Trace
    from whence.store.catalog import Catalog


class _Attached(Protocol):
    @property
    def spark(self) -> SparkSession: ...

    @property
    def catalog(self) -> Catalog: ...

    def forward(self, rows: Any, *, to: Any, where: str | None = None) -> Any: ...

    def lineage(self, df: DataFrame) -> Any: ...


@dataclass(frozen=True, eq=False)
class Touched:
    """One dataset made from the asked rows. `rows`: how many of its rows they touched; None if `why` that is not told.
    `trace`: the rows themselves."""

    dataset: Dataset
    degree: int
    rows: int | None
    exact: bool = True
    notes: tuple[str, ...] = ()
    why: str | None = None
    trace: Trace | None = None


class Everything:
    """All that is known to be made from some rows, nearest first."""

    def __init__(self, asked: str, found: tuple[Touched, ...]) -> None:
        self.asked = asked
        self.found = found

    @property
    def complete(self) -> bool:
        """Whether the rows of every dataset could be told."""
        return all(one.rows is not None and not one.notes for one in self.found)

    def __iter__(self) -> Iterator[Touched]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, name: str) -> Touched:
        known = [one for one in self.found if name in (one.dataset.name, one.dataset.name.rsplit("/", 1)[-1])]
        known = known or [one for one in self.found if one.dataset.name.rsplit(".", 1)[-1] == name]
        if len(known) != 1:
            names = ", ".join(one.dataset.name for one in self.found) or "nothing"
            raise KeyError(f"{name!r} is not one of what was made from these rows: {names}")
        return known[0]

    def __str__(self) -> str:
        if not self.found:
            return f"nothing that the catalogue knows was made from {visible(self.asked)}"
        lines = [f"made from {visible(self.asked)}:"]
        for one in self.found:
            if one.rows is None:
                told = f"NOT told: {visible(one.why or '')}"
            else:
                told = f"{one.rows:,} row{'' if one.rows == 1 else 's'}"
                told += "" if one.exact else ", at most"
            lines.append(f"{'  ' * one.degree}{visible(one.dataset.name)}: {told}")
            lines += [f"{'  ' * one.degree}- {visible(note)}" for note in one.notes]
        return "\n".join(lines)

    __repr__ = __str__


def everything(session: _Attached, rows: DataFrame | str, where: str | None) -> Everything:
    spark, catalog = session.spark, session.catalog
    frame = frame_by_name(spark, catalog, rows) if isinstance(rows, str) else rows
    frame = frame if where is None else frame.where(where)
    starts = [rows] if isinstance(rows, str) else _sources(session, frame)
    found: dict[Dataset, int] = {}
    for start in starts:
        try:
            edges = catalog.lineage(start, direction="forward")
        except UnknownDataset:
            continue
        for edge in edges:
            found[edge.target] = min(edge.depth or 1, found.get(edge.target, 1 << 30))
    touched = []
    for dataset, degree in sorted(found.items(), key=lambda item: (item[1], item[0].name)):
        with working(f"following the rows into {dataset.name}"):
            touched.append(_touched(session, frame, dataset, degree))
    return Everything(", ".join(starts) + (f" where {where}" if where else ""), tuple(touched))


def _sources(session: _Attached, frame: DataFrame) -> list[str]:
    lineage = session.lineage(frame)
    return list(dict.fromkeys(place.dataset.full_name for place in lineage.readings))


def _touched(session: _Attached, rows: DataFrame, dataset: Dataset, degree: int) -> Touched:
    if dataset.dropped is not None:
        return Touched(dataset, degree, None, why="it was dropped since")
    if dataset.kind not in ("table", "path", "view"):
        return Touched(dataset, degree, None, why=f"it is a {dataset.kind}, whose records cannot be read here")
    try:
        to = frame_by_name(session.spark, session.catalog, _readable(dataset))
        trace = session.forward(rows, to=to)
        return Touched(dataset, degree, trace.rows.count(), trace.exact, trace.notes, trace=trace)
    except WhenceError as why:
        return Touched(dataset, degree, None, why=str(why))
    except Exception as failed:  # Spark's own: the file is gone, the format is not there
        return Touched(dataset, degree, None, why=f"it cannot be read: {str(failed).strip().splitlines()[0]}")


def _readable(dataset: Dataset) -> str:
    if dataset.kind == "path" and dataset.namespace not in ("file", ""):
        return f"{dataset.namespace}{dataset.name}"
    return dataset.name
