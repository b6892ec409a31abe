"""OpenLineage events, types and entities."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from whence.serve.answers import events as found
from whence.serve.answers import others
from whence.serve.api import bodies, routes
from whence.serve.api import parameters as p
from whence.serve.api import shapes as s
from whence.serve.api.replies import reply
from whence.serve.api.routes import NO_PARAMETERS, answers, view_of

router = routes.router()


@router.post(
    "/lineage",
    status_code=201,
    responses=answers(s.Accepted, 400, 413, 415, success=201),
    dependencies=NO_PARAMETERS,
    openapi_extra=bodies.described(bodies.EVENTS),
)
async def take(request: Request) -> Response:
    """OpenLineage run events, one or a list of them: all are taken, or none."""
    events = bodies.events_of(await bodies.body_of(request))
    request.scope["whence.target"] = f"{len(events)} events"
    count = await to_thread.run_sync(lambda: found.take(view_of(request), events))
    return reply(request, {"accepted": count}, 201)


@router.get("/events", responses=answers(s.Items[s.EventShape]))
def events(request: Request, asked: Annotated[p.EventsAsked, Query()]) -> Response:
    """The runs as OpenLineage events, oldest first."""
    return reply(request, found.events(view_of(request), **asked.model_dump()))


@router.get("/types", responses=answers(s.Items[s.TypeShape]))
def types(request: Request, asked: Annotated[p.Paged, Query()]) -> Response:
    """The types of entities."""
    return reply(request, others.types(view_of(request), **asked.model_dump()))


@router.get("/entities", responses=answers(s.Items[s.EntityShape]))
def entities(request: Request, asked: Annotated[p.EntitiesAsked, Query()]) -> Response:
    """Entities, for callers who see everything."""
    return reply(request, others.entities(view_of(request), **asked.model_dump()))
