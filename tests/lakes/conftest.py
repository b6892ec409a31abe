"""Delta and Iceberg in one Spark session, of a release that both link with: `make test-lakes`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pyspark
import pytest
from pyspark.sql import SparkSession

import maven

# What Delta 4.4.0 is made of beside its main jar.
_BESIDE_DELTA = tuple(
    f"io.delta:delta-{name}:4.4.0" for name in ("storage", "kernel-api", "kernel-defaults", "kernel-unitycatalog")
)
# By release of Spark; delta-spark names what it needs beside, but Spark's own jars come with PySpark.
JARS = {
    "3.5": (
        "io.delta:delta-spark_2.12:3.3.3",
        "io.delta:delta-storage:3.3.3",
        "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0",
    ),
    "4.0": (
        "io.delta:delta-spark_2.13:4.0.1",
        "io.delta:delta-storage:4.0.1",
        "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
    ),
    "4.1": (
        "io.delta:delta-spark_4.1_2.13:4.4.0",
        *_BESIDE_DELTA,
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    ),
    "4.2": ("io.delta:delta-spark_4.2_2.13:4.4.0", *_BESIDE_DELTA),
}
RELEASE = pyspark.__version__.rsplit(".", 1)[0]
HAS_ICEBERG = any("iceberg" in name for name in JARS.get(RELEASE, ()))
EXTENSIONS = [
    "io.delta.sql.DeltaSparkSessionExtension",
    *(["org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"] if HAS_ICEBERG else []),
]
SETTINGS = {
    "spark.sql.extensions": ",".join(EXTENSIONS),
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if HAS_ICEBERG:
        return
    for item in items:
        if "iceberg" in getattr(getattr(item, "callspec", None), "params", {}).values():
            item.add_marker(pytest.mark.skip(reason=f"there is no Iceberg for Spark {RELEASE}"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    if RELEASE not in JARS:
        pytest.skip(f"Delta and Iceberg are tried with Spark {', '.join(JARS)}, this is {RELEASE}: make test-lakes")
    try:
        jars = [path for name in JARS[RELEASE] for path in maven.jars(name, alone=True)]
    except maven.Unavailable as reason:
        pytest.skip(f"the jars of Delta and Iceberg cannot be had: {reason}")
    sys.path.append(str(jars[0]))  # Delta's own Python is in there
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = tmp_path_factory.mktemp("spark")
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("whence-lakes")
        .config("spark.ui.enabled", "false")
        .config("spark.jars", ",".join(map(str, jars)))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.sql.catalog.ice.warehouse", str(home / "ice"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
    )
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    if HAS_ICEBERG:
        session.sql("CREATE NAMESPACE IF NOT EXISTS ice.shop")
    yield session
    session.stop()


@pytest.fixture
def ansi(spark: SparkSession) -> Iterator[None]:
    """What cannot be cast is an error, as it is by itself since Spark 4."""
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    yield
    spark.conf.set("spark.sql.ansi.enabled", before)
