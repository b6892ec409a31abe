"""Replies: JSON with an ETag of what is given, compressed when asked for; problems as RFC 9457 has them."""

from __future__ import annotations

import hashlib
import zlib
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from whence.serve.jsons import dumps
from whence.serve.problems import Problem

try:  # a fifth of zlib's time; where there is no wheel of it, zlib will do
    from isal import igzip
except ImportError:
    igzip = None  # type: ignore[assignment,unused-ignore]

HEADERS = {"Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie", "X-Content-Type-Options": "nosniff"}
_LEAST_GZIP = 700


def reply(request: Request, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return reply_bytes(request, dumps(value), "application/json", status, headers)


def reply_bytes(
    request: Request, body: bytes, media: str, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    told = dict(headers or {})
    if request.method == "GET" and status == 200:
        # of what this caller is given, and of nothing else
        tag = f'W/"{hashlib.blake2b(body, digest_size=15).hexdigest()}"'
        told["ETag"] = tag
        if _matches(request.headers.get("if-none-match"), tag):
            return Response(status_code=304, headers=told)
    if len(body) >= _LEAST_GZIP and _accepts_gzip(request.headers.get("accept-encoding", "")):
        body = _packed(body)
        told["Content-Encoding"] = "gzip"
    return Response(body, status, told, media)


def _packed(body: bytes) -> bytes:
    if igzip is not None:
        return bytes(igzip.compress(body, 1))
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(body) + packer.flush()


def problem_reply(problem: Problem) -> Response:
    return Response(dumps(problem.body), problem.status, problem.headers, "application/problem+json")


def _matches(asked: str | None, tag: str) -> bool:
    if asked is None:
        return False
    plain = tag.removeprefix("W/")
    return asked.strip() == "*" or any(one.strip().removeprefix("W/") == plain for one in asked.split(","))


def _accepts_gzip(asked: str) -> bool:
    for one in asked.lower().split(","):
        name, _, weight = one.partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
