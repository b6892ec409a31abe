from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence


def test_closed_session_says_so(spark: SparkSession, tmp_path: Path) -> None:
    session = whence.attach(spark, store=tmp_path)
    session.close()
    session.close()
    with pytest.raises(whence.SessionClosed, match="closed"):
        _ = session.spark


def test_import_brings_no_pyspark() -> None:
    code = "import sys, whence; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
