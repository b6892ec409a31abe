"""Lineage, difference and impact."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from whence.serve.answers.lineage import lineage as walk
from whence.serve.api import parameters as p
from whence.serve.api import routes
from whence.serve.api import shapes as s
from whence.serve.api.replies import reply
from whence.serve.api.routes import answers, view_of

router = routes.router()


@router.get("/lineage", responses=answers(s.LineageShape, 404, 409))
def lineage(request: Request, asked: Annotated[p.LineageAsked, Query()]) -> Response:
    """The graph behind a dataset, after it, or both, nearest first."""
    return reply(request, walk(view_of(request), **asked.model_dump()))
