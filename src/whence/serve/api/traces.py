"""Traces and diagnoses."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from whence.serve.answers import others
from whence.serve.answers import traces as found
from whence.serve.api import bodies, routes
from whence.serve.api import parameters as p
from whence.serve.api import shapes as s
from whence.serve.api.replies import reply
from whence.serve.api.routes import NO_PARAMETERS, answers, view_of

router = routes.router()


@router.get("/traces", responses=answers(s.Items[s.TraceShape]))
def traces(request: Request, asked: Annotated[p.Paged, Query()]) -> Response:
    """Saved traces and questions that were asked here, newest first."""
    return reply(request, found.traces(view_of(request), **asked.model_dump()))


@router.get("/traces/{id}", responses=answers(s.TraceShape, 404), dependencies=NO_PARAMETERS)
def trace(request: Request, id: str) -> Response:
    """One trace."""
    return reply(request, found.trace(view_of(request), id))


@router.get("/traces/{id}/rows", responses=answers(s.RowsShape, 404))
def rows(request: Request, id: str, asked: Annotated[p.RowsAsked, Query()]) -> Response:
    """The first witness rows of one source of a trace."""
    request.scope["whence.target"] = f"trace {id}, source {asked.source}"
    return reply(request, found.rows(view_of(request), id, **asked.model_dump()))


@router.post(
    "/traces",
    status_code=202,
    responses=answers(s.TraceShape, 400, 404, 409, 413, 415, success=202),
    dependencies=NO_PARAMETERS,
    openapi_extra=bodies.described(bodies.ASKING),
)
async def ask(request: Request) -> Response:
    """Ask about rows: the next session that is attached to the store takes the question."""
    asked = bodies.checked(bodies.ASKING, await bodies.body_of(request))
    request.scope["whence.target"] = f"{asked.question} of {asked.name}"
    to = (asked.to.namespace, asked.to.name) if isinstance(asked, bodies.TwoDatasets) else None

    def work() -> Response:
        view = view_of(request)
        made = found.ask(view, asked.question, asked.name, asked.namespace, asked.where, to, asked.limit)
        return reply(request, made, 202, {"Location": f"/api/v1/traces/{made['id']}"})

    return await to_thread.run_sync(work)


@router.get("/diagnoses", responses=answers(s.Items[s.DiagnosisShape]))
def diagnoses(request: Request, asked: Annotated[p.Paged, Query()]) -> Response:
    """Saved diagnoses, newest first."""
    return reply(request, others.diagnoses(view_of(request), **asked.model_dump()))


@router.get("/diagnoses/{id}", responses=answers(s.DiagnosisShape, 404), dependencies=NO_PARAMETERS)
def diagnosis(request: Request, id: str) -> Response:
    """One diagnosis."""
    return reply(request, others.diagnosis(view_of(request), id))


@router.get("/diagnoses/{id}/runs", responses=answers(s.Items[s.OutcomeShape], 404))
def diagnosis_runs(request: Request, id: str, asked: Annotated[p.Paged, Query()]) -> Response:
    """The runs that told a diagnosis: settings and whether they succeeded, those that failed first."""
    return reply(request, others.diagnosis_runs(view_of(request), id, **asked.model_dump()))
