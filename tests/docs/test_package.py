from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import whence

ROOT = Path(__file__).resolve().parents[2]


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "whence/py.typed" in names
    source = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "whence").rglob("*.py")}
    assert source <= set(names)
    assert {name.split("/")[0] for name in names} == {"whence", f"whence-{whence.__version__}.dist-info"}


def test_what_is_published_is_in_order(built: tuple[Path, Path]) -> None:
    pytest.importorskip("twine", reason="twine, which checks what is published, is not installed here")
    check = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    with tarfile.open(built[0]) as sdist:
        tops = {name.split("/")[1] for name in sdist.getnames() if name.count("/") > 1}
    assert tops <= {"src", "tests", "docs", "examples", "scripts", "bench", "ui", ".ci"}


def test_the_wheel_forces_little(wheel: Path) -> None:
    """PySpark is the platform's, and each heavy package has an extra; docs/versions.md says so."""
    archive = zipfile.ZipFile(wheel)
    folder = f"whence-{whence.__version__}.dist-info"
    told = Parser().parsestr(archive.read(f"{folder}/METADATA").decode())
    forced = {line.split(">")[0] for line in told.get_all("Requires-Dist", []) if "extra ==" not in line}
    assert forced == {"pyarrow", "numpy", "sqlalchemy", "alembic", "rich"}
    assert {"spark", "connect", "cli", "pandas", "serve", "java"} <= set(told.get_all("Provides-Extra", []))
    assert "whence = whence.serve.start:main" in archive.read(f"{folder}/entry_points.txt").decode()


def test_import_brings_little() -> None:
    code = "import sys, whence; print(*sorted({name.split('.')[0] for name in sys.modules} - sys.stdlib_module_names))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    brought = [name for name in done.stdout.split() if not name.startswith(("_", "site"))]
    assert brought == ["whence"]
