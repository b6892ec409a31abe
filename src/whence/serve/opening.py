"""The server listens at once; what answers questions is imported and opened meanwhile, in a thread.

Standard library and whence's own light modules only: every import here is time until the first answer.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from typing import Any

from whence.model import StoreError
from whence.serve.rights.access import is_loopback
from whence.store.location import DATABASE_FILE, StoreLocation
from whence.version import __version__


class Opening:
    """An ASGI application that becomes another one when that is ready."""

    def __init__(self, location: StoreLocation, make: Callable[[], Any]) -> None:
        self._location = location
        self._make = make
        self._made: Future[Any] = Future()
        self.app: Any = None
        self.error: BaseException | None = None
        self.failed: Callable[[], None] = lambda: None
        """Called when it cannot be opened."""

    def begin(self) -> None:
        threading.Thread(target=self._open, name="whence-opening", daemon=True).start()

    def _open(self) -> None:
        try:
            made = self._make()
        except BaseException as error:
            self.error = error
            self._made.set_exception(error)
            self.failed()
            return
        self.app = made
        self._made.set_result(made)
        try:
            made.service.warm()
        except Exception:  # whoever asks first will be told
            return

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.app is None:
            if scope["type"] == "http" and scope["path"] == "/health" and scope["method"] == "GET" and _is_here(scope):
                await self._health(send)
                return
            try:
                await asyncio.shield(asyncio.wrap_future(self._made))
            except Exception:
                await _away(send)
                return
        await self.app(scope, receive, send)

    async def _health(self, send: Any) -> None:
        try:
            await asyncio.to_thread(look, self._location)
        except StoreError:
            await _away(send)
            return
        await _send(send, 200, {"status": "ok", "version": __version__}, "application/json")


def look(location: StoreLocation) -> None:
    """Whether the store can be read, without SQLAlchemy."""
    try:
        if location.directory is None:
            import psycopg

            url = "postgresql://" + location.url.partition("://")[2]
            with psycopg.connect(url, connect_timeout=5) as connection:
                connection.execute("SELECT 1")
            return
        file = location.directory / DATABASE_FILE
        if file.exists():
            with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=5)) as connection:
                connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall()
    except ImportError as error:
        raise StoreError(
            f"The store {location} needs the PostgreSQL driver: pip install 'whence[postgres]' ({error})"
        ) from error
    except Exception as error:
        raise StoreError(
            f"The store {location} cannot be opened: {str(error).strip().partition(chr(10))[0]}"
        ) from error


def _is_here(scope: Any) -> bool:
    """Hosts of other names are the gate's business."""
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    return is_loopback(host.rpartition(":")[0] or host)


async def _away(send: Any) -> None:
    told = {"type": "about:blank", "title": "Service Unavailable", "status": 503}
    body = {**told, "detail": "The store cannot be reached at the moment."}
    await _send(send, 503, body, "application/problem+json")


async def _send(send: Any, status: int, body: dict[str, Any], media: str) -> None:
    text = json.dumps(body).encode()
    headers = [(b"content-type", media.encode()), (b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
