"""A Python for executors that has all packages of this one but whence, as on a cluster of somebody else's."""

from __future__ import annotations

import sys
import venv
from pathlib import Path


def make(home: Path) -> Path:
    """A virtual environment whose packages are links to those of this one; the path of its interpreter."""
    home = home / "executor-python"
    venv.create(home, with_pip=False, symlinks=True)
    (packages,) = (home / "lib").glob("python*/site-packages")
    for folder in [Path(p) for p in sys.path if p.endswith("site-packages")]:
        for package in folder.iterdir():
            if not package.name.startswith(("whence", "__editable__", "__pycache__")) and package.suffix != ".pth":
                (packages / package.name).symlink_to(package)
    # A driver's PYTHONPATH names whence's sources and reaches the workers that its own machine starts.
    python = home / "python"
    python.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec {home / "bin" / "python"} -s "$@"\n')
    python.chmod(0o755)
    return python
