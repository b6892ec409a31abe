"""Where a list goes on: the key of the last item given, signed for the one list it belongs to."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from whence.serve.problems import invalid

_MAC = 12


class Cursors:
    """`about` names the list: its path and its filters."""

    def __init__(self, secret: bytes, *about: object) -> None:
        self._key = hashlib.sha256(secret + json.dumps(about, default=str).encode()).digest()

    def write(self, key: list[Any]) -> str:
        body = json.dumps(key, separators=(",", ":")).encode()
        return urlsafe_b64encode(self._mac(body) + body).decode().rstrip("=")

    def read(self, text: str | None) -> list[Any] | None:
        if text is None:
            return None
        try:
            held = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        except (ValueError, UnicodeEncodeError):
            held = b""
        if len(held) <= _MAC or not hmac.compare_digest(self._mac(held[_MAC:]), held[:_MAC]):
            raise invalid("cursor", "this cursor was not given by this list")
        found = json.loads(held[_MAC:])
        return list(found)

    def _mac(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")[:_MAC]
