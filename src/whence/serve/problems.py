"""What goes wrong with a question: RFC 9457's fields, and for the command line a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from whence.model import WhenceError

TYPES = "urn:whence:problem:"


class Problem(WhenceError):
    def __init__(self, status: int, detail: str, type: str | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.type = TYPES + (type or HTTPStatus(status).phrase.lower().replace(" ", "-"))
        self.more = more
        self.headers: dict[str, str] = {}

    @property
    def body(self) -> dict[str, Any]:
        title = HTTPStatus(self.status).phrase
        return {"type": self.type, "title": title, "status": self.status, "detail": self.detail, **self.more}


def invalid(parameter: str, detail: str) -> Problem:
    return invalids([(parameter, detail)])


def invalids(errors: Sequence[tuple[str, str]]) -> Problem:
    told = [{"parameter": parameter, "detail": detail} for parameter, detail in errors]
    detail = "; ".join(f"{parameter}: {why}" for parameter, why in errors[:5])
    return Problem(422, detail or "The request cannot be understood.", errors=told)


def not_found(what: str) -> Problem:
    return Problem(404, what)


def too_costly(detail: str) -> Problem:
    return Problem(422, detail, "too-costly", errors=[])


def forbidden(detail: str) -> Problem:
    return Problem(403, detail)
