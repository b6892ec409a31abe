"""Runs. One that touched a dataset which the caller does not see, or about which nothing is known, is masked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from whence.model.lineage import INPUT
from whence.serve.cursors import Cursors
from whence.serve.problems import not_found
from whence.serve.view import Json, View
from whence.store.rows import moment
from whence.store.schema import datasets, uses
from whence.store.schema import runs as runs_table

_CHUNK = 500
_LEAST = 200


def runs(
    view: View,
    status: str | None = None,
    kind: str | None = None,
    application: str | None = None,
    namespace: str | None = None,
    name: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Json:
    cursors = Cursors(view.service.secret, "runs", status, kind, application, namespace, name)
    after = cursors.read(cursor)
    query = sa.select(runs_table)
    for column, wanted in ((runs_table.c.status, status), (runs_table.c.kind, kind)):
        if wanted is not None:
            query = query.where(column == wanted)
    if application is not None:
        query = query.where(runs_table.c.application == application)
    if name is not None:
        number = view.find(namespace, name)
        touched = sa.select(uses.c.run).where(uses.c.dataset == number)
        query = query.where(runs_table.c.id.in_(touched))
    elif namespace is not None:
        touched = sa.select(uses.c.run).join(datasets, datasets.c.id == uses.c.dataset)
        query = query.where(runs_table.c.id.in_(touched.where(datasets.c.namespace == namespace)))
    found: list[Json] = []
    last: list[Any] = []
    for rows in _newest_first(view, query, after, max(limit + 1, _LEAST) if not view.sees_all else limit + 1):
        for row, item in zip(rows, items_of(view, rows), strict=True):
            if application is not None and item.get("masked"):
                continue
            if name is None and namespace is not None and not _is_in(item, namespace):
                continue
            if len(found) == limit:
                return {"items": found, "next": cursors.write(last)}
            found.append(item)
            last = [row.started, row.id]
    return {"items": found, "next": None}


def _is_in(item: Json, namespace: str) -> bool:
    """Whether the caller is told of a dataset there that the run touched."""
    return any(ref.get("namespace") == namespace for ref in (*item["inputs"], *item["outputs"]))


def _newest_first(view: View, query: sa.Select[Any], after: Sequence[Any] | None, size: int) -> Iterator[list[Any]]:
    """Chunks of runs; those without a time stand last."""
    started, number = runs_table.c.started, runs_table.c.id
    while after is None or after[0] is not None:
        dated = query.where(started.is_not(None)).order_by(started.desc(), number).limit(size)
        if after is not None:
            here = (started < after[0]) | ((started == after[0]) & (number > after[1]))
            dated = dated.where(started <= after[0], here)
        with view.catalog.reading() as connection:
            rows = list(connection.execute(dated))
        yield rows
        after = [None, ""] if len(rows) < size else [rows[-1].started, rows[-1].id]
    while True:
        undated = query.where(started.is_(None), number > after[1]).order_by(number).limit(size)
        with view.catalog.reading() as connection:
            rows = list(connection.execute(undated))
        yield rows
        if len(rows) < size:
            return
        after = [None, rows[-1].id]


def items_of(view: View, rows: Sequence[Any]) -> list[Json]:
    sides = touched_by(view, [row.id for row in rows])
    return [_item(view, row, *sides[row.id]) for row in rows]


def touched_by(view: View, ids: Sequence[str]) -> dict[str, tuple[list[int], list[int]]]:
    """The inputs and outputs of runs."""
    found: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    with view.catalog.reading() as connection:
        for first in range(0, len(ids), _CHUNK):
            chunk = ids[first : first + _CHUNK]
            query = sa.select(uses.c.run, uses.c.dataset, uses.c.role).where(uses.c.run.in_(chunk))
            for row in connection.execute(query):
                found[row.run][0 if row.role == INPUT else 1].append(row.dataset)
    return found


def is_open(view: View, touched: Iterable[int]) -> bool:
    """Whether what a run says of itself may be told."""
    touched = list(touched)
    return view.sees_all or (bool(touched) and all(view.sees(number) for number in touched))


def _item(view: View, row: Any, inputs: list[int], outputs: list[int]) -> Json:
    told: Json = {
        "id": row.id,
        "kind": row.kind,
        "status": row.status,
        "started": moment(row.started),
        "ended": moment(row.ended),
        "inputs": view.refs(inputs),
        "outputs": view.refs(outputs),
    }
    if not is_open(view, [*inputs, *outputs]):
        return {**told, "masked": True}
    return {
        **told,
        "name": row.name,
        "error": row.error,
        "application": row.application,
        "details": row.details,
    }


def run(view: View, id: str) -> Json:
    with view.catalog.reading() as connection:
        row = None
        if "\x00" not in id:
            row = connection.execute(sa.select(runs_table).where(runs_table.c.id == id)).first()
    if row is None:
        raise not_found("There is no run of this id.")
    (item,) = items_of(view, [row])
    if not item.get("masked"):
        item["operators"] = [
            {
                "id": operator.id,
                "name": operator.name,
                "kind": operator.kind,
                "inside": operator.inside,
                "inputs": list(operator.inputs),
                "strategy": operator.strategy,
                "details": dict(operator.details),
            }
            for operator in view.catalog.operators(id)
        ]
    return item
