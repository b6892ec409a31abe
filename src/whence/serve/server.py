"""Starts and stops the server."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn

from whence.serve.opening import Opening

STOP_SECONDS = 4
WORKERS = 4
"""Threads that answer: more would only wait for each other."""


class Server(uvicorn.Server):
    """Says where it listens; SIGTERM and SIGINT end what is under way, and then it, without an error."""

    def __init__(self, config: uvicorn.Config, store: str, app: Opening) -> None:
        super().__init__(config)
        self._store = store
        self._app = app

    async def startup(self, sockets: Any = None) -> None:
        from anyio import to_thread

        to_thread.current_default_thread_limiter().total_tokens = WORKERS
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            self._app.begin()
            print(f"whence serves {self._store} at http://{shown}:{port}", flush=True)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.stop)
        yield

    def stop(self) -> None:
        self.should_exit = True


def serve(app: Opening, host: str, port: int, store: str) -> int:
    """Until it is told to stop; the exit code."""
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,  # addresses hold names, and may hold what somebody put there by mistake
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=STOP_SECONDS,
        timeout_keep_alive=30,
    )
    sys.setswitchinterval(0.001)  # a small question is not kept waiting by a large one that is computed
    server = Server(config, store, app)
    app.failed = server.stop
    server.run()
    if app.error is not None:
        print(f"whence: {app.error}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    if server.started:
        with suppress(Exception):
            app.app.service.store.close()
        os._exit(0 if app.error is None else 1)  # a question that goes on in a thread must not hold up the end
    return 1
