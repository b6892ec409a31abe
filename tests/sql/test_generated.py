"""A handful of seeds of `make fuzz`; every case that was found wrong once stands in the tests of its room."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import whence
from fuzz import sql_queries
from fuzz.__main__ import one_round

COUNT = 10


@pytest.mark.parametrize("number", [1, 2])
def test_generated_queries(tiny: SparkSession, w: whence.Session, tmp_path: Path, number: int) -> None:
    sql_queries.prepared(tiny)
    tally = sql_queries.Tally()
    one_round(w, tmp_path, number, COUNT, tally)
    assert tally.exact + tally.widened + tally.refused == COUNT
    assert tally.exact >= COUNT // 2
