"""Lineage, difference and impact."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from whence.serve.answers.diff import diff as compare
from whence.serve.answers.impact import impact as after
from whence.serve.answers.impact import impact_csv as after_csv
from whence.serve.answers.lineage import lineage_text
from whence.serve.api import parameters as p
from whence.serve.api import routes
from whence.serve.api import shapes as s
from whence.serve.api.replies import reply, reply_bytes
from whence.serve.api.routes import answers, view_of

router = routes.router()


@router.get("/lineage", responses=answers(s.LineageShape, 404, 409))
def lineage(request: Request, asked: Annotated[p.LineageAsked, Query()]) -> Response:
    """The graph behind a dataset, after it, or both, nearest first."""
    return reply_bytes(request, lineage_text(view_of(request), **asked.model_dump()), "application/json")


@router.get("/diff", responses=answers(s.DiffShape, 404, 409))
def diff(request: Request, asked: Annotated[p.DiffAsked, Query()]) -> Response:
    """How the lineage behind a dataset, or all of it, differs between two times."""
    return reply(request, compare(view_of(request), **asked.model_dump()))


_CSV: dict[str, Any] = {"content": {"text/csv": {"schema": {"type": "string"}}}}


@router.get("/impact", responses=answers(s.Items[s.ImpactItem], 404, 409, **_CSV))
def impact(request: Request, asked: Annotated[p.ImpactAsked, Query()]) -> Response:
    """All that is after a dataset or a column, by degree."""
    given = asked.model_dump()
    if given.pop("format") == "csv":
        del given["limit"], given["cursor"]
        body = after_csv(view_of(request), **given).encode("utf-8", "replace")
        return reply_bytes(request, body, "text/csv; charset=utf-8")
    return reply(request, after(view_of(request), **given))
