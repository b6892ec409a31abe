"""Servers for the tests: the real application over a real store, asked in this process, and as a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.testclient import TestClient

from whence.model import COMPLETED, FAILED, Run
from whence.model.lineage import DIRECT, INDIRECT, Change, ColumnLink, Link, Observation, Seen
from whence.serve.api import create_app
from whence.serve.api.gate import Settings
from whence.serve.rights.access import parse_access
from whence.serve.rights.oidc import Oidc
from whence.serve.view import Service
from whence.store import Store
from whence.store.catalog import Catalog

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
COLUMNS = (("id", "int"), ("amount", "double"))


def hour(number: float) -> datetime:
    return NOON + timedelta(hours=number)


def write(
    catalog: Catalog,
    number: int,
    sources: list[str],
    target: str,
    how: str = "overwrite",
    status: str = COMPLETED,
    namespace: str = "ns",
    links: list[tuple[str, str]] | None = None,
) -> str:
    """A run at that hour reads and writes tables; columns of one name are linked, and id filters every column."""
    run = Run(
        f"run-{number}", "query", f"save {target}", status, f"cannot write {target}" if status == FAILED else None,
        hour(number), hour(number + 0.1), "app", {"sql": f"INSERT INTO {target}"},
    )  # fmt: skip
    seen = tuple(Seen(namespace, name, "table", COLUMNS) for name in (*sources, target))
    last = len(sources)
    pairs = [("id", "id"), ("amount", "amount")] if links is None else links
    columns = [ColumnLink(place, a, last, b, DIRECT, "IDENTITY") for place in range(last) for a, b in pairs] + [
        ColumnLink(place, "id", last, "*", INDIRECT, "FILTER") for place in range(last)
    ]
    catalog.record(
        Observation(
            run, seen, (Change(last, how),), tuple(Link(place, last, "write") for place in range(last)), tuple(columns)
        )
    )
    return run.id


def fill(catalog: Catalog) -> None:
    """orders -> totals -> report -> out; cities -> report; out's newest run failed."""
    write(catalog, 1, ["shop.orders"], "shop.totals")
    write(catalog, 2, ["shop.totals", "geo.cities"], "shop.report")
    write(catalog, 3, ["shop.report"], "shop.out")
    write(catalog, 4, ["shop.report"], "shop.out", status=FAILED)


@dataclass
class Api:
    client: TestClient
    store: Store
    token: str | None = None

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> Any:
        told = dict(headers or {})
        if self.token is not None and not {h.lower() for h in told} & {"authorization", "cookie"}:
            told["Authorization"] = f"Bearer {self.token}"
        path = path if path.startswith(("/api", "/health", "/metrics", "/openapi")) or more.pop("raw", False) else (
            f"/api/v1{path}"
        )  # fmt: skip
        return self.client.request(method, path, headers=told, follow_redirects=False, **more)

    def get(self, path: str, headers: dict[str, str] | None = None, **params: Any) -> Any:
        return self.ask("GET", path, headers, params=params or None)

    def ok(self, path: str, **params: Any) -> Any:
        found = self.get(path, **params)
        assert found.status_code == 200, found.text
        return found.json()

    def items(self, path: str, **params: Any) -> list[Any]:
        """Every item of a list, page by page."""
        found, cursor = [], None
        while True:
            page = self.ok(path, **params, **({} if cursor is None else {"cursor": cursor}))
            found += page["items"]
            cursor = page["next"]
            if cursor is None:
                return found

    def post(self, path: str, body: Any, **more: Any) -> Any:
        return self.ask("POST", path, json=body, **more)

    def named(self, token: str | None) -> Api:
        return Api(self.client, self.store, token)


Serving = Callable[..., Api]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """Makes a server: `serving()` without authentication, `serving(access=...)` with tokens and policies."""
    with ExitStack() as stack:

        def make(
            access: str | dict[str, Any] | None = None, auth: str = "none", rate: float = 0, store: Any = None
        ) -> Api:
            held = Store.at(store or tmp_path / "store")
            given = yaml.safe_load(access) if isinstance(access, str) else access
            rights = parse_access(given)
            settings = Settings(
                "token" if access is not None else auth, rate, Oidc(rights.oidc) if rights.oidc else None
            )
            app = create_app(Service(held, rights.policies), settings)
            client = stack.enter_context(
                TestClient(app, base_url="http://127.0.0.1:8420", raise_server_exceptions=False)
            )
            stack.callback(held.close)
            return Api(client, held)

        yield make


@pytest.fixture
def api(serving: Serving) -> Api:
    """A server without authentication over the small catalogue of `fill`."""
    made = serving()
    fill(made.store.catalog)
    return made


def token(api: Api, name: str, role: str = "reader") -> Api:
    _, text = api.store.catalog.tokens.create(name, role)
    return api.named(text)


@dataclass
class Process:
    process: subprocess.Popen[str]
    line: str
    url: str


@contextmanager
def whence_serve(*words: str, env: dict[str, str] | None = None) -> Iterator[Process]:
    """`whence serve` as users start it, at a free port."""
    command = [sys.executable, "-m", "whence.serve.cli", "serve", "--port", "0", *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"(http://\S+)$", line)
        assert found, line + (process.stderr.read() if process.stderr else "")
        yield Process(process, line, found[1])
    finally:
        process.kill()
        process.communicate()
