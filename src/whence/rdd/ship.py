"""Executors need whence's worker modules. Where they would not find them, the package travels with the job."""

from __future__ import annotations

import os
import site
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark import cloudpickle as _cloudpickle

from whence.version import __version__

_PACKAGE = Path(__file__).parents[1]
_ZIP = f"whence-{__version__}.zip"


def ship(spark: SparkContext) -> None:
    local = str(spark.master).startswith("local[") or spark.master == "local"
    if local and spark.pythonExec == sys.executable:
        found = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), *site.getsitepackages()]
        if any(p and Path(p).resolve() == _PACKAGE.parent for p in found):
            return
    if getattr(spark, "_whence_shipped", False):  # Spark refuses a second file of the same name
        return
    path = Path(tempfile.mkdtemp(prefix="whence-")) / _ZIP
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(_PACKAGE.rglob("*.py")):
            packed.write(file, file.relative_to(_PACKAGE.parent))
    spark.addPyFile(str(path))
    spark._whence_shipped = True  # type: ignore[attr-defined]


cloudpickle: Any = _cloudpickle


class _Carried:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpack, (_ZIP, cloudpickle.dumps(self.value))


def carried(value: Any) -> bytes:
    """Pickled for executors that may lack whence, in the place of something that was made before whence was shipped:
    a function of PySpark's keeps the list of files it needs."""
    this = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(this)
    try:
        data: bytes = cloudpickle.dumps(_Carried(value))
    finally:
        cloudpickle.unregister_pickle_by_value(this)
    return data


def _unpack(name: str, data: bytes) -> Any:
    import importlib.util
    import pickle
    import sys

    if importlib.util.find_spec("whence") is None:
        from pyspark import SparkFiles

        sys.path.insert(0, SparkFiles.get(name))
        importlib.invalidate_caches()
    return pickle.loads(data)
