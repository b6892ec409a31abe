"""Signing in and out, and the audit."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated

from anyio import to_thread
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from whence.serve.answers import others
from whence.serve.api import bodies, routes
from whence.serve.api import parameters as p
from whence.serve.api import shapes as s
from whence.serve.api.gate import COOKIE, Gate, cookie_of, unauthorized
from whence.serve.api.replies import reply
from whence.serve.api.routes import NO_PARAMETERS, answers, view_of
from whence.store.tokens import COOKIE_HOURS, Bearer

router = routes.router()


@router.get("/audit", responses=answers(s.Items[s.AuditShape]))
def audit(request: Request, asked: Annotated[p.Paged, Query()]) -> Response:
    """Who wrote, who read rows, and who was turned away; newest first, for admins."""
    return reply(request, others.audit(view_of(request), **asked.model_dump()))


@router.post(
    "/session",
    status_code=204,
    responses=answers(None, 400, 413, 415, success=204),
    dependencies=NO_PARAMETERS,
    openapi_extra={**bodies.described(bodies.SIGN_IN), "security": []},
)
async def sign_in(request: Request) -> Response:
    """A cookie for a token."""
    token = bodies.checked(bodies.SIGN_IN, await bodies.body_of(request)).token
    gate: Gate = request.app.state.gate
    response = Response(status_code=204)
    if gate.settings.auth == "none":
        return response

    def work() -> str | None:
        tokens = gate.service.catalog.tokens
        bearer = tokens.bearer(token)
        if bearer is not None:
            request.scope["whence.who"] = bearer.name
            return tokens.make_cookie(bearer, tokens.expiry(bearer))
        caller = gate.bearer(token)
        if caller is None or gate.settings.oidc is None:
            return None
        request.scope["whence.who"] = caller.name
        expires = datetime.fromtimestamp(gate.settings.oidc.expiry(token), timezone.utc)
        return tokens.make_cookie(Bearer(caller.name, caller.role, None), expires)

    value = await to_thread.run_sync(work)
    if value is None:
        raise unauthorized()
    secure = request.url.scheme == "https"
    response.set_cookie(
        COOKIE, value, max_age=COOKIE_HOURS * 3600, httponly=True, samesite="strict", secure=secure, path="/"
    )
    return response


@router.delete("/session", status_code=204, responses=answers(None, success=204), dependencies=NO_PARAMETERS)
def sign_out(request: Request) -> Response:
    """The cookie is worth nothing any more."""
    gate: Gate = request.app.state.gate
    value = cookie_of(request.headers)
    if value is not None and gate.settings.auth != "none":
        gate.service.catalog.tokens.end_cookie(value)
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return response
