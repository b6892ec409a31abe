"""Writes docs/cli.md from the commands' own --help. `--check` only says whether the page is up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from whence.serve.cli import app

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
HEAD = """# The command line

Written by `make docs` from each command's `--help`; a test holds that it is up to date.
"""


def paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from paths(command.get_command(None, name), (*path, name))


def page() -> str:
    runner = CliRunner()
    parts = [HEAD]
    for path in paths(get_command(app)):
        said = runner.invoke(app, [*path, "--help"], prog_name="whence", env={"COLUMNS": "80"}, catch_exceptions=False)
        text = "\n".join(line.rstrip() for line in said.output.strip().splitlines())
        parts.append(f"## {' '.join(('whence', *path))}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == page() else "docs/cli.md is out of date: run make docs")
    PAGE.write_text(page())
