"""What the routes have in common."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends
from starlette.requests import Request

from whence.serve.problems import invalids
from whence.serve.view import Service, View

PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_REASONS = {
    400: "The body is not JSON.",
    401: "There is no valid token.",
    403: "The caller has no right to this.",
    404: "There is none, or the caller does not see it.",
    409: "Several datasets go by this name.",
    413: "The body is too large.",
    415: "The body is not application/json.",
    421: "The Host is not this server's.",
    422: "A parameter is missing, unknown or wrong, or the question costs too much.",
    429: "Too many requests.",
    503: "The store cannot be reached.",
}
_ALWAYS = (401, 403, 421, 422, 429, 503)


def answers(model: Any, *statuses: int, success: int = 200, **more: Any) -> dict[int | str, dict[str, Any]]:
    """The description of a route's replies."""
    found: dict[int | str, dict[str, Any]] = {success: {"description": "The answer.", **more}}
    if model is not None:
        found[success]["model"] = model
    if success == 200:
        found[304] = {"description": "Nothing changed since the answer of that ETag."}
    for status in sorted({*_ALWAYS, *statuses}):
        found[status] = {"description": _REASONS[status], "content": PROBLEM}
    return found


def router() -> APIRouter:
    return APIRouter()


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def view_of(request: Request) -> View:
    return service_of(request).view(request.scope["whence.caller"])


async def _no_parameters(request: Request) -> None:
    if request.query_params:
        raise invalids([(name, "is not a parameter of this question") for name in request.query_params])


NO_PARAMETERS = [Depends(_no_parameters)]
