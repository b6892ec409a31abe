"""A Spark session whose own chatter goes to a file instead of the story."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def spark(folder: Path) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    log = folder / "spark.log"
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("whence demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    )
    try:
        with _stderr_to(log):  # the JVM keeps the standard error it is born with
            session = builder.getOrCreate()
    except Exception:
        print(f"Spark did not start. It says:\n{log.read_text(errors='replace')[-4000:]}", file=sys.stderr)
        raise
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
