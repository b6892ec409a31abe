"""Spark's daemon that forks Python workers, with what they import already there.

A task that fails ends its worker, and tests of failures are many: each new one would import PySpark again, and pandas
where it is used. A process with threads must not fork, so these libraries are told to start none. After each task
Spark's worker collects garbage: what is imported here is left out of that.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"

for name in ("pyspark.worker", "numpy", "pandas", "pyarrow", "pyspark.sql.pandas.serializers"):
    with contextlib.suppress(ImportError):  # what is not installed, no worker needs
        importlib.import_module(name)

if __name__ == "__main__":
    tasks = Path("/proc/self/task")
    if not tasks.exists() or len(list(tasks.iterdir())) > 1:
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    from pyspark.daemon import manager

    gc.freeze()
    manager()
