"""What the programs on the cluster share: a session with dynamic allocation, whose executors' Python lacks whence."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "640m",
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def started(master: str, python: str, home: Path, **more: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = python
    builder: Any = SparkSession.builder.master(master).appName(home.name)
    for name, value in {**CONF, "spark.sql.warehouse.dir": str(home / "warehouse"), **more}.items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.sparkContext.addPyFile(__file__)  # functions that run on executors use what stands below
    return spark


def once(mark: str) -> bool:
    """True for the first process that asks, whichever it is."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def kill_this_executor() -> None:
    """The JVM that started this worker's daemon, and with it all that its machine had."""
    status = Path(f"/proc/{os.getppid()}/status").read_text()
    os.kill(int(next(line for line in status.splitlines() if line.startswith("PPid:")).split()[1]), 9)
