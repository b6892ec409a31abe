"""The gate in front of the application: who asks, how often, and with which right; what is written into the audit."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from anyio import to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whence.model import StoreError
from whence.model.redact import redact
from whence.serve.api.metrics import Metrics
from whence.serve.api.replies import HEADERS, problem_reply
from whence.serve.problems import Problem
from whence.serve.rights.access import is_loopback
from whence.serve.rights.callers import ADMIN, EDITOR, LOCAL, READER, Caller
from whence.serve.view import Service

log = logging.getLogger("whence.serve")
API = "/api/v1/"
COOKIE = "whence"
_NEEDS = {
    ("POST", "/api/v1/lineage"): EDITOR,
    ("POST", "/api/v1/traces"): EDITOR,
    ("GET", "/api/v1/audit"): ADMIN,
    ("GET", "/metrics"): ADMIN,
}
_SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Settings:
    auth: str = "none"
    rate: float = 0.0
    oidc: Any = None


@dataclass
class _Bucket:
    left: float
    at: float


@dataclass
class Rates:
    """A bucket for each caller, which fills up with so many requests a second."""

    rate: float
    held: OrderedDict[str, _Bucket] = field(default_factory=OrderedDict)

    def wait(self, who: str) -> float:
        """Seconds until this caller may ask; 0 is now."""
        if self.rate <= 0:
            return 0.0
        now, most = time.monotonic(), max(self.rate, 1.0)
        bucket = self.held.pop(who, None) or _Bucket(most, now)
        self.held[who] = bucket
        if len(self.held) > 10_000:
            self.held.popitem(last=False)
        bucket.left = min(most, bucket.left + (now - bucket.at) * self.rate)
        bucket.at = now
        if bucket.left >= 1:
            bucket.left -= 1
            return 0.0
        return (1 - bucket.left) / self.rate


class Gate:
    def __init__(self, app: ASGIApp, service: Service, settings: Settings) -> None:
        self.app = app
        self.service = service
        self.settings = settings
        self.metrics = Metrics()
        self._rates = Rates(settings.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 500

        async def told(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._guard(scope, receive, told)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            if scope["path"].startswith(API) and not route.startswith(API):
                route = API.rstrip("/") + route if route.startswith("/") else route
            self.metrics.count(scope["method"], route, status, time.perf_counter() - began)

    async def _guard(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._open(scope, receive, send)
        except Problem as problem:
            await self._tell(problem, scope, receive, send)
        except StoreError as error:
            log.warning("the store did not answer: %s", error)
            await self._tell(Problem(503, "The store cannot be reached at the moment."), scope, receive, send)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method, headers = scope["path"], scope["method"], Headers(scope=scope)
        if self.settings.auth == "none" and not is_loopback(_host(headers.get("host", ""))):
            raise Problem(421, "This server answers only to its own name: ask it as localhost or 127.0.0.1.")
        guarded = path.startswith(API) or path in ("/api/v1", "/metrics", "/openapi.json")
        if not guarded:
            await self.app(scope, receive, send)
            return
        scope["whence.caller"] = caller = await self._caller(scope, headers, path, method)
        wait = self._rates.wait(caller.name if caller else "")
        if wait:
            problem = Problem(429, "Too many requests: wait a moment.")
            problem.headers["Retry-After"] = str(max(1, round(wait + 0.5)))
            raise problem
        needed = _NEEDS.get((method, path), READER)
        if caller is not None and not caller.may(needed):
            raise Problem(403, f"This needs the role {needed}.")
        await self._pass(scope, receive, send)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = 500
        began = False

        async def told(message: Message) -> None:
            nonlocal status, began
            if message["type"] == "http.response.start":
                status, began = message["status"], True
                held = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    held.setdefault(name, value)
                await self._audit(scope, status)
            await send(message)

        try:
            await self.app(scope, receive, told)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a question failed")
            if not began:
                await self._tell(Problem(500, "This question could not be answered."), scope, receive, send)

    async def _tell(self, problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
        response = problem_reply(problem)
        response.headers.update(HEADERS)
        await self._audit(scope, problem.status)
        await response(scope, receive, send)

    # --- who asks

    async def _caller(self, scope: Scope, headers: Headers, path: str, method: str) -> Caller | None:
        if self.settings.auth == "none":
            return LOCAL
        cookie = cookie_of(headers)
        signs_in = (method, path) == ("POST", "/api/v1/session")
        if signs_in:
            _require_same_origin(headers, strict=False)
            return None
        given = headers.get("authorization")
        if given is not None:
            scheme, _, text = given.partition(" ")
            caller = await to_thread.run_sync(self.bearer, text.strip()) if scheme.lower() == "bearer" else None
        elif cookie is not None:
            caller = await to_thread.run_sync(self._by_cookie, cookie)
        else:
            caller = None
        if caller is None:
            raise unauthorized()
        if given is None and method not in _SAFE:
            scope["whence.caller"] = caller
            _require_same_origin(headers, strict=True)
        return caller

    def bearer(self, text: str) -> Caller | None:
        found = self.service.catalog.tokens.bearer(text)
        if found is not None:
            return Caller(found.name, found.role)
        if self.settings.oidc is not None:
            caller: Caller | None = self.settings.oidc.caller(text)
            return caller
        return None

    def _by_cookie(self, text: str) -> Caller | None:
        found = self.service.catalog.tokens.cookie(text)
        return None if found is None else Caller(found.name, found.role)

    # --- what is written down

    async def _audit(self, scope: Scope, status: int) -> None:
        method, path = scope["method"], scope["path"]
        reads_rows = method == "GET" and path.startswith(API + "traces/") and path.endswith("/rows")
        if method in _SAFE and not reads_rows and status not in (401, 403):
            return
        caller = scope.get("whence.caller")
        who = caller.name if caller is not None else scope.get("whence.who")
        target = scope.get("whence.target")
        action = f"{method} {redact(path)[:500]}"
        try:
            await to_thread.run_sync(self.service.catalog.audit.add, who, action, status, target)
        except StoreError as error:
            log.warning("the audit could not be written: %s", error)


def unauthorized() -> Problem:
    problem = Problem(401, "This needs a valid token: Authorization: Bearer ...")
    problem.headers["WWW-Authenticate"] = "Bearer"
    return problem


def _host(text: str) -> str:
    return urlsplit(f"//{text}").hostname or "" if "@" not in text else ""


def cookie_of(headers: Headers) -> str | None:
    try:
        held = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return held.value if held is not None else None


def _require_same_origin(headers: Headers, strict: bool) -> None:
    """A browser says from which page a request comes; another site must not use the caller's cookie."""
    origin = headers.get("origin")
    if origin is None and not strict:
        return
    if origin is None or urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
        raise Problem(403, "This request comes from another site.")
