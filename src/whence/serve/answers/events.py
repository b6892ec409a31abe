"""OpenLineage events: in, and out again."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa

from whence.model import COMPLETED, FAILED, Run
from whence.serve import openlineage
from whence.serve.answers.runs import is_open, touched_by
from whence.serve.cursors import Cursors
from whence.serve.problems import forbidden
from whence.serve.view import Json, View
from whence.store.finding import meant
from whence.store.rows import run_of
from whence.store.schema import runs

MASKED = "masked"
_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_APPLICATION = "application"


def take(view: View, events: Sequence[Mapping[str, Any]]) -> int:
    """Write events down, all or none; how many there were."""
    for event in events:
        for namespace, name in named_in(event):
            if not view.sight.sees(namespace, name):
                raise forbidden("An event names a dataset that this caller may not see; nothing was written.")
    openlineage.read(view.catalog, [event if view.sees_all else _without_hidden(view, event) for event in events])
    return len(events)


def named_in(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every dataset that an event names, in whichever place."""
    for dataset in (*(event.get("inputs") or ()), *(event.get("outputs") or ())):
        yield dataset["namespace"], dataset["name"]
        facets = dataset.get("facets") or {}
        for other in (facets.get("symlinks") or {}).get("identifiers") or ():
            yield other["namespace"], other["name"]
        lineage = facets.get("columnLineage") or {}
        fields = [field.get("inputFields") or () for field in (lineage.get("fields") or {}).values()]
        for inputs in (*fields, lineage.get("dataset") or ()):
            for given in inputs:
                yield given["namespace"], given["name"]


def _without_hidden(view: View, event: Mapping[str, Any]) -> Mapping[str, Any]:
    """A symlink must not give a hidden dataset another name, whichever of its names is given."""
    event = copy.deepcopy(dict(event))
    with view.catalog.reading() as connection:
        for dataset in (*(event.get("inputs") or ()), *(event.get("outputs") or ())):
            links = (dataset.get("facets") or {}).get("symlinks") or {}
            if links.get("identifiers"):
                links["identifiers"] = [
                    one
                    for one in links["identifiers"]
                    if all(
                        view.sight.sees(*names)
                        for names in meant(connection, one["namespace"], one["name"], None).values()
                    )
                ]
    return event


def events(view: View, since: datetime | None = None, limit: int = 100, cursor: str | None = None) -> Json:
    """Oldest first, each run's START and then how it ended."""
    cursors = Cursors(view.service.secret, "events", since)
    after = cursors.read(cursor)
    rows = _told(view, since, after, limit + 1)
    items = list(_events(view, rows[:limit]))
    last = rows[limit - 1] if len(rows) > limit else None
    return {"items": items, "next": None if last is None else cursors.write([last.at, last.id, last.part])}


def _told(view: View, since: datetime | None, after: Sequence[Any] | None, limit: int) -> list[Any]:
    """(at, id, part) of events: part 0 is a run's start, part 1 its end, or that it goes on."""
    start = sa.func.coalesce(runs.c.started, runs.c.ended, 0.0)
    mine = runs.c.kind != _APPLICATION
    both = sa.union_all(
        sa.select(start.label("at"), runs.c.id.label("id"), sa.literal(0).label("part")).where(mine),
        sa.select(sa.func.coalesce(runs.c.ended, start), runs.c.id, sa.literal(1)).where(mine),
    ).subquery()
    at, number, part = both.c.at, both.c.id, both.c.part
    query = sa.select(at, number, part).order_by(at, number, part).limit(limit)
    if since is not None:
        query = query.where(at >= since.timestamp())
    if after is not None:
        later = (number > after[1]) | ((number == after[1]) & (part > after[2]))
        query = query.where((at > after[0]) | ((at == after[0]) & later))
    with view.catalog.reading() as connection:
        return list(connection.execute(query))


def _events(view: View, rows: Sequence[Any]) -> Iterator[Json]:
    ids = list(dict.fromkeys(row.id for row in rows))
    held: dict[str, Run] = {}
    with view.catalog.reading() as connection:
        for first in range(0, len(ids), 500):
            chunk = ids[first : first + 500]
            for row in connection.execute(sa.select(runs).where(runs.c.id.in_(chunk))):
                held[row.id] = run_of(row)
    touched = touched_by(view, ids)
    for row in rows:
        if row.id not in held:
            continue
        run, (inputs, outputs) = held[row.id], touched[row.id]
        at = datetime.fromtimestamp(row.at, timezone.utc)
        if view.sees_all or is_open(view, [*inputs, *outputs]):
            yield openlineage.event_of(view.catalog, run, row.part == 1, at)
        else:
            yield _masked(view, run, row.part == 1, at, inputs, outputs)


def _masked(view: View, run: Run, is_end: bool, at: datetime, inputs: list[int], outputs: list[int]) -> Json:
    ends = {COMPLETED: "COMPLETE", FAILED: "FAIL"}

    def told(numbers: list[int]) -> list[Json]:
        refs = view.refs(numbers) if is_end else []
        return [
            {"namespace": MASKED, "name": ref["id"]}
            if "masked" in ref
            else {"namespace": ref["namespace"], "name": ref["name"]}
            for ref in refs
        ]

    return {
        "eventTime": at.isoformat(),
        "eventType": ends.get(run.status, "RUNNING") if is_end else "START",
        "producer": openlineage.PRODUCER,
        "schemaURL": _SCHEMA,
        "run": {"runId": openlineage.run_uuid(run.id)},
        "job": {"namespace": openlineage.NAMESPACE, "name": MASKED},
        "inputs": told(inputs),
        "outputs": told(outputs),
    }
