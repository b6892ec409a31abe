"""Makes the plain picture of a trace, and saves it where it outlives the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from whence.model.picture import FIRST_ROWS, Picture, PictureSource, PictureStep, Question, plain
from whence.model.text import readable
from whence.progress import working

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from whence.debug.trace import Trace
    from whence.store.catalog import Catalog


PLACE = "place"
"""The column that says on which line of which file a witness stands."""


def save(trace: Trace, catalog: Catalog, name: str | None = None) -> str:
    """Write the trace down; the id by which the server and `whence` know it."""
    picture = picture_of(trace, catalog)
    return catalog.traces.save(picture, name, Question(trace.direction))


def picture_of(
    trace: Trace,
    catalog: Catalog,
    most: int = FIRST_ROWS,
    said: Callable[[float], None] = lambda share: None,
) -> Picture:
    """`said` hears how much of the work is done, from 0 to 1."""
    with working("counting the rows on the way"):
        counts = trace.step_counts()
    said(0.4)
    steps = tuple(
        PictureStep(step.number, step.operator, readable(step.text), step.depth, count)
        for step, count in zip(trace.steps, counts, strict=True)
    )
    sources: list[PictureSource] = []
    witnesses = trace.witness_counts
    for number, (source, count) in enumerate(witnesses.items()):
        with working(f"reading the first witnesses of {source}"):
            rows, lines = trace.first_placed(source, most) if count else ([], [])
        namespace, name, kind = dataset_named(catalog, trace.full_name(source))
        columns, first = columns_of(trace.sources[source]), plain_rows(rows)
        if lines and PLACE not in dict(columns):
            columns = (*columns, (PLACE, "string"))
            first = tuple((*row, line) for row, line in zip(first, lines, strict=True))
        sources.append(PictureSource(number, namespace, name, kind, count, columns, first))
        said(0.4 + 0.5 * (number + 1) / len(witnesses))
    return Picture(trace.exact, trace.notes, trace.widened, trace.ended, steps, tuple(sources))


def columns_of(frame: DataFrame) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.dataType.simpleString()) for field in frame.schema.fields)


def plain_rows(rows: list[Row] | list[tuple[Any, ...]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(plain(value) for value in row) for row in rows)


def dataset_named(catalog: Catalog, name: str) -> tuple[str, str, str]:
    """Namespace, name and kind of the dataset that a query calls so, as the catalogue knows it if it does."""
    from whence.store.finding import meant

    clean = name.removeprefix("spark_catalog.")
    clean = clean.removeprefix("file://").removeprefix("file:") if clean.startswith("file:") else clean
    with catalog.reading() as connection:
        found = meant(connection, None, clean, None)
    if len(found) == 1:
        namespace, known = next(iter(found.values()))
        return namespace, known, catalog.dataset((namespace, known)).kind
    return ("file", clean, "path") if clean.startswith("/") else ("spark", clean, "table")
