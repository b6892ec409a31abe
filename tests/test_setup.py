"""scripts/setup_venv.py: uv is told what pip is told here, or is left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from scripts import setup_venv

CONFIG = """:env:.find-links='/opt/wheels /opt/more'
:env:.disable-pip-version-check='1'
global.cert='/etc/ssl/certs/ca-certificates.crt'
global.index-url='https://packages.example.com/simple'
install.extra-index-url='\\nhttps://one.example.com/simple\\nhttps://two.example.com/simple'
global.timeout='180'
"""


def test_what_pip_is_told_is_told_to_uv() -> None:
    assert setup_venv.told_to_uv(CONFIG) == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "/opt/wheels,/opt/more",
        "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt",
        "UV_DEFAULT_INDEX": "https://packages.example.com/simple",
        "UV_INDEX": "https://one.example.com/simple https://two.example.com/simple",
        "UV_HTTP_TIMEOUT": "180",
    }
    assert setup_venv.told_to_uv("") == {"UV_INDEX_STRATEGY": "unsafe-best-match"}


@pytest.mark.parametrize("line", ["global.proxy='http://p'", "install.constraint='c.txt'", ":env:.no-index='1'"])
def test_what_uv_has_no_word_for_leaves_the_work_to_pip(line: str) -> None:
    assert setup_venv.told_to_uv(CONFIG + line) is None


@pytest.mark.parametrize(
    ("broken", "said"), [("config", []), ("install", []), ("uv", ["uv could not install it, so pip does; uv said: no"])]
)
def test_where_uv_fails_pip_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, said: list[str]
) -> None:
    """A python whose pip and uv do nothing, and of which one fails."""
    for name in ("python", "uv"):
        program = tmp_path / name
        fails = f'[ "{name}" = uv ]' if broken == "uv" else f'[ "$3" = "{broken}" ]'
        program.write_text(f"#!/bin/sh\nif {fails}; then echo no >&2; exit 1; fi\n")
        program.chmod(0o755)
    told: list[str] = []
    monkeypatch.setattr(setup_venv, "say", told.append)
    monkeypatch.delenv("WHENCE_UV", raising=False)
    assert not setup_venv.by_uv(tmp_path / "python", ["whence"])
    assert told == said
    (tmp_path / "python").write_text("#!/bin/sh\n")
    (tmp_path / "uv").write_text("#!/bin/sh\n")
    assert setup_venv.by_uv(tmp_path / "python", ["whence"])
    monkeypatch.setenv("WHENCE_UV", "no")
    assert not setup_venv.by_uv(tmp_path / "python", ["whence"])


def test_it_says_what_it_takes() -> None:
    told = subprocess.run([sys.executable, setup_venv.__file__, "--help"], capture_output=True, text=True, check=True)
    assert "WHENCE_UV=no" in told.stdout
