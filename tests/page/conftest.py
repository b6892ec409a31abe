"""A real browser (Debian's chromium) over a real `whence serve`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import catalogue
from whence.serve.api.page import BUILT

ROOT = Path(__file__).resolve().parents[2]


def missing() -> str | None:
    """What these tests need and is not here."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "the package playwright is not installed (make test-page installs it)"
    if chromium() is None:
        return "there is no chromium (apt install chromium)"
    if not (BUILT / "index.html").exists():
        return "the page is not built (node and npm are needed: see ui/)"
    return None


def chromium() -> str | None:
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    why = missing() if here else None
    for item in here if why else ():
        item.add_marker(pytest.mark.skip(reason=f"tests of the page: {why}"))


@dataclass
class Server:
    url: str
    process: subprocess.Popen[str]


def start(folder: Path, *options: str) -> Server:
    command = [sys.executable, "-m", "whence.serve.cli", "serve", "--store", str(folder), "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "http://" in line, f"the server did not start: {line!r}"
    return Server(line.split()[-1].rstrip("/"), process)


def stop(server: Server) -> None:
    server.process.terminate()
    server.process.wait(10)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page") / "store"
    catalogue.make(folder)
    return folder


@pytest.fixture(scope="session")
def server(store: Path) -> Iterator[Server]:
    running = start(store)
    yield running
    stop(running)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield found
        found.close()


@dataclass
class Watched:
    """A page with what it should never do: log errors, or ask anybody but its server."""

    page: Any
    base: str
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url: str) -> None:
        if not url.startswith((self.base, "blob:" + self.base)):
            self.strangers.append(url)

    def open(self, address: str) -> Any:
        self.page.goto(self.base + address)
        return self.page

    def graph(self, address: str) -> Any:
        """Opens an address with a graph, and waits until it is laid out."""
        self.open(address)
        return self.laid_out()

    def laid_out(self) -> Any:
        from playwright.sync_api import expect

        region = self.page.get_by_role("region", name="Lineage graph")
        expect(region).to_have_attribute("aria-busy", "false")
        return region

    def dataset(self, name: str) -> Any:
        return self.page.get_by_role("button", name=name, exact=True)


@pytest.fixture
def watched(browser: Any, server: Server) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    one = Watched(context.new_page(), server.url)
    yield one
    context.close()
    assert one.errors == []
    assert one.strangers == []
