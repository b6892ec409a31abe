"""Diagnoses, types, entities and the audit."""

from __future__ import annotations

from dataclasses import asdict

from whence.serve.cursors import Cursors
from whence.serve.problems import forbidden, not_found
from whence.serve.view import Json, View
from whence.store.diagnoses import SavedDiagnosis


def diagnoses(view: View, limit: int = 100, cursor: str | None = None) -> Json:
    """Newest first."""
    cursors = Cursors(view.service.secret, "diagnoses")
    found = view.catalog.diagnoses.list(limit + 1, cursors.read(cursor))
    last = found[limit - 1] if len(found) > limit else None
    key = None if last is None or last.created is None else [last.created.timestamp(), last.id]
    return {"items": [_diagnosis(one) for one in found[:limit]], "next": None if key is None else cursors.write(key)}


def diagnosis(view: View, id: str) -> Json:
    return _diagnosis(_saved(view, id))


def diagnosis_runs(view: View, id: str, limit: int = 100, cursor: str | None = None) -> Json:
    """The runs that told a diagnosis, those that failed first."""
    cursors = Cursors(view.service.secret, f"runs of {id}")
    runs = sorted(_saved(view, id).runs, key=lambda run: run[1])
    after = cursors.read(cursor)
    first = 0 if after is None else int(after[0])
    items = [{"config": dict(config), "succeeded": succeeded} for config, succeeded in runs[first : first + limit]]
    more = first + limit < len(runs)
    return {"items": items, "next": cursors.write([first + limit]) if more else None}


def _saved(view: View, id: str) -> SavedDiagnosis:
    found = None if "\x00" in id else view.catalog.diagnoses.get(id)
    if found is None:
        raise not_found("There is no diagnosis of this id.")
    return found


def _diagnosis(one: SavedDiagnosis) -> Json:
    return {
        "id": one.id,
        "name": one.name,
        "created": one.created,
        "executions": one.executions,
        "parameters": dict(one.parameters),
        "causes": [
            {"conditions": [list(c) for c in cause.conditions], "status": cause.status, "confidence": cause.confidence}
            for cause in one.causes
        ],
    }


def types(view: View, limit: int = 100, cursor: str | None = None) -> Json:
    cursors = Cursors(view.service.secret, "types")
    after = cursors.read(cursor)
    known = view.catalog.entities.types()
    names = sorted(name for name in known if after is None or name > after[0])
    items = [
        {
            "name": name,
            "attributes": [asdict(attribute) for attribute in known[name].attributes],
            "supertypes": list(known[name].supertypes),
        }
        for name in names[:limit]
    ]
    return {"items": items, "next": cursors.write([names[limit - 1]]) if len(names) > limit else None}


def entities(view: View, type: str | None = None, limit: int = 100, cursor: str | None = None) -> Json:
    if not view.sees_all:
        raise forbidden("Entities may name any dataset: only callers who see everything may list them.")
    cursors = Cursors(view.service.secret, "entities", type)
    after = cursors.read(cursor)
    held = () if type is not None and "\x00" in type else view.catalog.entities.list(type)
    found = [e for e in held if after is None or (e.type, e.qualified_name) > (after[0], after[1])]
    items = [
        {"type": e.type, "qualified_name": e.qualified_name, "attributes": dict(e.attributes)} for e in found[:limit]
    ]
    last = found[limit - 1] if len(found) > limit else None
    return {"items": items, "next": None if last is None else cursors.write([last.type, last.qualified_name])}


def audit(view: View, limit: int = 100, cursor: str | None = None) -> Json:
    """Newest first."""
    cursors = Cursors(view.service.secret, "audit")
    before = cursors.read(cursor)
    found = view.catalog.audit.list(limit + 1, None if before is None else before[0])
    items = [
        {"at": one.at, "who": one.who, "action": one.action, "status": one.status, "target": one.target}
        for one in found[:limit]
    ]
    return {"items": items, "next": cursors.write([found[limit - 1].number]) if len(found) > limit else None}
