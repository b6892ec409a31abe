"""The wheel, installed into a clean environment outside the repository, tells the demo's story."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import whence

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed here")
    folder = tmp_path_factory.mktemp("dist")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder, ROOT]
    subprocess.run(pip, check=True)
    return next(folder.glob("whence-*.whl"))


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "whence/py.typed" in names
    source = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src" / "whence").rglob("*.py")}
    assert source <= set(names)
    assert {name.split("/")[0] for name in names} == {"whence", f"whence-{whence.__version__}.dist-info"}


def test_demo_runs_from_the_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    pip = [sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install", "--quiet", "--no-deps", wheel]
    subprocess.run(pip, check=True)
    # The dependencies are borrowed from here by path; whence itself must be the wheel's, which comes first.
    packages = next((home / "lib").glob("python*/site-packages"))
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")

    env = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "PYTHONHOME"}}
    where = [home / "bin" / "python", "-c", "import whence; print(whence.__file__)"]
    assert subprocess.run(where, cwd=tmp_path, env=env, check=True, capture_output=True, text=True).stdout.startswith(
        str(packages)
    )
    kept = tmp_path / "kept"
    done = subprocess.run(
        [home / "bin" / "whence", "demo", "--keep", kept],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WiFi-HotSpot/4.0" in done.stdout
    assert done.stderr == ""
    assert (kept / "logs").is_dir()
