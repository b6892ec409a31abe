"""A real browser (Debian's chromium) over a real `whence serve`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import catalogue
import pytest
from watching import Server, Watched, start, stop

from whence.serve.api.page import BUILT


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
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def watched(browser: Any, server: Server) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    one = Watched(context.new_page(), server.url)
    yield one
    context.close()
    assert one.errors == []
    assert one.strangers == []
