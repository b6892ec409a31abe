"""The application: routes, how problems are told, and the gate in front."""

from __future__ import annotations

import logging
import re
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from whence.model import StoreError, WhenceError
from whence.serve.api import access, bodies, catalog, events, graphs, traces
from whence.serve.api.gate import Gate, Settings
from whence.serve.api.page import add_page
from whence.serve.api.replies import problem_reply, reply
from whence.serve.api.shapes import ProblemShape
from whence.serve.problems import Problem, invalids
from whence.serve.view import Service
from whence.version import __version__

log = logging.getLogger("whence.serve")
PREFIX = "/api/v1"
DESCRIPTION = """Runs, datasets and the lineage between them; traces down to rows. An address of the page is the
API's without `/api/v1`."""
_FAMILIES = (catalog.router, graphs.router, traces.router, events.router, access.router)


def create_app(service: Service, settings: Settings | None = None) -> Gate:
    app = FastAPI(title="whence", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.service = service
    _tell_problems(app)
    api = APIRouter(prefix=PREFIX, dependencies=[Depends(given_once)])
    for family in _FAMILIES:
        api.include_router(family)
    app.include_router(api)

    @app.get("/health", include_in_schema=False)
    def health(request: Request) -> Response:
        service.copy.counted()
        return reply(request, {"status": "ok", "version": __version__})

    @app.get("/openapi.json", include_in_schema=False)
    def openapi(request: Request) -> Response:
        return reply(request, described(app))

    gate = app.state.gate = Gate(app, service, settings or Settings())

    @app.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        return Response(gate.metrics.told(), media_type="text/plain; version=0.0.4; charset=utf-8")

    add_page(app)
    return gate


async def given_once(request: Request) -> None:
    names = [name for name, _ in request.query_params.multi_items()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise invalids([(name, "is given more than once") for name in twice])


def described(app: FastAPI) -> dict[str, Any]:
    """OpenAPI 3.1 of everything under /api/v1."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
        schemas = found.setdefault("components", {}).setdefault("schemas", {})
        schemas.pop("HTTPValidationError", None)
        schemas.pop("ValidationError", None)
        shape = ProblemShape.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update({**shape.pop("$defs", {}), **bodies.schemas()})
        schemas["Problem"] = shape
        found["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "whence"},
        }
        found["security"] = [{"token": []}, {"cookie": []}, {}]
        app.openapi_schema = found
    return app.openapi_schema


def _tell_problems(app: FastAPI) -> None:
    @app.exception_handler(Problem)
    async def problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return problem_reply(error)

    @app.exception_handler(RequestValidationError)
    async def wrong(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return problem_reply(invalids([_told(one) for one in error.errors()]))

    @app.exception_handler(HTTPException)
    async def plain(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        details = {404: "There is nothing at this address.", 405: "This address does not know this method."}
        told = Problem(error.status_code, details.get(error.status_code, "The request cannot be answered."))
        told.headers.update(error.headers or {})
        if error.status_code == 405:
            told.headers["Allow"] = ", ".join(_methods(app, request.scope["path"]))
        return problem_reply(told)

    @app.exception_handler(StoreError)
    async def away(request: Request, error: Exception) -> Response:
        log.warning("the store did not answer: %s", error)
        return problem_reply(Problem(503, "The store cannot be reached at the moment."))

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> Response:
        return problem_reply(Problem(500, "This question could not be answered."))

    @app.exception_handler(WhenceError)
    async def refused(request: Request, error: Exception) -> Response:
        log.warning("a question failed: %s", error)
        return problem_reply(Problem(500, "This question could not be answered."))


def _methods(app: FastAPI, path: str) -> list[str]:
    """Every method that this address knows."""
    found: set[str] = set()
    for template, methods in described(app)["paths"].items():
        if re.fullmatch(re.sub(r"\\{\w+\\}", ".+", re.escape(template)), path, re.DOTALL):
            found |= {method.upper() for method in methods}
    return sorted(found) or ["GET"]


def _told(error: Any) -> tuple[str, str]:
    place = ".".join(str(part) for part in error["loc"][1:]) or str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        return place, "is not a parameter of this question"
    return place, str(error["msg"]).removeprefix("Value error, ")
