"""Datasets and their versions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from whence.serve.cursors import Cursors
from whence.serve.view import Json, View
from whence.store.rows import moment
from whence.store.schema import aliases, versions
from whence.store.schema import datasets as datasets_table

_CHUNK = 500


def datasets(
    view: View,
    kind: str | None = None,
    namespace: str | None = None,
    dropped: bool | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Json:
    cursors = Cursors(view.service.secret, "datasets", kind, namespace, dropped)
    after = cursors.read(cursor)
    snapshot = view.snapshot

    def name(number: int) -> tuple[str, str]:
        known = snapshot.datasets[number]
        return known.namespace, known.name

    place = 0 if after is None else bisect_right(snapshot.order, (after[0], after[1]), key=name)
    found: list[int] = []
    for number in snapshot.order[place:]:
        known = snapshot.datasets[number]
        if kind is not None and known.kind != kind:
            continue
        if namespace is not None and known.namespace != namespace:
            continue
        if dropped is not None and (known.dropped is not None) != dropped:
            continue
        if not view.sees(number):
            continue
        found.append(number)
        if len(found) > limit:
            break
    more = len(found) > limit
    found = found[:limit]
    items = dataset_items(view, found)
    return {"items": items, "next": cursors.write(list(name(found[-1]))) if more else None}


def dataset_items(view: View, numbers: Sequence[int]) -> list[Json]:
    query = sa.select(
        datasets_table.c.id, datasets_table.c.version, datasets_table.c.created, datasets_table.c.dropped,
        versions.c.columns,
    ).outerjoin(
        versions, (versions.c.dataset == datasets_table.c.id) & (versions.c.number == datasets_table.c.version)
    )  # fmt: skip
    rows: dict[int, Any] = {}
    with view.catalog.reading() as connection:
        for first in range(0, len(numbers), _CHUNK):
            chunk = numbers[first : first + _CHUNK]
            rows.update({row.id: row for row in connection.execute(query.where(datasets_table.c.id.in_(chunk)))})
    return [
        {
            **view.ref(number),
            "version": rows[number].version,
            "created": moment(rows[number].created),
            "dropped": moment(rows[number].dropped),
            "columns": columns_of(rows[number].columns),
        }
        for number in numbers
        if number in rows
    ]


def columns_of(held: Any) -> list[Json]:
    return [{"name": column[0], "type": column[1]} for column in held or ()]


def dataset(view: View, name: str, namespace: str | None = None, as_of: datetime | None = None) -> Json:
    number = view.find(namespace, name, as_of)
    (item,) = dataset_items(view, [number])
    with view.catalog.reading() as connection:
        if as_of is not None:
            query = sa.select(versions).where(versions.c.dataset == number, versions.c.at <= as_of.timestamp())
            then = connection.execute(query.order_by(versions.c.number.desc()).limit(1)).first()
            item["version"] = 0 if then is None else then.number
            item["columns"] = [] if then is None else columns_of(then.columns)
            item["dropped"] = moment(then.at) if then is not None and then.how == "drop" else None
        names = connection.execute(
            sa.select(aliases.c.namespace, aliases.c.name).where(aliases.c.dataset == number).order_by(aliases.c.id)
        )
        told = dict.fromkeys((row.namespace, row.name) for row in names)
    item["aliases"] = [{"namespace": pair[0], "name": pair[1]} for pair in told]
    return item


def dataset_versions(
    view: View, name: str, namespace: str | None = None, limit: int = 100, cursor: str | None = None
) -> Json:
    number = view.find(namespace, name)
    cursors = Cursors(view.service.secret, "versions", number)
    before = cursors.read(cursor)
    query = sa.select(versions).where(versions.c.dataset == number).order_by(versions.c.number.desc())
    if before is not None:
        query = query.where(versions.c.number < before[0])
    with view.catalog.reading() as connection:
        rows = connection.execute(query.limit(limit + 1)).all()
    items = [
        {
            "number": row.number,
            "how": row.how,
            "at": moment(row.at),
            "run": row.run,
            "external": row.external,
            "columns": columns_of(row.columns),
        }
        for row in rows[:limit]
    ]
    return {"items": items, "next": cursors.write([rows[limit - 1].number]) if len(rows) > limit else None}
