"""The site is built as `make site` builds it: strictly, and so that a reader's browser asks nobody else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed here (the extra `site`)")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Loaded(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        if tag == "link" and held.get("rel") in {"canonical", "next", "prev"}:
            return
        self.addresses += [value for value in (held.get(LOADS.get(tag, "")),) if value]


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert loaded.addresses
        assert [a for a in loaded.addresses if re.match(r"(https?:)?//", a)] == [], page.name
    for style in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        assert not re.search(r"url\([\"']?(https?:)?//|@import", style.read_text(encoding="utf-8")), style.name


def test_every_public_method_has_its_place_in_the_reference(site: Path) -> None:
    session = (site / "reference" / "session.html").read_text(encoding="utf-8")
    for method in ("backward", "forward", "why_not", "guard", "capture", "close"):
        assert f'id="whence.session.Session.{method}"' in session
    trace = (site / "reference" / "trace.html").read_text(encoding="utf-8")
    assert "sources()" not in trace  # computed once, and read like an attribute
    assert 'id="whence.debug.trace.Trace.sources"' in trace
    assert "_leg" not in session + trace  # what is not public is not shown


def test_notebooks_are_shown_with_what_they_printed(site: Path) -> None:
    for name in ("strange_total", "crashing_job", "settings_sweep"):
        page = (site / "examples" / f"{name}.html").read_text(encoding="utf-8")
        assert "with what it printed" in page
    assert "Kiel" in (site / "examples" / "strange_total.html").read_text(encoding="utf-8")
