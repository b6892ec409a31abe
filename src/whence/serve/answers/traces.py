"""Traces: saved ones, and questions that wait. One that touches what the caller does not see is masked."""

from __future__ import annotations

from typing import Any

from whence.model.picture import SAMPLE, Question
from whence.serve.cursors import Cursors
from whence.serve.problems import forbidden, not_found
from whence.serve.view import Json, View
from whence.store.traces import SavedTrace

_BATCH = 200
MISSING = "There is no trace of this id."


def traces(view: View, limit: int = 100, cursor: str | None = None) -> Json:
    """Newest first."""
    cursors = Cursors(view.service.secret, "traces")
    after = cursors.read(cursor)
    found: list[Json] = []
    last: list[Any] = []
    while True:
        batch = view.catalog.traces.list(_BATCH, after)
        for one in batch:
            if not is_known(view, one):
                continue
            if len(found) == limit:
                return {"items": found, "next": cursors.write(last)}
            found.append(trace_item(view, one))
            last = [one.asked.timestamp(), one.id]
        if len(batch) < _BATCH:
            return {"items": found, "next": None}
        after = [batch[-1].asked.timestamp(), batch[-1].id]


def trace(view: View, id: str) -> Json:
    return trace_item(view, _one(view, id))


def _one(view: View, id: str) -> SavedTrace:
    found = None if "\x00" in id else view.catalog.traces.get(id)
    if found is None or not is_known(view, found):
        raise not_found(MISSING)
    return found


def _datasets(one: SavedTrace) -> set[tuple[str, str]]:
    """Everything that a trace is about."""
    question = one.question
    found = set() if one.picture is None else {(source.namespace, source.name) for source in one.picture.sources}
    if question.name is not None:
        found.add((question.namespace or "", question.name))
    if question.to is not None:
        found.add(question.to)
    return found


def _visible(view: View, pair: tuple[str, str]) -> bool:
    return "masked" not in view.named_ref(*pair, "")


def is_known(view: View, one: SavedTrace) -> bool:
    return view.sees_all or any(_visible(view, pair) for pair in _datasets(one))


def is_open(view: View, one: SavedTrace) -> bool:
    return view.sees_all or all(_visible(view, pair) for pair in _datasets(one))


def trace_item(view: View, one: SavedTrace) -> Json:
    told = is_open(view, one)
    picture, question = one.picture, one.question
    steps = [
        {
            "number": step.number,
            "operator": step.operator,
            "text": step.text if told else None,
            "depth": step.depth,
            "rows": step.rows if told else None,
        }
        for step in (picture.steps if picture is not None else ())
    ]
    sources = [
        {
            "number": source.number,
            "dataset": view.named_ref(source.namespace, source.name, source.kind),
            "rows": source.rows if told else None,
            "columns": [{"name": c[0], "type": c[1]} for c in source.columns] if told else [],
        }
        for source in (picture.sources if picture is not None else ())
    ]
    asked: Json = {
        "question": question.question,
        "namespace": question.namespace if told else None,
        "name": question.name if told else None,
        "where": question.where if told else None,
        "to": {"namespace": question.to[0], "name": question.to[1]} if told and question.to else None,
        "limit": question.limit if told else None,
    }
    item: Json = {
        "id": one.id,
        "name": one.name if told else None,
        "status": one.status,
        "progress": one.progress,
        "question": asked,
        "asked": one.asked,
        "finished": one.finished,
        "exact": None if picture is None else picture.exact,
        "notes": list(picture.notes) if picture is not None and told else [],
        "error": one.error if told else None,
        "steps": steps,
        "sources": sources,
    }
    return item if told else {**item, "masked": True}


def rows(view: View, id: str, source: int, limit: int = 100, cursor: str | None = None) -> Json:
    one = _one(view, id)
    held = {s.number: s for s in one.picture.sources} if one.picture is not None else {}
    if source not in held:
        raise not_found("The trace has no source of this number.")
    asked = held[source]
    ref = view.named_ref(asked.namespace, asked.name, asked.kind)
    may = "masked" not in ref and view.reads_rows(ref["namespace"], ref["name"])
    if not is_open(view, one) or not may:
        raise forbidden("Reading rows of this dataset needs the right 'rows' on it.")
    cursors = Cursors(view.service.secret, "rows", id, source)
    after = cursors.read(cursor)
    first = 0 if after is None else int(after[0])
    found = view.catalog.traces.rows(id, source, first, limit + 1)
    return {
        "columns": [{"name": c[0], "type": c[1]} for c in asked.columns],
        "items": found[:limit],
        "next": cursors.write([first + limit]) if len(found) > limit else None,
    }


def ask(
    view: View,
    question: str,
    name: str,
    namespace: str | None = None,
    where: str | None = None,
    to: tuple[str | None, str] | None = None,
    limit: int | None = None,
) -> Json:
    """A question that waits for a session."""
    known = view.known(view.find(namespace, name))
    other = None
    if to is not None:
        target = view.known(view.find(*to))
        other = (target.namespace, target.name)
    if question == SAMPLE and not view.reads_rows(known.namespace, known.name):
        raise forbidden("A sample holds rows, and reading rows of this dataset needs the right 'rows' on it.")
    asked = Question(question, known.namespace, known.name, where, other, limit)
    number = view.catalog.traces.ask(asked, view.caller.name)
    return trace(view, number)
