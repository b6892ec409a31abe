"""whence as a user has it: the wheel, installed into a clean environment outside the repository."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """sdist and wheel, as `make dist` makes them."""
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed here")
    dist = runpy.run_path(str(ROOT / "scripts" / "dist.py"))
    sdist, wheel = dist["build"](tmp_path_factory.mktemp("dist") / "made")
    return sdist, wheel


@pytest.fixture(scope="session")
def wheel(built: tuple[Path, Path]) -> Path:
    return built[1]


@pytest.fixture(scope="session")
def user_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "PYTHONHOME"}}


@pytest.fixture(scope="session")
def installed(wheel: Path, user_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that has the command `whence`."""
    home = tmp_path_factory.mktemp("user") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    pip = [sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install", "--quiet", "--no-deps", wheel]
    subprocess.run(pip, check=True)
    # The dependencies are borrowed from here by path; whence itself must be the wheel's, which comes first.
    packages = next((home / "lib").glob("python*/site-packages"))
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = [home / "bin" / "python", "-c", "import whence; print(whence.__file__)"]
    found = subprocess.run(where, cwd=home, env=user_environment, check=True, capture_output=True, text=True).stdout
    assert found.startswith(str(packages))
    return home / "bin"
