"""Every example in README.md and docs/ is run. A page is one program: its Python blocks share their names, in order.

A ```text block right after a Python block is what that block prints. A block that cannot be run here says so to the
reader, in its first line: `# not run: <reason>`. Shell lines that start with `whence` are run as they stand, by the
command of an installed wheel.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"# not run: \w.*")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int
    start: int
    end: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 2, m.start(), m.end()) for m in FENCE.finditer(text)]


def skipped(block: Block) -> bool:
    return NOT_RUN.match(block.text) is not None


def programs() -> list[Path]:
    return [page for page in PAGES if any(b.language == "python" and not skipped(b) for b in blocks(page))]


def commands() -> list[str]:
    found = []
    for page in PAGES:
        for block in blocks(page):
            if block.language in {"sh", "shell", "bash", "console"} and not skipped(block):
                lines = (line.removeprefix("$ ").strip() for line in block.text.splitlines())
                found += [line for line in lines if line.split(" ")[0] == "whence"]
    return sorted(set(found))


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder in which a page runs: Python's working directory, and Spark's for relative paths."""
    monkeypatch.chdir(tmp_path)
    hadoop = spark._jvm.org.apache.hadoop.fs
    system = hadoop.FileSystem.get(spark._jsc.hadoopConfiguration())
    before = system.getWorkingDirectory()
    system.setWorkingDirectory(hadoop.Path(str(tmp_path)))
    yield tmp_path
    system.setWorkingDirectory(before)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("page", programs(), ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run(page: Path, spark: SparkSession) -> None:
    for table in spark.catalog.listTables():  # a page starts with a session of its own, as its reader does
        (spark.catalog.dropTempView(table.name) if table.isTemporary else spark.sql(f"DROP TABLE {table.name}"))
    names: dict[str, object] = {"spark": spark, "__name__": "__main__"}
    text = page.read_text()
    found = blocks(page)
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block.language != "python" or skipped(block):
            continue
        printed = io.StringIO()
        code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, names)
        if following and following.language == "text" and not text[block.end : following.start].strip():
            assert _trimmed(printed.getvalue()) == _trimmed(following.text), f"{page.name}:{following.line}"


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


@pytest.mark.parametrize("command", commands())
def test_documented_commands_run(
    command: str, installed: Path, user_environment: dict[str, str], tmp_path: Path
) -> None:
    name, *arguments = shlex.split(command, comments=True)
    call = [installed / name, *arguments]
    if arguments[0] == "serve":  # which answers until it is told to end
        with subprocess.Popen(call, cwd=tmp_path, env=user_environment, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            first = server.stdout.readline()
            server.terminate()
            assert server.wait(timeout=30) == 0
        assert "http://" in first
        return
    done = subprocess.run(call, cwd=tmp_path, env=user_environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert done.stdout.strip()
    if command == "whence demo":
        assert "WiFi-HotSpot/4.0" in done.stdout
        assert not list(tmp_path.iterdir())  # nothing is left behind


def test_a_block_is_left_out_only_with_a_reason() -> None:
    for page in PAGES:
        for block in blocks(page):
            if "not run" in block.text.split("\n", 1)[0]:
                assert skipped(block), f"{page.name}:{block.line} says no reason"


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name} -> {link}"
