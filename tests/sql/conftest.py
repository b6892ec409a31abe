from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

# Compiling and re-planning pays off on data; on a few rows it is most of the time. Other tests run as users do.
TINY = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}


@pytest.fixture(scope="module")
def tiny(spark: SparkSession) -> Iterator[SparkSession]:
    """The suite's session, set for many queries over a few rows."""
    before = {name: spark.conf.get(name, None) for name in TINY}
    for name, value in TINY.items():
        spark.conf.set(name, value)
    yield spark
    for name, old in before.items():
        if old is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, old)
