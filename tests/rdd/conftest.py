from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from whence.rdd import LineageContext


@pytest.fixture
def lc(spark: SparkSession, tmp_path: Path) -> LineageContext:
    """A context without a session around it, which would be attached and closed for every test."""
    return LineageContext(spark.sparkContext, str(tmp_path / "store"))
