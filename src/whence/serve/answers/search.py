"""Search: datasets, columns and runs whose names hold every word."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import sqlalchemy as sa

from whence.serve.answers.runs import is_open, touched_by
from whence.serve.cursors import Cursors
from whence.serve.view import Json, View
from whence.store.schema import runs
from whence.store.texts import DatasetTexts, folded

DATASET, COLUMN, RUN = "dataset", "column", "run"
_FIRST, _OTHER, _COLUMNS, _RUNS = range(4)
_BATCH = 101

Key = list[Any]


def search(view: View, q: str, type: str | None = None, limit: int = 100, cursor: str | None = None) -> Json:
    cursors = Cursors(view.service.secret, "search", q, type)
    after = cursors.read(cursor)
    words = [folded(word) for word in q.split()]
    found = list(islice(_all(view, q, words, type, after), limit + 1))
    items = [item for _, item in found[:limit]]
    return {"items": items, "next": cursors.write(found[limit - 1][0]) if len(found) > limit else None}


def _all(view: View, q: str, words: Sequence[bytes], type: str | None, after: Key | None) -> Iterator[tuple[Key, Json]]:
    """Items with the keys by which a list goes on after them."""
    part = -1 if after is None else after[0]
    if type in (None, DATASET):
        texts = view.service.texts(view.snapshot)
        named = set(texts.lines.ending(folded(q.strip())))
        if part <= _FIRST:
            first = _place(view, after) if part == _FIRST else 0
            yield from _datasets(view, _FIRST, (line for line in sorted(named) if line >= first))
        if part <= _OTHER:
            first = _place(view, after) if part == _OTHER else 0
            yield from _datasets(
                view, _OTHER, (line for line in texts.lines.matching(words, first) if line not in named)
            )
    if type in (None, COLUMN) and part <= _COLUMNS:
        yield from _columns(view, words, after if part == _COLUMNS else None)
    if type in (None, RUN):
        yield from _runs(view, words, after if part == _RUNS else None)


def _place(view: View, after: Key | None) -> int:
    """How many datasets stand before or at the one that was given last."""
    assert after is not None
    known = view.snapshot.datasets
    order = view.snapshot.order
    return bisect_right(order, (after[1], after[2]), key=lambda n: (known[n].namespace, known[n].name))


def _datasets(view: View, part: int, lines: Iterator[int]) -> Iterator[tuple[Key, Json]]:
    for line in lines:
        number = view.snapshot.order[line]
        if view.sees(number):
            known = view.snapshot.datasets[number]
            yield [part, known.namespace, known.name], _told(DATASET, view.ref(number))


def _columns(view: View, words: Sequence[bytes], after: Key | None) -> Iterator[tuple[Key, Json]]:
    snapshot = view.snapshot
    wanted = DatasetTexts.columns(snapshot, words)
    first = 0 if after is None else max(_place(view, after) - 1, 0)
    for number in snapshot.order[first:] if wanted else ():
        known = snapshot.datasets[number]
        if wanted.isdisjoint(known.columns) or not view.sees(number):
            continue
        for column in sorted(wanted.intersection(known.columns)):
            if after is not None and (known.namespace, known.name, column) <= tuple(after[1:]):
                continue
            key = [_COLUMNS, known.namespace, known.name, column]
            yield key, _told(COLUMN, view.ref(number), column)


def _runs(view: View, words: Sequence[bytes], after: Key | None) -> Iterator[tuple[Key, Json]]:
    start = None if after is None else (float("-inf") if after[1] is None else after[1], after[2])
    found = view.service.runs.matching(words, start)
    while some := list(islice(found, _BATCH)):
        ids = [run for _, run in some]
        with view.catalog.reading() as connection:
            query = sa.select(runs.c.id, runs.c.name, runs.c.status).where(runs.c.id.in_(ids))
            rows = {row.id: row for row in connection.execute(query)}
        touched = {} if view.sees_all else touched_by(view, ids)
        for started, run in some:
            inputs, outputs = touched.get(run, ([], []))
            if run not in rows or not is_open(view, [*inputs, *outputs]):
                continue  # its name is not given, so nobody may find it by that
            row = rows[run]
            told = {"id": row.id, "name": row.name, "status": row.status}
            yield [_RUNS, None if started == float("-inf") else started, run], _told(RUN, None, None, told)


def _told(type: str, dataset: Json | None, column: str | None = None, run: Json | None = None) -> Json:
    return {"type": type, "dataset": dataset, "column": column, "run": run}
