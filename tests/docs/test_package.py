from __future__ import annotations

import zipfile
from pathlib import Path

import whence

ROOT = Path(__file__).resolve().parents[2]


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "whence/py.typed" in names
    source = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "whence").rglob("*.py")}
    assert source <= set(names)
    assert {name.split("/")[0] for name in names} == {"whence", f"whence-{whence.__version__}.dist-info"}
