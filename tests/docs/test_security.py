"""docs/security.md names every file of whence that turns bytes into code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "whence"
BRINGS_TO_LIFE = re.compile(
    r"pickle\.loads?\(|marshal\.loads?\(|import_module\(|__import__\(|(?<![\w.])(?:eval|exec)\(|\.readObject\(|"
    r"StructType\.fromJson\(|fromDDL\(|yaml\.(?:load|unsafe_load|full_load)\(|URLClassLoader|\.addJar\(|shelve\.|joblib"
)
# Whose schema comes out of the running JVM.
IN_MEMORY = {"sql/pyfunctions.py"}


def _found() -> list[str]:
    files = [*SOURCES.rglob("*.py"), *SOURCES.rglob("*.java")]
    return sorted(str(f.relative_to(SOURCES)) for f in files if BRINGS_TO_LIFE.search(f.read_text(encoding="utf-8")))


def test_there_are_such_files() -> None:
    assert {"actors/store.py", "debug/guard/findings_worker.py", "spark/files.py"} <= set(_found())


@pytest.mark.parametrize("file", [f for f in _found() if f not in IN_MEMORY])
def test_each_is_on_the_list(file: str) -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = f"`{file}`" in page or (file.endswith("__init__.py") and "`__init__.py` files" in page)
    assert named, f"{file} turns bytes into code: say in docs/security.md how that is held."
