"""Executors need whence's worker modules. Where they would not find them, the package travels with the job."""

from __future__ import annotations

import os
import site
import tempfile
import zipfile
from pathlib import Path

from pyspark import SparkContext

from whence.version import __version__

_PACKAGE = Path(__file__).parents[1]


def ship(spark: SparkContext) -> None:
    if str(spark.master).startswith("local[") or spark.master == "local":
        found = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), *site.getsitepackages()]
        if any(p and Path(p).resolve() == _PACKAGE.parent for p in found):
            return
    if getattr(spark, "_whence_shipped", False):  # Spark refuses a second file of the same name
        return
    path = Path(tempfile.mkdtemp(prefix="whence-")) / f"whence-{__version__}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(_PACKAGE.rglob("*.py")):
            packed.write(file, file.relative_to(_PACKAGE.parent))
    spark.addPyFile(str(path))
    spark._whence_shipped = True  # type: ignore[attr-defined]
