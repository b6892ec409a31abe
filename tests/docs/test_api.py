"""Every public method and option stands in docs/api.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_of_methods_is_up_to_date() -> None:
    checked = subprocess.run([sys.executable, str(ROOT / "scripts" / "api_docs.py"), "--check"], check=False)
    assert checked.returncode == 0, "run `make docs`"


def test_what_the_page_must_say() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for call in (
        "backward(asked, *, where=None, columns=None, through=True)",
        "forward(rows, *, to=None, where=None)",
        "exclude(df=None, *, source=None, at=None)",
        "sources",
        "widened",
        "goBackAll(source=None)",
    ):
        assert f"`{call}`" in page
